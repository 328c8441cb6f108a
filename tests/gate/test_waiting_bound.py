"""Contents that wait without end: where nobody folds them, the call that adds too much does."""

from pathlib import Path

import pytest

from gate.driving import governed, machine
from remit.core.diff.contents import hash_git_blob
from remit.gate.gate import Gate

SMALL, LARGE, LARGER = b"x = 1\n", b"x = 1\n" * 3000, b"x = 1\n" * 4000


@pytest.fixture
def gate(repository: Path, home: Path) -> Gate:
    found = Gate.open(governed(repository, "observe"), machine(home))
    found.max_unfolded_bytes = 10_000
    return found


def are_kept(gate: Gate, *contents: bytes) -> bool:
    fresh = Gate.open(gate.workspace.root, gate.environment)
    return [fresh.contents.load(hash_git_blob(content)) for content in contents] == [*contents]


def test_a_call_folds_what_is_too_much(gate: Gate) -> None:
    gate.keep_contents([("src/a.py", SMALL)])
    assert 0 < gate.contents.waiting_bytes() < gate.max_unfolded_bytes
    gate.keep_contents([("src/a.py", LARGE)])
    assert gate.contents.waiting_bytes() == 0
    assert are_kept(gate, SMALL, LARGE)


def test_what_cannot_be_folded_waits_on_and_is_not_tried_again(gate: Gate) -> None:
    blocked = gate.workspace.state / "objects.git"
    blocked.write_bytes(b"")  # git can write nothing there
    gate.keep_contents([("src/a.py", LARGE)])
    assert are_kept(gate, LARGE)
    blocked.unlink()
    gate.keep_contents([("src/a.py", LARGER)])
    assert gate.contents.waiting_bytes() > gate.max_unfolded_bytes
    gate.fold_contents()
    assert gate.contents.waiting_bytes() == 0
    assert are_kept(gate, LARGE, LARGER)
