"""Whether an intent that was closed as DONE left evidence for each of its criteria: RMT006.

Evidence for a criterion with a command is a run of that command, recorded under the intent, that passed and came after
the last change; for one in words alone, a person's word: the record that a person closed the intent.
"""

from collections.abc import Callable, Container, Iterator
from typing import TypeAlias

from remit.core.intent import Criterion, Intent
from remit.core.redaction import redact
from remit.core.text import shown
from remit.ledger.index import Index
from remit.provenance.verify.rules import Document, Finding, body_of, finding

Intents: TypeAlias = Callable[[str], dict[str, Intent]]
"""The intents in the intents file of that hash."""

PERSON = "person"


def unproved(index: Index, intents: Intents, wanted: Container[str] | None) -> Iterator[Finding]:
    """The criteria without evidence of the closed intents: of the `wanted` ones, or of all."""
    for intent_id, closed in closings(index).items():
        if wanted is not None and intent_id not in wanted:
            continue
        intent = intent_at(index, intents, intent_id)
        if intent is None:
            continue
        runs = runs_under(index, intent_id)
        for criterion in intent.acceptance_criteria:
            if why := lacking(criterion, runs, str(body_of(closed).get("by"))):
                message = f"{intent_id} was closed without evidence for {shown(criterion.text, 120)!r}: {why}"
                yield finding("RMT006", message, record=str(closed["id"]), intent_id=intent_id)


def closings(index: Index) -> dict[str, Document]:
    """The record that closed each intent whose last transition was to DONE."""
    last: dict[str, Document] = {}
    for document in index.each(event="intent_transition"):
        last[str(body_of(document).get("intent_id"))] = document
    return {intent_id: document for intent_id, document in last.items() if body_of(document).get("to") == "DONE"}


def intent_at(index: Index, intents: Intents, intent_id: str) -> Intent | None:
    """The intent as its newest recorded version has it; None where that is not at hand."""
    newest = index.find(event="intent_changed", intent_id=intent_id, limit=1)
    return intents(str(body_of(newest[0]).get("content_sha256"))).get(intent_id) if newest else None


def runs_under(index: Index, intent_id: str) -> dict[str, tuple[bool, bool]]:
    """Of each command that was run for the intent: whether it passed the last time, and whether all was done then."""
    runs: dict[str, tuple[bool, bool]] = {}
    for document in index.each(intent_id=intent_id):
        body = body_of(document)
        if body.get("event") == "verification":
            runs[str(body.get("command"))] = (body.get("exit_code") == 0, True)
        elif body.get("event") == "mutation":
            runs = {command: (passed, False) for command, (passed, _) in runs.items()}
    return runs


def lacking(criterion: Criterion, runs: dict[str, tuple[bool, bool]], by: str) -> str:
    """Why nothing shows that the criterion is met; empty where something does."""
    if criterion.verify is None:
        return "" if by == PERSON else f"it names no command, and {shown(by, 60)} alone said that it is met"
    found = runs.get(criterion.verify) or runs.get(redact(criterion.verify))
    if found is None:
        return f"{shown(criterion.verify, 120)!r} was never run"
    passed, last = found
    if not passed:
        return f"{shown(criterion.verify, 120)!r} failed the last time"
    return "" if last else f"{shown(criterion.verify, 120)!r} passed before the last change, and was not run again"
