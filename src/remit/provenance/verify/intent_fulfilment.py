"""Rules on intents: RMT018 (a constraint does not hold) and RMT006 (a closed intent lacks evidence for a criterion).

A criterion with a command needs a passed run of the command, recorded under the intent after the last change. A
criterion in words needs a record of a person closing the intent.
"""

from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any, TypeAlias

from msgspec import Struct

from remit.core.diff.edits import ProposedFile
from remit.core.display_text import sanitise_line
from remit.core.intent import Criterion, Intent
from remit.core.record import KEY
from remit.core.secrets.redaction import redact
from remit.ledger.index.index import Index
from remit.policy.checks.constraints.breach import ProposedChange
from remit.policy.checks.constraints.evaluate import describe_breach, find_all_breaches
from remit.provenance.verify.rules import Document, RuleFinding, body_of, make_finding
from remit.provenance.verify.verdict_coverage import find_undone_paths
from remit.workspace.contents.content_store import ContentStore

LoadIntents: TypeAlias = Callable[[str], dict[str, Intent]]
"""Return the intents in the intents file of that hash."""

BY_PERSON = "person"


class FileOutcome(Struct):
    """First and last blob of one file, None for no file, and the records that changed it."""

    first: str | None
    last: str | None
    records: tuple[str, ...]


class BrokenConstraint(Struct, frozen=True):
    """A broken constraint. `path` is empty if it concerns all files; `records` changed them."""

    message: str
    path: str
    records: tuple[str, ...]


def find_broken_constraints(intent: Intent, index: Index, store: ContentStore) -> Iterator[BrokenConstraint]:
    """Yield every constraint that the changes under the intent break together. Unavailable contents are not checked."""
    undone = find_undone_paths(index.iterate_records(event="restore", intent_id=intent.id))
    outcomes = collect_outcomes(index.iterate_records(event="mutation", intent_id=intent.id), undone)
    changed = {path: outcome for path, outcome in outcomes.items() if outcome.first != outcome.last}
    contents = store.load_many(
        dict.fromkeys(b for outcome in changed.values() for b in (outcome.first, outcome.last) if b)
    )
    files = tuple(
        ProposedFile(
            path,
            contents.get(outcome.first or ""),
            contents.get(outcome.last or ""),
            not outcome.last or outcome.last in contents,
        )
        for path, outcome in changed.items()
    )
    all_records = tuple(record for outcome in changed.values() for record in outcome.records)
    for constraint, breach in find_all_breaches(
        intent, ProposedChange(files, tuple(changed), tuple(changed), is_final=True)
    ):
        records = changed[breach.path].records if breach.path in changed else all_records
        yield BrokenConstraint(describe_breach(intent.id, constraint, breach), breach.path or "", records)


def collect_outcomes(documents: Iterable[dict[str, Any]], undone: Container[tuple[str, str]]) -> dict[str, FileOutcome]:
    """Return the outcome of these records (oldest first) per file. Changes that were undone after their call do not
    count.
    """
    outcomes: dict[str, FileOutcome] = {}
    for document in documents:
        body: dict[str, Any] = document["metadata"][KEY]
        call = str(body.get("call", {}).get("id", ""))
        for file in body.get("files", []):
            if (call, str(file["path"])) in undone:
                continue
            before, after = (file.get(side, {}).get("git_blob") for side in ("before", "after"))
            outcome = outcomes.get(str(file["path"]))
            records = (*(outcome.records if outcome else ()), str(document["id"]))
            outcomes[str(file["path"])] = FileOutcome(outcome.first if outcome else before, after, records)
    return outcomes


def find_unmet_criteria(
    index: Index, load_intents: LoadIntents, wanted: Container[str] | None
) -> Iterator[RuleFinding]:
    """Yield RMT006 for criteria without evidence in the `wanted` closed intents, or in every closed one."""
    for intent_id, closing in find_closings(index).items():
        if wanted is not None and intent_id not in wanted:
            continue
        # The newest recorded version of the intent; None if the intents file of that time is gone.
        newest = index.find(event="intent_changed", intent_id=intent_id, limit=1)
        known = load_intents(str(body_of(newest[0]).get("content_sha256"))) if newest else {}
        intent = known.get(intent_id)
        if intent is None:
            continue
        runs = runs_for_intent(index, intent_id)
        for criterion in intent.acceptance_criteria:
            if reason := missing_evidence(criterion, runs, str(body_of(closing).get("by"))):
                message = (
                    f"{intent_id} was closed without evidence for {sanitise_line(criterion.text, 120)!r}: {reason}"
                )
                yield make_finding("RMT006", message, record=str(closing["id"]), intent_id=intent_id)


def find_closings(index: Index) -> dict[str, Document]:
    """Return the closing record of each intent whose last transition was to DONE."""
    last_transitions: dict[str, Document] = {}
    for document in index.iterate_records(event="intent_transition"):
        last_transitions[str(body_of(document).get("intent_id"))] = document
    return {
        intent_id: document for intent_id, document in last_transitions.items() if body_of(document).get("to") == "DONE"
    }


def runs_for_intent(index: Index, intent_id: str) -> dict[str, tuple[bool, bool]]:
    """Return for each command run under the intent: whether the last run passed, and whether no change followed."""
    runs: dict[str, tuple[bool, bool]] = {}
    for document in index.iterate_records(intent_id=intent_id):
        body = body_of(document)
        if body.get("event") == "verification":
            runs[str(body.get("command"))] = (body.get("exit_code") == 0, True)
        elif body.get("event") == "mutation":
            runs = {command: (passed, False) for command, (passed, _) in runs.items()}
    return runs


def missing_evidence(criterion: Criterion, runs: dict[str, tuple[bool, bool]], by: str) -> str:
    """Return the reason why a criterion lacks evidence; empty if evidence exists."""
    if criterion.verify is None:
        return "" if by == BY_PERSON else f"it names no command, and {sanitise_line(by, 60)} alone said that it is met"
    run = runs.get(criterion.verify) or runs.get(redact(criterion.verify))
    if run is None:
        return f"{sanitise_line(criterion.verify, 120)!r} was never run"
    passed, is_current = run
    if not passed:
        return f"{sanitise_line(criterion.verify, 120)!r} failed the last time"
    return (
        ""
        if is_current
        else f"{sanitise_line(criterion.verify, 120)!r} passed before the last change, and was not run again"
    )
