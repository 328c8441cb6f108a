"""git blame's default format, rendered from its porcelain output, which saves git a second trace of every line.

The result is either byte for byte git's own output or None; for None the caller asks git. Source: git-blame(1), and the
output of git 2.39, read 2026-11.
"""

import re
import time
from collections.abc import Iterator, Sequence

from msgspec import Struct

from remit.provenance.origins.blame_porcelain import BlameCommit, BlamePorcelain, GitLine

NARROW_NAME_CHARS = 12
ZONE = re.compile(rb"([+-])(\d\d)([0-5]\d)")
MAX_TIME_S = 1 << 33
"""Upper bound in seconds: git formats years of four digits only."""

LATIN_LETTERS = (range(0x20, 0x7F), range(0xC0, 0x250), range(0x1E00, 0x1F00))
ONE_COLUMN_CHARS = (*LATIN_LETTERS, range(0x391, 0x483), range(0x48A, 0x530))
TWO_COLUMN_CHARS = (range(0x3041, 0x3097), range(0x30A0, 0x3100), range(0x4E00, 0xA000), range(0xAC00, 0xD7A4))
"""Characters of certain width: European letters; Chinese, Japanese and Korean characters."""


class CommitColumns(Struct, frozen=True):
    """Author, display width of the author, and formatted date of a commit."""

    author: str
    author_columns: int
    date: str

    def pad_author(self, columns: int) -> str:
        return self.author + " " * (columns - self.author_columns)


def commit_digits(abbreviations: Sequence[bytes]) -> int:
    """Return the digits that git shows of each commit: the longest unique abbreviation, plus one for the boundary
    sign.
    """
    return max(map(len, abbreviations)) + 1


def render_as_git(porcelain: BlamePorcelain, path: str, width: int, *, narrow: bool = False) -> list[bytes] | None:
    """Return the lines with commit, author and date; `width` digits of each commit. None if only git can format them.

    `path` is the file asked about, from the repository's root. The `narrow` form has the day alone and author names of
    at most 12 characters: git's own is too wide for a terminal of 80 columns with Remit's columns beside it.
    """
    last = porcelain.lines[-1].line if porcelain.lines else 0
    columns = {name: describe_commit(commit) for name, commit in porcelain.commits.items()}
    if narrow:
        columns = {
            name: shorten_columns(commit_columns) if commit_columns else None
            for name, commit_columns in columns.items()
        }
    known = {name: parts for name, parts in columns.items() if parts}
    if len(known) < len(columns):
        return None
    widest = max((commit_columns.author_columns for commit_columns in known.values()), default=0)
    paths = path_column(porcelain.lines, path)
    prefixes = {
        name: (
            mark_boundary(name, porcelain.commits[name], width),
            f" ({commit_columns.pad_author(widest)} {commit_columns.date}".encode(),
        )
        for name, commit_columns in known.items()
    }
    return list(join_columns(porcelain.lines, prefixes, paths, len(str(last))))


def join_columns(
    lines: Sequence[GitLine], prefixes: dict[str, tuple[bytes, bytes]], paths: dict[str, bytes], digits: int
) -> Iterator[bytes]:
    number = b" %%%dd) %%s" % digits
    prefix_by_version = {
        version: prefixes[version.commit][0] + paths.get(version.path, b"") + prefixes[version.commit][1]
        for version in {line.version for line in lines}
    }
    for line in lines:
        yield prefix_by_version[line.version] + number % (line.line, line.content)


def describe_commit(commit: BlameCommit) -> CommitColumns | None:
    """Return author and date of a commit; None if git might format them differently."""
    fields = commit.fields
    zone, seconds = ZONE.fullmatch(fields.get(b"author-tz", b"")), fields.get(b"author-time", b"")
    try:
        author = fields.get(b"author", b"").decode()
    except UnicodeDecodeError:
        return None
    columns = display_width(author)
    if zone is None or not seconds.isdigit() or columns is None:
        return None
    minutes = int(zone[1] + b"1") * (int(zone[2]) * 60 + int(zone[3]))
    local = int(seconds) + minutes * 60
    if not 0 <= local < MAX_TIME_S:
        return None
    date = time.strftime("%Y-%m-%d %H:%M:%S ", time.gmtime(local)) + f"{int(zone[0]):+05d}"
    return CommitColumns(author, columns, date)


def shorten_columns(full: CommitColumns) -> CommitColumns:
    """Return the author and the date as a narrow screen shows them."""
    is_long = len(full.author) > NARROW_NAME_CHARS
    author = full.author[: NARROW_NAME_CHARS - 1] + "…" if is_long else full.author
    columns = (display_width(author[:-1]) or 0) + 1 if is_long else full.author_columns
    return CommitColumns(author, columns, full.date[:10])


def display_width(author: str) -> int | None:
    """Return the display width of a name; None if uncertain."""
    if author.isascii() and author.isprintable():
        return len(author)
    widths = [char_width(ord(char)) for char in author]
    return sum(widths) if all(widths) else None


def char_width(code_point: int) -> int:
    if any(code_point in block for block in ONE_COLUMN_CHARS):
        return 1
    return 2 if any(code_point in block for block in TWO_COLUMN_CHARS) else 0


def mark_boundary(name: str, commit: BlameCommit, width: int) -> bytes:
    """Return the abbreviated commit name, with `^` in the first column for a boundary commit."""
    return f"^{name[: width - 1]}".encode() if b"boundary" in commit.fields else name[:width].encode()


def path_column(lines: Sequence[GitLine], path: str) -> dict[str, bytes]:
    """Return the column of file names; empty if every line is from the file asked about."""
    paths = {line.version.path: line.version.path.encode("utf-8", "surrogateescape") for line in lines}
    if set(paths) <= {path}:
        return {}
    width = max(map(len, paths.values()))
    return {name: b" " + raw.ljust(width) for name, raw in paths.items()}
