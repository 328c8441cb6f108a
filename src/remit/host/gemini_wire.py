"""The Gemini API (`generateContent`, `streamGenerateContent`) over loopback HTTP, as far as agents speak it.

Source of the shapes: requests of Gemini CLI 0.61.0, recorded 2026-11.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

from msgspec import DecodeError, Struct, ValidationError, field, json

from remit.host.scripted_model import Message, ModelRequest, OfferedTool, Part, Say, ToolOutput, Turn, Use
from remit.host.wire_server import HttpReply, ModelWire

_REMARK = "<session_context>"
_ROUTE = re.compile(r"/v1(?:beta)?/models/(?P<model>[^/:]+):(?P<verb>\w+)")


class _GeminiCall(Struct, frozen=True):
    name: str = ""
    args: dict[str, Any] = {}
    id: str = ""


class _GeminiResponse(Struct, frozen=True):
    name: str = ""
    response: dict[str, Any] = {}
    id: str = ""


class _GeminiPart(Struct, frozen=True, rename="camel"):
    text: str = ""
    thought: bool = False
    function_call: _GeminiCall | None = None
    function_response: _GeminiResponse | None = None


class _GeminiContent(Struct, frozen=True):
    parts: list[_GeminiPart] = []
    role: str = "user"


class _GeminiDeclaration(Struct, frozen=True, rename="camel"):
    name: str
    description: str = ""
    parameters: dict[str, Any] = {}
    parameters_json_schema: dict[str, Any] = {}


class _GeminiTool(Struct, frozen=True, rename="camel"):
    function_declarations: list[_GeminiDeclaration] = []


class _GeminiRequest(Struct, frozen=True, rename="camel"):
    contents: list[_GeminiContent]
    system_instruction: _GeminiContent = field(default_factory=_GeminiContent)
    tools: list[_GeminiTool] = []


class GeminiWire(ModelWire):
    """Server of one model in the format of the Gemini API.

    Call ids come from the agent: for a result without an id, the tool's name and the result's position are used.
    """

    def answer(self, method: str, path: str, body: bytes) -> HttpReply:
        """Return the reply to one request. Raises the script's errors."""
        address = urlsplit(path)
        asked = _ROUTE.fullmatch(address.path)
        if method != "POST" or asked is None:
            return self.refusal(404, f"{method} {path[:200]!r} is not served here")
        if asked["verb"] == "countTokens":
            return HttpReply(200, json.encode({"totalTokens": len(body) // 4}))
        if asked["verb"] not in ("generateContent", "streamGenerateContent"):
            return self.refusal(404, f"{asked['verb']!r} is not served here")
        generated = self._generate(asked["model"], body)
        if isinstance(generated, HttpReply) or asked["verb"] == "generateContent":
            return generated if isinstance(generated, HttpReply) else HttpReply(200, json.encode(generated))
        return _stream_reply(generated, events=parse_qs(address.query).get("alt") == ["sse"])

    def _generate(self, model: str, body: bytes) -> dict[str, Any] | HttpReply:
        try:
            asked = json.decode(body, type=_GeminiRequest)
        except (DecodeError, ValidationError) as error:
            return self.refusal(400, f"not a generateContent request: {error}")
        return _response(model, self._next_turn(_conversation(model, asked)), len(body) // 4)

    def refusal(self, status: int, message: str) -> HttpReply:
        named = "NOT_FOUND" if status == 404 else "INVALID_ARGUMENT"
        return HttpReply(status, json.encode({"error": {"code": status, "message": message, "status": named}}))


def _conversation(model: str, asked: _GeminiRequest) -> ModelRequest:
    declared = [declaration for tool in asked.tools for declaration in tool.function_declarations]
    places = count(1)
    return ModelRequest(
        model=model,
        system="\n".join(_texts(asked.system_instruction.parts)),
        tools=tuple(OfferedTool(d.name, d.description, d.parameters_json_schema or d.parameters) for d in declared),
        messages=tuple(message for content in asked.contents for message in _decode_content(content, places)),
    )


def _decode_content(content: _GeminiContent, places: Iterator[int]) -> Iterator[Message]:
    texts = _texts(content.parts)
    # The client tells the model of the folder in the user's name, in the message that asks.
    remarks = tuple(text for text in texts if text.startswith(_REMARK))
    if remarks:
        yield Message("system", remarks)
    calls = (part.function_call for part in content.parts)
    responses = (part.function_response for part in content.parts)
    yield Message(
        role="assistant" if content.role == "model" else "user",
        texts=tuple(text for text in texts if not text.startswith(_REMARK)),
        uses=tuple(Use(call.name, call.args, call.id or None) for call in calls if call),
        results=tuple(_decode_result(response, next(places)) for response in responses if response),
    )


def _decode_result(response: _GeminiResponse, place: int) -> ToolOutput:
    told = response.response
    text = told.get("error", told.get("output", told))
    written = text if isinstance(text, str) else json.encode(text).decode()
    return ToolOutput(response.id or f"{response.name}#{place}", written, "error" in told)


def _texts(parts: Iterable[_GeminiPart]) -> tuple[str, ...]:
    return tuple(part.text for part in parts if part.text and not part.thought)


def _response(model: str, turn: Turn, prompt_tokens: int) -> dict[str, Any]:
    content = {"role": "model", "parts": [_encode_part(part) for part in turn]}
    tokens = len(json.encode(content)) // 4
    return {
        "candidates": [{"index": 0, "content": content, "finishReason": "STOP"}],
        "usageMetadata": {
            "promptTokenCount": prompt_tokens,
            "candidatesTokenCount": tokens,
            "totalTokenCount": prompt_tokens + tokens,
        },
        "modelVersion": model,
        "responseId": uuid4().hex,
    }


def _encode_part(part: Part) -> dict[str, Any]:
    if isinstance(part, Say):
        return {"text": part.text}
    call = {"name": part.tool, "args": part.input}
    return {"functionCall": {**call, "id": part.id} if part.id else call}


def _stream_reply(response: dict[str, Any], *, events: bool) -> HttpReply:
    """Return the response as a stream of one chunk: the API sends whole parts, never a part of a call."""
    if events:
        return HttpReply(200, b"data: %s\r\n\r\n" % json.encode(response), "text/event-stream; charset=utf-8")
    return HttpReply(200, json.encode([response]))
