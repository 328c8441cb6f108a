"""The scripted model: what it answers, and what an agent hears of it over real sockets."""

import socket
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import json

from remit.rehearsal.anthropic_wire import AnthropicWire
from remit.rehearsal.scripted_model import (
    MAX_BODY_BYTES,
    SCRIPT_ENDED,
    SIDE_REQUEST_ANSWER,
    EmptyTurn,
    Message,
    ModelRequest,
    Say,
    ScriptedModel,
    ToolResult,
    Use,
)

WRITE = {"name": "Write", "description": "Writes a file.", "input_schema": {"type": "object"}}


def body(*messages: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"model": "some-model", "max_tokens": 100, "tools": [WRITE], "messages": list(messages), **fields}


def user(*texts: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text} for text in texts]}


def result(call_id: str, content: Any, **fields: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content, **fields}
    return {"role": "user", "content": [block]}


def request(wire: AnthropicWire, method: str, path: str, payload: bytes | None = None) -> tuple[int, bytes]:
    connection = HTTPConnection(urlsplit(wire.url).netloc, timeout=60)
    try:
        connection.request(method, path, payload)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def ask(wire: AnthropicWire, asked: dict[str, Any]) -> dict[str, Any]:
    status, answered = request(wire, "POST", "/v1/messages?beta=true", json.encode(asked))
    assert status == 200, answered
    return json.decode(answered)


def events(answered: bytes) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for chunk in answered.decode().strip().split("\n\n"):
        name, data = chunk.split("\n")
        event = json.decode(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        found.append(event)
    return found


def reassembled(stream: list[dict[str, Any]]) -> list[Any]:
    """The content blocks as a client puts them together: text, or a call's decoded input."""
    whole: dict[int, tuple[str, str]] = {}
    for event in stream:
        if event["type"] == "content_block_start":
            whole[event["index"]] = (event["content_block"]["type"], "")
        if event["type"] == "content_block_delta":
            kind, text = whole[event["index"]]
            piece = event["delta"].get("text", event["delta"].get("partial_json"))
            whole[event["index"]] = (kind, text + piece)
    return [text if kind == "text" else json.decode(text) for kind, text in whole.values()]


def test_the_steps_come_one_after_another_and_then_it_says_so() -> None:
    model = ScriptedModel([Use("Write", {"a": 1}), [Say("two"), Use("Read")]])
    asked = ModelRequest()
    assert model.answer(asked) == (Use("Write", {"a": 1}),)
    assert model.answer(asked) == (Say("two"), Use("Read"))
    assert model.remaining == 0
    assert model.answer(asked) == (Say(SCRIPT_ENDED),)


def test_a_step_may_read_what_the_model_was_told() -> None:
    told = Message("user", results=(ToolResult("c1", "denied: out of scope", is_error=True),))
    model = ScriptedModel([lambda seen: Say(seen.last_result.text if seen.last_result else "")])
    assert model.answer(ModelRequest(messages=(told,))) == (Say("denied: out of scope"),)


def test_an_empty_step_is_named() -> None:
    model = ScriptedModel([Say("a"), []])
    model.answer(ModelRequest())
    with pytest.raises(EmptyTurn, match="step 2"):
        model.answer(ModelRequest())


def test_a_subagent_has_a_script_of_its_own() -> None:
    model = ScriptedModel([Say("parent")], {"SUBTASK": [Say("child")]})
    child = ModelRequest(messages=(Message("user", ("do SUBTASK one",)),))
    assert model.answer(child) == (Say("child"),)
    assert model.answer(ModelRequest(messages=(Message("user", ("go",)),))) == (Say("parent"),)


def test_the_opening_is_the_users_and_not_the_agents() -> None:
    first = Message("user", ("<system-reminder>\nyou are in /w\n</system-reminder>", "fix it"))
    assert ModelRequest(messages=(first, Message("user", ("and then?",)))).opening == "fix it"


def test_a_call_is_answered_as_a_message() -> None:
    with AnthropicWire(ScriptedModel([Use("Write", {"content": "x"}, id="toolu_1")])).serve() as wire:
        message = ask(wire, body(user("go")))
    assert message["stop_reason"] == "tool_use"
    assert message["model"] == "some-model"
    assert message["content"] == [{"type": "tool_use", "id": "toolu_1", "name": "Write", "input": {"content": "x"}}]


def test_a_text_ends_the_turn() -> None:
    with AnthropicWire(ScriptedModel([Say("done")])).serve() as wire:
        message = ask(wire, body(user("go")))
    assert (message["stop_reason"], message["content"]) == ("end_turn", [{"type": "text", "text": "done"}])


def test_made_up_call_ids_differ() -> None:
    with AnthropicWire(ScriptedModel([[Use("Read"), Use("Read")]])).serve() as wire:
        message = ask(wire, body(user("go")))
    assert len({block["id"] for block in message["content"]}) == 2


def test_a_stream_has_the_events_in_the_order_that_clients_expect() -> None:
    turn = [Say("I write."), Use("Write", {"file_path": "/w/a", "content": "é\n" * 900})]
    with AnthropicWire(ScriptedModel([turn])).serve() as wire:
        _, answered = request(wire, "POST", "/v1/messages", json.encode(body(user("go"), stream=True)))
    stream = events(answered)
    kinds = [event["type"] for event in stream]
    assert kinds[0] == "message_start"
    assert kinds[1:4] == ["content_block_start", "content_block_delta", "content_block_stop"]
    assert kinds[4] == "content_block_start"
    assert kinds[-2:] == ["message_delta", "message_stop"]
    assert stream[-2]["delta"]["stop_reason"] == "tool_use"
    assert stream[-2]["usage"]["output_tokens"] > 0
    assert reassembled(stream) == ["I write.", {"file_path": "/w/a", "content": "é\n" * 900}]


@settings(max_examples=25, deadline=None)
@given(st.text(), st.dictionaries(st.text(), st.text() | st.integers(-(2**53), 2**53) | st.booleans()))
def test_any_turn_survives_the_stream(text: str, arguments: dict[str, Any]) -> None:
    wire = AnthropicWire(ScriptedModel([[Say(text), Use("Write", arguments)]]))
    reply = wire.answer("POST", "/v1/messages", json.encode(body(user("go"), stream=True)))
    assert reassembled(events(reply.body)) == [text, arguments]


@settings(max_examples=50, deadline=None)
@given(st.binary() | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(json.encode))
def test_junk_is_refused_and_takes_no_step(junk: bytes) -> None:
    model = ScriptedModel([Say("a")])
    assert AnthropicWire(model).answer("POST", "/v1/messages", junk).status == 400
    assert model.remaining == 1


def test_requests_without_tools_take_no_step() -> None:
    model = ScriptedModel([Say("the work")])
    with AnthropicWire(model).serve() as wire:
        aside = ask(wire, body(user("Name this conversation."), tools=[]))
        assert aside["content"][0]["text"] == SIDE_REQUEST_ANSWER
        assert model.remaining == 1
        assert ask(wire, body(user("go")))["content"][0]["text"] == "the work"


def test_what_the_model_was_told_can_be_asked_for() -> None:
    used: dict[str, Any] = {"type": "tool_use", "id": "c1", "name": "Write", "input": {}}
    call = {"role": "assistant", "content": [used]}
    denied = result("c1", [{"type": "text", "text": "denied"}], is_error=True)
    with AnthropicWire(ScriptedModel([Say("1"), Say("2")])).serve() as wire:
        ask(wire, body(user("go"), call, denied, system=[{"type": "text", "text": "Be good."}]))
        ask(wire, body(user("go"), call, denied, {"role": "system", "content": "n.b."}, result("c2", "ok")))
        assert wire.tool_result_texts() == ["denied", "ok"]
        first, second = wire.requests
    assert first.last_result == ToolResult("c1", "denied", is_error=True)
    assert first.messages[1].uses == (Use("Write", {}, "c1"),)
    assert first.shown_text == "Be good.\ngo\ndenied"
    assert second.shown_text == "go\ndenied\nn.b.\nok"
    assert [tool.name for tool in first.tools] == ["Write"]
    assert first.tools[0].schema == {"type": "object"}


def test_blocks_of_other_kinds_are_passed_over() -> None:
    thinking = {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}]}
    picture = result("c1", [{"type": "image", "source": {"type": "base64", "data": "AA=="}}])
    with AnthropicWire(ScriptedModel([Say("1")])).serve() as wire:
        ask(wire, body(user("go"), thinking, picture))
        assert wire.requests[0].results == (ToolResult("c1", ""),)


