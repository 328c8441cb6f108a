"""The OpenAI Responses API over loopback HTTP, as far as agents speak it.

Source of the shapes: requests of Codex CLI 0.169.0, recorded 2026-11.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal
from urllib.parse import urlsplit
from uuid import uuid4

from msgspec import DecodeError, Struct, ValidationError, json

from remit.host.scripted_model import Message, ModelRequest, OfferedTool, Part, Say, ToolOutput, Turn, Use
from remit.host.wire_server import HttpReply, ModelWire, split_chunks

_REMARKS = ("<environment_context>", "# AGENTS.md instructions", "<user_instructions>")


class _ResponsesContent(Struct, frozen=True):
    type: str = ""
    text: str = ""


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
    content: str | list[_ResponsesContent] | None = None
    call_id: str | None = None
    name: str = ""
    namespace: str | None = None
    arguments: str | dict[str, Any] = "{}"
    input: str = ""
    output: str | list[_ResponsesContent] = ""
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


class ResponsesWire(ModelWire):
    """Server of one model in the format of the Responses API; `url` is without the `/v1`.

    A freeform tool (`custom`) takes `{"input": TEXT}`. The format has no mark for a failed tool call: `is_error` is
    never set.
    """

    def answer(self, method: str, path: str, body: bytes) -> HttpReply:
        """Return the reply to one request. Raises NotFreeform, and the script's errors."""
        route = (method, urlsplit(path).path.rstrip("/").removeprefix("/v1"))
        if route == ("GET", "/models"):
            return HttpReply(200, json.encode({"object": "list", "data": [], "models": []}))
        if route == ("POST", "/responses"):
            return self._answer_response(body)
        return self.refusal(404, f"{method} {path[:200]!r} is not served here")

    def _answer_response(self, body: bytes) -> HttpReply:
        try:
            asked = json.decode(body, type=_ResponsesRequest)
            conversation = _conversation(asked)
        except (DecodeError, ValidationError) as error:
            return self.refusal(400, f"not a Responses request: {error}")
        shapes = dict(_call_shapes(asked.tools or ()))
        response = _response(asked.model, self._next_turn(conversation), shapes, len(body) // 4)
        if asked.stream:
            return HttpReply(200, _stream(response), "text/event-stream; charset=utf-8")
        return HttpReply(200, json.encode(response))

    def refusal(self, status: int, message: str) -> HttpReply:
        return HttpReply(status, json.encode({"error": {"message": message, "type": "invalid_request_error"}}))


def _call_shapes(tools: Sequence[_ResponsesTool], namespace: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the encoding of a call to each offered tool, under the name used by scripts."""
    for tool in tools:
        match tool.type:
            case "namespace":
                yield from _call_shapes(tool.tools, tool.name)
            case "custom":
                yield tool.name, {"type": "custom_tool_call", "name": tool.name}
            case "tool_search":
                yield tool.type, {"type": "tool_search_call", "execution": "client"}
            case _:
                yield _join_name(namespace, tool.name), _function_call(namespace, tool.name)


def _function_call(namespace: str, name: str) -> dict[str, Any]:
    call = {"type": "function_call", "name": name}
    return {**call, "namespace": namespace} if namespace else call


def _unlisted_call(name: str) -> dict[str, Any]:
    """Return a call of a tool that is not offered: Codex hides most namespaces, and accepts calls into them."""
    namespace, _, rest = name.rpartition("__")
    return _function_call(namespace, rest)


def _join_name(namespace: str, name: str) -> str:
    return f"{namespace}__{name}" if namespace else name


def _conversation(asked: _ResponsesRequest) -> ModelRequest:
    items = [_ResponsesItem(content=asked.input)] if isinstance(asked.input, str) else asked.input
    tools = asked.tools or ()
    return ModelRequest(
        model=asked.model,
        system=asked.instructions or "",
        tools=tuple(_offered_tools(tools)),
        messages=tuple(_decode_item(item) for item in items),
    )


def _offered_tools(tools: Sequence[_ResponsesTool], namespace: str = "") -> Iterator[OfferedTool]:
    for tool in tools:
        if tool.type == "namespace":
            yield from _offered_tools(tool.tools, tool.name)
        else:
            yield OfferedTool(_join_name(namespace, tool.name or tool.type), tool.description, tool.parameters or {})


def _decode_item(item: _ResponsesItem) -> Message:
    match item.type:
        case "message":
            return _decode_text(item)
        case "function_call" | "tool_search_call":
            name = _join_name(item.namespace or "", item.name or "tool_search")
            return Message("assistant", uses=(Use(name, _arguments(item.arguments), item.call_id),))
        case "custom_tool_call":
            return Message("assistant", uses=(Use(item.name, {"input": item.input}, item.call_id),))
        case "function_call_output" | "custom_tool_call_output" | "tool_search_output":
            return Message("user", results=(_decode_result(item),))
        case _:
            return Message("assistant")


def _decode_text(item: _ResponsesItem) -> Message:
    texts = _texts(item.content)
    # The client tells the model of folder and AGENTS.md in the user's name.
    if item.role == "developer" or any(text.startswith(_REMARKS) for text in texts):
        return Message("system", texts)
    return Message(item.role, texts)


def _arguments(written: str | dict[str, Any]) -> dict[str, Any]:
    return json.decode(written or "{}", type=dict[str, Any]) if isinstance(written, str) else written


def _decode_result(item: _ResponsesItem) -> ToolOutput:
    found = tuple(tool.name for tool in _offered_tools(item.tools))
    return ToolOutput(item.call_id or "", "\n".join(_texts(item.output) or found))


def _texts(content: str | Sequence[_ResponsesContent] | None) -> tuple[str, ...]:
    if isinstance(content, str):
        return (content,) if content else ()
    return tuple(part.text for part in content or () if part.type in ("input_text", "output_text", "text"))


def _response(model: str, turn: Turn, shapes: Mapping[str, dict[str, Any]], input_tokens: int) -> dict[str, Any]:
    output = [_encode_part(part, shapes) for part in turn]
    tokens = len(json.encode(output)) // 4
    return {
        "id": f"resp_{uuid4().hex}",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "model": model,
        "output": output,
        "usage": {
            "input_tokens": input_tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": input_tokens + tokens,
        },
    }


def _encode_part(part: Part, shapes: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    if isinstance(part, Say):
        said = {"type": "output_text", "text": part.text}
        return {
            "id": f"msg_{uuid4().hex}",
            "type": "message",
            "status": "completed",
            "role": "assistant",
            "content": [said],
        }
    call = shapes.get(part.tool) or _unlisted_call(part.tool)
    named = {"id": f"fc_{uuid4().hex}", "status": "completed", "call_id": part.id or f"call_{uuid4().hex[:24]}"}
    if call["type"] == "custom_tool_call":
        return {**call, **named, "input": _freeform_text(part)}
    if call["type"] == "tool_search_call":
        return {**call, **named, "arguments": part.input}
    return {**call, **named, "arguments": json.encode(part.input).decode()}


def _freeform_text(use: Use) -> str:
    text = use.input.get("input")
    if not isinstance(text, str) or len(use.input) > 1:
        raise NotFreeform(use)
    return text


def _stream(response: dict[str, Any]) -> bytes:
    """Return the response as server-sent events."""
    beginning: dict[str, Any] = {**response, "status": "in_progress", "output": []}
    events = [("response.created", {"response": beginning})]
    for index, item in enumerate(response["output"]):
        events += _item_events(index, item)
    events.append(("response.completed", {"response": response}))
    return b"".join(_event(number, *event) for number, event in enumerate(events))


def _item_events(index: int, item: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    place = {"output_index": index, "item_id": item["id"]}
    kind, empty, whole = _describe_growth(item)
    yield "response.output_item.added", {"output_index": index, "item": {**item, **empty, "status": "in_progress"}}
    for chunk in split_chunks(whole):
        yield f"response.{kind}.delta", {**place, "content_index": 0, "delta": chunk}
    yield "response.output_item.done", {"output_index": index, "item": item}


def _describe_growth(item: dict[str, Any]) -> tuple[str, dict[str, Any], str]:
    """Return an item's event kind, its initial fields, and its final text."""
    if item["type"] == "message":
        return "output_text", {"content": []}, item["content"][0]["text"]
    if item["type"] == "custom_tool_call":
        return "custom_tool_call_input", {"input": ""}, item["input"]
    if item["type"] == "tool_search_call":
        return "tool_search_call_arguments", {}, ""
    return "function_call_arguments", {"arguments": ""}, item["arguments"]


def _event(number: int, name: str, fields: dict[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (
        name.encode(),
        json.encode({"type": name, "sequence_number": number, **fields}),
    )
