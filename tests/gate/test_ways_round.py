"""Ways round the gate that somebody found, each of which is shut; and what the ledger says of the doubtful ones."""

import json
import os
import shutil
import threading
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from conftest import run_git
from gate.driving import CLASSES, INTENTS, Agent, allowed, body, governed, machine, records, refusal
from remit.adapters import HookReply
from remit.cli.blame.blame import blame
from remit.core.call import SessionKey
from remit.gate.gate import Gate
from remit.gate.governing.settings import set_mode
from remit.gate.machine import Environment
from remit.gate.people.questions import ApprovalReply, Question, QuestionStore
from remit.servers.hook import EventClass, HookFrame, answer
from remit.workspace.place.workspace import Workspace, locate_workspace
from waiting import wait_until

EVENTS: dict[str, EventClass] = {**CLASSES, "BeforeTool": "pre", "AfterTool": "post"}


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    """An agent in a repository that enforces."""
    return Agent(governed(repository), home)


@pytest.fixture
def theirs(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> str:
    """A branch with a person's commit of long ago, which adds a file and changes another."""
    run_git(agent.cwd, "checkout", "-q", "-b", "theirs")
    (agent.cwd / "docs").mkdir()
    (agent.cwd / "docs" / "guide.md").write_text("by a person\n")
    (agent.cwd / "README.md").write_text("# Example\n\nby a person\n")
    run_git(agent.cwd, "add", "docs", "README.md")
    with monkeypatch.context() as then:
        then.setenv("GIT_COMMITTER_DATE", "2026-01-02T03:04:05Z")
        run_git(agent.cwd, "commit", "-q", "-m", "theirs")
    run_git(agent.cwd, "checkout", "-q", "main")
    return "theirs"


def gate_of(agent: Agent) -> Gate:
    """The gate of the agent's workspace, as another process opens it."""
    return Gate.open(agent.cwd, machine(agent.home))


def stash_rules(root: Path) -> None:
    """Take the folder away that governs."""
    shutil.move(root / ".orchestration", root.parent / "stash")


def changed(root: Path, event: str = "mutation") -> list[list[str]]:
    """The paths that each record names, the oldest record first."""
    return [[f["path"] for f in body(r)["files"]] for r in records(root, event)]


def origins(root: Path, path: str) -> dict[str, str]:
    """Who wrote each line of a file, by its text."""
    said = CliRunner().invoke(blame, ["--repo", str(root), "--json", path]).output
    return {line["content"]: line["origin"] for line in json.loads(said)["data"]["lines"]}


def tell(agent: Agent, program: str, event: str, **fields: Any) -> HookReply:
    """What Remit answers to a hook of another program in the same folder."""
    document = {"session_id": f"{program}-1", "cwd": str(agent.cwd), "hook_event_name": event, **fields}
    return answer(json.dumps(document).encode(), HookFrame(program, str(agent.cwd), EVENTS[event]), agent.environment)


def codex(agent: Agent, event: str, call_id: str, command: str, tool: str = "apply_patch") -> HookReply:
    """A hook of Codex about one call."""
    fields: dict[str, Any] = {"tool_name": tool, "tool_use_id": call_id, "tool_input": {"command": command}}
    return tell(agent, "codex", event, **fields, **({"tool_response": "ok"} if event == "PostToolUse" else {}))


def gemini(agent: Agent, event: str, command: str) -> HookReply:
    """A hook of Gemini about a shell call; it gives calls no ids."""
    fields: dict[str, Any] = {"tool_name": "run_shell_command", "tool_input": {"command": command}}
    response = {"tool_response": {"llmContent": "ok"}} if event == "AfterTool" else {}
    return tell(agent, "gemini", event, timestamp="2026-11-21T20:32:14.716Z", **fields, **response)


def patch(*paths: str | Path) -> str:
    """A patch that writes a line into each of these files."""
    parts = "".join(f"*** Add File: {path}\n+new\n" for path in paths)
    return f"*** Begin Patch\n{parts}*** End Patch\n"


def awaited_question(approvals: QuestionStore) -> Question:
    """The first question that is put, to somebody who is there all the time."""
    found: list[Question] = []

    def has_question() -> bool:
        approvals.mark_watcher_present()
        found.extend(approvals.list_open_questions())
        return bool(found)

    wait_until(has_question, "no question was put")
    return found[0]


# -- taking away what governs -------------------------------------------------------------------------------


def test_an_empty_orchestration_folder_further_down_governs_nothing(agent: Agent) -> None:
    agent.select()
    agent.shell("mkdir -p docs/.orchestration")
    assert refusal(agent.write("docs/a.md", "x\n")) == "SCOPE_VIOLATION"


def test_an_empty_orchestration_folder_further_down_spares_nobody_an_intent(agent: Agent) -> None:
    (agent.cwd / "src" / ".orchestration").mkdir()
    assert refusal(agent.write("src/app.py", "x\n")) == "MISSING_OR_INVALID_INTENT"


def test_enforcement_that_was_switched_on_later_outlives_its_folder(repository: Path, home: Path) -> None:
    agent = Agent(governed(repository, mode="observe"), home)
    assert allowed(agent.write("src/q.py", "x\n"))
    workspace = locate_workspace(repository)
    assert workspace is not None
    set_mode(workspace, "enforce")
    stash_rules(repository)
    assert not allowed(agent.write("docs/a.md", "x\n"))


def test_removing_the_files_that_govern_opens_nothing(agent: Agent) -> None:
    agent.select()
    agent.shell("rm -f .orchestration/*.yaml .orchestration/remit.toml")
    assert not allowed(agent.write("docs/a.md", "x\n"))


def test_removing_the_intents_opens_nothing_where_no_mode_was_ever_written(agent: Agent) -> None:
    (agent.cwd / ".orchestration" / "remit.toml").unlink()
    assert not allowed(agent.write("docs/a.md", "x\n"))
    agent.select()
    agent.shell("rm .orchestration/active_intents.yaml")
    assert not allowed(agent.write("docs/a.md", "x\n"))


def test_a_repository_inside_stays_governed_when_the_folder_is_gone(agent: Agent) -> None:
    inner = agent.cwd / "vendor" / "lib"
    inner.mkdir(parents=True)
    run_git(inner, "init", "-q")
    assert not allowed(agent.write("vendor/lib/a.c", "x"))
    stash_rules(agent.cwd)
    assert not allowed(agent.write("README.md", "x"))
    assert not allowed(agent.write("vendor/lib/a.c", "x"))
    assert not allowed(Agent(inner, agent.home).write("a.c", "x")), "nor is standing in it a way round"


def test_widening_ones_own_scope_in_the_same_call_does_not_bring_it_into_scope(agent: Agent) -> None:
    agent.select()
    (agent.cwd / "src" / "widen.sh").write_text(
        "sed -i 's#src/[*][*]#**#' .orchestration/active_intents.yaml; echo x >> README.md\n"
    )
    told = agent.shell("sh src/widen.sh")["after"]
    mutation = body(records(agent.cwd, "mutation")[-1])
    files = {f["path"]: f["in_scope"] for f in mutation["files"]}
    assert files == {".orchestration/active_intents.yaml": False, "README.md": False}
    assert mutation["in_scope"] is False
    assert "README.md was undone" in told["additionalContext"]


def test_intents_that_change_while_a_hook_reads_them_are_each_recorded(agent: Agent) -> None:
    path = agent.cwd / ".orchestration" / "active_intents.yaml"
    gate = gate_of(agent)
    gate.notice_rules(gate.rules)
    path.write_text(INTENTS.replace("name: Names", "name: B"))
    rules = gate.rules
    path.write_text(INTENTS.replace("name: Names", "name: C"))
    gate.notice_rules(rules)
    gate.notice_rules(gate.rules)
    names = [body(r)["name"] for r in records(agent.cwd, "intent_changed")]
    assert names == ["Names", "Docs", "B", "C"]


# -- commands, payloads and targets -------------------------------------------------------------------------


def test_a_clear_that_was_refused_clears_nothing(agent: Agent) -> None:
    agent.select("INT-001")
    assert not allowed(agent.ask("Bash", command="./remit intent clear"))
    assert gate_of(agent).state.active_session(SessionKey(agent.session)).intent_id == "INT-001"


@pytest.mark.parametrize("command", ['echo "a\\"; Remove-Item x; echo \\"b"', "echo @(Remove-Item x)"])
def test_a_powershell_command_is_not_read_by_the_quoting_of_another_shell(agent: Agent, command: str) -> None:
    assert refusal(agent.ask("PowerShell", command=command)) == "MISSING_OR_INVALID_INTENT"


def test_a_hook_of_an_unknown_agent_is_refused(agent: Agent) -> None:
    assert answer(b"{}", HookFrame("nobody", str(agent.cwd), "pre"), agent.environment).exit_code == 2


class Broken(Exception):
    """A defect of ours."""


def broken_gate(_workspace: Workspace | None, _environment: Environment) -> AbstractContextManager[Gate]:
    """A gate that does not open."""
    raise Broken("it did not open")


def test_a_defect_refuses_a_write_into_an_enforcing_workspace_from_elsewhere(agent: Agent, tmp_path: Path) -> None:
    away = str(tmp_path)
    arguments = {"file_path": str(agent.cwd / "README.md"), "content": "x"}
    payload = agent.payload("PreToolUse", tool_name="Write", tool_use_id="1", tool_input=arguments, cwd=away)
    reply = answer(payload, HookFrame("claude-code", away, "pre"), agent.environment, broken_gate)
    assert (reply.exit_code, b"it did not open" in reply.stderr) == (2, True)


def test_a_patch_into_two_workspaces_is_judged_by_the_one_that_enforces(agent: Agent, tmp_path: Path) -> None:
    lenient = tmp_path / "lenient"
    lenient.mkdir()
    run_git(lenient, "init", "-q")
    governed(lenient, mode="observe")
    codex(agent, "PreToolUse", "1", "remit intent select INT-001", "Bash")
    both = patch(lenient / "x.txt", agent.cwd / ".orchestration" / "remit.toml")
    assert b'"deny"' in codex(agent, "PreToolUse", "2", both).stdout


def test_a_yes_covers_only_the_file_that_the_person_saw(agent: Agent) -> None:
    agent.select()
    (agent.cwd / "docs").mkdir()
    (agent.cwd / "docs" / "harmless.md").write_text("x")
    (agent.cwd / "docs" / "secret.md").write_text("x")
    link = agent.cwd / "src" / "link"
    link.symlink_to("../docs/harmless.md")
    approvals = gate_of(agent).questions
    approvals.mark_watcher_present()
    answers: list[dict[str, Any]] = []
    asking = threading.Thread(target=lambda: answers.append(agent.ask("Write", file_path="src/link", content="y")))
    asking.start()
    question = awaited_question(approvals)
    link.unlink()
    link.symlink_to("../docs/secret.md")
    approvals.answer_question(question.id, ApprovalReply(True))
    asking.join()
    assert question.path == "docs/harmless.md"
    assert [allowed(found) for found in answers] == [False]


# -- overwriting a person's work ----------------------------------------------------------------------------


def test_what_a_person_wrote_during_an_agents_command_is_not_the_agents_to_overwrite(agent: Agent) -> None:
    agent.select()
    agent.read("src/app.py")
    before = agent.ask("Bash", command="sleep 1; make")
    (agent.cwd / "src" / "app.py").write_text("# a person's work\n")
    agent.tell("Bash", before["call_id"], {"stdout": ""}, command="sleep 1; make")
    assert refusal(agent.write("src/app.py", "mine\n")) == "STALE_FILE"


def test_each_stale_file_of_a_patch_is_told_before_the_patch_may_pass(agent: Agent) -> None:
    files = [agent.cwd / "src" / "a.py", agent.cwd / "src" / "b.py"]
    both = patch("src/a.py", "src/b.py")
    codex(agent, "PreToolUse", "0", "remit intent select INT-001", "Bash")
    codex(agent, "PreToolUse", "1", both)
    for file in files:
        file.write_text("new\n")
    codex(agent, "PostToolUse", "1", both)
    for file in files:
        file.write_text(f"a person's {file.name}\n")
    first, second = (codex(agent, "PreToolUse", call_id, both).stdout for call_id in ("2", "3"))
    assert (b"STALE_FILE" in first, b"a person's a.py" in first) == (True, True)
    assert (b"STALE_FILE" in second, b"a person's b.py" in second) == (True, True)


def test_a_diff_that_was_cut_does_not_count_as_a_read(agent: Agent) -> None:
    agent.select()
    agent.read("src/app.py")
    (agent.cwd / "src" / "app.py").write_text("".join(f"line {n} of a person's long work\n" for n in range(2000)))
    before = agent.write("src/app.py", "mine\n")
    assert refusal(before) == "STALE_FILE"
    assert "cut: read the file" in before["permissionDecisionReason"]
    assert refusal(agent.write("src/app.py", "mine\n")) == "STALE_FILE"


# -- calls that do not come back as they went ---------------------------------------------------------------


def test_what_a_person_did_after_rejecting_a_call_is_not_the_calls_when_it_is_made_again(agent: Agent) -> None:
    gemini(agent, "BeforeTool", "remit intent select INT-001")
    assert gemini(agent, "BeforeTool", "make build").stdout == b""
    (agent.cwd / "src" / "person.py").write_text("# by a person\n")
    assert gemini(agent, "BeforeTool", "make build").stdout == b""
    gemini(agent, "AfterTool", "make build")
    assert changed(agent.cwd) == []


def test_what_git_could_not_tell_after_a_call_is_recorded_at_the_end_of_the_turn(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.select()
    before = agent.ask("Bash", command="make x")
    (agent.cwd / "README.md").write_text("changed\n")
    path = os.environ["PATH"]
    monkeypatch.setenv("PATH", "/nonexistent")
    told = agent.tell("Bash", before["call_id"], {"stdout": ""}, command="make x")
    monkeypatch.setenv("PATH", path)
    assert "git is not on PATH" in told["additionalContext"]
    assert changed(agent.cwd) == []
    agent.send("Stop")
    assert changed(agent.cwd) == [["README.md"]]
    assert body(records(agent.cwd, "mutation")[-1])["in_scope"] is False


def test_a_call_that_never_asked_is_told_and_belongs_to_no_intent(agent: Agent) -> None:
    agent.select()
    (agent.cwd / "README.md").write_text("changed\n")
    told = agent.tell("Write", "never-asked", file_path="README.md", content="changed\n")
    mutation = body(records(agent.cwd, "mutation")[-1])
    assert (mutation["intent_id"], mutation["covered"], mutation["in_scope"]) == (None, False, False)
    assert "without a verdict" in told["additionalContext"]


def test_calls_that_never_come_back_are_forgotten_when_their_session_ends(agent: Agent) -> None:
    agent.select()
    for number in range(5):
        agent.ask("Bash", command=f"make {number}")
    state = gate_of(agent).state
    assert len(state.list_open_calls()) == 5
    agent.send("SessionEnd", reason="exit")
    assert state.list_open_calls() == []


# -- what git brings, and what the agent commits ------------------------------------------------------------


def test_what_a_merge_brings_is_not_the_work_of_the_agent_that_ran_it(agent: Agent, theirs: str) -> None:
    agent.select()
    told = agent.shell(f"git merge -q {theirs}")["after"]
    agent.send("Stop")
    assert told == {}
    assert changed(agent.cwd) == []
    assert changed(agent.cwd, "human_edit") == [["README.md", "docs/guide.md"]]
    assert body(records(agent.cwd, "human_edit")[0])["origin"] == "git"
    assert set(origins(agent.cwd, "docs/guide.md").values()) == {"unknown"}
    assert set(origins(agent.cwd, "README.md").values()) == {"unknown"}


@pytest.mark.parametrize("then", ["", " && sleep 1.1"])
def test_a_file_that_a_call_edits_and_commits_itself_stays_the_agents(agent: Agent, then: str) -> None:
    """The very first change, and recorded in the second after the commit: as with hooks of git's that take a while."""
    agent.select()
    agent.shell(f"echo '# mine' >> src/app.py && git commit -qam mine{then}")
    agent.send("Stop")
    assert changed(agent.cwd) == [["src/app.py"]]
    assert changed(agent.cwd, "human_edit") == []
    assert origins(agent.cwd, "src/app.py")["# mine"] == "ai"


def test_of_a_merge_and_an_edit_in_one_call_only_the_edit_is_the_agents(agent: Agent, theirs: str) -> None:
    agent.select()
    told = agent.shell(f"git merge -q {theirs} && echo mine >> README.md && git commit -qam mine")["after"]
    assert changed(agent.cwd) == [["README.md"]]
    assert changed(agent.cwd, "human_edit") == [["docs/guide.md"]]
    assert "README.md was undone" in told["additionalContext"]


def test_what_a_merge_commit_brings_is_not_the_work_of_the_agent_that_ran_it(agent: Agent, theirs: str) -> None:
    agent.select()
    agent.shell("echo 1 > src/ours.py && git add src && git commit -qm ours")
    told = agent.shell(f"git merge -q --no-edit {theirs}")["after"]
    agent.send("Stop")
    assert told == {}
    assert changed(agent.cwd) == [["src/ours.py"]]
    assert changed(agent.cwd, "human_edit") == [["README.md", "docs/guide.md"]]
    assert set(origins(agent.cwd, "docs/guide.md").values()) == {"unknown"}


def test_a_commit_that_the_call_dates_back_is_still_the_calls(agent: Agent) -> None:
    agent.select()
    told = agent.shell("echo mine >> README.md && GIT_COMMITTER_DATE=2001-01-01T00:00:00Z git commit -qam x")["after"]
    assert changed(agent.cwd) == [["README.md"]]
    assert body(records(agent.cwd, "mutation")[-1])["in_scope"] is False
    assert "README.md was undone" in told["additionalContext"]
    assert "the call's commits still hold it" in told["additionalContext"]


def test_what_a_merge_that_never_came_back_brought_is_not_the_agents(agent: Agent, theirs: str) -> None:
    agent.select()
    agent.ask("Bash", command=f"git merge -q {theirs}")
    run_git(agent.cwd, "merge", "-q", theirs)
    agent.send("Stop")
    assert changed(agent.cwd) == []
