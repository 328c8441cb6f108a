"""Copied lines keep their author, and a line of an older commit is not the later call's."""

from pathlib import Path

import pytest

from conftest import run_git
from gate.driving import Agent, governed
from provenance.test_blame import blame, commit
from provenance.test_moved_lines import BLOCK, HUMAN, ME
from remit.core.diff.contents import diff_small, split_lines
from remit.gate.gate import Gate
from remit.ledger.index.index import Index
from remit.provenance.blame.blame import Blamer
from remit.provenance.origins.second_search import find_unchanged_lines

OWN = """\
def audit_shelves(shelves):
    broken = [shelf for shelf in shelves if shelf.count < 0]
    return sorted(broken, key=shelf_number)
"""


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    found = Agent(governed(repository), home)
    found.select()
    (repository / "src" / "human.py").write_text(HUMAN)
    commit(repository)
    return found


def origins(root: Path, path: str) -> list[str]:
    return [line.origin for line in blame(root, path)]


def sessions(root: Path, path: str) -> list[str | None]:
    return [line.session_id for line in blame(root, path)]


CARRYING = {
    "mv of a file that no commit has": "mv src/own.py src/made.py",
    "cp of a file that no commit has": "cp src/own.py src/made.py",
    "cp of a committed file": "cp src/human.py src/made.py",
    "cp over another file": "cp src/own.py src/app.py && mv src/app.py src/made.py",
    "two files joined": "cat src/own.py src/human.py > src/made.py",
    "a part of one": "tail -n +2 src/human.py > src/made.py",
    "an older version": "git show HEAD:src/human.py > src/made.py",
}


@pytest.mark.parametrize("command", CARRYING.values(), ids=CARRYING)
def test_lines_that_a_command_copies_from_a_persons_file_are_not_the_agents(agent: Agent, command: str) -> None:
    (agent.cwd / "src/own.py").write_text(OWN)
    agent.shell(command)
    commit(agent.cwd)
    assert "ai" not in origins(agent.cwd, "src/made.py")


def test_a_command_that_copies_over_a_persons_file_wrote_nothing(agent: Agent) -> None:
    (agent.cwd / "src/own.py").write_text(OWN)
    commit(agent.cwd)
    agent.shell("cp src/own.py src/human.py")
    commit(agent.cwd)
    assert "ai" not in origins(agent.cwd, "src/human.py")


def test_lines_contained_in_the_command_are_the_agents(agent: Agent) -> None:
    agent.shell(f"cat src/human.py > src/made.py && cat >> src/made.py <<'END'\n{BLOCK}END")
    commit(agent.cwd)
    assert origins(agent.cwd, "src/made.py") == ["unknown"] * 4 + ["ai"] * 3


OUTSIDE = ["../../outside", "HEAD:../../outside", "HEAD@{9999}:x", "@{u}:x", ":../../x", "HEAD:.."]


@pytest.mark.parametrize("word", OUTSIDE)
def test_no_word_of_a_command_makes_git_fail(agent: Agent, word: str) -> None:
    agent.shell(f"cat > src/made.py <<'END'\n{BLOCK}place = '{word}'\nEND")
    assert origins(agent.cwd, "src/made.py") == ["ai"] * 4


def test_a_line_added_beside_an_equal_one_is_not_the_one_removed_later(agent: Agent, home: Path) -> None:
    line = "shelves_of_this_library = sorted(shelves, key=shelf_number)\n"
    agent.read("src/human.py")
    agent.write("src/human.py", line + HUMAN)
    commit(agent.cwd)
    other = Agent(agent.cwd, home, "session-2")
    other.select()
    other.shell('python3 -c \'f = "src/human.py"; s = open(f).readlines(); open(f, "a").write(s[0])\'')
    other.read("src/human.py")
    other.write("src/human.py", HUMAN + line)
    commit(agent.cwd)
    assert sessions(agent.cwd, "src/human.py")[-1] is None


def test_a_persons_line_equal_to_an_agents_line_that_stays_is_the_persons(agent: Agent) -> None:
    line = '    "markers": "python_version of this library",\n'
    agent.read("src/human.py")
    agent.write("src/human.py", HUMAN + line)
    commit(agent.cwd)
    agent.shell("true")
    (agent.cwd / "src/human.py").write_text(line + HUMAN + "\n\n" + line)
    commit(agent.cwd)
    agent.read("src/human.py")
    agent.write("src/human.py", line + HUMAN + "\n\n" + line + OWN)
    assert origins(agent.cwd, "src/human.py")[0] != "ai"


