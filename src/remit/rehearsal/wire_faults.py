"""Faults of a model's server, put into an answer of any of the four wires: at a byte, at an event, or in its contents.

`put_fault(wire, "cut_clean")` spoils the wire's next answer. An answer without a stop reason, or with half of a call,
is the stream left by proxies, restarts and limits; the tests check the client's reaction.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct, json
from msgspec.structs import replace

from remit.rehearsal.anthropic_wire import AnthropicWire
from remit.rehearsal.gemini_wire import GeminiWire
from remit.rehearsal.openai_wires import ChatWire, ResponsesWire
from remit.rehearsal.scripted_model import HttpReply, ModelWire

FaultKind: TypeAlias = Literal[
    "cut_clean", "cut_chunked", "silence", "rate_limited", "server_error", "overloaded", "error_event", "junk",
    "missing_stop", "length", "empty", "doubled_id", "no_id", "malformed_json",
]  # fmt: skip
SILENCE_S = 20.0
RETRY_AFTER_S = 7
CHUNKED = "transfer-encoding: chunked"

Event: TypeAlias = dict[str, Any]


class _Format(Struct, frozen=True):
    """A wire's form of an error, and the change of each event that removes the stop reason or reports the limit."""

    error: Callable[[int, str], Event]
    event_name: str
    drop_stop: Callable[[Event], Event | None]
    reach_limit: Callable[[Event], Event]


def put_fault(wire: ModelWire, kind: FaultKind, at: int | None = None) -> None:
    """Spoil the wire's next streamed answer. `at` is the byte of a cut or silence, or the event that an error follows;
    None for the middle.
    """
    form = next(form for kind_of, form in FORMATS.items() if isinstance(wire, kind_of))
    wire.faults.append(lambda reply: _spoil(reply, form, kind, at))


def _spoil(reply: HttpReply, form: _Format, kind: FaultKind, at: int | None) -> HttpReply:
    body = reply.body
    byte = len(body) // 2 if at is None else at
    match kind:
        case "cut_clean":
            return replace(reply, body=body[:byte])
        case "cut_chunked":
            chunk = body[:byte]
            return replace(reply, body=b"%x\r\n%s\r\n" % (len(chunk), chunk), framing=CHUNKED)
        case "silence":
            chunk = body[:byte]
            whole = b"%x\r\n%s\r\n" % (len(chunk), chunk) if chunk else b""
            return replace(reply, body=whole, framing=CHUNKED, wait_s=SILENCE_S)
        case "empty":
            return replace(reply, body=b"")
        case "rate_limited":
            return _refuse(form, 429, (f"retry-after: {RETRY_AFTER_S}",))
        case "server_error":
            return _refuse(form, 500)
        case "overloaded":
            return _refuse(form, 529)
        case _:
            return replace(reply, body=_spoil_events(body, form, kind, at))


def _refuse(form: _Format, status: int, headers: tuple[str, ...] = ()) -> HttpReply:
    return HttpReply(status, json.encode(form.error(status, "a fault of the test")), headers=headers)


def _spoil_events(body: bytes, form: _Format, kind: FaultKind, at: int | None) -> bytes:
    blocks = [block for block in body.replace(b"\r\n", b"\n").split(b"\n\n") if block]
    place = len(blocks) // 2 if at is None else at
    match kind:
        case "error_event":
            named = b"event: %s\n" % form.event_name.encode() if form.event_name else b""
            error = named + b"data: " + json.encode(form.error(529, "a fault of the test"))
            return _join([*blocks[:place], error])
        case "junk":
            return _join([*blocks[:place], b'data: {"type": "message_delta", \xff junk'])
        case "missing_stop":
            return _join(_change(blocks, form.drop_stop))
        case "length":
            halve = _halve_last_call(blocks)
            return _join(_change(blocks, lambda event: form.reach_limit(_walk(event, halve))))
        case "doubled_id":
            return _join(_change(blocks, lambda event: _walk(event, _name_call("doubled"))))
        case "no_id":
            return _join(_change(blocks, lambda event: _walk(event, _name_call(None))))
        case _:
            halve = _halve_last_call(blocks)
            return _join(_change(blocks, lambda event: _walk(event, halve)))


def _join(blocks: Sequence[bytes]) -> bytes:
    return b"".join(block + b"\n\n" for block in blocks)


def _change(blocks: Sequence[bytes], change: Callable[[Event], Event | None]) -> list[bytes]:
    """Return the blocks with each event changed; an event that becomes None is left out."""
    changed: list[bytes] = []
    for block in blocks:
        head, mark, data = block.partition(b"data: ")
        if data == b"[DONE]":
            changed.append(block)
        elif (event := change(json.decode(data))) is not None:
            changed.append(head + mark + json.encode(event))
    return changed


