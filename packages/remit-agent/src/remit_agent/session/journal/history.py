"""The history of a run, folded from the lines of its journal: the conversation, and the facts for limits and resumes.

The fold is pure, and makes a valid conversation of any lines: a call has one result, placed after its turn; words of
the person arriving while the model worked follow the results. A call without a result has none in the conversation
until a result is written.
"""

import json
from collections import deque
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from remit_agent.models.messages import (
    CallResult,
    Conversation,
    ConversationItem,
    ModelTurn,
    TailNote,
    ToolCallPart,
    Usage,
    UserInput,
    name_output,
)
from remit_agent.session.journal.lines import (
    AnswerLine,
    AnyLine,
    AskedLine,
    BegunLine,
    CommandEndedLine,
    CondensedLine,
    EndedLine,
    LessonOfferedLine,
    ModeLine,
    ModelLine,
    PerformedLine,
    QuestionLine,
    ResultLine,
    ResumedLine,
    RunLine,
    ShortenedLine,
    TailLine,
    TurnLine,
    UserLine,
)

MAX_SIGNATURES = 18  # a cycle of six calls, run three times
COMPLETION_TOOL = "attempt_completion"
REPETITION_ERROR = "REPEATED"
MISTAKES = frozenset(
    (
        *("UNKNOWN_TOOL", "UNREADABLE_ARGUMENTS", "INVALID_ARGUMENTS"),
        *("EDIT_NOT_FOUND", "EDIT_AMBIGUOUS", "EDIT_WITHOUT_CHANGE", "PATCH_INVALID"),
    )
)
"""Failures that the model causes by careless calls."""
EXEMPT_FROM_REPETITION = frozenset(("read_command_output",))
NO_RESULT = "No result of this call was recorded."
HEAD_CHARS, TAIL_CHARS = 600, 400
"""Characters kept of a shortened result."""


class RunHistory:
    """State of a run by its journal. `add` takes the lines in order."""

    def __init__(self, lines: Iterable[AnyLine] = ()) -> None:
        self.started: RunLine | None = None
        self.items: list[ConversationItem] = []
        self.undelivered: list[UserInput | TailNote] = []
        self.calls: dict[str, ToolCallPart] = {}
        self.open_calls: dict[str, ToolCallPart] = {}  # calls of the newest turn, in its order
        self.results: dict[str, CallResult] = {}  # results of the newest turn
        self.errors: dict[str, str] = {}  # types of failures and denials of the newest turn, by call
        self.begun: dict[str, BegunLine] = {}
        self.performed: dict[str, PerformedLine] = {}
        self.background: dict[str, ToolCallPart] = {}  # calls with commands in the background that have not ended
        self.questions: dict[str, QuestionLine] = {}
        self.mode = ""
        self.model = ""
        self.ended: EndedLine | None = None
        self.completion: str | None = None  # the text of a completion that was verified
        self.last_turn: ModelTurn | None = None
        self.awaits_turn = False  # a request went out, and no turn came back
        self.turn_count = 0
        self.usage = Usage()
        self.cost: float | None = 0.0  # None as soon as one turn's price is unknown
        self.known_tokens = 0  # tokens of the conversation up to and with the newest turn, as the provider counted
        self.known_items = 0  # the items that `known_tokens` counts
        self.first_words = self.last_words = ""  # of the person, or of the parent's call
        self.signatures: deque[str] = deque(maxlen=MAX_SIGNATURES)  # calls that ran, oldest first
        self.refused_signatures: list[str] = []  # repetitions refused since a call ran last
        self.repeated_count = 0  # refused repetitions since a person spoke
        self.mistake_count = 0  # in a row
        self.silent_count = 0  # turns in a row without a call
        self.offered_lessons: set[str] = set()
        self.has_new_effects = False  # calls were performed since lessons were last looked for
        self.has_failed_check = False  # Remit had remarks on a call, as on a check that failed
        for line in lines:
            self.add(line)

    @property
    def conversation(self) -> Conversation:
        """The conversation as the next request shows it."""
        return (*self.items, *self.ordered_results(), *self.undelivered)

    @property
    def unanswered_calls(self) -> tuple[ToolCallPart, ...]:
        return tuple(call for call in self.open_calls.values() if call.id not in self.results)

    @property
    def waits_for_words(self) -> bool:
        """Whether the model has no input to answer: no unread words or results, and no open request."""
        has_words = any(isinstance(item, UserInput) for item in self.undelivered)
        return not has_words and not self.open_calls and not self.awaits_turn

    def is_failed(self, call_id: str) -> bool:
        return call_id in self.results and self.results[call_id].kind != "done"

    def ordered_results(self) -> list[CallResult]:
        return [self.results[call_id] for call_id in self.open_calls if call_id in self.results]

    def close_turn(self) -> None:
        """Put the results of the newest turn into the conversation for good. A call without one has none only if the
        file was damaged.
        """
        for call in self.unanswered_calls:
            self.results[call.id] = CallResult(call.id, call.tool, "interrupted", NO_RESULT)
        self.items += self.ordered_results()
        self.open_calls, self.results = {}, {}

    def deliver(self) -> None:
        """Put results and words into the conversation for good: a request with them went out."""
        self.close_turn()
        self.items += self.undelivered
        self.undelivered = []

    def add(self, line: AnyLine) -> None:
        match line:
            case RunLine():
                self.started = self.started or line
                self.mode, self.model = line.mode, line.model
            case UserLine():
                self.undelivered.append(UserInput(line.text, line.images, line.by))
                self.ended = self.completion = None
                if line.by != "remit":
                    self.first_words, self.last_words = self.first_words or line.text, line.text
                    self.mistake_count = self.repeated_count = self.silent_count = 0
            case TailLine():
                self.undelivered.append(TailNote(line.text))
            case AskedLine():
                self.deliver()
                self.awaits_turn = True
            case TurnLine():
                self.add_turn(line.turn)
            case BegunLine():
                self.begun[line.id] = line
            case PerformedLine():
                self.performed[line.id] = line
                self.has_new_effects = True
            case ResultLine():
                self.add_result(line)
            case CommandEndedLine():
                if self.background.pop(line.id, None) is not None:
                    self.undelivered.append(TailNote(frame_remarks(describe_ended_command(line))))
            case QuestionLine():
                self.questions[line.id] = line
            case AnswerLine():
                question = self.questions.pop(line.id, None)
                if line.words is not None and question is not None and question.kind == "limit":
                    self.mistake_count = self.repeated_count = 0
            case ModeLine():
                self.mode = line.mode
            case ModelLine():
                self.model = line.model
            case LessonOfferedLine():
                self.offered_lessons.add(line.check)
            case ShortenedLine():
                self.items[: line.items] = [shorten_item(item) for item in self.items[: line.items]]
                self.known_tokens = self.known_items = 0
            case CondensedLine():
                self.awaits_turn = not self.waits_for_words
                self.items = [UserInput(format_condensed(line), by="remit")]
                self.open_calls, self.results, self.undelivered = {}, {}, []
                self.known_tokens = self.known_items = 0
            case EndedLine():
                self.ended = line
            case ResumedLine():
                self.ended = None

    def add_turn(self, turn: ModelTurn) -> None:
        self.close_turn()
        fresh = tuple(
            part
            for part in turn.parts
            if not isinstance(part, ToolCallPart) or self.calls.setdefault(part.id, part) is part
        )
        turn = replace(turn, parts=fresh)
        if turn.parts:  # a turn that was cancelled at once has none, and no provider takes it
            self.items.append(turn)
        self.last_turn = turn
        self.awaits_turn = False
        self.open_calls, self.errors = {call.id: call for call in turn.calls}, {}
        self.completion = None
        self.turn_count += 1
        self.usage += turn.usage
        self.cost = None if self.cost is None or turn.cost is None else self.cost + turn.cost
        self.known_tokens = turn.usage.input_tokens + turn.usage.output_tokens
        self.known_items = len(self.items) if self.known_tokens else 0
        if turn.calls:
            self.silent_count = 0
        elif turn.stop not in ("length", "cancelled"):
            self.silent_count += 1
            self.mistake_count += 1

    def add_result(self, line: ResultLine) -> None:
        """Take the first result of an open call; ignore a second result, and a result without a call."""
        call = self.open_calls.get(line.id)
        if call is None or line.id in self.results:
            return
        text = join_told(line.text, line.told)
        self.results[line.id] = CallResult(line.id, call.tool, line.kind, text, line.images)
        self.background |= {line.id: call} if line.goes_on else {}
        self.errors[line.id] = line.error
        self.has_failed_check |= bool(line.told) or line.error == "NOT_VERIFIED"
        if line.error == REPETITION_ERROR:
            self.repeated_count += 1
            self.refused_signatures.append(make_signature(call))
        elif line.error in MISTAKES:
            self.mistake_count += 1
        elif line.kind == "done":
            self.mistake_count = 0
        if line.kind in ("done", "failed", "denied") and line.error != REPETITION_ERROR:
            self.signatures.append(make_signature(call))
            self.refused_signatures.clear()
        if call.tool == COMPLETION_TOOL and line.kind == "done":
            self.completion = line.text


