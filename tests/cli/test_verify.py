"""`remit verify`: what agents changed is held against the rules as they were then."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from cli.running import data, remit
from cli.test_ledger import log_folder, segment
from conftest import run_git
from gate.driving import INTENTS, Agent, governed, machine
from remit.core.decision import Grant
from remit.gate.gate import Gate
from remit.gate.governing.rules import VERSIONS_FOLDER, copies_folder
from remit.gate.governing.settings import set_mode


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    found = Agent(governed(repository), home)
    found.select()
    found.write("src/new.py", "one = 1\n")
    return found


def commit(root: Path) -> None:
    run_git(root, "add", "-A")
    run_git(root, "commit", "-qm", "work")


def findings(root: Path, *words: str, code: int = 0) -> list[dict[str, Any]]:
    return data(root, "verify", *words, code=code)["findings"]


def observe(agent: Agent) -> None:
    set_mode(Gate.open(agent.cwd).workspace, "observe")


def test_what_was_within_the_rules_has_no_findings(agent: Agent) -> None:
    found = data(agent.cwd, "verify")
    assert (found["findings"], found["changes"], found["contents"], found["lost"], found["unkept"]) == ([], 1, 1, 0, 0)


def test_a_change_outside_the_scope_and_one_without_an_intent_are_named(agent: Agent, home: Path) -> None:
    observe(agent)
    agent.write("docs/x.md", "outside\n")
    Agent(agent.cwd, home, session="session-2").write("src/b.py", "nobody asked\n")
    found = {f["rule"]: f for f in findings(agent.cwd, code=1)}
    assert (found["RMT001"]["path"], found["RMT001"]["severity"]) == ("docs/x.md", "error")
    assert (found["RMT002"]["path"], found["RMT002"]["severity"]) == ("src/b.py", "warning")
    rows = remit(agent.cwd, "verify", "--fail-on", "never").splitlines()
    assert rows[0].startswith("docs/x.md: RMT001 written by claude-code outside INT-001 (src/**) (record ")
    assert rows[1].startswith("src/b.py: RMT002 [warning] written by claude-code under no intent (record ")


def test_what_was_undone_is_a_note_and_fails_no_build(agent: Agent) -> None:
    config = agent.cwd / ".orchestration" / "remit.toml"
    config.write_text(config.read_text() + '[containment]\nrewrite = "off"\n')
    script = agent.cwd / "src" / "run.sh"
    script.write_text("echo stray > stray.md\n")
    agent.shell("sh src/run.sh")
    assert not (agent.cwd / "stray.md").exists()
    (found,) = [f for f in findings(agent.cwd) if f["rule"] == "RMT001"]
    assert (found["path"], found["severity"], "and undone" in found["message"]) == ("stray.md", "note", True)


def test_a_name_that_is_not_utf_8_is_held_against_the_scope_as_it_is(agent: Agent) -> None:
    agent.shell("printf 'one\\n' > \"$(printf 'src/\\351q.txt')\"")
    assert b"\xe9q.txt" in [os.fsencode(path.name) for path in (agent.cwd / "src").iterdir()]
    assert "RMT001" not in [f["rule"] for f in findings(agent.cwd, "--fail-on", "never")]


def test_the_scope_is_the_one_that_was_in_force(agent: Agent) -> None:
    intents = agent.cwd / ".orchestration" / "active_intents.yaml"
    intents.write_text(INTENTS.replace('["src/**"]', '["src/**", "lib/**"]'))
    agent.write("lib/x.py", "allowed = then\n")
    intents.write_text(INTENTS)
    agent.shell("true")
    assert findings(agent.cwd) == []


def test_a_kept_intents_file_that_was_changed_is_not_believed_and_named(agent: Agent) -> None:
    folder = copies_folder(Gate.open(agent.cwd).workspace) / VERSIONS_FOLDER
    for path in folder.iterdir():
        path.write_text(INTENTS.replace("src/**", "nothing/**"))
    found = data(agent.cwd, "verify", code=5)
    assert ([one["rule"] for one in found["findings"]], found["unkept"]) == (["RMT016"], 1)


def test_a_range_has_the_lines_that_its_commits_added(agent: Agent) -> None:
    commit(agent.cwd)
    observe(agent)
    agent.write("docs/x.md", "outside the scope, for sure\n")
    (agent.cwd / "docs" / "x.md").write_text("a person's line\noutside the scope, for sure\n")
    commit(agent.cwd)
    (found,) = findings(agent.cwd, "HEAD~1..HEAD", code=1)
    assert (found["rule"], found["path"], found["line"]) == ("RMT001", "docs/x.md", 2)
    assert findings(agent.cwd, "HEAD~1") == []
    assert findings(agent.cwd, "HEAD", "--fail-on", "never") == [found]


def test_a_range_has_what_its_commits_took_away(agent: Agent) -> None:
    (agent.cwd / "docs").mkdir()
    for name in ("less", "gone"):
        (agent.cwd / f"docs/{name}.md").write_text("first of the lines\nsecond of the lines\nthird of the lines\n")
    commit(agent.cwd)
    observe(agent)
    agent.read("docs/less.md")
    agent.write("docs/less.md", "first of the lines\nthird of the lines\n")
    commit(agent.cwd)
    agent.read("docs/gone.md")
    agent.write("docs/gone.md", "first of the lines\n")
    agent.shell("rm docs/gone.md")
    commit(agent.cwd)
    (agent.cwd / "docs/less.md").write_text("third of the lines\n")
    commit(agent.cwd)
    for wanted, path, count in (("HEAD~2", "docs/less.md", 1), ("HEAD~1", "docs/gone.md", 2)):
        found = findings(agent.cwd, wanted, code=1)
        assert [(one["rule"], one["path"]) for one in found] == [("RMT001", path)] * count
    assert findings(agent.cwd, "HEAD") == []


def test_a_range_has_who_only_carried_lines_to_a_place_out_of_scope(agent: Agent) -> None:
    (agent.cwd / "NOTES").write_text("first of the lines\nsecond of the lines\n")
    commit(agent.cwd)
    observe(agent)
    agent.write("src/app.py", "def greet(name):\n    return name\n")
    agent.shell("mkdir -p docs && cp src/app.py docs/app.py")
    agent.shell("cp NOTES docs/copy.md")
    agent.shell("git mv NOTES docs/moved.md")
    commit(agent.cwd)
    found = findings(agent.cwd, "HEAD", code=1)
    paths = {"NOTES", "docs/app.py", "docs/copy.md", "docs/moved.md"}
    assert {(one["rule"], one["path"]) for one in found} == {("RMT001", path) for path in paths}


def test_a_range_has_who_carried_lines_that_a_person_went_on_with(agent: Agent) -> None:
    observe(agent)
    agent.write("src/app.py", "def greeting_of(visitor):\n    return visitor\n")
    agent.shell("mkdir -p docs && cp src/app.py docs/app.py")
    agent.shell("cp src/app.py docs/other.py")
    (agent.cwd / "docs/app.py").write_text("def greeting_of(visitor):\n    return visitor.title()\n")
    (agent.cwd / "docs/other.py").write_text("nothing = 'of it'\n")
    commit(agent.cwd)
    assert [(one["rule"], one["path"]) for one in findings(agent.cwd, "HEAD", code=1)] == [("RMT001", "docs/app.py")]
    (agent.cwd / "docs/app.py").write_text("def greeting_of(visitor):\n    return visitor.upper()\n")
    commit(agent.cwd)
    assert findings(agent.cwd, "HEAD") == []


def test_a_range_that_git_does_not_know_is_an_error(agent: Agent) -> None:
    answer = json.loads(remit(agent.cwd, "verify", "--json", "nowhere..HEAD", code=2))
    assert "nowhere" in answer["error"]["message"]


def test_a_change_that_was_not_announced_and_a_class_that_is_not_so_are_told(repository: Path, home: Path) -> None:
    agent = Agent(governed(repository), home)
    gate = Gate.open(repository)
    gate.intents.select(gate_session(agent), "claude-code", "INT-001", expected=("src/planned.py",))
    agent.write("src/other.py", "x = 1\n")
    agent.write("src/planned.py", "x = 1\n")
    assert [(f["rule"], f["path"]) for f in findings(repository)] == [("RMT015", "src/other.py")]
    findings(repository, "--fail-on", "note", code=1)


def gate_session(agent: Agent) -> Any:
    from remit.core.call import SessionKey

    return SessionKey(agent.session)


def test_a_record_that_was_altered_ends_in_5_whatever_fails(agent: Agent) -> None:
    path = segment(agent.cwd)
    path.write_bytes(path.read_bytes().replace(b"src/new.py", b"src/nev.py"))
    assert {f["rule"] for f in findings(agent.cwd, "--fail-on", "never", code=5)} >= {"RMT007"}


def test_a_content_that_is_not_the_recorded_one_is_named(agent: Agent) -> None:
    whole = segment(agent.cwd).read_bytes()
    (line,) = [raw for raw in whole.split(b"\n") if b'"event":"mutation"' in raw]
    hashed = re.findall(rb'"sha256":"([0-9a-f]{64})"', line)[-1]
    for lost in (log_folder(agent.cwd) / "head", *(log_folder(agent.cwd) / "heads").glob("*")):
        lost.unlink(missing_ok=True)
    segment(agent.cwd).write_bytes(whole.replace(hashed, b"0" * 64))
    rules = {f["rule"] for f in findings(agent.cwd, code=5)}
    assert "RMT016" in rules


def test_what_a_person_let_through_is_noted_and_no_finding_against_the_agent(agent: Agent, home: Path) -> None:
    gate = Gate.open(agent.cwd, machine(home))
    gate.state.put_grant(Grant("g1", "SCOPE_VIOLATION", "session", pattern="docs/**", session_id=agent.session))
    agent.write("docs/x.md", "outside, and a person said yes\n")
    (found,) = findings(agent.cwd)
    assert (found["rule"], found["severity"]) == ("RMT012", "note")
    assert "g1" in found["message"]


def test_a_yes_to_a_command_is_none_to_all_that_it_writes(agent: Agent, home: Path) -> None:
    with (agent.cwd / ".orchestration/remit.toml").open("a") as file:
        file.write("\n[approvals]\nthreshold = 0\n")
    gate = Gate.open(agent.cwd, machine(home))
    gate.state.put_grant(Grant("g1", "USER_REJECTED", "session", command=("make", "x"), session_id=agent.session))
    call = agent.ask("Bash", command="make x")
    (agent.cwd / "docs").mkdir(exist_ok=True)
    (agent.cwd / "docs/x.md").write_text("written\n")
    agent.tell("Bash", call["call_id"], command="make x")
    found = {f["rule"]: f for f in findings(agent.cwd, code=1)}
    assert (found["RMT001"]["path"], "g1" in found["RMT012"]["message"]) == ("docs/x.md", True)


def test_a_constraint_that_does_not_hold_in_the_end_is_named(agent: Agent) -> None:
    intents = agent.cwd / ".orchestration" / "active_intents.yaml"
    rule = "{type: max_lines, paths: 'src/**', max: 1}, {type: require_test_change}"
    intents.write_text(
        INTENTS.replace("constraints: [none]", f"constraints: [{rule}]", 1).replace('src/**"]', '**"]', 1)
    )
    agent.write("src/x.py", "1\n")
    observe(agent)
    agent.shell("echo 2 >> src/x.py")
    assert [(f["rule"], f["path"]) for f in findings(agent.cwd, code=1)] == [
        ("RMT018", "src/new.py"),
        ("RMT018", "src/x.py"),
    ]
    agent.shell("echo 1 > src/x.py; mkdir -p tests; echo 1 > tests/test_x.py")
    assert findings(agent.cwd) == []
