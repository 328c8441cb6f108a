"""Housekeeping goes round all open gates, whatever one of them meets; the index stays open with them."""

from pathlib import Path

import pytest

from conftest import run_git
from gate.driving import governed, machine
from remit.gate.gate import Gate
from remit.gate.open_gates import OpenGates
from remit.ledger.index.index import remove_index
from remit.workspace.place.workspace import locate_workspace


def test_a_defect_in_one_repository_is_reported_and_ends_nothing(
    repository: Path, home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    run_git(other, "init", "-q")
    gates, around = OpenGates(), machine(home)
    for root in (repository, other):
        with gates(locate_workspace(governed(root)), around):
            pass
    seen: list[Path] = []

    def act(gate: Gate) -> None:
        seen.append(gate.workspace.root)
        raise KeyError("no such thing") if gate.workspace.root == repository else OSError("the disk is full")

    gates.for_each_gate(act)
    gates.for_each_gate(act)
    assert seen == [repository, other] * 2
    said = capsys.readouterr().err
    assert f"broke in {repository}: KeyError" in said
    assert "left for later: the disk is full" in said


def test_the_index_stays_open_between_calls_also_where_it_was_replaced(repository: Path, home: Path) -> None:
    workspace, gates, around = locate_workspace(governed(repository)), OpenGates(), machine(home)
    assert workspace is not None
    index, log = workspace.state / "index.db", workspace.state / "index.db-wal"
    for _ in range(2):
        with gates(workspace, around) as gate, gate.index():
            pass
        # SQLite removes the log when the last connection closes.
        assert log.exists()
        remove_index(index)
        assert not log.exists()
    with gates(workspace, around):
        pass
    assert not index.exists()
