"""Who needs a daemon gets one, also where the one before is still about to leave."""

import fcntl
import json
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from threading import Thread

import pytest

from processes import daemons_of, kill_daemons
from remit.servers.daemon import socket_path
from remit.servers.daemon_client import ask_started_daemon
from waiting import wait_until


@pytest.fixture
def folder(home: Path) -> Iterator[Path]:
    """The daemon's folder."""
    found = socket_path(home).parent
    found.mkdir(parents=True)
    yield found
    kill_daemons(home)


def test_a_daemon_that_is_leaving_still_is_followed_by_the_next(home: Path, folder: Path, repository: Path) -> None:
    payload = json.dumps({"hook_event_name": "Stop", "session_id": "s1", "cwd": str(repository)}).encode()
    with (folder / "daemon.lock").open("w") as lock:  # held to the end by one that listens no more
        fcntl.flock(lock, fcntl.LOCK_EX)

        def leave() -> None:
            wait_until(lambda: daemons_of(home))
            wait_until(lambda: not daemons_of(home))
            fcntl.flock(lock, fcntl.LOCK_UN)

        leaving = Thread(target=leave)
        leaving.start()
        reply = ask_started_daemon(home, version("remit"), "claude-code", str(repository), payload)
        leaving.join()
    assert reply.exit_code == 0
