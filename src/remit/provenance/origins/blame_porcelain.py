"""Parser of `git blame --porcelain`. Source: git-blame(1), read 2026-11."""

import re

from msgspec import Struct, field
from msgspec.structs import replace

from remit.core.untrusted_input import unquote_path

LINE_HEADER = re.compile(rb"([0-9a-f]{40,64}) (\d+) (\d+)(?: (\d+))?$")


class FileVersion(Struct, frozen=True):
    """A version of a file, as git blame names it, and the version before. `previous` is `<commit> <path>`, or None.
    `time_s` is the commit time in seconds. Paths are unquoted. `path` counts from the workspace, as in records;
    `tree_path` is the path in git's tree if different, as always in `previous`.
    """

    commit: str
    path: str
    previous: str | None
    time_s: int = 0
    tree_path: str = ""

    @property
    def has_commit(self) -> bool:
        return bool(self.commit.strip("0"))

    @property
    def name(self) -> str:
        return f"{self.commit}:{self.path_in_tree}"

    @property
    def path_in_tree(self) -> str:
        return self.tree_path or self.path

    @property
    def parent(self) -> str | None:
        commit, _, path = (self.previous or "").partition(" ")
        return f"{commit}:{path}" if self.previous else None


class TreePrefix(Struct, frozen=True):
    """Difference between paths counted from the workspace, as in records, and paths in git's tree. At most one of both
    folders is set; each ends in `/`.
    """

    folder: str = ""
    """The workspace's folder in the repository."""
    nested: str = ""
    """The repository's folder in the workspace, such as that of a submodule."""

    def path_in_tree(self, path: str) -> str:
        return self.folder + path.removeprefix(self.nested)

    def path_for_git(self, path: str) -> str:
        """Return the path for a git that runs in the workspace, or in the nested repository."""
        return path.removeprefix(self.nested)


SAME_PATHS = TreePrefix()


class GitLine(Struct, frozen=True, gc=False):
    """One line. `number` counts in the version, `line` in the file asked about."""

    version: FileVersion
    number: int
    line: int
    content: bytes


class BlameCommit(Struct, gc=False):
    """Headers of a commit by name, such as `author` and `author-time`."""

    fields: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])
    version: FileVersion | None = None


class BlamePorcelain(Struct, frozen=True):
    """The lines in the order of the output, and the commits by their names."""

    lines: list[GitLine]
    commits: dict[str, BlameCommit]


def read_git_lines(output: bytes, prefix: TreePrefix = SAME_PATHS) -> list[GitLine]:
    return relocate_lines(parse_porcelain(output).lines, prefix)


def relocate_lines(lines: list[GitLine], prefix: TreePrefix) -> list[GitLine]:
    if prefix == SAME_PATHS:
        return lines
    relocated = {version: relocate_version(version, prefix) for version in {line.version for line in lines}}
    return [GitLine(relocated[line.version], line.number, line.line, line.content) for line in lines]


def relocate_version(version: FileVersion, prefix: TreePrefix) -> FileVersion:
    """Return the version with its path counted from the workspace."""
    path = path_from_workspace(version.path, prefix)
    return version if path == version.path else replace(version, path=path, tree_path=version.path)


def path_from_workspace(path: str, prefix: TreePrefix) -> str:
    """Return a path of git's tree counted from the workspace."""
    folder = prefix.folder
    inside = path.removeprefix(folder) if path.startswith(folder) else "../" * folder.count("/") + path
    return prefix.nested + inside


def parse_porcelain(output: bytes) -> BlamePorcelain:
    """Parse the lines and commits. git describes a commit at the first line, and again if lines of the commit come from
    a second file: then only with an existing `previous`, and `filename`. The header of a group holds the number of
    lines, a row each with the text.
    """
    rows = output.split(b"\n")
    commits: dict[str, BlameCommit] = {}
    lines: list[GitLine] = []
    row, end = 0, len(rows) - 1
    while row < end:
        header = LINE_HEADER.match(rows[row])
        if header is None:
            row += 1
            continue
        name = header[1].decode()
        commit = commits.setdefault(name, BlameCommit())
        first = row + 1
        while first < end and not rows[first].startswith(b"\t"):
            first += 1
        headers = {key: value for key, _, value in (found.partition(b" ") for found in rows[row + 1 : first])}
        commit.fields |= headers
        if b"filename" in headers:
            source, _, path = headers.get(b"previous", b"").partition(b" ")
            previous = f"{source.decode()} {unquote_path(path)}" if source else None
            time_s = int(commit.fields.get(b"committer-time", 0))
            commit.version = FileVersion(name, unquote_path(headers[b"filename"]), previous, time_s)
        group_size = int(header[4] or 1) if rows[first + 2 : first + 3] and rows[first + 2].startswith(b"\t") else 1
        if (version := commit.version) is not None:
            number, line, texts = int(header[2]), int(header[3]), rows[first : first + 2 * group_size : 2]
            lines += [GitLine(version, number + n, line + n, text[1:]) for n, text in enumerate(texts)]
        row = first + 2 * group_size - 1
    return BlamePorcelain(lines, commits)
