"""The client process of a loopback connection, and whether an agent started the process.

Linux names a connection's socket in /proc/net/tcp, and its holder in /proc/PID/fd; elsewhere lsof(8) names the process.
Source: proc_pid_net(5), read 2026-11.
"""

import os
import subprocess
import sys

from remit.adapters import ROWS
from remit.workspace.processes.process_tracking import find_ancestor_program, list_own_processes, read_link

LSOF_TIMEOUT_S = 3.0


class ClientProcesses:
    """Finder of client processes. The one found last is looked at first: a browser opens all its connections from
    one process, and the others of the machine may be many.
    """

    def __init__(self) -> None:
        self.last_pid: int | None = None

    def find_agent_above(self, client_port: int, server_port: int) -> str | None:
        """Return the agent that started the client's process; "" for none, None if the process cannot be found."""
        pid = self.find_process(client_port, server_port)
        if pid is None:
            return None
        self.last_pid = pid
        return find_ancestor_program((row.binary for row in ROWS.values()), pid) or ""

    def find_process(self, client_port: int, server_port: int) -> int | None:
        if sys.platform != "linux":
            return ask_lsof(client_port, server_port)
        inode = find_socket_inode(client_port, server_port)
        if inode is None:
            return None
        if self.last_pid is not None and has_socket(self.last_pid, inode):
            return self.last_pid
        return next((pid for pid in list_own_processes() if has_socket(pid, inode)), None)


def has_socket(pid: int, inode: str) -> bool:
    wanted = f"socket:[{inode}]"
    try:
        numbers = os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208  a Path each would cost more
    except OSError:
        return False
    return any(read_link(f"/proc/{pid}/fd/{number}") == wanted for number in numbers)


def find_socket_inode(client_port: int, server_port: int) -> str | None:
    """Return the inode of the client's socket: the local port is the client's, the remote port the server's."""
    client = f":{client_port:04X} "
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as lines:  # noqa: PTH123
                for line in lines:
                    if client not in line:
                        continue
                    fields = line.split()
                    if fields[1].endswith(f":{client_port:04X}") and fields[2].endswith(f":{server_port:04X}"):
                        return fields[9]
        except OSError:
            continue
    return None


def ask_lsof(client_port: int, server_port: int) -> int | None:
    command = ["lsof", "-nP", "-Fpn", f"-iTCP:{client_port}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LSOF_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return None
    pid: int | None = None
    for line in done.stdout.splitlines():
        if line.startswith("p"):
            pid = int(line[1:])
        elif f":{client_port}->" in line and line.endswith(f":{server_port}"):
            return pid
    return None
