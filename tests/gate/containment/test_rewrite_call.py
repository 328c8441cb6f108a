"""An agent's own shell call, run contained: the hook gives it the launcher's words, and the test runs those."""

import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gate.driving import Agent, allowed, body, governed, overlay, records, refusal, run_shell
from gate.hooks.trusted_hooks import trust_all
from remit.core.call import SessionKey, ToolCall
from remit.gate.containment.rewrite_call import SHELL, unwrap_call
from remit.gate.gate import Gate
from remit.workspace.sandbox.staging import SCRATCH_FOLDER


@pytest.fixture(autouse=True)
def sandbox(home: Path) -> None:
    overlay(home)


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    governed(repository)
    (home / "tmp").mkdir(exist_ok=True)
    found = Agent(repository, home)
    found.select()
    return found


def run(agent: Agent, command: str, **more: Any) -> tuple[dict[str, Any], subprocess.CompletedProcess[str]]:
    """Run a shell call as the agent would: with the arguments that it got, then the hook after it."""
    before = agent.ask("Bash", command=command, **more)
    assert allowed(before), before
    given = before.get("updatedInput", {"command": command, **more})
    done = run_shell(given["command"], agent.cwd)
    after = agent.tell("Bash", before["call_id"], {"stdout": done.stdout}, **given)
    return {**before, "after": after}, done


def launched(agent: Agent, words: str) -> subprocess.CompletedProcess[str]:
    return run_shell(words, agent.cwd)


def python(text: str) -> str:
    return f"python3 -c {shlex.quote(text)}"


def bodies(root: Path, event: str) -> list[dict[str, Any]]:
    return [body(r) for r in records(root, event)]


def test_all_other_arguments_of_a_contained_call_stay_as_they_were(agent: Agent) -> None:
    more: dict[str, Any] = {"timeout": 5000, "description": "x", "run_in_background": False}
    answer = agent.ask("Bash", command=python("0"), **more)
    assert answer.get("permissionDecision") is None
    changed = answer["updatedInput"]
    assert {k: v for k, v in changed.items() if k != "command"} == more
    assert changed["command"].endswith(f" -c {shlex.quote(python('0'))}")


@pytest.mark.parametrize("command", ["ls", "cat README.md", "echo x > src/a", "remit status"])
def test_what_the_text_tells_is_not_touched(agent: Agent, command: str) -> None:
    assert "updatedInput" not in agent.ask("Bash", command=command)


SEED = "a1 = b(1, 2)\nother = a1\n# the end\n"
REWRITES = {
    "a pattern": "sed -i 's/a[0-9]*/c/' src/f.py",
    "groups": r"sed -i 's/\([a-z]\)(/\1\1(/' src/f.py",
    "the match": "sed -i 's/other/&_one/' src/f.py",
    "two scripts": "sed -i -e 's/a1/c/' -e 's/b(/d(/' src/f.py",
    "a range": "sed -i '/b(/,/other/ s/1/7/' src/f.py",
    "perl": "perl -pi -e 's/(\\w+)\\(/$1_new(/' src/f.py",
    "a loop": "for f in src/f.py; do sed -i 's/a[0-9]/c/' $f; done",
    "a second file": "sed 's/a[0-9]/c/' src/f.py > src/f2 && mv src/f2 src/f.py",
    "find": "find src -name '*.py' -exec sed -i 's/a[0-9]/c/' {} +",
    "awk": "awk '{print NR \": \" $0}' src/f.py > src/f2 && mv src/f2 src/f.py",
}


@pytest.mark.parametrize("command", REWRITES.values(), ids=REWRITES)
def test_what_a_filter_puts_into_a_file_is_the_calls_own(agent: Agent, command: str) -> None:
    file = agent.cwd / "src/f.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text(SEED)
    answer, done = run(agent, command)
    assert "updatedInput" in answer
    assert (done.returncode, done.stderr) == (0, "")
    assert file.read_text() != SEED
    [mutation] = bodies(agent.cwd, "mutation")
    assert [(f["path"], f.get("unproved")) for f in mutation["files"]] == [("src/f.py", None)]


