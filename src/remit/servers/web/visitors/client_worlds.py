"""Process namespaces behind connections from this machine: a contained command has one of its own, which no process
below it leaves.
"""

import os
from collections.abc import Sequence

from remit.workspace.processes.process_tracking import list_own_processes, read_link, read_proc_file

UNKNOWN = "a process that cannot be seen"


def name_worlds(server_port: int, clients: Sequence[tuple[str, int]]) -> list[str]:
    """Return the process namespace of the client of each connection to this port."""
    inodes = list_client_sockets(server_port)
    wanted = {inode: port for (_, port) in clients if (inode := inodes.get(port))}
    worlds: dict[int, str] = {}
    for pid in list_own_processes():
        found = [wanted[inode] for inode in list_sockets(pid) if inode in wanted]
        if found:
            world = read_link(f"/proc/{pid}/ns/pid") or UNKNOWN
            worlds |= {port: world for port in found if port not in worlds}
    return [worlds.get(port, UNKNOWN) for _, port in clients]


def list_client_sockets(server_port: int) -> dict[int, str]:
    """Return the inode of the client's socket of each connection to this port, by the client's port."""
    found: dict[int, str] = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = read_proc_file(table).decode("ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[2].endswith(f":{server_port:04X}") and fields[9] != "0":
                found[int(fields[1].rpartition(":")[2], 16)] = f"socket:[{fields[9]}]"
    return found


def list_sockets(pid: int) -> list[str]:
    try:
        numbers = os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208  a Path each would cost more
    except OSError:
        return []
    return [link for number in numbers if (link := read_link(f"/proc/{pid}/fd/{number}")) is not None]
