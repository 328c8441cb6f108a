"""Contents that wait until git takes them: entries in one file, each whole or not there.

An entry is one write to a file that is open anyway. A file for each content costs ten times as much, and makes the
next sync of the log wait for its folder and its name.
"""

import os
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from remit.core.diff.contents import sha256
from remit.workspace.files.locks import lock_file

ENTRY_HEADER = re.compile(rb"([0-9a-f]{40}) (\d{1,15}) (\d{1,6})\n")
MAX_HEADER_BYTES = 64
"""No header is longer."""

MARK_BYTES = 17
"""A file begins with a word drawn by chance: one that replaced another may have its inode."""


class PendingContent(Struct, frozen=True):
    """Where one content stands in the file. `path` is where it lay in the workspace; empty where nobody said."""

    blob: str
    path: bytes
    offset: int
    size: int

    @property
    def end(self) -> int:
        """Where the next entry begins."""
        return self.offset + self.size + 1


class PendingContents:
    """The entries of one file, which need not be there. Threads and processes may add and take at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: list[PendingContent] = []
        self.entries_by_blob: dict[str, PendingContent] = {}
        self.mark: bytes = b""
        self.end = 0

    def add(self, contents: Sequence[tuple[str, bytes, bytes]]) -> None:
        """Append (git name, path, content) each. Raises OSError: then readers see none of them, or some whole."""
        try:
            self.append_to_file(contents)
        except FileNotFoundError:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.append_to_file(contents)

    def append_to_file(self, contents: Sequence[tuple[str, bytes, bytes]]) -> None:
        """The same where the folder is there."""
        with self.open_locked(os.O_RDWR | os.O_CREAT | os.O_APPEND) as descriptor:
            size = self.read_new_entries(descriptor)
            if self.end < size:
                self.move_torn_tail_aside(descriptor, size)
            if not self.end:
                self.write_file_mark(descriptor)
            fresh = [c for c in contents if not self.has_entry(c[0], c[1])]
            write_fully(descriptor, b"".join(b for entry in fresh for b in encode_entry(*entry)), self.end)
            for blob, path, content in fresh:
                self.remember_entry(
                    PendingContent(blob, path, self.end + len(entry_header(blob, path, content)), len(content))
                )

    def has_entry(self, blob: str, path: bytes) -> bool:
        """Whether that content waits, known to lie there."""
        found = self.entries_by_blob.get(blob)
        return found is not None and found.path == path

    def read_content(self, blob: str) -> bytes | None:
        """The content of that git name, as it was written; None where it does not wait."""
        try:
            with self.open_locked(os.O_RDONLY, shared=True) as descriptor:
                self.read_new_entries(descriptor)
                found = self.entries_by_blob.get(blob)
                return os.pread(descriptor, found.size, found.offset) if found else None
        except FileNotFoundError:
            return None

    def list_entries(self) -> list[PendingContent]:
        """Every entry, the oldest first. Raises OSError."""
        try:
            with self.open_locked(os.O_RDONLY, shared=True) as descriptor:
                self.read_new_entries(descriptor)
                return [*self.entries]
        except FileNotFoundError:
            return []

    def drop_entries_before(self, end: int) -> None:
        """Forget the entries before `end`: they are kept elsewhere now. Raises OSError."""
        with self.open_locked(os.O_RDWR) as descriptor:
            rest = os.pread(descriptor, os.fstat(descriptor).st_size - end, end)
            if not rest:
                self.path.unlink()
                return
            fresh = self.path.with_name(f"{self.path.name}.{os.getpid()}")
            fresh.write_bytes(new_mark() + rest)
            fresh.chmod(0o600)
            fresh.replace(self.path)

    @contextmanager
    def open_locked(self, flags: int, *, shared: bool = False) -> Generator[int]:
        """Open the file and lock it. A file that was replaced during the wait is let go. Raises FileLocked, OSError."""
        while True:
            descriptor = os.open(self.path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
            try:
                lock_file(descriptor, self.path, shared=shared)
                if os.fstat(descriptor).st_nlink:
                    yield descriptor
                    return
            finally:
                os.close(descriptor)

    def read_new_entries(self, descriptor: int) -> int:
        """Know the entries that came since; the size of the file. What is torn or damaged is no entry."""
        size, mark = os.fstat(descriptor).st_size, os.pread(descriptor, MARK_BYTES, 0)
        if mark != self.mark or size < self.end:
            self.entries, self.entries_by_blob = [], {}
            self.mark, self.end = mark, MARK_BYTES if is_mark(mark) else 0
        while 0 < self.end < size:
            entry = read_entry_at(descriptor, self.end, size)
            if entry is None:
                break
            self.remember_entry(entry)
        return size

    def write_file_mark(self, descriptor: int) -> None:
        """Write the first bytes of a new file. Raises OSError."""
        self.mark = new_mark()
        write_fully(descriptor, self.mark, 0)
        self.end = MARK_BYTES

    def remember_entry(self, entry: PendingContent) -> None:
        """The entry is the last one."""
        self.entries.append(entry)
        self.entries_by_blob[entry.blob] = entry
        self.end = entry.end

    def move_torn_tail_aside(self, descriptor: int, size: int) -> None:
        """Move what follows the last whole entry out of the file: a crash left it, or a stranger."""
        torn = os.pread(descriptor, size - self.end, self.end)
        aside = self.path.parent / "torn"
        aside.mkdir(mode=0o700, exist_ok=True)
        (aside / f"{sha256(torn)}.bin").write_bytes(torn)
        os.ftruncate(descriptor, self.end)


def new_mark() -> bytes:
    """What a new file begins with."""
    return os.urandom(MARK_BYTES // 2).hex().encode() + b"\n"


def is_mark(found: bytes) -> bool:
    """Whether a file begins as ours do."""
    return len(found) == MARK_BYTES and found.endswith(b"\n")


def entry_header(blob: str, path: bytes, content: bytes) -> bytes:
    """The first line of an entry, and the path."""
    return b"%s %d %d\n%s" % (blob.encode(), len(content), len(path), path)


def encode_entry(blob: str, path: bytes, content: bytes) -> tuple[bytes, ...]:
    """An entry as it stands in the file."""
    return entry_header(blob, path, content), content, b"\n"


def read_entry_at(descriptor: int, start: int, size: int) -> PendingContent | None:
    """The entry that begins at `start`; None where none that is whole does."""
    head = ENTRY_HEADER.match(os.pread(descriptor, MAX_HEADER_BYTES, start))
    if head is None:
        return None
    path_bytes, begin = int(head[3]), start + head.end()
    entry = PendingContent(head[1].decode(), os.pread(descriptor, path_bytes, begin), begin + path_bytes, int(head[2]))
    whole = entry.end <= size and os.pread(descriptor, 1, entry.end - 1) == b"\n"
    return entry if whole else None


def write_fully(descriptor: int, content: bytes, end: int) -> None:
    """One write; what an error leaves of it is cut off again. Raises OSError."""
    try:
        while content:
            content = content[os.write(descriptor, content) :]
    except OSError:
        os.ftruncate(descriptor, end)
        raise
