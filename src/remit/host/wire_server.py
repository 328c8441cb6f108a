"""Common server of the wire formats: a loopback HTTP server with its requests and failures.

A wire format derives from `ModelWire` and answers requests in its format.
"""

import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import socket
from threading import Lock, Thread
from typing import Any, Self, cast

from msgspec import Struct

from remit.host.scripted_model import ModelRequest, Say, ScriptedModel, Turn

MAX_BODY_BYTES = 64 * 1024 * 1024
MAX_REQUESTS = 1000
SIDE_REQUEST_ANSWER = "A scripted model has nothing to add here."
_IDLE_TIMEOUT_S = 30


CHUNK_CHARS = 1000
"""Characters of one streamed piece."""


class HttpReply(Struct, frozen=True):
    """HTTP response."""

    status: int
    body: bytes
    content_type: str = "application/json"


class ModelWire(ABC):
    """Server of one model, with a memory of its requests.

    `requests` holds the newest conversations, side requests included, oldest first. `failures` holds the errors while
    answering; leaving `serve` raises the first of them.
    """

    def __init__(self, model: ScriptedModel) -> None:
        self.requests: deque[ModelRequest] = deque(maxlen=MAX_REQUESTS)
        self.failures: list[BaseException] = []
        self.url = ""
        self._model = model
        self._results: dict[str, str] = {}
        self._lock = Lock()

    @contextmanager
    def serve(self) -> Generator[Self]:
        """Listen on a free port of 127.0.0.1 during the context; `url` is the address."""
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
        """Return the result of each tool call, sub-agents' calls included, in the order of arrival."""
        with self._lock:
            return list(self._results.values())

    @abstractmethod
    def answer(self, method: str, path: str, body: bytes) -> HttpReply:
        """Return the reply to one request. Raises the script's errors."""
        ...

    @abstractmethod
    def refusal(self, status: int, message: str) -> HttpReply: ...

    def _record_request(self, conversation: ModelRequest) -> None:
        with self._lock:
            self.requests.append(conversation)
            for result in conversation.results:
                self._results.setdefault(result.call_id, result.text)

    def _take_turn(self, conversation: ModelRequest) -> Turn:
        # Titles, topics, quota probes and page summaries come without tools; the work always has some.
        if not conversation.tools:
            return (Say(SIDE_REQUEST_ANSWER),)
        return self._model.answer(conversation)

    def _next_turn(self, conversation: ModelRequest) -> Turn:
        """Return the next turn. After a failure raise the same failure: no later step replaces the failed one."""
        self._record_request(conversation)
        if self.failures:
            raise self.failures[0]
        return self._take_turn(conversation)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, wire: ModelWire) -> None:
        self.wire = wire
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Store the error of a script's step, and tell the agent.

        Claude Code asks once more afterwards; `_next_turn` raises the same error.
        """
        error = sys.exc_info()[1]
        if error is None or isinstance(error, ConnectionError | TimeoutError):
            return
        self.wire.failures.append(error)
        connection = cast(socket, request)
        with suppress(OSError):
            connection.sendall(_http_bytes(self.wire.refusal(400, _describe_failure(error))))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_TIMEOUT_S
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._reply(self._wire.answer("GET", self.path, b""))

    def do_HEAD(self) -> None:
        self._reply(HttpReply(200, b""))

    def do_POST(self) -> None:
        length = self.headers.get("content-length", "")
        if not length.isdecimal():
            return self._reply(self._wire.refusal(411, "a content-length is needed"))
        if int(length) > MAX_BODY_BYTES:
            return self._reply(self._wire.refusal(413, f"{length} bytes, at most {MAX_BODY_BYTES}"))
        body = self.rfile.read(int(length))
        return self._reply(self._wire.answer("POST", self.path, body))

    def log_message(self, format: str, *args: Any) -> None:
        """Log no requests."""

    @property
    def _wire(self) -> ModelWire:
        return cast(_Server, self.server).wire

    def _reply(self, reply: HttpReply) -> None:
        # One write: headers and body apart meet Nagle and delayed acknowledgement, 44 ms on loopback.
        self.close_connection = True
        self.wfile.write(_http_bytes(reply))


def split_chunks(text: str) -> Iterator[str]:
    return (text[at : at + CHUNK_CHARS] for at in range(0, len(text), CHUNK_CHARS))


def _http_bytes(reply: HttpReply) -> bytes:
    head = (
        f"HTTP/1.1 {reply.status} {'OK' if reply.status == 200 else 'Refused'}\r\n"
        f"content-type: {reply.content_type}\r\n"
        f"content-length: {len(reply.body)}\r\n"
        "connection: close\r\n\r\n"
    )
    return head.encode() + reply.body


def _describe_failure(error: BaseException) -> str:
    return f"the script broke: {type(error).__name__}: {error}"
