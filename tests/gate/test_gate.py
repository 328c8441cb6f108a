"""Sessions at the gate: selecting, inheriting, staleness, and what is said."""

import json
import shutil
from pathlib import Path

import pytest

from conftest import run_git
from gate.driving import INTENTS, Agent, allowed, body, governed, lines, machine, records, refusal
from remit.core.intent import Intent
from remit.gate.gate import Gate
from remit.gate.governing.rules import load_rules
from remit.gate.intents.refusals import IntentError
from remit.servers.hook import HookFrame, answer
from remit.wiring.repository_setup import plan_start, start_governing
from remit.workspace.place.workspace import workspace_at


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    """An agent in a repository that enforces."""
    return Agent(governed(repository), home)


def test_nothing_is_said_or_recorded_where_nobody_asked_remit_to_govern(repository: Path, home: Path) -> None:
    agent = Agent(repository, home)
    before = agent.write("src/app.py", "x\n")
    assert (allowed(before), before["after"]) == (True, {})
    assert agent.send("SessionStart", source="startup").stdout == b""
    assert not (repository / ".git" / "remit").exists()
    assert not (home / ".local").exists()


def test_a_change_needs_an_intent_and_reading_needs_none(agent: Agent) -> None:
    assert refusal(agent.write("src/a.py", "x\n")) == "MISSING_OR_INVALID_INTENT"
    assert allowed(agent.read("src/app.py"))
    agent.select()
    assert allowed(agent.write("src/a.py", "x\n"))
    assert refusal(agent.write("docs/a.md", "x\n")) == "SCOPE_VIOLATION"


def test_another_intent_takes_a_clear_first(agent: Agent) -> None:
    agent.select("INT-001")
    assert refusal(agent.select("INT-002")) == "INTENT_ALREADY_ACTIVE"
    agent.ask("Bash", command="remit intent clear")
    assert allowed(agent.select("INT-002"))
    assert allowed(agent.write("docs/a.md", "x\n"))
    assert refusal(agent.write("src/a.py", "x\n")) == "SCOPE_VIOLATION"


def test_a_subagent_inherits_until_it_selects_or_clears(agent: Agent, home: Path) -> None:
    sub = Agent(agent.cwd, home, agent.session, "sub-1")
    assert refusal(sub.write("src/a.py", "x\n")) == "MISSING_OR_INVALID_INTENT"
    agent.select("INT-001")
    assert allowed(sub.write("src/a.py", "x\n"))
    assert body(records(agent.cwd, "mutation")[-1])["agent_id"] == "sub-1"
    sub.ask("Bash", command="remit intent clear")
    assert refusal(sub.write("src/a.py", "y\n")) == "MISSING_OR_INVALID_INTENT"
    sub.select("INT-002")
    assert allowed(sub.write("docs/b.md", "x\n"))
    assert refusal(agent.write("docs/c.md", "x\n")) == "SCOPE_VIOLATION", "the parent keeps its own"


def test_a_subagent_that_was_told_the_block_still_follows_its_parent(agent: Agent, home: Path) -> None:
    sub = Agent(agent.cwd, home, agent.session, "sub-1")
    agent.select("INT-001")
    assert b"INT-001" in sub.send("UserPromptSubmit", prompt="go on").stdout
    assert sub.send("UserPromptSubmit", prompt="go on").stdout == b"", "told once"
    agent.ask("Bash", command="remit intent clear")
    agent.select("INT-002")
    assert refusal(sub.write("src/a.py", "x\n")) == "SCOPE_VIOLATION"
    assert allowed(sub.write("docs/a.md", "x\n"))


def test_sessions_do_not_share_an_intent(agent: Agent, home: Path) -> None:
    agent.select()
    assert refusal(Agent(agent.cwd, home, "session-2").write("src/a.py", "x\n")) == "MISSING_OR_INVALID_INTENT"


def test_the_protocol_comes_at_the_start_and_the_block_when_it_changed(agent: Agent) -> None:
    assert b"remit_protocol" in agent.send("SessionStart", source="startup").stdout
    agent.select()
    assert agent.send("UserPromptSubmit", prompt="x").stdout == b""
    path = agent.cwd / ".orchestration" / "active_intents.yaml"
    path.write_text(INTENTS.replace("name: Names", "name: Other names"))
    assert b"Other names" in agent.send("UserPromptSubmit", prompt="x").stdout
    assert b"<intent_context" in agent.send("SessionStart", source="compact").stdout