def test_a_filter_whose_files_are_told_runs_as_written_where_the_agents_own_rules_are_to_decide(agent: Agent) -> None:
    agent.permission_mode = "acceptEdits"
    answer = agent.ask("Bash", command="sed -i 's/a[0-9]*/c/' src/f.py")
    assert (allowed(answer), "updatedInput" in answer) == (True, False)


def test_in_scope_is_kept_out_of_scope_dropped_told_and_recorded_once(agent: Agent) -> None:
    text = "open('src/new.py','w').write('a = 1\\n'); open('README.md','w').write('gone'); print('out'); exit(3)"
    _, done = run(agent, python(text))
    assert (done.returncode, done.stdout) == (3, "out\n")
    assert "SCOPE_VIOLATION" in done.stderr
    assert "README.md" in done.stderr
    assert (agent.cwd / "README.md").read_text() == "# Example\n"
    assert (agent.cwd / "src/new.py").read_text() == "a = 1\n"
    [mutation] = bodies(agent.cwd, "mutation")
    assert [f["path"] for f in mutation["files"]] == ["src/new.py"]
    assert (mutation["covered"], mutation["in_scope"], mutation["intent_id"]) == (True, True, "INT-001")
    [denied] = [d for d in bodies(agent.cwd, "denied") if d["violation"]["error_type"] == "SCOPE_VIOLATION"]
    uses = [u for u in bodies(agent.cwd, "tool_use") if u["decision"]["effect"] == "contain"]
    results = [r for r in bodies(agent.cwd, "tool_result") if r["call"].get("id") == uses[0]["call"]["id"]]
    assert len(uses) == len(results) == 1
    assert {r["call"]["id"] for r in (mutation, denied, *uses, *results)} == {uses[0]["call"]["id"]}
    assert results[0]["call"]["command"] == uses[0]["call"]["command"] == python(text)
    assert (uses[0]["decision"]["rules"], mutation["decision"]["verdict"]) == (["contain"], "contain")
    assert not Gate.open(agent.cwd).state.list_open_calls(), _["after"]


def test_the_session_that_another_started_works_under_its_own_intent(repository: Path, home: Path) -> None:
    governed(repository)
    for name, intent, place in (("", "INT-001", "src"), ("sub", "INT-002", "docs")):
        agent = Agent(repository, home, agent_id=name)
        agent.select(intent)
        run(agent, python(f"import os; os.makedirs('{place}', exist_ok=True); open('{place}/by','w').write('x')"))
        assert (repository / place / "by").exists()
    assert [(m.get("agent_id", ""), m["intent_id"]) for m in bodies(repository, "mutation")] == [
        ("", "INT-001"),
        ("sub", "INT-002"),
    ]


def test_leave_is_given_once_and_for_that_command(agent: Agent) -> None:
    changed = agent.ask("Bash", command=python("0"))["updatedInput"]["command"]
    forged = changed.replace(shlex.quote(python("0")), shlex.quote(python("1")))
    codes = [
        subprocess.run(["bash", "-c", c], cwd=agent.cwd, capture_output=True).returncode for c in (forged, changed)
    ]
    assert codes == [3, 0]
    again = subprocess.run(["bash", "-c", changed], cwd=agent.cwd, capture_output=True, text=True)
    assert again.returncode == 3
    assert "waits to run contained" in again.stderr


def test_a_launcher_in_an_agents_own_command_gets_no_further(agent: Agent) -> None:
    inner = agent.ask("Bash", command=python("open('src/a','w')"))["updatedInput"]["command"]
    _, done = run(agent, inner)
    assert done.returncode != 0
    assert not (agent.cwd / "src/a").exists()


