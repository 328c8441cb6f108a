"""The OpenAI APIs over loopback HTTP, as far as agents speak them: Chat Completions and Responses.

Neither format has a mark for a failed tool call: `is_error` is never set. Source of the shapes: requests of Qwen Code
0.24.4 and of Codex CLI 0.169.0, recorded 2026-11.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit
from uuid import uuid4

from msgspec import Struct, json

from remit.rehearsal.scripted_model import (
    HttpReply,
    Message,
    ModelRequest,
    ModelWire,
    OfferedTool,
    Part,
    Say,
    ToolResult,
    Turn,
    Use,
)

SYSTEM_ROLES = ("system", "developer")
USER_REMARKS = ("<environment_context>", "# AGENTS.md instructions", "<user_instructions>")
"""Beginnings of texts in which Codex tells the model, in the user's name, of the folder and of AGENTS.md."""


class _TextPart(Struct, frozen=True):
    type: str = ""
    text: str = ""


_Texts = str | list[_TextPart] | None


def _texts(content: _Texts) -> tuple[str, ...]:
    if isinstance(content, str):
        return (content,) if content else ()
    return tuple(part.text for part in content or () if part.type in ("text", "input_text", "output_text"))


class OpenAiWire(ModelWire):
    """Server of one model in a format of OpenAI's; `url` is without the `/v1`."""

    route: ClassVar[str]

    def answer(self, method: str, path: str, body: bytes) -> HttpReply:
        route = (method, urlsplit(path).path.rstrip("/").removeprefix("/v1"))
        if route == ("GET", "/models"):
            return HttpReply(200, json.encode({"object": "list", "data": [], "models": []}))
        if route == ("POST", self.route):
            return self.answer_request(body)
        return self.refusal(404, f"{method} {path[:200]!r} is not served here")

    def refusal(self, status: int, message: str) -> HttpReply:
        return HttpReply(status, json.encode({"error": {"message": message, "type": "invalid_request_error"}}))


# Chat Completions


class _ChatFunction(Struct, frozen=True):
    name: str = ""
    description: str = ""
    parameters: dict[str, Any] = {}
    arguments: str = ""


class _ChatCall(Struct, frozen=True):
    function: _ChatFunction = _ChatFunction()
    id: str = ""


class _ChatMessage(Struct, frozen=True):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: _Texts = None
    tool_calls: list[_ChatCall] | None = None
    tool_call_id: str = ""


class _ChatRequest(Struct, frozen=True):
    messages: list[_ChatMessage]
    model: str = ""
    tools: list[_ChatCall] | None = None
    stream: bool | None = False


class ChatWire(OpenAiWire):
    """Server in the format of Chat Completions: within a turn the text comes first, whatever the script's order."""

    request_type = _ChatRequest
    route = "/chat/completions"

    def read_conversation(self, asked: _ChatRequest) -> ModelRequest:
        set_up = [message for message in asked.messages if message.role in SYSTEM_ROLES]
        functions = [tool.function for tool in asked.tools or ()]
        return ModelRequest(
            model=asked.model,
            system="\n".join(text for message in set_up for text in _texts(message.content)),
            tools=tuple(OfferedTool(f.name, f.description, f.parameters) for f in functions if f.name),
            messages=tuple(_decode_chat_message(m) for m in asked.messages if m.role not in SYSTEM_ROLES),
        )

    def encode_turn(self, asked: _ChatRequest, turn: Turn, input_tokens: int) -> dict[str, Any]:
        text = "\n".join(part.text for part in turn if isinstance(part, Say))
        message: dict[str, Any] = {"role": "assistant", "content": text or None}
        calls: list[dict[str, Any]] = []
        for use in (part for part in turn if isinstance(part, Use)):
            function = {"name": use.tool, "arguments": json.encode(use.input).decode()}
            calls.append({"id": use.id or f"call_{uuid4().hex[:24]}", "type": "function", "function": function})
        message |= {"tool_calls": calls} if calls else {}
        tokens = len(json.encode(message)) // 4
        total = input_tokens + tokens
        return {
            "id": f"chatcmpl-{uuid4().hex}",
            "object": "chat.completion",
            "created": 0,
            "model": asked.model,
            "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}],
            "usage": {"prompt_tokens": input_tokens, "completion_tokens": tokens, "total_tokens": total},
        }

    def encode_stream(self, response: dict[str, Any]) -> bytes:
        """Return the completion as server-sent events; the usage comes last, in a chunk without choices."""
        [choice] = response["choices"]
        chunk = {**response, "object": "chat.completion.chunk", "usage": None}
        changes = [{"delta": delta, "finish_reason": None} for delta in _chat_deltas(choice["message"])]
        changes.append({"delta": {}, "finish_reason": choice["finish_reason"]})
        chunks = [{**chunk, "choices": [{"index": 0, **change}]} for change in changes]
        chunks.append({**chunk, "choices": [], "usage": response["usage"]})
        return b"".join(b"data: %s\n\n" % line for line in (*map(json.encode, chunks), b"[DONE]"))


