"""The Anthropic Messages API over loopback HTTP, as far as agents speak it.

Source of the shapes: requests of Claude Code 2.1.330, recorded 2026-11.
"""

import sys
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import socket
from threading import Lock, Thread
from typing import Any, Literal, cast
from urllib.parse import urlsplit
from uuid import uuid4

from msgspec import DecodeError, Struct, ValidationError, json

from remit.host.scripted import Conversation, Message, Part, Say, ScriptedModel, Tool, ToolResult, Turn, Use

MAX_BODY = 64 * 1024 * 1024
MAX_REQUESTS = 1000
SIDE_ANSWER = "A scripted model has nothing to add here."
_DELTA = 1000
_IDLE_S = 30


class _Block(Struct, frozen=True):
    type: str = ""
    text: str = ""
    id: str = ""
    name: str = ""
    input: dict[str, Any] = {}
    tool_use_id: str = ""
    content: "str | list[_Block]" = ""
    is_error: bool | None = False


class _Message(Struct, frozen=True):
    role: Literal["user", "assistant", "system"]
    content: str | list[_Block] = ""


class _Tool(Struct, frozen=True):
    name: str = ""
    description: str = ""
    input_schema: dict[str, Any] = {}


class _Body(Struct, frozen=True):
    messages: list[_Message]
    model: str = ""
    system: str | list[_Block] = ""
    tools: list[_Tool] = []
    stream: bool = False


class Reply(Struct, frozen=True):
    """One HTTP answer."""

    status: int
    body: bytes
    content_type: str = "application/json"


class AnthropicWire:
    """Serves one model, and remembers what it was asked.

    `requests` holds the newest conversations, side requests included, oldest first. `failures` holds what
    went wrong while answering; leaving `serve` raises the first of them.
    """

    def __init__(self, model: ScriptedModel) -> None:
        self.requests: deque[Conversation] = deque(maxlen=MAX_REQUESTS)
        self.failures: list[BaseException] = []
        self.url = ""
        self._model = model
        self._results: dict[str, str] = {}
        self._lock = Lock()

    @contextmanager
    def serve(self) -> "Generator[AnthropicWire]":
        """Listen on a free port of 127.0.0.1 while the context lasts; `url` is the address."""
        server = _Server(self)
        self.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever, args=(0.02,), name="scripted-model", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
        if self.failures:
            raise self.failures[0]

    def tool_result_texts(self) -> list[str]:
        """What the model was told of each tool call, sub-agents' calls included, in the order it heard."""
        with self._lock:
            return list(self._results.values())

    def answer(self, method: str, path: str, body: bytes) -> Reply:
        """The reply to one request. Raises what the script raises."""
        route = (method, urlsplit(path).path.rstrip("/"))
        if route == ("GET", "/v1/models"):
            return Reply(200, json.encode({"data": [], "has_more": False}))
        if route == ("POST", "/v1/messages/count_tokens"):
            return Reply(200, json.encode({"input_tokens": _tokens(body)}))
        if route == ("POST", "/v1/messages"):
            return self._messages(body)
        return _refusal(404, "not_found_error", f"{method} {path[:200]!r} is not served here")

    def _messages(self, body: bytes) -> Reply:
        try:
            asked = json.decode(body, type=_Body)
        except (DecodeError, ValidationError) as error:
            return _refusal(400, "invalid_request_error", f"not a Messages request: {error}")
        conversation = _conversation(asked)
        self._remember(conversation)
        if self.failures:
            return _broken(self.failures[0])
        turn = self._turn(conversation)
        message = _message(asked.model, turn, _tokens(body))
        if asked.stream:
            return Reply(200, _stream(message), "text/event-stream; charset=utf-8")
        return Reply(200, json.encode(message))

    def _remember(self, conversation: Conversation) -> None:
        with self._lock:
            self.requests.append(conversation)
            for result in conversation.results:
                self._results.setdefault(result.call_id, result.text)

    def _turn(self, conversation: Conversation) -> Turn:
        # Titles, topics, quota probes and page summaries come without tools; the work always has some.
        if not conversation.tools:
            return (Say(SIDE_ANSWER),)
        return self._model.answer(conversation)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, wire: AnthropicWire) -> None:
        self.wire = wire
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep what a step of the script raised, and tell the agent.

        Claude Code asks once more after this; `_messages` answers the same, so that no later step stands in.
        """
        error = sys.exc_info()[1]
        if error is None or isinstance(error, ConnectionError | TimeoutError):
            return
        self.wire.failures.append(error)
        connection = cast(socket, request)
        with suppress(OSError):
            connection.sendall(_http(_broken(error)))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_S
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._reply(self._wire.answer("GET", self.path, b""))

    def do_HEAD(self) -> None:
        self._reply(Reply(200, b""))

    def do_POST(self) -> None:
        length = self.headers.get("content-length", "")
        if not length.isdecimal():
            return self._reply(_refusal(411, "invalid_request_error", "a content-length is needed"))
        if int(length) > MAX_BODY:
            return self._reply(_refusal(413, "request_too_large", f"{length} bytes, at most {MAX_BODY}"))
        body = self.rfile.read(int(length))
        return self._reply(self._wire.answer("POST", self.path, body))

    def log_message(self, format: str, *args: Any) -> None:
        """Libraries are quiet."""

    @property
    def _wire(self) -> AnthropicWire:
        return cast(_Server, self.server).wire

    def _reply(self, reply: Reply) -> None:
        # One write: headers and body apart meet Nagle and delayed acknowledgement, 44 ms on loopback.
        self.close_connection = True
        self.wfile.write(_http(reply))


def _http(reply: Reply) -> bytes:
    head = (
        f"HTTP/1.1 {reply.status} {'OK' if reply.status == 200 else 'Refused'}\r\n"
        f"content-type: {reply.content_type}\r\n"
        f"content-length: {len(reply.body)}\r\n"
        "connection: close\r\n\r\n"
    )
    return head.encode() + reply.body


def _refusal(status: int, kind: str, message: str) -> Reply:
    return Reply(status, json.encode({"type": "error", "error": {"type": kind, "message": message}}))


def _broken(error: BaseException) -> Reply:
    return _refusal(400, "invalid_request_error", f"the script broke: {type(error).__name__}: {error}")


def _tokens(text: bytes) -> int:
    """A rough count, enough for an agent's own bookkeeping."""
    return len(text) // 4


