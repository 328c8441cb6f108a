"""Asks at a door in one of many forms: `asking.py DEPTH FORM SOCKET PORT`, below so many forks of its own.

It connects to the unix socket and to the port, says its form there, and waits for the answer, as a client does.
"""

import os
import socket
import subprocess
import sys
from pathlib import Path

HERE = str(Path(__file__))


def ask(form: str, path: str, port: int, twin: int = 0) -> None:
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(path)
        line.sendall(f"{form}\n".encode())
        line.recv(1)
    with socket.socket() as line:
        if twin:
            line.bind(("127.0.0.2", twin))
        line.connect(("127.0.0.1", port))
        line.sendall(f"{form}\n".encode())
        line.recv(1)


def become_orphan() -> None:
    """Go on as a process of a session of its own whose parent has ended; this one waits for its end."""
    reading, writing = os.pipe()
    if os.fork():
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    os.setsid()
    middle = os.getpid()
    if os.fork():
        os._exit(0)
    os.close(reading)
    os.set_inheritable(writing, True)
    while os.getppid() == middle:
        pass


def share(form: str, path: str, port: int) -> None:
    """Ask on sockets that a process without this parent holds too, and writes to."""
    ours, theirs = socket.socketpair()
    with socket.socket(socket.AF_UNIX) as first, socket.socket() as second:
        if os.fork() == 0:
            become_orphan()
            _, received, _, _ = socket.recv_fds(theirs, 1, 2)
            for descriptor in received:
                with socket.socket(fileno=descriptor) as line:
                    line.sendall(f"{form}\n".encode())
                    line.recv(1)
            os._exit(0)
        first.connect(path)
        second.connect(("127.0.0.1", port))
        socket.send_fds(ours, [b"x"], [first.fileno(), second.fileno()])
        os.wait()


def go_down(depth: int) -> None:
    """Go on in a process that many forks below; each waits for the next."""
    for _ in range(depth):
        child = os.fork()
        if child:
            os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def main(depth: str, form: str, path: str, port: str, program: str, *more: str) -> None:
    go_down(int(depth))
    again = [sys.executable, "-I", HERE, "0", "plain", path, port, program, form]
    jail = [program, "--dev-bind", "/", "/", "--unshare-user", "--unshare-pid", "--proc", "/proc"]
    script = ["script", "-qc", " ".join(again), "/dev/null"]
    match form:
        case "plain":
            ask(more[0] if more else form, path, int(port))
        case "setsid":
            os.setsid()
            ask(form, path, int(port))
        case "orphan":
            become_orphan()
            os.execve(sys.executable, again, {})
        case "env":
            os.execve(sys.executable, again, {})
        case "named":
            os.execve(sys.executable, ["bash", *again[1:]], {})
        case "script":
            subprocess.run(script, env={}, stdin=subprocess.DEVNULL, check=True)
        case "orphaned script":
            become_orphan()
            subprocess.run(script, env={}, stdin=subprocess.DEVNULL, check=True)
        case "tmux":
            server = ["tmux", "-f", "/dev/null", "-S", f"{path}.tmux"]
            words = [*server, "new-session", "-d", " ".join([*again, ";", *server, "wait-for", "-S", "over"])]
            subprocess.run(words, env={"PATH": os.defpath, "TERM": "xterm"}, check=True)
            subprocess.run([*server, "wait-for", "over"], env={"PATH": os.defpath}, check=True)
        case "shared":
            share(form, path, int(port))
        case "twin":
            ask(form, path, int(port), int(more[0]))
        case "jail":
            subprocess.run([*jail, *again], check=True)
        case "nested jail":
            subprocess.run([*jail, *jail[:-2], *again], check=True)
        case "jailed orphan":
            subprocess.run([*jail, *again[:4], "orphan", *again[5:]], check=True)
        case "own namespace":
            words = ["unshare", "-Urpf", "--mount-proc", *again]
            subprocess.run(words, check=True)
        case _:
            raise ValueError(form)


if __name__ == "__main__":
    main(*sys.argv[1:])
