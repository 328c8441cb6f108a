"""What a person waits for who asks about a busy history: `python -m benchmarks.questions [--repo PATH]`.

The commits of a repository, by default of this one, are played again by agents and people, as the track `real` of
ProvBench plays them; with `--files 800 --calls 5000` a made-up repository of that size takes its place. Then the
commands run as whole processes, `fresh` without what earlier questions kept. Nothing is asserted: the table is the
result. Processor time stands beside the clock's, which other work on the machine moves; `rss` is the largest process.
"""

import argparse
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from .busy_repository import BusyRepository
from .large import Measured
from .provenance.real import Real
from .provenance.real_history import History
from .provenance.remit_tool import RemitTool
from .provenance.world import World

SEED = 7
COMMITS = 370
MAIN = (sys.executable, "-c", "from remit.cli import main; main()")


class QuietReal(Real):
    """The history, without a question between its commits."""

    def count(self) -> None:
        pass


def make_history(repository: Path, folder: Path, commits: int) -> World:
    world = World(RemitTool(), folder, f"{SEED}:questions")
    world.exact = True
    QuietReal(world, History(repository, world.rng, commits)).run()
    for session in world.sessions:
        world.stop(session)
    return world


def forget_map(root: Path) -> None:
    for state in (root / ".git" / "remit").rglob("intent_map*"):
        state.unlink()


def forget_answers(root: Path) -> None:
    """Forget what questions kept, without the rows of the records."""
    with closing(sqlite3.connect(root / ".git" / "remit" / "index.db", isolation_level=None)) as database:
        for table in ("line_origins", "blamed_files", "named_blobs", "put_words"):
            database.execute(f"delete from {table}")


def run_measured(command: Sequence[str], root: Path, environ: dict[str, str]) -> tuple[Measured, int]:
    """Run a process; return its times, and the KB of memory of the largest among it and its children."""
    began = time.perf_counter()
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, cwd=root, env=environ, stdin=quiet, stdout=quiet, stderr=quiet)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return Measured(time.perf_counter() - began, usage.ru_utime + usage.ru_stime), usage.ru_maxrss


def measure(root: Path, home: Path, rounds: int, only: Sequence[str] = ()) -> None:
    """Print a row for each command: least, median and greatest time, and the median of processor time."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"}
    listed = subprocess.run(["git", "ls-files"], cwd=root, check=True, capture_output=True, text=True).stdout
    largest = max(listed.split(), key=lambda path: (root / path).stat().st_size)
    nothing: Callable[[], object] = lambda: None  # noqa: E731
    questions: dict[str, tuple[list[str], Callable[[], object]]] = {
        "verify": (["verify"], nothing),
        "verify HEAD~20..HEAD": (["verify", "HEAD~20..HEAD"], nothing),
        "map, fresh": (["map"], lambda: forget_map(root)),
        "map, again": (["map"], nothing),
        "map --anew": (["map", "--anew"], nothing),
        "stats, fresh": (["stats"], lambda: forget_answers(root)),
        "stats, again": (["stats"], nothing),
        "why": (["why", f"{largest}:5"], nothing),
        "blame": (["blame", largest], nothing),
        "log": (["log"], nothing),
        "status": (["status"], nothing),
        "doctor": (["doctor"], nothing),
    }
    if only:
        questions = {title: found for title, found in questions.items() if title.split()[0].strip(",") in only}
    print(f"{'':<22} {'least':>7} {'median':>7} {'most':>7} {'cpu':>7} s {'rss':>7} MB")
    for title, (words, before) in questions.items():
        times: list[Measured] = []
        peak_kb = 0
        for _ in range(rounds):
            before()
            found, peak = run_measured([*MAIN, *words], root, environ)
            times.append(found)
            peak_kb = max(peak_kb, peak)
        walls, cpu = [found.wall for found in times], statistics.median(found.cpu for found in times)
        figures = (min(walls), statistics.median(walls), max(walls), cpu)
        print(f"{title:<22} {' '.join(f'{figure:7.2f}' for figure in figures)}   {peak_kb / 1024:7.0f}", flush=True)


def main() -> None:
    """Make the history, or take a kept one, and measure."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--repo", type=Path, default=Path(__file__).parents[1], help="the repository to play again")
    words.add_argument("--keep", type=Path, help="a folder to make the history in, or to find it in again")
    words.add_argument("--commits", type=int, default=COMMITS)
    words.add_argument("--rounds", type=int, default=5)
    words.add_argument("--files", type=int, default=0, help="make a repository of so many files up")
    words.add_argument("--calls", type=int, default=5_000, help="tool calls in it")
    words.add_argument("--only", nargs="*", default=(), help="commands to measure")
    given = words.parse_args()
    folder = (given.keep or Path(tempfile.mkdtemp(prefix="remit-questions."))).resolve()
    try:
        if given.files and not (folder / "repo").exists():
            BusyRepository(folder, given.files, given.calls).make()
        elif not (folder / "repo").exists():
            world = make_history(given.repo, folder, given.commits)
            print(f"{world.calls} calls, {world.commits} commits, {len(world.files)} files")
        measure(folder / "repo", folder / "home", given.rounds, given.only)
    finally:
        if given.keep is None:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
