"""A model that answers from a script, and its server on loopback, for running real agents without a key or network.

The model takes one conversation and returns one turn, like a real model. A wire format derives from `ModelWire` and
carries the turns to agents (`host.*_wire`). A finished script says so and never guesses.
"""

import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import socket
from threading import Lock, Thread
from typing import Any, ClassVar, Literal, Self, TypeAlias, cast

from msgspec import DecodeError, Struct, ValidationError, json
from msgspec.structs import replace

from remit.core.python_runtime import prepare_type

SCRIPT_ENDED = "The script has no further turn."
SIDE_REQUEST_ANSWER = "A scripted model has nothing to add here."
AGENT_REMARK = "<system-reminder>"
"""Beginning of a text that the agent wrote about the session. Seen in Claude Code 2.1.330."""

MAX_BODY_BYTES = 64 * 1024 * 1024
MAX_REQUESTS = 1000
IDLE_TIMEOUT_S = 30


class Say(Struct, frozen=True):
    """Text of the model."""

    text: str


class Use(Struct, frozen=True):
    """Tool call of the model. The wire chooses an id for None."""

    tool: str
    input: dict[str, Any] = {}
    id: str | None = None


Part: TypeAlias = Say | Use
Turn: TypeAlias = tuple[Part, ...]


class ToolResult(Struct, frozen=True):
    """Result of one call as shown to the model. `text` joins every text of the result."""

    call_id: str
    text: str
    is_error: bool = False


class Message(Struct, frozen=True):
    """Message of a conversation, its parts sorted by kind; each kind keeps its order.

    `system` is a role here too: agents put remarks between the turns in this role.
    """

    role: Literal["user", "assistant", "system"]
    texts: tuple[str, ...] = ()
    uses: tuple[Use, ...] = ()
    results: tuple[ToolResult, ...] = ()


class OfferedTool(Struct, frozen=True):
    """Tool offered to the model. `schema` is the JSON Schema of its input."""

    name: str
    description: str = ""
    schema: dict[str, Any] = {}


class ModelRequest(Struct, frozen=True):
    """Conversation that an agent shows to the model in one request."""

    model: str = ""
    system: str = ""
    tools: tuple[OfferedTool, ...] = ()
    messages: tuple[Message, ...] = ()

    @property
    def opening(self) -> str:
        texts = (text for message in self.messages if message.role == "user" for text in message.texts)
        return next((text for text in texts if not text.lstrip().startswith(AGENT_REMARK)), "")

    @property
    def results(self) -> tuple[ToolResult, ...]:
        return tuple(result for message in self.messages for result in message.results)

    @property
    def last_result(self) -> ToolResult | None:
        return self.results[-1] if self.results else None

    @property
    def shown_text(self) -> str:
        shown = [self.system]
        for message in self.messages:
            shown += [*message.texts, *(result.text for result in message.results)]
        return "\n".join(filter(None, shown))


StepParts: TypeAlias = Part | Sequence[Part]
Step: TypeAlias = StepParts | Callable[[ModelRequest], StepParts]


class EmptyTurn(ValueError):
    """Step of a script without text and calls: no agent can continue after an empty turn."""

    def __init__(self, step: int) -> None:
        super().__init__(f"step {step} of the script is empty; expected a Say, a Use, or a sequence of them")
        self.step = step


class ScriptedModel:
    """Script whose steps are given one after another to any caller. Safe for several threads.

    A step is a `Say`, a `Use`, several of them for one turn, or a function of the conversation so far. `subagents`
    holds scripts for conversations whose opening contains the key: a sub-agent's opening is the prompt in its parent's
    call. Keep the key out of the parent's own opening.
    """

    def __init__(self, turns: Sequence[Step], subagents: Mapping[str, Sequence[Step]] | None = None) -> None:
        self._scripts = {key: enumerate(steps, 1) for key, steps in (subagents or {}).items()} | {
            "": enumerate(turns, 1)
        }
        self._lock = Lock()
        self.remaining = sum(map(len, (turns, *(subagents or {}).values())))

    def answer(self, conversation: ModelRequest) -> Turn:
        """Return the next turn. Raises EmptyTurn, and the errors of a step's function."""
        script = next(script for key, script in self._scripts.items() if key in conversation.opening)
        with self._lock:
            number, step = next(script, (0, Say(SCRIPT_ENDED)))
            self.remaining -= number > 0
        parts = step(conversation) if callable(step) else step
        turn = (parts,) if isinstance(parts, Say | Use) else tuple(parts)
        if not turn:
            raise EmptyTurn(number)
        return turn


