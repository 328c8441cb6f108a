"""A model that answers from a script, for tests and demonstrations without a key or network.

The model takes one conversation and returns one turn, like a real model; `host.*_wire` modules carry the turns to
agents. A finished script says so and never guesses.
"""

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any, Literal, TypeAlias

from msgspec import Struct

SCRIPT_ENDED = "The script has no further turn."


class Say(Struct, frozen=True):
    """Text of the model."""

    text: str


class Use(Struct, frozen=True):
    """Tool call of the model. The wire chooses an id for None."""

    tool: str
    input: dict[str, Any] = {}
    id: str | None = None


Part: TypeAlias = Say | Use
Turn: TypeAlias = tuple[Part, ...]


class ToolOutput(Struct, frozen=True):
    """Result of one call as shown to the model. `text` joins every text of the result."""

    call_id: str
    text: str
    is_error: bool = False


class Message(Struct, frozen=True):
    """Message of a conversation, its parts sorted by kind; each kind keeps its order.

    `system` is a role here too: agents put remarks between the turns in this role.
    """

    role: Literal["user", "assistant", "system"]
    texts: tuple[str, ...] = ()
    uses: tuple[Use, ...] = ()
    results: tuple[ToolOutput, ...] = ()


class OfferedTool(Struct, frozen=True):
    """Tool offered to the model. `schema` is the JSON Schema of its input."""

    name: str
    description: str = ""
    schema: dict[str, Any] = {}


class ModelRequest(Struct, frozen=True):
    """Conversation that an agent shows to the model in one request."""

    model: str = ""
    system: str = ""
    tools: tuple[OfferedTool, ...] = ()
    messages: tuple[Message, ...] = ()

    @property
    def opening(self) -> str:
        texts = (text for message in self.messages if message.role == "user" for text in message.texts)
        return next((text for text in texts if not _is_remark(text)), "")

    @property
    def results(self) -> tuple[ToolOutput, ...]:
        return tuple(result for message in self.messages for result in message.results)

    @property
    def last_result(self) -> ToolOutput | None:
        return self.results[-1] if self.results else None

    @property
    def shown_text(self) -> str:
        """Return every text shown to the model: system prompt, messages and tool results."""
        shown = [self.system]
        for message in self.messages:
            shown += [*message.texts, *(result.text for result in message.results)]
        return "\n".join(filter(None, shown))

    @property
    def tool_names(self) -> tuple[str, ...]:
        return tuple(tool.name for tool in self.tools)


StepParts: TypeAlias = Part | Sequence[Part]
Step: TypeAlias = StepParts | Callable[[ModelRequest], StepParts]


class EmptyTurn(ValueError):
    """Step of a script without text and calls: no agent can continue after an empty turn."""

    def __init__(self, step: int) -> None:
        super().__init__(f"step {step} of the script is empty; expected a Say, a Use, or a sequence of them")
        self.step = step


class ScriptedModel:
    """Script whose steps are given one after another to any caller. Safe for several threads.

    A step is a `Say`, a `Use`, several of them for one turn, or a function of the conversation so far. `subagents`
    holds scripts for conversations whose opening contains the key: a sub-agent's opening is the prompt in its parent's
    call. Keep the key out of the parent's own opening.
    """

    def __init__(self, turns: Sequence[Step], subagents: Mapping[str, Sequence[Step]] | None = None) -> None:
        self._main = _Script(turns)
        self._subagents = {key: _Script(steps) for key, steps in (subagents or {}).items()}

    def answer(self, conversation: ModelRequest) -> Turn:
        """Return the next turn. Raises EmptyTurn, and the errors of a step's function."""
        return self._script_of(conversation).next(conversation)

    @property
    def remaining(self) -> int:
        return sum(script.remaining for script in (self._main, *self._subagents.values()))

    def _script_of(self, conversation: ModelRequest) -> "_Script":
        opening = conversation.opening
        return next((script for key, script in self._subagents.items() if key in opening), self._main)


class _Script:
    """Sequence of steps with its position."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = tuple(steps)
        self._taken = 0
        self._lock = Lock()

    @property
    def remaining(self) -> int:
        return len(self._steps) - self._taken

    def next(self, conversation: ModelRequest) -> Turn:
        with self._lock:
            if not self.remaining:
                return (Say(SCRIPT_ENDED),)
            step = self._steps[self._taken]
            self._taken += 1
            number = self._taken
        turn = _turn_parts(step(conversation) if callable(step) else step)
        if not turn:
            raise EmptyTurn(number)
        return turn


def _turn_parts(written: StepParts) -> Turn:
    return (written,) if isinstance(written, Say | Use) else tuple(written)


def _is_remark(text: str) -> bool:
    """Return True for a text that the agent wrote about the session. Seen in Claude Code 2.1.330."""
    return text.lstrip().startswith("<system-reminder>")
