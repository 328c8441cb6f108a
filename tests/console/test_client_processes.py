"""The processes behind a connection are found by all four of its numbers."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from remit.workspace.processes.peer_identity import (
    ClientConnection,
    NotOfThisUser,
    ask_socket,
    find_holders,
    list_sockets,
    normalise,
)
from remit.workspace.processes.process_tracking import Incomplete

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


def test_each_connection_has_its_own_process(listener: socket.socket) -> None:
    port = int(listener.getsockname()[1])
    command = [sys.executable, "-c", CONNECT, str(port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        theirs = ClientConnection("127.0.0.1", int(other.stdout.readline()), "127.0.0.1", port)
        with socket.create_connection(("127.0.0.1", port)) as connection:
            ours = ClientConnection("127.0.0.1", int(connection.getsockname()[1]), "127.0.0.1", port)
            assert find_holders(theirs) == [other.pid]
            assert find_holders(ours) == [os.getpid()]
            with pytest.raises(NotOfThisUser):
                find_holders(ClientConnection("127.0.0.2", ours.client_port, "127.0.0.1", port))
        other.communicate()
    with pytest.raises((Incomplete, NotOfThisUser)):
        find_holders(theirs)


def test_the_same_port_on_another_address_is_another_connection(listener: socket.socket) -> None:
    """Who binds 127.0.0.2 and the port of the browser's stream is not the browser."""
    port = int(listener.getsockname()[1])
    command = [sys.executable, "-c", CONNECT, str(port)]
    with (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other,
        socket.socket() as twin,
    ):
        assert other.stdout is not None
        theirs = int(other.stdout.readline())
        twin.bind(("127.0.0.2", theirs))
        twin.connect(("127.0.0.1", port))
        assert find_holders(ClientConnection("127.0.0.1", theirs, "127.0.0.1", port)) == [other.pid]
        assert find_holders(ClientConnection("127.0.0.2", theirs, "127.0.0.1", port)) == [os.getpid()]
        other.communicate()


def test_a_shared_socket_has_all_its_holders(listener: socket.socket) -> None:
    port = int(listener.getsockname()[1])
    with socket.create_connection(("127.0.0.1", port)) as connection:
        command = [sys.executable, "-c", "import sys; sys.stdin.read()"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[connection.fileno()]) as other:
            ends = ClientConnection("127.0.0.1", int(connection.getsockname()[1]), "127.0.0.1", port)
            assert set(find_holders(ends)) == {os.getpid(), other.pid}
            other.communicate()


def test_an_address_of_ipv4_in_ipv6_is_the_same(listener: socket.socket) -> None:
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as both:
        port = int(both.getsockname()[1])
        with socket.create_connection(("127.0.0.1", port)) as connection:
            ours = int(connection.getsockname()[1])
            assert find_holders(ClientConnection("::ffff:127.0.0.1", ours, "::ffff:127.0.0.1", port)) == [os.getpid()]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1"])
def test_the_kernel_names_the_same_socket_as_its_table(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, 0), family=family)
    except OSError:
        pytest.skip(f"{host} IS NO ADDRESS OF THIS MACHINE")
    with listener, socket.create_connection(listener.getsockname()[:2]) as client:
        own, other = ((normalise(at[0]), int(at[1])) for at in (client.getsockname(), client.getpeername()))
        inode = os.fstat(client.fileno()).st_ino
        assert ask_socket(own, other) == list_sockets(own, other) == {(inode, os.geteuid())}
        assert ask_socket(own, (other[0], other[1] - 1)) == set()


def test_who_listens_at_a_port_is_no_client_from_it(listener: socket.socket) -> None:
    port = int(listener.getsockname()[1])
    with pytest.raises(NotOfThisUser):
        find_holders(ClientConnection("127.0.0.1", port, "127.0.0.1", 1))
