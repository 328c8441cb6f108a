"""The Gemini API (`generateContent`, `streamGenerateContent`) over loopback HTTP, as far as agents speak it.

Source of the shapes: requests of Gemini CLI 0.61.0, recorded 2026-11.
"""

import re
from collections.abc import Iterator
from itertools import count
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from msgspec import Struct, field, json

from remit.rehearsal import scripted_model

REMARK = "<session_context>"
ROUTE = re.compile(r"/v1(?:beta)?/models/(?P<model>[^/:]+):(?P<verb>\w+)")


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
    model: str = ""
    stream: bool = False


class GeminiWire(scripted_model.ModelWire):
    """Server of one model in the format of the Gemini API.

    Call ids come from the agent: for a result without an id, the tool's name and the result's position are used.
    """

    request_type = _GeminiRequest

    def answer(self, method: str, path: str, body: bytes) -> scripted_model.HttpReply:
        asked = ROUTE.fullmatch(urlsplit(path).path)
        match method, asked and asked["verb"]:
            case "POST", "countTokens":
                return scripted_model.HttpReply(200, json.encode({"totalTokens": len(body) // 4}))
            case "POST", "generateContent" | "streamGenerateContent" as verb if asked:
                return self.answer_request(body, model=asked["model"], stream=verb == "streamGenerateContent")
            case _:
                return self.refusal(404, f"{method} {path[:200]!r} is not served here")

    def refusal(self, status: int, message: str) -> scripted_model.HttpReply:
        named = "NOT_FOUND" if status == 404 else "INVALID_ARGUMENT"
        return scripted_model.HttpReply(
            status, json.encode({"error": {"code": status, "message": message, "status": named}})
        )

    def read_conversation(self, asked: _GeminiRequest) -> scripted_model.ModelRequest:
        declared = [declaration for tool in asked.tools for declaration in tool.function_declarations]
        places = count(1)
        return scripted_model.ModelRequest(
            model=asked.model,
            system="\n".join(_texts(asked.system_instruction)),
            tools=tuple(
                scripted_model.OfferedTool(d.name, d.description, d.parameters_json_schema or d.parameters)
                for d in declared
            ),
            messages=tuple(message for content in asked.contents for message in _decode_content(content, places)),
        )

    def encode_turn(self, asked: _GeminiRequest, turn: scripted_model.Turn, input_tokens: int) -> dict[str, Any]:
        parts: list[dict[str, Any]] = []
        for part in turn:
            if isinstance(part, scripted_model.Say):
                parts.append({"text": part.text})
            else:
                named = {"id": part.id} if part.id else {}
                parts.append({"functionCall": {"name": part.tool, "args": part.input, **named}})
        content = {"role": "model", "parts": parts}
        tokens = len(json.encode(content)) // 4
        return {
            "candidates": [{"index": 0, "content": content, "finishReason": "STOP"}],
            "usageMetadata": {
                "promptTokenCount": input_tokens,
                "candidatesTokenCount": tokens,
                "totalTokenCount": input_tokens + tokens,
            },
            "modelVersion": asked.model,
            "responseId": uuid4().hex,
        }

    def encode_stream(self, response: dict[str, Any]) -> bytes:
        """Return the response as one event: the API sends whole parts, never a part of a call."""
        return b"data: %s\r\n\r\n" % json.encode(response)


def _decode_content(content: _GeminiContent, places: Iterator[int]) -> Iterator[scripted_model.Message]:
    texts = _texts(content)
    # The client puts its words about the folder into the user's message.
    if remarks := tuple(text for text in texts if text.startswith(REMARK)):
        yield scripted_model.Message("system", remarks)
    calls = (part.function_call for part in content.parts)
    responses = (part.function_response for part in content.parts)
    yield scripted_model.Message(
        role="assistant" if content.role == "model" else "user",
        texts=tuple(text for text in texts if not text.startswith(REMARK)),
        uses=tuple(scripted_model.Use(call.name, call.args, call.id or None) for call in calls if call),
        results=tuple(_decode_result(response, next(places)) for response in responses if response),
    )


def _decode_result(response: _GeminiResponse, place: int) -> scripted_model.ToolResult:
    told = response.response
    text = told.get("error", told.get("output", told))
    written = text if isinstance(text, str) else json.encode(text).decode()
    return scripted_model.ToolResult(response.id or f"{response.name}#{place}", written, "error" in told)


def _texts(content: _GeminiContent) -> tuple[str, ...]:
    return tuple(part.text for part in content.parts if part.text and not part.thought)
