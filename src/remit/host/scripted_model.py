"""A model that answers from a script, for tests and demonstrations without key and network.

It is a real implementation of what a model does for an agent, one conversation in and one turn out; what
carries it to an agent (`host.wire`) is apart. It never guesses: a script that ran out says so.
"""

from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any, Literal, TypeAlias

from msgspec import Struct

SCRIPT_ENDED = "The script has no further turn."


class Say(Struct, frozen=True):
    """A text of the model."""

    text: str


class Use(Struct, frozen=True):
    """A tool call of the model. `id` None: the wire makes one up."""

    tool: str
    input: dict[str, Any] = {}
    id: str | None = None


Part: TypeAlias = Say | Use
Turn: TypeAlias = tuple[Part, ...]


class ToolOutput(Struct, frozen=True):
    """What the agent told the model of one call. `text` is all text of the result, joined."""

    call_id: str
    text: str
    is_error: bool = False


class Message(Struct, frozen=True):
    """One message of a conversation, its parts sorted by kind; each kind keeps its order.

    `system` is a role here too: agents put remarks between the turns that way.
    """

    role: Literal["user", "assistant", "system"]
    texts: tuple[str, ...] = ()
    uses: tuple[Use, ...] = ()
    results: tuple[ToolOutput, ...] = ()


class OfferedTool(Struct, frozen=True):
    """A tool that the agent offers to the model. `schema` is the JSON Schema of its input."""

    name: str
    description: str = ""
    schema: dict[str, Any] = {}


class ModelRequest(Struct, frozen=True):
    """All that an agent shows the model in one request."""

    model: str = ""
    system: str = ""
    tools: tuple[OfferedTool, ...] = ()
    messages: tuple[Message, ...] = ()

    @property
    def opening(self) -> str:
        """What the user asked first; the agent's own remarks around it are left out."""
        texts = (text for message in self.messages if message.role == "user" for text in message.texts)
        return next((text for text in texts if not _is_remark(text)), "")

    @property
    def results(self) -> tuple[ToolOutput, ...]:
        """Every tool result in the conversation, oldest first."""
        return tuple(result for message in self.messages for result in message.results)

    @property
    def last_result(self) -> ToolOutput | None:
        """The newest tool result."""
        return self.results[-1] if self.results else None

    @property
    def shown_text(self) -> str:
        """Every word the model was shown: system prompt, texts and tool results, one after another."""
        shown = [self.system]
        for message in self.messages:
            shown += [*message.texts, *(result.text for result in message.results)]
        return "\n".join(filter(None, shown))

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of the offered tools, in the agent's order."""
        return tuple(tool.name for tool in self.tools)


StepParts: TypeAlias = Part | Sequence[Part]
Step: TypeAlias = StepParts | Callable[[ModelRequest], StepParts]


class EmptyTurn(ValueError):
    """A step of a script that says nothing and calls nothing: no agent can go on from there."""

    def __init__(self, step: int) -> None:
        super().__init__(f"step {step} of the script is empty; expected a Say, a Use, or a sequence of them")
        self.step = step


class ScriptedModel:
    """Gives the steps of a script one after another, whoever asks. Safe to ask from several threads.

    A step is a `Say`, a `Use`, several of them for one turn, or a function of the conversation so far.
    `subagents` holds scripts of their own for conversations whose opening contains the key, which is how a
    sub-agent is told from its parent: its opening is the prompt that the parent's call gave it. So keep the
    key out of the parent's own opening.
    """

    def __init__(self, turns: Sequence[Step], subagents: Mapping[str, Sequence[Step]] | None = None) -> None:
        self._main = _Script(turns)
        self._subagents = {key: _Script(steps) for key, steps in (subagents or {}).items()}

    def answer(self, conversation: ModelRequest) -> Turn:
        """The next turn. Raises EmptyTurn, and whatever a step's function raises."""
        return self._script_of(conversation).next(conversation)

    @property
    def remaining(self) -> int:
        """How many steps nobody asked for yet, sub-agents' scripts included."""
        return sum(script.remaining for script in (self._main, *self._subagents.values()))

    def _script_of(self, conversation: ModelRequest) -> "_Script":
        opening = conversation.opening
        return next((script for key, script in self._subagents.items() if key in opening), self._main)


class _Script:
    """One sequence of steps and how far it got."""

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
    """Whether an agent wrote it about the session, and not the user. Seen in Claude Code 2.1.330."""
    return text.lstrip().startswith("<system-reminder>")
