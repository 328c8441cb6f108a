"""Events of a run, for the faces of the run. Durable events carry the number of their journal line as `n`: a
face with a lost connection asks again from its last number; deltas and other passing events carry 0.
"""

from typing import Any, Literal, TypeAlias

from msgspec import Struct

from remit.core.untrusted_input import as_object
from remit_agent.models.messages import ResultKind
from remit_agent.session.journal import lines
from remit_agent.session.journal.history import RunHistory

EventKind: TypeAlias = Literal[
    "started", "state", "input", "text", "thought", "call", "retracted", "turn", "call_begun", "call_ended",
    "command_ended", "output",
    "question", "answer", "waiting", "condensed", "resumed", "ended",
]  # fmt: skip


class RunEvent(Struct, frozen=True, omit_defaults=True):
    """One event. `data` is a journal line or one of the classes below; `child` is the id of a child run."""

    event: EventKind
    data: Any
    n: int = 0
    child: str = ""


class StreamedText(Struct, frozen=True):
    """More text or thinking of the turn under way."""

    text: str


class StreamedCall(Struct, frozen=True):
    """More of a tool call of the turn under way: shown, never run."""

    index: int
    id: str
    tool: str
    json: str


class CallBegun(Struct, frozen=True):
    """A tool call began."""

    id: str
    tool: str
    arguments: dict[str, Any]


class OutputGrew(Struct, frozen=True):
    """A running command has written so many bytes; the text is in the run's folder."""

    id: str
    bytes: int


class CallEnded(Struct, frozen=True, omit_defaults=True):
    """The result of a tool call, or the end of its command in the background. `data` is the tool's own data, such as a
    diff.
    """

    id: str
    tool: str
    kind: ResultKind
    text: str
    told: str = ""
    error: str = ""
    data: Any = None
    snapshot: str | None = None


class RetryWait(Struct, frozen=True):
    """A wait before a request is tried again."""

    why: str
    seconds: float
    attempt: int


class RunStatus(Struct, frozen=True):
    """The run's state as a face shows it. `cost` is None if a price is unknown."""

    mode: str
    model: str
    turns: int
    tokens: int
    window: int | None
    cost: float | None


SHOWN_LINES: dict[type[lines.JournalLine], EventKind] = {
    lines.RunLine: "started",
    lines.UserLine: "input",
    lines.TurnLine: "turn",
    lines.ResultLine: "call_ended",
    lines.CommandEndedLine: "command_ended",
    lines.QuestionLine: "question",
    lines.AnswerLine: "answer",
    lines.ModeLine: "state",
    lines.ModelLine: "state",
    lines.CondensedLine: "condensed",
    lines.ResumedLine: "resumed",
    lines.EndedLine: "ended",
}


def describe_line(line: lines.AnyLine, history: RunHistory) -> RunEvent | None:
    """Return the durable event of a journal line; None for lines that no face shows."""
    kind = SHOWN_LINES.get(type(line))
    if kind is None:
        return None
    is_result = isinstance(line, lines.ResultLine | lines.CommandEndedLine)
    return RunEvent(kind, describe_result(line, history) if is_result else line, line.n)


def describe_result(line: lines.ResultLine | lines.CommandEndedLine, history: RunHistory) -> CallEnded:
    call, performed = history.calls.get(line.id), history.performed.get(line.id)
    data = as_object(performed.data) if performed else None
    tool = call.tool if call else ""
    snapshot = line.snapshot if isinstance(line, lines.ResultLine) else None
    return CallEnded(line.id, tool, line.kind, line.text, line.told, line.error, data or None, snapshot)
