"""The files of the logs: segments named after the first seq, a head describing the last line, locks.

The first machine's log lies in the log folder itself, where early versions of Remit put it. A machine with a different
key (a container, `sudo`, a computer with a copy, a lost state folder) has its own folder below `machines/`. Machines
write into their own logs only, and readers take the union.

Every hook call imports this module: keep its imports cheap. The views of records decode only the fields a reader needs,
and skip the rest of the line.
"""

import fcntl
import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec import DecodeError, Struct, json

from remit.core.diff.contents import sha256
from remit.core.python_runtime import prepare_type
from remit.core.record import KEY

if TYPE_CHECKING:
    from pathlib import Path


ViewT = TypeVar("ViewT")

DECODE_ERRORS = (DecodeError, UnicodeDecodeError, RecursionError)
"""Errors that msgspec raises for a line that is not a record; RecursionError for JSON nested too deeply."""


class RecordMetadata(Struct, Generic[ViewT], rename={"body": KEY}):
    """Remit's part of a record, under `dev.remit`."""

    body: ViewT


class RecordLine(Struct, Generic[ViewT]):
    """A log line as a view: `json.Decoder(RecordLine[View])` skips all fields that `View` does not name."""

    metadata: RecordMetadata[ViewT]


class ChainView(Struct):
    """A record's place in the chain of its log."""

    log: str
    seq: int
    prev: str


class HeaderView(Struct):
    """The event of a record, and its place in the chain."""

    chain: ChainView
    event: str = ""


class RecordHeader(RecordLine[HeaderView]):
    """The fields that each record has. A line without them is not a record."""

    id: str
    timestamp: str

    @property
    def chain(self) -> ChainView:
        return self.metadata.body.chain

    @property
    def event(self) -> str:
        return self.metadata.body.event


class AcknowledgedFinding(Struct):
    """A finding named in an acknowledgement."""

    log: str
    subject: str


class RecordDetail(Struct):
    """The fields of `recovery`, `pruned` and `tree_head` records that the ledger itself reads. `pruned` are first and
    last seq of parts with possible gaps; `note` is the signed note of a tree head.
    """

    reason: str = ""
    synced_seq: int = -1
    pruned: tuple[tuple[int, int], ...] = ()
    findings: tuple[AcknowledgedFinding, ...] = ()
    note: str = ""


_HEADER = json.Decoder(prepare_type(RecordHeader))
_DETAIL = json.Decoder(prepare_type(RecordLine[RecordDetail]))


def decode_header(line: bytes) -> RecordHeader | None:
    """Decode id, time, event and place of a record; None if the line is not a record."""
    try:
        line.decode()  # msgspec skips other fields, also those that are not UTF-8
        return _HEADER.decode(line)
    except DECODE_ERRORS:
        return None


def decode_detail(line: bytes) -> RecordDetail:
    """Decode the detail of a record of the ledger's own; empty if it has another form."""
    try:
        return _DETAIL.decode(line).metadata.body
    except DECODE_ERRORS:
        return RecordDetail()


LINE_LIMIT = 4 * 1024 * 1024  # maximum length of a line that is written or read, newline included
ZERO_HASH = "0" * 64
ARCHIVE_FOLDER = "archive"  # subfolder for compressed, sealed segments
FOREIGN_FOLDER = "foreign"  # subfolder for copies of other machines' and tools' logs
MACHINES_FOLDER = "machines"  # subfolder for the logs of all machines but the first
OWNER_FILE = "owner"  # file with the name of the log that lies in the log folder itself
LOCK_TIMEOUT_S = 10.0

_BLOCK_BYTES = 64 * 1024
_SUFFIX = ".jsonl"
_ARCHIVE_SUFFIX = ".gz"
_NAME_DIGITS = 12
_MAX_NAME_BYTES = 256


class LedgerError(Exception):
    """Base class of the ledger's errors."""


class LockTimeout(OSError):
    """A lock held by a different process or thread for the whole timeout."""


