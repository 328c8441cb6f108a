"""How long blame takes, and that git is left alone."""

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .code import Code
from .git_tool import GitTool
from .lines import PERSON, written
from .remit_tool import RemitTool
from .tools import Tool
from .world import World, author

MAIN = "from remit.cli import main; main()"
LINES = 5_000
COMMITS = 50
LONGER = 200
"""Commits of a file that was worked on for longer: git's own part of a blame grows with them, Python's start does not.
"""

APP = "src/app.py"
OURS = re.compile(r"remit|\.orchestration|refs/remit", re.IGNORECASE)


@dataclass(frozen=True)
class Measure:
    """One figure beside its floor."""

    name: str
    value: float
    floor_name: str
    floor: float
    asked: str

    @property
    def ratio(self) -> float:
        return self.value / self.floor if self.floor else 0.0

    def line(self) -> str:
        return (
            f"{self.name:<34} {self.value * 1000:9.1f} ms   {self.floor_name:<34} {self.floor * 1000:9.1f} ms"
            f"   {self.ratio:5.2f} x   asked {self.asked}"
        )


@dataclass(frozen=True)
class Speed:
    """The figures, and what a trace of git showed that is not git's own, by command."""

    measures: list[Measure]
    traced: dict[str, list[str]]


def measured(seed: int, rounds: int, pairs: int) -> Speed:
    blames = [row for commits in (COMMITS, LONGER) for row in blame_speed(seed, rounds, commits)]
    return Speed([*blames, *commit_speed(seed, pairs)], traced(seed))


def timed(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def grown(tool: Tool, folder: Path, seed: int, commits: int = COMMITS) -> World:
    """A repository whose file has 5,000 lines, half of them from so many commits of an agent and a person in turn."""
    world = World(tool, folder, f"{seed}:speed")
    code = Code(world.rng)
    world.begin({APP: [code.line() for _ in range(LINES // 2)]})
    one = world.session()
    for n in range(commits):
        old = world.files[APP]
        at = world.rng.randrange(len(old))
        count = LINES // 2 * (n + 1) // commits - LINES // 2 * n // commits
        fresh = written([code.line() for _ in range(count)], author(one) if n % 2 else PERSON)
        if n % 2:
            world.put_quietly(one, APP, [*old[:at], *fresh, *old[at:]])
        else:
            world.put(APP, [*old[:at], *fresh, *old[at:]])
        world.commit()
    world.stop(one)
    return world


def blame_speed(seed: int, rounds: int, commits: int) -> list[Measure]:
    """Blame of 5,000 lines by a fresh process: the very first one, and a later one."""
    with tempfile.TemporaryDirectory(prefix="provbench-") as folder:
        world = grown(RemitTool(), Path(folder).resolve(), seed, commits)
        state = world.root / ".git" / "remit"

        def remit(*words: str) -> None:
            run = [sys.executable, "-c", MAIN, *words]
            subprocess.run(run, cwd=world.root, env=world.environ, check=True, capture_output=True)

        def first_blame() -> None:
            for path in list(state.rglob("index.db*")):
                path.unlink()
            remit("blame", "--json", APP)

        rows = [
            (
                timed(first_blame),
                timed(lambda: remit("blame", "--json", APP)),
                timed(lambda: world.git("blame", "--porcelain", APP)),
                timed(lambda: subprocess.run([sys.executable, "-c", "pass"], check=True)),
            )
            for _ in range(rounds)
        ]
        first_s, later_s, git_s, python_s = map(statistics.median, zip(*rows, strict=True))
        name, bound = f"remit blame, {commits} commits", ("1.5 x git blame + python start", 1.5 * git_s + python_s)
        return [
            Measure(f"{name}, first of all", first_s, *bound, "<= 1"),
            Measure(f"{name}, later", later_s, *bound, "<= 1"),
        ]


def commit_speed(seed: int, pairs: int) -> list[Measure]:
    """`git commit` where Remit governs and where it does not, in turn."""
    with tempfile.TemporaryDirectory(prefix="provbench-") as folder:
        base = Path(folder).resolve()
        ours, plain = grown(RemitTool(), base / "ours", seed), grown(GitTool(), base / "plain", seed)
        times = [(committed(ours, n), committed(plain, n)) for n in range(pairs)]
        a, b = (statistics.median(column) for column in zip(*times, strict=True))
        return [Measure(f"git commit, {pairs} pairs", a, "the same without Remit", b, "<= 1.05")]


def committed(world: World, number: int) -> float:
    (world.root / "note.txt").write_text(f"{number}\n")
    world.git("add", "note.txt")
    return timed(lambda: world.git("commit", "-q", "-m", "one more"))


def traced(seed: int) -> dict[str, list[str]]:
    """What git starts, opens and connects to that is not its own, by command; empty lists are right."""
    if shutil.which("strace") is None:
        return {"strace": ["it is not installed"]}
    with tempfile.TemporaryDirectory(prefix="provbench-") as folder:
        world = grown(RemitTool(), Path(folder).resolve(), seed)
        world.git("branch", "side", "HEAD~5")
        world.git("add", "-A")
        commands = {
            "commit": ("commit", "-q", "--allow-empty", "-m", "traced"),
            "checkout": ("checkout", "-q", "side"),
            "rebase": ("rebase", "-q", "main"),
        }
        return {name: foreign(world, words) for name, words in commands.items()}


def foreign(world: World, words: Sequence[str]) -> list[str]:
    """The lines of a trace that are none of git's business. The work tree itself may hold Remit's own files."""
    out = world.root.parent / "trace"
    run = ["strace", "-f", "-qq", "-e", "trace=execve,connect,socket,openat", "-o", str(out), "git", *words]
    subprocess.run(
        run, cwd=world.root, env={**world.environ, "PATH": os.environ["PATH"]}, check=True, capture_output=True
    )
    lines = out.read_text(errors="replace").splitlines()
    calls = [line for line in lines if "ENOENT" not in line]
    started = [line for line in calls if "execve(" in line and not re.search(r'"[^"]*/git(-core/git[^"]*)?"', line)]
    talked = [line for line in calls if "connect(" in line or "socket(" in line]
    opened = [
        line
        for line in calls
        if "openat(" in line and OURS.search(line.replace(str(world.root), "")) and "O_RDONLY" not in line
    ]
    return [*started, *talked, *opened]
