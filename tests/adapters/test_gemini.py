"""Gemini CLI: what its payloads say, what it can be told, and what its settings must hold."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.captured import after, call, captured, decision, event, payload
from remit.adapters import AdapterError, parse, render, server_settings, settings
from remit.core.agents import ROWS
from remit.core.call import AfterCall, BeforeCall, IgnoredEvent, PromptGiven, SessionEnded, SessionStarted, TurnEnded
from remit.core.decision import Verdict
from remit.core.diff.contents import LineRange

AGENT = "gemini"
FILE = "$WORKSPACE/a.txt"
SHELL = "echo shell-ran > s.txt"

CALLS = {
    "mcp_notes_echo_note": ("unproved", (), None, True, False),
    "replace": ("write", (FILE,), None, False, True),
    "run_shell_command": ("execute", (), SHELL, True, False),
    "write_file": ("write", (FILE,), None, False, False),
}
OTHERS = {
    "SessionStart": SessionStarted,
    "BeforeAgent": PromptGiven,
    "AfterAgent": TurnEnded,
    "SessionEnd": SessionEnded,
    "PreCompress": IgnoredEvent,
}


def test_every_capture_is_in_a_table() -> None:
    calls = [f"{event}-{tool}" for event in ("BeforeTool", "AfterTool") for tool in CALLS]
    assert captured(AGENT) == sorted((*calls, *OTHERS))


@pytest.mark.parametrize("native", ["BeforeTool", "AfterTool"])
@pytest.mark.parametrize("tool", CALLS)
def test_a_call_is_read_as_what_it_does(native: str, tool: str) -> None:
    found = call(AGENT, f"{native}-{tool}")
    facts = (found.effect, found.paths, found.command, found.whole_workspace, found.checks_itself)
    assert facts == CALLS[tool]
    assert (found.tool, found.call_id, found.malformed, found.remit_tool) == (tool, "", None, None)
    assert isinstance(event(AGENT, f"{native}-{tool}"), BeforeCall if native == "BeforeTool" else AfterCall)


@pytest.mark.parametrize("tool", CALLS)
def test_without_ids_a_call_is_joined_by_its_arguments(tool: str) -> None:
    before, done = (call(AGENT, f"{native}-{tool}") for native in ("BeforeTool", "AfterTool"))
    assert before.arguments_sha256 == done.arguments_sha256
    assert before.session == done.session


@pytest.mark.parametrize("name", OTHERS)
def test_other_events_are_known(name: str) -> None:
    assert type(event(AGENT, name)) is OTHERS[name]


@pytest.mark.parametrize(("tool", "lines"), [("write_file", (LineRange(1, 2),)), ("replace", (LineRange(2, 2),))])
def test_the_lines_come_from_the_diff_that_it_shows(tool: str, lines: tuple[LineRange, ...]) -> None:
    display = {"filePath": "/w/a.txt", **shown(tool)}
    found = after(AGENT, f"AfterTool-{tool}", tool_response={"returnDisplay": display})
    assert found.outcome.positions == {"/w/a.txt": lines}


def shown(tool: str) -> dict[str, object]:
    document = msgspec.json.decode(payload(AGENT, f"AfterTool-{tool}"))
    return {"fileDiff": document["tool_response"]["returnDisplay"]["fileDiff"]}


@pytest.mark.parametrize(
    "diff", ["", "@@ -1,2 +1,2 @@\n one\n-two", "@@ -1 +1 @@\n?", "@@ -0,0 +1,99999999999999999999 @@\n+a", None]
)
def test_a_diff_that_does_not_add_up_says_nothing(diff: object) -> None:
    display = {"filePath": "/w/a.txt", "fileDiff": diff}
    assert after(AGENT, "AfterTool-replace", tool_response={"returnDisplay": display}).outcome.positions == {}


@pytest.mark.parametrize(
    ("response", "ok", "code"),
    [
        ({"llmContent": "x", "returnDisplay": ""}, True, None),
        ({"llmContent": "<untrusted_context>\nOutput: Exit Code: 9\nExit Code: 3\n</untrusted_context>"}, False, 3),
        ({"llmContent": "x", "error": {"message": "no match", "type": "edit_no_occurrence_found"}}, False, None),
        ({"llmContent": [{"text": "Exit Code: 1"}]}, False, 1),
        ("text", True, None),
    ],
)
def test_a_failure_stands_in_the_response(response: object, ok: bool, code: int | None) -> None:
    found = after(AGENT, "AfterTool-run_shell_command", tool_response=response)
    assert (found.outcome.ok, found.outcome.exit_code, found.failed) == (ok, code, False)


@pytest.mark.parametrize(
    ("tool", "context", "remit_tool"),
    [
        ("mcp_remit_select_active_intent", {"server_name": "remit", "tool_name": "select_active_intent"}, True),
        ("mcp_remit_select_active_intent", {"server_name": "remit_select", "tool_name": "active_intent"}, False),
        ("mcp_remit_select_active_intent", {}, False),
        ("mcp_remit_select_active_intent", None, False),
        ("mcp_remit_delete_everything", {"server_name": "remit", "tool_name": "delete_everything"}, False),
        ("write_file", {"server_name": "notes", "tool_name": "write_file"}, False),
    ],
)
def test_whose_tool_it_is_the_context_tells_not_the_name(tool: str, context: object, remit_tool: bool) -> None:
    found = call(AGENT, "BeforeTool-mcp_notes_echo_note", tool_name=tool, mcp_context=context)
    assert (found.effect == "meta") is (found.remit_tool == "select_active_intent") is remit_tool


def test_an_unlisted_tool_counts_by_its_arguments() -> None:
    found = call(AGENT, "BeforeTool-write_file", tool_name="save_memory")
    assert (found.effect, found.whole_workspace) == ("execute", True)
    found = call(AGENT, "BeforeTool-write_file", tool_name="save_memory", tool_input={"fact": "tabs, not spaces"})
    assert (found.effect, found.whole_workspace, found.is_unlisted) == ("unproved", True, True)


@pytest.mark.parametrize("effect", ["contain", "ask", "deny"])
def test_whatever_is_not_allowed_is_denied_and_nothing_is_asked(effect: Verdict) -> None:
    reply = render(AGENT, event(AGENT, "BeforeTool-write_file"), decision(effect), "because", "lost")
    assert reply.stdout == b'{"decision":"deny","reason":"because"}'
    assert (reply.stderr, reply.exit_code) == (b"", 0)


def test_an_allowed_call_is_answered_with_silence() -> None:
    reply = render(AGENT, event(AGENT, "BeforeTool-write_file"), decision("allow"), "because", "lost")
    assert (reply.stdout, reply.stderr, reply.exit_code) == (b"", b"", 0)


@pytest.mark.parametrize("name", ["SessionStart", "BeforeAgent", "AfterTool-write_file"])
def test_context_goes_where_the_client_takes_it(name: str) -> None:
    reply = render(AGENT, event(AGENT, name), decision("allow"), "", "know this")
    native = name.partition("-")[0]
    wanted = {"hookSpecificOutput": {"hookEventName": native, "additionalContext": "know this"}}
    assert msgspec.json.decode(reply.stdout) == wanted


@pytest.mark.parametrize("name", ["AfterAgent", "SessionEnd", "PreCompress"])
def test_nothing_is_said_where_it_could_loop(name: str) -> None:
    assert render(AGENT, event(AGENT, name), decision("deny"), "because", "know this").stdout == b""


@given(
    st.binary() | st.recursive(st.none() | st.text(), lambda s: st.dictionaries(st.text(), s)).map(msgspec.json.encode)
)
def test_junk_raises_only_the_adapters_own_error(junk: bytes) -> None:
    with pytest.raises(AdapterError):
        parse(AGENT, junk)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda s: st.lists(s, max_size=3) | st.dictionaries(st.text(max_size=5), s, max_size=3),
)
KEYS = st.sampled_from(["tool_input", "tool_response", "mcp_context", "transcript_path", "duration_ms", "source"])


@given(st.sampled_from(["BeforeTool-write_file", "AfterTool-replace", "SessionStart"]), st.dictionaries(KEYS, JSON))
def test_any_values_in_a_payload_are_read(name: str, changes: dict[str, object]) -> None:
    assert type(event(AGENT, name, **changes)) is type(event(AGENT, name))


def test_settings_hold_only_the_events_that_are_needed_in_its_unit() -> None:
    hooks = msgspec.convert(settings(AGENT, "/c")["hooks"], dict[str, list[dict[str, object]]])
    assert set(hooks) == set(ROWS[AGENT].events)
    assert hooks["AfterAgent"] == [
        {"hooks": [{"type": "command", "name": "remit", "command": "/c gemini note || true", "timeout": 600_000}]}
    ]


def test_remits_server_is_trusted_in_its_entry() -> None:
    assert server_settings(AGENT, ["/bin/remit", "mcp"]) == {
        "mcpServers": {"remit": {"command": "/bin/remit", "args": ["mcp"], "trust": True}}
    }
