"""The commands that an agent may run for itself: its hook acts, the command tells what stands there."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.running import data, run
from gate.driving import Agent, allowed, body, governed, records


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    return Agent(governed(repository), home)


def test_an_agents_lesson_is_written_by_its_hook_for_its_session(agent: Agent) -> None:
    assert allowed(agent.select())
    words = "remit lesson 'use tabs' --kind decision --problem 'make broke' --path src/a.py --path=src/b.py"
    assert allowed(agent.ask("Bash", command=words))
    [record] = [body(r) for r in records(agent.cwd, "lesson")]
    assert (record["session_id"], record["intent_id"]) == ("session-1", "INT-001")
    [found] = data(agent.cwd, "lesson")
    assert (found["kind"], found["problem"], found["paths"]) == ("decision", "make broke", ["src/a.py", "src/b.py"])
    assert "written down in AGENT.md" in run(agent.cwd, "lesson", "use tabs", CLAUDECODE="1").stdout
    assert len(data(agent.cwd, "lesson")) == 1


def test_a_lesson_that_no_hook_saw_is_not_said_to_be_written(agent: Agent) -> None:
    done = run(agent.cwd, "lesson", "use tabs", CLAUDECODE="1")
    assert done.returncode == 3
    assert "no hook" in done.stderr
    assert data(agent.cwd, "lesson") == []


@pytest.mark.parametrize(
    "words", ["remit lesson", "remit lesson a b", "remit lesson a --kind rule", "remit lesson -x a"]
)
def test_words_that_are_no_lesson_write_nothing(agent: Agent, words: str) -> None:
    agent.ask("Bash", command=words)
    assert records(agent.cwd, "lesson") == []


def test_an_empty_lesson_is_refused_to_the_agent(agent: Agent) -> None:
    answer = agent.ask("Bash", command="remit lesson ''")
    assert "empty" in answer["permissionDecisionReason"]


def test_a_persons_lesson_needs_no_session(agent: Agent) -> None:
    assert data(agent.cwd, "lesson", "never push", "--kind", "constraint")["lesson"] == "never push"
    [record] = [body(r) for r in records(agent.cwd, "lesson")]
    assert (record["session_id"], record["by"]) == (None, "person")


def test_todo_lists_are_the_sessions(agent: Agent) -> None:
    assert allowed(agent.ask("Bash", command="remit todo '[x] read' '[~] write' ship"))
    wanted = "## claude-code, no intent\n- [x] read\n- [~] write\n- [ ] ship"
    assert data(agent.cwd, "todo", CLAUDECODE="1") == [{"session_id": "session-1", "list": wanted}]
    agent.ask("Read", file_path="src/app.py")
    found = data(agent.cwd, "todo", "only this", "--session", "session-1")
    assert [one["list"].splitlines()[1:] for one in found] == [["- [ ] only this"]]


@pytest.mark.parametrize("command", ["remit why src/app.py:1", "remit lesson", "remit todo", "remit blame src/app.py"])
def test_reading_needs_no_intent(agent: Agent, command: str) -> None:
    assert allowed(agent.ask("Bash", command=command))


def test_why_takes_lines_ranges_and_odd_names(agent: Agent) -> None:
    agent.select()
    agent.write("src/a:1.py", "one\ntwo\n")
    [first] = data(agent.cwd, "why", "src/a:1.py:2")["passages"]
    assert (first["start"], first["end"], first["origin"]) == (2, 2, "ai")
    assert len(data(agent.cwd, "why", "src/a:1.py:1-2")["causes"]) == 1
    assert "INT-001 Names" in run(agent.cwd / "src", "why", "a:1.py").stdout
    for spot in ("src/none.py", "src/app.py:9", "src/app.py:0", "../x"):
        assert run(agent.cwd, "why", spot).returncode == 2
        assert "hint: name" in run(agent.cwd, "why", "src/none.py").stderr
    assert run(agent.cwd, "why", "src/app.py:3-1").returncode == 2


def test_blame_passes_gits_flags_on(agent: Agent) -> None:
    agent.select()
    agent.write("src/app.py", "def main():\n    return 2\n")
    words = ["blame", "-w", "-M", "-C", "-C", "-L", "1,1", "-L", "2,2"]
    assert [line["origin"] for line in data(agent.cwd, *words, "src/app.py")["lines"]] == ["unknown", "ai"]
    assert [line["origin"] for line in data(agent.cwd, *words, "HEAD", "src/app.py")["lines"]] == ["unknown"] * 2
    assert run(agent.cwd, "blame", "--", "--output=x", "src/app.py").returncode == 2
    assert run(agent.cwd, "blame", "a", "b", "c").returncode == 2


def test_people_get_the_rules_answer_in_words(agent: Agent) -> None:
    text = run(agent.cwd, "policy", "test", "--write", "docs/x.md", "--intent", "INT-001").stdout
    assert text.startswith(
        "✗ deny  write docs/x.md\n  outcome  literal writes\n  writes   docs/x.md\n  because  SCOPE_"
    )
    text = run(agent.cwd, "policy", "test", "--command", "cat src/a.py").stdout
    assert text.splitlines()[0] == "✓ allow  cat src/a.py"


def test_a_folder_that_is_everything_is_not_listed_by_the_workspaces_names(agent: Agent) -> None:
    (agent.cwd / "only-here.txt").write_text("x")
    found = data(agent.cwd, "policy", "test", "--command", "rm -rf /")
    assert (found["verdict"], found["outcome"]) == ("deny", "dangerous")
    assert "/only-here.txt" not in (found["writes"] or ())


def test_the_rules_answer_without_doing_anything(agent: Agent) -> None:
    agent.select()
    before = len(records(agent.cwd))
    asked = [{"id": 1, "write": "src/a.py"}, {"id": "b", "write": "docs/a.md"}, {"command": "ls"}]
    typed = "\n".join(map(json.dumps, asked))
    answers = [
        json.loads(line) for line in run(agent.cwd, "policy", "test", "--jsonl", typed=typed).stdout.splitlines()
    ]
    assert [(a["id"], a["effect"], a["outcome"]) for a in answers] == [
        (1, "deny", "literal_writes"),
        ("b", "deny", "literal_writes"),
        (None, "allow", "read_only"),
    ]
    mine = data(agent.cwd, "policy", "test", "--write", "src/a.py", "--session", "session-1")
    assert (mine["effect"], mine["writes"], mine["reasons"]) == ("allow", ["src/a.py"], [])
    other = data(agent.cwd, "policy", "test", "--write", "src/a.py", "--intent", "INT-002")
    assert "SCOPE_VIOLATION" in other["reasons"][0]
    assert data(agent.cwd, "policy", "test", "--command", "make", "--intent", "INT-001")["writes"] is None
    for words in ([], ["--write", "a", "--command", "b"], ["--write", "a", "--intent", "INT-404"]):
        assert run(agent.cwd, "policy", "test", *words).returncode == 2
    assert "line 1" in run(agent.cwd, "policy", "test", "--jsonl", typed="{}").stderr
    assert len(records(agent.cwd)) == before


def test_the_way_from_observing_to_enforcing(repository: Path, home: Path) -> None:
    agent = Agent(governed(repository, mode="observe", intents='version: "1.0"\nactive_intents: []\n'), home)
    agent.write("src/a.py", "x\n")
    agent.write("src/b.py", "x\n")
    found = data(repository, "mode", "suggest")
    assert (found["refused"], found["by_rule"], found["mode"]) == (2, {"active_intent": 2}, "observe")
    assert "--from-session session-1" in found["next"]
    made = data(repository, "intent", "new", "That work", "--from-session", "session-1", "--scope", "docs/**")
    assert (made["owned_scope"], made["status"]) == (["docs/**", "src/**"], "DRAFT")
    assert run(repository, "intent", "new", "Nothing", "--from-session", "unknown").returncode == 2
    assert run(repository, "intent", "new", "Nothing").returncode == 2
    assert data(repository, "stats")["by_event"]["mutation"] == 2


def test_a_finished_intent_is_forked_as_a_draft(agent: Agent) -> None:
    assert run(agent.cwd, "intent", "set-status", "INT-001", "DONE").returncode == 0
    made = data(agent.cwd, "intent", "fork", "INT-001", "--name", "Names again")
    assert (made["id"], made["status"], made["owned_scope"]) == ("INT-003", "DRAFT", ["src/**"])
    assert made["references"] == ["INT-001"]
    assert run(agent.cwd, "intent", "fork", "INT-001", CLAUDECODE="1").returncode == 3


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_the_commands(tmp_path: Path, shell: str) -> None:
    done = run(tmp_path, "completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    assert "_REMIT_COMPLETE" in done.stdout


def test_records_show_the_class_of_a_change_and_are_found_by_a_hash(agent: Agent) -> None:
    agent.select()
    agent.write("src/a.py", "def f():\n    return 1\n")
    agent.write("src/a.py", "def f():\n    # why\n    return 1\n")
    agent.write("src/a.py", "def f():\n    return 2\n")
    found = data(agent.cwd, "log", "--event", "mutation", "--reverse")
    assert [body(r)["mutation_class"]["computed"] for r in found] == [
        "INTENT_EVOLUTION",
        "AST_REFACTOR",
        "INTENT_EVOLUTION",
    ]
    assert body(data(agent.cwd, "show", found[1]["id"]))["mutation_class"]["computed"] == "AST_REFACTOR"
    assert "AST_REFACTOR" in run(agent.cwd, "show", found[1]["id"]).stdout
    [range_] = found[0]["files"][0]["conversations"][0]["ranges"]
    both = [found[0]["id"], found[1]["id"]]  # the lines are the whole file, which the second found there
    assert [r["id"] for r in data(agent.cwd, "log", "--hash", range_["content_hash"], "--reverse")] == both
    left = body(found[2])["files"][0]["after"]["sha256"]
    assert [r["id"] for r in data(agent.cwd, "log", "--hash", left)] == [found[2]["id"]]
    assert data(agent.cwd, "log", "--hash", "sha256:" + "0" * 64) == []


def test_without_a_terminal_a_person_is_told_what_was_seen(agent: Agent) -> None:
    """A command of an agent is under way, and where this shell comes from cannot be seen."""
    agent.select()
    assert allowed(agent.ask("Bash", command="python3 src/app.py"))
    done = run(agent.cwd, "mode", "observe")
    assert done.returncode == 3
    assert "this shell has none, and a command of claude-code is under way" in done.stderr
    assert "started by a coding agent" not in done.stderr
    assert body(records(agent.cwd, "denied")[-1])["violation"]["error_type"] == "COMMAND_BLOCKED"


SCRIPT = """
mkfifo $ready $orphaned
began=$(cut -d ' ' -f 22 /proc/$$/stat)
until [ "$(sh -c 'cut -d " " -f 22 /proc/$$/stat')" -gt "$began" ]; do :; done
bash -c 'exec -a claude sh -c "echo > $ready; read -r _ < $ready"' & claude=$!
read -r _ < $ready
{run} {python} -m remit mode observe
code=$?
kill $claude
wait $claude
{then}
exit $code
"""
ORPHAN = 'setsid -f sh -c \'read -r _ < $orphaned; exec "$0" "$@"\''
"""Run a command once its parent has ended."""


@pytest.mark.parametrize(("run", "then", "code"), [("", "", 0), ("setsid -w", "", 3), (ORPHAN, "echo > $orphaned", 0)])
def test_a_shell_that_was_there_before_the_agent_is_a_persons(
    agent: Agent, tmp_path: Path, run: str, then: str, code: int
) -> None:
    """What a command leaves behind has a session of its own, or nobody above it: that is refused."""
    agent.select()
    assert allowed(agent.ask("Bash", command="python3 src/app.py"))
    text = SCRIPT.format(run=run, python=sys.executable, then=then)
    pipes = {name: str(tmp_path / name) for name in ("ready", "orphaned")}
    done = subprocess.run(  # until the last process has closed its streams
        ["sh", "-c", text],
        cwd=agent.cwd,
        env={**os.environ, **pipes},
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
    )
    assert done.returncode == code, done
    assert ('mode = "observe"' in (agent.cwd / ".orchestration/remit.toml").read_text()) == (run == "")


def test_what_an_agent_asks_for_prints_where_the_answer_stands(agent: Agent) -> None:
    for words in (("propose", "Names", "--scope", "src/**"), ("widen", "docs/x.md")):
        done = run(agent.cwd, "intent", *words, "--why", "it is needed", CLAUDECODE="1")
        assert done.returncode == 0
        assert "The person's answer stands beside this result." in done.stdout