class HttpReply(Struct, frozen=True):
    """HTTP response. With `wait_s` the connection stays open for that long after the last byte, in silence.

    `framing` is the header that says how long the body is; None for the length that it has.
    """

    status: int
    body: bytes
    content_type: str = "application/json"
    framing: str | None = None
    headers: tuple[str, ...] = ()
    wait_s: float = 0

    def encode(self) -> bytes:
        head = [
            f"HTTP/1.1 {self.status} {'OK' if self.status == 200 else 'Refused'}",
            f"content-type: {self.content_type}",
            self.framing or f"content-length: {len(self.body)}",
            *self.headers,
            "connection: close",
        ]
        return "\r\n".join(head).encode() + b"\r\n\r\n" + self.body


class ModelWire(ABC):
    """Server of one model, with a memory of its requests.

    `requests` holds the newest conversations, side requests included, oldest first. `failures` holds the errors while
    answering; leaving `serve` raises the first of them. `faults` spoil the next answers, one each.
    """

    request_type: ClassVar[type[Any]]

    def __init__(self, model: ScriptedModel) -> None:
        self.requests: deque[ModelRequest] = deque(maxlen=MAX_REQUESTS)
        self.failures: list[BaseException] = []
        self.faults: deque[Callable[[HttpReply], HttpReply]] = deque()
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
    def answer(self, method: str, path: str, body: bytes) -> HttpReply: ...

    @abstractmethod
    def refusal(self, status: int, message: str) -> HttpReply: ...

    @abstractmethod
    def read_conversation(self, asked: Any) -> ModelRequest: ...

    @abstractmethod
    def encode_turn(self, asked: Any, turn: Turn, input_tokens: int) -> dict[str, Any]: ...

    @abstractmethod
    def encode_stream(self, response: dict[str, Any]) -> bytes: ...

    def answer_request(self, body: bytes, **fields: object) -> HttpReply:
        """Return the reply with the next turn; `fields` are those parts of the request that its address holds.

        After a failure, the same failure is raised again: no later step replaces the failed one.
        """
        try:
            asked = replace(json.decode(body, type=prepare_type(self.request_type)), **fields)
            conversation = self.read_conversation(asked)
        except (DecodeError, ValidationError) as error:
            return self.refusal(400, f"not a request of this format: {error}")
        with self._lock:
            self.requests.append(conversation)
            for result in conversation.results:
                self._results.setdefault(result.call_id, result.text)
        if self.failures:
            raise self.failures[0]
        # Titles, topics, quota probes and page summaries come without tools; the work always has some.
        turn = self._model.answer(conversation) if conversation.tools else (Say(SIDE_REQUEST_ANSWER),)
        response = self.encode_turn(asked, turn, len(body) // 4)
        if asked.stream:
            reply = HttpReply(200, self.encode_stream(response), "text/event-stream; charset=utf-8")
        else:
            reply = HttpReply(200, json.encode(response))
        return self.faults.popleft()(reply) if self.faults else reply


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, wire: ModelWire) -> None:
        self.wire = wire
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exc_info()[1]
        if error is None or isinstance(error, ConnectionError | TimeoutError):
            return
        self.wire.failures.append(error)
        refusal = self.wire.refusal(400, f"the script broke: {type(error).__name__}: {error}")
        with suppress(OSError):
            cast(socket, request).sendall(refusal.encode())


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = IDLE_TIMEOUT_S
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
        return self._reply(self._wire.answer("POST", self.path, self.rfile.read(int(length))))

    def log_message(self, format: str, *args: Any) -> None: ...

    @property
    def _wire(self) -> ModelWire:
        return cast(_Server, self.server).wire

    def _reply(self, reply: HttpReply) -> None:
        # One write: headers and body apart meet Nagle and delayed acknowledgement, 44 ms on loopback.
        self.close_connection = True
        self.wfile.write(reply.encode())
        if reply.wait_s:
            # The client that gives up closes its side: reading ends then, without waiting any longer.
            self.connection.settimeout(reply.wait_s)
            with suppress(OSError):
                self.connection.recv(1)
