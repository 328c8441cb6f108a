"""The kept attributions of lines answer as a blame without them does."""

import random
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from sqlite3 import connect
from subprocess import PIPE, CalledProcessError
from time import monotonic

import pytest

from conftest import run_git
from forked_commands import start_process
from gate.driving import Agent, uncontained
from provenance.test_blame import blame, commit
from remit.gate.gate import Gate
from remit.ledger.index.build import BUSY_TIMEOUT_S
from remit.ledger.index.index import Index, KeptLines
from remit.provenance.blame.blame import Blamer
from remit.provenance.blame.blamed_line import BlamedLine
from remit.provenance.blame.kept_attributions import rules_version

PATH = "src/stored.py"
WORDS = ("order", "user", "cart", "price", "total", "count", "result", "parse", "load", "save", "fetch", "value")
STEPS = 24


def blame_anew(root: Path, folder: Path, path: str, *arguments: str) -> list[BlamedLine]:
    """Blame with an index that was built just now."""
    gate = Gate.open(root)
    folder.mkdir()
    with Index.open(folder / "index.db", gate.workspace.log_folder) as index:
        index.catch_up()
        return Blamer(gate.workspace, index, gate.contents).blame(path, arguments)


class History:
    """A random history of one file, by an agent, by a person, and by git."""

    def __init__(self, agent: Agent, seed: int) -> None:
        self.agent, self.chance = agent, random.Random(seed)
        self.root = agent.cwd
        self.file = self.root / PATH
        self.file.write_text(self.text(self.new_line() for _ in range(12)))
        commit(self.root)

    @staticmethod
    def text(lines: Iterable[str]) -> str:
        return "".join(f"{line}\n" for line in lines)

    def new_line(self) -> str:
        if self.chance.random() < 0.2:
            return self.chance.choice(["", "    return None", "try:", "}"])
        one, two, three = (self.chance.choice(WORDS) for _ in range(3))
        return f"{one}_{two} = {three}_of({two}, {self.chance.randrange(1000)})"

    def edited(self) -> list[str]:
        lines = self.file.read_text().splitlines()
        at = self.chance.randrange(len(lines) + 1)
        if self.chance.random() < 0.15:  # move a block
            block, lines[at : at + 3] = lines[at : at + 3], []
            at = self.chance.randrange(len(lines) + 1)
            return [*lines[:at], *block, *lines[at:]]
        lines[at : at + self.chance.choice([0, 1, 2, 4])] = [
            self.new_line() for _ in range(self.chance.choice([0, 1, 3]))
        ]
        return lines or [self.new_line()]

    def agent_writes(self) -> None:
        self.agent.read(PATH)
        self.agent.write(PATH, self.text(self.edited()))

    def person_saves(self) -> None:
        self.file.write_text(self.text(self.edited()))

    def git(self, *words: str) -> None:
        with suppress(CalledProcessError):
            run_git(self.root, *words)

    def step(self) -> None:
        kind = self.chance.choices(
            ["agent", "person", "commit", "amend", "revert", "stash", "squash", "read"], [6, 4, 6, 1, 1, 1, 1, 1]
        )[0]
        if kind == "agent":
            self.agent_writes()
        elif kind == "person":
            self.person_saves()
        elif kind in ("commit", "amend"):
            self.git("commit", "-qam", "work", *(["--amend"] if kind == "amend" else []))
        elif kind == "revert":
            self.git("revert", "--no-edit", "HEAD")
            self.git("revert", "--quit")
            self.git("add", "-A")
        elif kind == "stash":
            self.git("stash")
            if self.chance.random() < 0.7:
                self.git("checkout", "-q", "--", ".")
                self.git("stash", "pop")
        elif kind == "squash":
            self.git("commit", "-qam", "more")
            self.git("reset", "-q", "--soft", "HEAD~2")
            self.git("commit", "-qm", "squashed")
        else:
            self.agent.read(PATH)
        if not self.file.exists() or "<<<<<<<" in self.file.read_text():
            self.git("reset", "-q", "--hard", "HEAD" if self.file.exists() else "HEAD~1")


def authors(lines: Sequence[BlamedLine]) -> list[tuple[object, ...]]:
    return [(line.line, line.content, line.commit[:7], line.origin, line.grade, line.record) for line in lines]


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    found = uncontained(repository, home)
    commit(repository)
    return found


@pytest.mark.parametrize("seed", [0, 5, 9])
def test_a_kept_answer_is_the_answer_of_a_blame_without_any(agent: Agent, tmp_path: Path, seed: int) -> None:
    history = History(agent, seed)
    for number in range(STEPS):
        history.step()
        for arguments in ((), ("HEAD",)):
            kept = authors(blame(agent.cwd, PATH, *arguments))
            anew = authors(blame_anew(agent.cwd, tmp_path / f"{number}{len(arguments)}", PATH, *arguments))
            assert kept == anew


