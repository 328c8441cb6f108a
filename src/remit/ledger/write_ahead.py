"""Putting a database file into SQLite's write-ahead mode where several processes may make it at once."""

import sqlite3
import time

POLL_S = 0.002


def write_ahead(database: sqlite3.Connection, timeout_s: float) -> None:
    """Readers and one writer go side by side from here on.

    SQLite waits for no other process when it changes the mode of a file, whatever its busy timeout: of two that make
    one file at once, the later is told at once that it is locked. So it is tried again, for `timeout_s` seconds at
    most. Raises sqlite3.Error.
    """
    until = time.monotonic() + timeout_s
    while True:
        try:
            database.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if not is_held(error) or time.monotonic() >= until:
                raise
        time.sleep(POLL_S)


def is_held(error: sqlite3.Error) -> bool:
    """Whether another process is using the file."""
    return result_code(error) == sqlite3.SQLITE_BUSY


def result_code(error: sqlite3.Error) -> int | None:
    """SQLite's primary result code; None for what Python itself found wrong."""
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else None
