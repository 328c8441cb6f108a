"""Whether what was changed under an intent holds to its constraints: all recorded changes together, as they ended.

Whether an intent that was closed as DONE left evidence for each of its criteria: RMT006.

Evidence for a criterion with a command is a run of that command, recorded under the intent, that passed and came after
the last change; for one in words alone, a person's word: the record that a person closed the intent.
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
from remit.provenance.verify.coverage import find_undone_paths
from remit.provenance.verify.rules import Document, RuleFinding, body_of, make_finding
from remit.workspace.contents.content_store import ContentStore


class FileOutcome(Struct):
    """One file: the git name of what it held at first, and in the end; None for no file. `records` changed it."""

    first: str | None
    last: str | None
    records: tuple[str, ...]


class BrokenConstraint(Struct, frozen=True):
    """One constraint that is broken. `path` is empty where it is about all files; `records` changed them."""

    message: str
    path: str
    records: tuple[str, ...]


def find_broken_constraints(intent: Intent, index: Index, store: ContentStore) -> Iterator[BrokenConstraint]:
    """Every constraint of the intent that does not hold. A content that is not at hand is not looked into."""
    undone = find_undone_paths(index.iterate_records(event="restore", intent_id=intent.id))
    ended = collect_outcomes(index.iterate_records(event="mutation", intent_id=intent.id), undone)
    changed = {path: one for path, one in ended.items() if one.first != one.last}
    contents = store.load_many(dict.fromkeys(b for one in changed.values() for b in (one.first, one.last) if b))
    at: Callable[[str | None], bytes | None] = lambda blob: contents.get(blob) if blob else None  # noqa: E731
    files = tuple(
        ProposedFile(path, at(one.first), at(one.last), not one.last or one.last in contents)
        for path, one in changed.items()
    )
    every = tuple(record for one in changed.values() for record in one.records)
    for constraint, breach in find_all_breaches(
        intent, ProposedChange(files, tuple(changed), tuple(changed), is_final=True)
    ):
        records = changed[breach.path].records if breach.path in changed else every
        yield BrokenConstraint(describe_breach(intent.id, constraint, breach), breach.path or "", records)


def collect_outcomes(documents: Iterable[dict[str, Any]], undone: Container[tuple[str, str]]) -> dict[str, FileOutcome]:
    """What these records, the oldest first, made of each file; what was `undone` after its call made nothing of it."""
    found: dict[str, FileOutcome] = {}
    for document in documents:
        body: dict[str, Any] = document["metadata"][KEY]
        call = str(body.get("call", {}).get("id", ""))
        for file in body.get("files", []):
            if (call, str(file["path"])) in undone:
                continue
            before, after = (file.get(side, {}).get("git_blob") for side in ("before", "after"))
            known = found.get(str(file["path"]))
            records = (*(known.records if known else ()), str(document["id"]))
            found[str(file["path"])] = FileOutcome(known.first if known else before, after, records)
    return found


LoadIntents: TypeAlias = Callable[[str], dict[str, Intent]]
"""The intents in the intents file of that hash."""

BY_PERSON = "person"


def find_unmet_criteria(index: Index, intents: LoadIntents, wanted: Container[str] | None) -> Iterator[RuleFinding]:
    """The criteria without evidence of the closed intents: of the `wanted` ones, or of all."""
    for intent_id, closed in find_closings(index).items():
        if wanted is not None and intent_id not in wanted:
            continue
        intent = newest_intent(index, intents, intent_id)
        if intent is None:
            continue
        runs = runs_for_intent(index, intent_id)
        for criterion in intent.acceptance_criteria:
            if why := missing_evidence(criterion, runs, str(body_of(closed).get("by"))):
                message = f"{intent_id} was closed without evidence for {sanitise_line(criterion.text, 120)!r}: {why}"
                yield make_finding("RMT006", message, record=str(closed["id"]), intent_id=intent_id)


def find_closings(index: Index) -> dict[str, Document]:
    """The record that closed each intent whose last transition was to DONE."""
    last: dict[str, Document] = {}
    for document in index.iterate_records(event="intent_transition"):
        last[str(body_of(document).get("intent_id"))] = document
    return {intent_id: document for intent_id, document in last.items() if body_of(document).get("to") == "DONE"}


def newest_intent(index: Index, intents: LoadIntents, intent_id: str) -> Intent | None:
    """The intent as its newest recorded version has it; None where that is not at hand."""
    newest = index.find(event="intent_changed", intent_id=intent_id, limit=1)
    return intents(str(body_of(newest[0]).get("content_sha256"))).get(intent_id) if newest else None


def runs_for_intent(index: Index, intent_id: str) -> dict[str, tuple[bool, bool]]:
    """Of each command that was run for the intent: whether it passed the last time, and whether all was done then."""
    runs: dict[str, tuple[bool, bool]] = {}
    for document in index.iterate_records(intent_id=intent_id):
        body = body_of(document)
        if body.get("event") == "verification":
            runs[str(body.get("command"))] = (body.get("exit_code") == 0, True)
        elif body.get("event") == "mutation":
            runs = {command: (passed, False) for command, (passed, _) in runs.items()}
    return runs


def missing_evidence(criterion: Criterion, runs: dict[str, tuple[bool, bool]], by: str) -> str:
    """Why nothing shows that the criterion is met; empty where something does."""
    if criterion.verify is None:
        return "" if by == BY_PERSON else f"it names no command, and {sanitise_line(by, 60)} alone said that it is met"
    found = runs.get(criterion.verify) or runs.get(redact(criterion.verify))
    if found is None:
        return f"{sanitise_line(criterion.verify, 120)!r} was never run"
    passed, last = found
    if not passed:
        return f"{sanitise_line(criterion.verify, 120)!r} failed the last time"
    return (
        "" if last else f"{sanitise_line(criterion.verify, 120)!r} passed before the last change, and was not run again"
    )
