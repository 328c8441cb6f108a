"""A scripted model behind the port to models, without a socket: for tests, and for runs that show what Remit does."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

from msgspec import json

from remit.host.messages import CallResult, ModelPart, ModelTurn, TextPart, ToolCallPart, Usage, UserInput
from remit.host.models.port import CallDelta, CompletionRequest, Delta, TextDelta, WholeTurn
from remit.host.scripted_model import Message, ModelRequest, OfferedTool, Say, ScriptedModel, ToolResult, Use


class InProcessModel:
    """A provider answering from a script. A function among the steps sees the conversation, and a resumed run
    goes on at the same step.
    """

    def __init__(self, model: ScriptedModel, id: str = "scripted:model", window: int | None = None) -> None:
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
            if isinstance(part, Say):
                for word in part.text.splitlines(keepends=True):
                    yield TextDelta(word)
                parts.append(TextPart(part.text))
            else:
                call_id = part.id or f"call_{known + calls + 1}"
                yield CallDelta(calls, call_id, part.tool, json.encode(part.input).decode())
                parts.append(ToolCallPart(call_id, part.tool, part.input))
                calls += 1
        stop = "tool_calls" if calls else "end"
        yield WholeTurn(ModelTurn(tuple(parts), stop, self.id, Usage(output_tokens=0), cost=0.0))


def describe_request(request: CompletionRequest, model: str) -> ModelRequest:
    """Return the request for scripts, equal to a request through a wire."""
    messages: list[Message] = []
    for item in request.conversation:
        match item:
            case ModelTurn():
                uses = tuple(Use(call.tool, call.arguments or {}, call.id) for call in item.calls)
                messages.append(Message("assistant", (item.text,) if item.text else (), uses))
            case CallResult():
                failed = item.kind != "done"
                messages.append(Message("user", results=(ToolResult(item.id, item.text, failed),)))
            case UserInput():
                messages.append(Message("user", (item.text,)))
            case _:
                messages.append(Message("system", (item.text,)))
    tools = tuple(OfferedTool(tool.name, tool.description, tool.schema) for tool in request.tools)
    return ModelRequest(model, request.system, tools, tuple(messages))
