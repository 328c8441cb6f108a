"""`stats`, `blame` and `why` say the same of every line, whatever people did to the files."""

import random
from collections import Counter
from contextlib import suppress
from pathlib import Path
from subprocess import CalledProcessError

import pytest

from conftest import run_git
from gate.driving import Agent, governed
from provenance.test_blame import commit
from provenance.test_kept_attributions import WORDS
from provenance.test_likely_lines import TOOL
from provenance.test_stats import figures
from remit.gate.gate import Gate
from remit.ledger.index.index import open_index
from remit.provenance.blame.blame import Blamer
from remit.provenance.blame.blamed_line import BlamedLine
from remit.provenance.why.explain import Explainer

STEPS = 40


class Project:
    """A random history of several files, by two agents' sessions, a command of theirs, and a person."""

    def __init__(self, root: Path, home: Path, seed: int) -> None:
        self.root, self.chance = root, random.Random(seed)
        (root / "tool.py").write_text(TOOL)
        (root / "src/old.py").write_text("".join(f"{self.new_line()}\n" for _ in range(20)))
        commit(root)
        self.agents = [Agent(governed(root, "observe"), home, session=f"session-{n}") for n in (1, 2)]
        for agent in self.agents:
            agent.select()

    def new_line(self) -> str:
        if self.chance.random() < 0.2:
            return self.chance.choice(["", "    return None", "}"])
        one, two = (self.chance.choice(WORDS) for _ in range(2))
        return f"{one}_{two} = {two}_of({one}, {self.chance.randrange(1000)})"

    def files(self) -> list[str]:
        return sorted(path.relative_to(self.root).as_posix() for path in (self.root / "src").glob("*.py"))

    def edited(self, path: str) -> str:
        file = self.root / path
        lines = file.read_text().splitlines() if file.exists() else []
        at = self.chance.randrange(len(lines) + 1)
        lines[at : at + self.chance.choice([0, 0, 1, 3])] = [self.new_line() for _ in range(self.chance.choice([1, 3]))]
        return "".join(f"{line}\n" for line in lines)

    def commit(self) -> None:
        with suppress(CalledProcessError):  # nothing changed since the last one
            commit(self.root)

    def step(self) -> None:
        agent = self.chance.choice(self.agents)
        path = self.chance.choice([*self.files(), f"src/new{self.chance.randrange(9)}.py"])
        kinds = ["agent", "person", "commit", "rename", "move", "command"]
        match self.chance.choices(kinds, [8, 3, 5, 2, 2, 1])[0]:
            case "agent":
                if (self.root / path).exists():
                    agent.read(path)
                agent.write(path, self.edited(path))
            case "person":
                (self.root / path).write_text(self.edited(path))
            case "commit":
                self.commit()
            case "rename":
                (self.root / self.chance.choice(self.files())).rename(
                    self.root / f"src/r{self.chance.randrange(99)}.py"
                )
            case "move":
                one, other = (self.root / self.chance.choice(self.files()) for _ in range(2))
                lines = one.read_text().splitlines(keepends=True)
                at = self.chance.randrange(len(lines) + 1)
                one.write_text("".join(lines[:at] + lines[at + 4 :]))
                other.write_text(other.read_text() + "".join(lines[at : at + 4]))
            case _:
                agent.shell(f"python3 tool.py src/made{self.chance.randrange(3)}.py")


def blame_all(root: Path) -> dict[str, list[BlamedLine]]:
    """Blame each file at HEAD, each as a question of its own."""
    found: dict[str, list[BlamedLine]] = {}
    for path in run_git(root, "ls-tree", "-r", "--name-only", "HEAD").splitlines():
        gate = Gate.open(root)
        with open_index(gate.workspace.state, gate.workspace.log_folder) as index:
            found[path] = Blamer(gate.workspace, index, gate.contents).blame(path, ["HEAD"])
    return found


@pytest.mark.parametrize("seed", range(4))
def test_the_sums_of_blame_are_the_figures_of_stats(repository: Path, home: Path, seed: int) -> None:
    project = Project(repository, home, seed)
    for _ in range(STEPS):
        project.step()
    project.commit()
    counted = figures(repository)
    blamed = blame_all(repository)
    lines = [line for own in blamed.values() for line in own]
    by_agents = [line for line in lines if line.origin == "ai"]
    origins = Counter(line.origin for line in lines)
    assert by_agents
    assert (counted.lines, counted.others) == (len(lines), 0)
    unexplained = counted.unknown + counted.before + counted.own
    assert (counted.ai, counted.human, counted.mixed, unexplained) == tuple(
        origins[name] for name in ("ai", "human", "mixed", "unknown")
    )
    assert counted.likely == sum(line.grade == "likely" for line in by_agents)
    assert counted.by_session == Counter(line.session_id for line in by_agents)
    assert counted.by_intent == Counter(line.intent_id for line in by_agents)
    shares = {path: sum(line.origin == "ai" for line in own) for path, own in blamed.items()}
    assert {file.path: file.ai for file in counted.files} == {path: ai for path, ai in shares.items() if ai}


@pytest.mark.parametrize("seed", range(3))
def test_why_says_of_each_line_what_blame_says(repository: Path, home: Path, seed: int) -> None:
    project = Project(repository, home, seed)
    for _ in range(STEPS):
        project.step()
    project.commit()
    gate = Gate.open(repository)
    with open_index(gate.workspace.state, gate.workspace.log_folder) as index:
        for path, blamed in blame_all(repository).items():
            for line in project.chance.sample(blamed, min(4, len(blamed))):
                blamer = Blamer(gate.workspace, index, gate.contents)
                (passage,) = Explainer(blamer, gate.contents).explain(path, (line.line, line.line)).passages
                said = (passage.origin, passage.record, passage.agent, passage.intent_id, passage.grade)
                assert said == (line.origin, line.record, line.agent, line.intent_id, line.grade), (path, line.line)
