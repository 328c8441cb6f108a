"""The process behind a connection is found among all, and the one found last is never taken for another."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from remit.servers.web.guard import ClientProcesses

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="lsof names the process elsewhere")

CONNECT = """
import socket, sys
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
print(connection.getsockname()[1], flush=True)
sys.stdin.read()
"""


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as found:
        yield found


def test_each_connection_has_its_own_process_whichever_was_found_last(listener: socket.socket) -> None:
    port = int(listener.getsockname()[1])
    command = [sys.executable, "-c", CONNECT, str(port)]
    clients = ClientProcesses()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        theirs = int(other.stdout.readline())
        with socket.create_connection(("127.0.0.1", port)) as connection:
            ours = int(connection.getsockname()[1])
            for _ in range(2):
                for client_port, pid in ((theirs, other.pid), (ours, os.getpid())):
                    clients.find_agent_above(client_port, port)
                    assert clients.last_pid == pid
                    assert clients.find_process(client_port, port) == pid
        other.communicate()
    assert clients.find_process(theirs, port) is None, "a connection that is over is nobody's"
