"""The Anthropic Messages API over loopback HTTP, as far as agents speak it.

Source of the shapes: requests of Claude Code 2.1.330, recorded 2026-11.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal
from urllib.parse import urlsplit
from uuid import uuid4

from msgspec import DecodeError, Struct, ValidationError, json

from remit.host.scripted_model import Message, ModelRequest, OfferedTool, Part, Say, ToolOutput, Turn, Use
from remit.host.wire_server import HttpReply, ModelWire, split_chunks

_ERROR_TYPES = {404: "not_found_error", 413: "request_too_large"}


class _AnthropicBlock(Struct, frozen=True):
    type: str = ""
    text: str = ""
    id: str = ""
    name: str = ""
    input: dict[str, Any] = {}
    tool_use_id: str = ""
    content: "str | list[_AnthropicBlock]" = ""
    is_error: bool | None = False


class _AnthropicMessage(Struct, frozen=True):
    role: Literal["user", "assistant", "system"]
    content: str | list[_AnthropicBlock] = ""


class _AnthropicTool(Struct, frozen=True):
    name: str = ""
    description: str = ""
    input_schema: dict[str, Any] = {}


class _AnthropicRequest(Struct, frozen=True):
    messages: list[_AnthropicMessage]
    model: str = ""
    system: str | list[_AnthropicBlock] = ""
    tools: list[_AnthropicTool] = []
    stream: bool = False


class AnthropicWire(ModelWire):
    """Server of one model in the format of the Messages API."""

    def answer(self, method: str, path: str, body: bytes) -> HttpReply:
        """Return the reply to one request. Raises the script's errors."""
        route = (method, urlsplit(path).path.rstrip("/"))
        if route == ("GET", "/v1/models"):
            return HttpReply(200, json.encode({"data": [], "has_more": False}))
        if route == ("POST", "/v1/messages/count_tokens"):
            return HttpReply(200, json.encode({"input_tokens": _count_tokens(body)}))
        if route == ("POST", "/v1/messages"):
            return self._answer_messages(body)
        return self.refusal(404, f"{method} {path[:200]!r} is not served here")

    def refusal(self, status: int, message: str) -> HttpReply:
        error = {"type": _ERROR_TYPES.get(status, "invalid_request_error"), "message": message}
        return HttpReply(status, json.encode({"type": "error", "error": error}))

    def _answer_messages(self, body: bytes) -> HttpReply:
        try:
            asked = json.decode(body, type=_AnthropicRequest)
        except (DecodeError, ValidationError) as error:
            return self.refusal(400, f"not a Messages request: {error}")
        message = _message(asked.model, self._next_turn(_conversation(asked)), _count_tokens(body))
        if asked.stream:
            return HttpReply(200, _stream(message), "text/event-stream; charset=utf-8")
        return HttpReply(200, json.encode(message))


def _count_tokens(text: bytes) -> int:
    return len(text) // 4


def _conversation(asked: _AnthropicRequest) -> ModelRequest:
    return ModelRequest(
        model=asked.model,
        system="\n".join(_texts(asked.system)),
        tools=tuple(OfferedTool(tool.name, tool.description, tool.input_schema) for tool in asked.tools),
        messages=tuple(_decode_message(message) for message in asked.messages),
    )


def _decode_message(message: _AnthropicMessage) -> Message:
    blocks = [] if isinstance(message.content, str) else message.content
    return Message(
        role=message.role,
        texts=_texts(message.content),
        uses=tuple(Use(b.name, b.input, b.id) for b in blocks if b.type == "tool_use"),
        results=tuple(_decode_result(b) for b in blocks if b.type == "tool_result"),
    )


def _decode_result(block: _AnthropicBlock) -> ToolOutput:
    return ToolOutput(block.tool_use_id, "\n".join(_texts(block.content)), bool(block.is_error))


def _texts(content: str | Sequence[_AnthropicBlock]) -> tuple[str, ...]:
    if isinstance(content, str):
        return (content,) if content else ()
    return tuple(block.text for block in content if block.type == "text")


def _message(model: str, turn: Turn, input_tokens: int) -> dict[str, Any]:
    content = [_content(part) for part in turn]
    calls = any(isinstance(part, Use) for part in turn)
    return {
        "id": f"msg_{uuid4().hex[:24]}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": input_tokens, "output_tokens": _count_tokens(json.encode(content))},
    }


def _content(part: Part) -> dict[str, Any]:
    if isinstance(part, Say):
        return {"type": "text", "text": part.text}
    made_up = f"toolu_{uuid4().hex[:24]}"
    return {"type": "tool_use", "id": part.id or made_up, "name": part.tool, "input": part.input}


def _stream(message: dict[str, Any]) -> bytes:
    """Return the message as server-sent events."""
    ending = {key: message[key] for key in ("stop_reason", "stop_sequence")}
    beginning: dict[str, Any] = {**message, "content": [], "stop_reason": None}
    events = [_event("message_start", message=beginning)]
    for index, block in enumerate(message["content"]):
        events += _block_events(index, block)
    events.append(_event("message_delta", delta=ending, usage=message["usage"]))
    events.append(_event("message_stop"))
    return b"".join(events)


def _block_events(index: int, block: dict[str, Any]) -> Iterator[bytes]:
    if block["type"] == "text":
        field, empty, kind, key = "text", "", "text_delta", "text"
    else:
        field, empty, kind, key = "input", dict[str, Any](), "input_json_delta", "partial_json"
    value = block[field]
    whole = value if isinstance(value, str) else json.encode(value).decode()
    yield _event("content_block_start", index=index, content_block={**block, field: empty})
    for chunk in split_chunks(whole):
        yield _event("content_block_delta", index=index, delta={"type": kind, key: chunk})
    yield _event("content_block_stop", index=index)


def _event(name: str, **fields: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), json.encode({"type": name, **fields}))
