"""Which containment works here is tried once, and again after a while where a try took too long."""

import json
from contextlib import suppress
from pathlib import Path

import pytest

from gate.driving import overlay
from remit.workspace.sandbox.containment import find_containment
from remit.workspace.sandbox.staging import SCRATCH_FOLDER
from waiting import wait_until


def list_processes_with(text: str) -> list[str]:
    """Return the command lines, of processes that still run, that name a text."""
    found: list[str] = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(line.read_text("utf-8", "replace"))
    return [line for line in found if text in line]


@pytest.mark.system
def test_a_machine_too_busy_for_a_try_is_tried_again(home: Path) -> None:
    overlay(home)
    kept = home / SCRATCH_FOLDER / "containment.json"
    kept.unlink()
    lesser = find_containment(home, home / "tmp", limit_s=0.0001)
    assert lesser.way in ("landlock", "none")
    wait_until(lambda: not list_processes_with(str(home)))
    assert find_containment(home, home / "tmp") == lesser  # not before its time: each try costs what it costs
    content = json.loads(kept.read_bytes())
    content["found"]["retry_at"] = 1.0
    kept.write_text(json.dumps(content))
    assert find_containment(home, home / "tmp").way == "overlay"


@pytest.mark.parametrize("found", [{"way": "none"}, {"way": "landlock", "remarks": ["no overlay: it failed"]}])
@pytest.mark.system
def test_what_was_found_holds_until_the_next_boot(home: Path, found: dict[str, object]) -> None:
    overlay(home)
    kept = home / SCRATCH_FOLDER / "containment.json"
    kept.write_text(json.dumps({**json.loads(kept.read_bytes()), "found": found}))
    assert find_containment(home, home / "tmp").way == found["way"]
