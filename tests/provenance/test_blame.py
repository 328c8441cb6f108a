"""Blame with real git and an agent that uses the real hook."""

from pathlib import Path

import pytest

from conftest import run_git
from gate.driving import Agent, governed
from remit.gate.gate import Gate
from remit.ledger.index.index import Index
from remit.provenance.blame.blame import Blamer
from remit.provenance.blame.blamed_line import BlamedLine
from remit.workspace.git.command import GitError


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    found = Agent(governed(repository), home)
    found.select()
    return found


def blame(root: Path, path: str, *arguments: str) -> list[BlamedLine]:
    gate = Gate.open(root)
    with Index.open(gate.workspace.state / "index.db", gate.workspace.log_folder) as index:
        index.catch_up()
        return Blamer(gate.workspace, index, gate.contents).blame(path, arguments)


def sessions(root: Path, path: str, *arguments: str) -> list[str | None]:
    return [line.session_id for line in blame(root, path, *arguments)]


def commit(root: Path, *more: str) -> None:
    run_git(root, "add", "-A")
    run_git(root, "commit", "-q", "-m", "work", *more)


ME = "session-1"


def test_lines_are_known_before_and_after_the_commit(agent: Agent) -> None:
    agent.write("src/app.py", "def main():\n    x = 2\n    return x\n")
    assert sessions(agent.cwd, "src/app.py") == [None, ME, ME]
    commit(agent.cwd)
    assert sessions(agent.cwd, "src/app.py") == [None, ME, ME]
    [line] = blame(agent.cwd, "src/app.py", "-L2,2")
    assert (line.line, line.content, line.origin, line.intent_id, line.grade) == (
        2,
        "    x = 2",
        "ai",
        "INT-001",
        "exact",
    )
    assert line.agent == "claude-code"


def test_a_file_that_no_commit_has_is_blamed_too(agent: Agent) -> None:
    agent.write("src/new.py", "one\ntwo\nthree")
    assert sessions(agent.cwd, "src/new.py") == [ME, ME, ME]
    assert [line.line for line in blame(agent.cwd, "src/new.py", "-L2,3")] == [2, 3]
    run_git(agent.cwd, "add", "-A")
    assert sessions(agent.cwd, "src/new.py") == [ME, ME, ME]


def test_before_the_first_commit(tmp_path: Path, home: Path) -> None:
    run_git(tmp_path, "init", "-q")
    agent = Agent(governed(tmp_path), home)
    agent.select()
    agent.write("src/new.py", "one\n")
    assert sessions(tmp_path, "src/new.py") == [ME]


def test_blaming_a_missing_file_or_line_is_an_error(agent: Agent) -> None:
    with pytest.raises(GitError, match="no such path"):
        blame(agent.cwd, "src/none.py")
    with pytest.raises(GitError, match="has only 2 lines"):
        blame(agent.cwd, "src/app.py", "-L9,9")


def test_a_rename_keeps_the_lines(agent: Agent) -> None:
    agent.write("src/new.py", "".join(f"line {n}\n" for n in range(9)))
    commit(agent.cwd)
    run_git(agent.cwd, "mv", "src/new.py", "src/moved.py")
    commit(agent.cwd)
    assert sessions(agent.cwd, "src/moved.py") == [ME] * 9


def test_a_squash_and_an_amended_commit_keep_the_lines(agent: Agent) -> None:
    first = run_git(agent.cwd, "rev-parse", "HEAD").strip()
    agent.write("src/app.py", "def main():\n    return 2\n")
    commit(agent.cwd)
    agent.write("src/app.py", "def main():\n    return 2\n\n\nmain()\n")
    commit(agent.cwd)
    run_git(agent.cwd, "reset", "-q", "--soft", first)
    commit(agent.cwd)
    assert sessions(agent.cwd, "src/app.py") == [None, ME, ME, ME, ME]
    run_git(agent.cwd, "commit", "-q", "--amend", "-m", "other words")
    assert sessions(agent.cwd, "src/app.py") == [None, ME, ME, ME, ME]


def test_a_persons_lines_between_two_edits_stay_unknown(agent: Agent) -> None:
    path = agent.cwd / "src" / "app.py"
    agent.write("src/app.py", "def main():\n    return 1\n\nA = 1\n")
    path.write_text(path.read_text() + "PERSON = 1\n")
    agent.read("src/app.py")
    agent.write("src/app.py", path.read_text() + "B = 2\n")
    assert [line.origin for line in blame(agent.cwd, "src/app.py")][-3:] == ["ai", "unknown", "ai"]
    commit(agent.cwd)
    assert [line.origin for line in blame(agent.cwd, "src/app.py")][-3:] == ["ai", "unknown", "ai"]


def test_two_agents_in_one_file_are_told_apart(agent: Agent, home: Path) -> None:
    other = Agent(agent.cwd, home, session="session-2")
    other.select()
    agent.write("src/new.py", "one\n")
    other.read("src/new.py")
    other.write("src/new.py", "one\ntwo\n")
    commit(agent.cwd)
    assert sessions(agent.cwd, "src/new.py") == ["session-1", "session-2"]


