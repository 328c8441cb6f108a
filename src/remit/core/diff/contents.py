"""Contents of files: hashes, line ranges and spans, hunks, and edit scripts for small changes; git compares the rest.

Among equally short scripts the most natural is chosen: runs of changed lines slide to where a block begins, as in git's
diff.
A distinctive line is specific enough to match authors; `}`, `try:` and `return None` are common lines.
"""

import hashlib
import re
import sys
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Literal, TypeAlias
from zlib import crc32

from msgspec import Struct

Sha256 = str
"""64 lower-case hex digits."""


def sha256(content: bytes) -> Sha256:
    return hashlib.sha256(content).hexdigest()


def hash_git_blob(content: bytes, algorithm: Literal["sha1", "sha256"] = "sha1") -> str:
    """Return git's blob id of a content. Source: git-hash-object(1), read 2026-11."""
    digest = hashlib.new(algorithm, b"blob %d\0" % len(content), usedforsecurity=False)
    digest.update(content)
    return digest.hexdigest()


def encode_text(text: str) -> bytes:
    """Encode text as tools write it; a lone surrogate, which no file can hold, becomes a question mark."""
    return text.encode("utf-8", "replace")


def encode_content(text: str) -> bytes:
    """Encode text of a file; bytes outside of UTF-8 come back as they were."""
    return text.encode("utf-8", "surrogateescape")


