"""A PostgreSQL of a test's own: made by Debian's `initdb`, on loopback at a free port, gone at the end."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

PROGRAM_FOLDERS = "/usr/lib/postgresql/*/bin"
MISSING = "NO POSTGRESQL HERE: `apt-get install postgresql`; nothing of a fleet was tried on it"


def find_program(name: str) -> str | None:
    newest = sorted(Path("/").glob(f"{PROGRAM_FOLDERS[1:]}/{name}"))
    return str(newest[-1]) if newest else shutil.which(name)


def find_free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def running_postgres() -> Generator[str]:
    """Start a server, and yield its URL. Skips where there is none.

    Its data lie beside pytest's folders: those of root are closed to the server's own user.
    """
    initdb, pg_ctl = find_program("initdb"), find_program("pg_ctl")
    if initdb is None or pg_ctl is None:
        pytest.skip(MISSING)
    # The server refuses to run as root; Debian's package has a user for it.
    owner = None
    if os.getuid() == 0:
        try:
            owner = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip(MISSING)
    folder = Path(tempfile.mkdtemp(prefix="remit-postgres-"))
    data, port = folder / "data", find_free_port()
    data.mkdir()
    if owner is not None:
        for path in (folder, data):
            os.chown(path, owner.pw_uid, owner.pw_gid)

    def run(*words: str) -> None:
        subprocess.run(
            words,
            check=True,
            user=owner.pw_uid if owner else None,
            group=owner.pw_gid if owner else None,
            extra_groups=[] if owner else None,
            cwd="/",
            env={"PATH": os.defpath, "LC_ALL": "C"},
            stdout=subprocess.DEVNULL,
        )

    run(initdb, "-D", str(data), "-U", "remit", "--auth=trust", "--no-sync", "--encoding=UTF8")
    options = f"-c listen_addresses=127.0.0.1 -c port={port} -c unix_socket_directories={folder} -c fsync=off"
    run(pg_ctl, "-D", str(data), "-l", str(folder / "log"), "-w", "-o", options, "start")
    try:
        yield f"postgresql://remit@127.0.0.1:{port}/postgres"
    finally:
        run(pg_ctl, "-D", str(data), "-m", "immediate", "-w", "stop")
        shutil.rmtree(folder)
