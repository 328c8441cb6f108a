"""Who is at the other end of a connection: the process, pinned; its ancestors; its namespace, its terminal; the holders
of a socket.

All answers are the kernel's. One that cannot be had is raised as Incomplete, never returned as nobody. Sources: unix(7)
and pidfd_open(2) for SO_PEERPIDFD (Linux 6.5), sock_diag(7), proc_pid_net(5), proc_pid_fdinfo(5), read 2026-11.
"""

import os
import select
import socket
import struct
import subprocess
import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from ipaddress import IPv4Address, IPv6Address, ip_address

from msgspec import Struct

from remit.core.machine_paths import STATE_FOLDER
from remit.workspace.processes import process_tracking

SO_PEERPIDFD = 77
PTS_MAJOR = 136
LSOF_TIMEOUT_S = 3.0
JAIL_PROGRAM = "bwrap"
NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST = 4, 20, 1
NETLINK_HEADER, NETLINK_HEADER_BYTES = "=IHHII", 16
ALL_STATES = 0xFFFF_FFFF
ANY_INTERFACE_AND_COOKIE = struct.pack("=III", 0, ALL_STATES, ALL_STATES)
PORTS_AT, USER_AND_INODE_AT = NETLINK_HEADER_BYTES + 4, NETLINK_HEADER_BYTES + 64  # in `struct inet_diag_msg`
NETLINK_TIMEOUT_S, NETLINK_REPLY_BYTES = 1.0, 4096
KERNEL = 0  # as the sender of a netlink message
REAPERS = frozenset({"systemd", "init"})
"""Programs that adopt orphans, besides the first process."""


class Peer(Struct, frozen=True):
    """A process and its ancestors, itself first. `is_elsewhere`: in another process namespace than this process."""

    chain: tuple[process_tracking.ProcessInfo, ...]
    is_elsewhere: bool = False
    variables: Mapping[str, str] = {}

    @property
    def process(self) -> process_tracking.ProcessInfo:
        return self.chain[0]

    @property
    def is_jailed(self) -> bool:
        """Return whether it is in a jail of Remit, which holds Remit's own folders back."""
        return any(
            process_tracking.program_name(p.argv) == JAIL_PROGRAM and STATE_FOLDER in " ".join(p.argv)
            for p in self.chain
        )

    @property
    def programs(self) -> tuple[str, ...]:
        return tuple(process_tracking.program_name(process.argv) for process in self.chain)

    @property
    def adopted(self) -> process_tracking.ProcessInfo | None:
        """The process of the chain that the system has adopted, or started itself; None for what came from outside."""
        for process, parent in zip(self.chain, self.chain[1:], strict=False):
            if parent.pid == 1 or process_tracking.program_name(parent.argv) in REAPERS:
                return process
        return None


def read_peer(connection: socket.socket) -> tuple[int, int]:
    """Return the client's process and user. Without SO_PEERCRED the folder's mode has to suffice: (0, own user)."""
    credentials = getattr(socket, "SO_PEERCRED", None)
    if credentials is None:
        return 0, os.geteuid()
    pid, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, credentials, struct.calcsize("3i")))
    return pid, user


@contextmanager
def pinned_peer(connection: socket.socket) -> Generator[Peer]:
    """Yield the process that connected. Raises Incomplete, also at the end of the block, if it has ended by then."""
    pid, _ = read_peer(connection)
    if pid <= 0:
        raise process_tracking.Incomplete("the process that asks is not visible from here")
    try:
        descriptor = connection.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
    except OSError:
        descriptor = open_process(pid)
    try:
        yield read_peer_process(pid)
        # The id was the same process's until now only if that one is still there.
        if descriptor is not None and select.select([descriptor], [], [], 0)[0]:
            raise process_tracking.Incomplete(f"process {pid} ended while it asked")
    finally:
        if descriptor is not None:
            os.close(descriptor)


