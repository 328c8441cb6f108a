"""The newest segment of a log, open from one append to the next: where its last line ends, and room for more."""

import os
from typing import TYPE_CHECKING, Any

from msgspec import Struct, json

from remit.core.contents import sha256
from remit.core.merkle import leaf_hash
from remit.ledger.bodies import Line
from remit.ledger.segments import (
    UNREADABLE,
    Head,
    archived_segments,
    first_seq,
    flush,
    flush_folder,
    line_before,
    newest_segment,
    segment_name,
    whole_lines,
    write_all,
)

if TYPE_CHECKING:
    from pathlib import Path

TORN_TAIL = "torn_tail"
"""The reason in the detail of a `recovery` record."""


class NewestSegment:
    """The segment that the next record goes into, of a log whose lock is held."""

    def __init__(self, folder: "Path", most_bytes: int, most_records: int) -> None:
        self.folder = folder
        self.name = ""
        self.last: Head | None = None
        """The last line as it was left; None where the segment was opened anew since."""
        self.torn: list[dict[str, Any]] = []
        """What was set aside and has no record yet."""
        self._at = str(folder)
        self._descriptor = -1
        self._most_bytes = most_bytes
        self._most_records = most_records

    def open_newest(self) -> int:
        """Have the newest segment open; its size, or 0 where there is none."""
        newest = newest_segment(self._at)
        if not newest:
            self.close()
            return 0
        return self._open(newest)

    def last_line(self, end: int) -> Head:
        """The last whole line before `end`, read; a torn tail behind it is set aside, and noted in `torn`."""
        return self._read_last(self._open_whole(end))

    def room_after(self, last: Head) -> int:
        """Have the segment open that takes the next record; the offset where it goes."""
        if self.name and last.end < self._most_bytes and self._has_room(last.seq):
            return last.end
        if self.name:
            flush(self._descriptor)
        end = self._open(segment_name(last.seq + 1), os.O_CREAT)
        flush_folder(self.folder)
        return end

    def write(self, blob: bytes, offset: int, sync: bool) -> None:
        """Put `blob` at `offset`, the end; all of it or nothing. Raises OSError."""
        try:
            write_all(self._descriptor, blob)
            if sync:
                flush(self._descriptor)
        except OSError:
            self.last = None
            os.ftruncate(self._descriptor, offset)
            raise

    def close(self) -> None:
        """Let go of it; it is opened again when it is asked for."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor, self.name, self.last = -1, "", None

    def _open(self, segment: str, flags: int = 0) -> int:
        path = f"{self._at}/{segment}"
        if segment == self.name:
            known = os.fstat(self._descriptor)
            if os.path.samestat(known, os.stat(path)):  # noqa: PTH116  at every append
                return known.st_size
        self.close()
        access = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(path, access | flags, 0o600)
        self.name = segment
        return os.fstat(self._descriptor).st_size

    def _open_whole(self, end: int) -> int:
        """Have the newest segment that holds a whole line open; the offset where its last one ends."""
        while self.name:
            whole = whole_lines(self._descriptor, end)
            if whole < end:
                self._set_aside(whole, end)
            if whole:
                return whole
            (self.folder / self.name).unlink()
            end = self.open_newest()
        return 0

    def _set_aside(self, whole: int, end: int) -> None:
        """Move the bytes after the last newline out of the log: a crash left them, or a stranger."""
        torn = os.pread(self._descriptor, end - whole, whole)
        digest = sha256(torn)
        aside = self.folder / "torn"
        aside.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(aside / f"{digest}.bin", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            write_all(descriptor, torn)
            flush(descriptor)
        finally:
            os.close(descriptor)
        flush_folder(aside)
        os.ftruncate(self._descriptor, whole)
        detail = {"torn_sha256": digest, "bytes": len(torn), "segment": self.name, "offset": whole}
        self.torn.append({"reason": TORN_TAIL, **detail})

    def _read_last(self, end: int) -> Head:
        if not end:
            return _last_archived(self.folder)
        line = line_before(self._descriptor, end)
        seq = seq_of(line)
        if seq is None:
            seq = first_seq(self.name) + self._count_lines(end) - 1
        return Head(seq, leaf_hash(line).hex(), self.name, end)

    def _count_lines(self, end: int) -> int:
        step = 1024 * 1024
        return sum(os.pread(self._descriptor, step, at).count(b"\n") for at in range(0, end, step))

    def _has_room(self, seq: int) -> bool:
        return seq + 1 - first_seq(self.name) < self._most_records


def _last_archived(folder: "Path") -> Head:
    """The last line of a log whose unarchived segments were all taken away; the default where nothing is archived."""
    newest = max(archived_segments(folder), default="")
    if not newest:
        return Head()
    # For start-up speed: a log that nobody cut never comes here, and the hook path reads no archives.
    from remit.ledger.reader import Place, positions

    last = Head()
    for line in positions(folder, Place(newest, 0, first_seq(newest))):
        leaf = line.leaf or leaf_hash(line.raw)
        last = Head(line.seq, leaf.hex(), line.segment, line.offset + line.size)
    return last


class _Chain(Struct):
    seq: int


class _Body(Struct):
    chain: _Chain


_LINE = json.Decoder(Line[_Body])


def seq_of(line: bytes) -> int | None:
    """The seq a line claims; None where it cannot be read."""
    try:
        return _LINE.decode(line).metadata.body.chain.seq
    except UNREADABLE:
        return None