def test_a_step_that_breaks_is_told_to_the_agent_and_raised_on_leaving() -> None:
    def broken(_: ModelRequest) -> Say:
        raise LookupError("no such result")

    def asked() -> None:
        with AnthropicWire(ScriptedModel([broken, Say("a later step")])).serve() as wire:
            for _ in range(2):  # Claude Code asks again after a refusal.
                answers.append(request(wire, "POST", "/v1/messages", json.encode(body(user("go")))))

    answers: list[tuple[int, bytes]] = []
    with pytest.raises(LookupError, match="no such result"):
        asked()
    assert [status for status, _ in answers] == [400, 400]
    for _, answered in answers:
        assert "LookupError: no such result" in json.decode(answered)["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path", "payload", "status"),
    [
        ("GET", "/v1/models", None, 200),
        ("GET", "/v1/models?limit=10", None, 200),
        ("HEAD", "/", None, 200),
        ("POST", "/v1/messages/count_tokens", b"{}", 200),
        ("POST", "/v1/complete", b"{}", 404),
        ("GET", "/etc/passwd", None, 404),
        ("POST", "/v1/messages", b'{"messages": 1}', 400),
    ],
)
def test_each_route_answers(method: str, path: str, payload: bytes | None, status: int) -> None:
    with AnthropicWire(ScriptedModel([])).serve() as wire:
        assert request(wire, method, path, payload)[0] == status


def test_a_body_beyond_the_bound_is_not_read() -> None:
    with AnthropicWire(ScriptedModel([])).serve() as wire:
        connection = HTTPConnection(urlsplit(wire.url).netloc, timeout=60)
        connection.putrequest("POST", "/v1/messages")
        connection.putheader("content-length", str(MAX_BODY_BYTES + 1))
        connection.endheaders()
        assert connection.getresponse().status == 413
        connection.close()


def test_it_listens_on_loopback_only_and_stops() -> None:
    wire = AnthropicWire(ScriptedModel([]))
    with wire.serve():
        host, port = urlsplit(wire.url).hostname, urlsplit(wire.url).port
        assert host == "127.0.0.1"
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, port or 0), timeout=60)
