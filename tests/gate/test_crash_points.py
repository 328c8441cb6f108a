"""A program that performs calls is killed at each of its writes, renames, syncs and unlinks, and resumed: what is left
equals an undisturbed run.
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
from remit.core.call import SessionKey
from remit.gate.gate import Gate
from remit.gate.machine import Environment

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("NO C COMPILER ON THIS LINUX: CRASHES AT EACH WRITE ARE NOT TESTED")
    found = tmp_path_factory.mktemp("shim") / "crash_points.so"
    words = [compiler, "-shared", "-fPIC", "-O1", "-o", str(found), str(HERE / "crash_points.c"), "-ldl"]
    subprocess.run(words, check=True, capture_output=True)
    return found


@pytest.fixture
def place() -> Generator[Path]:
    """A folder in memory where there is one: each point syncs some hundred times."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as found:
        yield Path(found)


def enumerate_points(
    shim: Path, place: Path, repository: Path, home: Path, every: int, *options: str
) -> dict[str, Any]:
    """Kill at every point, or at each so-manieth, and return the driver's report."""
    live = place / "live"
    (live / "home").mkdir(parents=True)
    shutil.move(repository, live / "repo")
    (live / "home" / ".gitconfig").write_bytes((home / ".gitconfig").read_bytes())
    (live / "repo" / "src" / "make.sh").write_text("echo line >> src/log.txt; echo y > src/made; echo x > docs.md\n")
    gate = Gate.open(governed(live / "repo"), Environment(live / "home", live / "home" / "tmp"))
    gate.intents.select(SessionKey("run-1"), "remit", "INT-001")
    overlay(live / "home")
    gate.close()
    shutil.copytree(live, place / "spare", symlinks=True)
    environment = {**os.environ, "LD_PRELOAD": str(shim), "HOME": str(live / "home")}
    words = [sys.executable, str(HERE / "crash_driver.py"), str(place), "1", str(every), *options]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "every", [29, pytest.param(3, marks=pytest.mark.live), pytest.param(1, marks=pytest.mark.exhaustive)]
)
def test_a_program_killed_at_any_write_and_resumed_leaves_what_an_undisturbed_one_leaves(
    every: int, shim: Path, place: Path, repository: Path, home: Path
) -> None:
    report = enumerate_points(shim, place, repository, home, every)
    assert report["points"] >= 300
    assert report["tried"] >= 300 // every
    assert report["unequal"] == []


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "every", [29, pytest.param(3, marks=pytest.mark.live), pytest.param(1, marks=pytest.mark.exhaustive)]
)
def test_a_hook_that_is_answered_again_after_its_process_died_records_nothing_twice(
    every: int, shim: Path, place: Path, repository: Path, home: Path
) -> None:
    report = enumerate_points(shim, place, repository, home, every, "hooks")
    assert report["points"] >= 120
    assert report["tried"] >= 120 // every
    assert report["unequal"] == []