@contextmanager
def hold_lock(path: "Path | str", *, shared: bool = False, timeout_s: float = LOCK_TIMEOUT_S) -> Generator[None]:
    """Hold the lock of a file during the block. Only an exclusive lock creates the file. Raises LockTimeout, OSError.
    Each call opens a new descriptor: flock(2) locks belong to the descriptor, hence threads and forked children with a
    shared descriptor would not exclude each other.
    """
    kind, access = (fcntl.LOCK_SH, os.O_RDONLY) if shared else (fcntl.LOCK_EX, os.O_RDWR | os.O_CREAT)
    deadline, pause_s = time.monotonic() + timeout_s, 0.0002
    while True:
        descriptor = os.open(path, access | os.O_CLOEXEC, 0o600)
        try:
            with suppress(BlockingIOError):
                fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
                # A deleted lock file excludes nobody: the next process creates and locks a new file.
                if os.fstat(descriptor).st_nlink:
                    break
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        if time.monotonic() >= deadline:
            raise LockTimeout(f"{str(path)!r} was held by another process for {timeout_s:g} s")
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, 0.005)
    try:
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # explicit: a forked child may still hold a copy of the descriptor
        os.close(descriptor)


# -- segments ------------------------------------------------------------------------------------------------


def segment_name(first: int) -> str:
    return f"{first:0{_NAME_DIGITS}d}{_SUFFIX}"


def first_seq(segment: str) -> int:
    """Return the seq of a segment's first line, as stated by the segment's name."""
    return int(segment.removesuffix(_SUFFIX))


def is_segment(name: str) -> bool:
    stem = name.removesuffix(_SUFFIX)
    return stem != name and len(stem) == _NAME_DIGITS and stem.isascii() and stem.isdigit()


def list_segments(folder: "Path") -> list[str]:
    """Return the names of all segments, archived or not, oldest first. A missing folder has no segments."""
    live = list_live_segments(folder)  # first: one that is archived meanwhile is then in the other list
    return sorted({*live, *list_archived_segments(folder)})


def list_live_segments(folder: "Path") -> list[str]:
    """Return the names of the segments that still exist as plain files, oldest first. Appends go to the last one."""
    return sorted(filter(is_segment, _list_names(folder)))


def list_archived_segments(folder: "Path") -> list[str]:
    names = _list_names(f"{folder}/{ARCHIVE_FOLDER}")
    return sorted(stem for name in names if is_segment(stem := name.removesuffix(_ARCHIVE_SUFFIX)) and stem != name)


def archive_path(folder: "Path", segment: str) -> "Path":
    return folder / ARCHIVE_FOLDER / f"{segment}{_ARCHIVE_SUFFIX}"


def _list_names(folder: "Path | str") -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 at every append, and pathlib takes five times as long
    except (FileNotFoundError, NotADirectoryError):
        return []


def replace_file(path: "Path", content: bytes) -> None:
    """Write a file atomically: readers see the old or the new content. Raises OSError."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_bytes(content)
    fresh.replace(path)


def is_unwritable(path: "Path") -> bool:
    return not os.access(path if path.exists() else path.parent, os.W_OK) or not os.access(path.parent, os.W_OK)


def find_last_line_end(descriptor: int, end: int) -> int:
    """Return the offset after the last newline before `end`, searching backwards; 0 if there is none."""
    while end > 0:
        start = max(0, end - _BLOCK_BYTES)
        found = os.pread(descriptor, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def write_all(descriptor: int, content: bytes) -> None:
    """Write all of `content`: one write(2), and more calls only after a short write. Raises OSError."""
    written = os.write(descriptor, content)
    while written < len(content):
        written += os.write(descriptor, content[written:])


if sys.platform == "darwin":
    from fcntl import F_FULLFSYNC

    def flush(descriptor: int) -> None:
        """Wait until the content is on the disk; on macOS `fsync` only reaches the drive's cache."""
        fcntl.fcntl(descriptor, F_FULLFSYNC)
else:

    def flush(descriptor: int) -> None:
        os.fdatasync(descriptor)


def flush_folder(folder: "Path") -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# -- the head ------------------------------------------------------------------------------------------------


class Head(Struct, frozen=True):
    """The last appended line: seq, leaf hash, segment, and the offset after the newline. `synced` is the last seq known
    to be on the disk; a power failure may lose later records. The default value precedes the first line: its leaf is
    the `prev` of the first record.
    """

    seq: int = -1
    leaf: str = ZERO_HASH
    segment: str = segment_name(0)
    end: int = 0
    synced: int = -1


def encode_head(head: Head) -> bytes:
    text = f"{head.seq:012d} {head.leaf} {head.segment} {head.end:012d} {head.synced:012d}"
    return f"{text} {sha256(text.encode())[:16]}\n".encode()


def decode_head(raw: bytes) -> Head | None:
    text, _, check = raw.decode("latin-1").removesuffix("\n").rpartition(" ")
    if sha256(text.encode())[:16] != check:
        return None
    seq, leaf, segment, end, synced = text.split(" ")
    return Head(int(seq), leaf, segment, int(end), int(synced))


