"""The records that the intent map is made of: this repository's logs, and what others wrote, each read from a mark on.

A mark says how far was read, and enough of what stood there to notice that it is not the same any more.
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
from remit.ledger.foreign_logs import FOLDER, read_foreign_lots
from remit.ledger.machine_logs import list_local_names, list_readable_places
from remit.ledger.prune import has_pruned_records
from remit.ledger.reader import LineNotThere, LogLine, LogPosition, read_bytes, read_lines
from remit.ledger.segments import ARCHIVE_FOLDER, DECODE_ERRORS
from remit.workspace.place.workspace import TRACKED_LOGS_FOLDER
from remit.workspace.sharing.tracked_logs import list_other_logs

BATCH_LINES = 100
"""Lines of the log that are taken in at once."""

TAIL_BYTES = 4096
"""Bytes before a mark that have to be the same still."""

Document: TypeAlias = dict[str, Any]
Archives: TypeAlias = dict[str, tuple[int, ...]]


class LogMark(Struct, frozen=True):
    """How far a log was read: its last line, and what follows. `log` is its folder, from the log folder."""

    log: str
    segment: str
    offset: int
    length: int
    leaf: str
    after: LogPosition


class FileMark(Struct, frozen=True):
    """How far a file of others was read, and how many of its records told something."""

    offset: int = 0
    tail: str = ""
    told: int = 0


class RecordSources(Struct, frozen=True, dict=True):
    """Where records lie: the logs of this repository, the live view, and beside the logs what was taken in.

    `own` names this machine's log.
    """

    log_folder: Path
    view: Path
    own_log: str

    @property
    def files(self) -> dict[str, Path]:
        """The files in which others' records may be, by a name that stays."""
        taken = sorted((self.log_folder / FOLDER).glob("*.jsonl"))
        logs = self.view.parent / Path(TRACKED_LOGS_FOLDER).name
        tracked = {f"{TRACKED_LOGS_FOLDER}/{path.name}": path for path in list_other_logs(logs, self.log_folder.parent)}
        return {**{path.name: path for path in taken}, **tracked, "": self.view}

    @property
    def logs(self) -> list[str]:
        """The folders of the logs that can be read, from the log folder."""
        return list_readable_places(self.log_folder)

    @cached_property
    def local_names(self) -> frozenset[str]:
        """What the logs of this repository are called: their records in other files say nothing new."""
        return list_local_names(self.log_folder, self.own_log)

    def read_every_record(self) -> Iterator[Document]:
        """Every record, in no order that matters. Raises OSError."""
        for log in self.logs:
            for batch, _ in self.read_log(log, None):
                yield from batch
        for path in self.files.values():
            for batch, _ in read_foreign_lots(path, self.local_names):
                yield from batch

    def read_log(self, log: str, mark: LogMark | None) -> Iterator[tuple[list[Document], LogMark]]:
        """The records of a log after the mark, in lots, each with the mark after it. Raises OSError."""
        found = read_lines(self.log_folder / log, mark.after if mark else None)
        while batch := list(islice(found, BATCH_LINES)):
            yield [d for line in batch if (d := parse_line(line)) is not None], mark_after_line(log, batch[-1])

    def read_file(self, name: str, mark: FileMark) -> Iterator[tuple[list[Document], FileMark]]:
        """The records of a file of others after the mark, as `of_log`; `told` is left to who takes them."""
        path = self.files[name]
        for batch, end in read_foreign_lots(path, self.local_names, mark.offset):
            yield batch, FileMark(end, hash_tail(path, end), mark.told)

    def log_line_unchanged(self, mark: LogMark) -> bool:
        """Whether the line that was read last stands where it stood: nothing was moved away or cut off."""
        try:
            line = read_bytes(self.log_folder / mark.log, mark.segment, mark.offset, mark.length)
        except (LineNotThere, PermissionError):
            return False
        return hash_leaf(line).hex() == mark.leaf

    def archive_states(self) -> Archives:
        """The archives of all logs, each with what changes when it is written anew. Raises OSError."""
        found = (path for log in self.logs for path in (self.log_folder / log / ARCHIVE_FOLDER).glob("*.gz"))
        return {str(path.relative_to(self.log_folder)): file_state(path) for path in found}

    def was_pruned_since(self, known: Archives, now: Archives) -> bool:
        """Whether records went that were there when the archives were those in `known`. Raises OSError."""
        gone = any(now.get(name) != state for name, state in known.items())
        fresh = (self.log_folder / name for name in now if name not in known)
        return gone or any(has_pruned_records(path.parent.parent, path.name.removesuffix(".gz")) for path in fresh)

    def file_start_unchanged(self, name: str, mark: FileMark) -> bool:
        """Whether a file of others still begins with what was read, as far as the end of that tells."""
        path = self.files.get(name)
        return not mark.offset or (path is not None and hash_tail(path, mark.offset) == mark.tail)


def parse_line(line: LogLine) -> Document | None:
    """The record on a line; None where there is none, which is `remit ledger verify`'s to tell."""
    try:
        line.raw.decode()
        return json.decode(line.raw, type=dict[str, Any])
    except DECODE_ERRORS:
        return None


def mark_after_line(log: str, line: LogLine) -> LogMark:
    """The mark after that line of a log."""
    return LogMark(log, line.segment, line.offset, len(line.raw), hash_leaf(line.raw).hex(), line.next_position)


def file_state(path: Path) -> tuple[int, ...]:
    """What changes whenever the file does, which is there. Raises OSError."""
    found = path.stat()
    return (found.st_ino, found.st_size, found.st_mtime_ns)


def hash_tail(path: Path, end: int) -> str:
    """The hash of the bytes before `end`; empty where the file is no regular one, or not so long any more."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        start = max(0, end - TAIL_BYTES)
        found = os.pread(file.fileno(), end - start, start)
    return sha256(found) if len(found) == end - start else ""
