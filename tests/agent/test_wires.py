"""The wires of the scripted model: three spellings of one conversation."""

from collections.abc import Callable
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct, json

from remit.rehearsal.gemini_wire import GeminiWire
from remit.rehearsal.openai_wires import ChatWire, NotFreeform, ResponsesWire
from remit.rehearsal.scripted_model import (
    SIDE_REQUEST_ANSWER,
    Message,
    ModelRequest,
    ModelWire,
    OfferedTool,
    Say,
    ScriptedModel,
    ToolResult,
    Use,
)

SCHEMA = {"type": "object"}
ASKED: list[dict[str, Any]] = [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]}]


class Spelling(Struct, frozen=True):
    """One format: where it is served, a request with a tool and one without, and how its answers read.

    `told` is a request whose user asked, whose model called `c1`, and whose tool answered "denied".
    `parts` reads an answer, `streamed` a stream: each text, and each call as (name, input).
    """

    wire: type[ModelWire]
    plain: str
    stream: str
    body: dict[str, Any]
    streaming: dict[str, Any]
    without_tools: dict[str, Any]
    told: dict[str, Any]
    parts: Callable[[bytes], list[Any]]
    streamed: Callable[[bytes], list[Any]]


def events(answered: bytes) -> list[dict[str, Any]]:
    """The decoded data of each event, up to the end mark."""
    chunks = answered.decode().replace("\r\n", "\n").strip().split("\n\n")
    data = [line.removeprefix("data: ") for chunk in chunks for line in chunk.split("\n") if line.startswith("data: ")]
    return [json.decode(line) for line in data if line != "[DONE]"]


def responses_parts(answered: bytes) -> list[Any]:
    return [responses_part(item) for item in json.decode(answered)["output"]]


def responses_part(item: dict[str, Any]) -> Any:
    if item["type"] == "message":
        return item["content"][0]["text"]
    return item["name"], json.decode(item["arguments"])


def responses_streamed(answered: bytes) -> list[Any]:
    """The deltas put together; the finished items have to say the same."""
    stream = events(answered)
    assert [event["sequence_number"] for event in stream] == list(range(len(stream)))
    assert (stream[0]["type"], stream[-1]["type"]) == ("response.created", "response.completed")
    done = [event["item"] for event in stream if event["type"] == "response.output_item.done"]
    assert done == stream[-1]["response"]["output"]
    whole = ["" for _ in done]
    for event in stream:
        if event["type"].endswith(".delta"):
            whole[event["output_index"]] += event["delta"]
    for item, text in zip(done, whole, strict=True):
        assert text == (item["content"][0]["text"] if item["type"] == "message" else item["arguments"])
    return [responses_part(item) for item in done]


def chat_parts(answered: bytes) -> list[Any]:
    [choice] = json.decode(answered)["choices"]
    return chat_message(choice["message"]["content"], choice["message"].get("tool_calls", []))


def chat_message(content: str | None, calls: list[Any]) -> list[Any]:
    made = [(call["function"]["name"], json.decode(call["function"]["arguments"])) for call in calls]
    return [content, *made] if content else made


def chat_streamed(answered: bytes) -> list[Any]:
    assert answered.endswith(b"data: [DONE]\n\n")
    *stream, usage = events(answered)
    assert usage["choices"] == []
    assert usage["usage"]["total_tokens"] > 0
    deltas = [chunk["choices"][0]["delta"] for chunk in stream]
    calls: list[Any] = []
    for piece in (call for delta in deltas for call in delta.get("tool_calls", [])):
        if "id" in piece:
            calls.append({"function": dict(piece["function"])})
        else:
            calls[piece["index"]]["function"]["arguments"] += piece["function"]["arguments"]
    assert stream[-1]["choices"][0]["finish_reason"] == ("tool_calls" if calls else "stop")
    return chat_message("".join(delta.get("content", "") for delta in deltas), calls)


def gemini_parts(answered: bytes) -> list[Any]:
    return gemini_answer(json.decode(answered))


def gemini_streamed(answered: bytes) -> list[Any]:
    [answer] = events(answered)
    return gemini_answer(answer)


def gemini_answer(answer: dict[str, Any]) -> list[Any]:
    parts = answer["candidates"][0]["content"]["parts"]
    calls = [part.get("functionCall") for part in parts]
    return [(call["name"], call["args"]) if call else part["text"] for part, call in zip(parts, calls, strict=True)]


