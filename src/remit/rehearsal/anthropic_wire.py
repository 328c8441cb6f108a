"""The Anthropic Messages API over loopback HTTP, as far as agents speak it.

Source of the shapes: requests of Claude Code 2.1.330, recorded 2026-11.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal
from urllib.parse import urlsplit
from uuid import uuid4

from msgspec import Struct, json

from remit.rehearsal import scripted_model

ERROR_TYPES = {404: "not_found_error", 413: "request_too_large"}


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


class AnthropicWire(scripted_model.ModelWire):
    """Server of one model in the format of the Messages API."""

    request_type = _AnthropicRequest

    def answer(self, method: str, path: str, body: bytes) -> scripted_model.HttpReply:
        match method, urlsplit(path).path.rstrip("/"):
            case "GET", "/v1/models":
                return scripted_model.HttpReply(200, json.encode({"data": [], "has_more": False}))
            case "POST", "/v1/messages/count_tokens":
                return scripted_model.HttpReply(200, json.encode({"input_tokens": len(body) // 4}))
            case "POST", "/v1/messages":
                return self.answer_request(body)
            case _:
                return self.refusal(404, f"{method} {path[:200]!r} is not served here")

    def refusal(self, status: int, message: str) -> scripted_model.HttpReply:
        error = {"type": ERROR_TYPES.get(status, "invalid_request_error"), "message": message}
        return scripted_model.HttpReply(status, json.encode({"type": "error", "error": error}))

    def read_conversation(self, asked: _AnthropicRequest) -> scripted_model.ModelRequest:
        return scripted_model.ModelRequest(
            model=asked.model,
            system="\n".join(_texts(asked.system)),
            tools=tuple(
                scripted_model.OfferedTool(tool.name, tool.description, tool.input_schema) for tool in asked.tools
            ),
            messages=tuple(map(_decode_message, asked.messages)),
        )

    def encode_turn(self, asked: _AnthropicRequest, turn: scripted_model.Turn, input_tokens: int) -> dict[str, Any]:
        content: list[dict[str, Any]] = []
        for part in turn:
            if isinstance(part, scripted_model.Say):
                content.append({"type": "text", "text": part.text})
            else:
                call_id = part.id or f"toolu_{uuid4().hex[:24]}"
                content.append({"type": "tool_use", "id": call_id, "name": part.tool, "input": part.input})
        calls = any(isinstance(part, scripted_model.Use) for part in turn)
        return {
            "id": f"msg_{uuid4().hex[:24]}",
            "type": "message",
            "role": "assistant",
            "model": asked.model,
            "content": content,
            "stop_reason": "tool_use" if calls else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": input_tokens, "output_tokens": len(json.encode(content)) // 4},
        }

    def encode_stream(self, response: dict[str, Any]) -> bytes:
        beginning: dict[str, Any] = {**response, "content": [], "stop_reason": None}
        ending = {key: response[key] for key in ("stop_reason", "stop_sequence")}
        events: list[dict[str, Any]] = [{"type": "message_start", "message": beginning}]
        for index, block in enumerate(response["content"]):
            events += _block_events(index, block)
        events += [{"type": "message_delta", "delta": ending, "usage": response["usage"]}, {"type": "message_stop"}]
        return b"".join(b"event: %s\ndata: %s\n\n" % (e["type"].encode(), json.encode(e)) for e in events)


def _decode_message(message: _AnthropicMessage) -> scripted_model.Message:
    blocks = [] if isinstance(message.content, str) else message.content
    results = (b for b in blocks if b.type == "tool_result")
    return scripted_model.Message(
        role=message.role,
        texts=_texts(message.content),
        uses=tuple(scripted_model.Use(b.name, b.input, b.id) for b in blocks if b.type == "tool_use"),
        results=tuple(
            scripted_model.ToolResult(b.tool_use_id, "\n".join(_texts(b.content)), bool(b.is_error)) for b in results
        ),
    )


def _texts(content: str | Sequence[_AnthropicBlock]) -> tuple[str, ...]:
    if isinstance(content, str):
        return (content,) if content else ()
    return tuple(block.text for block in content if block.type == "text")


def _block_events(index: int, block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if block["type"] == "text":
        empty, delta = {"text": ""}, {"type": "text_delta", "text": block["text"]}
    else:
        written = json.encode(block["input"]).decode()
        empty, delta = {"input": dict[str, Any]()}, {"type": "input_json_delta", "partial_json": written}
    yield {"type": "content_block_start", "index": index, "content_block": {**block, **empty}}
    yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}
