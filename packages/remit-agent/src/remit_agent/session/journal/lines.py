"""Lines of a run's journal: the whole memory of a run, in the order of the events.

Effects are proved by the ledger; the journal is the memory of the conversation. `n` counts up from 1, `at` is in
seconds since the epoch. Lines of unknown kinds are kept in the file and skipped by readers.
"""

from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from remit.core.diff.contents import LineRange
from remit.core.python_runtime import prepare_type
from remit_agent.models.messages import ImageRef, InputSource, ModelTurn, ResultKind, Usage

FORMAT_VERSION = 1
EndState: TypeAlias = Literal["completed", "answered", "stopped", "stuck", "failed", "cancelled"]
QuestionKind: TypeAlias = Literal["approval", "followup", "mode", "limit"]


class JournalLine(Struct, frozen=True, kw_only=True, tag_field="t", omit_defaults=True):
    """Base of the lines. The journal sets `n` and `at`."""

    n: int = 0
    at: float = 0.0


class RunLimits(Struct, frozen=True, omit_defaults=True):
    """Limits of a run, its children included; None is no limit."""

    max_turns: int = 200
    max_cost_usd: float | None = None
    max_minutes: float | None = None


class ParentCall(Struct, frozen=True):
    """The call of the parent run answered by a child run."""

    run: str
    call: str


class ForkPoint(Struct, frozen=True):
    """The run that a fork began from, and the last line taken over."""

    run: str
    n: int


class RunLine(JournalLine, frozen=True, kw_only=True, tag="run"):
    """The first line. `v` is the version of the format."""

    v: int = FORMAT_VERSION
    run: str
    task: str = ""
    cwd: str
    model: str
    mode: str
    intent: str | None = None
    limits: RunLimits = RunLimits()
    parent: ParentCall | None = None
    fork: ForkPoint | None = None
    remit: str = ""


class UserLine(JournalLine, frozen=True, kw_only=True, tag="user"):
    """Words to the model, delivered with the next request."""

    text: str
    images: tuple[ImageRef, ...] = ()
    by: InputSource = "person"


class TailLine(JournalLine, frozen=True, kw_only=True, tag="tail"):
    """Changes since the last request, as text for the model."""

    text: str


class AskedLine(JournalLine, frozen=True, kw_only=True, tag="asked"):
    """A request to the model went out, with all lines before this one."""

    prompt_sha256: str = ""
    tools_sha256: str = ""
    tokens: int = 0


class TurnLine(JournalLine, frozen=True, kw_only=True, tag="turn"):
    """A whole turn of the model. Its calls have unique ids and safe names. `ms` is how long the model took."""

    turn: ModelTurn
    ms: int = 0


class BegunLine(JournalLine, frozen=True, kw_only=True, tag="begun"):
    """A call that outlives a moment began: a command, a call to an MCP server, a child run."""

    id: str
    child: str = ""


class PerformedLine(JournalLine, frozen=True, kw_only=True, tag="performed"):
    """What a tool says of itself, before the gate compares."""

    id: str
    ok: bool
    text: str
    data: Any = None
    exit_code: int | None = None
    positions: dict[str, tuple[LineRange, ...]] = {}


class ResultLine(JournalLine, frozen=True, kw_only=True, tag="result"):
    """The one result of a call. `told` are Remit's words; `error` is the type of a failure or denial. `goes_on`: it
    is a command that goes on in the background, and a `CommandEndedLine` follows.
    """

    id: str
    kind: ResultKind
    text: str = ""
    told: str = ""
    error: str = ""
    images: tuple[ImageRef, ...] = ()
    snapshot: str | None = None
    goes_on: bool = False


class CommandEndedLine(JournalLine, frozen=True, kw_only=True, tag="command_ended"):
    """The end of a command that went on in the background, as its call's result would have said it."""

    id: str
    kind: ResultKind
    text: str = ""
    told: str = ""
    error: str = ""


class QuestionLine(JournalLine, frozen=True, kw_only=True, tag="question"):
    """A question to the person."""

    id: str
    kind: QuestionKind
    text: str
    call: str = ""
    choices: tuple[str, ...] = ()


class AnswerLine(JournalLine, frozen=True, kw_only=True, tag="answer"):
    """The answer to a question; `words` None if nobody answered."""

    id: str
    by: str
    words: str | None = None


class ModeLine(JournalLine, frozen=True, kw_only=True, tag="mode"):
    """The run's mode changed."""

    mode: str
    by: str


class ModelLine(JournalLine, frozen=True, kw_only=True, tag="model"):
    """The run's model changed."""

    model: str
    by: str


class LessonOfferedLine(JournalLine, frozen=True, kw_only=True, tag="lesson_offered"):
    """The model was offered to record what made a failing check pass."""

    check: str


class ShortenedLine(JournalLine, frozen=True, kw_only=True, tag="shortened"):
    """Results of the first `items` items of the conversation are shortened from now on."""

    items: int


class CondensedLine(JournalLine, frozen=True, kw_only=True, tag="condensed"):
    """Replacement of the conversation so far by a summary and the parts kept verbatim."""

    summary: str
    keeps: str


class ResumedLine(JournalLine, frozen=True, kw_only=True, tag="resumed"):
    """The run was taken up again; `reconciled` says what had become of the calls without a result."""

    reconciled: dict[str, str] = {}


class EndedLine(JournalLine, frozen=True, kw_only=True, tag="ended"):
    """The run ended, or a person may take it up again with further words."""

    state: EndState
    reason: str = ""
    usage: Usage = Usage()
    cost: float | None = None


AnyLine: TypeAlias = (
    RunLine
    | UserLine
    | TailLine
    | AskedLine
    | TurnLine
    | BegunLine
    | PerformedLine
    | ResultLine
    | CommandEndedLine
    | QuestionLine
    | AnswerLine
    | ModeLine
    | ModelLine
    | LessonOfferedLine
    | ShortenedLine
    | CondensedLine
    | ResumedLine
    | EndedLine
)

_DECODER: msgspec.json.Decoder[AnyLine] = msgspec.json.Decoder(prepare_type(AnyLine))


def decode_line(line: bytes) -> AnyLine | None:
    """Return the line; None for an unknown kind, and for a line that is damaged."""
    try:
        return _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
