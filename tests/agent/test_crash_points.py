"""A run that is killed at any of its writes, renames, syncs and unlinks, and resumed, leaves what an undisturbed run
leaves: the same files and modes, the same conversation, and each record once.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from gate.driving import governed, overlay

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("NO C COMPILER ON THIS LINUX: CRASHES AT EACH WRITE ARE NOT TESTED")
    found = tmp_path_factory.mktemp("shim") / "crash_points.so"
    source = HERE.parent / "gate" / "crash_points.c"
    words = [compiler, "-shared", "-fPIC", "-O1", "-o", str(found), str(source), "-ldl"]
    subprocess.run(words, check=True, capture_output=True)
    return found


@pytest.fixture
def place() -> Generator[Path]:
    """A folder in memory where there is one: each point syncs some hundred times."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as found:
        yield Path(found)


def crash(shim: Path, place: Path, repository: Path, home: Path, *numbers: int) -> dict[str, Any]:
    """Start the driver with its first point, step, turns, seed and kills; its report."""
    live = place / "live"
    (live / "home").mkdir(parents=True)
    shutil.move(repository, live / "repo")
    (live / "home" / ".gitconfig").write_bytes((home / ".gitconfig").read_bytes())
    (live / "repo" / "src" / "make.sh").write_text("echo line >> src/log.txt; echo y > src/made; echo x > docs.md\n")
    governed(live / "repo")
    overlay(live / "home")
    shutil.copytree(live, place / "spare", symlinks=True)
    environment = {
        **os.environ,
        "LD_PRELOAD": str(shim),
        "HOME": str(live / "home"),
        "PYTHONPATH": str(HERE.parent),
    }
    words = [sys.executable, str(HERE / "crash_driver.py"), str(place), *map(str, numbers)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "every", [97, pytest.param(11, marks=pytest.mark.live), pytest.param(1, marks=pytest.mark.exhaustive)]
)
@pytest.mark.timeout(1800)
def test_a_run_killed_at_any_write_and_resumed_equals_an_undisturbed_one(
    every: int, shim: Path, place: Path, repository: Path, home: Path
) -> None:
    report = crash(shim, place, repository, home, 3, every, 0, 0, 0)
    assert report["points"] >= 300
    assert report["tried"] >= (report["points"] - 3) // every
    assert report["unequal"] == []


@pytest.mark.live
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.exhaustive) for seed in (2, 3))])
def test_a_run_of_two_hundred_turns_killed_fifty_times_equals_an_undisturbed_one(
    seed: int, shim: Path, place: Path, repository: Path, home: Path
) -> None:
    report = crash(shim, place, repository, home, 1, 1, 200, seed, 50)
    assert report["tried"] >= 50
    assert report["unequal"] == []
