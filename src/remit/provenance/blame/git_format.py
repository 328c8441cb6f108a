"""git blame's form for people, made from its porcelain: git need not trace every line twice.

Only where it comes out as git would write it, byte for byte; else there is None, and git is asked.
Source: git-blame(1), and what git 2.39 prints, read 2026-11.
"""

import re
import time
from collections.abc import Iterator, Sequence

from msgspec import Struct

from remit.provenance.origins.blame_porcelain import BlameCommit, BlamePorcelain, GitLine

NARROW_NAME_CHARS = 12
ZONE = re.compile(rb"([+-])(\d\d)([0-5]\d)")
MAX_TIME_S = 1 << 33
"""Seconds; git has no more than four digits for a year in mind, and we need none beyond."""

LATIN_LETTERS = (range(0x20, 0x7F), range(0xC0, 0x250), range(0x1E00, 0x1F00))
ONE_COLUMN_CHARS = (*LATIN_LETTERS, range(0x391, 0x483), range(0x48A, 0x530))
TWO_COLUMN_CHARS = (range(0x3041, 0x3097), range(0x30A0, 0x3100), range(0x4E00, 0xA000), range(0xAC00, 0xD7A4))
"""Signs that surely take so much room: letters of Europe; of China, Japan and Korea."""


class CommitColumns(Struct, frozen=True):
    """A commit's author, how many columns that name takes, and the date as it is shown."""

    author: str
    author_columns: int
    date: str

    def pad_author(self, columns: int) -> str:
        """The author with spaces after."""
        return self.author + " " * (columns - self.author_columns)


def commit_digits(abbreviations: Sequence[bytes]) -> int:
    """How many digits git shows of each commit, from the shortest names that tell them from all others.

    There is one more than the longest of them needs: room for the sign of a boundary.
    """
    return max(map(len, abbreviations)) + 1


def render_as_git(found: BlamePorcelain, path: str, width: int, *, narrow: bool = False) -> list[bytes] | None:
    """The lines with commit, author and date; `width` digits of each commit. None where only git knows how.

    `path` is the file asked about, from the repository's root. A `narrow` form has the day alone, and authors' names
    of at most 12 characters: git's own is too wide for a terminal of 80 columns with more beside it.
    """
    last = found.lines[-1].line if found.lines else 0
    about = {name: describe_commit(commit) for name, commit in found.commits.items()}
    if narrow:
        about = {name: shorten_columns(one) if one else None for name, one in about.items()}
    told = {name: parts for name, parts in about.items() if parts}
    if len(told) < len(about):
        return None
    widest = max((one.author_columns for one in told.values()), default=0)
    names = path_column(found.lines, path)
    heads = {
        name: (mark_boundary(name, found.commits[name], width), f" ({one.pad_author(widest)} {one.date}".encode())
        for name, one in told.items()
    }
    return list(join_columns(found.lines, heads, names, len(str(last))))


def join_columns(
    lines: Sequence[GitLine], heads: dict[str, tuple[bytes, bytes]], names: dict[str, bytes], digits: int
) -> Iterator[bytes]:
    """Each line, put together."""
    number = b" %%%dd) %%s" % digits
    fixed = {
        place: heads[place.commit][0] + names.get(place.path, b"") + heads[place.commit][1]
        for place in {line.version for line in lines}
    }
    for line in lines:
        yield fixed[line.version] + number % (line.line, line.content)


def describe_commit(commit: BlameCommit) -> CommitColumns | None:
    """Who wrote a commit, and when; None where git might show that otherwise."""
    fields = commit.fields
    zone, seconds = ZONE.fullmatch(fields.get(b"author-tz", b"")), fields.get(b"author-time", b"")
    try:
        author = fields.get(b"author", b"").decode()
    except UnicodeDecodeError:
        return None
    wide = display_width(author)
    if zone is None or not seconds.isdigit() or wide is None:
        return None
    minutes = int(zone[1] + b"1") * (int(zone[2]) * 60 + int(zone[3]))
    local = int(seconds) + minutes * 60
    if not 0 <= local < MAX_TIME_S:
        return None
    date = time.strftime("%Y-%m-%d %H:%M:%S ", time.gmtime(local)) + f"{int(zone[0]):+05d}"
    return CommitColumns(author, wide, date)


def shorten_columns(written: CommitColumns) -> CommitColumns:
    """Return the author and the date as a narrow screen shows them."""
    long = len(written.author) > NARROW_NAME_CHARS
    author = written.author[: NARROW_NAME_CHARS - 1] + "…" if long else written.author
    shown = (display_width(author[:-1]) or 0) + 1 if long else written.author_columns
    return CommitColumns(author, shown, written.date[:10])


def display_width(author: str) -> int | None:
    """How wide a name is; None where that is not sure."""
    if author.isascii() and author.isprintable():
        return len(author)
    widths = [char_width(ord(sign)) for sign in author]
    return sum(widths) if all(widths) else None


def char_width(sign: int) -> int:
    """How many columns a sign surely takes; 0 for one of which we do not know."""
    if any(sign in known for known in ONE_COLUMN_CHARS):
        return 1
    return 2 if any(sign in known for known in TWO_COLUMN_CHARS) else 0


def mark_boundary(name: str, commit: BlameCommit, width: int) -> bytes:
    """The beginning of a commit's name; of one that the history ends with, with a sign in the first column."""
    return f"^{name[: width - 1]}".encode() if b"boundary" in commit.fields else name[:width].encode()


def path_column(lines: Sequence[GitLine], path: str) -> dict[str, bytes]:
    """The file that each line was in, where they were not all in the one that is asked about."""
    paths = {line.version.path: line.version.path.encode("utf-8", "surrogateescape") for line in lines}
    if set(paths) <= {path}:
        return {}
    longest = max(map(len, paths.values()))
    return {name: b" " + raw.ljust(longest) for name, raw in paths.items()}
