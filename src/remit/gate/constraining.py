"""What constraints ask for: what a call would leave in its files, and what the intent has changed before."""

import sqlite3
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.edits import Proposed
from remit.core.facts import Facts, Target
from remit.core.intent import Intent
from remit.gate.announced import contents_after
from remit.ledger.index import Index
from remit.ledger.segments import LedgerError
from remit.workspace.observe import Change, glance
from remit.workspace.place import Workspace

LINK = "120000"
"""Git's mode of a symbolic link."""

COUNTING = frozenset({"max_files", "require_test_change"})
"""Constraints that ask what the intent has changed before."""


def with_proposed(facts: Facts, call: ToolCall, workspace: Workspace) -> Facts:
    """The facts with what constraints ask for. Raises OSError, LedgerError."""
    intent = facts.active
    if intent is None:
        return facts
    changed = tuple(changed_by(intent.id, workspace)) if counts(intent) else ()
    return replace(facts, proposed=tuple(proposals(call, facts.targets, workspace)), changed=changed)


def broken_by(intent: Intent, changes: Iterable[Change]) -> dict[str, str]:
    """By path, in words, the constraints that a change broke by itself.

    Those about all that the intent changes are not looked at, and what cannot be looked into breaks nothing here.
    """
    # For those who have constraints: all kinds of them are loaded.
    from remit.policy.checks.constraints.breach import Situation
    from remit.policy.checks.constraints.judging import breaches, sentence

    found: dict[str, str] = {}
    for change in changes:
        situation = Situation(tuple(left_by(change)), (change.path,))
        told = [
            sentence(intent.id, constraint, breach)
            for constraint, breach in breaches(intent, situation)
            if breach.weight and not breach.remark and constraint.kind not in COUNTING
        ]
        if told:
            found[change.path] = " ".join(told)
    return found


def left_by(change: Change) -> Iterator[Proposed]:
    """What a change made of the content of its file, where both sides are at hand; of a link, nothing."""
    sides = [side for side in (change.before, change.after) if side is not None]
    if all(side.content is not None and side.version.mode != LINK for side in sides):
        before, after = change.before, change.after
        yield Proposed(change.path, before.content if before else None, after.content if after else None)


def counts(intent: Intent) -> bool:
    """Whether one of the intent's constraints is about all that it changes."""
    return any(constraint.kind in COUNTING for constraint in intent.rules)


def proposals(call: ToolCall, targets: Iterable[Target], workspace: Workspace) -> list[Proposed]:
    """What each file inside the workspace holds, and would."""
    inside = [t for t in targets if t.path is not None]
    seen = {str(t.path): glance(workspace.root / str(t.path)) for t in inside}
    before = {path: found.content if found else None for path, found in seen.items()}
    unkept = {path for path, found in seen.items() if found is not None and found.content is None}
    by_raw = {t.raw: str(t.path) for t in inside}
    if call.effect == "delete" and call.command is None:
        return [Proposed(path, content, None) for path, content in before.items()]
    after = contents_after(call, lambda raw: before.get(by_raw.get(raw, "")))
    return [
        Proposed(path, before[path], after.get(t.raw), t.raw in after and path not in unkept)
        for t, path in ((t, str(t.path)) for t in inside)
    ]


def changed_by(intent_id: str, workspace: Workspace) -> dict[str, str | None]:
    """The files that records of this intent changed, and the git name of what each held before the first of them.

    A file that is again as it was then is none: Remit undid the change, or somebody took it back. Raises OSError,
    LedgerError.
    """
    try:
        with Index.open(workspace.state / "index.db", workspace.log_folder) as index:
            index.catch_up()
            found = index.changed_under(intent_id)
    except sqlite3.Error as error:
        raise LedgerError(f"the index of the ledger cannot be asked: {error}") from error
    return {path: blob for path, blob in found.items() if blob_now(workspace, path) != blob}


def blob_now(workspace: Workspace, path: str) -> str | None:
    """The git name of what stands at a path; None where there is no file."""
    seen = glance(workspace.root / path)
    return seen.version.git_blob if seen is not None else None
