"""Models by their names: the library behind a provider's endpoint, or a script. A scripted model stands behind the same
port without a socket: for tests, and for runs that show what Remit does.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from remit.core.python_runtime import prepare_type
from remit.rehearsal import scripted_model
from remit_agent.models.endpoints import ModelNotOpened, NoSuchModel, find_endpoint
from remit_agent.models.extra import name_missing_extra
from remit_agent.models.messages import CallResult, ModelPart, ModelTurn, TextPart, ToolCallPart, Usage, UserInput
from remit_agent.models.port import CallDelta, CompletionRequest, Delta, Provider, TextDelta, WholeTurn

SCRIPTED = "scripted:"
MAX_TURNS = 10_000


class ScriptedPart(Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a turn in the file of a scripted model: text, or a call."""

    say: str = ""
    tool: str = ""
    input: dict[str, object] = {}


class InProcessModel:
    """A provider answering from a script. A function among the steps sees the conversation, and a resumed run
    goes on at the same step.
    """

    def __init__(
        self, model: scripted_model.ScriptedModel, id: str = "scripted:model", window: int | None = None
    ) -> None:
        self.model = model
        self.id = id
        self.window = window
        self.requests: list[CompletionRequest] = []

    @asynccontextmanager
    async def stream(self, request: CompletionRequest) -> AsyncGenerator[AsyncIterator[Delta]]:
        self.requests.append(request)
        yield self.answer(request)

    async def answer(self, request: CompletionRequest) -> AsyncIterator[Delta]:
        parts: list[ModelPart] = []
        # Numbered by the conversation, so that a resumed run gives equal ids.
        known = sum(len(item.calls) for item in request.conversation if isinstance(item, ModelTurn))
        calls = 0
        for part in self.model.answer(describe_request(request, self.id)):
            if isinstance(part, scripted_model.Say):
                for word in part.text.splitlines(keepends=True):
                    yield TextDelta(word)
                parts.append(TextPart(part.text))
            else:
                call_id = part.id or f"call_{known + calls + 1}"
                yield CallDelta(calls, call_id, part.tool, msgspec.json.encode(part.input).decode())
                parts.append(ToolCallPart(call_id, part.tool, part.input))
                calls += 1
        stop = "tool_calls" if calls else "end"
        yield WholeTurn(ModelTurn(tuple(parts), stop, self.id, Usage(output_tokens=0), cost=0.0))


def describe_request(request: CompletionRequest, model: str) -> scripted_model.ModelRequest:
    """Return the request for scripts, equal to a request through a wire."""
    messages: list[scripted_model.Message] = []
    for item in request.conversation:
        match item:
            case ModelTurn():
                uses = tuple(scripted_model.Use(call.tool, call.arguments or {}, call.id) for call in item.calls)
                messages.append(scripted_model.Message("assistant", (item.text,) if item.text else (), uses))
            case CallResult():
                failed = item.kind != "done"
                messages.append(
                    scripted_model.Message("user", results=(scripted_model.ToolResult(item.id, item.text, failed),))
                )
            case UserInput():
                messages.append(scripted_model.Message("user", (item.text,)))
            case _:
                messages.append(scripted_model.Message("system", (item.text,)))
    tools = tuple(scripted_model.OfferedTool(tool.name, tool.description, tool.schema) for tool in request.tools)
    return scripted_model.ModelRequest(model, request.system, tools, tuple(messages))


def check_model(model_id: str, variables: Mapping[str, str]) -> None:
    """Raise NoSuchModel or NoKey if the model cannot be opened; loads nothing."""
    if not model_id.startswith(SCRIPTED):
        find_endpoint(model_id, variables)


def open_provider(model_id: str, variables: Mapping[str, str], window: int | None = None) -> Provider:
    """Return the model `PROVIDER:NAME`, or `scripted:FILE`; `window` is the context window of a model missing from the
    tables.

    Loading the library takes about a second: call the function in a thread. Raises NoSuchModel, NoKey, ExtraMissing,
    ModelNotOpened.
    """
    if model_id.startswith(SCRIPTED):
        return open_script(model_id, window)
    endpoint = find_endpoint(model_id, variables)
    with name_missing_extra("agent-bedrock" if endpoint.provider == "bedrock" else "agent"):
        from remit_agent.models.library import LibraryModel

        try:
            return LibraryModel(endpoint, window=window)
        except ImportError:
            raise
        except Exception as error:  # each provider's library has errors of its own
            cause = " ".join(str(error).split()) or type(error).__name__
            raise ModelNotOpened(endpoint.model_id, cause) from error


def open_script(model_id: str, window: int | None) -> Provider:
    path = Path(model_id.removeprefix(SCRIPTED))
    try:
        turns = msgspec.json.decode(path.read_bytes(), type=prepare_type(list[list[ScriptedPart]]))
    except (OSError, msgspec.DecodeError) as error:
        raise NoSuchModel(model_id, f"names no script: {error}") from error

    def answer(conversation: scripted_model.ModelRequest) -> scripted_model.StepParts:
        place = sum(message.role == "assistant" for message in conversation.messages)
        if place >= len(turns):
            return scripted_model.Say("The script has ended.")
        return [
            scripted_model.Use(part.tool, part.input) if part.tool else scripted_model.Say(part.say)
            for part in turns[place]
        ]

    return InProcessModel(scripted_model.ScriptedModel([answer] * MAX_TURNS), model_id, window)
