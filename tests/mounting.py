"""File systems of tests, mounted apart from the temporary folders: while something is mounted in one of those, commands
that are contained at the same time find the folder empty.
"""

import os
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

PLACE = "/mnt"


@contextmanager
def mounted(*options: str, folder: Path | None = None) -> Generator[Path]:
    """Mount at a new folder, or at one that lies in such a mount already; skip loudly where that is not possible."""
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED, mounting needs root")
    with tempfile.TemporaryDirectory(prefix="remit-test-", dir=PLACE) as name:
        place = folder or Path(name)
        done = subprocess.run(["mount", *options, str(place)], capture_output=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"NOT TESTED, nothing can be mounted here: {done.stderr.decode().strip()}")
        try:
            yield place
        finally:
            subprocess.run(["umount", "--lazy", str(place)], check=True, capture_output=True)
