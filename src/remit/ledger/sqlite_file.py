"""SQLite files that several processes share: write-ahead mode, read-only copies, error codes."""

import os
import shutil
import sqlite3
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

POLL_INTERVAL_S = 0.002


def is_unwritable(path: Path) -> bool:
    """Return True if this user can write neither the file nor, if the file is missing, the folder."""
    return not os.access(path if path.exists() else path.parent, os.W_OK) or not os.access(path.parent, os.W_OK)


def copy_to_memory(path: Path) -> sqlite3.Connection:
    """Return an in-memory database with the content of the file at `path`; empty if the file cannot be read.

    Writes nothing beside the file and raises nothing.
    """
    copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    log = path.with_name(f"{path.name}-wal")
    try:
        if not (log.exists() and log.stat().st_size):
            _copy_database(f"file:{quote(str(path))}?mode=ro&immutable=1", copy)
            return copy
        # What other processes wrote last stands in the log beside it, which SQLite reads only where it may write.
        with TemporaryDirectory(prefix="remit.") as folder:
            for part in (path, log):
                shutil.copyfile(part, Path(folder, part.name))
            _copy_database(f"file:{quote(folder)}/{quote(path.name)}", copy)
    except (sqlite3.Error, OSError):
        copy.close()
        return sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    return copy


def _copy_database(source: str, copy: sqlite3.Connection) -> None:
    database = sqlite3.connect(source, uri=True)
    try:
        database.backup(copy)
    finally:
        database.close()


def enable_write_ahead(database: sqlite3.Connection, timeout_s: float) -> None:
    """Switch a database file to write-ahead mode, in which readers and one writer work in parallel.

    SQLite ignores its busy timeout while the journal mode changes: of two processes that create the same file, the
    later one fails at once with SQLITE_BUSY. So the switch is retried for `timeout_s` seconds. Raises sqlite3.Error.
    """
    until = time.monotonic() + timeout_s
    while True:
        try:
            database.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() >= until:
                raise
        time.sleep(POLL_INTERVAL_S)


def is_busy(error: sqlite3.Error) -> bool:
    return result_code(error) == sqlite3.SQLITE_BUSY


def result_code(error: sqlite3.Error) -> int | None:
    """Return SQLite's primary result code; None for errors that Python itself raised."""
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else None
