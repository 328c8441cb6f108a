"""Sources of the intent map: the logs of the repository and the files of foreign records, each read from a mark on.

A mark stores the position reached, and a hash of the bytes before the position, to notice changes.
"""

import os
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct, json

from remit.core.diff.contents import sha256
from remit.core.formats.merkle import hash_leaf
from remit.ledger.foreign_logs import read_foreign_lots
from remit.ledger.machine_logs import list_local_names, list_readable_places
from remit.ledger.prune import has_pruned_records
from remit.ledger.reader import LineNotThere, LogLine, LogPosition, read_bytes, read_lines
from remit.ledger.segments import ARCHIVE_FOLDER, DECODE_ERRORS, FOREIGN_FOLDER
from remit.workspace.place.workspace import TRACKED_LOGS_FOLDER
from remit.workspace.sharing.tracked_logs import list_other_logs

BATCH_LINES = 100
"""Log lines that are read at once."""

TAIL_BYTES = 4096
"""Bytes before a mark whose hash is compared."""

Document: TypeAlias = dict[str, Any]
Archives: TypeAlias = dict[str, tuple[int, ...]]


class LogMark(Struct, frozen=True):
    """Position reached in a log: the last line read, and the place behind. `log` is the folder, relative to the log
    folder.
    """

    log: str
    segment: str
    offset: int
    length: int
    leaf: str
    after: LogPosition


class FileMark(Struct, frozen=True):
    """Position reached in a foreign file, and the number of its records that gave map entries."""

    offset: int = 0
    tail: str = ""
    told: int = 0


class RecordSources(Struct, frozen=True, dict=True):
    """Places of records: the repository's logs, the live view, and imported files. `own_log` names the log of this
    machine.
    """

    log_folder: Path
    view: Path
    own_log: str

    @property
    def files(self) -> dict[str, Path]:
        imported = sorted((self.log_folder / FOREIGN_FOLDER).glob("*.jsonl"))
        logs = self.view.parent / Path(TRACKED_LOGS_FOLDER).name
        tracked = {f"{TRACKED_LOGS_FOLDER}/{path.name}": path for path in list_other_logs(logs, self.log_folder.parent)}
        return {**{path.name: path for path in imported}, **tracked, "": self.view}

    @property
    def logs(self) -> list[str]:
        return list_readable_places(self.log_folder)

    @cached_property
    def local_names(self) -> frozenset[str]:
        """Names of the repository's logs: copies of their records in other files are ignored."""
        return list_local_names(self.log_folder, self.own_log)

    def read_every_record(self) -> Iterator[Document]:
        """Yield every record, in any order. Raises OSError."""
        for log in self.logs:
            for batch, _ in self.read_log(log, None):
                yield from batch
        for path in self.files.values():
            for batch, _ in read_foreign_lots(path, self.local_names):
                yield from batch

    def read_log(self, log: str, mark: LogMark | None) -> Iterator[tuple[list[Document], LogMark]]:
        """Yield the records of a log behind the mark in batches, each with the next mark. Raises OSError."""
        log_lines = read_lines(self.log_folder / log, mark.after if mark else None)
        while batch := list(islice(log_lines, BATCH_LINES)):
            yield [d for line in batch if (d := parse_line(line)) is not None], mark_after_line(log, batch[-1])

    def read_file(self, name: str, mark: FileMark) -> Iterator[tuple[list[Document], FileMark]]:
        """Yield the records of a foreign file behind the mark, as `read_log`; the caller updates `told`."""
        path = self.files[name]
        for batch, end in read_foreign_lots(path, self.local_names, mark.offset):
            yield batch, FileMark(end, hash_tail(path, end), mark.told)

    def log_line_unchanged(self, mark: LogMark) -> bool:
        """Return whether the line read last is still in place."""
        try:
            line = read_bytes(self.log_folder / mark.log, mark.segment, mark.offset, mark.length)
        except (LineNotThere, PermissionError):
            return False
        return hash_leaf(line).hex() == mark.leaf

    def archive_states(self) -> Archives:
        """Return the archives of all logs with their file states. Raises OSError."""
        paths = (path for log in self.logs for path in (self.log_folder / log / ARCHIVE_FOLDER).glob("*.gz"))
        return {str(path.relative_to(self.log_folder)): file_state(path) for path in paths}

    def was_pruned_since(self, known: Archives, now: Archives) -> bool:
        """Return whether records were pruned since the archives were as in `known`. Raises OSError."""
        is_gone = any(now.get(name) != state for name, state in known.items())
        added = (self.log_folder / name for name in now if name not in known)
        return is_gone or any(has_pruned_records(path.parent.parent, path.name.removesuffix(".gz")) for path in added)

    def file_start_unchanged(self, name: str, mark: FileMark) -> bool:
        """Return whether a foreign file still begins with the part already read, by its last bytes."""
        path = self.files.get(name)
        return not mark.offset or (path is not None and hash_tail(path, mark.offset) == mark.tail)


def parse_line(line: LogLine) -> Document | None:
    """Return the record of a log line; None for an unreadable line, which `remit ledger verify` reports."""
    try:
        line.raw.decode()
        return json.decode(line.raw, type=dict[str, Any])
    except DECODE_ERRORS:
        return None


def mark_after_line(log: str, line: LogLine) -> LogMark:
    return LogMark(log, line.segment, line.offset, len(line.raw), hash_leaf(line.raw).hex(), line.next_position)


def file_state(path: Path) -> tuple[int, ...]:
    """Return values that change whenever the file does. Raises OSError."""
    stat = path.stat()
    return (stat.st_ino, stat.st_size, stat.st_mtime_ns)


def hash_tail(path: Path, end: int) -> str:
    """Return the hash of the bytes before `end`; empty if the file is shorter or not regular."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        start = max(0, end - TAIL_BYTES)
        tail = os.pread(file.fileno(), end - start, start)
    return sha256(tail) if len(tail) == end - start else ""
