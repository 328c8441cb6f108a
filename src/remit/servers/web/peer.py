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


def find_agent_above(client_port: int, server_port: int) -> str | None:
    """Return the agent that started the client's process; "" for none, None if the process cannot be found."""
    pid = find_client_process(client_port, server_port)
    if pid is None:
        return None
    return find_ancestor_program((row.binary for row in ROWS.values()), pid) or ""


def find_client_process(client_port: int, server_port: int) -> int | None:
    if sys.platform != "linux":
        return ask_lsof(client_port, server_port)
    inode = find_socket_inode(client_port, server_port)
    if inode is None:
        return None
    wanted = f"socket:[{inode}]"
    for pid in list_own_processes():
        try:
            numbers = os.listdir(f"/proc/{pid}/fd")  # noqa: PTH208  a Path each would cost more
        except OSError:
            continue
        if any(read_link(f"/proc/{pid}/fd/{number}") == wanted for number in numbers):
            return pid
    return None


def find_socket_inode(client_port: int, server_port: int) -> str | None:
    """Return the inode of the client's socket: the local port is the client's, the remote port the server's."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table, encoding="ascii") as lines:  # noqa: PTH123
                for line in lines:
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
