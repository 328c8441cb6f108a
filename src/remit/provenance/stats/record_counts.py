"""What the ledger counts: lines that agents wrote, tools, refusals, a person's answers."""

from collections import Counter
from typing import Any

from msgspec import Struct

from remit.core.record import KEY
from remit.ledger.index.index import Filters, Index
from remit.provenance.blame.blame import model_of

MAX_ALLOWED_SHARE = 0.95
DECIDED_EVENTS = ("tool_use", "denied")
"""Events of which each call has one: what came of a call repeats its decision."""
MIN_ANSWERS = 20
"""Fewer answers than that show no habit."""


class GroupFigures(Struct):
    """What one agent, model or intent did. `generated` lines were written, `accepted` of them reached a commit,
    `overridden` of those were replaced by what no agent is known to have written, `at_head` stand now.
    """

    generated: int = 0
    accepted: int = 0
    overridden: int = 0
    at_head: int = 0
    changes: int = 0
    calls: int = 0
    denied: int = 0


class GroupedFigures(Struct):
    """The same by agent, by model and by intent; what has none stands under `none`."""

    agents: dict[str, GroupFigures]
    models: dict[str, GroupFigures]
    intents: dict[str, GroupFigures]

    def groups_of(
        self, agent: str | None, model: str | None, intent: str | None
    ) -> tuple[GroupFigures, GroupFigures, GroupFigures]:
        """The three groups that something belongs to."""
        return (
            self.agents.setdefault(agent or "none", GroupFigures()),
            self.models.setdefault(model or "none", GroupFigures()),
            self.intents.setdefault(intent or "none", GroupFigures()),
        )


class ToolFigures(Struct):
    """How often a tool was used, and how long it took: `mean_ms` is of the `timed` calls."""

    calls: int = 0
    timed: int = 0
    mean_ms: float = 0.0

    def add_duration(self, ms: float) -> None:
        """One more call with a known duration."""
        self.timed += 1
        self.mean_ms += (ms - self.mean_ms) / self.timed


class ApprovalFigures(Struct):
    """What people were asked. `rate` is the share of yes; None where nobody answered."""

    asked: int = 0
    allowed: int = 0
    denied: int = 0
    rate: float | None = None
    too_many: bool = False
    """Nearly all were allowed: a person who is asked too much stops reading."""


class RecordCounts(Struct):
    """All counts. `origin` is the agent, model and intent behind each change that fits, by its id; `agents` are the
    ids of all changes by agents, whether they fit or not.
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
    """Lines that came while an agent's command ran, of which nothing proves who wrote them."""
    mean_ms: float | None = None


def count_records(index: Index, by: Filters, model: str | None = None) -> RecordCounts:
    """Count the records that fit. Those of no model count for every one: only changes and starts name a model."""
    found = RecordCounts(
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
        named = model_of(document) or body.get("model")
        if isinstance(named, str):
            models[session] = named
        if model is not None and models.get(session, model) != model:
            continue
        count_record(found, document, body, models.get(session))
    timed = [tool for tool in found.tools.values() if tool.timed]
    if timed:
        found.mean_ms = sum(tool.mean_ms * tool.timed for tool in timed) / sum(tool.timed for tool in timed)
    finish_approvals(found.answers)
    return found


def ids_of_mutations(index: Index) -> frozenset[str]:
    """The ids of all changes by agents."""
    return frozenset(str(document["id"]) for document in index.iterate_records(event="mutation"))


def count_record(found: RecordCounts, document: dict[str, Any], body: dict[str, Any], model: str | None) -> None:
    """Count one record."""
    event = str(body.get("event"))
    agent: str | None = document.get("tool", {}).get("name")
    groups = found.groups.groups_of(agent, model, body.get("intent_id"))
    found.records += 1
    found.events[event] += 1
    if event in DECIDED_EVENTS and (verdict := body.get("decision", {}).get("verdict")):
        found.verdicts[str(verdict)] += 1
    call: dict[str, Any] = body.get("call", {})
    tool = found.tools.setdefault(str(call.get("name")), ToolFigures()) if call else ToolFigures()
    if event == "tool_result" and isinstance(ms := body.get("duration_ms"), int | float):
        tool.add_duration(ms)
    match event:
        case "tool_use":
            tool.calls += 1
            for group in groups:
                group.calls += 1
        case "denied":
            found.violations[str(body.get("violation", {}).get("error_type"))] += 1
            for group in groups:
                group.denied += 1
        case "mutation":
            count_mutation(found, document, body, groups, (agent, model, body.get("intent_id")))
        case "approval_requested":
            found.answers.asked += 1
        case "approval_answered":
            said = body.get("approval", {}).get("answer")
            found.answers.allowed += said == "allow"
            found.answers.denied += said == "deny"
        case _:
            pass


def count_mutation(
    found: RecordCounts,
    document: dict[str, Any],
    body: dict[str, Any],
    groups: tuple[GroupFigures, ...],
    origin: tuple[str | None, str | None, str | None],
) -> None:
    """Count a change."""
    files: list[dict[str, Any]] = body.get("files", [])
    left = sum(map(count_unproved_lines, files))
    written = sum(map(count_written_lines, files)) - left
    found.generated += written
    found.unproved += left
    found.paths.update(str(file.get("path")) for file in body.get("files", []))
    found.origin[str(document["id"])] = origin
    for group in groups:
        group.generated += written
        group.changes += 1


def count_written_lines(file: dict[str, Any]) -> int:
    """The lines that a change put into one file."""
    hunks: list[list[int]] | None = file.get("hunks")
    if hunks is not None:
        return sum(hunk[3] for hunk in hunks)
    return int(file.get("after", {}).get("lines", 0)) if file.get("operation") == "create" else 0


def count_unproved_lines(file: dict[str, Any]) -> int:
    """Those of them of which nothing proves that the call wrote them; at most as many as it wrote."""
    spans: list[list[int]] = file.get("unproved", [])
    return min(count_written_lines(file), sum(last - first + 1 for first, last in spans))


def finish_approvals(answers: ApprovalFigures) -> None:
    """Work the share of yes out."""
    total = answers.allowed + answers.denied
    if total:
        answers.rate = answers.allowed / total
        answers.too_many = total >= MIN_ANSWERS and answers.rate > MAX_ALLOWED_SHARE
