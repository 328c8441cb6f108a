"""The intent map of a work tree, updated from the ledger by an idle process in small steps.

The sources are the logs of the repository and the files of foreign records, each read from a mark on. The state, beside
the log, holds the rendered lines and the marks; a deleted state is rebuilt with the same content.
"""

import errno
import os
import sqlite3
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cached_property, partial
from itertools import chain, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from msgspec import DecodeError, Struct, ValidationError, json

from remit.core.code.grammars import list_missing_grammars
from remit.core.diff.contents import sha256
from remit.core.python_runtime import map_ahead, prepare_type
from remit.core.record import hash_leaf
from remit.core.untrusted_input import escape_surrogates
from remit.ledger import log_files
from remit.ledger.foreign_logs import read_foreign_lots
from remit.ledger.reader import LineNotThere, LogLine, LogPosition, read_bytes, read_lines
from remit.ledger.retention import has_pruned_records
from remit.ledger.sqlite_file import enable_write_ahead, is_damage, remove_database, run_statements, transaction
from remit.provenance.map import map_text
from remit.provenance.map.change_classes import BATCH_RECORDS, may_have_map_entry, read_map_entries
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.git.command import Git
from remit.workspace.git.repository import OID
from remit.workspace.observe.observation import INTENT_MAP
from remit.workspace.place.workspace import TRACKED_LOGS_FOLDER, Workspace
from remit.workspace.safe_files import write_below
from remit.workspace.sharing.tracked_logs import list_other_logs

BATCH_LINES = 100  # log lines that are read at once
TAIL_BYTES = 4096  # bytes before a mark whose hash is compared
Document: TypeAlias = dict[str, Any]
Archives: TypeAlias = dict[str, tuple[int, ...]]


class LogMark(Struct, frozen=True):
    """Place of the last line read in a log, its hash, and the place behind. `log` is relative to the log folder."""

    log: str
    segment: str
    offset: int
    length: int
    leaf: str
    after: LogPosition


class FileMark(Struct, frozen=True):
    """Place reached in a foreign file, a hash of the bytes before, and the number of its records in the map."""

    offset: int = 0
    tail: str = ""
    told: int = 0


class RecordSources(Struct, frozen=True, dict=True):
    """Places of records: the repository's logs, the live view, imported files. `own_log` is this machine's log."""

    log_folder: Path
    view: Path
    own_log: str

    @property
    def files(self) -> dict[str, Path]:
        imported = sorted((self.log_folder / log_files.FOREIGN_FOLDER).glob("*.jsonl"))
        logs = self.view.parent / Path(TRACKED_LOGS_FOLDER).name
        tracked = {f"{TRACKED_LOGS_FOLDER}/{path.name}": path for path in list_other_logs(logs, self.log_folder.parent)}
        return {**{path.name: path for path in imported}, **tracked, "": self.view}

    @property
    def logs(self) -> list[str]:
        return log_files.list_readable_places(self.log_folder)

    @cached_property
    def local_names(self) -> frozenset[str]:
        """Names of the repository's logs: copies of their records in other files are ignored."""
        return log_files.list_local_names(self.log_folder, self.own_log)

    def read_every_record(self) -> Iterator[Document]:
        """Yield every record, in any order. Raises OSError."""
        yield from (record for log in self.logs for batch, _ in self.read_log(log, None) for record in batch)
        for path in self.files.values():
            yield from (record for batch, _ in read_foreign_lots(path, self.local_names) for record in batch)

    def read_log(self, log: str, mark: LogMark | None) -> Iterator[tuple[list[Document], LogMark]]:
        """Yield the records of a log behind the mark in batches, each with the next mark. Raises OSError."""
        log_lines = read_lines(self.log_folder / log, mark.after if mark else None)
        while batch := list(islice(log_lines, BATCH_LINES)):
            last = batch[-1]
            leaf = hash_leaf(last.raw).hex()
            mark = LogMark(log, last.segment, last.offset, len(last.raw), leaf, last.next_position)
            yield [document for line in batch if (document := parse_line(line)) is not None], mark

    def read_file(self, name: str, mark: FileMark) -> Iterator[tuple[list[Document], FileMark]]:
        """Yield the records of a foreign file behind the mark, as `read_log`; the caller updates `told`."""
        path = self.files[name]
        for batch, end in read_foreign_lots(path, self.local_names, mark.offset):
            yield batch, FileMark(end, hash_tail(path, end), mark.told)

    def log_line_unchanged(self, mark: LogMark) -> bool:
        try:
            line = read_bytes(self.log_folder / mark.log, mark.segment, mark.offset, mark.length)
        except (LineNotThere, PermissionError):
            return False
        return hash_leaf(line).hex() == mark.leaf

    def archive_states(self) -> Archives:
        """Return the archives of all logs with values that change whenever the file does. Raises OSError."""
        paths = (path for log in self.logs for path in (self.log_folder / log / log_files.ARCHIVE_FOLDER).glob("*.gz"))
        stats = ((str(path.relative_to(self.log_folder)), path.stat()) for path in paths)
        return {name: (stat.st_ino, stat.st_size, stat.st_mtime_ns) for name, stat in stats}

    def was_pruned_since(self, known: Archives, now: Archives) -> bool:
        """Return whether records were pruned since the archives were as in `known`. Raises OSError."""
        is_gone = any(now.get(name) != state for name, state in known.items())
        added = (self.log_folder / name for name in now if name not in known)
        return is_gone or any(has_pruned_records(path.parent.parent, path.name.removesuffix(".gz")) for path in added)

    def file_start_unchanged(self, name: str, mark: FileMark) -> bool:
        path = self.files.get(name)
        return not mark.offset or (path is not None and hash_tail(path, mark.offset) == mark.tail)


