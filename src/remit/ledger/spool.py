"""The spool: records that could not be appended wait here until the log accepts them."""

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from msgspec import json

from remit.core.record import Record
from remit.ledger import lock
from remit.ledger.log import MachineLog, RecordTooLong
from remit.ledger.reader import LogPosition, read_lines
from remit.ledger.record_views import decode_header
from remit.ledger.segments import DECODE_ERRORS, first_seq, flush, list_segments

CHUNK_RECORDS = 256
"""Number of records that one append takes from the spool."""

_RECORD = json.Decoder(Record)


class Spool:
    """A file of records, one per line and not chained yet. Processes may share the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.unreadable_path = path.with_name(path.name + ".unreadable")
        """File for lines that no log accepts: torn by a crash, or too long."""
        self._lock_path = path.with_name(path.name + ".lock")

    def store(self, records: Sequence[Record]) -> None:
        """Append records to the spool; they are on the disk on return. Raises OSError."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        locked = lock.acquire(self._lock_path)
        try:
            _append_lines(self.path, [json.encode(record) for record in records])
        finally:
            lock.release(locked)

    def count_pending(self) -> int:
        return len(self._read_lines())

    def drain(self, log: MachineLog, *, views: Sequence[Path] = ()) -> int:
        """Append the waiting records in order, remove them from the spool, and return their number.

        After a crash in between, records already near the end of the log are not appended again. Raises
        LedgerWriteError; the spool then keeps the remaining records.
        """
        if not self.path.exists():
            return 0
        locked = lock.acquire(self._lock_path)
        try:
            return self._drain_locked(log, views)
        finally:
            lock.release(locked)

    def _drain_locked(self, log: MachineLog, views: Sequence[Path]) -> int:
        known = _read_recent_ids(log.folder)
        waiting = iter(self._read_lines())
        appended = 0
        while chunk := list(islice(waiting, CHUNK_RECORDS)):
            records = [record for record in self._decode_records(chunk) if record.id not in known]
            appended += self._append_acceptable(records, log, views)
            self._remove_lines(len(chunk))
        return appended

    def _append_acceptable(self, records: list[Record], log: MachineLog, views: Sequence[Path]) -> int:
        """Append the records; a record too long for the log goes to the unreadable file instead."""
        while records:
            try:
                return len(log.append(records, views=views))
            except RecordTooLong as error:
                refused = [record for record in records if record.id == error.record_id]
                _append_lines(self.unreadable_path, [json.encode(record) for record in refused])
                records = [record for record in records if record.id != error.record_id]
        return 0

    def _decode_records(self, chunk: list[bytes]) -> Iterator[Record]:
        for line in chunk:
            try:
                yield _RECORD.decode(line)
            except DECODE_ERRORS:
                _append_lines(self.unreadable_path, [line])

    def _read_lines(self) -> list[bytes]:
        try:
            return [line for line in self.path.read_bytes().split(b"\n") if line]
        except FileNotFoundError:
            return []

    def _remove_lines(self, count: int) -> None:
        """Remove the first `count` lines. The rest goes to a new file first, so that a crash loses none."""
        rest = self._read_lines()[count:]
        if not rest:
            self.path.unlink()
            return
        fresh = self.path.with_name(self.path.name + ".new")
        fresh.unlink(missing_ok=True)
        _append_lines(fresh, rest)
        fresh.replace(self.path)


def _append_lines(path: Path, lines: Sequence[bytes]) -> None:
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o600)
    with os.fdopen(descriptor, "ab", buffering=0) as file:
        end = os.fstat(descriptor).st_size
        torn = end > 0 and os.pread(descriptor, 1, end - 1) != b"\n"
        content = (b"\n" if torn else b"") + b"".join(line + b"\n" for line in lines)
        while content:
            content = content[file.write(content) :]
        flush(descriptor)


def _read_recent_ids(folder: Path) -> set[str]:
    """Return the ids of the records in the last two segments: the newest segment may have just begun."""
    names = list_segments(folder)[-2:]
    if not names:
        return set()
    lines = read_lines(folder, LogPosition(names[0], 0, first_seq(names[0])))
    return {header.id for line in lines if (header := decode_header(line.raw)) is not None}
