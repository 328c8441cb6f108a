"""The benchmark's real track: a generated history is replayed, and every answer that a shortest diff allows is
accepted.
"""

import json
import random
import runpy
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from conftest import run_git

ROOT = Path(__file__).parents[2]
SOURCES: Callable[[tuple[str, ...], tuple[str, ...]], list[frozenset[int | None]]] = runpy.run_path(
    str(ROOT / "benchmarks" / "provenance" / "shortest.py")
)["sources"]

short_texts = st.lists(st.sampled_from("abc"), max_size=6).map(tuple)


def by_hand(old: Sequence[str], new: Sequence[str]) -> list[set[int | None]]:
    """Return the sources of each line by trying every way to keep lines."""
    for size in range(min(len(old), len(new)), -1, -1):
        ways = [
            dict(zip(b, a, strict=True))
            for a in combinations(range(len(old)), size)
            for b in combinations(range(len(new)), size)
            if [old[n] for n in a] == [new[n] for n in b]
        ]
        if ways:
            return [{way.get(n) for way in ways} for n in range(len(new))]
    raise AssertionError("to keep no line is a way too")


@given(short_texts, short_texts)
def test_a_line_may_be_all_that_some_shortest_diff_says(old: tuple[str, ...], new: tuple[str, ...]) -> None:
    assert SOURCES(old, new) == by_hand(old, new)


def track(*words: str) -> subprocess.CompletedProcess[str]:
    run = [sys.executable, "-m", "benchmarks.provenance", "--track", "real", "--seed", "11", "--json", *words]
    return subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)


def make_history(repository: Path, commits: int) -> None:
    """Make a history in which functions appear, change and vanish in two files, and one file is renamed."""
    rng = random.Random(5)
    names = ["src/app.py", "src/other.py"]
    for number in range(commits):
        file = repository / rng.choice(names)
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        at = rng.randrange(len(lines) + 1)
        block = [f"def number_{number}(given):", f"    known_{number} = given + {number}", f"    return known_{number}"]
        lines[at : at + rng.randrange(4)] = [*block, ""]
        file.write_text("\n".join(lines) + "\n")
        run_git(repository, "add", "-A")
        run_git(repository, "commit", "-q", "-m", f"change {number}")
    run_git(repository, "mv", "src/other.py", "src/another.py")
    run_git(repository, "commit", "-q", "-m", "a better name")


def test_a_real_history_is_played_and_every_line_told(repository: Path) -> None:
    make_history(repository, 16)
    done = track("--repo", str(repository), "--commits", "15")
    [found] = json.loads(done.stdout)["scenarios"]
    shown: dict[str, Any] = {name: found[name] for name in ("scenario", "broken", "refused", "wrong")}
    expected: dict[str, Any] = {"scenario": repository.parent.name, "broken": None, "refused": 0, "wrong": []}
    assert (done.returncode, shown) == (0, expected), done.stderr
    assert found["certain"] >= found["kept"] > 0.9 * found["certain"] > 30


def test_the_real_track_asks_for_a_repository() -> None:
    done = track()
    assert done.returncode == 2
    assert "--repo PATH" in done.stderr
