"""Qwen Code: what its payloads say, what it can be told, and what its settings must hold."""

import msgspec
import pytest

from adapters.captured import after, call, captured, decision, event
from remit.adapters import render, server_settings, settings
from remit.core.agents import ROWS
from remit.core.call import AfterCall, BeforeCall, IgnoredEvent, PromptGiven, SessionStarted, TurnEnded

AGENT = "qwen"
FILE = "$WORKSPACE/a.txt"
SHELL = "echo shell-ran > s.txt"

CALLS = {
    "edit": ("write", (FILE,), None, False, True),
    "mcp__notes__echo_note": ("unproved", (), None, True, False),
    "run_shell_command": ("execute", (), SHELL, True, False),
    "tool_search": ("none", (), None, False, False),
    "write_file": ("write", (FILE,), None, False, False),
}
FAILED = {"edit": (FILE,), "run_shell_command": ()}
OTHERS = {
    "SessionStart": SessionStarted,
    "UserPromptSubmit": PromptGiven,
    "Stop": TurnEnded,
    "Notification": IgnoredEvent,
    "PostToolBatch": IgnoredEvent,
}


def test_every_capture_is_in_a_table() -> None:
    calls = [f"{event}-{tool}" for event in ("PreToolUse", "PostToolUse") for tool in CALLS]
    assert captured(AGENT) == sorted((*calls, *(f"PostToolUseFailure-{tool}" for tool in FAILED), *OTHERS))


@pytest.mark.parametrize("native", ["PreToolUse", "PostToolUse"])
@pytest.mark.parametrize("tool", CALLS)
def test_a_call_is_read_as_what_it_does(native: str, tool: str) -> None:
    found = call(AGENT, f"{native}-{tool}")
    facts = (found.effect, found.paths, found.command, found.whole_workspace, found.checks_itself)
    assert facts == CALLS[tool]
    assert (found.tool, found.malformed) == (tool, None)
    assert isinstance(event(AGENT, f"{native}-{tool}"), BeforeCall if native == "PreToolUse" else AfterCall)


@pytest.mark.parametrize("tool", CALLS)
def test_the_call_before_and_after_are_joined_by_the_clients_own_id(tool: str) -> None:
    ids = {call(AGENT, f"{native}-{tool}").call_id for native in ("PreToolUse", "PostToolUse")}
    assert len(ids) == 1
    assert ids.pop().startswith("toolu_")


@pytest.mark.parametrize("name", OTHERS)
def test_other_events_are_known(name: str) -> None:
    assert type(event(AGENT, name)) is OTHERS[name]


def test_a_continuation_carries_the_id_of_its_prompt() -> None:
    found = event(AGENT, "UserPromptSubmit")
    assert isinstance(found, PromptGiven)
    assert found.prompt_id == "36162f2c-7ac0-49a9-937d-8750770fc47b########0"


@pytest.mark.parametrize(("tool", "code"), [("edit", None), ("run_shell_command", 3)])
def test_a_failure_has_an_event_of_its_own(tool: str, code: int | None) -> None:
    found = after(AGENT, f"PostToolUseFailure-{tool}")
    assert found.failed
    assert (found.call.paths, found.outcome.ok, found.outcome.exit_code) == (FAILED[tool], False, code)


def test_the_lines_come_from_the_diff_that_it_shows() -> None:
    first = "@@ -1,2 +1,3 @@\n one\n-two\n+TWO\n+three\n\\ No newline at end of file\n"
    diff = f"Index: a\n--- a\n+++ a\n{first}@@ -9 +10 @@\n-x\n+y\n"
    response = {"returnDisplay": {"filePath": "/w/a.txt", "fileDiff": diff}}
    found = after(AGENT, "PostToolUse-edit", tool_response=response).outcome.positions
    assert [(r.start, r.end) for r in found["/w/a.txt"]] == [(2, 3), (10, 10)]


def test_a_denial_is_exact() -> None:
    reply = render(AGENT, event(AGENT, "PreToolUse-edit"), decision("deny"), "because", "lost")
    assert reply.stdout == (
        b'{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny",'
        b'"permissionDecisionReason":"because"}}'
    )


def test_a_question_is_handed_on() -> None:
    reply = render(AGENT, event(AGENT, "PreToolUse-edit"), decision("ask"), "may it?")
    assert msgspec.json.decode(reply.stdout)["hookSpecificOutput"]["permissionDecision"] == "ask"


def test_nothing_is_said_before_a_call_that_is_allowed() -> None:
    assert render(AGENT, event(AGENT, "PreToolUse-edit"), decision("allow"), "", "lost").stdout == b""


@pytest.mark.parametrize("name", ["SessionStart", "UserPromptSubmit", "PostToolUse-edit", "PostToolUseFailure-edit"])
def test_context_goes_where_the_client_takes_it(name: str) -> None:
    reply = render(AGENT, event(AGENT, name), decision("allow"), "", "know this")
    wanted = {"hookSpecificOutput": {"hookEventName": name.partition("-")[0], "additionalContext": "know this"}}
    assert msgspec.json.decode(reply.stdout) == wanted


def test_its_timeout_is_not_one_that_it_would_take_for_milliseconds() -> None:
    assert ROWS[AGENT].max_timeout < 1000


def test_settings_hold_the_hooks_alone_and_the_server_is_trusted_in_its_entry() -> None:
    assert set(settings(AGENT, "/c")) == {"hooks"}
    assert server_settings(AGENT, ["/bin/remit", "mcp"]) == {
        "mcpServers": {"remit": {"command": "/bin/remit", "args": ["mcp"], "trust": True}}
    }
