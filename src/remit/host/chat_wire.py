"""The OpenAI Chat Completions API over loopback HTTP, as far as agents speak it.

Source of the shapes: requests of Qwen Code 0.24.4, recorded 2026-11.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal
from urllib.parse import urlsplit
from uuid import uuid4

from msgspec import DecodeError, Struct, ValidationError, json

from remit.host.scripted_model import Message, ModelRequest, OfferedTool, Say, ToolOutput, Turn, Use
from remit.host.wire_server import HttpReply, ModelWire, split_chunks

_SYSTEM_ROLES = ("system", "developer")
_ROLES: dict[str, Literal["user", "assistant", "system"]] = {"user": "user", "assistant": "assistant", "tool": "user"}


class _ChatPart(Struct, frozen=True):
    type: str = ""
    text: str = ""


class _ChatFunction(Struct, frozen=True):
    name: str = ""
    description: str = ""
    parameters: dict[str, Any] = {}
    arguments: str = ""


class _ChatCall(Struct, frozen=True):
    function: _ChatFunction
    id: str = ""


class _ChatMessage(Struct, frozen=True):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[_ChatPart] | None = None
    tool_calls: list[_ChatCall] | None = None
    tool_call_id: str = ""


class _ChatTool(Struct, frozen=True):
    function: _ChatFunction = _ChatFunction()


class _ChatRequest(Struct, frozen=True):
    messages: list[_ChatMessage]
    model: str = ""
    tools: list[_ChatTool] | None = None
    stream: bool | None = False


class ChatWire(ModelWire):
    """Server of one model in the format of Chat Completions; `url` is without the `/v1`.

    The format has no mark for a failed tool call: `is_error` is never set. Within a turn the text comes first, whatever
    the script's order.
    """

    def answer(self, method: str, path: str, body: bytes) -> HttpReply:
        """Return the reply to one request. Raises the script's errors."""
        route = (method, urlsplit(path).path.rstrip("/").removeprefix("/v1"))
        if route == ("GET", "/models"):
            return HttpReply(200, json.encode({"object": "list", "data": []}))
        if route == ("POST", "/chat/completions"):
            return self._answer_completion(body)
        return self.refusal(404, f"{method} {path[:200]!r} is not served here")

    def _answer_completion(self, body: bytes) -> HttpReply:
        try:
            asked = json.decode(body, type=_ChatRequest)
            conversation = _conversation(asked)
        except (DecodeError, ValidationError) as error:
            return self.refusal(400, f"not a Chat Completions request: {error}")
        completion = _completion(asked.model, self._next_turn(conversation), len(body) // 4)
        if asked.stream:
            return HttpReply(200, _stream(completion), "text/event-stream; charset=utf-8")
        return HttpReply(200, json.encode(completion))

    def refusal(self, status: int, message: str) -> HttpReply:
        return HttpReply(status, json.encode({"error": {"message": message, "type": "invalid_request_error"}}))


def _conversation(asked: _ChatRequest) -> ModelRequest:
    said = [message for message in asked.messages if message.role not in _SYSTEM_ROLES]
    set_up = [message for message in asked.messages if message.role in _SYSTEM_ROLES]
    functions = [tool.function for tool in asked.tools or ()]
    return ModelRequest(
        model=asked.model,
        system="\n".join(text for message in set_up for text in _texts(message.content)),
        tools=tuple(OfferedTool(f.name, f.description, f.parameters) for f in functions if f.name),
        messages=tuple(_decode_message(message) for message in said),
    )


def _decode_message(message: _ChatMessage) -> Message:
    texts = _texts(message.content)
    if message.role == "tool":
        return Message("user", results=(ToolOutput(message.tool_call_id, "\n".join(texts)),))
    return Message(_ROLES[message.role], texts, tuple(_decode_call(call) for call in message.tool_calls or ()))


def _decode_call(call: _ChatCall) -> Use:
    arguments = json.decode(call.function.arguments or "{}", type=dict[str, Any])
    return Use(call.function.name, arguments, call.id)


def _texts(content: str | Sequence[_ChatPart] | None) -> tuple[str, ...]:
    if isinstance(content, str):
        return (content,) if content else ()
    return tuple(part.text for part in content or () if part.type == "text")


def _completion(model: str, turn: Turn, prompt_tokens: int) -> dict[str, Any]:
    calls = [_encode_call(part) for part in turn if isinstance(part, Use)]
    text = "\n".join(part.text for part in turn if isinstance(part, Say))
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = calls
    tokens = len(json.encode(message)) // 4
    return {
        "id": f"chatcmpl-{uuid4().hex}",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}],
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": tokens,
            "total_tokens": prompt_tokens + tokens,
        },
    }


def _encode_call(use: Use) -> dict[str, Any]:
    function = {"name": use.tool, "arguments": json.encode(use.input).decode()}
    return {"id": use.id or f"call_{uuid4().hex[:24]}", "type": "function", "function": function}


def _stream(completion: dict[str, Any]) -> bytes:
    """Return the completion as server-sent events; the usage comes last, in a chunk without choices."""
    [choice] = completion["choices"]
    same = {**completion, "object": "chat.completion.chunk", "usage": None}
    changes = [{"delta": delta, "finish_reason": None} for delta in _deltas(choice["message"])]
    changes.append({"delta": {}, "finish_reason": choice["finish_reason"]})
    chunks = [{**same, "choices": [{"index": 0, **change}]} for change in changes]
    chunks.append({**same, "choices": [], "usage": completion["usage"]})
    lines = [*(json.encode(chunk) for chunk in chunks), b"[DONE]"]
    return b"".join(b"data: %s\n\n" % line for line in lines)


def _deltas(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": ""}
    for piece in split_chunks(message["content"] or ""):
        yield {"content": piece}
    for index, call in enumerate(message.get("tool_calls", ())):
        function = call["function"]
        yield {"tool_calls": [{"index": index, **call, "function": {**function, "arguments": ""}}]}
        for piece in split_chunks(function["arguments"]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