def test_a_background_call_may_come_back_before_it_runs(agent: Agent) -> None:
    before = agent.ask("Bash", command=python("open('src/late','w').write('l')"), run_in_background=True)
    given = before["updatedInput"]
    agent.tell("Bash", before["call_id"], {"backgroundTaskId": "b1"}, **given)
    assert subprocess.run(["bash", "-c", given["command"]], cwd=agent.cwd).returncode == 0
    [mutation] = bodies(agent.cwd, "mutation")
    assert (mutation["covered"], mutation["call"]["id"]) == (True, before["call_id"])


def test_it_is_judged_by_the_intent_that_it_began_under(agent: Agent) -> None:
    given = agent.ask("Bash", command=python("open('src/a','w').write('l')"))["updatedInput"]
    agent.ask("Bash", command="remit intent clear")
    agent.select("INT-002")
    subprocess.run(["bash", "-c", given["command"]], cwd=agent.cwd, check=True)
    assert [m["intent_id"] for m in bodies(agent.cwd, "mutation")] == ["INT-001"]


@pytest.mark.parametrize("mode", ["observe", "warn"])
def test_where_nothing_is_enforced_nothing_is_rewritten(repository: Path, home: Path, mode: str) -> None:
    agent = Agent(governed(repository, mode), home)
    agent.select()
    assert "updatedInput" not in agent.ask("Bash", command=python("0"))


def test_it_can_be_switched_off(agent: Agent) -> None:
    (agent.cwd / ".orchestration/remit.toml").write_text('mode = "enforce"\n[containment]\nrewrite = "off"\n')
    assert "updatedInput" not in agent.ask("Bash", command=python("0"))


def test_what_a_person_lets_tools_make_anew_is_kept_under_any_intent(agent: Agent) -> None:
    (agent.cwd / ".orchestration/remit.toml").write_text(
        'mode = "enforce"\n[containment]\ngenerated = ["node_modules/**"]\n'
    )
    trust_all(agent.cwd, agent.home)
    text = "import os; os.makedirs('node_modules/a'); open('node_modules/a/b','w'); open('x.md','w')"
    _, done = run(agent, python(text))
    assert (agent.cwd / "node_modules/a/b").exists()
    assert not (agent.cwd / "x.md").exists()
    assert "node_modules" not in done.stderr
    assert bodies(agent.cwd, "mutation") == []


def test_caches_beside_the_sources_are_dropped_without_a_word(agent: Agent) -> None:
    (agent.cwd / "tool.py").write_text("X = 1\n")
    _, done = run(agent, 'PYTHONDONTWRITEBYTECODE= python3 -c \'import tool; open("src/a", "w")\'')
    assert (done.returncode, done.stderr) == (0, "")
    assert not (agent.cwd / "__pycache__").exists()
    assert bodies(agent.cwd, "denied") == []


@pytest.mark.parametrize("first", ["cd src && ", "  cd 'src' &&\n", "cd ./src/. && "])
def test_the_folder_that_a_command_enters_first_is_the_shells_afterwards(agent: Agent, first: str) -> None:
    (agent.cwd / "src").mkdir(exist_ok=True)
    command = first + python("open('here','w')")
    before = agent.ask("Bash", command=command)
    given = before["updatedInput"]["command"]
    assert launched(agent, f"{given}\npwd").stdout == f"{agent.cwd}/src\n"
    agent.tell("Bash", before["call_id"], {}, command=given)
    assert (agent.cwd / "src/here").exists()
    assert bodies(agent.cwd, "tool_result")[-1]["call"]["command"] == command


@pytest.mark.parametrize("first", ["cd nowhere && ", "cd $HOME && ", "cd - && ", "cd src; ", "cd src || "])
def test_any_other_change_of_folder_is_the_commands_own(agent: Agent, first: str) -> None:
    (agent.cwd / "src").mkdir(exist_ok=True)
    assert not agent.ask("Bash", command=first + python("0"))["updatedInput"]["command"].lstrip().startswith("cd")


