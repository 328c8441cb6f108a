"""Counts from the ledger: lines written by agents, tool calls, denials, approvals."""

from collections import Counter
from typing import Any

from msgspec import Struct

from remit.core.record import KEY
from remit.ledger.index.index import Filters, Index
from remit.provenance.blame.blame import model_of

MAX_ALLOWED_SHARE = 0.95
DECIDED_EVENTS = ("tool_use", "denied")
"""Events that occur once per call; later events repeat the decision."""
MIN_ANSWERS = 20
"""Answers below which no habit is inferred."""


class GroupFigures(Struct):
    """Figures of one agent, model or intent: `generated` lines were written, `accepted` reached a commit,
    `overridden` of those were replaced by lines of no known agent, `at_head` stand now.
    """

    generated: int = 0
    accepted: int = 0
    overridden: int = 0
    at_head: int = 0
    changes: int = 0
    calls: int = 0
    denied: int = 0


class GroupedFigures(Struct):
    """Figures by agent, model and intent, with the key `none` for a missing value."""

    agents: dict[str, GroupFigures]
    models: dict[str, GroupFigures]
    intents: dict[str, GroupFigures]

    def groups_of(
        self, agent: str | None, model: str | None, intent: str | None
    ) -> tuple[GroupFigures, GroupFigures, GroupFigures]:
        return (
            self.agents.setdefault(agent or "none", GroupFigures()),
            self.models.setdefault(model or "none", GroupFigures()),
            self.intents.setdefault(intent or "none", GroupFigures()),
        )


class ToolFigures(Struct):
    """Uses and duration of a tool: `mean_ms` is over the `timed` calls."""

    calls: int = 0
    timed: int = 0
    mean_ms: float = 0.0

    def add_duration(self, ms: float) -> None:
        self.timed += 1
        self.mean_ms += (ms - self.mean_ms) / self.timed


class ApprovalFigures(Struct):
    """Questions to people. `rate` is the share of approvals; None without answers."""

    asked: int = 0
    allowed: int = 0
    denied: int = 0
    rate: float | None = None
    too_many: bool = False
    """True if nearly every question was approved: a person who is asked too often stops reading."""


class RecordCounts(Struct):
    """Counts of the ledger. `origin` holds agent, model and intent of each selected change by id; `agents` are the
    ids of every agent's change.
    """

    groups: GroupedFigures
    events: Counter[str]
    verdicts: Counter[str]
    violations: Counter[str]
    tools: dict[str, ToolFigures]
    answers: ApprovalFigures
    paths: set[str]
    origin: dict[str, tuple[str | None, str | None, str | None]]
    agents: frozenset[str]
    records: int = 0
    generated: int = 0
    unproved: int = 0
    """Lines that came while an agent's command ran, without proof of the author."""
    mean_ms: float | None = None


def count_records(index: Index, by: Filters, model: str | None = None) -> RecordCounts:
    """Count the selected records. Only changes and session starts name a model; records without one match every
    model.
    """
    counts = RecordCounts(
        GroupedFigures({}, {}, {}),
        Counter(),
        Counter(),
        Counter(),
        {},
        ApprovalFigures(),
        set(),
        {},
        ids_of_mutations(index),
    )
    models: dict[str, str] = {}
    for document in index.iterate_records(**by):
        body: dict[str, Any] = document["metadata"][KEY]
        session = str(body.get("session_id"))
        named_model = model_of(document) or body.get("model")
        if isinstance(named_model, str):
            models[session] = named_model
        if model is not None and models.get(session, model) != model:
            continue
        count_record(counts, document, body, models.get(session))
    timed = [tool for tool in counts.tools.values() if tool.timed]
    if timed:
        counts.mean_ms = sum(tool.mean_ms * tool.timed for tool in timed) / sum(tool.timed for tool in timed)
    finish_approvals(counts.answers)
    return counts


def ids_of_mutations(index: Index) -> frozenset[str]:
    return frozenset(str(document["id"]) for document in index.iterate_records(event="mutation"))


def count_record(counts: RecordCounts, document: dict[str, Any], body: dict[str, Any], model: str | None) -> None:
    """Count one record."""
    event = str(body.get("event"))
    agent: str | None = document.get("tool", {}).get("name")
    groups = counts.groups.groups_of(agent, model, body.get("intent_id"))
    counts.records += 1
    counts.events[event] += 1
    if event in DECIDED_EVENTS and (verdict := body.get("decision", {}).get("verdict")):
        counts.verdicts[str(verdict)] += 1
    call: dict[str, Any] = body.get("call", {})
    tool = counts.tools.setdefault(str(call.get("name")), ToolFigures()) if call else ToolFigures()
    if event == "tool_result" and isinstance(ms := body.get("duration_ms"), int | float):
        tool.add_duration(ms)
    match event:
        case "tool_use":
            tool.calls += 1
            for group in groups:
                group.calls += 1
        case "denied":
            counts.violations[str(body.get("violation", {}).get("error_type"))] += 1
            for group in groups:
                group.denied += 1
        case "mutation":
            count_mutation(counts, document, body, groups, (agent, model, body.get("intent_id")))
        case "approval_requested":
            counts.answers.asked += 1
        case "approval_answered":
            answer = body.get("approval", {}).get("answer")
            counts.answers.allowed += answer == "allow"
            counts.answers.denied += answer == "deny"
        case _:
            pass


def count_mutation(
    counts: RecordCounts,
    document: dict[str, Any],
    body: dict[str, Any],
    groups: tuple[GroupFigures, ...],
    origin: tuple[str | None, str | None, str | None],
) -> None:
    files: list[dict[str, Any]] = body.get("files", [])
    unproved = sum(map(count_unproved_lines, files))
    written = sum(map(count_written_lines, files)) - unproved
    counts.generated += written
    counts.unproved += unproved
    counts.paths.update(str(file.get("path")) for file in body.get("files", []))
    counts.origin[str(document["id"])] = origin
    for group in groups:
        group.generated += written
        group.changes += 1


def count_written_lines(file: dict[str, Any]) -> int:
    hunks: list[list[int]] | None = file.get("hunks")
    if hunks is not None:
        return sum(hunk[3] for hunk in hunks)
    return int(file.get("after", {}).get("lines", 0)) if file.get("operation") == "create" else 0


def count_unproved_lines(file: dict[str, Any]) -> int:
    """Return the unproved lines of a file, at most as many as written."""
    spans: list[list[int]] = file.get("unproved", [])
    return min(count_written_lines(file), sum(last - first + 1 for first, last in spans))


def finish_approvals(answers: ApprovalFigures) -> None:
    total = answers.allowed + answers.denied
    if total:
        answers.rate = answers.allowed / total
        answers.too_many = total >= MIN_ANSWERS and answers.rate > MAX_ALLOWED_SHARE