@pytest.mark.parametrize(
    ("content", "lines"),
    [(b"", 0), (b"one\ntwo", 2), (b"\0\1\2\n\3", 2), (b"caf\xe9\nna\xefve\n", 2), (b"a\r\nb\r\n", 2), (b"\n\n", 2)],
    ids=["empty", "no final newline", "binary", "not UTF-8", "CRLF", "blank lines"],
)
def test_any_bytes_are_blamed(agent: Agent, content: bytes, lines: int) -> None:
    agent.write("src/odd", content)
    assert sessions(agent.cwd, "src/odd") == [ME] * lines
    commit(agent.cwd)
    assert sessions(agent.cwd, "src/odd") == [ME] * lines


def test_lines_moved_from_another_file_are_followed_there(agent: Agent) -> None:
    text = "".join(f"def function_number_{n}(argument):\n    return argument * {n}\n\n" for n in range(12))
    agent.write("src/one.py", text)
    (agent.cwd / "src" / "person.py").write_text("PERSON = 'wrote this line all alone'\n")
    commit(agent.cwd)
    (agent.cwd / "src" / "one.py").unlink()
    (agent.cwd / "src" / "person.py").write_text("PERSON = 'wrote this line all alone'\n" + text)
    commit(agent.cwd)
    assert sessions(agent.cwd, "src/person.py")[0] is None
    assert set(sessions(agent.cwd, "src/person.py")[1:]) == {ME}
    assert sessions(agent.cwd, "src/person.py", "-C")[0] is None
    assert sessions(agent.cwd, "src/person.py", "-C")[1:] == [ME] * 36


def test_whitespace_and_revision_options_are_passed_to_git(agent: Agent) -> None:
    agent.write("src/new.py", "one\ntwo\n")
    commit(agent.cwd)
    (agent.cwd / "src" / "new.py").write_text("  one\ntwo\n")
    commit(agent.cwd)
    assert sessions(agent.cwd, "src/new.py") == [ME, ME]
    assert sessions(agent.cwd, "src/new.py", "-w") == [ME, ME]
    assert sessions(agent.cwd, "src/new.py", "HEAD~1") == [ME, ME]


HEAD = "def first(hole):\n    try:\n        hole.measure()\n"
END = "    except OSError:\n        pass\n    return measure\n"
INSERTED = """\
def second(depth):
    try:
        depth.sound()
    except OSError:
        pass
    return sound

"""


def test_lines_exchanged_by_git_keep_their_author_if_records_cover_every_step(agent: Agent) -> None:
    other = Agent(agent.cwd, agent.home, "session-2")
    other.select()
    agent.write("src/new.py", HEAD + END + "\n" + "TAIL = 1\n")
    commit(agent.cwd)
    other.read("src/new.py")
    other.write("src/new.py", HEAD + INSERTED + END + "\n" + "TAIL = 1\n")
    other.write("src/new.py", HEAD + INSERTED + END + "    measured = 2\n" + "TAIL = 1\n")
    commit(agent.cwd)
    assert sessions(agent.cwd, "src/new.py")[10:] == [ME, ME, ME, "session-2", ME]


def test_a_common_line_amid_a_persons_text_is_not_part_of_a_shelved_block(repository: Path, home: Path) -> None:
    """An agent's two blocks are committed one after the other, each with a person's block below. The first commit
    only resembles the second block.
    """
    agent = Agent(governed(repository), home)
    agent.select()
    one = "def weighed(crate):\n    heavy = scale_of(crate, 12)\n    crate.label = painted\n    return heavy_crates\n\n"
    two = "def opened(bottle):\n    if bottle is None:\n        return None\n    return bottle.cork_pulled()\n\n"
    mine = "def labelled(jar):\n    if jar is None:\n        return None\n    return jar.paper_glued()\n\n"
    agent.write("src/new.py", one + two)
    path = agent.cwd / "src/new.py"
    path.write_text(one + mine)
    commit(agent.cwd)
    origins = [line.origin for line in blame(agent.cwd, "src/new.py")]
    assert origins[:4] == ["ai"] * 4
    assert "ai" not in origins[5:9]


def test_a_renamed_file_keeps_the_agents_lines_though_a_person_changed_one_before(repository: Path, home: Path) -> None:
    agent = Agent(governed(repository), home)
    agent.select()
    agent.write("src/new.py", "def weighed(crate):\n    heavy = scale_of(crate, 12)\n    return heavy\n")
    path = agent.cwd / "src/new.py"
    path.write_text(path.read_text() + "TOTAL_OF_ALL = 3\n")
    commit(agent.cwd)
    run_git(agent.cwd, "mv", "src/new.py", "src/renamed.py")
    agent.shell("python3 -c 'pass'")
    commit(agent.cwd)
    assert [line.origin for line in blame(agent.cwd, "src/renamed.py")][:3] == ["ai"] * 3
