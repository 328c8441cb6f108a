"""The machine log, the first durable place of a record, and the spool for records refused by the log.

Every hook call imports this module: keep its imports cheap.

Promises of `MachineLog.append`: on return the lines are in the log (with `sync`, on the disk); an append writes all
records or none; the chain never continues from a line in contradiction to the head. If the tail was cut or altered from
outside, the next record takes seq and `prev` from the head, and the chain shows the loss permanently. If the head is
missing, a `recovery` record reports the loss before the log continues.
"""

import errno
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from stat import S_ISREG
from typing import TYPE_CHECKING, Any

from msgspec import Struct, json
from msgspec.structs import replace

from remit.core.diff.contents import sha256
from remit.core.python_runtime import prepare_type
from remit.core.record import Chain, Record, encode_record, hash_leaf
from remit.ledger.log_files import (
    DECODE_ERRORS,
    LINE_LIMIT,
    LOCK_TIMEOUT_S,
    Head,
    LedgerError,
    LockTimeout,
    claim_folder,
    decode_header,
    find_last_line_end,
    find_own_folder,
    first_seq,
    flush,
    flush_folder,
    hold_lock,
    list_archived_segments,
    list_live_segments,
    list_segments,
    read_head,
    segment_name,
    write_all,
    write_head,
)

if TYPE_CHECKING:
    from pathlib import Path

SEGMENT_BYTES = 4 * 1024 * 1024
SEGMENT_RECORDS = 4096
"""Limits of a segment. A segment that reaches either limit is sealed: the next record begins another one."""

SPOOL_CHUNK_RECORDS = 256  # number of records that one append takes from the spool
TORN_TAIL = "torn_tail"  # reason in a `recovery` record: bytes without a newline were moved out of the log
TAIL_LOST = "tail_lost"  # reason in a `recovery` record: the tail was lost, and the log continues from `head_seq`
HEAD_LOST = "head_lost"  # reason in a `recovery` record: the head was missing, so a cut tail would go unnoticed
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

    @property
    def end(self) -> int:
        return self.offset + self.length + 1