def _conversation(asked: _Body) -> Conversation:
    return Conversation(
        model=asked.model,
        system="\n".join(_texts(asked.system)),
        tools=tuple(Tool(tool.name, tool.description, tool.input_schema) for tool in asked.tools),
        messages=tuple(_decoded(message) for message in asked.messages),
    )


def _decoded(message: _Message) -> Message:
    blocks = [] if isinstance(message.content, str) else message.content
    return Message(
        role=message.role,
        texts=_texts(message.content),
        uses=tuple(Use(b.name, b.input, b.id) for b in blocks if b.type == "tool_use"),
        results=tuple(_result(b) for b in blocks if b.type == "tool_result"),
    )


def _result(block: _Block) -> ToolResult:
    return ToolResult(block.tool_use_id, "\n".join(_texts(block.content)), bool(block.is_error))


def _texts(content: str | Sequence[_Block]) -> tuple[str, ...]:
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
        "usage": {"input_tokens": input_tokens, "output_tokens": _tokens(json.encode(content))},
    }


def _content(part: Part) -> dict[str, Any]:
    if isinstance(part, Say):
        return {"type": "text", "text": part.text}
    made_up = f"toolu_{uuid4().hex[:24]}"
    return {"type": "tool_use", "id": part.id or made_up, "name": part.tool, "input": part.input}


def _stream(message: dict[str, Any]) -> bytes:
    """The same message as server-sent events."""
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
    for at in range(0, len(whole), _DELTA):
        yield _event("content_block_delta", index=index, delta={"type": kind, key: whole[at : at + _DELTA]})
    yield _event("content_block_stop", index=index)


def _event(name: str, **fields: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), json.encode({"type": name, **fields}))
