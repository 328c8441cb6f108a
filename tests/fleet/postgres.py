"""A PostgreSQL of a test's own: made by Debian's `initdb`, on loopback at a free port, gone at the end."""

import os
import pwd
import random
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import psycopg
import pytest

PROGRAM_FOLDERS = "/usr/lib/postgresql/*/bin"
MISSING = "NO POSTGRESQL HERE: `apt-get install postgresql`; nothing of a fleet was tried on it"


def find_program(name: str) -> str | None:
    newest = sorted(Path("/").glob(f"{PROGRAM_FOLDERS[1:]}/{name}"))
    return str(newest[-1]) if newest else shutil.which(name)


def find_free_port() -> int:
    """Return a port that the system hands out to nobody else: a server that is stopped and started finds it again."""
    while True:
        port = random.randrange(10_000, 20_000)
        with socket.socket() as free, suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port


class Postgres:
    """A server with its data in a folder of its own, which can be stopped and started again.

    The data lie beside pytest's folders: those of root are closed to the server's own user.
    """

    def __init__(self, initdb: str, pg_ctl: str, owner: pwd.struct_passwd | None) -> None:
        self.pg_ctl, self.owner = pg_ctl, owner
        self.folder = Path(tempfile.mkdtemp(prefix="remit-postgres-"))
        self.port = find_free_port()
        self.numbers = count()
        self.url = f"postgresql://remit@127.0.0.1:{self.port}/postgres"
        if owner is not None:
            os.chown(self.folder, owner.pw_uid, owner.pw_gid)
        self.run(initdb, "-U", "remit", "--auth=trust", "--no-sync", "--encoding=UTF8")

    def start(self) -> None:
        options = f"-c listen_addresses=127.0.0.1 -c port={self.port} -c unix_socket_directories={self.folder}"
        words = ("-l", str(self.folder / "log"), "-w", "-t", "300", "-o", f"{options} -c fsync=off")
        self.run(self.pg_ctl, *words, "start")

    def stop(self) -> None:
        self.run(self.pg_ctl, "-m", "immediate", "-w", "-t", "300", "stop")

    @contextmanager
    def make_database(self, template: str = "template1") -> Generator[str]:
        """Make a database, as a copy of another one; its address. It is gone at the end, whoever is connected."""
        name = f"made_{next(self.numbers)}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE {name} TEMPLATE "{template}"'.encode())
        yield f"{self.url.rpartition('/')[0]}/{name}"
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())

    def run(self, program: str, *words: str) -> None:
        subprocess.run(
            [program, "-D", str(self.folder / "data"), *words],
            check=True,
            user=self.owner.pw_uid if self.owner else None,
            group=self.owner.pw_gid if self.owner else None,
            extra_groups=[] if self.owner else None,
            cwd="/",
            env={"PATH": os.defpath, "LC_ALL": "C"},
            stdout=subprocess.DEVNULL,
        )


@contextmanager
def running_postgres() -> Generator[Postgres]:
    """Start a server. Skips where there is none."""
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
    made = Postgres(initdb, pg_ctl, owner)
    try:
        made.start()
        yield made
    finally:
        made.stop()
        shutil.rmtree(made.folder)
