"""What no hook told is found at the end of a turn, and recorded once."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from conftest import run_git
from gate.driving import Agent, body, governed, records
from remit.cli.blame.blame import blame
from remit.gate.gate import Gate
from stepped_clock import SteppedClock


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    """An agent under INT-001, whose session has begun."""
    found = Agent(governed(repository), home)
    found.send("SessionStart", source="startup")
    found.select()
    return found


def results(root: Path) -> list[dict[str, Any]]:
    """What the results say, oldest first."""
    return [body(r)["result"] for r in records(root, "tool_result")]


def edits(root: Path) -> list[dict[str, str]]:
    """The unexplained changes, oldest first: path -> operation."""
    return [{f["path"]: f["operation"] for f in body(r)["files"]} for r in records(root, "human_edit")]


def test_a_call_that_never_came_back_gets_a_result_and_its_effects(agent: Agent) -> None:
    agent.ask("Write", file_path="src/new.py", content="x = 1\n")
    (agent.cwd / "src" / "new.py").write_text("x = 1\n")
    reply = agent.send("Stop")
    assert b"1 file changed for INT-001" in reply.stdout
    assert (reply.stderr, reply.exit_code) == (b"", 0)
    assert results(agent.cwd)[-1] == {"ok": None, "missing": True}
    mutation = body(records(agent.cwd, "mutation")[-1])
    assert (mutation["intent_id"], mutation["files"][0]["path"]) == ("INT-001", "src/new.py")
    assert mutation["covered"] is True
    assert edits(agent.cwd) == []


def test_a_call_that_was_never_run_leaves_only_its_result(agent: Agent) -> None:
    agent.ask("Bash", command="make")
    agent.send("Stop")
    assert results(agent.cwd)[-1] == {"ok": None, "missing": True}
    assert records(agent.cwd, "mutation") == []


def test_what_another_record_explains_is_not_a_lost_calls_effect(agent: Agent) -> None:
    agent.ask("Bash", command="make")
    agent.write("src/new.py", "x = 1\n")
    agent.send("Stop")
    assert len(records(agent.cwd, "mutation")) == 1


def test_a_second_end_of_turn_records_nothing_more(agent: Agent) -> None:
    agent.ask("Write", file_path="src/new.py", content="x = 1\n")
    (agent.cwd / "src" / "new.py").write_text("x = 1\n")
    agent.send("Stop")
    known = len(records(agent.cwd))
    agent.send("Stop")
    assert len(records(agent.cwd)) == known


def test_a_change_that_no_process_of_an_agent_can_have_made_is_a_persons(agent: Agent) -> None:
    agent.write("src/new.py", "x = 1\n")
    (agent.cwd / "README.md").write_text("# Mine\n")
    agent.send("Stop")
    assert body(records(agent.cwd, "human_edit")[-1])["origin"] == "person"


def test_a_change_that_no_call_made_is_recorded_as_of_unknown_origin(agent: Agent) -> None:
    agent.write("src/new.py", "x = 1\n")
    agent.shell("python3 -c 'pass'")
    (agent.cwd / "README.md").write_text("# Mine\n")
    agent.send("Stop")
    found = body(records(agent.cwd, "human_edit")[-1])
    assert edits(agent.cwd) == [{"README.md": "modify"}]
    assert (found["origin"], found["covered"], found["session_id"]) == ("unknown", False, None)
    assert found["files"][0]["before"]["sha256"] != found["files"][0]["after"]["sha256"]


def test_what_a_person_does_after_an_agents_write_is_told_apart(agent: Agent) -> None:
    agent.write("src/new.py", "x = 1\n")
    (agent.cwd / "src" / "new.py").write_text("x = 2\n")
    agent.send("Stop")
    assert edits(agent.cwd) == [{"src/new.py": "modify"}]


def test_what_happened_between_two_sessions_is_found_when_one_starts(agent: Agent) -> None:
    agent.send("SessionEnd", reason="exit")
    (agent.cwd / "notes.txt").write_text("mine\n")
    Agent(agent.cwd, agent.home, "session-2").send("SessionStart", source="startup")
    assert edits(agent.cwd) == [{"notes.txt": "create"}]


def test_a_commit_of_recorded_work_is_no_edit(agent: Agent) -> None:
    agent.write("src/new.py", "x = 1\n")
    run_git(agent.cwd, "add", "src/new.py")
    run_git(agent.cwd, "commit", "-q", "-m", "work")
    agent.send("Stop")
    assert edits(agent.cwd) == []


def test_a_persons_commit_is_an_edit(agent: Agent) -> None:
    agent.send("Stop")
    (agent.cwd / "README.md").write_text("# Mine\n")
    run_git(agent.cwd, "commit", "-q", "-am", "mine")
    agent.send("Stop")
    assert edits(agent.cwd) == [{"README.md": "modify"}]


def test_while_another_sessions_call_is_under_way_nobodys_changes_are_judged(agent: Agent) -> None:
    other = Agent(agent.cwd, agent.home, "session-2")
    other.select()
    begun = other.ask("Bash", command="make")
    (agent.cwd / "README.md").write_text("# Made\n")
    agent.send("Stop")
    assert edits(agent.cwd) == []
    other.tell("Bash", begun["call_id"], {"stdout": ""}, command="make")
    agent.send("Stop")
    assert edits(agent.cwd) == []
    assert len(records(agent.cwd, "mutation")) == 1


def test_a_sub_agents_call_outlives_its_parents_turn_and_not_its_session(agent: Agent) -> None:
    Agent(agent.cwd, agent.home, agent_id="sub").ask("Bash", command="make")
    agent.send("Stop")
    assert results(agent.cwd) == []
    agent.send("SessionEnd", reason="exit")
    assert results(agent.cwd) == [{"ok": None, "missing": True}]


def test_a_call_that_was_left_half_an_hour_ago_is_settled_by_whoever_comes(agent: Agent) -> None:
    agent.ask("Bash", command="make")
    other = Agent(agent.cwd, agent.home, "session-2")
    later = SteppedClock(other.environment.clock.now() + 31 * 60)
    other.environment = msgspec.structs.replace(other.environment, clock=later)
    other.send("Stop")
    assert results(agent.cwd) == [{"ok": None, "missing": True}]


def test_the_end_of_a_turn_takes_contents_into_git(agent: Agent) -> None:
    agent.write("src/new.py", "x = 1\n")
    agent.send("Stop")
    assert Gate.open(agent.cwd, agent.environment).contents.pending.list_entries() == []


def test_without_git_the_whole_folder_is_compared(tmp_path: Path, home: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    agent = Agent(governed(folder), home)
    agent.send("SessionStart", source="startup")
    (folder / "notes.txt").write_text("mine\n")
    agent.send("Stop")
    assert edits(folder) == [{"notes.txt": "create"}]


def test_blame_does_not_give_an_unexplained_line_to_an_agent(agent: Agent) -> None:
    agent.write("src/new.py", "theirs = 1\n")
    (agent.cwd / "src" / "new.py").write_text("theirs = 1\nmine = 2\n")
    agent.send("Stop")
    said = CliRunner().invoke(blame, ["--repo", str(agent.cwd), "--json", "src/new.py"]).output
    lines = {line["content"]: line["origin"] for line in json.loads(said)["data"]["lines"]}
    assert lines["theirs = 1"] == "ai"
    assert lines["mine = 2"] != "ai"


# --- what a call that never came back had no right to ------------------------------------------------------

EVIL = "a line that no person here would ever write"
CODE = f"open('README.md', 'w').write('{EVIL}')"


def bare(agent: Agent, mode: str = "enforce") -> Agent:
    """Its commands run as they are."""
    config = agent.cwd / ".orchestration" / "remit.toml"
    config.write_text(f'mode = "{mode}"\n[containment]\nrewrite = "off"\n')
    return agent


def dies(agent: Agent, command: str) -> None:
    """The agent is gone in the middle of a command: what that did is there, and nobody says so."""
    assert "permissionDecision" not in agent.ask("Bash", command=command)
    subprocess.run(["sh", "-c", command], cwd=agent.cwd, check=True)


def test_what_a_lost_call_says_word_by_word_is_undone_and_told(agent: Agent) -> None:
    dies(bare(agent), f'python3 -c "{CODE}"')
    agent.send("Stop")
    assert (agent.cwd / "README.md").read_text() == "# Example\n"
    assert body(records(agent.cwd, "restore")[-1])["rules"] == {"README.md": "SCOPE_VIOLATION"}
    assert [f["path"] for f in body(records(agent.cwd, "mutation")[-1])["files"]] == ["README.md"]
    agent.send("Stop")
    assert "README.md" not in str(edits(agent.cwd))
    assert "README.md was undone" in agent.ask("Bash", command="true").get("additionalContext", "")


def test_what_a_person_wrote_since_a_call_was_lost_stays(agent: Agent) -> None:
    """The command names the file, and replaced all of it; and then a person opened it."""
    dies(bare(agent), f'python3 -c "{CODE}"')
    (agent.cwd / "README.md").write_text(f"{EVIL}\nand what a person added\n")
    agent.send("Stop")
    assert "person" in (agent.cwd / "README.md").read_text()
    assert records(agent.cwd, "restore") == []


def test_what_a_lost_calls_text_does_not_say_stays(agent: Agent) -> None:
    (agent.cwd / ".git" / "run.sh").write_text(f"echo {EVIL} > README.md")
    dies(bare(agent), "sh .git/run.sh")
    agent.send("Stop")
    assert (agent.cwd / "README.md").read_text() == f"{EVIL}\n"
    assert records(agent.cwd, "restore") == []
    assert body(records(agent.cwd, "mutation")[-1])["in_scope"] is False


def test_outside_of_enforce_a_lost_calls_effects_stay(agent: Agent) -> None:
    dies(bare(agent, "warn"), f'python3 -c "{CODE}"')
    agent.send("Stop")
    assert (agent.cwd / "README.md").read_text() == EVIL


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_what_a_lost_calls_process_still_writes_is_undone(agent: Agent) -> None:
    words = [sys.executable, ".git/hold.py"]
    (agent.cwd / ".git" / "hold.py").write_text(
        "f = open('README.md', 'w'); f.write('x\\n'); f.flush(); print(flush=True); input()"
    )
    assert "permissionDecision" not in bare(agent).ask("Bash", command=shlex.join(words))
    variables = {**os.environ, "CLAUDE_CODE_SESSION_ID": agent.session}
    pipe = subprocess.PIPE
    with subprocess.Popen(words, cwd=agent.cwd, env=variables, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"\n"
        agent.send("Stop")
        process.kill()
    assert (agent.cwd / "README.md").read_text() == "# Example\n"