@pytest.mark.parametrize(
    ("mode", "intents", "demanded"),
    [
        ("observe", "active_intents: []\n", False),
        ("observe", INTENTS, False),
        ("warn", "active_intents: []\n", False),
        ("warn", INTENTS, True),
        ("enforce", "active_intents: []\n", True),
        ("enforce", INTENTS, True),
    ],
)
def test_an_intent_is_demanded_only_where_one_is_needed(
    repository: Path, home: Path, mode: str, intents: str, demanded: bool
) -> None:
    agent = Agent(governed(repository, mode, intents), home)
    said = agent.send("SessionStart", source="startup").stdout
    assert (b"remit_protocol" in said) == demanded
    assert demanded or said == b""


def test_observe_is_silent_to_the_model(repository: Path, home: Path) -> None:
    """A day's usual calls; of commands that wait for a yes the person hears, at the turn's end."""
    agent = Agent(governed(repository, "observe"), home)
    (repository / ".orchestration" / "hooks").mkdir()
    (repository / ".orchestration" / "hooks" / "a.toml").write_text('[[hooks]]\non = "before"\ncommand = "true"\n')
    assert agent.send("SessionStart", source="startup").stdout == b""
    assert agent.send("UserPromptSubmit", prompt="go on").stdout == b""
    for made in (
        agent.read("src/app.py"),
        agent.write("src/app.py", "x = 1\n"),
        agent.write("docs/new.md", "x\n"),
        agent.shell("git status"),
        agent.shell("echo x > notes.txt"),
        agent.shell("python3 -c 'print(1)'"),
    ):
        assert (set(made), made["after"]) == ({"call_id", "after"}, {})
    assert b"`remit trust` shows them" in agent.send("Stop").stdout
    assert agent.send("Stop").stdout == b""


def test_an_intents_file_that_a_clone_brings_enforces_nothing(repository: Path, home: Path) -> None:
    (repository / ".orchestration").mkdir()
    (repository / ".orchestration" / "active_intents.yaml").write_text(INTENTS)
    assert load_rules(workspace_at(repository, repository)).mode == "observe"
    agent = Agent(repository, home)
    assert allowed(agent.write("docs/any.md", "x\n"))
    (repository / ".orchestration" / "remit.toml").write_text("[share]\nnotes = true\n")
    workspace = workspace_at(repository, repository)
    start_governing(workspace, plan_start(workspace, None, None))
    assert load_rules(workspace).mode == "observe"


def test_only_init_starts_governing(repository: Path, home: Path) -> None:
    gate = Gate.open(repository, machine(home))
    with pytest.raises(IntentError, match="start with `remit init`"):
        gate.intents.create(Intent(id="", owned_scope=("src/**",), name="x"), by="person")
    assert not (repository / ".orchestration").exists()
    assert not gate.is_governed


def test_each_change_of_the_intents_file_is_a_record(agent: Agent) -> None:
    agent.read("src/app.py")
    path = agent.cwd / ".orchestration" / "active_intents.yaml"
    path.write_text(INTENTS.replace("docs/**", "doc/**"))
    agent.read("src/app.py")
    path.write_text("\n".join(INTENTS.splitlines()[:8]) + "\n")
    agent.read("src/app.py")
    found = [(body(r)["intent_id"], body(r).get("removed", False)) for r in records(agent.cwd, "intent_changed")]
    assert found == [("INT-001", False), ("INT-002", False), ("INT-002", False), ("INT-002", True)]


def test_a_file_that_changed_since_it_was_read_is_stale_and_the_diff_is_told(agent: Agent) -> None:
    agent.select()
    path = agent.cwd / "src" / "app.py"
    agent.read(path)
    path.write_text("def main():\n    return 2\n")
    before = agent.write(path, "mine\n")
    assert refusal(before) == "STALE_FILE"
    assert "+    return 2" in before["permissionDecisionReason"]
    [denied] = records(agent.cwd, "denied")
    assert "diff" not in body(denied)["violation"]["context"], "records hold no contents"
    assert allowed(agent.write(path, "mine\n")), "the diff counts as a read"
    assert allowed(agent.write(path, "mine again\n")), "its own writes refresh"


