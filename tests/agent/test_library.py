"""Models through the library: what goes to the provider, and what comes back."""

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from agent.model_wires import READ, WIRES, endpoint_of, stream_turn
from coroutines import run_coroutine
from remit.rehearsal.scripted_model import HttpReply, ModelWire, Say, ScriptedModel, Use
from remit.rehearsal.wire_faults import put_fault
from remit_agent.models.endpoints import Endpoint
from remit_agent.models.library import LibraryModel
from remit_agent.models.messages import (
    CallResult,
    ConversationItem,
    ImageRef,
    ModelTurn,
    TailNote,
    TextPart,
    ThoughtPart,
    ToolCallPart,
    UserInput,
)
from remit_agent.models.port import CallDelta, CompletionRequest, ProviderError, TextDelta
from remit_agent.session.calls import accept_turn

pytestmark = pytest.mark.system  # the first turn of a process asks for the machine's name

TURN = (Say("First this."), Use("read_file", {"path": "a.py"}, "c1"), Use("read_file", {"path": "b.py"}, "c2"))
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


def answer_calls(turn: ModelTurn, kind: Any = "done") -> list[CallResult]:
    return [CallResult(call.id, call.tool, kind, f"result of {call.id}") for call in turn.calls]


@pytest.fixture(params=WIRES)
def provider(request: pytest.FixtureRequest) -> str:
    return request.param


def record_bodies(wire: ModelWire) -> list[Any]:
    """The decoded bodies of the requests from now on."""
    bodies: list[Any] = []
    answer = wire.answer

    def answer_and_record(method: str, path: str, body: bytes) -> HttpReply:
        bodies.append(msgspec.json.decode(body))
        return answer(method, path, body)

    wire.answer = answer_and_record
    return bodies


def test_a_turn_comes_as_deltas_and_whole(provider: str) -> None:
    with WIRES[provider](ScriptedModel([TURN])).serve() as wire:
        deltas, turn = stream_turn(LibraryModel(endpoint_of(provider, wire)))
    assert "".join(delta.text for delta in deltas if isinstance(delta, TextDelta)) == turn.text == "First this."
    calls = [delta for delta in deltas if isinstance(delta, CallDelta)]
    written = {index: "".join(call.json for call in calls if call.index == index) for index in (0, 1)}
    assert [msgspec.json.decode(text) for text in written.values()] == [{"path": "a.py"}, {"path": "b.py"}]
    assert [call.arguments for call in turn.calls] == [{"path": "a.py"}, {"path": "b.py"}]
    assert turn.stop == "tool_calls"
    assert turn.model == "m-1"
    assert turn.usage.input_tokens > 0
    assert turn.usage.output_tokens > 0
    assert turn.cost is None


def test_the_conversation_reaches_the_model_in_order(provider: str) -> None:
    with WIRES[provider](ScriptedModel([TURN, Say("Done.")])).serve() as wire:
        model = LibraryModel(endpoint_of(provider, wire))
        _, turn = stream_turn(model, UserInput("go"), TailNote("<remit>a</remit>"))
        _, last = stream_turn(
            model,
            UserInput("go"),
            TailNote("<remit>a</remit>"),
            turn,
            *answer_calls(turn),
            TailNote("<remit>b</remit>"),
        )
        first, second = wire.requests
    assert last.text == "Done."
    assert last.stop == "end"
    assert first.system == "Be good."
    assert [tool.name for tool in first.tools] == ["read_file"]
    assert second.opening == "go"
    assert [text for message in second.messages if message.role == "user" for text in message.texts] == [
        "go",
        "<remit>a</remit>",
        "<remit>b</remit>",
    ]
    assert [(use.tool, use.id) for message in second.messages for use in message.uses] == [
        ("read_file", "c1"),
        ("read_file", "c2"),
    ]
    assert [(result.call_id, "result of c" in result.text) for result in second.results] == [("c1", True), ("c2", True)]