def kept_rows(root: Path) -> list[KeptLines]:
    gate = Gate.open(root)
    with Index.open(gate.workspace.state / "index.db", gate.workspace.log_folder) as index:
        blobs = {line.split()[0] for line in run_git(root, "rev-list", "--all", "--objects").splitlines()}
        return index.find_kept_lines("blame", PATH, blobs, rules_version())


def write_and_commit(agent: Agent, text: str) -> None:
    agent.read(PATH)
    agent.write(PATH, text)
    commit(agent.cwd)


def test_a_rewritten_commit_with_the_same_contents_finds_its_answer(agent: Agent) -> None:
    write_and_commit(agent, "first_value = compute_value(1)\n")
    before = authors(blame(agent.cwd, PATH))
    rows = kept_rows(agent.cwd)
    run_git(agent.cwd, "commit", "-q", "--amend", "-m", "another message")
    assert [line[3:] for line in authors(blame(agent.cwd, PATH))] == [line[3:] for line in before]
    assert kept_rows(agent.cwd) == rows != []


def test_a_save_that_the_next_turn_sees_is_taken_in(agent: Agent) -> None:
    agent.send("SessionStart", source="startup")
    agent.write(PATH, "first_value = compute_value(1)\n")
    agent.send("Stop")
    (agent.cwd / PATH).write_text("first_value = compute_value(1)\nsecond_value = typed_by_hand(2)\n")
    assert [line.origin for line in blame(agent.cwd, PATH)] == ["ai", "unknown"]
    agent.send("UserPromptSubmit", prompt="go on")
    assert [line.origin for line in blame(agent.cwd, PATH)] == ["ai", "human"]


def test_a_record_that_arrives_after_the_commit_is_taken_in(agent: Agent) -> None:
    asked = agent.ask(
        "Bash", command=f"echo 'first_value = compute_value(1)' > {PATH}; git add -A; git commit -qm work"
    )
    (agent.cwd / PATH).write_text("first_value = compute_value(1)\n")
    commit(agent.cwd)
    assert [line.origin for line in blame(agent.cwd, PATH)] == ["unknown"]
    command = f"echo 'first_value = compute_value(1)' > {PATH}; git add -A; git commit -qm work"
    agent.tell("Bash", asked["call_id"], {"stdout": ""}, command=command)
    assert [line.session_id for line in blame(agent.cwd, PATH)] == [agent.session]


def test_the_same_change_made_again_is_another_records(agent: Agent) -> None:
    one, two = "first_value = compute_value(1)\n", "first_value = compute_value(1)\nsecond_value = compute_value(2)\n"
    write_and_commit(agent, one)
    (agent.cwd / PATH).write_text(two)
    commit(agent.cwd)
    assert [line.origin for line in blame(agent.cwd, PATH)] == ["ai", "unknown"]
    (agent.cwd / PATH).write_text(one)
    commit(agent.cwd)
    write_and_commit(agent, two)
    found = blame(agent.cwd, PATH)
    assert authors(found) == authors(blame_anew(agent.cwd, agent.cwd.parent / "anew", PATH))
    assert [line.origin for line in found] == ["ai", "ai"]


def test_a_blame_does_not_wait_for_a_writer_of_the_index(agent: Agent) -> None:
    write_and_commit(agent, "first_value = compute_value(1)\n")
    gate = Gate.open(agent.cwd)
    with Index.open(gate.workspace.state / "index.db", gate.workspace.log_folder) as index:
        index.catch_up()
        blamer = Blamer(gate.workspace, index, gate.contents)
        with closing(connect(index.path, isolation_level=None)) as writer:
            writer.execute("begin immediate")
            began = monotonic()
            assert [line.origin for line in blamer.blame(PATH)] == ["ai"]
            assert monotonic() - began < BUSY_TIMEOUT_S
    assert kept_rows(agent.cwd) == []


def test_two_processes_that_blame_at_once_agree(agent: Agent) -> None:
    for number in range(6):
        write_and_commit(agent, "".join(f"value_{n} = compute_value({n}, {number})\n" for n in range(number + 1)))
    asked = [start_process(["blame", "--json", PATH], agent.cwd, stdout=PIPE) for _ in range(2)]
    answers = [process.communicate(timeout=240)[0] for process in asked]
    assert answers[0] == answers[1]
    assert agent.session.encode() in answers[0]
