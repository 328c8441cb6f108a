"""Everyday commands come out in enforce as they do without Remit: a part of the table that `make everyday` prints."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
NO_OVERLAY = 3


@pytest.mark.live
def test_everyday_commands_come_out_as_without_remit() -> None:
    run = [sys.executable, "benchmarks/everyday.py", "--quick"]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True)
    if done.returncode == NO_OVERLAY:
        pytest.skip(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 broken silently" in done.stdout


def test_the_page_has_every_row() -> None:
    page = (ROOT / "docs" / "explanation" / "everyday-commands.md").read_text()
    listed = [sys.executable, "benchmarks/everyday.py", "--list"]
    titles = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(titles) >= 150
    assert not [title for title in titles if f"| {title} |" not in page], "make everyday"
