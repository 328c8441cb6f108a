"""The pure-Python client as `init` puts it: it runs what was compiled once, and does without where that is spoiled."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from remit.wiring.hook_client import CACHE_FOLDER, install_script

SPOILS: dict[str, Callable[[Path], object]] = {
    "as it was put": lambda compiled: None,
    "compiled by another Python": lambda compiled: compiled.write_bytes(b"\0\0\r\n" + compiled.read_bytes()[4:]),
    "torn": lambda compiled: compiled.write_bytes(compiled.read_bytes()[:200]),
    "gone": lambda compiled: compiled.unlink(),
    "empty": lambda compiled: compiled.write_bytes(b""),
}


@pytest.mark.parametrize("spoiled", SPOILS)
def test_it_answers_whatever_became_of_what_was_compiled(tmp_path: Path, spoiled: str) -> None:
    folder = tmp_path / "a place with 'marks'"
    folder.mkdir()
    install_script(folder / "hook")
    [compiled] = (folder / CACHE_FOLDER).glob("*.pyc")
    SPOILS[spoiled](compiled)
    done = subprocess.run([folder / "hook"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "usage: hook AGENT pre|post|note < payload\n")


def test_it_searches_for_nothing(tmp_path: Path) -> None:
    install_script(tmp_path / "hook")
    shown = [sys.executable, "-ISEv", tmp_path / "hook"]
    said = subprocess.run(shown, capture_output=True, text=True, check=False).stderr
    assert "hook_client.py" not in said
    assert "usage: hook" in said