def open_process(pid: int) -> int | None:
    """Return a descriptor of the process; None on systems without such. Raises Incomplete if it is gone."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        raise process_tracking.Incomplete(f"process {pid} cannot be held: {error.strerror}") from None


def read_peer_process(pid: int) -> Peer:
    """Return a process by its id, from this system's view. Raises Incomplete."""
    namespace = process_tracking.read_link(f"/proc/{pid}/ns/pid")
    if namespace is None and sys.platform == "linux":
        raise process_tracking.Incomplete(f"process {pid} does not show its namespace")
    is_elsewhere = bool(namespace) and namespace != process_tracking.pid_namespace()
    return Peer(tuple(process_tracking.list_ancestors(pid)), is_elsewhere, read_variables(pid))


def read_variables(pid: int) -> dict[str, str]:
    """Return the environment that a process began with: a hint, which any process can leave out."""
    try:
        entries = os.fsdecode(process_tracking.read_proc_file(f"/proc/{pid}/environ")).split("\0")
    except OSError:
        return {}
    return {name: value for name, _, value in (entry.partition("=") for entry in entries)}


def read_control_group(pid: int) -> str:
    """Return the control group (v2) of a process; empty if there is none."""
    with suppress(OSError):
        lines = process_tracking.read_proc_file(f"/proc/{pid}/cgroup").decode("utf-8", "replace").splitlines()
        return next((line[3:] for line in lines if line.startswith("0::")), "")
    return ""


def is_own_process(pid: int) -> bool:
    """Return whether this user owns the process. Raises Incomplete."""
    try:
        return os.stat(f"/proc/{pid}").st_uid == os.geteuid()  # noqa: PTH116
    except OSError as error:
        raise process_tracking.Incomplete(f"process {pid} cannot be seen: {error.strerror}") from None


# -- terminals -----------------------------------------------------------------------------------------------


def find_terminal_masters(peer: Peer) -> list[int]:
    """Return the processes that hold the other end of a process's terminal, as far as they are this user's."""
    number = peer.process.terminal
    if (number >> 8) & 0xFFF != PTS_MAJOR:
        return []
    index = (number & 0xFF) | ((number >> 12) & 0xFFF00)
    above = [process.pid for process in peer.chain if holds_terminal(process.pid, index)]
    return above or [pid for pid in process_tracking.list_own_processes() if holds_terminal(pid, index)]


def holds_terminal(pid: int, index: int) -> bool:
    return any(
        target.endswith("/ptmx") and read_terminal_index(pid, number) == index
        for number, target in process_tracking.list_open(pid) or ()
    )


def read_terminal_index(pid: int, descriptor: str) -> int | None:
    with suppress(OSError, ValueError):
        for line in process_tracking.read_proc_file(f"/proc/{pid}/fdinfo/{descriptor}").splitlines():
            if line.startswith(b"tty-index:"):
                return int(line.partition(b":")[2])
    return None


# -- connections ---------------------------------------------------------------------------------------------


class ClientConnection(Struct, frozen=True):
    """Both ends of a TCP connection, as the server sees them."""

    client_host: str
    client_port: int
    server_host: str
    server_port: int


class NotOfThisUser(Exception):
    """A connection whose client is no process of this user on this machine."""


def find_holders(connection: ClientConnection) -> list[int]:
    """Return the user's processes with the client's end open, and processes with hidden descriptors. Raises Incomplete,
    NotOfThisUser.
    """
    if sys.platform != "linux":
        return ask_lsof(connection)
    inode, user = find_socket(connection)
    if user != os.geteuid():
        raise NotOfThisUser
    wanted = f"socket:[{inode}]"
    opened = {pid: process_tracking.list_open(pid) for pid in process_tracking.list_own_processes()}
    holders = [pid for pid, found in opened.items() if found and any(target == wanted for _, target in found)]
    if not holders:
        raise process_tracking.Incomplete("no process is seen that holds this connection")
    hiding = [pid for pid, found in opened.items() if found is None]
    living = set(process_tracking.list_own_processes()) if hiding else set[int]()
    return [*holders, *(pid for pid in hiding if pid in living)]  # what has ended meanwhile hides nothing


