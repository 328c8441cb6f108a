"""What a person waits for who asks about a busy history: `python -m benchmarks.questions [--repo PATH]`.

The commits of a repository, by default of this one, are played again by agents and people, as the track `real` of
ProvBench plays them. Then `verify`, `map`, `stats`, `why` and `blame` run as whole processes. Nothing is asserted: the
table is the result. Processor time stands beside the clock's, which other work on the machine moves.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from .large import Measured, timed
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


def measure(root: Path, home: Path, rounds: int) -> None:
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
        "stats": (["stats"], nothing),
        "why": (["why", f"{largest}:5"], nothing),
        "blame": (["blame", largest], nothing),
    }
    print(f"{'':<22} {'least':>7} {'median':>7} {'most':>7} {'cpu':>7} s")
    for title, (words, before) in questions.items():
        times: list[Measured] = []
        for _ in range(rounds):
            before()
            command = [*MAIN, *words]
            times.append(timed(lambda c=command: subprocess.run(c, cwd=root, env=environ, capture_output=True)))
        walls, cpu = [found.wall for found in times], statistics.median(found.cpu for found in times)
        figures = (min(walls), statistics.median(walls), max(walls), cpu)
        print(f"{title:<22} {' '.join(f'{figure:7.2f}' for figure in figures)}", flush=True)


def main() -> None:
    """Make the history, or take a kept one, and measure."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--repo", type=Path, default=Path(__file__).parents[1], help="the repository to play again")
    words.add_argument("--keep", type=Path, help="a folder to make the history in, or to find it in again")
    words.add_argument("--commits", type=int, default=COMMITS)
    words.add_argument("--rounds", type=int, default=5)
    given = words.parse_args()
    folder = (given.keep or Path(tempfile.mkdtemp(prefix="remit-questions."))).resolve()
    try:
        if not (folder / "repo").exists():
            world = make_history(given.repo, folder, given.commits)
            print(f"{world.calls} calls, {world.commits} commits, {len(world.files)} files")
        measure(folder / "repo", folder / "home", given.rounds)
    finally:
        if given.keep is None:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