def _decode_chat_message(message: _ChatMessage) -> Message:
    texts = _texts(message.content)
    if message.role == "tool":
        return Message("user", results=(ToolResult(message.tool_call_id, "\n".join(texts)),))
    calls = [(call.function, call.id) for call in message.tool_calls or ()]
    uses = tuple(Use(f.name, _arguments(f.arguments), call_id) for f, call_id in calls)
    return Message("assistant" if message.role == "assistant" else "user", texts, uses)


def _arguments(written: str | dict[str, Any]) -> dict[str, Any]:
    return json.decode(written or "{}", type=dict[str, Any]) if isinstance(written, str) else written


def _chat_deltas(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": ""}
    if message["content"]:
        yield {"content": message["content"]}
    for index, call in enumerate(message.get("tool_calls", ())):
        function = call["function"]
        yield {"tool_calls": [{"index": index, **call, "function": {**function, "arguments": ""}}]}
        yield {"tool_calls": [{"index": index, "function": {"arguments": function["arguments"]}}]}


# Responses


class _ResponsesTool(Struct, frozen=True):
    type: str = ""
    name: str = ""
    description: str = ""
    parameters: dict[str, Any] | None = None
    tools: "list[_ResponsesTool]" = []


class _ResponsesItem(Struct, frozen=True):
    """Item of `input` of any kind: a message, a call, or a call's output."""

    type: str = "message"
    role: Literal["user", "assistant", "system", "developer"] = "user"
    content: _Texts = None
    call_id: str | None = None
    name: str = ""
    namespace: str | None = None
    arguments: str | dict[str, Any] = "{}"
    input: str = ""
    output: str | list[_TextPart] = ""
    tools: list[_ResponsesTool] = []


class _ResponsesRequest(Struct, frozen=True):
    input: str | list[_ResponsesItem]
    model: str = ""
    instructions: str | None = ""
    tools: list[_ResponsesTool] | None = None
    stream: bool | None = False


class NotFreeform(ValueError):
    """Script step for a freeform tool with anything but one text."""

    def __init__(self, use: Use) -> None:
        super().__init__(f"{use.tool!r} takes one text; expected {{'input': TEXT}}, not {use.input!r}")
        self.use = use


class ResponsesWire(OpenAiWire):
    """Server in the format of the Responses API. A freeform tool (`custom`) takes `{"input": TEXT}`.

    `encode_turn` raises NotFreeform.
    """

    request_type = _ResponsesRequest
    route = "/responses"

    def read_conversation(self, asked: _ResponsesRequest) -> ModelRequest:
        items = [_ResponsesItem(content=asked.input)] if isinstance(asked.input, str) else asked.input
        return ModelRequest(
            model=asked.model,
            system=asked.instructions or "",
            tools=tuple(OfferedTool(n, t.description, t.parameters or {}) for n, t, _ in _offered(asked.tools or ())),
            messages=tuple(map(_decode_item, items)),
        )

    def encode_turn(self, asked: _ResponsesRequest, turn: Turn, input_tokens: int) -> dict[str, Any]:
        shapes = {name: _call_shape(tool, namespace) for name, tool, namespace in _offered(asked.tools or ())}
        output = [_encode_part(part, shapes) for part in turn]
        tokens = len(json.encode(output)) // 4
        return {
            "id": f"resp_{uuid4().hex}",
            "object": "response",
            "created_at": 0,
            "status": "completed",
            "model": asked.model,
            "output": output,
            "usage": {
                "input_tokens": input_tokens,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": tokens,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": input_tokens + tokens,
            },
        }

    def encode_stream(self, response: dict[str, Any]) -> bytes:
        beginning: dict[str, Any] = {**response, "status": "in_progress", "output": []}
        events: list[tuple[str, dict[str, Any]]] = [("created", {"response": beginning})]
        for index, item in enumerate(response["output"]):
            kind, empty, whole = _describe_growth(item)
            begun = {**item, **empty, "status": "in_progress"}
            place = {"output_index": index, "item_id": item["id"], "content_index": 0}
            events.append(("output_item.added", {"output_index": index, "item": begun}))
            events += [(f"{kind}.delta", {**place, "delta": whole})] if whole else []
            events.append(("output_item.done", {"output_index": index, "item": item}))
        events.append(("completed", {"response": response}))
        lines = [(f"response.{name}", number, fields) for number, (name, fields) in enumerate(events)]
        return b"".join(
            b"event: %s\ndata: %s\n\n"
            % (name.encode(), json.encode({"type": name, "sequence_number": number, **fields}))
            for name, number, fields in lines
        )


def _offered(tools: Sequence[_ResponsesTool], namespace: str = "") -> Iterator[tuple[str, _ResponsesTool, str]]:
    for tool in tools:
        if tool.type == "namespace":
            yield from _offered(tool.tools, tool.name)
        else:
            yield _join_name(namespace, tool.name or tool.type), tool, namespace


def _join_name(namespace: str, name: str) -> str:
    return f"{namespace}__{name}" if namespace else name


def _call_shape(tool: _ResponsesTool, namespace: str) -> dict[str, Any]:
    if tool.type == "custom":
        return {"type": "custom_tool_call", "name": tool.name}
    if tool.type == "tool_search":
        return {"type": "tool_search_call", "execution": "client"}
    return {"type": "function_call", "name": tool.name, **({"namespace": namespace} if namespace else {})}


def _decode_item(item: _ResponsesItem) -> Message:
    match item.type:
        case "message":
            texts = _texts(item.content)
            if item.role == "developer" or any(text.startswith(USER_REMARKS) for text in texts):
                return Message("system", texts)
            return Message(item.role, texts)
        case "function_call" | "tool_search_call":
            name = _join_name(item.namespace or "", item.name or "tool_search")
            return Message("assistant", uses=(Use(name, _arguments(item.arguments), item.call_id),))
        case "custom_tool_call":
            return Message("assistant", uses=(Use(item.name, {"input": item.input}, item.call_id),))
        case "function_call_output" | "custom_tool_call_output" | "tool_search_output":
            texts = _texts(item.output) or tuple(name for name, _, _ in _offered(item.tools))
            return Message("user", results=(ToolResult(item.call_id or "", "\n".join(texts)),))
        case _:
            return Message("assistant")


def _encode_part(part: Part, shapes: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    if isinstance(part, Say):
        content = [{"type": "output_text", "text": part.text}]
        named = {"id": f"msg_{uuid4().hex}", "type": "message", "status": "completed"}
        return {**named, "role": "assistant", "content": content}
    # Codex hides most namespaces, and accepts calls into them: such a tool is not offered.
    namespace, _, name = part.tool.rpartition("__")
    call = shapes.get(part.tool) or _call_shape(_ResponsesTool(name=name), namespace)
    named = {"id": f"fc_{uuid4().hex}", "status": "completed", "call_id": part.id or f"call_{uuid4().hex[:24]}"}
    match call["type"]:
        case "custom_tool_call":
            text = part.input.get("input")
            if not isinstance(text, str) or len(part.input) > 1:
                raise NotFreeform(part)
            return {**call, **named, "input": text}
        case "tool_search_call":
            return {**call, **named, "arguments": part.input}
        case _:
            return {**call, **named, "arguments": json.encode(part.input).decode()}


def _describe_growth(item: dict[str, Any]) -> tuple[str, dict[str, Any], str]:
    match item["type"]:
        case "message":
            return "output_text", {"content": []}, item["content"][0]["text"]
        case "custom_tool_call":
            return "custom_tool_call_input", {"input": ""}, item["input"]
        case "tool_search_call":
            return "tool_search_call_arguments", {}, ""
        case _:
            return "function_call_arguments", {"arguments": ""}, item["arguments"]