def read_head(folder: "Path") -> Head | None:
    """Return the head of a log; None if the file is missing or damaged."""
    try:
        return decode_head((folder / "head").read_bytes())
    except FileNotFoundError:
        return None


def write_head(folder: "Path", head: Head) -> None:
    """Overwrite the head in place, without fsync: after a crash an outdated head is allowed."""
    descriptor = os.open(f"{folder}/head", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(descriptor, encode_head(head), 0)
    finally:
        os.close(descriptor)


# -- the logs of several machines ----------------------------------------------------------------------------


class LocalLog(Struct, frozen=True):
    """A log of this repository. `place` is the relative path from the log folder, empty for the log folder itself.
    `name` is the log's name, empty if unknown.
    """

    place: str
    folder: "Path"
    name: str


def find_own_folder(root: "Path", name: str) -> "Path":
    return root if read_owner(root) in ("", name) else root / MACHINES_FOLDER / name.rpartition("/")[2]


def claim_folder(root: "Path", name: str) -> "Path":
    """Return the folder of the named log before an append, and settle who owns `root`. Raises OSError. Of machines that
    begin simultaneously the first gets `root`: link(2) fails if the owner file exists.
    """
    if not _read_owner_file(root):
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = root / f"{OWNER_FILE}.{os.getpid()}.{os.urandom(4).hex()}"
        fresh.write_text(f"{read_owner(root) or name}\n", "utf-8")
        try:
            with suppress(FileExistsError):
                os.link(fresh, root / OWNER_FILE)
        finally:
            fresh.unlink()
    return find_own_folder(root, name)


def read_owner(root: "Path") -> str:
    return _read_owner_file(root) or _read_first_log_name(root)


def list_local_logs(root: "Path") -> list[LocalLog]:
    owner = read_owner(root)
    found = [LocalLog("", root, owner)] if list_segments(root) else []
    for place in list_log_places(root)[1:]:
        if list_segments(folder := root / place):
            repository = (_read_first_log_name(folder) or owner).rpartition("/")[0]
            found.append(LocalLog(place, folder, f"{repository}/{folder.name}"))
    return found


def list_local_names(root: "Path", own: str) -> frozenset[str]:
    """Return the names of the repository's logs, and `own` even with an empty log."""
    return frozenset((own, *(log.name for log in list_local_logs(root))))


def list_log_places(root: "Path") -> list[str]:
    machines: list[str] = []
    with suppress(OSError):
        machines = sorted(os.listdir(f"{root}/{MACHINES_FOLDER}"))  # noqa: PTH208  at every query
    return ["", *(f"{MACHINES_FOLDER}/{machine}" for machine in machines)]


def list_readable_places(root: "Path") -> list[str]:
    """Return the log places readable for this user: `sudo` leaves logs that only root can read."""
    return [place for place in list_log_places(root) if not place or is_readable(root / place)]


def list_segment_sizes(root: "Path") -> list[tuple[str, int]]:
    """Return the files of all readable logs with their sizes, which change with each record. Raises OSError."""
    sizes: list[tuple[str, int]] = []
    for place in list_readable_places(root):
        with os.scandir(root / place) as entries:
            sizes += [(f"{place}/{entry.name}", entry.stat().st_size) for entry in entries if entry.is_file()]
    return sorted(sizes)


def is_readable(folder: "Path") -> bool:
    try:
        paths = [f"{folder}/{name}" for name in os.listdir(folder) if is_segment(name)]  # noqa: PTH208
    except OSError:
        return False
    return all(os.path.isfile(path) and os.access(path, os.R_OK) for path in paths)  # noqa: PTH113


def _read_owner_file(root: "Path") -> str:
    """Return the content of the owner file; empty if there is none. O_NONBLOCK: a FIFO in its place must not block."""
    try:
        descriptor = os.open(f"{root}/{OWNER_FILE}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(descriptor, _MAX_NAME_BYTES).decode("utf-8", "replace").strip()
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def _read_first_log_name(folder: "Path") -> str:
    if not is_readable(folder):  # opening a FIFO with a segment's name would block
        return ""
    import gzip  # a log with an owner file never gets here
    import zlib

    for name in list_segments(folder):
        live = folder / name
        content = live.open("rb") if live.exists() else gzip.open(archive_path(folder, name))  # noqa: SIM115  closed below
        with suppress(OSError, EOFError, zlib.error), content as file:  # an archive may be damaged
            while line := file.readline(LINE_LIMIT):
                header = decode_header(line) if line.endswith(b"\n") else None
                if header is not None:
                    return header.chain.log
    return ""
