"""`--ready-fd`: who starts a daemon or a worker learns when it takes work."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from cli.running import remit, run
from forked_commands import start_process, start_ready
from processes import daemons_of, kill_daemons
from remit.servers.daemon_client import connect


def test_a_daemon_listens_once_it_has_written_its_byte_and_a_second_one_writes_none(home: Path) -> None:
    first = start_ready(["daemon"])
    with socket.socket(socket.AF_UNIX) as line:
        connect(line, home)
    assert daemons_of(home) == [first.pid]
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as line:
        second = start_process(["daemon", "--ready-fd", str(writing)], pass_fds=[writing])
        os.close(writing)
        assert line.read() == b""
    assert second.wait() == 0
    first.terminate()
    assert first.wait() == 0


def test_a_daemon_whose_starter_has_left_listens_all_the_same(home: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = start_process(["daemon", "--idle-s", "0", "--ready-fd", str(writing)], pass_fds=[writing])
    os.close(writing)
    assert process.wait() == 0
    assert not daemons_of(home)


def test_a_worker_is_listed_once_it_has_written_its_byte(home: Path) -> None:
    worker = start_ready(["worker", "--slots", "3", "--agent-command=none=true"], home)
    [found] = json.loads(remit(home, "worker", "list", "--json"))["data"]["workers"]
    assert (found["slots"], str(worker.pid) in found["id"].split(":")) == (3, True)
    worker.terminate()
    assert worker.wait() == 0


@pytest.mark.parametrize(
    ("number", "words"),
    [("77", "77 is no open descriptor"), ("99999999999", "no open descriptor"), ("read", "cannot be written")],
)
@pytest.mark.parametrize("command", ["daemon", "worker"])
def test_a_descriptor_that_takes_no_byte_is_refused(home: Path, command: str, number: str, words: str) -> None:
    reading, writing = os.pipe()
    given = str(reading) if number == "read" else number
    process = start_process([command, "--ready-fd", given], home, pass_fds=[reading], stderr=writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as line:
        assert words in line.read().decode()
    assert process.wait() == 2
    assert "--ready-fd" in run(home, command, "--help").stdout


@pytest.mark.parametrize("closed", [(), (0,), (0, 1)])
def test_a_started_daemon_announces_itself_also_where_standard_streams_are_closed(
    home: Path, closed: tuple[int, ...]
) -> None:
    code = "import os, sys; from pathlib import Path; from remit.servers.daemon import start_daemon\n"
    code += f"for stream in {closed}: os.close(stream)\n"
    code += "os._exit(0 if os.read(start_daemon(Path(sys.argv[1])), 1) else 1)"
    assert subprocess.run([sys.executable, "-c", code, str(home)], check=False).returncode == 0
    kill_daemons(home)
