"""Who may have written a file, told by what runs: real processes, found by what they hold, name and stand in."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from remit.workspace.processes.process_tracking import find_likely_writers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a").write_text("x")
    return tmp_path / "work"


def running(words: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has begun, and waits."""
    with subprocess.Popen(words, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        yield process
        process.communicate()


def found(root: Path, process: subprocess.Popen[bytes], agents: frozenset[str] = frozenset()) -> list[tuple[str, str]]:
    return [(w.evidence, w.path) for w in find_likely_writers(root, ["a"], agents) if w.pid == process.pid]


SAY = "import sys; print(flush=True); sys.stdin.read()"


def test_who_has_the_file_open_comes_first(root: Path, tmp_path: Path) -> None:
    for process in running([sys.executable, "-c", f"f = open({str(root / 'a')!r}, 'a'); {SAY}"], tmp_path):
        assert found(root, process) == [("has it open", "a")]
        assert find_likely_writers(root, ["a"], ())[0].pid == process.pid


def test_who_was_started_with_its_name(root: Path) -> None:
    for process in running([sys.executable, "-c", SAY, "../work/./a"], root):
        assert found(root, process) == [("was started with its name", "a"), ("works in this folder", "")]


def test_an_agent_that_works_there_is_named_as_one(root: Path) -> None:
    agent = root / "claude"
    agent.write_text(SAY)
    for process in running([sys.executable, str(agent)], root):
        assert found(root, process, frozenset({"claude"})) == [("is an agent, and works in this folder", "")]


def test_who_looks_is_not_suspected(root: Path) -> None:
    here = Path.cwd()
    os.chdir(root)
    try:
        assert os.getpid() not in {w.pid for w in find_likely_writers(root, ["a"], ())}
    finally:
        os.chdir(here)


def test_a_process_that_has_to_do_with_nothing_is_not_named(root: Path, tmp_path: Path) -> None:
    for process in running([sys.executable, "-c", SAY], tmp_path):
        assert found(root, process) == []