RESPONSES_TOOLS = [{"type": "function", "name": "Write", "parameters": SCHEMA}]
CHAT_TOOLS = [{"type": "function", "function": {"name": "Write", "parameters": SCHEMA}}]
CHAT_ASKED = [{"role": "system", "content": "Be good."}, {"role": "user", "content": "go"}]
CHAT_CALL = {"id": "c1", "type": "function", "function": {"name": "Write", "arguments": '{"a":1}'}}
GEMINI_TOOLS = [{"functionDeclarations": [{"name": "Write", "parametersJsonSchema": SCHEMA}]}]
GEMINI_ASKED = [{"role": "user", "parts": [{"text": "go"}]}]
GEMINI_SYSTEM = {"role": "user", "parts": [{"text": "Be good."}]}

SPELLINGS = {
    "responses": Spelling(
        wire=ResponsesWire,
        plain="/v1/responses",
        stream="/v1/responses",
        body={"model": "m", "input": ASKED, "tools": RESPONSES_TOOLS},
        streaming={"model": "m", "input": ASKED, "tools": RESPONSES_TOOLS, "stream": True},
        without_tools={"model": "m", "input": "go"},
        told={
            "model": "m",
            "instructions": "Be good.",
            "tools": RESPONSES_TOOLS,
            "input": [
                *ASKED,
                {"type": "reasoning", "summary": [], "encrypted_content": "e"},
                {"type": "function_call", "name": "Write", "arguments": '{"a":1}', "call_id": "c1"},
                {"type": "function_call_output", "call_id": "c1", "output": "denied"},
            ],
        },
        parts=responses_parts,
        streamed=responses_streamed,
    ),
    "chat": Spelling(
        wire=ChatWire,
        plain="/v1/chat/completions",
        stream="/v1/chat/completions",
        body={"model": "m", "messages": CHAT_ASKED, "tools": CHAT_TOOLS},
        streaming={"model": "m", "messages": CHAT_ASKED, "tools": CHAT_TOOLS, "stream": True},
        without_tools={"model": "m", "messages": CHAT_ASKED},
        told={
            "model": "m",
            "tools": CHAT_TOOLS,
            "messages": [
                *CHAT_ASKED,
                {"role": "assistant", "content": None, "tool_calls": [CHAT_CALL]},
                {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "denied"}]},
            ],
        },
        parts=chat_parts,
        streamed=chat_streamed,
    ),
    "gemini": Spelling(
        wire=GeminiWire,
        plain="/v1beta/models/m:generateContent",
        stream="/v1beta/models/m:streamGenerateContent?alt=sse",
        body={"contents": GEMINI_ASKED, "tools": GEMINI_TOOLS},
        streaming={"contents": GEMINI_ASKED, "tools": GEMINI_TOOLS},
        without_tools={"contents": GEMINI_ASKED},
        told={
            "systemInstruction": GEMINI_SYSTEM,
            "tools": GEMINI_TOOLS,
            "contents": [
                *GEMINI_ASKED,
                {"role": "model", "parts": [{"functionCall": {"name": "Write", "args": {"a": 1}, "id": "c1"}}]},
                {
                    "role": "user",
                    "parts": [{"functionResponse": {"name": "Write", "id": "c1", "response": {"error": "denied"}}}],
                },
            ],
        },
        parts=gemini_parts,
        streamed=gemini_streamed,
    ),
}


@pytest.fixture(params=sorted(SPELLINGS))
def spelling(request: pytest.FixtureRequest) -> Spelling:
    return SPELLINGS[request.param]


def post(wire: ModelWire, path: str, asked: dict[str, Any]) -> tuple[int, bytes]:
    """Over a real socket."""
    connection = HTTPConnection(urlsplit(wire.url).netloc, timeout=60)
    try:
        connection.request("POST", path, json.encode(asked))
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def answered(wire: ModelWire, path: str, asked: dict[str, Any]) -> bytes:
    reply = wire.answer("POST", path, json.encode(asked))
    assert reply.status == 200, reply
    return reply.body


def test_texts_and_calls_arrive_over_a_socket(spelling: Spelling) -> None:
    model = ScriptedModel([[Say("I write."), Use("Write", {"a": [1, "é"]})], Say("done")])
    with spelling.wire(model).serve() as wire:
        first = post(wire, spelling.plain, spelling.body)
        second = post(wire, spelling.stream, spelling.streaming)
    assert spelling.parts(first[1]) == ["I write.", ("Write", {"a": [1, "é"]})]
    assert spelling.streamed(second[1]) == ["done"]


