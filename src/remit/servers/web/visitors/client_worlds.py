"""Process namespaces behind connections from this machine: a contained command has one of its own, which no process
below it leaves.
"""

from collections.abc import Sequence
from contextlib import suppress

from remit.workspace.processes.peer_identity import read_connections
from remit.workspace.processes.process_tracking import Incomplete, list_open, list_own_processes, read_link

UNKNOWN = "a process that cannot be seen"


def name_worlds(server_port: int, clients: Sequence[tuple[str, int]]) -> list[str]:
    """Return the process namespace of the client of each connection to this port."""
    inodes = list_client_sockets(server_port)
    wanted = {inode: port for (_, port) in clients if (inode := inodes.get(port))}
    worlds: dict[int, str] = {}
    for pid in list_own_processes():
        found = [wanted[target] for _, target in list_open(pid) or () if target in wanted]
        if found:
            world = read_link(f"/proc/{pid}/ns/pid") or UNKNOWN
            worlds |= {port: world for port in found if port not in worlds}
    return [worlds.get(port, UNKNOWN) for _, port in clients]


def list_client_sockets(server_port: int) -> dict[int, str]:
    """Return the inode of the client's socket of each connection to this port, by the client's port."""
    found: dict[int, str] = {}
    with suppress(Incomplete):  # who cannot be told has the world of those that cannot be seen
        for row in read_connections(server_port):
            if row[2].endswith(f":{server_port:04X}") and row[9] != "0":
                found[int(row[1].rpartition(":")[2], 16)] = f"socket:[{row[9]}]"
    return found
