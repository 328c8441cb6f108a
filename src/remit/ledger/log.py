"""The machine log: the first place where a record is written durably.

Every hook call imports this module, so its own imports stay cheap.

Promises of `append`: on return the lines are in the log (with `sync`, on the disk); an append writes all records or
none; the chain never continues from a line that contradicts the head. If the tail was cut or altered from outside, the
next record takes seq and `prev` from the head, so that the chain shows the loss permanently. If the head is missing, a
`recovery` record reports the loss before the log continues.
"""

import errno
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from remit.core.formats.merkle import hash_leaf
from remit.core.record import Chain, Record, encode_record
from remit.ledger import lock
from remit.ledger.live_views import append_to_views
from remit.ledger.machine_logs import claim_folder, find_own_folder
from remit.ledger.segments import (
    LINE_LIMIT,
    Head,
    LedgerError,
    flush_folder,
    read_head,
    write_head,
)
from remit.ledger.tail_segment import TailSegment

if TYPE_CHECKING:
    from pathlib import Path

SEGMENT_BYTES = 4 * 1024 * 1024
SEGMENT_RECORDS = 4096
"""Limits of a segment. A segment that reaches either limit is sealed: the next record begins another one."""

TAIL_LOST = "tail_lost"
"""Reason in a `recovery` record: the tail was lost, and the log continues from `head_seq`."""

HEAD_LOST = "head_lost"
"""Reason in a `recovery` record: the head was missing, so a cut tail would go unnoticed."""

MakeRecovery = Callable[[dict[str, Any]], Record]

_HINTS = {
    errno.ENOSPC: "the disk is full: free some space",
    errno.EDQUOT: "the quota is used up: free some space",
    errno.EROFS: "the file system is read-only: mount it writable",
    errno.EIO: "the disk reports an error: check it, and keep a copy of the log folder",
    errno.EACCES: "give yourself write permission there",
    errno.EPERM: "give yourself write permission there",
    errno.EFBIG: "the process may not write files this large: raise its limit (ulimit -f)",
}


class LedgerWriteError(LedgerError):
    """An append that failed as a whole. `errno` is ETIMEDOUT if the lock was never free."""

    def __init__(self, code: int, path: str, why: str) -> None:
        self.errno = code
        self.path = path
        self.hint = _HINTS.get(code, "see `remit doctor`")
        super().__init__(f"cannot append to the log at {path!r}: {why}\nhint: {self.hint}")


class RecordTooLong(LedgerError):
    """A record longer than LINE_LIMIT. The log has no part of the append."""

    def __init__(self, record_id: str, size: int) -> None:
        super().__init__(f"record {record_id!r} makes a line of {size} bytes; the limit is {LINE_LIMIT}")
        self.record_id = record_id
        self.size = size


class AppendedRecord(Struct, frozen=True):
    """The place of an appended record. `length` and `line` exclude the newline; `leaf` is 64 hex digits."""

    seq: int
    segment: str
    offset: int
    length: int
    leaf: str
    line: bytes