def parse_line(line: LogLine) -> Document | None:
    """Return the record of a log line; None for an unreadable line, which `remit ledger verify` reports."""
    try:
        line.raw.decode()
        return json.decode(line.raw, type=dict[str, Any])
    except log_files.DECODE_ERRORS:
        return None


def hash_tail(path: Path, end: int) -> str:
    """Return the hash of the bytes before `end`; empty if the file is shorter or not regular."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        start = max(0, end - TAIL_BYTES)
        tail = os.pread(file.fileno(), end - start, start)
    return sha256(tail) if len(tail) == end - start else ""


VERSION = 4
BUSY_TIMEOUT_S = 5.0
LOG_KEY = "log"
ARCHIVES_KEY = "archives"
FINGERPRINT_KEY = "form"
WRITTEN_KEY = "written"  # signature of the map file when it last held this text; empty if the text changed since


_T = TypeVar("_T")

TABLES = """
create table sections (intent text primary key, at text not null, name text not null) without rowid;
create table lines (
  intent text not null, path text not null, start integer not null, stop integer not null, line text not null,
  primary key (intent, path, start, stop, line)) without rowid;
create table blocks (intent text not null, path text not null, text text not null, primary key (intent, path));
create table files (name text primary key, mark text not null) without rowid;
create table lacking (blob text primary key) without rowid;
create table about (key text primary key, value text not null) without rowid
"""
"""Texts are stored as rendered. A block holds the lines of one file in order; the map consists of blocks.