def test_home_cannot_be_written_and_its_caches_are_as_they_were_afterwards(agent: Agent, home: Path) -> None:
    (home / ".npm").mkdir()
    text = "import os; open(os.path.expanduser('~/.npm/x'),'w'); open(os.path.expanduser('~/.bashrc'),'w')"
    _, done = run(agent, python(text))
    assert "Read-only file system" in done.stderr
    assert ".bashrc" in done.stderr
    assert not list((home / ".npm").iterdir())


def test_a_command_too_long_to_be_contained_is_refused(agent: Agent) -> None:
    answer = agent.ask("Bash", command=python("0 " + "#" * 130_000))
    assert refusal(answer) == "COMMAND_BLOCKED"


def test_before_it_changes_what_is_there_the_state_is_kept(agent: Agent) -> None:
    (agent.cwd / "src").mkdir(exist_ok=True)
    (agent.cwd / "src/old").write_text("precious\n")
    run(agent, python("import os; os.remove('src/old')"))
    assert [s["precedes"] for s in bodies(agent.cwd, "snapshot")][-1] == "call"
    run(agent, python("open('src/fresh','w')"))
    assert len(bodies(agent.cwd, "snapshot")) == 1, "making a file anew destroys nothing"


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1))
@pytest.mark.system
def test_any_command_comes_back_out_of_the_launchers_words(command: str) -> None:
    call = ToolCall("claude-code", SessionKey("s"), "Bash", "execute", "/", command="")
    start = "'/x y/hook'"
    line = f"{start} exec --session s --call {'0' * 16} -- {SHELL} -c {shlex.quote(command)}"
    assert unwrap_call(replace(call, command=line, arguments={"command": line}), start).command == command


def test_an_agent_that_runs_its_own_command_all_the_same_is_noticed(agent: Agent) -> None:
    command = python("open('README.md', 'w').write('bare')")
    before = agent.ask("Bash", command=command)
    launched(agent, command)
    told = agent.tell("Bash", before["call_id"], {}, command=command)
    assert "was to run contained, and did not" in told["additionalContext"]
    edit = bodies(agent.cwd, "human_edit")[-1]
    assert ([f["path"] for f in edit["files"]], edit["origin"]) == (["README.md"], "unknown")


def test_without_overlays_what_lies_beyond_the_scope_is_read_only_and_recorded_once(agent: Agent, home: Path) -> None:
    (agent.cwd / "src").mkdir(exist_ok=True)
    kept = home / SCRATCH_FOLDER / "containment.json"
    kept.write_text(kept.read_text().replace('"overlay"', '"bind"'))
    _, done = run(agent, python("open('src/a','w').write('a'); open('README.md','w')"))
    assert "Read-only file system" in done.stderr
    assert (agent.cwd / "README.md").read_text() == "# Example\n"
    [mutation] = bodies(agent.cwd, "mutation")
    assert ([f["path"] for f in mutation["files"]], mutation["covered"]) == (["src/a"], True)
    assert len([r for r in bodies(agent.cwd, "tool_result") if r["call"]["id"] == mutation["call"]["id"]]) == 1
    assert not Gate.open(agent.cwd).state.list_open_calls()


def test_what_was_dropped_is_named_and_not_held_against_the_session(agent: Agent) -> None:
    command = "for name in top other; do python3 -c \"open('$name.txt','w')\"; done"
    for _ in range(4):
        run(agent, command)
    denied = bodies(agent.cwd, "denied")[-1]["violation"]
    assert (denied["context"]["dropped"], denied["context"]["dropped_count"]) == (["other.txt", "top.txt"], 2)
    assert allowed(agent.ask("Bash", command=python("print(open('top.txt'))")))


def test_a_folder_of_the_scope_may_be_emptied(agent: Agent) -> None:
    (agent.cwd / "src").mkdir(exist_ok=True)
    (agent.cwd / "src/a").write_text("a")
    _, done = run(agent, python("import shutil; shutil.rmtree('src')"))
    assert done.stderr == ""
    assert not (agent.cwd / "src/a").exists()
