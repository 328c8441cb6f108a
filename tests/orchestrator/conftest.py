"""What most tests of plans begin with: a fleet whose workers and daemons end with the test."""

from collections.abc import Generator
from pathlib import Path

import pytest

from orchestrator.fleet_driving import Fleet


@pytest.fixture
def fleet(home: Path, tmp_path: Path) -> Generator[Fleet]:
    made = Fleet(home, tmp_path / "work")
    yield made
    made.stop()
