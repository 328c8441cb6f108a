"""Patches without context, of many commits from a single git process, and the lines added by commits.

A merge adds only lines missing in all parents. Source: git-diff-tree(1), the combined format, read 2026-11.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from remit.core.diff.contents import Hunk, Span, make_spans
from remit.core.untrusted_input import unquote_path
from remit.workspace.git.command import Git

COMMITS_AT_ONCE = 100
PATHS_AT_ONCE = 400
CHARS_AT_ONCE = 30_000  # bytes of paths on a command line; a single argument may have 128 KiB
COMMIT_HEADER = re.compile(rb"commit ([0-9a-f]{40,64}) (\d+)((?: [0-9a-f]{40,64})*) ?$")
HUNK_HEADER = re.compile(rb"(@@+)((?: -\d+(?:,\d+)?)+) \+(\d+)(?:,(\d+))? @@")
HUNK_LINE_SIGNS = (b" ", b"+", b"-")
FILE_NAME = re.compile(rb"(---|\+\+\+|rename from|rename to) (.*)", re.DOTALL)
BLOBS = re.compile(rb"index [0-9a-f]{40,64}\.\.([0-9a-f]{40,64})(?: |$)")

COMMIT_FORMAT = "--format=tformat:commit %H %ct %P%nauthor %an <%ae>"
PATCH_OPTIONS = (
    *("-r", "--root", "-p", "-U0", "-c"),
    *("--no-color", "--no-ext-diff", "--no-textconv", "--inter-hunk-context=0"),
)
PREFIX_OPTIONS = ("--src-prefix=a/", "--dst-prefix=b/")


class Addition(Struct, frozen=True):
    """Lines of a file that a commit added. `source` is the file's name in the first parent; None for a new file. `at`
    is the commit time in seconds, `author` is `Name <address>`.
    """

    commit: str
    parent: str | None
    at: int
    author: str
    path: str
    source: str | None
    spans: tuple[Span, ...]


class FilePatch(Struct):
    """A commit's change of a file. `path` is None if the file is gone; `source` is the former name, None for a new
    file. `old` and `new` are the removed and the inserted lines in the order of the hunks; `merged` are the numbers of
    the lines added by a merge. `at` is the commit time in seconds, `author` is `Name <address>`. `blob` is the new
    content, if git was asked for full object names.
    """

    commit: str = ""
    parent: str | None = None
    at: int = 0
    author: str = ""
    path: str | None = None
    source: str | None = None
    hunks: list[Hunk] = []
    old: list[bytes] = []
    new: list[bytes] = []
    merged: list[int] = []
    blob: str | None = None

    @property
    def added_numbers(self) -> list[int]:
        """The numbers of the added lines, in the order of the file."""
        return [*self.merged, *(n for hunk in self.hunks for n in hunk.new_range)]

    def find_addition(self) -> Iterator[Addition]:
        spans = make_spans(self.added_numbers)
        if self.path is not None and spans:
            yield Addition(self.commit, self.parent, self.at, self.author, self.path, self.source, spans)


def find_additions(git: Git, commits: Iterable[str]) -> Iterator[Addition]:
    """Yield the lines those commits added, following renames, without files that git calls binary. Raises GitError."""
    return read_additions(git, commits, "-M")


def read_additions(git: Git, commits: Iterable[str], *options: str) -> Iterator[Addition]:
    for patch in read_patches(git, commits, *options):
        yield from patch.find_addition()


def read_patches(git: Git, commits: Iterable[str], *options: str) -> Iterator[FilePatch]:
    """Yield the changes of those commits, a file at a time. Raises GitError."""
    unique = list(dict.fromkeys(commits))
    command = ("diff-tree", "--stdin", COMMIT_FORMAT, *PATCH_OPTIONS, *PREFIX_OPTIONS, *options)
    for start in range(0, len(unique), COMMITS_AT_ONCE):
        names = "".join(f"{commit}\n" for commit in unique[start : start + COMMITS_AT_ONCE]).encode()
        yield from parse_patches(git.run(*command, stdin=names))


def find_additions_to_paths(git: Git, commits: Iterable[str], paths: Sequence[str]) -> Iterator[Addition]:
    """Yield the lines those commits added to those paths, ignoring attributes and renames. Raises GitError."""
    # git aborts at a path that leads out of the repository, and tracks none of these.
    possible = [path for path in paths if "\0" not in path and not {"", ".", "..", ".git"} & set(path.split("/"))]
    if not possible:
        return iter(())
    fits = sum(map(len, possible)) <= CHARS_AT_ONCE and len(possible) <= PATHS_AT_ONCE
    pathspecs = ("--", *(f":(top,literal){path}" for path in possible)) if fits else ()
    return read_additions(git, commits, "--no-renames", "--text", *pathspecs)


def find_staged_additions(git: Git, head: str | None) -> Iterator[Addition]:
    """Yield the lines the next commit would add, with an empty commit name. Raises GitError."""
    against = head or git.text("hash-object", "-t", "tree", "--stdin")
    options = [option for option in PATCH_OPTIONS if option not in ("-c", "--root")]
    output = git.run("diff-index", "--cached", *options, *PREFIX_OPTIONS, "-M", against)
    for patch in parse_patches(output):
        patch.parent = head
        yield from patch.find_addition()


def parse_patches(output: bytes) -> Iterator[FilePatch]:
    """Parse patches without context, in order. Hunk lines are counted, because a content may look like a header. The
    lines of a merge are recognised by their signs, because git counts them wrongly if a merge removes the end of a
    file.
    """
    commit, patch = FilePatch(), None
    sides = number = 0
    lines = iter(output.split(b"\n"))
    for line in lines:
        if patch and (hunk := HUNK_HEADER.match(line)):
            sides, number, new_lines = len(hunk[1]) - 1, int(hunk[3]), int(hunk[4] or 1)
            if sides == 1:
                old, _, count = hunk[2][2:].partition(b",")
                patch.hunks.append(Hunk(int(old), int(count or 1), number, new_lines))
                left = int(count or 1) + new_lines
                while left and (line := next(lines, None)) is not None:
                    left -= not line.startswith(b"\\")
                    patch.old += [line[1:]] if line.startswith(b"-") else []
                    patch.new += [line[1:]] if line.startswith(b"+") else []
        elif patch and sides > 1 and line.startswith(HUNK_LINE_SIGNS):
            patch.merged += [number] if line[:sides] == b"+" * sides else []
            number += b"+" in line[:sides]
        elif line.startswith(b"diff --"):
            if patch:
                yield patch
            patch = FilePatch(
                commit.commit, commit.parent, commit.at, commit.author, hunks=[], old=[], new=[], merged=[]
            )
            sides = 0
        elif header := COMMIT_HEADER.match(line):
            if patch:
                yield patch
            names = header[3].split()
            commit, patch = FilePatch(header[1].decode(), names[0].decode() if names else None, int(header[2])), None
        elif line.startswith(b"author ") and patch is None:
            commit.author = line.removeprefix(b"author ").decode("utf-8", "replace")
        elif patch and (blobs := BLOBS.match(line)):
            patch.blob = blobs[1].decode()
        elif patch and (name := FILE_NAME.match(line)):
            # `rename` names have no prefix such as `a/`.
            path = None if name[2] == b"/dev/null" else unquote_path(name[2].removesuffix(b"\t"))
            path = path if path is None or name[1].startswith(b"rename") else path[2:]
            if name[1] in (b"---", b"rename from"):
                patch.source = path
            else:
                patch.path = path
    if patch:
        yield patch
