"""Hooks that a repository brings: real processes, asked before and after real calls."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gate.driving import Agent, allowed, body, governed, records, refusal
from gate.hooks.trusted_hooks import hook, put_hooks, trust_all, with_hooks
from processes import fields
from waiting import wait_until


def saying(**answer: Any) -> str:
    """A command that answers this."""
    return f"printf '%s' \"{json.dumps(answer).replace(chr(34), chr(92) + chr(34))}\""


def heard(repository: Path, name: str = "heard.json") -> Any:
    """What a hook that keeps its input was told."""
    return json.loads((repository / ".git" / name).read_text())


def test_a_hook_refuses_and_its_reason_reaches_the_model(repository: Path, home: Path) -> None:
    agent = with_hooks(repository, home, hook(saying(effect="deny", reason="not on a Friday")))
    answer = agent.write("src/x.py", "x\n")
    assert (refusal(answer), (repository / "src/x.py").exists()) == ("HOOK_BLOCKED", False)
    assert "not on a Friday" in answer["permissionDecisionReason"]
    assert body(records(repository, "denied")[-1])["decision"]["rules"] == ["hooks/a.toml#1"]


def test_a_hook_gets_the_call_the_facts_and_afterwards_the_outcome(repository: Path, home: Path) -> None:
    agent = with_hooks(repository, home, hook("cat > .git/before.json") + hook("cat > .git/after.json", "after"))
    assert allowed(agent.write("src/x.py", "x = 1\n"))
    before, after = heard(repository, "before.json"), heard(repository, "after.json")
    assert (before["version"], before["on"], before["call"]["tool"]) == (1, "before", "Write")
    assert before["call"]["arguments"] == {"file_path": "src/x.py", "content": "x = 1\n"}
    assert before["facts"]["intent"]["id"] == "INT-001"
    assert [t["path"] for t in before["facts"]["targets"]] == ["src/x.py"]
    assert (after["on"], after["outcome"]["ok"], after["outcome"]["changed"]) == ("after", True, ["src/x.py"])


def test_nothing_said_is_no_objection_and_allow_never_loosens(repository: Path, home: Path) -> None:
    agent = with_hooks(repository, home, hook("true") + hook(saying(effect="allow")))
    assert allowed(agent.write("src/x.py", "x\n"))
    assert refusal(agent.write("docs/x.md", "x\n")) == "SCOPE_VIOLATION"


BAD = {
    "junk": "echo no",
    "exit": "exit 3",
    "killed": "kill -9 $$",
    "misspelt": saying(efect="deny"),
    "no effect": saying(reason="no"),
    "wrong effect": saying(effect="block"),
    "too much": "head -c 2000000 /dev/zero",
    "not there": "/no/such/program",
}


@pytest.mark.parametrize(
    ("command", "on_error"),
    [*((command, "deny") for command in BAD.values()), (BAD["junk"], "allow"), (BAD["exit"], "allow")],
    ids=[*BAD, "junk allowed", "exit allowed"],
)
def test_a_hook_that_fails_does_as_its_on_error_says_and_is_recorded(
    repository: Path, home: Path, command: str, on_error: str
) -> None:
    agent = with_hooks(repository, home, hook(command, on_error=f'"{on_error}"'))
    answer = agent.write("src/x.py", "x\n")
    assert refusal(answer) == ("HOOK_BLOCKED" if on_error == "deny" else "")
    assert body(records(repository, "check_failed")[-1])["check"] == "hooks/a.toml#1"


def test_a_time_limit_ends_all_that_the_hook_started(repository: Path, home: Path) -> None:
    long = f"1000.{os.getpid()}"  # of this test alone
    agent = with_hooks(repository, home, hook(f"(sleep {long}; touch .git/late) & sleep {long}", timeout_s=0.5))
    answer = agent.write("src/x.py", "x\n")
    assert "ended after 0.5 s" in answer["permissionDecisionReason"]
    wait_until(lambda: not any(long in fields(place / "cmdline") for place in Path("/proc").glob("[0-9]*")))
    assert not (repository / ".git" / "late").exists()


def test_a_child_that_stays_holds_nobody_up(repository: Path, home: Path) -> None:
    agent = with_hooks(repository, home, hook("sleep 1000 & true"))
    assert allowed(agent.write("src/x.py", "x\n"))  # one that waits ends with its minute, and is refused


def test_a_hook_sees_an_allow_list_of_variables_and_the_root(
    repository: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    agent = with_hooks(repository, home, hook("env > .git/env; pwd > .git/pwd"))
    agent.cwd = repository / "src"
    assert allowed(agent.write("x.py", "x\n"))
    assert "SOME_API_KEY" not in (repository / ".git/env").read_text()
    assert (repository / ".git/pwd").read_text().strip() == str(repository)


WHEN = [
    ('tools = "Wri*"', True),
    ('tools = ["Bash", "Edit"]', False),
    ('agent = "claude-code"', True),
    ('agent = ["codex"]', False),
    ('mode = ["observe", "warn"]', False),
    ('mode = "enforce"', True),
    ('paths = "src/**"', True),
    ('paths = ["docs/**"]', False),
    ('tools = "Write", paths = "docs/**"', False),
]


@pytest.mark.parametrize(("when", "asked"), WHEN)
def test_a_hook_is_asked_of_the_calls_it_is_meant_for(repository: Path, home: Path, when: str, asked: bool) -> None:
    agent = with_hooks(repository, home, hook(saying(effect="deny"), when="{" + when + "}"))
    assert allowed(agent.write("src/x.py", "x\n")) is not asked


def test_words_for_the_model_are_injected(repository: Path, home: Path) -> None:
    context = "the style guide\u202e says"
    agent = with_hooks(
        repository, home, hook(saying(effect="allow", context=context)) + hook("echo formatted", "after")
    )
    answer = agent.write("src/x.py", "x\n")
    assert "the style guide says" in answer["additionalContext"]
    assert "formatted" in answer["after"]["additionalContext"]


def test_a_hook_after_a_call_never_fails_it(repository: Path, home: Path) -> None:
    agent = with_hooks(repository, home, hook("echo 2 errors; exit 1", "after"))
    answer = agent.write("src/x.py", "x\n")
    assert "2 errors" in answer["after"]["additionalContext"]
    assert "permissionDecision" not in answer["after"]
    assert body(records(repository, "tool_result")[-1])["result"]["ok"] is True
    assert body(records(repository, "check_failed")[-1])["check"] == "hooks/a.toml#1"


# -- other arguments --------------------------------------------------------------------------------------------


def rewriting(**arguments: Any) -> str:
    """A hook that gives every write these arguments."""
    return hook(saying(effect="allow", arguments=arguments), when='{tools = "Write"}')


def test_other_arguments_reach_the_agent_and_are_what_is_judged_and_recorded(repository: Path, home: Path) -> None:
    new = {"file_path": "src/y.py", "content": "y\n"}
    agent = with_hooks(repository, home, rewriting(**new))
    answer = agent.ask("Write", file_path="src/x.py", content="x\n")
    assert (answer["updatedInput"], allowed(answer)) == (new, True)
    use = body(records(repository, "tool_use")[-1])
    assert (use["call"]["paths"], use["rewritten_by"]) == (["src/y.py"], ["hooks/a.toml#1"])
    (repository / "src/y.py").write_text("y\n")
    agent.tell("Write", answer["call_id"], **new)
    assert body(records(repository, "mutation")[-1])["covered"] is True


def test_other_arguments_are_checked_again(repository: Path, home: Path) -> None:
    agent = with_hooks(repository, home, rewriting(file_path="docs/x.md", content="x\n"))
    assert refusal(agent.write("src/x.py", "x\n")) == "SCOPE_VIOLATION"


def test_every_hook_sees_what_another_made_of_the_call(repository: Path, home: Path) -> None:
    first = hook("grep -qF src/y.py && " + saying(effect="deny", reason="no y") + " || true")
    agent = with_hooks(repository, home, first + rewriting(file_path="src/y.py", content="y\n"))
    assert refusal(agent.write("src/x.py", "x\n")) == "HOOK_BLOCKED"


def test_hooks_that_disagree_about_the_arguments_refuse_the_call(repository: Path, home: Path) -> None:
    to_a = hook("grep -qF src/a.py || " + saying(effect="allow", arguments={"file_path": "src/a.py", "content": ""}))
    insists = hook(
        "grep -qF src/b.py && "
        + saying(effect="allow", arguments={"file_path": "src/c.py", "content": ""})
        + " || true"
    )
    agent = with_hooks(repository, home, insists + rewriting(file_path="src/b.py", content="") + to_a)
    assert refusal(agent.write("src/x.py", "x\n")) == ""
    put_hooks(repository, home, insists + rewriting(file_path="src/b.py", content=""))
    assert refusal(agent.write("src/x.py", "x\n")) == "HOOK_BLOCKED"


def test_an_agent_that_takes_no_other_arguments_is_told_them(repository: Path, home: Path) -> None:
    agent = with_hooks(repository, home, hook(saying(effect="allow", arguments={"note": "other"})))
    answer = agent.ask("mcp__notes__add", note="one")
    assert refusal(answer) == "HOOK_BLOCKED"
    assert '{"note":"other"}' in answer["permissionDecisionReason"]


def test_outside_of_enforce_arguments_stay_as_they_are(repository: Path, home: Path) -> None:
    agent = with_hooks(repository, home, rewriting(file_path="src/y.py", content="y\n"), mode="observe")
    answer = agent.ask("Write", file_path="src/x.py", content="x\n")
    assert "updatedInput" not in answer
    assert "only enforce lets it" in answer["additionalContext"]


# -- trust ------------------------------------------------------------------------------------------------------


def test_an_untrusted_hook_does_not_run_and_the_first_call_says_so(repository: Path, home: Path) -> None:
    governed(repository)
    (repository / ".orchestration" / "hooks").mkdir()
    (repository / ".orchestration" / "hooks" / "a.toml").write_text(hook("touch .git/ran"))
    agent = Agent(repository, home)
    first = agent.select()
    assert "DO NOT RUN" in first["additionalContext"]
    answer = agent.write("src/x.py", "x\n")
    assert allowed(answer)
    assert "DO NOT RUN" not in answer.get("additionalContext", "")
    assert not (repository / ".git/ran").exists()
    assert "DO NOT RUN" in agent.send("SessionStart", source="startup").stdout.decode()


@pytest.mark.parametrize("change", ["hook", "script", "new script"])
def test_a_yes_is_for_exactly_these_bytes(repository: Path, home: Path, change: str) -> None:
    agent = with_hooks(repository, home, hook("touch .git/ran"))
    folder = repository / ".orchestration" / "hooks"
    (folder / "check.sh").write_text("exit 0\n")
    trust_all(repository, home)
    if change == "hook":
        (folder / "a.toml").write_text(hook("touch .git/ran; true"))
    else:
        (folder / ("check.sh" if change == "script" else "other.sh")).write_text("exit 1\n")
    assert allowed(agent.write("src/x.py", "x\n"))
    assert not (repository / ".git/ran").exists()


def test_trust_is_of_one_command_and_not_of_all(repository: Path, home: Path) -> None:
    agent = with_hooks(repository, home, hook(saying(effect="deny")))
    (repository / ".orchestration" / "remit.toml").write_text('mode = "enforce"\n' + hook("touch .git/ran"))
    assert refusal(agent.write("src/x.py", "x\n")) == "HOOK_BLOCKED"
    assert not (repository / ".git/ran").exists()


BROKEN = [
    ("[[hooks]]\non = 'during'\ncommand = 'true'\n", "hooks[0].on"),
    ("[[hooks]]\non = 'before'\n", "hooks[0]"),
    ("[[hooks]]\non = 'before'\ncommand = 'true'\nentry_point = 'a:b'\n", "hooks[0]"),
    ("[[hooks]]\non = 'before'\ncommand = ' '\n", "empty"),
    ("[[hooks]]\non = 'before'\ncommand = []\n", "empty"),
    ("[[hooks]]\non = 'before'\nentry_point = 'a'\n", "package.module:name"),
    ("[[hooks]]\non = 'before'\ncommand = 'true'\ntimeout_s = 0\n", "timeout_s"),
    ("[[hooks]]\non = 'before'\ncommand = 'true'\ntimeout_s = 600\n", "timeout_s"),
    ("[[hooks]]\non = 'before'\ncommand = 'true'\nwhen = {tool = 'x'}\n", "tool"),
    ("[[hooks]]\non = 'before'\ncommand = 'true'\nwhen = {paths = '/x'}\n", "when"),
    ("mode = 'observe'\n", "mode"),
    ("[[", "hooks/b.toml"),
]


@pytest.mark.parametrize(("text", "named"), BROKEN)
def test_a_broken_hook_file_refuses_changes_and_names_file_and_key(
    repository: Path, home: Path, text: str, named: str
) -> None:
    agent = with_hooks(repository, home, "")
    (repository / ".orchestration" / "hooks" / "b.toml").write_text(text)
    answer = agent.write("src/x.py", "x\n")
    assert refusal(answer) == "CONFIG_INVALID"
    assert "hooks/b.toml" in answer["permissionDecisionReason"]
    assert named in answer["permissionDecisionReason"]
    assert allowed(agent.read("src/app.py"))


def test_a_broken_entry_in_the_configuration_names_that_file(repository: Path, home: Path) -> None:
    agent = with_hooks(repository, home, "")
    (repository / ".orchestration" / "remit.toml").write_text("[[hooks]]\non = 'before'\n")
    assert ".orchestration/remit.toml" in agent.write("src/x.py", "x\n")["permissionDecisionReason"]


def test_an_agent_cannot_change_a_hook_by_any_tool(repository: Path, home: Path) -> None:
    agent = with_hooks(repository, home, hook(saying(effect="deny"), when='{paths = "src/x.py"}'))
    file = repository / ".orchestration" / "hooks" / "a.toml"
    before = file.read_bytes()
    assert refusal(agent.write(file, "")) == "PROTECTED_PATH"
    for sneak in ("open(p, 'w').close()", "__import__('os').unlink(p)"):
        agent.shell(f"python3 -c \"p = '.orchestr' + 'ation/hooks/a.toml'; {sneak}\"")
        assert file.read_bytes() == before
    assert refusal(agent.write("src/x.py", "x\n")) == "HOOK_BLOCKED"


def test_where_the_folder_is_gone_its_copy_goes_on_to_hold(repository: Path, home: Path) -> None:
    agent = with_hooks(repository, home, hook(saying(effect="deny"), when='{tools = "Write"}'))
    agent.read("src/app.py")
    (repository / ".orchestration").rename(repository.parent / "elsewhere")
    assert refusal(agent.write("src/x.py", "x\n")) == "HOOK_BLOCKED"


def test_an_ask_that_nobody_hears_is_a_denial(repository: Path, home: Path) -> None:
    agent = with_hooks(repository, home, hook(saying(effect="ask", reason="really?")))
    answer = agent.ask("Write", file_path="src/x.py", content="x\n")
    assert answer["permissionDecision"] == "deny"
    assert "really?" in answer["permissionDecisionReason"]


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(output=st.binary(max_size=200))
def test_no_output_lets_a_refused_call_pass(repository: Path, home: Path, output: bytes) -> None:
    (repository / ".git" / "answer").write_bytes(output)
    agent = Agent(repository, home)
    if not (repository / ".orchestration").exists():
        agent = with_hooks(repository, home, hook("cat .git/answer"))
    assert not allowed(agent.ask("Write", file_path="docs/x.md", content="x\n"))
