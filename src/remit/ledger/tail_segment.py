"""The newest segment of a log, kept open between appends: finds the last line and provides room for the next."""

import os
from typing import TYPE_CHECKING, Any

from remit.core.diff.contents import sha256
from remit.core.formats.merkle import hash_leaf
from remit.ledger.record_views import decode_header
from remit.ledger.segments import (
    Head,
    find_last_line_end,
    find_newest_segment,
    first_seq,
    flush,
    flush_folder,
    list_archived_segments,
    read_line_before,
    segment_name,
    write_all,
)

if TYPE_CHECKING:
    from pathlib import Path

TORN_TAIL = "torn_tail"
"""Reason in a `recovery` record: bytes without a newline were moved out of the log."""


class TailSegment:
    """The segment that receives the next record. The caller holds the log's lock."""

    def __init__(self, folder: "Path", most_bytes: int, most_records: int) -> None:
        self.folder = folder
        self.name = ""
        self.last_head: Head | None = None
        """The last line this process wrote; None after the segment was reopened."""
        self.torn_tails: list[dict[str, Any]] = []
        """Details of torn tails that were moved aside and are not recorded yet."""
        self._folder_path = str(folder)
        self._descriptor = -1
        self._max_bytes = most_bytes
        self._max_records = most_records

    def open_newest(self) -> int:
        """Open the newest segment and return its size; 0 if there is none."""
        newest = find_newest_segment(self._folder_path)
        if not newest:
            self.close()
            return 0
        return self._open_segment(newest)

    def read_last_line(self, end: int) -> Head:
        """Read the last complete line before `end`. Moves a torn tail aside, with a detail in `torn_tails`."""
        return self._read_head_before(self._drop_torn_tails(end))

    def open_with_room(self, last: Head) -> int:
        """Open the segment with room for the next record and return the offset to write at."""
        if self.name and last.end < self._max_bytes and self._has_room(last.seq):
            return last.end
        if self.name:
            flush(self._descriptor)
        end = self._open_segment(segment_name(last.seq + 1), os.O_CREAT)
        flush_folder(self.folder)
        return end

    def write(self, blob: bytes, offset: int, sync: bool) -> None:
        """Write `blob` at `offset`, which is the end of the file: all of it or nothing. Raises OSError."""
        try:
            write_all(self._descriptor, blob)
            if sync:
                flush(self._descriptor)
        except OSError:
            self.last_head = None
            os.ftruncate(self._descriptor, offset)
            raise

    def close(self) -> None:
        """Close the segment file; the next use opens it again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor, self.name, self.last_head = -1, "", None

    def _open_segment(self, segment: str, flags: int = 0) -> int:
        path = f"{self._folder_path}/{segment}"
        if segment == self.name:
            known = os.fstat(self._descriptor)
            if os.path.samestat(known, os.stat(path)):  # noqa: PTH116  at every append
                return known.st_size
        self.close()
        access = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(path, access | flags, 0o600)
        self.name = segment
        return os.fstat(self._descriptor).st_size

    def _drop_torn_tails(self, end: int) -> int:
        """Open the newest segment with a complete line and return the offset after that line. Removes segments without
        one.
        """
        while self.name:
            complete = find_last_line_end(self._descriptor, end)
            if complete < end:
                self._set_aside(complete, end)
            if complete:
                return complete
            (self.folder / self.name).unlink()
            end = self.open_newest()
        return 0

    def _set_aside(self, whole: int, end: int) -> None:
        """Move the bytes after the last newline out of the log: left by a crash, or written by another program."""
        torn = os.pread(self._descriptor, end - whole, whole)
        digest = sha256(torn)
        torn_folder = self.folder / "torn"
        torn_folder.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(torn_folder / f"{digest}.bin", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            write_all(descriptor, torn)
            flush(descriptor)
        finally:
            os.close(descriptor)
        flush_folder(torn_folder)
        os.ftruncate(self._descriptor, whole)
        detail = {"torn_sha256": digest, "bytes": len(torn), "segment": self.name, "offset": whole}
        self.torn_tails.append({"reason": TORN_TAIL, **detail})

    def _read_head_before(self, end: int) -> Head:
        if not end:
            return _find_archived_end(self.folder)
        line = read_line_before(self._descriptor, end)
        header = decode_header(line)
        # An undecodable last line still takes a number: the one that follows from its position.
        seq = header.chain.seq if header else first_seq(self.name) + self._count_lines(end) - 1
        return Head(seq, hash_leaf(line).hex(), self.name, end)

    def _count_lines(self, end: int) -> int:
        step = 1024 * 1024
        return sum(os.pread(self._descriptor, step, at).count(b"\n") for at in range(0, end, step))

    def _has_room(self, seq: int) -> bool:
        return seq + 1 - first_seq(self.name) < self._max_records


def _find_archived_end(folder: "Path") -> Head:
    """Return the last archived line; the default head if nothing is archived."""
    newest = max(list_archived_segments(folder), default="")
    if not newest:
        return Head()
    # Imported here for start-up speed: only a log without plain segments gets here.
    from remit.ledger.reader import LogPosition, read_positions

    last = Head()
    for line in read_positions(folder, LogPosition(newest, 0, first_seq(newest))):
        leaf = line.leaf or hash_leaf(line.raw)
        last = Head(line.seq, leaf.hex(), line.segment, line.offset + line.size)
    return last
