"""Contents of files: hashes, git blob ids, line counts, line ranges and hunks."""

import hashlib
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

Sha256 = str
"""64 lower-case hex digits."""


def sha256(content: bytes) -> Sha256:
    return hashlib.sha256(content).hexdigest()


def hash_git_blob(content: bytes, algorithm: Literal["sha1", "sha256"] = "sha1") -> str:
    """Return git's blob id of a content. Source: git-hash-object(1), read 2026-11."""
    digest = hashlib.new(algorithm, usedforsecurity=False)
    digest.update(b"blob %d\0" % len(content))
    digest.update(content)
    return digest.hexdigest()


def count_lines(content: bytes) -> int:
    """Count lines as `git blame` does: a last line without newline counts."""
    return content.count(b"\n") + (1 if content and not content.endswith(b"\n") else 0)


def hash_line_range(content: bytes, start: int, end: int) -> str:
    """Return `sha256:…` of lines `start` to `end` (1-based, inclusive), with LF endings and a final LF."""
    return hash_line_ranges(content, [(start, end)])[0]


def hash_line_ranges(content: bytes, ranges: Iterable[tuple[int, int]]) -> list[str]:
    """Hash several line ranges, splitting the content once. Format as in `hash_line_range`."""
    lines = content.split(b"\n")
    if b"\r" in content:
        lines = [line.removesuffix(b"\r") for line in lines]
    return ["sha256:" + sha256(b"\n".join(lines[start - 1 : end]) + b"\n") for start, end in ranges]


class ContentVersion(Struct, frozen=True):
    """A content of a file. `mode` is git's file mode (100644, 100755, 120000)."""

    sha256: Sha256
    git_blob: str
    lines: int
    size: int
    mode: str = "100644"


class LineRange(Struct, frozen=True, order=True):
    """Lines `start` to `end`, 1-based, inclusive."""

    start: int
    end: int


class Hunk(Struct, frozen=True):
    """A difference between two contents, as `@@ -old,old_lines +new,new_lines @@` without context.

    With `old_lines` 0 the new lines follow line `old`; with `new_lines` 0 the old lines followed line `new`.
    """

    old: int
    old_lines: int
    new: int
    new_lines: int

    @property
    def old_range(self) -> range:
        """Return the removed line numbers; an empty range before the first old line after an insertion."""
        return _number_range(self.old, self.old_lines)

    @property
    def new_range(self) -> range:
        """Return the added line numbers; an empty range before the first new line after a removal."""
        return _number_range(self.new, self.new_lines)

    @property
    def added_lines(self) -> LineRange | None:
        """Return the added lines, or None for a pure removal."""
        return LineRange(self.new, self.new + self.new_lines - 1) if self.new_lines else None


def _number_range(first: int, count: int) -> range:
    return range(first, first + count) if count else range(first + 1, first + 1)
