"""One scenario, run and counted."""

import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from remit.provenance.origins.evidence_grades import GRADES_BY_CLASS

from .code import Block, Code
from .lines import Claim, Line, Verdict, verdict
from .tools import Refused, Tool
from .world import BrokenScenario, World

CLASSES: dict[str, str] = {grade: name for name, grades in GRADES_BY_CLASS.items() for grade in grades}

Run = Callable[[World, Code], "Score | None"]
"""What is played; what it counted on its way, if anything."""


@dataclass
class Score:
    """What came of one scenario, or of several. `wrong` and `gaps` show lines: falsely somebody's, or missed."""

    lines: int = 0
    ai: int = 0
    counts: Counter[str] = field(default_factory=Counter[str])
    certain: int = 0
    open: int = 0
    """Lines of agents of which their commands tell nothing."""
    kept: int = 0
    """Of the certain lines of agents: those that were called that agent's, under that intent."""
    wrong: list[str] = field(default_factory=list[str])
    gaps: list[str] = field(default_factory=list[str])
    grades: Counter[str] = field(default_factory=Counter[str])
    evidence: Counter[str] = field(default_factory=Counter[str])
    """Of the lines called an agent's, by class of grades and verdict: `carried, right`."""
    seconds: float = 0
    refused: int = 0
    """Calls of agents that the tool did not let pass, where the scenario goes on without them."""
    broken: str = ""

    @property
    def misattributed(self) -> int:
        return sum(self.counts[name] for name in ("false AI", "false human", "wrong agent"))

    def add(self, other: "Score") -> None:
        self.lines += other.lines
        self.ai += other.ai
        self.counts += other.counts
        self.certain += other.certain
        self.open += other.open
        self.kept += other.kept
        self.grades += other.grades
        self.evidence += other.evidence
        self.seconds += other.seconds
        self.refused += other.refused
        self.wrong += other.wrong
        self.gaps += other.gaps
        self.broken = self.broken or other.broken


def run(make: Callable[[], Tool], name: str, scenario: Run, seed: int, real: Sequence[Block] = ()) -> Score:
    """Play one scenario for one tool. A scenario that cannot be played is `broken`, and counts nowhere."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="provbench-") as folder:
        world = World(make(), Path(folder).resolve(), f"{seed}:{name}")
        code = Code(random.Random(f"{seed}:{name}:code"), real)
        try:
            found = scenario(world, code) or Score()
            world.settle()
            found.add(counted(world))
        except (BrokenScenario, Refused) as error:
            found = Score(broken=f"{type(error).__name__}: {error}"[:600])
    found.seconds = time.perf_counter() - began
    return found


def counted(world: World) -> Score:
    """Every line of every file, and what the tool says of it."""
    found = Score()
    for path, lines in world.files.items():
        claims = world.tool.blame(world.root, path)
        if len(claims) != len(lines):
            raise BrokenScenario(f"{world.tool.name} tells of {len(claims)} lines of {path!r}, which has {len(lines)}")
        for number, (line, claim) in enumerate(zip(lines, claims, strict=True), 1):
            count(found, f"{path}:{number}", line, claim)
    return found


def count(found: Score, place: str, line: Line, claim: Claim) -> None:
    """One line."""
    result: Verdict = verdict(line, claim)
    ours = line.who.kind == "ai"
    found.lines += 1
    found.ai += ours
    found.counts[result] += 1
    found.grades[claim.grade or "-"] += claim.origin != "unknown"
    if claim.origin == "ai":
        is_right = result in ("right", "likely right")
        found.evidence[f"{CLASSES.get(claim.grade or '', '-')}, {'right' if is_right else 'wrong'}"] += 1
    found.open += ours and line.open
    if ours and line.certain:
        found.certain += 1
        found.kept += result == "right" and claim.origin == "ai"
    who = f"{line.who.kind} {line.who.session or ''}"
    said = f"{place} {line.text[:60]!r} by {who}, called {claim.origin} {claim.session or ''} ({claim.grade})"
    if result in ("false AI", "false human", "wrong agent"):
        found.wrong.append(f"{result}: {said}")
    elif result == "missed":
        found.gaps.append(said)