def test_a_conversation_only_grows_on_the_wire(provider: str) -> None:
    with WIRES[provider](ScriptedModel([TURN, TURN, Say("Done.")])).serve() as wire:
        bodies = record_bodies(wire)
        model = LibraryModel(endpoint_of(provider, wire))
        items: list[ConversationItem] = [UserInput("go"), TailNote("<remit>a</remit>")]
        for _ in range(3):
            _, turn = stream_turn(model, *items)
            items += [turn, *answer_calls(turn)]
    key = next(key for key in ("messages", "input", "contents") if key in bodies[0])
    plain = [msgspec.json.decode(without_breakpoints(body)) for body in bodies]
    for before, after in pairwise(plain):
        assert after[key][: len(before[key])] == before[key]
        assert {**after, key: []} == {**before, key: []}


def without_breakpoints(value: Any) -> bytes:
    def strip(found: Any) -> Any:
        if isinstance(found, dict):
            return {name: strip(inner) for name, inner in found.items() if name != "cache_control"}  # pyright: ignore
        return [strip(inner) for inner in found] if isinstance(found, list) else found  # pyright: ignore

    return msgspec.json.encode(strip(value))


def test_calls_of_one_id_stay_apart_in_the_next_request(provider: str) -> None:
    doubled = (Use("read_file", {"path": "a.py"}, "x"), Use("read_file", {"path": "b.py"}, "x"))
    with WIRES[provider](ScriptedModel([doubled, Say("Done.")])).serve() as wire:
        model = LibraryModel(endpoint_of(provider, wire))
        turn = accept_turn(stream_turn(model)[1], ())
        stream_turn(model, UserInput("go"), turn, *answer_calls(turn))
        sent = wire.requests[-1]
    ids = [use.id for message in sent.messages for use in message.uses]
    assert ids == ["x", "x_2"]
    assert [result.call_id for result in sent.results] == ids


def test_broken_arguments_are_replayed_so_that_no_provider_refuses_them(provider: str) -> None:
    turn = ModelTurn((ToolCallPart("c1", "read_file", None, '{"path": "a'),), "tool_calls")
    with WIRES[provider](ScriptedModel([Say("Sorry.")])).serve() as wire:
        result = CallResult("c1", "read_file", "failed", "UNREADABLE_ARGUMENTS")
        stream_turn(LibraryModel(endpoint_of(provider, wire)), UserInput("go"), turn, result)
        [use] = [use for message in wire.requests[-1].messages for use in message.uses]
    assert "path" in str(use.input)


def test_a_failed_call_is_marked_where_the_format_has_a_mark() -> None:
    with WIRES["anthropic"](ScriptedModel([TURN, Say("Done.")])).serve() as wire:
        model = LibraryModel(endpoint_of("anthropic", wire))
        _, turn = stream_turn(model)
        stream_turn(model, UserInput("go"), turn, *answer_calls(turn, "failed"))
        assert [result.is_error for result in wire.requests[-1].results] == [True, True]


def test_images_go_with_words_and_with_results(provider: str) -> None:
    image = ImageRef("0" * 64, "image/png", "shot.png")
    with WIRES[provider](ScriptedModel([TURN, Say("Seen.")])).serve() as wire:
        bodies = record_bodies(wire)
        model = LibraryModel(endpoint_of(provider, wire))
        _, turn = stream_turn(model)
        results = [CallResult(call.id, call.tool, "done", "a picture", (image,)) for call in turn.calls]
        stream_turn(model, UserInput("look", (image,)), turn, *results, images={image.sha256: PNG})
    assert str(bodies[-1]).count("iVBORw0KGgo") == 3


def test_a_missing_image_leaves_the_words() -> None:
    with WIRES["anthropic"](ScriptedModel([Say("Hm.")])).serve() as wire:
        lost = ImageRef("1" * 64, "image/png")
        stream_turn(LibraryModel(endpoint_of("anthropic", wire)), UserInput("look", (lost,)))
        assert wire.requests[-1].opening == "look"