def decode_content(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")


def count_lines(content: bytes) -> int:
    """Count lines as `git blame` does: a last line without newline counts."""
    return content.count(b"\n") + (1 if content and not content.endswith(b"\n") else 0)


def split_lines(content: bytes) -> list[bytes]:
    """Split lines without newlines. A last line is unchanged when only its newline is new."""
    lines = content.split(b"\n")
    return lines if lines[-1] else lines[:-1]


def split_with_ends(text: str) -> list[str]:
    """Split text into lines that keep their LF; a last line may have none."""
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def hash_line_range(content: bytes, start: int, end: int) -> str:
    """Return `sha256:…` of lines `start` to `end` (1-based, inclusive), with LF endings and a final LF."""
    return hash_line_ranges(content, [(start, end)])[0]


def hash_line_ranges(content: bytes, ranges: Iterable[tuple[int, int]]) -> list[str]:
    lines = content.split(b"\n")
    if b"\r" in content:
        lines = [line.removesuffix(b"\r") for line in lines]
    return ["sha256:" + sha256(b"\n".join(lines[start - 1 : end]) + b"\n") for start, end in ranges]


LAYOUT_BYTES = b" \t\n\r\x0b\x0c,;()'\"\\"
"""Characters that formatters add and remove."""


def strip_layout(text: bytes) -> bytes:
    return text.translate(None, LAYOUT_BYTES)


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
        return range(self.old, self.old + self.old_lines) if self.old_lines else range(self.old + 1, self.old + 1)

    @property
    def new_range(self) -> range:
        """Return the added line numbers; an empty range before the first new line after a removal."""
        return range(self.new, self.new + self.new_lines) if self.new_lines else range(self.new + 1, self.new + 1)

    @property
    def added_lines(self) -> LineRange | None:
        return LineRange(self.new, self.new + self.new_lines - 1) if self.new_lines else None


# --- spans ------------------------------------------------------------------------------------------------

Span: TypeAlias = tuple[int, int]
"""First and last line, inclusive, from 1."""


class Difference(Struct, frozen=True):
    """The hunks of one changed file; `from_tool` if the tool's own answer named the lines."""

    hunks: tuple[Hunk, ...]
    from_tool: bool = False

    @property
    def added_spans(self) -> tuple[Span, ...]:
        return tuple((h.new, h.new + h.new_lines - 1) for h in self.hunks if h.new_lines)


def make_spans(numbers: Iterable[int]) -> tuple[Span, ...]:
    runs = groupby(enumerate(sorted(set(numbers))), key=lambda pair: pair[1] - pair[0])
    spans = [[number for _, number in run] for _, run in runs]
    return tuple((span[0], span[-1]) for span in spans)


def merge_spans(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Merge spans into the fewest sorted spans, dropping reversed spans."""
    merged: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] <= span[1]):
        if merged and start <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return tuple(merged)


def subtract_spans(spans: Iterable[Span], allowed: Iterable[Span]) -> tuple[Span, ...]:
    remaining: list[Span] = []
    bounds = merge_spans(allowed)
    for start, end in merge_spans(spans):
        for low, high in bounds:
            if start <= high and low <= end:
                remaining += [(start, low - 1)] if start < low else []
                start = high + 1
        remaining += [(start, end)] if start <= end else []
    return tuple(remaining)


def expand_spans(spans: Iterable[Span]) -> list[int]:
    """Return the line numbers of spans; only for spans of trusted size."""
    return [number for start, end in spans for number in range(start, end + 1)]


# --- edit scripts -----------------------------------------------------------------------------------------

DiffPart: TypeAlias = tuple[int, int, int, int]
"""A difference: first and end index in the old text, first and end index in the new text; from 0, half-open."""
CLOSING_LINE = re.compile(rb"[\])}]|</|(?:end|fi|done|esac|else|elif|except|catch|finally|rescue|then|do)\b")
"""Start of a line that closes or continues the block above."""
MAX_DIFF_LINES = 1000
"""Lines of the differing part, on the longer side. Beyond this size git is faster and better."""
MAX_SLIDE = 100
"""Start positions compared when sliding a run."""
MAX_EMPTY_LINES = 20
"""Empty lines skipped when looking for a run's first text."""


def find_edit_script(old: Sequence[bytes], new: Sequence[bytes], max_lines: int = sys.maxsize) -> list[DiffPart] | None:
    """Return the differing parts of two texts; None if their differing middle exceeds `max_lines`."""
    start = count_common_prefix(old, new)
    end = count_common_prefix(old[start:][::-1], new[start:][::-1])
    a, b = old[start : len(old) - end], new[start : len(new) - end]
    if a and b and max(len(a), len(b)) > max_lines:
        return None
    added, removed = (bytearray(start) + flags + bytes(end) for flags in mark_changes(a, b))
    slide_runs(removed, old, find_run_positions(added))
    slide_runs(added, new, find_run_positions(removed))
    parts: list[DiffPart] = []
    i = j = 0
    while (steps := min(find_flag(1, removed, i) - i, find_flag(1, added, j) - j)) >= 0:
        i, j = i + steps, j + steps
        i_end, j_end = find_flag(0, removed, i), find_flag(0, added, j)
        if (i, j) == (i_end, j_end):
            break
        parts.append((i, i_end, j, j_end))
        i, j = i_end, j_end
    return parts


def count_common_prefix(a: Sequence[object], b: Sequence[object]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def mark_changes(old: Sequence[Hashable], new: Sequence[Hashable]) -> tuple[bytearray, bytearray]:
    """Return flags for the new and for the old lines: 1 if changed, keeping as many lines as possible."""
    added, removed = bytearray(b"\1") * len(new), bytearray(b"\1") * len(old)
    rows = list(build_lcs_rows(old, new)) if {*old}.intersection(new) else []
    i, j = len(old), len(new)
    while rows and i and j:
        if rows[i] >> (j - 1) & 1:
            j -= 1
            continue
        i -= 1
        if rows[i] >> (j - 1) & 1:
            j -= 1
            added[j] = removed[i] = 0
    return added, removed


def build_lcs_rows(old: Sequence[Hashable], new: Sequence[Hashable]) -> Iterator[int]:
    """Yield a row per prefix of `old`: bit j is 0 if `new[:j + 1]` shares a line more than `new[:j]`.

    Each row of the longest-common-subsequence table is the bits of a number (Hyyrö, "Bit-parallel LCS-length
    computation revisited", 2004).
    """
    whole = (1 << len(new)) - 1
    masks: dict[Hashable, int] = {}
    for j, line in enumerate(new):
        masks[line] = masks.get(line, 0) | 1 << j
    row = whole
    yield row
    for line in old:
        matches = row & masks.get(line, 0)
        row = (row + matches | row - matches) & whole
        yield row


def find_run_positions(flags: bytearray) -> frozenset[int]:
    positions: set[int] = set()
    unchanged = end = 0
    while (start := flags.find(1, end)) >= 0:
        unchanged += start - end
        positions.add(unchanged)
        end = find_flag(0, flags, start)
    return frozenset(positions)


def slide_runs(flags: bytearray, lines: Sequence[bytes], opposite_runs: frozenset[int]) -> None:
    def rate_start(at: int) -> tuple[bool, int, bool, bool, int]:
        first = next((line for line in lines[at : at + MAX_EMPTY_LINES] if line.strip()), b"")
        text = first.lstrip()
        opens, follows_empty = CLOSING_LINE.match(text) is None, not lines[(at or size) - 1].strip()
        return unchanged_before - (start - at) in opposite_runs, len(text) - len(first), opens, follows_empty, at

    end = 0
    while (start := flags.find(1, end)) >= 0:
        start, end, first_start = widen_run(flags, lines, start)
        size, unchanged_before = end - start, start - flags.count(1, 0, start)
        best = max(range(max(first_start, start - MAX_SLIDE), start + 1), key=rate_start)
        flags[start:end] = bytes(size)
        flags[best : best + size] = b"\1" * size


def widen_run(flags: bytearray, lines: Sequence[bytes], start: int) -> tuple[int, int, int]:
    size, first_start, end = 0, start, find_flag(0, flags, start)
    while size < end - start:
        size = end - start
        while start and (flags[start - 1] or lines[start - 1] == lines[end - 1]):
            start -= 1
            if not flags[start]:
                end -= 1
                flags[start], flags[end] = 1, 0
        first_start = start
        while end < len(lines) and lines[start] == lines[end]:
            flags[start], flags[end] = 0, 1
            start, end = start + 1, find_flag(0, flags, end)
    return start, end, first_start


def find_flag(flag: int, flags: bytearray, start: int) -> int:
    position = flags.find(flag, start)
    return len(flags) if position < 0 else position


# --- hunks ------------------------------------------------------------------------------------------------


def diff_small(old: bytes, new: bytes) -> tuple[Hunk, ...] | None:
    parts = find_edit_script(split_lines(old), split_lines(new), MAX_DIFF_LINES)
    return None if parts is None else tuple(make_hunk(*part) for part in parts)


def diff_at_lines(old: bytes, new: bytes, added_ranges: Sequence[LineRange]) -> tuple[Hunk, ...] | None:
    """Return the hunks with known added lines: a plain diff may confuse a copy with its original.

    None if `old` plus these lines cannot give `new`, or if too large.
    """
    a, b = split_lines(old), split_lines(new)
    added = {number - 1 for span in added_ranges for number in range(span.start, span.end + 1)}
    kept_indices = [index for index in range(len(b)) if index not in added]
    if len(kept_indices) > len(a) or len(kept_indices) + len(added) != len(b):
        return None
    kept_lines = [b[index] for index in kept_indices]
    start = count_common_prefix(a, kept_lines)
    end = count_common_prefix(a[start:][::-1], kept_lines[start:][::-1])
    origins = [*range(start), *range(len(a) - end, len(a))]
    if len(origins) != len(kept_lines):
        # The kept lines in `a`, in order; one iterator, so that each search goes on behind the last find.
        remaining = iter(range(len(a)))
        found = (next((index for index in remaining if a[index] == line), None) for line in kept_lines)
        origins = [index for index in found if index is not None]
        if len(origins) != len(kept_lines):
            return None
    return make_hunks(len(a), len(b), dict(zip(kept_indices, origins, strict=True)))


def diff_by_origins(old: bytes, new: bytes, origins: Mapping[int, int]) -> tuple[Hunk, ...] | None:
    """Return the hunks with known kept lines: `origins` maps new to old indices. None if too large.

    Lines re-inserted in place are kept too.
    """
    a, b = split_lines(old), split_lines(new)
    same = {to: origin for to, origin in origins.items() if to < len(b) and origin < len(a) and a[origin] == b[to]}
    hunks: list[Hunk] = []
    for rough in make_hunks(len(a), len(b), same):
        at, to = rough.old_range.start - 1, rough.new_range.start - 1
        removed, added = a[at : at + rough.old_lines], b[to : to + rough.new_lines]
        parts = find_edit_script(removed, added, MAX_DIFF_LINES)
        if parts is None:
            return None
        hunks += (make_hunk(at + i, at + i_end, to + j, to + j_end) for i, i_end, j, j_end in parts)
    return tuple(hunks)


def make_hunks(old_lines: int, new_lines: int, origins: dict[int, int]) -> tuple[Hunk, ...]:
    """Return the hunks that keep exactly the lines in `origins`, from new to old indices."""
    hunks: list[Hunk] = []
    a = b = 0
    for to, origin in [*sorted(origins.items()), (new_lines, old_lines)]:
        if to > b or origin > a:
            hunks.append(make_hunk(a, origin, b, to))
        a, b = origin + 1, to + 1
    return tuple(hunks)


def make_hunk(a: int, a_end: int, b: int, b_end: int) -> Hunk:
    """Return a hunk of half-open index ranges; an empty side names the line before."""
    old, new = a_end - a, b_end - b
    return Hunk(a + bool(old), old, b + bool(new), new)


def trace_hunks(hunks: Iterable[Hunk], count: int) -> Iterator[tuple[int, int]]:
    """Yield (new, old) indices of lines outside the hunks, from 0."""
    at = shift = 0
    for hunk in hunks:
        yield from ((to, to - shift) for to in range(at, hunk.new_range.start - 1))
        at, shift = hunk.new_range.stop - 1, shift + hunk.new_lines - hunk.old_lines
    yield from ((to, to - shift) for to in range(at, count))


WORD = re.compile(r"[^\W\d_]\w*|\d+")
CACHE_SIZE = 65_536
"""Cached lines: a long history asks about the same lines again and again."""
MIN_DISTINCTIVE_CHARS = 12
COMMON_WORDS = frozenset(
    """
    abstract and any args array as assert async await begin bool boolean break byte case catch char class cls cmd const
    continue data debug def default del delete do done double elif else elseif end enum err error except exception exit
    export extends extern false final finally float fmt for foreach from fn func function get global go goto id if impl
    implements import in include index info init instanceof int integer interface is item items key kwargs lambda len
    let list log logger logging long main map match mod module msg mut name namespace new next nil none not null number
    object of ok or os out package pass path print private protected pub public raise range rc re ref request require
    response result ret return self set short should size static std str string struct super switch sys test then this
    throw throws to trait true try tuple type typedef typeof undefined union unless unsigned until use using val value
    values var vec virtual void volatile when where while with yield
    """.split()  # noqa: SIM905  ninety quoted words are harder to read
)
"""Keywords and frequent words of many languages."""
COMMON_WORD_BYTES = frozenset(word.encode() for word in COMMON_WORDS)
LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
SEPARATOR_BYTES = bytes(set(range(256)) - {*LETTERS, *b"0123456789_"})
SEPARATORS_TO_SPACES = bytes.maketrans(SEPARATOR_BYTES, b" " * len(SEPARATOR_BYTES))


@lru_cache(CACHE_SIZE)
def find_distinctive_words(line: bytes) -> tuple[str, ...]:
    return tuple(word for word in WORD.findall(line.decode("utf-8", "replace")) if word.lower() not in COMMON_WORDS)


def has_unknown_word(line: bytes, checksums: Container[int]) -> bool:
    """Return whether a quick look finds a distinctive word without its CRC-32 in `checksums`.

    Quick: only ASCII lines, and words beginning with a letter.
    """
    if not line.isascii():
        return False
    for word in line.translate(SEPARATORS_TO_SPACES).split():
        if crc32(word) not in checksums and word[0] in LETTERS and word.lower() not in COMMON_WORD_BYTES:
            return True
    return False


def has_distinctive_word(line: bytes) -> bool:
    return has_unknown_word(line, ()) or bool(find_distinctive_words(line))  # a glance is enough for most


@lru_cache(CACHE_SIZE)
def is_distinctive_line(line: bytes) -> bool:
    """Return whether the distinctive words of a line make coincidence unlikely.

    Characters outside ASCII count as their UTF-8 bytes.
    """
    return sum(len(word.encode("utf-8", "replace")) for word in find_distinctive_words(line)) >= MIN_DISTINCTIVE_CHARS
