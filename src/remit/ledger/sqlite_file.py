"""SQLite files that several processes share: write-ahead mode, transactions, read-only copies, detection of damage."""

import shutil
import sqlite3
import time
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

POLL_INTERVAL_S = 0.002

# What a damaged file answers, by SQLite's primary result codes: ERROR (a table is gone), IOERR (cut short),
# CORRUPT, MISMATCH, NOTADB. Not BUSY, FULL, READONLY or CANTOPEN: a new file would fare no better.
_DAMAGE_CODES = frozenset({1, 10, 11, 20, 26})


def copy_to_memory(path: Path) -> sqlite3.Connection:
    """Return an in-memory database with the content of the file at `path`; empty if the file cannot be read. Writes
    nothing beside the file and raises nothing.
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
    with closing(sqlite3.connect(source, uri=True)) as database:
        database.backup(copy)


def enable_write_ahead(database: sqlite3.Connection, timeout_s: float) -> None:
    """Switch a database file to write-ahead mode, for readers in parallel with a writer. SQLite ignores its busy
    timeout while the journal mode changes: of two processes creating the same file, the later fails at once with
    SQLITE_BUSY. The switch is retried for `timeout_s` seconds. Raises sqlite3.Error.
    """
    until = time.monotonic() + timeout_s
    while True:
        try:
            database.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            if result_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() >= until:
                raise
        time.sleep(POLL_INTERVAL_S)


def is_damage(error: sqlite3.DatabaseError) -> bool:
    """Return True if a new file would not have the error."""
    return result_code(error) in _DAMAGE_CODES


def result_code(error: sqlite3.Error) -> int | None:
    """Return SQLite's primary result code; None for errors that Python itself raised."""
    code = getattr(error, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(code, int) else None


class HeldDatabase:
    """A database that stays open between its uses: SQLite writes its log back when the last connection closes, which
    takes ten times as long as a question.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.inode = 0
        self.connection: sqlite3.Connection | None = None

    def renew(self) -> None:
        """Hold the file that is at the path now, if there is one."""
        try:
            inode = self.path.stat().st_ino
        except OSError:
            inode = 0
        if inode == self.inode:
            return
        self.close()
        self.inode = inode
        if inode:
            with suppress(sqlite3.Error):
                address = f"file:{quote(str(self.path))}?mode=rw"
                self.connection = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
                # Only a connection that has read takes part in the log.
                self.connection.execute("select 1 from sqlite_master").fetchone()

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
        self.connection, self.inode = None, 0


def remove_database(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


@contextmanager
def transaction(database: sqlite3.Connection) -> Generator[None]:
    """Run the block in a write transaction; roll back on an exception."""
    database.execute("begin immediate")
    try:
        yield
    except BaseException:
        if database.in_transaction:
            database.execute("rollback")
        raise
    database.execute("commit")


def run_statements(database: sqlite3.Connection, statements: str) -> None:
    """Execute statements separated by a semicolon and a newline."""
    for statement in statements.split(";\n"):
        database.execute(statement)
