"""How well the effects of calls are seen here: what is looked at, and what had no verdict before it changed."""

from datetime import UTC, datetime

from remit.core.text import shown
from remit.gate.gate import Gate
from remit.gate.state_file import StateError
from remit.gate.watched import watched
from remit.ledger.index import Index
from remit.ledger.moments import moment
from remit.ledger.segments import LedgerError
from remit.provenance.verify.coverage import coverage
from remit.wiring.checkup import Check


def effects_checks(gate: Gate) -> list[Check]:
    """Both, for a repository that is governed."""
    return [watching_check(gate), coverage_check(gate)]


def watching_check(gate: Gate) -> Check:
    """Whether a comparison costs what changed, or what there is."""
    try:
        found = watched(gate.state)
    except StateError as error:
        return Check("fail", "watching", str(error))
    if found is None:
        return Check("ok", "watching", "no daemon has watched here yet: each comparison looks at everything")
    if not found.why:
        return Check("ok", "watching", f"only what changes is looked at; {found.folders} folders are watched")
    said = f"the next comparison looks at everything: {found.why}"
    return Check("warn" if found.ended else "ok", "watching", said)


def coverage_check(gate: Gate) -> Check:
    """How much of what changed in the last week was judged before it changed."""
    workspace = gate.workspace
    week = moment("7d", datetime.fromtimestamp(gate.environment.clock(), UTC))
    try:
        with Index.open(workspace.state / "index.db", workspace.log_folder) as index:
            index.catch_up()
            found = coverage(index, since=week)
    except (LedgerError, OSError) as error:
        return Check("fail", "coverage", str(error))
    share = found.overall
    said = f"{share.judged} of {share.changed} files that changed this week were judged before"
    if not found.changes:
        return Check("ok", "coverage", said)
    newest = found.changes[0]
    likely = f", likely by {shown(newest.writers[0], 120)}" if newest.writers else ""
    return Check("warn", "coverage", f"{said}; newest not: {shown(newest.path, 80)}{likely}", "remit status --coverage")