def fold(lines: Iterable[AnyLine]) -> Conversation:
    """Return the conversation that a journal's lines make."""
    return RunHistory(lines).conversation


def make_signature(call: ToolCallPart) -> str:
    """Return the tool and its arguments in canonical form: equal for equal calls."""
    arguments: Any = call.raw if call.arguments is None else call.arguments
    return f"{call.tool} {json.dumps(arguments, sort_keys=True, ensure_ascii=True)}"


def is_repetition(signatures: Iterable[str], signature: str) -> bool:
    """Return True if a further call continues three equal rounds: of one call, or of a cycle of two to six calls."""
    past = list(signatures)
    for length in range(1, MAX_SIGNATURES // 3 + 1):
        rounds = past[-3 * length :]
        if len(rounds) == 3 * length and rounds == rounds[:length] * 3 and signature == rounds[0]:
            return True
    return False


def frame_remarks(text: str) -> str:
    """Return a text by Remit in a frame that no text inside can close."""
    return f"<remit>\n{text.replace('<remit>', '&lt;remit>').replace('</remit>', '&lt;/remit>')}\n</remit>"


def join_told(text: str, told: str) -> str:
    return "\n\n".join(filter(None, (text, frame_remarks(told) if told else "")))


def describe_ended_command(line: CommandEndedLine) -> str:
    state = line.text.partition("\n")[0]
    return (
        f"The command in the background with the output {name_output(line.id)} has ended. {state}\n{line.told}".strip()
    )


def format_condensed(line: CondensedLine) -> str:
    return (
        "The conversation so far was condensed. A summary of it:\n\n"
        f"{line.summary.strip()}\n\nKept word for word:\n\n{line.keeps.strip()}"
    )


def shorten_item(item: ConversationItem) -> ConversationItem:
    """Return a result as head and tail; return any other item unchanged."""
    if not isinstance(item, CallResult) or len(item.text) <= 2 * (HEAD_CHARS + TAIL_CHARS):
        return item
    left_out = len(item.text) - HEAD_CHARS - TAIL_CHARS
    note = f"[… {left_out} characters left out of this old result; call the tool again if they are needed …]"
    return replace(item, text=f"{item.text[:HEAD_CHARS]}\n{note}\n{item.text[-TAIL_CHARS:]}", images=())
