"""Lines left by a command that ran alone are likely its agent's; a sign of another writer leaves them unknown."""

import json
import os
from pathlib import Path

import pytest

from cli.running import data, remit
from conftest import run_git
from gate.driving import Agent, body, governed, records, uncontained
from provenance.test_blame import blame, commit
from provenance.test_notes import by_notes, write_notes
from remit.core.formats.authorship_notes import parse_note
from remit.workspace.place.workspace import find_git_root, workspace_at
from remit.workspace.sharing.shared_refs import NotesRef

LONG_AGO = 1_600_000_000  # before any call

GENERATE = "python3 tool.py src/made.py"
TOOL = "import sys\nname = 'generated' + '_value'\nopen(sys.argv[1], 'w').write(f'{name} = 41\\n{name}_two = 42\\n')\n"
LAYOUT = "import sys\np = sys.argv[1]\nt = open(p).read().replace('( a,b )', '(a, b)')\nopen(p, 'w').write(t)\n"


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    """Return an agent in observe mode, with two programs of the project and a person's file."""
    found = Agent(governed(repository, "observe"), home)
    (repository / "tool.py").write_text(TOOL)
    (repository / "layout.py").write_text(LAYOUT)
    (repository / "src").mkdir(exist_ok=True)
    (repository / "src/person.py").write_text("def first_of_a_person( a,b ):\n    return a\n")
    commit(repository)
    found.select()
    return found


def origins_and_grades(root: Path, path: str) -> list[tuple[str, str | None]]:
    """Return origin and grade of each line."""
    return [(line.origin, line.grade) for line in blame(root, path)]


LIKELY = [("ai", "likely")] * 2
UNKNOWN = [("unknown", None)] * 2


def test_lines_of_a_loop_and_a_generator_are_likely_before_and_after_the_commit(agent: Agent) -> None:
    agent.shell('for i in 1 2; do echo "line number $i of the loop" >> src/loop.txt; done')
    agent.shell(GENERATE)
    assert (origins_and_grades(agent.cwd, "src/loop.txt"), origins_and_grades(agent.cwd, "src/made.py")) == (
        LIKELY,
        LIKELY,
    )
    commit(agent.cwd)
    assert (origins_and_grades(agent.cwd, "src/loop.txt"), origins_and_grades(agent.cwd, "src/made.py")) == (
        LIKELY,
        LIKELY,
    )


def test_lines_that_a_command_generates_and_commits_are_likely(agent: Agent) -> None:
    agent.shell(f"{GENERATE} && git add -A && git commit -qm generated")
    assert origins_and_grades(agent.cwd, "src/made.py") == LIKELY


def test_a_formatter_carries_the_agents_lines_and_claims_none_of_a_persons(agent: Agent) -> None:
    agent.write("src/own.py", "def second_of_an_agent( a,b ):\n    return b\n")
    agent.shell("for f in src/*.py; do python3 layout.py $f; done")
    assert origins_and_grades(agent.cwd, "src/own.py") == [("ai", "normalised"), ("ai", "exact")]
    assert [origin for origin, _ in origins_and_grades(agent.cwd, "src/person.py")] == ["unknown", "unknown"]


def test_a_call_of_another_session_that_may_have_written_it_leaves_it_unknown(agent: Agent, home: Path) -> None:
    other = Agent(agent.cwd, home, session="session-2")
    open_call = other.ask("Bash", command="make something")
    agent.shell(GENERATE)
    other.tell("Bash", open_call["call_id"], command="make something")
    assert origins_and_grades(agent.cwd, "src/made.py") == UNKNOWN


def test_a_call_of_a_sub_agent_at_the_same_time_leaves_it_unknown(agent: Agent, home: Path) -> None:
    other = Agent(agent.cwd, home, agent_id="sub-1")
    open_call = other.ask("Bash", command="make something")
    agent.shell(GENERATE)
    other.tell("Bash", open_call["call_id"], command="make something")
    assert origins_and_grades(agent.cwd, "src/made.py") == UNKNOWN


def test_a_file_that_an_editor_has_open_is_unknown(agent: Agent) -> None:
    (agent.cwd / "src/.made.py.swp").write_text("")
    agent.shell(GENERATE)
    assert origins_and_grades(agent.cwd, "src/made.py") == UNKNOWN


def test_a_file_with_an_older_time_was_brought(agent: Agent) -> None:
    (agent.cwd.parent / "elsewhere.py").write_text("kept_somewhere_else = 1\nby_somebody_else = 2\n")
    os.utime(agent.cwd.parent / "elsewhere.py", (LONG_AGO, LONG_AGO))
    (agent.cwd / "bring.py").write_text("import shutil; shutil.copy2('../elsewhere.py', 'src/made.py')\n")
    agent.shell("python3 bring.py")
    assert origins_and_grades(agent.cwd, "src/made.py") == UNKNOWN


