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

from remit.core.contents import sha256
from remit.workspace.file_locks import lock_file

HEADER = re.compile(rb"([0-9a-f]{40}) (\d{1,15}) (\d{1,6})\n")
HEADER_BYTES = 64
"""No header is longer."""

MARK_BYTES = 17
"""A file begins with a word drawn by chance: one that replaced another may have its inode."""


class Entry(Struct, frozen=True):
    """Where one content stands in the file. `path` is where it lay in the workspace; empty where nobody said."""

    blob: str
    path: bytes
    at: int
    size: int

    @property
    def end(self) -> int:
        """Where the next entry begins."""
        return self.at + self.size + 1


class Waiting:
    """The entries of one file, which need not be there. Threads and processes may add and take at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: list[Entry] = []
        self.known: dict[str, Entry] = {}
        self.mark: bytes = b""
        self.end = 0

    def add(self, contents: Sequence[tuple[str, bytes, bytes]]) -> None:
        """Append (git name, path, content) each. Raises OSError: then readers see none of them, or some whole."""
        try:
            self.append(contents)
        except FileNotFoundError:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.append(contents)

    def append(self, contents: Sequence[tuple[str, bytes, bytes]]) -> None:
        """The same where the folder is there."""
        with self.opened(os.O_RDWR | os.O_CREAT | os.O_APPEND) as descriptor:
            size = self.catch_up(descriptor)
            if self.end < size:
                self.set_aside(descriptor, size)
            if not self.end:
                self.begin(descriptor)
            fresh = [c for c in contents if not self.has(c[0], c[1])]
            write_whole(descriptor, b"".join(b for entry in fresh for b in written(*entry)), self.end)
            for blob, path, content in fresh:
                self.note(Entry(blob, path, self.end + len(header(blob, path, content)), len(content)))

    def has(self, blob: str, path: bytes) -> bool:
        """Whether that content waits, known to lie there."""
        found = self.known.get(blob)
        return found is not None and found.path == path

    def get(self, blob: str) -> bytes | None:
        """The content of that git name, as it was written; None where it does not wait."""
        try:
            with self.opened(os.O_RDONLY, shared=True) as descriptor:
                self.catch_up(descriptor)
                found = self.known.get(blob)
                return os.pread(descriptor, found.size, found.at) if found else None
        except FileNotFoundError:
            return None

    def all(self) -> list[Entry]:
        """Every entry, the oldest first. Raises OSError."""
        try:
            with self.opened(os.O_RDONLY, shared=True) as descriptor:
                self.catch_up(descriptor)
                return [*self.entries]
        except FileNotFoundError:
            return []

    def taken(self, end: int) -> None:
        """Forget the entries before `end`: they are kept elsewhere now. Raises OSError."""
        with self.opened(os.O_RDWR) as descriptor:
            rest = os.pread(descriptor, os.fstat(descriptor).st_size - end, end)
            if not rest:
                self.path.unlink()
                return
            fresh = self.path.with_name(f"{self.path.name}.{os.getpid()}")
            fresh.write_bytes(new_mark() + rest)
            fresh.chmod(0o600)
            fresh.replace(self.path)

    @contextmanager
    def opened(self, flags: int, *, shared: bool = False) -> Generator[int]:
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

    def catch_up(self, descriptor: int) -> int:
        """Know the entries that came since; the size of the file. What is torn or damaged is no entry."""
        size, mark = os.fstat(descriptor).st_size, os.pread(descriptor, MARK_BYTES, 0)
        if mark != self.mark or size < self.end:
            self.entries, self.known = [], {}
            self.mark, self.end = mark, MARK_BYTES if is_mark(mark) else 0
        while 0 < self.end < size:
            entry = entry_at(descriptor, self.end, size)
            if entry is None:
                break
            self.note(entry)
        return size

    def begin(self, descriptor: int) -> None:
        """Write the first bytes of a new file. Raises OSError."""
        self.mark = new_mark()
        write_whole(descriptor, self.mark, 0)
        self.end = MARK_BYTES

    def note(self, entry: Entry) -> None:
        """The entry is the last one."""
        self.entries.append(entry)
        self.known[entry.blob] = entry
        self.end = entry.end

    def set_aside(self, descriptor: int, size: int) -> None:
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


def header(blob: str, path: bytes, content: bytes) -> bytes:
    """The first line of an entry, and the path."""
    return b"%s %d %d\n%s" % (blob.encode(), len(content), len(path), path)


def written(blob: str, path: bytes, content: bytes) -> tuple[bytes, ...]:
    """An entry as it stands in the file."""
    return header(blob, path, content), content, b"\n"


def entry_at(descriptor: int, start: int, size: int) -> Entry | None:
    """The entry that begins at `start`; None where none that is whole does."""
    head = HEADER.match(os.pread(descriptor, HEADER_BYTES, start))
    if head is None:
        return None
    path_bytes, begin = int(head[3]), start + head.end()
    entry = Entry(head[1].decode(), os.pread(descriptor, path_bytes, begin), begin + path_bytes, int(head[2]))
    whole = entry.end <= size and os.pread(descriptor, 1, entry.end - 1) == b"\n"
    return entry if whole else None


def write_whole(descriptor: int, content: bytes, end: int) -> None:
    """One write; what an error leaves of it is cut off again. Raises OSError."""
    try:
        while content:
            content = content[os.write(descriptor, content) :]
    except OSError:
        os.ftruncate(descriptor, end)
        raise
