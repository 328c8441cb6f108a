"""What a content is: its hash, its git name, its lines."""

import hashlib
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

Sha256 = str
"""64 lower-case hex digits."""


def sha256(content: bytes) -> Sha256:
    """The SHA-256 of the raw bytes, in hex."""
    return hashlib.sha256(content).hexdigest()


def hash_git_blob(content: bytes, algorithm: Literal["sha1", "sha256"] = "sha1") -> str:
    """The name git gives these bytes. Source: git-hash-object(1), read 2026-11."""
    digest = hashlib.new(algorithm, usedforsecurity=False)
    digest.update(b"blob %d\0" % len(content))
    digest.update(content)
    return digest.hexdigest()


def count_lines(content: bytes) -> int:
    """Lines as `git blame` counts them: a last line without its newline is a line."""
    return content.count(b"\n") + (1 if content and not content.endswith(b"\n") else 0)


def hash_line_range(content: bytes, start: int, end: int) -> str:
    """`sha256:…` of lines `start` to `end` (1-based, both included), CRLF as LF, final LF added."""
    return hash_line_ranges(content, [(start, end)])[0]


def hash_line_ranges(content: bytes, ranges: Iterable[tuple[int, int]]) -> list[str]:
    """The same of several ranges: the content is taken apart once."""
    lines = content.split(b"\n")
    if b"\r" in content:
        lines = [line.removesuffix(b"\r") for line in lines]
    return ["sha256:" + sha256(b"\n".join(lines[start - 1 : end]) + b"\n") for start, end in ranges]


class ContentVersion(Struct, frozen=True):
    """One content of one file. `mode` is git's (100644, 100755, 120000)."""

    sha256: Sha256
    git_blob: str
    lines: int
    size: int
    mode: str = "100644"


class LineRange(Struct, frozen=True, order=True):
    """Lines `start` to `end`, 1-based, both included."""

    start: int
    end: int


class Hunk(Struct, frozen=True):
    """One difference of two contents, as `@@ -old,old_lines +new,new_lines @@` of a diff without context.

    With `old_lines` 0 the lines come after line `old`; likewise for `new`.
    """

    old: int
    old_lines: int
    new: int
    new_lines: int

    @property
    def old_range(self) -> range:
        """The numbers of the lines that went; where none did, the place before which lines came, as an empty range."""
        return _number_range(self.old, self.old_lines)

    @property
    def new_range(self) -> range:
        """The numbers of the lines that are new; where none are, the place before which lines went."""
        return _number_range(self.new, self.new_lines)

    @property
    def added_lines(self) -> LineRange | None:
        """The lines that are new; None where lines only went."""
        return LineRange(self.new, self.new + self.new_lines - 1) if self.new_lines else None


def _number_range(first: int, count: int) -> range:
    return range(first, first + count) if count else range(first + 1, first + 1)
