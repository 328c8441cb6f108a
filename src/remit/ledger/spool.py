"""Records that could not be appended wait here until the log takes them again."""

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from msgspec import json

from remit.core.record import Record
from remit.ledger import lock
from remit.ledger.log import MachineLog, RecordTooLong
from remit.ledger.reader import LogPosition, read_lines, read_record_id
from remit.ledger.segments import DECODE_ERRORS, first_seq, flush, list_segments

CHUNK_RECORDS = 256
"""Records that one append takes from the spool."""

_RECORD = json.Decoder(Record)


class Spool:
    """A file of records, one a line, without place in a chain yet. Processes may share it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.unreadable_path = path.with_name(path.name + ".unreadable")
        """Lines that no log will ever take: torn by a crash, or too long."""
        self._lock_path = path.with_name(path.name + ".lock")

    def store(self, records: Sequence[Record]) -> None:
        """Keep these records, on the disk when this returns. Raises OSError."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        held = lock.acquire(self._lock_path)
        try:
            _append_lines(self.path, [json.encode(record) for record in records])
        finally:
            lock.release(held)

    def count_pending(self) -> int:
        """How many records wait."""
        return len(self._read_lines())

    def drain(self, log: MachineLog, *, views: Sequence[Path] = ()) -> int:
        """Append what waits, in order, and only then forget it; how many records that were.

        After a crash in between, records that are already near the end of the log are not appended again.
        Raises LedgerWriteError and keeps what is not in the log yet.
        """
        if not self.path.exists():
            return 0
        held = lock.acquire(self._lock_path)
        try:
            return sum(self._drain_chunks(log, views))
        finally:
            lock.release(held)

    def _drain_chunks(self, log: MachineLog, views: Sequence[Path]) -> Iterator[int]:
        known = _read_recent_ids(log.folder)
        waiting = iter(self._read_lines())
        while chunk := list(islice(waiting, CHUNK_RECORDS)):
            yield self._drain_chunk(chunk, log, views, known)
            self._remove_lines(len(chunk))

    def _drain_chunk(self, chunk: list[bytes], log: MachineLog, views: Sequence[Path], known: set[str]) -> int:
        records = [record for record in self._decode_records(chunk) if record.id not in known]
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
        """Take the first lines out. The rest goes to a new file first, so that a crash loses none."""
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
    """Ids of the records at the end of the log: those of two segments, since the newest may have just begun."""
    names = list_segments(folder)[-2:]
    if not names:
        return set()
    ids = (read_record_id(line.raw) for line in read_lines(folder, LogPosition(names[0], 0, first_seq(names[0]))))
    return {found for found in ids if found is not None}
