"""The machine log: where a record is first and durably written.

Every hook call imports this module, so it imports only what is cheap.

What an append promises: it returns after its lines are in the log (with `sync`, on the disk); it writes
all its records or none; and it never goes on from a line that the head contradicts. Where the tail was cut
or altered behind the log's back, the next record takes the seq and `prev` that the head remembers, so the
chain itself names what is missing for ever.
"""

import errno
import os
from collections.abc import Callable, Sequence
from stat import S_ISREG
from typing import TYPE_CHECKING, Any

from msgspec import Struct, json
from msgspec.structs import replace

from remit.core.contents import sha256
from remit.core.merkle import leaf_hash
from remit.core.record import KEY, Chain, Record, encode_record
from remit.ledger import lock
from remit.ledger.segments import (
    LINE_LIMIT,
    UNREADABLE,
    Head,
    LedgerError,
    archived_segments,
    first_seq,
    flush,
    flush_folder,
    line_before,
    newest_segment,
    read_head,
    segment_name,
    whole_lines,
    write_head,
)

if TYPE_CHECKING:
    from pathlib import Path

SEGMENT_BYTES = 4 * 1024 * 1024
SEGMENT_RECORDS = 4096
"""A segment that has either is sealed: the next record begins another, and this one may be archived."""

TORN_TAIL = "torn_tail"
TAIL_LOST = "tail_lost"
"""Reasons in the detail of a `recovery` record. After `tail_lost` the log goes on from `head_seq`."""

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
    """Nothing of this append is in the log. `errno` is ETIMEDOUT where the lock was never free."""

    def __init__(self, code: int, path: str, why: str) -> None:
        self.errno = code
        self.path = path
        self.hint = _HINTS.get(code, "see `remit doctor`")
        super().__init__(f"cannot append to the log at {path!r}: {why}\nhint: {self.hint}")


class RecordTooLong(LedgerError):
    """A record whose line no reader would take. Nothing of its append is in the log."""

    def __init__(self, record_id: str, size: int) -> None:
        super().__init__(f"record {record_id!r} makes a line of {size} bytes; the limit is {LINE_LIMIT}")
        self.record_id = record_id
        self.size = size


class Appended(Struct, frozen=True):
    """Where a record went. `length` and `line` are without the newline; `leaf` is 64 hex digits."""

    seq: int
    segment: str
    offset: int
    length: int
    leaf: str
    line: bytes


