"""The shape of a tool, and how a tool fails.

A tool prepares its call from checked arguments: the `ToolCall` for the gate, and the function that acts
once the gate allowed the call. Preparing reads at most; only acting changes files, and only through the gate's door.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from inspect import cleandoc
from typing import Any, Literal, Protocol, TypeAlias

import msgspec
from msgspec import Struct

from remit.core.call import ToolCall
from remit.gate.gate import Gate
from remit.gate.perform import CarriedOut
from remit_agent.models.messages import ImageRef, ToolCallPart
from remit_agent.models.port import ToolSchema

ToolGroup: TypeAlias = Literal["read", "write", "command", "mcp", "intent", "mode"]
"""Group of a tool, as modes name them."""

FailureType: TypeAlias = Literal[
    "UNKNOWN_TOOL", "UNREADABLE_ARGUMENTS", "INVALID_ARGUMENTS", "NOT_ALONE", "REPEATED", "FILE_NOT_FOUND", "NOT_TEXT",
    "TOO_LARGE", "EDIT_NOT_FOUND", "EDIT_AMBIGUOUS", "EDIT_WITHOUT_CHANGE", "PATCH_INVALID",
    "COMMAND_FAILED_TO_START", "NO_SUCH_OUTPUT", "MCP_ERROR", "NO_SUCH_SERVER", "NO_SUCH_GUIDE", "NOT_VERIFIED",
    "UNAVAILABLE", "CANCELLED", "INTERRUPTED",
]  # fmt: skip


class ToolFailure(Exception):
    """A tool that could not do its work. The message names the error; `action_hint` names the next step."""

    def __init__(
        self, error_type: FailureType, message: str, action_hint: str = "revise_arguments", *, recoverable: bool = True
    ) -> None:
        super().__init__(message)
        self.error_type = error_type
        self.action_hint = action_hint
        self.recoverable = recoverable

    def describe(self) -> str:
        """Return the failure as text for the model: a JSON object in the shape of a violation."""
        found = {
            "status": "error",
            "error_type": self.error_type,
            "error": str(self),
            "action_hint": self.action_hint,
            "recoverable": self.recoverable,
        }
        return msgspec.json.encode(found).decode()


class RunFolder(Protocol):
    """The folder of a run, below the state folder: images by hash, and the output of commands."""

    def keep_image(self, content: bytes, media_type: str, name: str) -> ImageRef: ...

    def read_image(self, sha256: str) -> bytes: ...

    def output_path(self, artifact_id: str) -> str:
        """Return the path of a command's output file. Raises ToolFailure (NO_SUCH_OUTPUT) for a strange id."""
        ...


class RunControl(Protocol):
    """A tool's requests to the run without an effect on files: questions, modes, the end, children.

    The functions are called in the tool's worker thread and block until there is an answer.
    """

    def ask_person(self, question: str, suggestions: tuple[tuple[str, str | None], ...]) -> str | None:
        """Return the person's words; None without a person. A suggestion is a text and the mode to switch to."""
        ...

    def switch_mode(self, slug: str, reason: str) -> str:
        """Return the new mode's words for the model. Raises ToolFailure if a person said no or no such mode exists."""
        ...

    def start_child(self, mode: str, message: str, todos: str | None, scope: tuple[str, ...] | None) -> str:
        """Return the completion of a child task. Raises ToolFailure if it did not complete."""
        ...

    def wait_for_command(self, artifact_id: str, seconds: float) -> bool:
        """Wait for the end of a command in the background; return whether it still runs."""
        ...

    def stop_command(self, artifact_id: str) -> str:
        """End a command in the background, and return Remit's words on its end. Raises ToolFailure if none runs."""
        ...

    def finish(self, result: str) -> str:
        """Verify and complete the run. Raises ToolFailure (NOT_VERIFIED) with what is missing."""
        ...


class ToolContext(Struct, frozen=True):
    """Context of a tool: the gate, the call to answer, the run's folder, and the run.

    `new_call` makes the ToolCall: agent, session, call id, cwd, arguments and their hash are set; the tool
    adds effect, paths, command, edit and whole_workspace with `msgspec.structs.replace`.
    """

    gate: Gate
    part: ToolCallPart
    new_call: Callable[[], ToolCall]
    folder: RunFolder
    talk: RunControl
    has_vision: bool = True
    take_turn: Callable[[], AbstractContextManager[object]] = nullcontext
    """The repository's turn, for an act that works with the gate itself."""


class PreparedCall(Struct, frozen=True):
    """A call ready for the gate: the ToolCall to decide, and the function that acts once allowed."""

    call: ToolCall
    act: CarriedOut


class HostTool(Struct, frozen=True):
    """A tool of the agent. The description and the schema come from the Struct of its arguments.

    `prepare` raises ToolFailure. `is_read` tools of a turn run side by side; `ends_turn`: later calls of the same
    turn are not run; `alone`: the call stands alone in its turn. `cites_intent` adds `intent_id`, `mutation_class` and
    `expected_content_hash` to the schema in a governed workspace.
    """

    name: str
    arguments: type[Struct]
    group: ToolGroup
    prepare: Callable[[ToolContext, Any], PreparedCall]
    is_read: bool = False
    ends_turn: bool = False
    alone: bool = False
    cites_intent: bool = False

    @property
    def schema(self) -> ToolSchema:
        (_, components) = msgspec.json.schema_components([self.arguments], ref_template="#/$defs/{name}")
        own = components.pop(self.arguments.__name__)
        schema = {key: value for key, value in own.items() if key not in ("title", "description")}
        return ToolSchema(
            self.name,
            cleandoc(self.arguments.__doc__ or ""),
            {**schema, **({"$defs": components} if components else {})},
        )