@pytest.mark.parametrize("name", sorted(SPELLINGS))
@settings(max_examples=25, deadline=None)
@given(
    text=st.text(min_size=1),
    inputs=st.dictionaries(st.text(), st.text() | st.integers(-(2**53), 2**53) | st.booleans()),
    long=st.integers(0, 2500),
)
def test_any_turn_survives_the_stream(name: str, text: str, inputs: dict[str, Any], long: int) -> None:
    spelling = SPELLINGS[name]
    whole = {**inputs, "long": "x" * long}
    wire = spelling.wire(ScriptedModel([[Say(text), Use("Write", whole), Use("Write")]]))
    stream = answered(wire, spelling.stream, spelling.streaming)
    assert spelling.streamed(stream) == [text, ("Write", whole), ("Write", {})]


def test_what_the_model_was_told_is_understood(spelling: Spelling) -> None:
    wire = spelling.wire(ScriptedModel([Say("1"), Say("2")]))
    for _ in range(2):
        answered(wire, spelling.plain, spelling.told)
    assert wire.tool_result_texts() == ["denied"]
    [seen, _] = wire.requests
    assert (seen.model, seen.system, seen.opening) == ("m", "Be good.", "go")
    assert seen.tools == (OfferedTool("Write", schema=SCHEMA),)
    assert [use for message in seen.messages for use in message.uses] == [Use("Write", {"a": 1}, "c1")]
    assert seen.last_result == ToolResult("c1", "denied", is_error=spelling.wire is GeminiWire)
    assert [message.role for message in seen.messages if message != Message("assistant")] == [
        "user",
        "assistant",
        "user",
    ]


def test_requests_without_tools_take_no_step(spelling: Spelling) -> None:
    model = ScriptedModel([Say("the work")])
    aside = answered(spelling.wire(model), spelling.plain, spelling.without_tools)
    assert spelling.parts(aside) == [SIDE_REQUEST_ANSWER]
    assert model.remaining == 1


@pytest.mark.parametrize("name", sorted(SPELLINGS))
@settings(max_examples=50, deadline=None)
@given(junk=st.binary() | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(json.encode))
def test_junk_is_refused_and_takes_no_step(name: str, junk: bytes) -> None:
    model = ScriptedModel([Say("a")])
    reply = SPELLINGS[name].wire(model).answer("POST", SPELLINGS[name].plain, junk)
    assert reply.status == 400
    assert json.decode(reply.body)["error"]["message"]
    assert model.remaining == 1


@pytest.mark.parametrize("path", ["/", "/v1/nothing", "/v1beta/models/m:embedContent", "/etc/passwd"])
def test_other_addresses_are_not_served(spelling: Spelling, path: str) -> None:
    assert spelling.wire(ScriptedModel([])).answer("POST", path, b"{}").status == 404


def test_a_step_that_breaks_is_told_and_no_later_step_stands_in(spelling: Spelling) -> None:
    def broken(_: ModelRequest) -> Say:
        raise LookupError("no such result")

    def asked() -> None:
        with spelling.wire(model).serve() as wire:
            answers.extend(post(wire, spelling.plain, spelling.body) for _ in range(2))

    answers: list[tuple[int, bytes]] = []
    model = ScriptedModel([broken, Say("later")])
    with pytest.raises(LookupError, match="no such result"):
        asked()
    assert [status for status, _ in answers] == [400, 400]
    assert all("no such result" in json.decode(body)["error"]["message"] for _, body in answers)
    assert model.remaining == 1


# --- Responses ---------------------------------------------------------------------------------------------------


def responses_item(use: Use, *tools: dict[str, Any]) -> dict[str, Any]:
    wire = ResponsesWire(ScriptedModel([use]))
    asked = {"model": "m", "input": ASKED, "tools": [*RESPONSES_TOOLS, *tools]}
    [item] = json.decode(answered(wire, "/v1/responses", asked))["output"]
    return {key: value for key, value in item.items() if key not in ("id", "call_id", "status")}


PATCH_TOOL = {"type": "custom", "name": "apply_patch", "format": {"type": "grammar"}}
NOTES = {"type": "namespace", "name": "mcp__notes", "tools": [{"type": "function", "name": "echo__note"}]}


