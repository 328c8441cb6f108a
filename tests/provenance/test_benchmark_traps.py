"""The benchmark's traps and rewrites: no line has a wrong author."""

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import run_git
from gate.driving import overlay

ROOT = Path(__file__).parents[2]

UNATTRIBUTED = [
    "rejected: boilerplate, checkout",
    "rejected: signature, editor",
    "rejected: signature and boilerplate, checkout, turns",
    "rejected: written as a whole",
    "edited inside: 2 of 6",
    "edited inside: 3 of 6, turns, then the agent",
    "reverted: boilerplate, revert",
    "reverted: signature and boilerplate, reset",
    "typed again later",
    "deletes only",
    "a call that never came back",
    "a copy that was dropped",
    "a copy that was dropped, of what nobody saw",
    "a person while a silent command writes another file",
    "a person while a silent command writes the same file",
    "a person while a command that holds its lines writes the same file",
]
"""Where *unknown* is right, and a name would be a guess."""

ATTRIBUTED = [
    "edited inside: 1 of 6, turns, then the agent",
    "identical boilerplate",
    "common lines",
    "copy above: edit",
    "license headers",
    "two agents, same lines",
    "whitespace only",
]

REWRITTEN = [
    "rebase, conflict, keep both",
    "split",
    "squash merge on a server",
    "rename and edit before the commit",
    "move a block down, uncommitted",
    "move a block to another file, uncommitted, turns",
    "indent before the commit",
    "formatter",
    "fresh clone",
    "no final newline",
]


def run_scenarios(*names: str) -> list[dict[str, Any]]:
    """Return the benchmark's results for those scenarios."""
    words = [word for name in names for word in ("--only", name)]
    run = [sys.executable, "-m", "benchmarks.provenance", "--seed", "7", "--json", *words]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)["scenarios"]
    assert [row["broken"] for row in found] == [None] * len(names)
    return found


@pytest.mark.live
@pytest.mark.parametrize("names", [UNATTRIBUTED, ATTRIBUTED, REWRITTEN], ids=["nobody's", "known", "rewritten"])
def test_no_line_is_attributed_to_a_wrong_author(names: list[str], home: Path) -> None:
    overlay(home)
    found = run_scenarios(*names)
    assert [line for row in found for line in row["wrong"]] == []
    if names is not UNATTRIBUTED:
        assert [line for row in found for line in row["gaps"]] == []
        assert sum(row["kept"] for row in found) == sum(row["certain"] for row in found) > 0


def test_a_history_that_is_replayed_is_blamed_as_git_blames_it(repository: Path) -> None:
    rng = random.Random(7)
    lines = ["def main():", "    return None", ""] * 8
    for number in range(20):
        at = rng.randrange(len(lines))
        lines[at : at + rng.randrange(3)] = [f"def number_{number}():", "    return None", ""]
        (repository / "src" / "app.py").write_text("\n".join(lines) + "\n")
        run_git(repository, "commit", "-q", "-a", "-m", f"change {number}")
    words = ("--track", "replay", "--repo", str(repository), "--seed", "1", "--json")
    run = [sys.executable, "-m", "benchmarks.provenance", *words]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True)
    [found] = json.loads(done.stdout)["replay"]
    assert (found["agreement"], found["unknown"], found["commits"]) == (100.0, 0, 21)
