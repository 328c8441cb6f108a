"""The door of an attempt, by itself: what it needs of its worker's process, and what it keeps from the daemon."""

import os
import socket
import stat
import threading
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import pytest

from remit.orchestrator.workers.agent import AttemptPlaces
from remit.servers.attempt_door import DoorTerms, bind_in_folder, bind_request
from remit.servers.daemon import unpack_request
from remit.workspace.place.workspace import locate_workspace


@pytest.fixture
def terms(repository: Path, home: Path) -> DoorTerms:
    tree = locate_workspace(repository)
    assert tree is not None
    places = AttemptPlaces(tree, tree, home, home / "tmp", home / "state", "remit/INT-001/1")
    return DoorTerms(places, "INT-001", home, {})


def test_doors_that_open_at_once_leave_the_umask_of_the_worker_alone(tmp_path: Path) -> None:
    own = os.umask(0o022)
    seen: set[int] = set()

    def bind(number: int, together: threading.Barrier) -> None:
        together.wait()
        with closing(socket.socket(socket.AF_UNIX)) as listener:
            bind_in_folder(listener, tmp_path, f"{number}.sock")

    try:
        for _ in range(300):
            together = threading.Barrier(4)
            threads = [threading.Thread(target=bind, args=(number, together)) for number in range(3)]
            for thread in threads:
                thread.start()
            together.wait()
            for thread in threads:
                thread.join()
            seen.add(os.umask(0o022))
    finally:
        os.umask(own)
    assert seen == {0o022}
    assert {stat.S_IMODE((tmp_path / f"{number}.sock").stat().st_mode) for number in range(3)} == {0o600}


def test_no_version_that_an_agent_claims_reaches_the_daemon(terms: DoorTerms) -> None:
    request = unpack_request(b"RMT1\x000.0.0\0claude-code\0pre\0/\0\0{}")
    assert unpack_request(bind_request(request, terms, 1)).version == version("remit")