def test_anthropic_caches_tools_system_and_the_last_message() -> None:
    with WIRES["anthropic"](ScriptedModel([Say("Done.")])).serve() as wire:
        bodies = record_bodies(wire)
        stream_turn(LibraryModel(endpoint_of("anthropic", wire)), UserInput("go"), TailNote("tail"))
    [body] = bodies
    assert "cache_control" in body["tools"][-1]
    assert "cache_control" in body["system"][-1]
    assert "cache_control" in body["messages"][-1]["content"][-1]
    assert msgspec.json.encode(body).count(b"cache_control") == 3


def test_openai_is_asked_to_keep_nothing() -> None:
    with WIRES["openai"](ScriptedModel([Say("Done.")])).serve() as wire:
        bodies = record_bodies(wire)
        stream_turn(LibraryModel(endpoint_of("openai", wire)))
    assert bodies[0]["store"] is False


def test_a_limit_of_the_output_is_sent(provider: str) -> None:
    with WIRES[provider](ScriptedModel([Say("Done.")])).serve() as wire:
        bodies = record_bodies(wire)
        stream_turn(LibraryModel(endpoint_of(provider, wire)), max_tokens=1234)
    assert "1234" in str(bodies[0])


THOUGHT = ModelTurn(
    (
        ThoughtPart("I think.", {"provider": "anthropic", "signature": "c2lnbmVk"}),
        TextPart("So."),
        ToolCallPart("c1", "read_file", {"path": "a.py"}),
    ),
    "tool_calls",
)
UNSIGNED = ModelTurn((ThoughtPart("I think."), *THOUGHT.parts[1:]), "tool_calls")


@pytest.mark.parametrize(
    ("provider", "turn", "is_sent"),
    [
        ("anthropic", THOUGHT, True),
        ("anthropic", UNSIGNED, False),
        ("openai", THOUGHT, False),
        ("google", THOUGHT, False),
    ],
)
def test_thinking_goes_back_signed_to_the_provider_that_signed_it(
    provider: str, turn: ModelTurn, is_sent: bool
) -> None:
    with WIRES[provider](ScriptedModel([Say("Done.")])).serve() as wire:
        bodies = record_bodies(wire)
        model = LibraryModel(endpoint_of(provider, wire))
        stream_turn(model, UserInput("go"), turn, CallResult("c1", "read_file", "done", "text"))
    sent = msgspec.json.encode(bodies[0]).decode()
    assert ("I think." in sent) is is_sent
    assert ("c2lnbmVk" in sent) is is_sent
    assert "So." in sent


def test_opaque_data_of_a_part_survives_the_journals_json() -> None:
    with WIRES["openai"](ScriptedModel([TURN])).serve() as wire:
        _, turn = stream_turn(LibraryModel(endpoint_of("openai", wire)))
    assert turn.calls[0].meta["provider"] == "openai"
    assert msgspec.json.decode(msgspec.json.encode(turn), type=ModelTurn) == turn


def test_ids_of_openai_stay_out_where_a_thought_of_the_turn_does() -> None:
    meta = {"provider": "openai", "id": "fc_1"}
    call = ToolCallPart("c1", "read_file", {"path": "a.py"}, meta=meta)
    lost = ThoughtPart("I think.", {"provider": "openai", "id": "rs_1"})
    with WIRES["openai"](ScriptedModel([Say("a"), Say("b")])).serve() as wire:
        bodies = record_bodies(wire)
        model = LibraryModel(endpoint_of("openai", wire, "gpt-5.2"))
        for parts in ((call,), (lost, call)):
            turn = ModelTurn(parts, "tool_calls")
            stream_turn(model, UserInput("go"), turn, CallResult("c1", "read_file", "done", "text"))
    with_id, without = (msgspec.json.encode(body).decode() for body in bodies)
    assert "fc_1" in with_id
    assert "fc_1" not in without
    assert "rs_1" not in without