class MachineLog:
    """The log of one machine for one repository. Threads, forks and processes may append concurrently.

    `view_errors` lists failures of the last append to update a view or the head; the records are in the log anyway.
    """

    def __init__(
        self,
        root: "Path",
        name: str,
        make_recovery: MakeRecovery,
        segment_bytes: int,
        segment_records: int,
        lock_timeout_s: float,
    ) -> None:
        self.root = root
        self.folder = find_own_folder(root, name)
        """The folder of the log's segments: `root`, or a folder of this machine's own if `root` holds another machine's
        log.
        """
        self.name = name
        self._is_claimed = False
        self.view_errors: tuple[tuple[str, OSError], ...] = ()
        self._make_recovery = make_recovery
        self._lock_timeout_s = lock_timeout_s
        self._limits = (segment_bytes, segment_records)
        self._tail = TailSegment(self.folder, *self._limits)
        self._losses: list[dict[str, Any]] = []

    @classmethod
    def open(
        cls,
        folder: "Path",
        name: str,
        *,
        make_recovery: MakeRecovery,
        segment_bytes: int = SEGMENT_BYTES,
        segment_records: int = SEGMENT_RECORDS,
        lock_timeout_s: float = lock.LOCK_TIMEOUT_S,
    ) -> "MachineLog":
        """Open the log named `<repository>/<machine>` below `folder`; the first append creates the files.

        `make_recovery` turns the detail of a repair into a `recovery` record with an id and a time.
        """
        return cls(folder, name, make_recovery, segment_bytes, segment_records, lock_timeout_s)

    def append(
        self, records: Sequence[Record], *, sync: bool = True, views: "Sequence[Path]" = ()
    ) -> tuple[AppendedRecord, ...]:
        """Append all records or none, in order, and copy their lines to `views`.

        Raises LedgerWriteError, RecordTooLong. Failures to write a view go to `view_errors` instead.
        """
        if not records:
            return ()
        try:
            self._settle_folder()
            locked = self._take_lock()
            try:
                return self._append_locked(records, sync, views)
            finally:
                lock.release(locked)
        except lock.LockTimeout as error:
            raise LedgerWriteError(errno.ETIMEDOUT, str(self.folder), str(error)) from error
        except OSError as error:
            code = error.errno or 0
            raise LedgerWriteError(code, str(self.folder), os.strerror(code)) from error

    def close(self) -> None:
        """Close the segment file; a later append opens it again."""
        self._tail.close()

    def _settle_folder(self) -> None:
        """Settle the folder once: a different machine may have begun a log here in the meantime."""
        if self._is_claimed:
            return
        folder = claim_folder(self.root, self.name)
        if folder != self.folder:
            self._tail.close()
            self.folder, self._tail = folder, TailSegment(folder, *self._limits)
        self._is_claimed = True

    def _take_lock(self) -> int:
        at = f"{self.folder}/lock"
        try:
            return lock.acquire(at, timeout_s=self._lock_timeout_s)
        except FileNotFoundError:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            flush_folder(self.folder.parent)
            return lock.acquire(at, timeout_s=self._lock_timeout_s)

    def _append_locked(
        self, records: Sequence[Record], sync: bool, views: "Sequence[Path]"
    ) -> tuple[AppendedRecord, ...]:
        last = self._find_last_line()
        repairs = [self._make_recovery(detail) for detail in (*self._tail.torn_tails, *self._losses)]
        batch = _encode_chained([*repairs, *records], last, self.name)
        offset = self._tail.open_with_room(last)
        blob = b"".join(line + b"\n" for _, line in batch)
        self._tail.write(blob, offset, sync)
        placed = _build_appended(batch, last.seq + 1, self._tail.name, offset)
        self._tail.torn_tails.clear()
        self._losses.clear()
        self._store_head(placed[-1], placed[-1].seq if sync else last.synced)
        self.view_errors += tuple(append_to_views(views, blob))
        return placed[len(repairs) :]

    def _store_head(self, placed: AppendedRecord, synced: int) -> None:
        end = placed.offset + placed.length + 1
        last = self._tail.last_head = Head(placed.seq, placed.leaf, placed.segment, end, synced)
        self.view_errors = ()
        try:
            write_head(self.folder, last)
        except OSError as error:
            self.view_errors = ((str(self.folder / "head"), error),)

    def _find_last_line(self) -> Head:
        """Return the line that the next record follows. Sets torn tails aside, and stores losses in `_losses`."""
        end = self._tail.open_newest()
        last = self._tail.last_head
        if last is not None and (last.segment, last.end) == (self._tail.name, end):
            return last
        self._losses = []
        found = self._tail.read_last_line(end)
        head = read_head(self.folder)
        if head is None:
            if had_head(self.folder, found):
                # Written with the record that says so, and not before: until then the loss must stay visible.
                self._losses = [{"reason": HEAD_LOST, "found_seq": found.seq, "found_leaf": found.leaf}]
                return found
            # Made before the first line, so that updating it later needs no space on a full disk.
            write_head(self.folder, found)
            return found
        if _is_head_confirmed(found, head):
            return replace(found, synced=head.synced)
        self._losses = [_build_loss_detail(found, head)]
        return replace(head, segment=found.segment, end=found.end)


def had_head(folder: "Path", found: Head) -> bool:
    """Return True if a head existed: it is written before the first line, and tree heads follow the first line."""
    return found.seq >= 0 or os.path.isdir(f"{folder}/heads")  # noqa: PTH112  before the first append of a process


def _is_head_confirmed(found: Head, head: Head) -> bool:
    """Return True if the last line is the head's line or a later one: after a crash the head may be outdated."""
    if (found.segment, found.end) == (head.segment, head.end):
        return found.leaf == head.leaf
    return (found.segment, found.end) > (head.segment, head.end) and found.seq > head.seq


def _build_loss_detail(found: Head, head: Head) -> dict[str, Any]:
    return {
        "reason": TAIL_LOST,
        "found_seq": found.seq,
        "found_leaf": found.leaf,
        "head_seq": head.seq,
        "head_leaf": head.leaf,
        "synced_seq": head.synced,
    }


def _encode_chained(records: Sequence[Record], last: Head, name: str) -> list[tuple[str, bytes]]:
    """Return leaf and encoded line of each record, each linked to its predecessor."""
    batch: list[tuple[str, bytes]] = []
    leaf = last.leaf
    for seq, record in enumerate(records, last.seq + 1):
        line = encode_record(record, Chain(log=name, seq=seq, prev=f"sha256:{leaf}"))
        if len(line) >= LINE_LIMIT:
            raise RecordTooLong(record.id, len(line))
        leaf = hash_leaf(line).hex()
        batch.append((leaf, line))
    return batch


def _build_appended(batch: list[tuple[str, bytes]], seq: int, segment: str, offset: int) -> tuple[AppendedRecord, ...]:
    placed: list[AppendedRecord] = []
    for leaf, line in batch:
        placed.append(AppendedRecord(seq, segment, offset, len(line), leaf, line))
        offset += len(line) + 1
        seq += 1
    return tuple(placed)
