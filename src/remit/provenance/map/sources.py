"""The records that the intent map is made of: this machine's log, and what others wrote, each read on from a mark.

A mark says how far was read, and enough of what stood there to notice that it is not the same any more.
"""

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct, json

from remit.core.contents import sha256
from remit.core.merkle import leaf_hash
from remit.ledger.foreign import FOLDER, foreign_from
from remit.ledger.prune import is_pruned
from remit.ledger.reader import LineNotThere, LogLine, Place, lines, read_at
from remit.ledger.segments import ARCHIVE, UNREADABLE
from remit.workspace.place import LOGS
from remit.workspace.tracked import others

BATCH = 100
"""Lines of the log that are taken in at once."""

TAIL = 4096
"""Bytes before a mark that have to be the same still."""

Document: TypeAlias = dict[str, Any]
Archives: TypeAlias = dict[str, tuple[int, ...]]


class LogMark(Struct, frozen=True):
    """How far the log was read: its last line, and what follows."""

    segment: str
    offset: int
    length: int
    leaf: str
    after: Place


class FileMark(Struct, frozen=True):
    """How far a file of others was read, and how many of its records told something."""

    offset: int = 0
    tail: str = ""
    told: int = 0


class Sources(Struct, frozen=True):
    """Where records lie: the log of the name `own`, the live view, and beside the log what was taken in."""

    log_folder: Path
    view: Path
    own: str

    @property
    def files(self) -> dict[str, Path]:
        """The files in which others' records may be, by a name that stays."""
        taken = sorted((self.log_folder / FOLDER).glob("*.jsonl"))
        logs = self.view.parent / Path(LOGS).name
        tracked = {f"{LOGS}/{path.name}": path for path in others(logs, self.log_folder.parent)}
        return {**{path.name: path for path in taken}, **tracked, "": self.view}

    def all(self) -> Iterator[Document]:
        """Every record, in no order that matters. Raises OSError."""
        for batch, _ in self.of_log(None):
            yield from batch
        for path in self.files.values():
            for batch, _ in foreign_from(path, self.own):
                yield from batch

    def of_log(self, mark: LogMark | None) -> Iterator[tuple[list[Document], LogMark]]:
        """The records of the log after the mark, in lots, each with the mark after it. Raises OSError."""
        found = lines(self.log_folder, mark.after if mark else None)
        while batch := list(islice(found, BATCH)):
            yield [d for line in batch if (d := document_of(line)) is not None], mark_after(batch[-1])

    def of_file(self, name: str, mark: FileMark) -> Iterator[tuple[list[Document], FileMark]]:
        """The records of a file of others after the mark, as `of_log`; `told` is left to who takes them."""
        path = self.files[name]
        for batch, end in foreign_from(path, self.own, mark.offset):
            yield batch, FileMark(end, tail_of(path, end), mark.told)

    def holds(self, mark: LogMark) -> bool:
        """Whether the line that was read last stands where it stood: nothing was moved away or cut off."""
        try:
            line = read_at(self.log_folder, mark.segment, mark.offset, mark.length)
        except LineNotThere:
            return False
        return leaf_hash(line).hex() == mark.leaf

    def archives(self) -> Archives:
        """The archives of the log, each with what changes when it is written anew. Raises OSError."""
        return {path.name: state_of(path) for path in (self.log_folder / ARCHIVE).glob("*.gz")}

    def pruned_since(self, known: Archives, now: Archives) -> bool:
        """Whether records went that were there when the archives were those in `known`. Raises OSError."""
        gone = any(now.get(name) != state for name, state in known.items())
        fresh = (name.removesuffix(".gz") for name in now if name not in known)
        return gone or any(is_pruned(self.log_folder, segment) for segment in fresh)

    def still(self, name: str, mark: FileMark) -> bool:
        """Whether a file of others still begins with what was read, as far as the end of that tells."""
        path = self.files.get(name)
        return not mark.offset or (path is not None and tail_of(path, mark.offset) == mark.tail)


def document_of(line: LogLine) -> Document | None:
    """The record on a line; None where there is none, which is `remit ledger verify`'s to tell."""
    try:
        line.raw.decode()
        return json.decode(line.raw, type=dict[str, Any])
    except UNREADABLE:
        return None


def mark_after(line: LogLine) -> LogMark:
    """The mark after that line."""
    return LogMark(line.segment, line.offset, len(line.raw), leaf_hash(line.raw).hex(), line.after)


def state_of(path: Path) -> tuple[int, ...]:
    """What changes whenever the file does, which is there. Raises OSError."""
    found = path.stat()
    return (found.st_ino, found.st_size, found.st_mtime_ns)


def tail_of(path: Path, end: int) -> str:
    """The hash of the bytes before `end`; empty where the file is no regular one, or not so long any more."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        start = max(0, end - TAIL)
        found = os.pread(file.fileno(), end - start, start)
    return sha256(found) if len(found) == end - start else ""
