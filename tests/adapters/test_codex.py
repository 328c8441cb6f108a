"""Codex CLI: what its payloads say, what it can be told, and what its settings must hold."""

import hashlib

import msgspec
import pytest
from jsonschema import Draft7Validator

from adapters.captured import PAYLOADS, after, call, captured, decision, event
from remit.adapters import compute_hook_trust, render, server_settings, settings
from remit.core.agents import ROWS
from remit.core.call import AfterCall, BeforeCall, PromptGiven, SessionEnded, SessionStarted, TurnEnded
from remit.core.decision import Facts, Verdict
from remit.policy.checks.call import check_unwatched
from remit.policy.commands.background_and_input import may_wait_for_input
from remit.policy.decide import classify

AGENT = "codex"

CALLS = {
    "PreToolUse-Bash": ("Bash", "execute", (), "echo shell-ran > s.txt", True),
    "PostToolUse-Bash": ("Bash", "execute", (), "echo shell-ran > s.txt", True),
    "PreToolUse-apply_patch": ("apply_patch", "write", ("$WORKSPACE/a.txt",), None, False),
    "PostToolUse-apply_patch": ("apply_patch", "write", ("$WORKSPACE/a.txt",), None, False),
    "PreToolUse-mcp__notes__echo_note": ("mcp__notes__echo_note", "unproved", (), None, True),
    "PostToolUse-mcp__notes__echo_note": ("mcp__notes__echo_note", "unproved", (), None, True),
}
OTHERS = {
    "SessionStart": SessionStarted,
    "UserPromptSubmit": PromptGiven,
    "Stop": TurnEnded,
    "SessionEnd": SessionEnded,
}


def test_every_capture_is_in_a_table() -> None:
    assert captured(AGENT) == sorted((*CALLS, *OTHERS))


@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_read_as_what_it_does(name: str) -> None:
    found = call(AGENT, name)
    assert (found.tool, found.effect, found.paths, found.command, found.whole_workspace) == CALLS[name]
    assert found.malformed is None
    assert found.call_id.startswith("call_")
    assert isinstance(event(AGENT, name), BeforeCall if name.startswith("Pre") else AfterCall)


@pytest.mark.parametrize("name", OTHERS)
def test_other_events_are_known(name: str) -> None:
    assert type(event(AGENT, name)) is OTHERS[name]


def test_the_model_is_read_at_the_start() -> None:
    found = event(AGENT, "SessionStart")
    assert isinstance(found, SessionStarted)
    assert (found.model, found.source) == ("gpt-5.5", "startup")


def test_the_call_before_and_after_are_joined_by_their_id() -> None:
    before, done = (call(AGENT, f"{event}ToolUse-Bash") for event in ("Pre", "Post"))
    assert before.call_id == done.call_id
    assert before.arguments_sha256 == done.arguments_sha256


@pytest.mark.parametrize(("said", "ok", "code"), [("Exit code: 0\nx", True, 0), ("Exit code: 1\nx", False, 1)])
def test_a_patch_says_how_it_ended(said: str, ok: bool, code: int) -> None:
    found = after(AGENT, "PostToolUse-apply_patch", tool_response=said).outcome
    assert (found.ok, found.exit_code) == (ok, code)


def test_what_a_command_prints_is_no_exit_code() -> None:
    found = after(AGENT, "PostToolUse-Bash", tool_response="Exit code: 1\n").outcome
    assert (found.ok, found.exit_code) == (True, None)


PATCH = "*** Begin Patch\n*** Update File: a\n*** Move to: b\n@@\n-x\n+y\n*** Delete File: /w/c\n*** End Patch"


def test_a_patch_names_all_its_files() -> None:
    found = call(AGENT, "PreToolUse-apply_patch", tool_input={"command": PATCH})
    assert (found.paths, found.checks_itself) == (("a", "b", "/w/c"), False)


def test_a_patch_in_a_command_names_its_files_too() -> None:
    command = f"cd sub && apply_patch <<'EOF'\n{PATCH}\nEOF"
    found = call(AGENT, "PreToolUse-Bash", tool_input={"command": command})
    assert (found.paths, found.command, found.whole_workspace) == (("sub/a", "sub/b", "/w/c"), command, True)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("PreToolUse-apply_patch", {}),
        ("PreToolUse-apply_patch", {"command": ["*** Begin Patch"]}),
        ("PreToolUse-apply_patch", {"command": "*** Begin Patch\n*** End Patch"}),
        ("PreToolUse-Bash", {}),
        ("PreToolUse-Bash", {"command": "apply_patch < x"}),
    ],
)
def test_what_cannot_be_read_is_malformed(name: str, given: object) -> None:
    assert call(AGENT, name, tool_input=given).malformed


def test_remits_own_tools_are_known() -> None:
    found = call(AGENT, "PreToolUse-Bash", tool_name="mcp__remit__select_active_intent", tool_input={"intent_id": "X"})
    assert (found.remit_tool, found.effect) == ("select_active_intent", "meta")


# -- input that no hook sees ---------------------------------------------------------------------------------


def test_a_command_that_would_wait_for_input_is_marked() -> None:
    assert may_wait_for_input(call(AGENT, "PreToolUse-Bash", tool_input={"command": "bash"}))
    assert not may_wait_for_input(call(AGENT, "PreToolUse-Bash", tool_input={"command": "bash -c ls"}))