SQLite's byte order equals Python's order of strings.
"""

UPSERT_NAME = """insert into sections values (?, ?, ?) on conflict (intent) do update
  set at = excluded.at, name = excluded.name where (excluded.at, excluded.name) > (at, name)"""

SELECT_LINES = "select line from lines where intent = ? and path = ? order by start, stop, line"

SELECT_ROWS = """select s.intent, s.name, ifnull(b.path, ''), ifnull(b.text, '')
  from sections s left join blocks b on b.intent = s.intent order by s.intent, b.path"""


class MapState:
    """Rendered lines of one work tree's map, and the position reached in each source."""

    def __init__(self, path: Path, fingerprint: str) -> None:
        """Open or create the state; a damaged or differently made one starts empty. Raises OSError, sqlite3.Error."""
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self.database = open_database(path)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            remove_database(path)
            self.database = open_database(path)
        if self.read_value(FINGERPRINT_KEY) != fingerprint:
            self.clear()
            self.write_value(FINGERPRINT_KEY, fingerprint)

    def __enter__(self) -> "MapState":
        return self

    def __exit__(self, *_: object) -> None:
        self.database.close()

    def clear(self) -> None:
        with transaction(self.database):
            for table in ("sections", "lines", "blocks", "files", "lacking"):
                self.database.execute(f"delete from {table}")
            self.database.execute("delete from about where key <> ?", [FINGERPRINT_KEY])

    # -- positions reached -----------------------------------------------------------------------------------

    @property
    def log_marks(self) -> dict[str, LogMark]:
        return decode_or_none(self.read_value(LOG_KEY), dict[str, LogMark]) or {}

    @property
    def archives(self) -> Archives:
        return decode_or_none(self.read_value(ARCHIVES_KEY), Archives) or {}

    @archives.setter
    def archives(self, states: Archives) -> None:
        self.write_value(ARCHIVES_KEY, json.encode(states).decode())

    @property
    def file_marks(self) -> dict[str, FileMark]:
        rows = self.database.execute("select name, mark from files").fetchall()
        return {name: decode_or_none(mark, FileMark) or FileMark() for name, mark in rows}

    @property
    def missing_contents(self) -> list[str]:
        return [blob for (blob,) in self.database.execute("select blob from lacking").fetchall()]

    def forget_file(self, name: str) -> None:
        self.database.execute("delete from files where name = ?", [name])

    # -- adding entries ------------------------------------------------------------------------------------------

    def add_records(self, entries: Iterable[map_text.MapEntry], name: str | None, mark: LogMark | FileMark) -> None:
        with transaction(self.database):
            before = self.database.total_changes
            for intent, path in {block for entry in entries for block in self.add_entry(entry)}:
                lines = map_text.join_lines(line for (line,) in self.database.execute(SELECT_LINES, [intent, path]))
                self.database.execute("insert or replace into blocks values (?, ?, ?)", [intent, path, lines])
            if self.database.total_changes != before:
                self.write_value(WRITTEN_KEY, "")
            if isinstance(mark, LogMark):
                self.write_value(LOG_KEY, json.encode({**self.log_marks, mark.log: mark}).decode())
            else:
                self.database.execute("insert or replace into files values (?, ?)", [name, json.encode(mark).decode()])

    def add_entry(self, entry: map_text.MapEntry) -> list[tuple[str, str]]:
        intent, files = map_text.escape_markup(escape_surrogates(entry.intent)), list(map_text.rendered_files(entry))
        self.database.execute(UPSERT_NAME, [intent, *map_text.latest_name(entry)])
        rows = ((intent, path, *line) for path, parts in files for line in parts)
        self.database.executemany("insert or ignore into lines values (?, ?, ?, ?, ?)", rows)
        lacking = ((escape_surrogates(blob),) for blob in entry.lacking)
        self.database.executemany("insert or ignore into lacking values (?)", lacking)
        return [(intent, path) for path, _ in files]

    # -- the text -------------------------------------------------------------------------------------------

    def render(self) -> str:
        return map_text.join_sections(self.database.execute(SELECT_ROWS))

    def is_empty(self) -> bool:
        return self.database.execute("select 1 from lines limit 1").fetchone() is None

    def read_value(self, key: str) -> str:
        row = self.database.execute("select value from about where key = ?", [key]).fetchone()
        return str(row[0]) if row else ""

    def write_value(self, key: str, value: str) -> None:
        self.database.execute("insert or replace into about values (?, ?)", [key, value])


def open_database(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)
    try:
        path.chmod(0o600)
        database.execute("pragma synchronous = normal")
        enable_write_ahead(database, BUSY_TIMEOUT_S)
        with transaction(database):
            # The tables of another version are dropped.
            if database.execute("pragma user_version").fetchone()[0] != VERSION:
                for (name,) in database.execute("select name from sqlite_master where type = 'table'").fetchall():
                    database.execute(f'drop table "{name}"')
                run_statements(database, TABLES)
                database.execute(f"pragma user_version = {VERSION}")
    except BaseException:
        database.close()
        raise
    return database


def decode_or_none(text: str, kind: type[_T]) -> _T | None:
    """Decode JSON; None if empty or of another type."""
    try:
        return json.decode(text, type=prepare_type(kind)) if text else None
    except (DecodeError, ValidationError):
        return None