@pytest.mark.parametrize(
    "bring",
    [
        "git merge -q side",
        "git cherry-pick side",
        "git checkout side -- src/made.py",
        "git merge -q --squash side",
        "git show side:src/made.py | sed 's/nothing/else/' > src/made.py",
        "git stash pop",
    ],
)
def test_lines_brought_by_git_within_a_script_have_no_author(agent: Agent, bring: str) -> None:
    made = agent.cwd / "src/made.py"
    when = f"{LONG_AGO} +0000"
    os.environ["GIT_COMMITTER_DATE"] = when
    try:
        run_git(agent.cwd, "checkout", "-q", "-b", "side")
        made.write_text("a_teammate_wrote = 1\nand_this_as_well = 2\n")
        commit(agent.cwd)
        run_git(agent.cwd, "checkout", "-q", "-")
        if "stash" in bring:
            made.write_text("a_teammate_wrote = 3\nand_this_as_well = 4\n")
            run_git(agent.cwd, "stash", "-q", "-u")
    finally:
        del os.environ["GIT_COMMITTER_DATE"]
    (agent.cwd / "bring.sh").write_text(f"{bring}\n")
    agent.shell("sh bring.sh")
    assert made.exists()
    assert [origin for origin, _ in origins_and_grades(agent.cwd, "src/made.py")] == ["unknown", "unknown"]


def test_the_record_says_likely_only_beside_lines_that_nothing_proves(agent: Agent) -> None:
    agent.shell(GENERATE)
    agent.write("src/sure.py", "written = 'by a file tool'\n")
    files = {file["path"]: file for record in records(agent.cwd, "mutation") for file in body(record)["files"]}
    assert files["src/made.py"]["likely"] is True
    assert "likely" not in files["src/sure.py"]


def test_likely_lines_can_be_left_out(agent: Agent) -> None:
    agent.shell(GENERATE)
    agent.write("src/made.py", (agent.cwd / "src/made.py").read_text() + "surely_the_agents = 43\n")
    commit(agent.cwd)
    for words in (("--grade", "exact,carried"), ("--min-grade", "carried"), ("--grade=exact",)):
        found = data(agent.cwd, "blame", *words, "src/made.py")["lines"]
        assert [line["origin"] for line in found] == ["unknown", "unknown", "ai"], words
    assert [line["grade"] for line in data(agent.cwd, "blame", "src/made.py")["lines"]][:2] == ["likely", "likely"]
    assert data(agent.cwd, "why", "--grade", "exact", "src/made.py:1")["passages"][0]["origin"] == "unknown"
    assert data(agent.cwd, "why", "src/made.py:1")["passages"][0]["grade"] == "likely"
    found = data(agent.cwd, "stats")
    assert (found["ai"], found["likely"]) == (3, 2)
    assert {file["path"]: file["likely"] for file in found["files"]} == {"src/made.py": 2}
    lines = data(agent.cwd, "verify", "HEAD")["evidence"]["lines"]
    assert (lines["records"] >= 3, lines["likely"]) == (True, 2)
    assert data(agent.cwd, "verify", "--grade", "exact", "HEAD")["evidence"]["lines"]["likely"] == 0
    remit(agent.cwd, "blame", "--grade", "sure", "src/made.py", code=2)


def test_a_note_does_not_attest_likely_lines_and_a_clone_knows_them_as_likely(agent: Agent, tmp_path: Path) -> None:
    agent.shell(GENERATE)
    commit(agent.cwd)
    write_notes(agent.cwd)
    head = run_git(agent.cwd, "rev-parse", "HEAD").strip()
    note = parse_note(NotesRef(workspace_at(agent.cwd, find_git_root(agent.cwd))).read_notes([head])[head].decode())
    assert "src/made.py" not in [file.path for file in note.files]
    [session] = note.metadata["sessions"].values()
    [said] = [value for name, value in session["custom_attributes"].items() if name.startswith("remit.likely.t_")]
    assert json.loads(said) == {"src/made.py": "1-2"}
    found = by_notes(agent.cwd, "src/made.py", tmp_path / "none")
    assert [(line.origin, line.grade, line.session_id) for line in found] == [("ai", "likely", "session-1")] * 2
    assert not [f for f in data(agent.cwd, "verify", "HEAD")["findings"] if f["rule"] == "RMT017"]


def test_lines_that_a_contained_command_took_from_an_older_commit_are_not_exact(repository: Path, home: Path) -> None:
    agent = uncontained(repository, home)
    (repository / "src").mkdir(exist_ok=True)
    (repository / "src/kept.py").write_text("a_person_wrote_this_line = 1\n")
    os.environ["GIT_COMMITTER_DATE"] = f"{LONG_AGO} +0000"
    try:
        commit(repository)
        (repository / "src/kept.py").unlink()
        commit(repository)
    finally:
        del os.environ["GIT_COMMITTER_DATE"]
    agent.shell(
        "git show HEAD~1:src/kept.py | python3 -c 'import sys; print(sys.stdin.read() + \"x = 1\")' > src/kept.py"
    )
    assert "ai" not in {line.origin for line in blame(repository, "src/kept.py") if "person" in line.content}
