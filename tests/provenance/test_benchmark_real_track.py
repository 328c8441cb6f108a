"""The benchmark's tracks on real histories: a generated one is replayed, and every answer that a shortest diff allows
is accepted; or it is enacted again with its merges, and `git blame` tells what is right.
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

import pytest
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


def track(*words: str, name: str = "real") -> subprocess.CompletedProcess[str]:
    run = [sys.executable, "-m", "benchmarks.provenance", "--track", name, "--seed", "11", "--json", *words]
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


@pytest.mark.live
@pytest.mark.parametrize("mode", ["observe", "enforce"])
def test_a_history_with_a_merge_is_enacted_again_and_every_line_told(repository: Path, mode: str) -> None:
    make_history(repository, 12)
    run_git(repository, "checkout", "-q", "-b", "side", "HEAD~2")
    (repository / "README.md").write_text("A few words about numbers.\nAnd some more of them.\n")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-q", "-m", "words")
    run_git(repository, "checkout", "-q", "-")
    run_git(repository, "merge", "-q", "--no-ff", "-m", "merge", "side")
    done = track("--repo", str(repository), "--commits", "12", "--mode", mode, name="reenact")
    assert done.returncode == 0, done.stderr
    [found] = json.loads(done.stdout)["reenact"]
    shown: dict[str, Any] = {name: found[name] for name in ("commits", "merges", "refused", "unrecorded", "false")}
    assert shown == {"commits": 12, "merges": 1, "refused": 0, "unrecorded": {}, "false": []}
    agents = found["agent_lines"]
    assert agents["right"] >= 0.9 * sum(agents.values()) > 10


@pytest.mark.live
def test_a_history_is_rewritten_and_every_line_told_as_before(repository: Path) -> None:
    make_history(repository, 12)
    done = track("--repo", str(repository), "--commits", "12", "--mode", "observe", name="reworked")
    assert done.returncode == 0, done.stderr
    [found] = json.loads(done.stdout)["reworked"]
    for outcome in found["outcomes"]:
        assert (outcome["false_ai"], outcome["false_human"], outcome["left_out"]) == ({}, 0, 0), outcome
        assert outcome["kept"] >= 0.98 * outcome["before"] > 10, outcome


@pytest.mark.parametrize("name", ["real", "reenact", "reworked"])
def test_a_track_of_real_histories_asks_for_a_repository(name: str) -> None:
    done = track(name=name)
    assert done.returncode == 2
    assert "--repo PATH" in done.stderr