def test_a_deleted_file_is_stale_too(agent: Agent) -> None:
    agent.select()
    path = agent.cwd / "src" / "app.py"
    agent.read(path)
    path.unlink()
    assert refusal(agent.write(path, "x\n")) == "STALE_FILE"


def test_a_read_that_failed_is_no_read(agent: Agent) -> None:
    agent.select()
    path = agent.cwd / "src" / "app.py"
    agent.read(path)
    path.write_text("changed\n")
    asked = agent.ask("Read", file_path=str(path))
    agent.send(
        "PostToolUseFailure",
        tool_name="Read",
        tool_input={"file_path": str(path)},
        tool_use_id=asked["call_id"],
        error="too large",
    )
    assert refusal(agent.write(path, "x\n")) == "STALE_FILE"


def test_an_edit_checks_itself(agent: Agent) -> None:
    agent.select()
    path = agent.cwd / "src" / "app.py"
    agent.read(path)
    path.write_text("changed\n")
    assert allowed(agent.ask("Edit", file_path=str(path), old_string="changed", new_string="x"))


@pytest.mark.parametrize("path", ["../outside.txt", "/etc/remit-test", "src/../../x", "src/link/x", "~/x"])
def test_a_path_that_leaves_the_workspace_is_refused(agent: Agent, path: str) -> None:
    (agent.cwd / "src" / "link").symlink_to(agent.cwd.parent)
    agent.select()
    assert refusal(agent.ask("Write", file_path=path, content="x")) == "OUTSIDE_WORKSPACE"


@pytest.mark.parametrize(
    "path",
    [
        ".git/config",
        ".orchestration/active_intents.yaml",
        "src/.orchestration/remit.toml",
        "src/.GIT/hooks/x",
        ".intentignore",
        ".claude/settings.json",
        "~/.claude/settings.json",
        "~/.local/state/remit/key",
        "src/link/config",
    ],
)
def test_what_governs_is_protected(agent: Agent, path: str) -> None:
    (agent.cwd / "src" / "link").symlink_to(agent.cwd / ".git")
    agent.select()
    assert refusal(agent.ask("Write", file_path=path, content="x")) == "PROTECTED_PATH"


@pytest.mark.parametrize("name", ["x" * 300, "x/" * 3000 + "y", "src/" + "y" * 255])
def test_a_name_that_no_file_system_takes_breaks_nothing(agent: Agent, name: str) -> None:
    agent.select()
    assert refusal(agent.ask("Write", file_path=name, content="x")) in ("INVALID_ARGUMENTS", "")


@pytest.mark.parametrize("path", ["", " src/x", "src/x ", "a\0b", 3, None, ["src/x"]])
def test_arguments_that_name_no_file_are_refused(agent: Agent, path: object) -> None:
    agent.select()
    assert refusal(agent.ask("Write", file_path=path, content="x")) == "INVALID_ARGUMENTS"


def test_a_fifo_named_dot_git_does_not_hang_the_hook(agent: Agent) -> None:
    import os

    agent.select()
    (agent.cwd / "src" / "trap").mkdir()
    os.mkfifo(agent.cwd / "src" / "trap" / ".git")
    assert allowed(agent.ask("Write", file_path="src/trap/x", content="x"))
    assert refusal(agent.ask("Write", file_path="docs/x", content="x")) == "SCOPE_VIOLATION"


def test_an_ignored_path_and_an_ignored_intent_are_barred(agent: Agent) -> None:
    (agent.cwd / ".intentignore").write_text("*.lock\n!keep.lock\nintent: INT-002\n")
    agent.select()
    assert refusal(agent.write("src/a.lock", "x")) == "INTENTIGNORE_PATH_BLOCKED"
    assert allowed(agent.write("src/keep.lock", "x"))
    other = Agent(agent.cwd, agent.home, "session-2")
    assert refusal(other.select("INT-002")) == "INTENT_IGNORED"