def test_contents_of_a_version_known_by_name_are_loaded(agent: Agent) -> None:
    gate = Gate.open(agent.cwd)
    with Index.open(gate.workspace.state / "index.db", gate.workspace.log_folder) as index:
        known = Blamer(gate.workspace, index, gate.contents).attributor
        known.resolve_names(["HEAD:src/human.py"])
        known.load_named(["HEAD:src/human.py"])
        assert len(known.lines_of_name("HEAD:src/human.py")) == len(HUMAN.splitlines())


def test_a_file_that_another_agent_moves_stays_the_writers(agent: Agent, home: Path) -> None:
    agent.write("src/new.py", BLOCK)
    other = Agent(agent.cwd, home, "session-2")
    other.select()
    other.shell("mv src/new.py src/made.py")
    other.read("src/made.py")
    other.write("src/made.py", BLOCK + "\n\nMOVED_HERE_BY_ANOTHER = True\n")
    commit(agent.cwd)
    assert sessions(agent.cwd, "src/made.py") == [ME] * 3 + ["session-2"] * 3


def test_a_committed_line_that_an_agent_removes_and_restores_is_not_the_agents(agent: Agent) -> None:
    (agent.cwd / "src/human.py").write_text(HUMAN + OWN)
    commit(agent.cwd)
    agent.read("src/human.py")
    agent.write("src/human.py", HUMAN)
    agent.write("src/human.py", HUMAN + OWN)
    assert "ai" not in origins(agent.cwd, "src/human.py")


def test_a_restored_line_is_not_the_agents_despite_false_commit_dates(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2037-01-01T00:00:00Z")
    test_a_committed_line_that_an_agent_removes_and_restores_is_not_the_agents(agent)


def test_lines_from_before_a_change_of_line_endings_are_not_the_agents(agent: Agent) -> None:
    run_git(agent.cwd, "config", "core.autocrlf", "input")
    agent.read("src/human.py")
    agent.write("src/human.py", (HUMAN + BLOCK).replace("\n", "\r\n"))
    commit(agent.cwd)
    assert origins(agent.cwd, "src/human.py") == ["unknown"] * 4 + ["ai"] * 3


def test_backdated_commits_hold_recorded_lines(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2019-01-01T00:00:00Z")
    agent.read("src/human.py")
    agent.write("src/human.py", HUMAN + BLOCK)
    (agent.cwd / "src/human.py").write_text("# typed at the top\n" + HUMAN + BLOCK)
    commit(agent.cwd)
    assert sessions(agent.cwd, "src/human.py") == [None] * 5 + [ME] * 3


def test_a_last_line_that_gains_a_newline_stays_the_agents(agent: Agent) -> None:
    agent.write("src/new.py", BLOCK.rstrip("\n"))
    commit(agent.cwd)
    (agent.cwd / "src/new.py").write_text(BLOCK)
    commit(agent.cwd)
    assert sessions(agent.cwd, "src/new.py") == [ME] * 3


def test_lines_sorted_by_a_person_keep_their_authors(agent: Agent) -> None:
    own = ["ZEBRA_CROSSING = 9", "MIDDLE_GROUND = 5", "ALPHA_CENTAURI = 1"]
    theirs = ["BRAVO_COMPANY = 2", "YELLOW_RIVER = 8", "NORTHERN_LIGHTS = 6"]
    path = agent.cwd / "src/own.py"
    path.write_text("\n".join([*own, ""]))
    commit(agent.cwd)
    agent.read("src/own.py")
    agent.write("src/own.py", "\n".join([*own, *theirs, ""]))
    commit(agent.cwd)
    path.write_text("\n".join([*sorted([*own, *theirs]), ""]))
    commit(agent.cwd)
    assert sessions(agent.cwd, "src/own.py") == [None, ME, None, ME, ME, None]


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (b"only_of_its_kind = 1\nother\n", b"put\nonly_of_its_kind = 1\nother\n", {1: 0, 2: 1}),
        (b"other\nlast", b"other\nlast\nput\n", {1: 1}),
        (b"one\ntwo\nthree\n", b"two\n", {0: 1}),
        (b"only_of_its_kind = 1\nx\n", b"only_of_its_kind = 1\nx\nonly_of_its_kind = 1\n", {1: 1}),
    ],
    ids=["put before it", "put after the last", "all else gone", "twice"],
)
def test_an_unchanged_line_is_recognised_only_if_unique(old: bytes, new: bytes, found: dict[int, int]) -> None:
    hunks = diff_small(old, new)
    assert hunks is not None
    assert find_unchanged_lines(split_lines(old), split_lines(new), hunks, range(len(split_lines(new)))) == found
