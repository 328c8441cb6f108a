"""Databases shared by a running contained command with programs outside.

SQLite's log of a database in write-ahead mode is two files, `-wal` and `-shm`, removed by the last program closing the
database. Inside and outside must see the same two files, or rows are lost. Both exist from before the command until
after: a reader's lock of ours keeps every program from being the last. The lock belongs to an open description, safe
from any close in this process. In rollback mode the lock is not taken: it would stop writers. Source:
sqlite.org/wal.html, sqlite.org/lockingv3.html, os_unix.c of SQLite 3.46; F_OFD_SETLK in fcntl_locking(2), read 2026-11.
"""

import fcntl
import os
import sqlite3
import struct
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from pathlib import Path

SHARED_FIRST, SHARED_BYTES = 0x40000002, 510
"""The bytes of a database that a reader locks."""

READ_SCHEMA = "SELECT 1 FROM sqlite_master LIMIT 1"
HELD: dict[str, list[int]] = {}
"""Descriptors with locks, by the folder of the command's staging area."""


def hold_logs(key: str, databases: Iterable[Path], connect: Callable[[Path], sqlite3.Connection]) -> list[Path]:
    """Keep the logs of these databases in write-ahead mode until `release_logs`; return their files."""
    found: list[Path] = []
    for path in databases:
        with suppress(sqlite3.Error, OSError), closing(connect(path)) as connection:
            connection.execute(READ_SCHEMA).fetchall()
            held = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            HELD.setdefault(key, []).append(held)
            lock = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, SHARED_FIRST, SHARED_BYTES, 0)
            fcntl.fcntl(held, fcntl.F_OFD_SETLK, lock)
        found += [log for ending in ("-wal", "-shm") if (log := path.with_name(f"{path.name}{ending}")).is_file()]
    return found


def release_logs(key: str, databases: Iterable[Path], connect: Callable[[Path], sqlite3.Connection]) -> None:
    """Let the logs go. If nobody else has a database open, opening and closing it removes them."""
    for held in HELD.pop(key, []):
        os.close(held)
    for path in databases:
        with suppress(sqlite3.Error, OSError), closing(connect(path)) as connection:
            connection.execute(READ_SCHEMA).fetchall()


def release_gone() -> None:
    """Let the logs go of commands whose staging area is gone."""
    for key in [key for key in HELD if os.path.isabs(key) and not Path(key).is_dir()]:  # noqa: PTH117
        for held in HELD.pop(key, []):
            os.close(held)
