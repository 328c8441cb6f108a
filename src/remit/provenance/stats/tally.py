"""What the ledger counts: lines that agents wrote, tools, refusals, a person's answers."""

from collections import Counter
from typing import Any

from msgspec import Struct

from remit.core.record import KEY
from remit.ledger.index import Filters, Index
from remit.provenance.blame.blame import model_of

TOO_MANY_YES = 0.95
JUDGED = ("tool_use", "denied")
"""Events of which each call has one: what came of a call repeats its decision."""
FEW_ANSWERS = 20
"""Fewer answers than that show no habit."""


class Group(Struct):
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


class Groups(Struct):
    """The same by agent, by model and by intent; what has none stands under `none`."""

    agents: dict[str, Group]
    models: dict[str, Group]
    intents: dict[str, Group]

    def of(self, agent: str | None, model: str | None, intent: str | None) -> tuple[Group, Group, Group]:
        """The three groups that something belongs to."""
        return (
            self.agents.setdefault(agent or "none", Group()),
            self.models.setdefault(model or "none", Group()),
            self.intents.setdefault(intent or "none", Group()),
        )


class Tool(Struct):
    """How often a tool was used, and how long it took: `mean_ms` is of the `timed` calls."""

    calls: int = 0
    timed: int = 0
    mean_ms: float = 0.0

    def took(self, ms: float) -> None:
        """One more call with a known duration."""
        self.timed += 1
        self.mean_ms += (ms - self.mean_ms) / self.timed


class Answers(Struct):
    """What people were asked. `rate` is the share of yes; None where nobody answered."""

    asked: int = 0
    allowed: int = 0
    denied: int = 0
    rate: float | None = None
    too_many: bool = False
    """Nearly all were allowed: a person who is asked too much stops reading."""


class Tally(Struct):
    """All counts. `origin` is the agent, model and intent behind each change that fits, by its id; `agents` are the
    ids of all changes by agents, whether they fit or not.
    """

    groups: Groups
    events: Counter[str]
    verdicts: Counter[str]
    violations: Counter[str]
    tools: dict[str, Tool]
    answers: Answers
    paths: set[str]
    origin: dict[str, tuple[str | None, str | None, str | None]]
    agents: frozenset[str]
    records: int = 0
    generated: int = 0
    unproved: int = 0
    """Lines that came while an agent's command ran, of which nothing proves who wrote them."""
    mean_ms: float | None = None


def tally(index: Index, by: Filters, model: str | None = None) -> Tally:
    """Count the records that fit. Those of no model count for every one: only changes and starts name a model."""
    found = Tally(Groups({}, {}, {}), Counter(), Counter(), Counter(), {}, Answers(), set(), {}, agents_changes(index))
    models: dict[str, str] = {}
    for document in index.each(**by):
        body: dict[str, Any] = document["metadata"][KEY]
        session = str(body.get("session_id"))
        named = model_of(document) or body.get("model")
        if isinstance(named, str):
            models[session] = named
        if model is not None and models.get(session, model) != model:
            continue
        take_in(found, document, body, models.get(session))
    timed = [tool for tool in found.tools.values() if tool.timed]
    if timed:
        found.mean_ms = sum(tool.mean_ms * tool.timed for tool in timed) / sum(tool.timed for tool in timed)
    settle(found.answers)
    return found


def agents_changes(index: Index) -> frozenset[str]:
    """The ids of all changes by agents."""
    return frozenset(str(document["id"]) for document in index.each(event="mutation"))


def take_in(found: Tally, document: dict[str, Any], body: dict[str, Any], model: str | None) -> None:
    """Count one record."""
    event = str(body.get("event"))
    agent: str | None = document.get("tool", {}).get("name")
    groups = found.groups.of(agent, model, body.get("intent_id"))
    found.records += 1
    found.events[event] += 1
    if event in JUDGED and (verdict := body.get("decision", {}).get("verdict")):
        found.verdicts[str(verdict)] += 1
    call: dict[str, Any] = body.get("call", {})
    tool = found.tools.setdefault(str(call.get("name")), Tool()) if call else Tool()
    if event == "tool_result" and isinstance(ms := body.get("duration_ms"), int | float):
        tool.took(ms)
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
            changed(found, document, body, groups, (agent, model, body.get("intent_id")))
        case "approval_requested":
            found.answers.asked += 1
        case "approval_answered":
            said = body.get("approval", {}).get("answer")
            found.answers.allowed += said == "allow"
            found.answers.denied += said == "deny"
        case _:
            pass


def changed(
    found: Tally,
    document: dict[str, Any],
    body: dict[str, Any],
    groups: tuple[Group, ...],
    origin: tuple[str | None, str | None, str | None],
) -> None:
    """Count a change."""
    files: list[dict[str, Any]] = body.get("files", [])
    left = sum(map(unproved_lines, files))
    written = sum(map(written_lines, files)) - left
    found.generated += written
    found.unproved += left
    found.paths.update(str(file.get("path")) for file in body.get("files", []))
    found.origin[str(document["id"])] = origin
    for group in groups:
        group.generated += written
        group.changes += 1


def written_lines(file: dict[str, Any]) -> int:
    """The lines that a change put into one file."""
    hunks: list[list[int]] | None = file.get("hunks")
    if hunks is not None:
        return sum(hunk[3] for hunk in hunks)
    return int(file.get("after", {}).get("lines", 0)) if file.get("operation") == "create" else 0


def unproved_lines(file: dict[str, Any]) -> int:
    """Those of them of which nothing proves that the call wrote them; at most as many as it wrote."""
    spans: list[list[int]] = file.get("unproved", [])
    return min(written_lines(file), sum(last - first + 1 for first, last in spans))


def settle(answers: Answers) -> None:
    """Work the share of yes out."""
    total = answers.allowed + answers.denied
    if total:
        answers.rate = answers.allowed / total
        answers.too_many = total >= FEW_ANSWERS and answers.rate > TOO_MANY_YES