@pytest.mark.parametrize("mode", ["observe", "warn"])
def test_observe_and_warn_let_pass_and_warn_says_so(repository: Path, home: Path, mode: str) -> None:
    agent = Agent(governed(repository, mode), home)
    before = agent.write("docs/x.md", "x\n")
    assert allowed(before)
    assert ("additionalContext" in before) == (mode == "warn")
    [use] = [r for r in records(repository, "tool_use") if body(r)["call"]["name"] == "Write"]
    assert body(use)["decision"]["verdict"] == "deny"
    assert body(use)["decision"]["effect"] == "allow"
    mutation = body(records(repository, "mutation")[-1])
    assert (mutation["intent_id"], mutation["in_scope"], mutation["covered"]) == (None, False, True)


def test_a_secret_in_a_command_reaches_no_record(agent: Agent) -> None:
    secret = "sk-ant-" + "a1b2c3d4e5f6g7h8i9"
    agent.select()
    agent.ask("Bash", command=f"remit mode observe --key {secret}")
    agent.shell(f"echo {secret} > /dev/null")
    agent.ask("Bash", command="remit intent clear")
    assert secret.encode() not in b"".join(lines(agent.cwd))
    assert b"[redacted]" in b"".join(lines(agent.cwd))


def test_a_huge_command_is_judged_in_time(agent: Agent) -> None:
    agent.select()
    agent.ask("Bash", command="echo " + "a.eyJ-token" * 40_000)


def test_a_call_without_a_verdict_is_recorded_as_not_covered(agent: Agent) -> None:
    (agent.cwd / "src" / "app.py").write_text("behind its back\n")
    agent.tell("Write", "toolu_never_asked", file_path="src/app.py", content="x")
    found = body(records(agent.cwd, "mutation")[-1])
    assert (found["covered"], found["files"][0]["operation"]) == (False, "modify")


def test_two_calls_at_once_are_told_apart_by_their_ids(agent: Agent) -> None:
    agent.select()
    first = agent.ask("Write", file_path="src/1", content="x")
    second = agent.ask("Write", file_path="src/2", content="x")
    (agent.cwd / "src" / "2").write_text("2\n")
    agent.tell("Write", second["call_id"], file_path="src/2", content="x")
    (agent.cwd / "src" / "1").write_text("1\n")
    agent.tell("Write", first["call_id"], file_path="src/1", content="x")
    assert [body(r)["files"][0]["path"] for r in records(agent.cwd, "mutation")] == ["src/2", "src/1"]


def test_a_directory_named_by_a_write_breaks_nothing(agent: Agent) -> None:
    agent.select()
    assert refusal(agent.ask("Write", file_path=str(agent.cwd), content="x")) == "SCOPE_VIOLATION"
    before = agent.ask("Write", file_path="src", content="x")
    assert refusal(before) == "SCOPE_VIOLATION"
    told = agent.tell("Write", before["call_id"], file_path="src", content="x")
    assert "without a verdict" in told["additionalContext"]


def test_the_agents_own_plans_may_be_written_under_an_intent(agent: Agent) -> None:
    agent.select()
    assert allowed(agent.ask("Write", file_path="~/.claude/plans/p.md", content="x"))
    assert refusal(agent.ask("Write", file_path="~/.claude/other.md", content="x")) == "OUTSIDE_WORKSPACE"


def test_a_denial_is_recorded_with_what_it_said(agent: Agent) -> None:
    agent.write("docs/x.md", "x")
    [denied] = records(agent.cwd, "denied")
    assert body(denied)["violation"]["error_type"] == "MISSING_OR_INVALID_INTENT"
    assert body(denied)["call"]["paths"] == ["docs/x.md"]


def test_a_workspace_whose_own_name_is_not_utf8(tmp_path: Path, home: Path) -> None:
    import os

    root = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    root.mkdir()
    run_git(root, "init", "-q")
    agent = Agent(governed(root), home)
    agent.cwd = tmp_path
    assert json.loads(agent.payload("Stop"))["cwd"] == str(tmp_path)
    (tmp_path / "link").symlink_to(root)
    agent.cwd = tmp_path / "link"
    assert refusal(agent.write("src/x", "x")) == "MISSING_OR_INVALID_INTENT"
    agent.select()
    assert allowed(agent.write("src/x", "x"))
    assert refusal(agent.write("docs/x", "x")) == "SCOPE_VIOLATION"


