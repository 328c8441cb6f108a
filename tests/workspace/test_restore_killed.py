"""A restore that is killed: the next one finishes it, no file is half written, and nothing is left lying about."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

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


def restore_and_die(site: Worksite, point_id: str, after_s: float, *, once_begun: bool) -> None:
    """Restore in a process of its own, and kill it after a while, or that long after it wrote its journal."""
    child = os.fork()
    if not child:
        try:
            point = next(s for s in site.store.list_snapshots() if s.id == point_id)
            site.restore(point)
        finally:
            os._exit(0)
    while once_begun and site.restoring.read_journal() is None and not has_ended(child):
        time.sleep(0.001)
    time.sleep(after_s)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def has_ended(child: int) -> bool:
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def once_alone(step: Callable[[], object]) -> None:
    """Do it once it may be: a process that was just forked holds the lock until it is git."""

    def is_done() -> bool:
        try:
            step()
        except RestoreRunning:
            return False
        return True

    wait_until(is_done, "nobody is left to hold the lock")


@pytest.mark.slow
def test_fifty_kills_leave_no_half_file_and_are_finished(repository: Path) -> None:
    site = Worksite(repository)
    for number in range(FILES):
        path = repository / f"d{number % 5}" / f"{number}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content(number, b"then"))
    point, then = site.take(), site.tree()
    whole = {content(number, word) for number in range(FILES) for word in (b"then", b"now")}
    began = 0
    for kill in range(KILLS):
        for number in range(FILES):
            (repository / f"d{number % 5}" / f"{number}.txt").write_bytes(content(number, b"now"))
        restore_and_die(site, point.id, 0.001 * kill, once_begun=bool(kill % 2))
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
