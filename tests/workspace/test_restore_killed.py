"""A restore that is killed: the next one finishes it, no file is half written, and nothing is left lying about."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from killing import count_calls, start_forked, wait_for_end
from remit.workspace.safe_files import TEMPORARY_PREFIX
from remit.workspace.snapshots.restore import RestoreRunning
from waiting import wait_until
from workspace.snapshot_trees import Worksite

KILLS = 50
FILES = 30
SIZE = 30_000


def content(number: int, word: bytes) -> bytes:
    """The bytes of one file at one time."""
    return (b"%d %s\n" % (number, word)) * (SIZE // 10)


def change_all(root: Path) -> None:
    for number in range(FILES):
        (root / f"d{number % 5}" / f"{number}.txt").write_bytes(content(number, b"now"))


def restore(site: Worksite, point_id: str) -> None:
    site.restore(next(s for s in site.store.list_snapshots() if s.id == point_id))


def once_alone(step: Callable[[], object]) -> None:
    """Do it once it may be: a process that was just forked holds the lock until it is git."""

    def is_done() -> bool:
        try:
            step()
        except RestoreRunning:
            return False
        return True

    wait_until(is_done, "nobody is left to hold the lock")


@pytest.mark.live
def test_fifty_kills_leave_no_half_file_and_are_finished(repository: Path) -> None:
    site = Worksite(repository)
    for number in range(FILES):
        path = repository / f"d{number % 5}" / f"{number}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content(number, b"then"))
    point, then = site.take(), site.tree()
    whole = {content(number, word) for number in range(FILES) for word in (b"then", b"now")}
    change_all(repository)
    calls = count_calls(lambda: restore(site, point.id))
    began, codes = 0, list[int]()
    for kill in range(KILLS):
        change_all(repository)
        codes.append(wait_for_end(start_forked(lambda: restore(site, point.id), 1 + calls * kill // KILLS)))
        for path in repository.glob("d*/*.txt"):
            assert path.read_bytes() in whole
        began += site.restoring.read_journal() is not None
        once_alone(site.restoring.finish_interrupted)
        assert site.restoring.read_journal() is None
        assert not [p for p in repository.rglob("*") if p.name.startswith(TEMPORARY_PREFIX)]
        if kill % 10 == 9:
            once_alone(lambda: site.restore(point))
            assert site.tree() == then
    assert began
    # What git says comes in more or fewer parts: the last kills may come too late.
    assert codes[: KILLS * 9 // 10] == [-signal.SIGKILL] * (KILLS * 9 // 10)
    assert set(codes) <= {-signal.SIGKILL, 0}


def test_what_was_there_before_a_killed_restore_can_be_had_back(repository: Path) -> None:
    site = Worksite(repository)
    point = site.take()
    (repository / "README.md").write_text("mine\n")
    site.restoring.lock.parent.mkdir(parents=True)
    saved = site.restore(point).saved
    assert saved is not None
    site.restoring.write_journal(saved.id, point, (), site.restoring.preview(point).plan, None)
    site.restoring.finish_interrupted()
    site.undo()
    assert (repository / "README.md").read_text() == "mine\n"
