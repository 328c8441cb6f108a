"""The four wires as providers: a scripted model behind each, reached through the library."""

from collections.abc import Mapping

from coroutines import run_coroutine
from remit.rehearsal.anthropic_wire import AnthropicWire
from remit.rehearsal.gemini_wire import GeminiWire
from remit.rehearsal.openai_wires import ChatWire, ResponsesWire
from remit.rehearsal.scripted_model import ModelWire
from remit_agent.models.endpoints import PROVIDERS, Endpoint, find_endpoint
from remit_agent.models.library import LibraryModel
from remit_agent.models.messages import ConversationItem, ModelTurn, UserInput
from remit_agent.models.port import CompletionRequest, Delta, ToolSchema, WholeTurn

WIRES: dict[str, type[ModelWire]] = {
    "anthropic": AnthropicWire,
    "openai": ResponsesWire,
    "openai-compatible": ChatWire,
    "google": GeminiWire,
}
READ = ToolSchema("read_file", "Read.", {"type": "object", "properties": {"path": {"type": "string"}}})


def endpoint_of(provider: str, wire: ModelWire, name: str = "m-1") -> Endpoint:
    row = PROVIDERS[provider]
    path = "/v1" if "/v1" in row.default_url or provider == "openai-compatible" else ""
    return find_endpoint(f"{provider}:{name}", {row.keys[0]: "dummy", row.urls[0]: wire.url + path})


def stream_turn(
    model: LibraryModel,
    *conversation: ConversationItem,
    images: Mapping[str, bytes] | None = None,
    max_tokens: int | None = None,
) -> tuple[list[Delta], ModelTurn]:
    """The deltas before the last of one request, and the turn that the last holds."""
    items = conversation or (UserInput("go"),)
    request = CompletionRequest("Be good.", (READ,), items, dict(images or {}), max_tokens)

    async def stream() -> list[Delta]:
        async with model.stream(request) as deltas:
            return [delta async for delta in deltas]

    *deltas, last = run_coroutine(stream())
    assert isinstance(last, WholeTurn)
    return deltas, last.turn