@pytest.mark.parametrize("transcript", ["/", "/nonexistent", "a\0b", "x" * 5000, "", "/dev/zero", 7])
def test_a_transcript_that_cannot_be_read_loses_no_record(agent: Agent, transcript: object) -> None:
    agent.select()
    arguments = {"file_path": "src/x.py", "content": "x\n"}
    before = agent.ask("Write", **arguments)
    (agent.cwd / "src" / "x.py").write_text("x\n")
    reply = agent.send(
        "PostToolUse",
        tool_name="Write",
        tool_input=arguments,
        tool_use_id=before["call_id"],
        tool_response={},
        transcript_path=transcript,
    )
    assert (reply.exit_code, reply.stderr, reply.stdout) == (0, b"", b"")
    assert len(records(agent.cwd, "mutation")) == 1


def test_a_commit_under_converted_line_endings_loses_no_record(agent: Agent) -> None:
    run_git(agent.cwd, "config", "core.autocrlf", "true")
    (agent.cwd / "src" / "w.py").write_bytes(b"a\r\nb\r\n")
    agent.select()
    found = agent.shell("git add -A; git commit -qm crlf; echo x > src/z.py")
    assert found["after"] == {}
    assert [f["path"] for f in body(records(agent.cwd, "mutation")[-1])["files"]] == ["src/z.py"]


@pytest.mark.parametrize("cwd", ["a\0b", "/nonexistent/deep", "relative", "x" * 5000])
def test_a_cwd_that_is_none_is_no_way_round(agent: Agent, cwd: str) -> None:
    target = str(agent.cwd / "docs" / "x")
    payload = agent.payload("PreToolUse", tool_name="Write", tool_input={"file_path": target, "content": ""}, cwd=cwd)
    reply = answer(payload, HookFrame("claude-code", str(agent.cwd), "pre"), agent.environment)
    assert reply.exit_code == 2 or b'"deny"' in reply.stdout


def test_deleting_remits_state_ends_nothing_and_is_recorded(agent: Agent) -> None:
    agent.select("INT-001")
    shutil.rmtree(agent.cwd / ".git" / "remit")
    assert refusal(agent.write("src/x.py", "x\n")) == "MISSING_OR_INVALID_INTENT"
    assert [body(r)["reason"] for r in records(agent.cwd, "recovery")] == ["state_removed"]


def test_another_clone_at_the_same_path_is_not_governed(agent: Agent) -> None:
    agent.select("INT-001")
    folder = agent.cwd
    folder.rename(folder.with_name("elsewhere"))
    folder.mkdir()
    run_git(folder, "init", "-q")
    assert allowed(agent.write("anything.md", "x\n"))
    assert not (folder / ".git" / "remit").exists()


@pytest.mark.parametrize(
    ("path", "command"),
    [
        ("active_intents.yaml", "d=$(echo .orchestration); sed -i 's#src/[*][*]#**#' $d/active_intents.yaml"),
        (
            "active_intents.yaml",
            "printf 'active_intents:\\n- {id: INT-009, owned_scope: [\"**\"]}\\n' > F; mv F $PWD/.orch*/act*",
        ),
        ("remit.toml", "d=$(echo .orchestration); echo 'mode = \"observe\"' > $d/remit.toml"),
    ],
)
def test_rules_that_a_call_changed_are_put_back_and_the_agent_is_told(agent: Agent, path: str, command: str) -> None:
    agent.select()
    before = (agent.cwd / ".orchestration" / path).read_bytes()
    told = agent.shell(command)["after"]
    assert "put back" in told["additionalContext"]
    assert (agent.cwd / ".orchestration" / path).read_bytes() == before
    assert refusal(agent.write("outside.md", "x\n")) == "SCOPE_VIOLATION"
    assert body(records(agent.cwd, "restore")[-1])["paths"] == [f".orchestration/{path}"]


def test_a_stash_that_turns_a_status_back_is_left_alone(agent: Agent) -> None:
    run_git(agent.cwd, "add", "-A")
    run_git(agent.cwd, "commit", "-qm", "rules")
    path = agent.cwd / ".orchestration" / "active_intents.yaml"
    path.write_text(
        INTENTS.replace(
            '    status: IN_PROGRESS\n    owned_scope: ["docs', '    status: DRAFT\n    owned_scope: ["docs'
        )
    )
    agent.select()
    agent.shell("git stash -q")
    assert path.read_text() == INTENTS
    agent.shell("git stash pop -q")
    assert "DRAFT" in path.read_text()