class MachineLog:
    """The log of one machine and one repository. Threads, forks and processes may append at once.

    `view_errors` says what the last append could not copy to a view, or note in the head, although its
    records are in the log.
    """

    def __init__(
        self,
        folder: "Path",
        name: str,
        make_recovery: MakeRecovery,
        segment_bytes: int,
        segment_records: int,
        lock_timeout_s: float,
    ) -> None:
        self.folder = folder
        self.name = name
        self._at = str(folder)
        self._lock_at = f"{folder}/lock"
        self.view_errors: tuple[tuple[str, OSError], ...] = ()
        self._make_recovery = make_recovery
        self._segment_bytes = segment_bytes
        self._segment_records = segment_records
        self._lock_timeout_s = lock_timeout_s
        self._segment = ""
        self._descriptor = -1
        self._last: Head | None = None
        self._owed: list[dict[str, Any]] = []

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
        """The log in `folder`, which the first append makes. `name` is `<repository>/<machine>`.

        `make_recovery` turns the detail of a repair into a `recovery` record with an id and a time.
        """
        return cls(folder, name, make_recovery, segment_bytes, segment_records, lock_timeout_s)

    def append(
        self, records: Sequence[Record], *, sync: bool = True, views: "Sequence[Path]" = ()
    ) -> tuple[Appended, ...]:
        """Append all records or none, in order, and copy their lines to `views`.

        Raises LedgerWriteError, RecordTooLong. A view that cannot be written is in `view_errors` instead.
        """
        if not records:
            return ()
        try:
            held = self._take_lock()
            try:
                return self._append(records, sync, views)
            finally:
                lock.release(held)
        except lock.LockTimeout as error:
            raise LedgerWriteError(errno.ETIMEDOUT, str(self.folder), str(error)) from error
        except OSError as error:
            code = error.errno or 0
            raise LedgerWriteError(code, str(self.folder), os.strerror(code)) from error

    def close(self) -> None:
        """Let go of the segment; a later append opens it again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor, self._segment, self._last = -1, "", None

    def _take_lock(self) -> int:
        try:
            return lock.take(self._lock_at, timeout_s=self._lock_timeout_s)
        except FileNotFoundError:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            flush_folder(self.folder.parent)
            return lock.take(self._lock_at, timeout_s=self._lock_timeout_s)

    def _append(self, records: Sequence[Record], sync: bool, views: "Sequence[Path]") -> tuple[Appended, ...]:
        last = self._find_last()
        repairs = [self._make_recovery(detail) for detail in self._owed]
        batch = _chained([*repairs, *records], last, self.name)
        offset = self._make_room(last)
        blob = b"".join(line + b"\n" for _, line in batch)
        self._write(blob, offset, sync)
        placed = _placed(batch, last.seq + 1, self._segment, offset)
        self._owed.clear()
        self._remember(placed[-1], placed[-1].seq if sync else last.synced)
        self.view_errors += tuple(_failed_views(views, blob))
        return placed[len(repairs) :]

    def _write(self, blob: bytes, offset: int, sync: bool) -> None:
        try:
            _write_all(self._descriptor, blob)
            if sync:
                flush(self._descriptor)
        except OSError:
            self._last = None
            os.ftruncate(self._descriptor, offset)
            raise

    def _remember(self, placed: Appended, synced: int) -> None:
        end = placed.offset + placed.length + 1
        self._last = Head(placed.seq, placed.leaf, placed.segment, end, synced)
        self.view_errors = ()
        try:
            write_head(self.folder, self._last)
        except OSError as error:
            self.view_errors = ((str(self.folder / "head"), error),)

    def _find_last(self) -> Head:
        """What the next record follows. Sets a torn tail aside on the way; repairs are noted in `_owed`."""
        end = self._open_newest()
        last = self._last
        if last is not None and (last.segment, last.end) == (self._segment, end):
            return last
        self._owed = [detail for detail in self._owed if detail["reason"] == TORN_TAIL]
        found = self._read_last(self._open_whole(end))
        head = read_head(self.folder)
        if head is None:
            # Made before the first line, so that updating it later needs no space on a full disk.
            write_head(self.folder, found)
            return found
        if _agrees(found, head):
            return replace(found, synced=head.synced)
        self._owed.append(_loss(found, head))
        return replace(head, segment=found.segment, end=found.end)

    def _open_newest(self) -> int:
        """Have the newest segment open; its size, or 0 where there is none."""
        newest = newest_segment(self._at)
        if not newest:
            self.close()
            return 0
        return self._open(newest)

    def _open(self, segment: str, flags: int = 0) -> int:
        path = f"{self._at}/{segment}"
        if segment == self._segment:
            known = os.fstat(self._descriptor)
            if os.path.samestat(known, os.stat(path)):  # noqa: PTH116  at every append
                return known.st_size
        self.close()
        access = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(path, access | flags, 0o600)
        self._segment = segment
        return os.fstat(self._descriptor).st_size

    def _open_whole(self, end: int) -> int:
        """Have the newest segment that holds a whole line open; the offset where its last one ends."""
        while self._segment:
            whole = whole_lines(self._descriptor, end)
            if whole < end:
                self._set_aside(whole, end)
            if whole:
                return whole
            (self.folder / self._segment).unlink()
            end = self._open_newest()
        return 0

    def _set_aside(self, whole: int, end: int) -> None:
        """Move the bytes after the last newline out of the log: a crash left them, or a stranger."""
        torn = os.pread(self._descriptor, end - whole, whole)
        digest = sha256(torn)
        aside = self.folder / "torn"
        aside.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(aside / f"{digest}.bin", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _write_all(descriptor, torn)
            flush(descriptor)
        finally:
            os.close(descriptor)
        flush_folder(aside)
        os.ftruncate(self._descriptor, whole)
        detail = {"torn_sha256": digest, "bytes": len(torn), "segment": self._segment, "offset": whole}
        self._owed.append({"reason": TORN_TAIL, **detail})

    def _read_last(self, end: int) -> Head:
        if not end:
            return _last_archived(self.folder)
        line = line_before(self._descriptor, end)
        seq = seq_of(line)
        if seq is None:
            seq = first_seq(self._segment) + self._count_lines(end) - 1
        return Head(seq, leaf_hash(line).hex(), self._segment, end)

    def _count_lines(self, end: int) -> int:
        step = 1024 * 1024
        return sum(os.pread(self._descriptor, step, at).count(b"\n") for at in range(0, end, step))

    def _make_room(self, last: Head) -> int:
        """Have the segment open that takes the next record; the offset where it goes."""
        if self._segment and last.end < self._segment_bytes and self._has_room(last.seq):
            return last.end
        if self._segment:
            flush(self._descriptor)
        end = self._open(segment_name(last.seq + 1), os.O_CREAT)
        flush_folder(self.folder)
        return end

    def _has_room(self, seq: int) -> bool:
        return seq + 1 - first_seq(self._segment) < self._segment_records


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


class _ChainOnly(Struct):
    seq: int


class _BodyOnly(Struct):
    chain: _ChainOnly


class _MetadataOnly(Struct, rename={"body": KEY}):
    body: _BodyOnly


class _SeqOnly(Struct):
    metadata: _MetadataOnly


_SEQ = json.Decoder(_SeqOnly)


def seq_of(line: bytes) -> int | None:
    """The seq a line claims; None where it cannot be read."""
    try:
        return _SEQ.decode(line).metadata.body.chain.seq
    except UNREADABLE:
        return None


def _agrees(found: Head, head: Head) -> bool:
    """Whether the last line is the one in the head, or comes after it: the head is behind after a crash."""
    if (found.segment, found.end) == (head.segment, head.end):
        return found.leaf == head.leaf
    return (found.segment, found.end) > (head.segment, head.end) and found.seq > head.seq


def _loss(found: Head, head: Head) -> dict[str, Any]:
    return {
        "reason": TAIL_LOST,
        "found_seq": found.seq,
        "found_leaf": found.leaf,
        "head_seq": head.seq,
        "head_leaf": head.leaf,
        "synced_seq": head.synced,
    }


def _chained(records: Sequence[Record], last: Head, name: str) -> list[tuple[str, bytes]]:
    """Leaf and line of each record, each linked to the one before."""
    batch: list[tuple[str, bytes]] = []
    leaf = last.leaf
    for seq, record in enumerate(records, last.seq + 1):
        line = encode_record(record, Chain(log=name, seq=seq, prev=f"sha256:{leaf}"))
        if len(line) >= LINE_LIMIT:
            raise RecordTooLong(record.id, len(line))
        leaf = leaf_hash(line).hex()
        batch.append((leaf, line))
    return batch


def _placed(batch: list[tuple[str, bytes]], seq: int, segment: str, offset: int) -> tuple[Appended, ...]:
    placed: list[Appended] = []
    for leaf, line in batch:
        placed.append(Appended(seq, segment, offset, len(line), leaf, line))
        offset += len(line) + 1
        seq += 1
    return tuple(placed)


def _write_all(descriptor: int, content: bytes) -> None:
    """One write; more only where the system took a part, which ends in its error or in success."""
    written = os.write(descriptor, content)
    while written < len(content):
        written += os.write(descriptor, content[written:])


def _failed_views(views: "Sequence[Path]", blob: bytes) -> list[tuple[str, OSError]]:
    failed: list[tuple[str, OSError]] = []
    for view in views:
        try:
            _append_view(view, blob)
        except OSError as error:
            failed.append((str(view), error))
    return failed


def _append_view(view: "Path", blob: bytes) -> None:
    """Append to a file that others may own: never through a link, never into a pipe that nobody reads."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    folder = _open_folder(view)
    try:
        descriptor = os.open(view.name, flags, 0o644, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        status = os.fstat(descriptor)
        if not S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(view))
        if status.st_size and os.pread(descriptor, 1, status.st_size - 1) != b"\n":
            blob = b"\n" + blob
        _write_all(descriptor, blob)
    finally:
        os.close(descriptor)


def _open_folder(view: "Path") -> int:
    """The view's folder: a real one in its root, or a link to one that lies below the root. Raises OSError."""
    at, flags = os.path.dirname(view), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC  # noqa: PTH120  at every append
    try:
        return os.open(at, flags | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
    folder = os.open(at, flags)
    try:
        _check_below(folder, view.parent.parent)
    except OSError:
        os.close(folder)
        raise
    return folder


def _check_below(folder: int, root: "Path") -> None:
    """An open folder lies below that root: where its name became a link, it may lie elsewhere. Raises OSError."""
    wanted, up, found = root.stat(), ".", os.fstat(folder)
    while not os.path.samestat(found, wanted):
        up, last = f"{up}/..", found
        found = os.stat(up, dir_fd=folder)
        if os.path.samestat(found, last):
            raise OSError(errno.EXDEV, "its folder is a link that leads out; put a folder there", str(root))