def find_socket(connection: ClientConnection) -> tuple[int, int]:
    """Return inode and user of the client's socket: exactly this one, whatever shares its port. Raises Incomplete,
    NotOfThisUser.
    """
    local = (normalise(connection.client_host), connection.client_port)
    remote = (normalise(connection.server_host), connection.server_port)
    found = ask_socket(local, remote) or list_sockets(local, remote)
    if not found:
        raise NotOfThisUser
    if len(found) > 1 or 0 in {inode for inode, _ in found}:
        raise process_tracking.Incomplete("this connection's addresses are two sockets', or its client closed it")
    return found.pop()


End = tuple[IPv4Address | IPv6Address, int]


def ask_socket(local: End, remote: End) -> set[tuple[int, int]]:
    """Return inode and user of the one socket between two ends, by sock_diag(7); empty where the kernel has none, or
    cannot be asked.
    """
    family = socket.AF_INET if local[0].version == 4 else socket.AF_INET6
    ends = struct.pack("!HH16s16s", local[1], remote[1], local[0].packed, remote[0].packed)
    request = struct.pack("=BBBBI", family, socket.IPPROTO_TCP, 0, 0, ALL_STATES) + ends + ANY_INTERFACE_AND_COOKIE
    header = struct.pack(NETLINK_HEADER, NETLINK_HEADER_BYTES + len(request), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 1, 0)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, NETLINK_SOCK_DIAG) as line:
            line.settimeout(NETLINK_TIMEOUT_S)
            line.send(header + request)
            reply, (sender, _) = line.recvfrom(NETLINK_REPLY_BYTES)
    except OSError:
        return set()
    kind = struct.unpack_from(NETLINK_HEADER, reply)[1]
    if (
        sender != KERNEL
        or kind != SOCK_DIAG_BY_FAMILY
        or struct.unpack_from("!HH", reply, PORTS_AT) != (local[1], remote[1])
    ):
        return set()  # a process's word, an error, or a socket that only listens at this port
    user, inode = struct.unpack_from("=II", reply, USER_AND_INODE_AT)
    return {(inode, user)}


def list_sockets(local: End, remote: End) -> set[tuple[int, int]]:
    """Return inode and user of the TCP sockets between two ends, by the kernel's tables. Raises Incomplete."""
    return {
        (int(row[9]), int(row[7]))
        for row in read_connections(local[1])
        if (parse_end(row[1]), parse_end(row[2])) == (local, remote)
    }


def read_connections(port: int) -> Iterator[list[str]]:
    """Yield the rows of the kernel's TCP tables in which an end has this port, by their fields. Raises Incomplete.

    A table is read while others change it: a row may be left out, or come twice.
    """
    wanted = f":{port:04X}"
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = process_tracking.read_proc_file(table).decode("ascii", "replace").splitlines()[1:]
        except FileNotFoundError:
            continue
        except OSError as error:
            raise process_tracking.Incomplete(f"{table} cannot be read: {error.strerror}") from None
        yield from (line.split() for line in lines if wanted in line)


def parse_end(text: str) -> End:
    """Return address and port of an entry: words of four bytes in the machine's order, in hexadecimal."""
    host, _, port = text.partition(":")
    words = [int(host[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(host), 8)]
    return normalise(ip_address(b"".join(words))), int(port, 16)


def normalise(host: str | IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    """Return the address; the one of IPv4 for one that is mapped into IPv6. Raises Incomplete."""
    try:
        address = ip_address(host)
    except ValueError:
        raise process_tracking.Incomplete(f"{host!r} is no address") from None
    return address.ipv4_mapped or address if isinstance(address, IPv6Address) else address


def ask_lsof(connection: ClientConnection) -> list[int]:
    """Return the holders by lsof(8), for systems without /proc (macOS). Raises Incomplete, NotOfThisUser."""
    command = ["lsof", "-nP", "-Fpn", f"-iTCP:{connection.client_port}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LSOF_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        raise process_tracking.Incomplete("lsof does not name the process that asks") from None
    ends = (f"{connection.client_host}:{connection.client_port}", f"{connection.server_host}:{connection.server_port}")
    holders, pid = list[int](), 0
    for line in done.stdout.splitlines():
        if line.startswith("p"):
            pid = int(line[1:])
        elif line.removeprefix("n") == "->".join(ends):
            holders.append(pid)
    if not holders:
        raise NotOfThisUser
    return holders
