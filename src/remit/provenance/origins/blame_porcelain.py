"""Reading `git blame --porcelain`. Source: git-blame(1), read 2026-11."""

import re
from collections.abc import Iterable

from msgspec import Struct, field

LINE_HEADER = re.compile(rb"([0-9a-f]{40,64}) (\d+) (\d+)(?: (\d+))?$")
PATH_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
ESCAPED_CHARS = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


class FileVersion(Struct, frozen=True):
    """Where git says a line came from: a version of a file, and the version before it.

    `previous` is `<commit> <path>`; None where there was none. `at` is the commit's time, in seconds. Paths are as
    they are, and not as git quotes them. `path` is counted from the workspace, as records do; `tree_path` is the one in
    git's tree where that is another, as `previous` always is.
    """

    commit: str
    path: str
    previous: str | None
    time_s: int = 0
    tree_path: str = ""

    @property
    def has_commit(self) -> bool:
        """Whether a commit has it; else it is the working tree's."""
        return bool(self.commit.strip("0"))

    @property
    def name(self) -> str:
        """The version's content, as git names it."""
        return f"{self.commit}:{self.path_in_tree}"

    @property
    def path_in_tree(self) -> str:
        """The path in git's tree."""
        return self.tree_path or self.path

    @property
    def parent(self) -> str | None:
        """The content of the version before, as git names it."""
        commit, _, path = (self.previous or "").partition(" ")
        return f"{commit}:{path}" if self.previous else None


class GitLine(Struct, frozen=True, gc=False):
    """One line. `number` is in the version, `line` in the file asked about."""

    version: FileVersion
    number: int
    line: int
    content: bytes


class BlameCommit(Struct, gc=False):
    """What git says of a commit, as it stands there: `fields` by name, such as `author` and `author-time`."""

    fields: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])
    version: FileVersion | None = None


class BlamePorcelain(Struct, frozen=True):
    """The lines, in the order of the output, and the commits by their names."""

    lines: list[GitLine]
    commits: dict[str, BlameCommit]


def read_git_lines(output: bytes, prefix: str) -> list[GitLine]:
    """The lines, in the order of the output, in a workspace that lies at `prefix` in its repository."""
    return relocate_lines(parse_porcelain(output).lines, prefix)


def relocate_lines(lines: list[GitLine], prefix: str) -> list[GitLine]:
    """The lines, as git tells them from its root, with paths that are counted from a workspace at `prefix`."""
    if not prefix:
        return lines
    places = {place: relocate_version(place, prefix) for place in {line.version for line in lines}}
    return [GitLine(places[line.version], line.number, line.line, line.content) for line in lines]


def relocate_version(version: FileVersion, prefix: str) -> FileVersion:
    """The version, as git tells it from its root, with its path counted from a workspace at `prefix`."""
    if not prefix:
        return version
    return FileVersion(
        version.commit, path_from_workspace(version.path, prefix), version.previous, version.time_s, version.path
    )


def path_from_workspace(path: str, prefix: str) -> str:
    """A path in git's tree, counted from the folder `prefix`, which ends in `/` or is the root."""
    return path.removeprefix(prefix) if path.startswith(prefix) else "../" * prefix.count("/") + path


def parse_porcelain(output: bytes) -> BlamePorcelain:
    """The lines and their commits.

    A commit is told of where it first comes, and again where lines of it come from another file. The header of several
    lines says how many they are; those after the first have one row each, and their text.
    """
    rows = output.split(b"\n")
    commits: dict[str, BlameCommit] = {}
    lines: list[GitLine] = []
    at, end = 0, len(rows) - 1
    while at < end:
        header = LINE_HEADER.match(rows[at])
        if header is None:
            at += 1
            continue
        name = header[1].decode()
        commit = commits.setdefault(name, BlameCommit())
        first = at + 1
        while first < end and not rows[first].startswith(b"\t"):
            first += 1
        if first > at + 1:
            read_commit_headers(commit, name, rows[at + 1 : first])
        together = int(header[4] or 1) if rows[first + 2 : first + 3] and rows[first + 2].startswith(b"\t") else 1
        place, number, line = commit.version, int(header[2]), int(header[3])
        if place is not None:
            texts = rows[first : first + 2 * together : 2]
            lines += [GitLine(place, number + n, line + n, text[1:]) for n, text in enumerate(texts)]
        at = first + 2 * together - 1
    return BlamePorcelain(lines, commits)


def read_commit_headers(commit: BlameCommit, name: str, rows: Iterable[bytes]) -> None:
    """What git says of a commit: where lines of it come from another file, `previous`, if any, and `filename` alone."""
    said = {key: value for key, _, value in (row.partition(b" ") for row in rows)}
    commit.fields |= said
    if b"filename" in said:
        source, _, path = said.get(b"previous", b"").partition(b" ")
        previous = f"{source.decode()} {unquote_path(path)}" if source else None
        commit.version = FileVersion(
            name, unquote_path(said[b"filename"]), previous, int(commit.fields.get(b"committer-time", 0))
        )


def unquote_path(name: bytes) -> str:
    """A path, from how git writes it: between quotes, as in C, where it has signs that would be misread."""
    if name.startswith(b'"') and name.endswith(b'"') and len(name) > 1:
        name = PATH_ESCAPE.sub(lambda found: unescape_char(found[1]), name[1:-1])
    return name.decode("utf-8", "surrogateescape")


def unescape_char(sign: bytes) -> bytes:
    """What stands after a backslash: three octal digits, a letter, or the sign itself."""
    return bytes([int(sign, 8) & 255]) if len(sign) == 3 else ESCAPED_CHARS.get(sign, sign)