def _walk(value: Any, change: Callable[[Event], Event]) -> Any:
    if isinstance(value, dict):
        return {key: _walk(inner, change) for key, inner in change(value).items()}  # pyright: ignore[reportUnknownArgumentType]
    return [_walk(inner, change) for inner in value] if isinstance(value, list) else value  # pyright: ignore[reportUnknownVariableType]


def _name_call(call_id: str | None) -> Callable[[Event], Event]:
    def change(found: Event) -> Event:
        key = {"tool_use": "id", "function_call": "call_id"}.get(found.get("type", ""))
        if isinstance(found.get("function"), dict) and found["function"].get("name"):
            key = "id"
        if isinstance(call := found.get("functionCall"), dict):
            return {**found, "functionCall": _with(call, "id", call_id)}
        return _with(found, key, call_id) if key else found

    return change


def _with(found: Any, key: str, value: str | None) -> Event:
    rest = {name: kept for name, kept in found.items() if name != key}
    return rest if value is None else {**rest, key: value}


def _halve_last_call(blocks: Sequence[bytes]) -> Callable[[Event], Event]:
    found: list[Any] = []

    def collect(inner: Event) -> Event:
        found.extend(inner[key] for key in ("partial_json", "arguments", "functionCall") if inner.get(key))
        return inner

    _change(blocks, lambda event: _walk(event, collect))
    last: Any = found[-1] if found else None

    def halve(value: Any) -> Any:
        return value[: len(value) // 2] if isinstance(value, str) and value == last else value

    def change(inner: Event) -> Event:
        if last is not None and inner.get("functionCall") == last:
            return {"text": ""}
        if isinstance(last, dict) and inner.get("finishReason") == "STOP":
            return {**inner, "finishReason": "MALFORMED_FUNCTION_CALL"}
        return {key: halve(value) for key, value in inner.items()}

    return change


# --- the four formats ------------------------------------------------------------------------------------------


def _anthropic_error(status: int, message: str) -> Event:
    kinds = {429: "rate_limit_error", 529: "overloaded_error"}
    return {"type": "error", "error": {"type": kinds.get(status, "api_error"), "message": message}}


def _anthropic_stop(event: Event) -> Event | None:
    return None if event["type"] in ("message_delta", "message_stop") else event


def _anthropic_limit(event: Event) -> Event:
    if event["type"] != "message_delta":
        return event
    return {**event, "delta": {**event["delta"], "stop_reason": "max_tokens"}}


def _openai_error(status: int, message: str) -> Event:
    code = {429: "rate_limit_exceeded", 529: "server_is_overloaded"}.get(status, "server_error")
    return {"error": {"message": message, "type": "server_error", "code": code}}


def _responses_error(status: int, message: str) -> Event:
    # The event of a stream has its fields at the top, the body of a refusal below `error`.
    error = _openai_error(status, message)["error"]
    return {
        "type": "error",
        "code": error["code"],
        "message": message,
        "param": None,
        "sequence_number": 99,
        "error": error,
    }


def _chat_stop(event: Event) -> Event | None:
    return {**event, "choices": [{**choice, "finish_reason": None} for choice in event["choices"]]}


def _chat_limit(event: Event) -> Event:
    ended = [{**choice, "finish_reason": choice["finish_reason"] and "length"} for choice in event["choices"]]
    return {**event, "choices": ended}


def _responses_stop(event: Event) -> Event | None:
    return None if event["type"] == "response.completed" else event


def _responses_limit(event: Event) -> Event:
    if event["type"] != "response.completed":
        return event
    cut = {**event["response"], "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    return {**event, "type": "response.incomplete", "response": cut}


def _gemini_error(status: int, message: str) -> Event:
    named = {429: "RESOURCE_EXHAUSTED", 529: "UNAVAILABLE"}.get(status, "INTERNAL")
    return {"error": {"code": 503 if status == 529 else status, "message": message, "status": named}}


def _gemini_stop(event: Event) -> Event | None:
    return {**event, "candidates": [_with(candidate, "finishReason", None) for candidate in event["candidates"]]}


def _gemini_limit(event: Event) -> Event:
    return {**event, "candidates": [{**candidate, "finishReason": "MAX_TOKENS"} for candidate in event["candidates"]]}


FORMATS: dict[type[ModelWire], _Format] = {
    AnthropicWire: _Format(_anthropic_error, "error", _anthropic_stop, _anthropic_limit),
    ResponsesWire: _Format(_responses_error, "error", _responses_stop, _responses_limit),
    ChatWire: _Format(_openai_error, "", _chat_stop, _chat_limit),
    GeminiWire: _Format(_gemini_error, "", _gemini_stop, _gemini_limit),
}