@pytest.mark.parametrize(
    ("use", "item"),
    [
        (
            Use("apply_patch", {"input": "*** Begin Patch"}),
            {"type": "custom_tool_call", "name": "apply_patch", "input": "*** Begin Patch"},
        ),
        (
            Use("mcp__notes__echo__note"),
            {"type": "function_call", "namespace": "mcp__notes", "name": "echo__note", "arguments": "{}"},
        ),
        (
            Use("mcp__kept_back__echo"),
            {"type": "function_call", "namespace": "mcp__kept_back", "name": "echo", "arguments": "{}"},
        ),
        (
            Use("tool_search", {"query": "notes"}),
            {"type": "tool_search_call", "execution": "client", "arguments": {"query": "notes"}},
        ),
        (Use("Unheard", {"a": 1}), {"type": "function_call", "name": "Unheard", "arguments": '{"a":1}'}),
    ],
)
def test_a_call_is_spelled_as_its_tool_is_offered(use: Use, item: dict[str, Any]) -> None:
    assert responses_item(use, PATCH_TOOL, NOTES, {"type": "tool_search"}) == item


@pytest.mark.parametrize("given_input", [{}, {"input": 1}, {"input": "p", "more": "x"}])
def test_a_freeform_tool_takes_one_text(given_input: dict[str, Any]) -> None:
    with pytest.raises(NotFreeform, match="apply_patch"):
        responses_item(Use("apply_patch", given_input), PATCH_TOOL)


def test_freeform_calls_and_searches_are_read_back() -> None:
    asked = [
        {"type": "custom_tool_call", "name": "apply_patch", "input": "p", "call_id": "c1"},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "ok"}]},
        {"type": "tool_search_call", "call_id": "c2", "arguments": {"query": "notes"}, "execution": "client"},
        {"type": "tool_search_output", "call_id": "c2", "tools": [NOTES]},
        {"type": "function_call", "namespace": "mcp__notes", "name": "echo__note", "arguments": "{}", "call_id": "c3"},
    ]
    wire = ResponsesWire(ScriptedModel([Say("1")]))
    answered(wire, "/v1/responses", {"input": asked, "tools": RESPONSES_TOOLS})
    [seen] = wire.requests
    assert [use for message in seen.messages for use in message.uses] == [
        Use("apply_patch", {"input": "p"}, "c1"),
        Use("tool_search", {"query": "notes"}, "c2"),
        Use("mcp__notes__echo__note", {}, "c3"),
    ]
    assert seen.results == (ToolResult("c1", "ok"), ToolResult("c2", "mcp__notes__echo__note"))


def test_what_the_client_says_of_the_folder_is_no_opening() -> None:
    remark = {"type": "message", "role": "user", "content": "<environment_context>\n  <cwd>/w</cwd>"}
    wire = ResponsesWire(ScriptedModel([Say("1")]))
    answered(wire, "/v1/responses", {"input": [remark, *ASKED], "tools": RESPONSES_TOOLS})
    assert wire.requests[0].opening == "go"
    assert "/w</cwd>" in wire.requests[0].shown_text


# --- Gemini ------------------------------------------------------------------------------------------------------


def test_results_without_an_id_are_told_apart_by_their_place() -> None:
    response = {"functionResponse": {"name": "Write", "response": {"output": "same"}}}
    wire = GeminiWire(ScriptedModel([Say("a")]))
    asked = {"contents": [{"role": "user", "parts": [response, response]}], "tools": GEMINI_TOOLS}
    answered(wire, SPELLINGS["gemini"].plain, asked)
    assert wire.tool_result_texts() == ["same", "same"]


def test_a_gemini_opening_is_the_users_and_not_the_clients() -> None:
    parts = [{"text": "<session_context>\nin /w"}, {"text": "a thought", "thought": True}, {"text": "go"}]
    wire = GeminiWire(ScriptedModel([Say("a")]))
    asked = {"contents": [{"role": "user", "parts": parts}], "tools": GEMINI_TOOLS}
    answered(wire, SPELLINGS["gemini"].plain, asked)
    assert wire.requests[0].messages == (Message("system", ("<session_context>\nin /w",)), Message("user", ("go",)))


def test_tokens_are_counted() -> None:
    reply = GeminiWire(ScriptedModel([])).answer("POST", "/v1beta/models/m:countTokens", b"x" * 400)
    assert json.decode(reply.body) == {"totalTokens": 100}
