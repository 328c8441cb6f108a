"""Contents waiting for git: entries in a single file, each complete or absent.

An entry costs a write to an open file. A file per content costs ten times as much, and delays the next sync of the log
by its folder and name.
"""

import os
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from remit.core.diff.contents import sha256
from remit.workspace.files.atomic import write_atomically
from remit.workspace.files.locks import lock_file

ENTRY_HEADER = re.compile(rb"([0-9a-f]{40}) (\d{1,15}) (\d{1,6})\n")
MAX_HEADER_BYTES = 64
MARK_BYTES = 17
"""A file begins with a random word: a replacement may reuse the inode."""


class PendingContent(Struct, frozen=True):
    """Position of a content in the file. `path` is the path in the workspace, or empty."""

    blob: str
    path: bytes
    offset: int
    size: int

    @property
    def end(self) -> int:
        return self.offset + self.size + 1


class PendingContents:
    """Entries of a file that may be absent. Threads and processes may add and drop concurrently."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: list[PendingContent] = []
        self.entries_by_blob: dict[str, PendingContent] = {}
        self.mark: bytes = b""
        self.end = 0

    def add(self, contents: Sequence[tuple[str, bytes, bytes]]) -> None:
        """Append (blob name, path, content) triples. Raises OSError; readers then see complete entries only."""
        with self.open_locked(os.O_RDWR | os.O_CREAT | os.O_APPEND) as descriptor:
            size = self.read_new_entries(descriptor)
            if self.end < size:
                self.move_torn_tail_aside(descriptor, size)
            if not self.end:
                self.mark = new_mark()
                write_fully(descriptor, self.mark, 0)
                self.end = MARK_BYTES
            new = [c for c in contents if (e := self.entries_by_blob.get(c[0])) is None or e.path != c[1]]
            entries = [entry_header(blob, path, content) + content + b"\n" for blob, path, content in new]
            write_fully(descriptor, b"".join(entries), self.end)
            for blob, path, content in new:
                offset = self.end + len(entry_header(blob, path, content))
                self.remember_entry(PendingContent(blob, path, offset, len(content)))

    def read_content(self, blob: str) -> bytes | None:
        """Return the content of a blob name; None if not pending."""
        try:
            with self.open_locked(os.O_RDONLY, shared=True) as descriptor:
                self.read_new_entries(descriptor)
                entry = self.entries_by_blob.get(blob)
                return os.pread(descriptor, entry.size, entry.offset) if entry else None
        except FileNotFoundError:
            return None

    def list_entries(self) -> list[PendingContent]:
        """Return each entry, oldest first. Raises OSError."""
        try:
            with self.open_locked(os.O_RDONLY, shared=True) as descriptor:
                self.read_new_entries(descriptor)
                return [*self.entries]
        except FileNotFoundError:
            return []

    def drop_entries_before(self, end: int) -> None:
        """Drop the entries before the offset `end`: they are stored elsewhere now. Raises OSError."""
        with self.open_locked(os.O_RDWR) as descriptor:
            rest = os.pread(descriptor, os.fstat(descriptor).st_size - end, end)
            if rest:
                write_atomically(self.path, new_mark() + rest, 0o600, durable=False)
            else:
                self.path.unlink()

    @contextmanager
    def open_locked(self, flags: int, *, shared: bool = False) -> Generator[int]:
        """Open and lock the file; retry if the file was replaced during the wait. Raises FileLocked, OSError."""
        while True:
            try:
                descriptor = os.open(self.path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
            except FileNotFoundError:
                if not flags & os.O_CREAT:
                    raise
                self.path.parent.mkdir(parents=True, exist_ok=True)
                continue
            try:
                lock_file(descriptor, self.path, shared=shared)
                if os.fstat(descriptor).st_nlink:
                    yield descriptor
                    return
            finally:
                os.close(descriptor)

    def read_new_entries(self, descriptor: int) -> int:
        """Read entries added since the last call; return the file size. Torn or damaged bytes end the reading."""
        size, mark = os.fstat(descriptor).st_size, os.pread(descriptor, MARK_BYTES, 0)
        if mark != self.mark or size < self.end:
            self.entries, self.entries_by_blob = [], {}
            is_ours = len(mark) == MARK_BYTES and mark.endswith(b"\n")
            self.mark, self.end = mark, MARK_BYTES if is_ours else 0
        while 0 < self.end < size:
            entry = read_entry_at(descriptor, self.end, size)
            if entry is None:
                break
            self.remember_entry(entry)
        return size

    def remember_entry(self, entry: PendingContent) -> None:
        self.entries.append(entry)
        self.entries_by_blob[entry.blob] = entry
        self.end = entry.end

    def move_torn_tail_aside(self, descriptor: int, size: int) -> None:
        """Move bytes after the last complete entry to a separate file: left by a crash or a stranger."""
        torn = os.pread(descriptor, size - self.end, self.end)
        folder = self.path.parent / "torn"
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / f"{sha256(torn)}.bin").write_bytes(torn)
        os.ftruncate(descriptor, self.end)


def new_mark() -> bytes:
    return os.urandom(MARK_BYTES // 2).hex().encode() + b"\n"


def entry_header(blob: str, path: bytes, content: bytes) -> bytes:
    """Return the header line of an entry, followed by the path."""
    return b"%s %d %d\n%s" % (blob.encode(), len(content), len(path), path)


def read_entry_at(descriptor: int, start: int, size: int) -> PendingContent | None:
    """Return the entry at the offset; None if incomplete."""
    header = ENTRY_HEADER.match(os.pread(descriptor, MAX_HEADER_BYTES, start))
    if header is None:
        return None
    path_bytes, path_start = int(header[3]), start + header.end()
    path = os.pread(descriptor, path_bytes, path_start)
    entry = PendingContent(header[1].decode(), path, path_start + path_bytes, int(header[2]))
    is_complete = entry.end <= size and os.pread(descriptor, 1, entry.end - 1) == b"\n"
    return entry if is_complete else None


def write_fully(descriptor: int, content: bytes, end: int) -> None:
    """Write all bytes; cut off a partial write on error. Raises OSError."""
    try:
        while content:
            content = content[os.write(descriptor, content) :]
    except OSError:
        os.ftruncate(descriptor, end)
        raise