class _Refusal(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server: Any = self.server
        server.count += 1
        body = msgspec.json.encode(server.body)
        self.send_response(server.status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def refusal() -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), _Refusal)
    server.count, server.status, server.body = 0, 400, {}
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


TOO_LONG = {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 > 8"}}
TOO_LONG_OPENAI = {
    "error": {"message": "Too long.", "type": "invalid_request_error", "code": "context_length_exceeded"}
}
NO_MONEY = {
    "error": {"message": "You exceeded your quota.", "type": "insufficient_quota", "code": "insufficient_quota"}
}
BAD_KEY = {"error": {"message": "invalid x-api-key", "type": "authentication_error"}}


@pytest.mark.parametrize(
    ("provider", "status", "body", "kind"),
    [
        ("anthropic", 400, TOO_LONG, "window"),
        ("openai", 400, TOO_LONG_OPENAI, "window"),
        ("openai-compatible", 400, TOO_LONG_OPENAI, "window"),
        ("anthropic", 401, {"type": "error", **BAD_KEY}, "auth"),
        ("openai", 401, BAD_KEY, "auth"),
        ("google", 403, {"error": {"code": 403, "message": "no", "status": "PERMISSION_DENIED"}}, "auth"),
        ("openai", 429, NO_MONEY, "quota"),
        ("anthropic", 404, {"type": "error", "error": {"type": "not_found_error", "message": "model: m"}}, "rejected"),
        ("openai-compatible", 400, {"error": {"message": "bad schema"}}, "rejected"),
        ("openai-compatible", 503, {"error": {"message": "loading"}}, "overloaded"),
        ("openai-compatible", 418, {"detail": "teapot"}, "rejected"),
        ("google", 500, {"error": {"code": 500, "message": "oops", "status": "INTERNAL"}}, "server"),
    ],
)
def test_a_refusal_has_a_kind(refusal: Any, provider: str, status: int, body: Any, kind: str) -> None:
    refusal.status, refusal.body = status, body
    model = LibraryModel(Endpoint(provider, "m", f"http://127.0.0.1:{refusal.server_port}", "dummy"))
    with pytest.raises(ProviderError) as raised:
        stream_turn(model)
    assert raised.value.kind == kind
    assert "dummy" not in str(raised.value)
    assert "\n" not in str(raised.value)
    assert refusal.count == 1


def test_nobody_at_the_address_is_a_failed_connection(provider: str) -> None:
    with WIRES[provider](ScriptedModel([])).serve() as wire:
        closed = endpoint_of(provider, wire)
    with pytest.raises(ProviderError) as raised:
        stream_turn(LibraryModel(closed))
    assert raised.value.kind == "connection"


def test_leaving_the_context_closes_the_connection() -> None:
    """A server that stays silent after half an answer sees that the client has gone."""
    with WIRES["anthropic"](ScriptedModel([TURN])).serve() as wire:
        put_fault(wire, "silence")
        model = LibraryModel(endpoint_of("anthropic", wire))

        async def leave() -> float:
            request = CompletionRequest("", (READ,), (UserInput("go"),))
            async with model.stream(request) as deltas:
                await anext(deltas)
                began = asyncio.get_running_loop().time()
            return asyncio.get_running_loop().time() - began

        assert run_coroutine(leave()) < 0.5


def test_a_cancelled_task_closes_the_connection_at_once() -> None:
    with WIRES["anthropic"](ScriptedModel([TURN])).serve() as wire:
        put_fault(wire, "silence")
        model = LibraryModel(endpoint_of("anthropic", wire))
        begun = asyncio.Event()

        async def read() -> None:
            async with model.stream(CompletionRequest("", (READ,), (UserInput("go"),))) as deltas:
                async for _ in deltas:
                    begun.set()

        async def cancel() -> float:
            task = asyncio.create_task(read())
            await begun.wait()
            began = asyncio.get_running_loop().time()
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
            return asyncio.get_running_loop().time() - began

        assert run_coroutine(cancel()) < 0.5