STATE_FOLDER = "maps"
NOT_WRITABLE_ERRORS = frozenset({errno.EROFS, errno.EACCES, errno.EPERM})


class IntentMap(Struct, frozen=True):
    """The map of a work tree and the sources of the map. Files are opened on demand."""

    workspace: Workspace
    sources: RecordSources
    store: ContentStore

    @classmethod
    def open(cls, workspace: Workspace, log: str, machine: str) -> "IntentMap":
        sources = RecordSources(workspace.log_folder, workspace.view_path, log)
        return cls(workspace, sources, ContentStore(workspace, machine))

    @property
    def path(self) -> Path:
        return self.workspace.root / INTENT_MAP

    @property
    def state_path(self) -> Path:
        name = sha256(str(self.workspace.root).encode("utf-8", "surrogateescape"))[:16]
        return self.workspace.state / STATE_FOLDER / f"{name}.db"

    @property
    def fingerprint(self) -> str:
        """Further inputs of the text: the names of the repository's logs and the missing grammars."""
        return "\n".join([*sorted(self.sources.local_names), *list_missing_grammars()])

    @property
    def is_ignored_by_git(self) -> bool:
        """True if git does not see the map, which can change at any time. Raises GitError. Patterns of
        `.git/info/exclude` do not count: files hidden by them are observed.
        """
        if self.workspace.common_dir is None:
            return True
        arguments = ("check-ignore", "-z", "-v", "--stdin")
        output = Git(self.workspace.root).run(*arguments, stdin=INTENT_MAP.encode() + b"\0", ok=(0, 1))
        source, _, pattern = output.decode("utf-8", "surrogateescape").split("\0")[:3] if output else ("", "", "")
        return source.endswith(".gitignore") and not pattern.startswith("!")

    # -- kept up by the daemon, step by step -------------------------------------------------------------

    def update(self, must_stop: Callable[[], bool]) -> bool:
        """Read new records until `must_stop`, then write the map if every record is read; return whether more remain.
        Does not write if git sees the map, or if the map would be empty. Raises OSError, GitError, LedgerError,
        sqlite3.Error; LockTimeout if a second process holds the lock.
        """
        if not self.path.parent.is_dir() or not self.is_ignored_by_git:
            return False
        with self.lock_map(0):
            try:
                with MapState(self.state_path, self.fingerprint) as state:
                    if self.catch_up(state, must_stop):
                        return True
                    is_wanted = not state.is_empty() or self.path.exists()
                    if is_wanted and state.read_value(WRITTEN_KEY) != self.file_signature():
                        self.write_text(state.render().encode())
                        state.write_value(WRITTEN_KEY, self.file_signature())
                    return False
            except sqlite3.DatabaseError as error:
                if is_damage(error):
                    remove_database(self.state_path)
                raise

    def catch_up(self, state: MapState, must_stop: Callable[[], bool]) -> bool:
        """Read new records, or every record if a source changed; return whether more remain."""
        archives = self.sources.archive_states()
        if not self.is_still_valid(state, archives):
            state.clear()
        if state.archives != archives:
            state.archives = archives
        return self.read_new_records(state, must_stop)

    def is_still_valid(self, state: MapState, archives: Archives) -> bool:
        """Return whether every source still begins as it was read, and no missing content became available."""
        marks = state.log_marks
        if not all(map(self.sources.log_line_unchanged, marks.values())):
            return False
        if marks and self.sources.was_pruned_since(state.archives, archives):
            return False
        for name, mark in state.file_marks.items():
            if not self.sources.file_start_unchanged(name, mark):
                if mark.told:
                    return False
                state.forget_file(name)
        return not self.store.load_many(filter(OID.fullmatch, state.missing_contents))

    def read_new_records(self, state: MapState, must_stop: Callable[[], bool]) -> bool:
        log_marks, file_marks = state.log_marks, state.file_marks
        for log in self.sources.logs:
            for documents, mark in self.sources.read_log(log, log_marks.get(log)):
                if must_stop():
                    return True
                state.add_records(read_map_entries(documents, self.store), None, mark)
        for name in self.sources.files:
            file_mark = file_marks.get(name, FileMark())
            for documents, mark in self.sources.read_file(name, file_mark):
                if must_stop():
                    return True
                entries = list(read_map_entries(documents, self.store))
                file_mark = FileMark(mark.offset, mark.tail, file_mark.told + len(entries))
                state.add_records(entries, name, file_mark)
        return False

    def holds_text(self, text: bytes) -> bool:
        return self.path.is_file() and not self.path.is_symlink() and self.path.read_bytes() == text

    def write_text(self, text: bytes) -> bool:
        """Write the map unless the file already holds the text; return whether the file changed."""
        if self.holds_text(text):
            return False
        write_below(self.workspace.root, self.path, text)
        return True

    def file_signature(self) -> str:
        """Return a string that changes whenever the file does; `-` if absent."""
        try:
            stat = self.path.lstat()
        except OSError:
            return "-"
        return f"{stat.st_ino} {stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns}"

    # -- by `remit map` ----------------------------------------------------------------------------------

    def render_current(self) -> bytes:
        """Return the map from the kept state and new records. If no state can be kept, as on a read-only mount, the map
        is rebuilt. Raises as `update_and_render`.
        """
        try:
            return self.update_and_render()
        except OSError as error:
            if error.errno not in NOT_WRITABLE_ERRORS:
                raise
            return self.rebuild()

    def update_and_render(self) -> bytes:
        """Read and keep new records, and return the map. An unreadable state is dropped. Raises OSError, GitError,
        LedgerError, sqlite3.Error; LockTimeout.
        """
        with self.lock_map(log_files.LOCK_TIMEOUT_S):
            try:
                with MapState(self.state_path, self.fingerprint) as state:
                    self.catch_up(state, lambda: False)
                    return state.render().encode()
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    raise
                remove_database(self.state_path)
                return self.rebuild()

    def write_current(self) -> bool:
        """Write the map from the kept state and new records; return whether the file changed."""
        return self.write_text(self.update_and_render())

    # -- rebuilt from the records ------------------------------------------------------------------------

    def rebuild(self, batch_records: int = BATCH_RECORDS) -> bytes:
        """Return the map from the records alone. Batches of records are read by as many processes as there are
        processors. Raises OSError, GitError, LedgerError.
        """
        documents = filter(may_have_map_entry, self.sources.read_every_record())
        batches = iter(lambda: list(islice(documents, batch_records)), [])
        first = list(islice(batches, 2))
        if len(first) < 2:
            return map_text.render_map(read_map_entries(chain.from_iterable(first), self.store)).encode()
        read_batch = partial(list_map_entries, workspace=self.workspace)
        # Forked: a new interpreter takes as long as a batch.
        with ProcessPoolExecutor(mp_context=get_context("fork")) as pool:
            read = map_ahead(pool, read_batch, chain(first, batches), 2 * (os.cpu_count() or 1))
            return map_text.render_map(chain.from_iterable(read)).encode()

    def write_rebuilt(self) -> bool:
        """Write the rebuilt map; return whether the file changed. A kept state with another text is dropped. Raises as
        `rebuild`, and sqlite3.Error.
        """
        with self.lock_map(log_files.LOCK_TIMEOUT_S):
            text = self.rebuild()
            has_changed = self.write_text(text)
            if self.state_path.exists():
                with MapState(self.state_path, self.fingerprint) as state:
                    self.catch_up(state, lambda: False)
                    agrees = state.render().encode() == text
                    if agrees:
                        state.write_value(WRITTEN_KEY, self.file_signature())
                if not agrees:
                    remove_database(self.state_path)
            return has_changed

    @contextmanager
    def lock_map(self, wait_s: float) -> Generator[None]:
        """Hold the lock of the map. Raises OSError, LockTimeout."""
        self.state_path.parent.mkdir(parents=True, exist_ok=True)
        with log_files.hold_lock(self.state_path.with_suffix(".lock"), timeout_s=wait_s):
            yield


def list_map_entries(documents: list[Document], workspace: Workspace) -> list[map_text.MapEntry]:
    return list(read_map_entries(documents, ContentStore(workspace, "")))