class MachineLog:
    """The log named `<repository>/<machine>` below `root`. Threads, forks and processes may append concurrently.
    `make_recovery` turns the detail of a repair into a `recovery` record with an id and a time. `folder` is `root`, or
    a folder of this machine's own if `root` holds another machine's log.
    """

    def __init__(
        self,
        root: "Path",
        name: str,
        *,
        make_recovery: Callable[[dict[str, Any]], Record],
        segment_bytes: int = SEGMENT_BYTES,
        segment_records: int = SEGMENT_RECORDS,
        lock_timeout_s: float = LOCK_TIMEOUT_S,
    ) -> None:
        self.root = root
        self.name = name
        self.folder = find_own_folder(root, name)
        self._make_recovery = make_recovery
        self._segment_bytes = segment_bytes
        self._segment_records = segment_records
        self._lock_timeout_s = lock_timeout_s
        self._is_claimed = False
        self._descriptor = -1
        self._segment = ""  # the newest segment, kept open between appends; empty if there is none
        self._last_head: Head | None = None  # the last line this process wrote; None after the segment was reopened
        self._torn_tails: list[dict[str, Any]] = []
        """Details of torn tails that were moved aside and are not recorded yet."""
        self._losses: list[dict[str, Any]] = []

    def append(
        self, records: Sequence[Record], *, sync: bool = True, views: "Sequence[Path]" = ()
    ) -> tuple[AppendedRecord, ...]:
        """Append all records or none, in order, and copy their lines to the `views` that can be written. Raises
        LedgerWriteError, RecordTooLong.
        """
        if not records:
            return ()
        try:
            if not self._is_claimed:  # a different machine may have begun a log here in the meantime
                folder = claim_folder(self.root, self.name)
                if folder != self.folder:
                    self.close()
                    self.folder = folder
                self._is_claimed = True
            if not os.path.isdir(self.folder):  # noqa: PTH112  at every append
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                flush_folder(self.folder.parent)
            with hold_lock(f"{self.folder}/lock", timeout_s=self._lock_timeout_s):
                return self._append_locked(records, sync, views)
        except LockTimeout as error:
            raise LedgerWriteError(errno.ETIMEDOUT, str(self.folder), str(error)) from error
        except OSError as error:
            code = error.errno or 0
            raise LedgerWriteError(code, str(self.folder), os.strerror(code)) from error

    def read_end(self, max_bytes: int, since: tuple[str, int] = ("", 0)) -> bytes:
        """Return the last bytes of the newest segment, up to `max_bytes`; of segment `since[0]` only those from the
        offset `since[1]` on. Raises OSError.
        """
        size = os.fstat(self._descriptor).st_size if self._segment else 0
        if not self._segment or size >= self._segment_bytes:
            size = self._open_newest()
        if not size:
            return b""
        start = max(0, size - max_bytes, since[1] if since[0] == self._segment else 0)
        return os.pread(self._descriptor, size - start, start) if start < size else b""

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor, self._segment, self._last_head = -1, "", None

    def __del__(self) -> None:
        if vars(self).get("_descriptor", -1) >= 0:  # a daemon lives for weeks: a log that nobody closed ends with it
            os.close(self._descriptor)

    def _append_locked(
        self, records: Sequence[Record], sync: bool, views: "Sequence[Path]"
    ) -> tuple[AppendedRecord, ...]:
        last = self._find_last_line()
        repairs = [self._make_recovery(detail) for detail in (*self._torn_tails, *self._losses)]
        leaf, batch = last.leaf, list[tuple[str, bytes]]()
        for seq, record in enumerate([*repairs, *records], last.seq + 1):
            line = encode_record(record, Chain(log=self.name, seq=seq, prev=f"sha256:{leaf}"))
            if len(line) >= LINE_LIMIT:
                raise RecordTooLong(record.id, len(line))
            leaf = hash_leaf(line).hex()
            batch.append((leaf, line))
        start = end = self._open_with_room(last)
        blob = b"".join(line + b"\n" for _, line in batch)
        try:
            write_all(self._descriptor, blob)
            if sync:
                flush(self._descriptor)
        except OSError:
            self._last_head = None
            os.ftruncate(self._descriptor, start)
            raise
        placed: list[AppendedRecord] = []
        for seq, (leaf, line) in enumerate(batch, last.seq + 1):
            placed.append(AppendedRecord(seq, self._segment, end, len(line), leaf, line))
            end += len(line) + 1
        self._torn_tails.clear()
        self._losses.clear()
        seq = placed[-1].seq
        self._last_head = Head(seq, leaf, self._segment, end, seq if sync else last.synced)
        with suppress(
            OSError
        ):  # an outdated head is allowed, and the records are in the log whatever becomes of a view
            write_head(self.folder, self._last_head)
        for view in views:
            with suppress(OSError):
                append_to_view(view, blob)
        return tuple(placed[len(repairs) :])

    def _find_last_line(self) -> Head:
        end = self._open_newest()
        last = self._last_head
        if last is not None and (last.segment, last.end) == (self._segment, end):
            return last
        self._losses = []
        found = self._read_head_before(self._drop_torn_tails(end))
        head = read_head(self.folder)
        if head is None:
            # A head is written before the first line, and tree heads follow the first line.
            if found.seq >= 0 or os.path.isdir(f"{self.folder}/heads"):  # noqa: PTH112  before a process's first append
                # The head is written with the record that reports its loss, and not before: until then the loss must
                # stay visible.
                self._losses = [{"reason": HEAD_LOST, "found_seq": found.seq, "found_leaf": found.leaf}]
            else:
                # Made before the first line, so that updating it later needs no space on a full disk.
                write_head(self.folder, found)
            return found
        # The last line is the head's, or a later one: after a crash the head may be outdated.
        place, of_head = (found.segment, found.end), (head.segment, head.end)
        is_head_line = place == of_head and found.leaf == head.leaf
        if is_head_line or (place > of_head and found.seq > head.seq):
            return replace(found, synced=head.synced)
        lost = {"head_seq": head.seq, "head_leaf": head.leaf, "synced_seq": head.synced}
        self._losses = [{"reason": TAIL_LOST, "found_seq": found.seq, "found_leaf": found.leaf, **lost}]
        return replace(head, segment=found.segment, end=found.end)

    # -- the newest segment ---------------------------------------------------------------------------------

    def _open_newest(self) -> int:
        newest = max(list_live_segments(self.folder), default="")
        if newest:
            return self._open_segment(newest)
        self.close()
        return 0

    def _open_with_room(self, last: Head) -> int:
        if self._segment:
            if last.end < self._segment_bytes and last.seq + 1 - first_seq(self._segment) < self._segment_records:
                return last.end
            flush(self._descriptor)
        end = self._open_segment(segment_name(last.seq + 1), os.O_CREAT)
        flush_folder(self.folder)
        return end

    def _open_segment(self, segment: str, flags: int = 0) -> int:
        path = f"{self.folder}/{segment}"
        if segment == self._segment:
            known = os.fstat(self._descriptor)
            if os.path.samestat(known, os.stat(path)):  # noqa: PTH116  at every append
                return known.st_size
        self.close()
        access = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(path, access | flags, 0o600)
        self._segment = segment
        return os.fstat(self._descriptor).st_size

    def _drop_torn_tails(self, end: int) -> int:
        """Open the newest segment with a complete line, and return the offset after that line. Bytes after the last
        newline, left by a crash or written by another program, are moved out of the log. Segments without a complete
        line are removed.
        """
        while self._segment:
            complete = find_last_line_end(self._descriptor, end)
            if complete < end:
                torn = os.pread(self._descriptor, end - complete, complete)
                digest = sha256(torn)
                folder = self.folder / "torn"
                folder.mkdir(mode=0o700, exist_ok=True)
                descriptor = os.open(folder / f"{digest}.bin", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
                try:
                    write_all(descriptor, torn)
                    flush(descriptor)
                finally:
                    os.close(descriptor)
                flush_folder(folder)
                os.ftruncate(self._descriptor, complete)
                detail = {"torn_sha256": digest, "bytes": len(torn), "segment": self._segment, "offset": complete}
                self._torn_tails.append({"reason": TORN_TAIL, **detail})
            if complete:
                return complete
            (self.folder / self._segment).unlink()
            end = self._open_newest()
        return 0

    def _read_head_before(self, end: int) -> Head:
        """Return the line that ends at `end` of the open segment; at 0, the last archived line or the default head."""
        if end:
            start = find_last_line_end(self._descriptor, end - 1)
            line = os.pread(self._descriptor, end - 1 - start, start)
            # An undecodable last line still takes a number: the one that follows from its position.
            if header := decode_header(line):
                seq = header.chain.seq
            else:
                step = 1024 * 1024
                lines = sum(os.pread(self._descriptor, step, at).count(b"\n") for at in range(0, end, step))
                seq = first_seq(self._segment) + lines - 1
            return Head(seq, hash_leaf(line).hex(), self._segment, end)
        newest = max(list_archived_segments(self.folder), default="")
        last = Head()
        if newest:
            from remit.ledger.reader import read_segment_lines  # only a log without plain segments gets here

            for line in read_segment_lines(self.folder, newest):
                last = Head(line.seq, line.leaf_digest.hex(), line.segment, line.offset + line.size)
        return last


# -- live views ----------------------------------------------------------------------------------------------


def append_to_view(view: "Path", blob: bytes) -> None:
    """Append lines to a file that copies the log for people and tools. Raises OSError."""
    # Another user may own the view: O_NOFOLLOW refuses a link, O_NONBLOCK never waits for a pipe's reader.
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    folder = _open_view_folder(view)
    try:
        descriptor = os.open(view.name, flags, 0o644, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        if not S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(view))
        _append_lines(descriptor, blob)
    finally:
        os.close(descriptor)


def _append_lines(descriptor: int, blob: bytes) -> None:
    """Append whole lines; a torn line at the end gets its newline first. Raises OSError."""
    size = os.fstat(descriptor).st_size
    write_all(descriptor, b"\n" + blob if size and os.pread(descriptor, 1, size - 1) != b"\n" else blob)


def _open_view_folder(view: "Path") -> int:
    """Open the view's folder: a real folder, or a link to a folder below the workspace root. Raises OSError."""
    at, flags = os.path.dirname(view), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC  # noqa: PTH120  at every append
    try:
        return os.open(at, flags | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
    folder, root = os.open(at, flags), view.parent.parent
    try:
        wanted, up, found = root.stat(), ".", os.fstat(folder)
        while not os.path.samestat(found, wanted):
            up, last = f"{up}/..", found
            found = os.stat(up, dir_fd=folder)
            if os.path.samestat(found, last):
                why = "its folder is a link out of the workspace; replace the link by a folder"
                raise OSError(errno.EXDEV, why, str(root))
    except OSError:
        os.close(folder)
        raise
    return folder


# -- the spool -----------------------------------------------------------------------------------------------


class Spool:
    """A file of records not accepted by a log yet, a line each and not chained. Processes may share the file.
    `unreadable_path` takes unacceptable lines: torn by a crash, or too long.
    """

    def __init__(self, path: "Path") -> None:
        self.path = path
        self.unreadable_path = path.with_name(path.name + ".unreadable")
        self._lock_path = path.with_name(path.name + ".lock")

    def store(self, records: Sequence[Record]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with hold_lock(self._lock_path):
            _append_to_spool(self.path, [json.encode(record) for record in records])

    def count_pending(self) -> int:
        return len(self._read_lines())

    def drain(self, log: MachineLog, *, views: "Sequence[Path]" = ()) -> int:
        """Append the waiting records in order, remove them from the spool, and return their number. After a crash in
        between, records already near the end of the log are not appended again. Raises LedgerWriteError; the spool then
        keeps the remaining records.
        """
        if not self.path.exists():
            return 0
        with hold_lock(self._lock_path):
            from remit.ledger.reader import read_segment_lines  # few calls find a spool

            # Of the last two segments: the newest may have just begun.
            near_end = (
                line for name in list_segments(log.folder)[-2:] for line in read_segment_lines(log.folder, name)
            )
            known = {header.id for line in near_end if line.ended and (header := decode_header(line.raw))}
            appended = 0
            while chunk := self._read_lines()[:SPOOL_CHUNK_RECORDS]:
                appended += self._append_acceptable(chunk, known, log, views)
                self._remove_lines(len(chunk))
            return appended

    def _append_acceptable(self, chunk: list[bytes], known: set[str], log: MachineLog, views: "Sequence[Path]") -> int:
        records: list[Record] = []
        for line in chunk:
            try:
                records.append(json.decode(line, type=prepare_type(Record)))
            except DECODE_ERRORS:
                _append_to_spool(self.unreadable_path, [line])
        records = [record for record in records if record.id not in known]
        while records:
            try:
                return len(log.append(records, views=views))
            except RecordTooLong as error:
                refused = [json.encode(record) for record in records if record.id == error.record_id]
                _append_to_spool(self.unreadable_path, refused)
                records = [record for record in records if record.id != error.record_id]
        return 0

    def _read_lines(self) -> list[bytes]:
        try:
            return [line for line in self.path.read_bytes().split(b"\n") if line]
        except FileNotFoundError:
            return []

    def _remove_lines(self, count: int) -> None:
        """Remove the first `count` lines. The rest goes to a new file first, so that a crash loses none."""
        if rest := self._read_lines()[count:]:
            fresh = self.path.with_name(self.path.name + ".new")
            fresh.unlink(missing_ok=True)
            _append_to_spool(fresh, rest)
            fresh.replace(self.path)
        else:
            self.path.unlink()


def _append_to_spool(path: "Path", lines: Sequence[bytes]) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        _append_lines(descriptor, b"".join(line + b"\n" for line in lines))
        flush(descriptor)
    finally:
        os.close(descriptor)