def test_only_the_agent_that_types_unasked_is_marked() -> None:
    marked = [name for name, row in ROWS.items() if row.has_unwatched_stdin]
    assert marked == ["codex"]
    assert not may_wait_for_input(call("qwen", "PreToolUse-run_shell_command", tool_input={"command": "bash"}))


def test_a_reading_command_that_takes_typed_commands_is_judged_like_one_that_changes_something() -> None:
    assert classify(call(AGENT, "PreToolUse-Bash", tool_input={"command": "less README.md"})) == "destructive"
    assert classify(call(AGENT, "PreToolUse-Bash", tool_input={"command": "cat README.md"})) == "safe"
    assert classify(call("qwen", "PreToolUse-run_shell_command", tool_input={"command": "less README.md"})) == "safe"


def test_a_marked_command_is_refused() -> None:
    facts = Facts(mode="enforce")
    found = check_unwatched(call(AGENT, "PreToolUse-Bash", tool_input={"command": "bash"}), facts)
    assert found is not None
    assert (found.code, found.verdict) == ("COMMAND_BLOCKED", "deny")
    assert check_unwatched(call(AGENT, "PreToolUse-Bash"), facts) is None


# -- answers -------------------------------------------------------------------------------------------------

SCHEMAS = {
    "PreToolUse-Bash": "pre-tool-use",
    "PostToolUse-Bash": "post-tool-use",
    "SessionStart": "session-start",
    "UserPromptSubmit": "user-prompt-submit",
    "Stop": "stop",
}


def schema(name: str) -> Draft7Validator:
    path = PAYLOADS / AGENT / "schemas" / f"{name}.command.output.json"
    return Draft7Validator(msgspec.json.decode(path.read_bytes()))


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("effect", ["allow", "contain", "ask", "deny"])
@pytest.mark.parametrize("context", ["", "know this"])
def test_every_answer_is_one_that_the_client_accepts(name: str, effect: Verdict, context: str) -> None:
    reply = render(AGENT, event(AGENT, name), decision(effect), "because", context)
    assert (reply.exit_code, reply.stderr) == (0, b"")
    if not reply.stdout:
        return
    answer = msgspec.json.decode(reply.stdout)
    schema(SCHEMAS[name]).validate(answer)
    assert answer["hookSpecificOutput"].get("permissionDecision", "deny") == "deny"


def test_an_allowed_call_is_answered_with_silence() -> None:
    assert render(AGENT, event(AGENT, "PreToolUse-Bash"), decision("allow"), "because").stdout == b""


@pytest.mark.parametrize("effect", ["contain", "ask", "deny"])
def test_whatever_is_not_allowed_is_denied(effect: Verdict) -> None:
    reply = render(AGENT, event(AGENT, "PreToolUse-Bash"), decision(effect), "because")
    assert reply.stdout == (
        b'{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny",'
        b'"permissionDecisionReason":"because"}}'
    )


@pytest.mark.parametrize("reason", ["", " \n"])
def test_a_denial_never_lacks_its_reason(reason: str) -> None:
    reply = render(AGENT, event(AGENT, "PreToolUse-Bash"), decision("deny"), reason)
    said = msgspec.json.decode(reply.stdout)["hookSpecificOutput"]["permissionDecisionReason"]
    assert said.strip()


# -- settings ------------------------------------------------------------------------------------------------


def test_each_event_of_the_row_has_one_hook_and_only_pre_can_refuse() -> None:
    hooks = msgspec.convert(settings(AGENT, "/c")["hooks"], dict[str, list[dict[str, object]]])
    assert set(hooks) == set(ROWS[AGENT].events)
    commands = {name: str(msgspec.to_builtins(group[0]["hooks"])) for name, group in hooks.items()}
    assert [name for name, text in commands.items() if "exit 2" in text] == ["PreToolUse"]
    assert "/c codex pre || " in commands["PreToolUse"]
    assert "/c codex note || true" in commands["Stop"]


def test_hooks_are_trusted_by_the_hash_of_what_they_are() -> None:
    groups = [{"matcher": "*", "hooks": [{"type": "command", "command": "é && 'x'", "timeout": 600}]}]
    identity = (
        '{"event_name":"pre_tool_use","hooks":[{"async":false,"command":"é && \'x\'","timeout":600,'
        '"type":"command"}],"matcher":"*"}'
    )
    assert compute_hook_trust("/h/.codex/hooks.json", {"hooks": {"PreToolUse": groups}}) == {
        "hooks": {
            "state": {
                "/h/.codex/hooks.json:pre_tool_use:0:0": {
                    "trusted_hash": "sha256:" + hashlib.sha256(identity.encode()).hexdigest()
                }
            }
        }
    }


def test_every_hook_of_the_settings_is_trusted() -> None:
    wanted = settings(AGENT, "/c")
    state = msgspec.convert(compute_hook_trust("/h", wanted), dict[str, dict[str, dict[str, dict[str, str]]]])["hooks"][
        "state"
    ]
    assert len(state) == len(ROWS[AGENT].events)
    assert "/h:user_prompt_submit:0:0" in state


def test_remits_server_is_approved_in_its_entry() -> None:
    started = {"command": "/bin/remit", "args": ["mcp"], "startup_timeout_sec": 60}
    assert server_settings(AGENT, ["/bin/remit", "mcp"]) == {
        "mcp_servers": {"remit": started | {"default_tools_approval_mode": "approve"}}
    }
