"""Lines that commits added to their parents, read from `git diff-tree`, one process for many commits.

A merge adds only the lines that no parent has. Source: git-diff-tree(1), the combined format, read 2026-11.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from remit.core.diff.line_spans import Span, make_spans
from remit.provenance.origins.blame_porcelain import unquote_path
from remit.workspace.git.command import Git

COMMITS_AT_ONCE = 100
PATHS_AT_ONCE = 400
CHARS_AT_ONCE = 30_000
"""Bytes of paths on a command line; a single argument may have 128 KiB."""

COMMIT_HEADER = re.compile(rb"commit ([0-9a-f]{40,64}) (\d+)((?: [0-9a-f]{40,64})*) ?$")
HUNK_HEADER = re.compile(rb"(@@+)((?: -\d+(?:,\d+)?)+) \+(\d+)(?:,(\d+))? @@")
HUNK_LINE_SIGNS = (b" ", b"+", b"-")

COMMIT_FORMAT = "--format=tformat:commit %H %ct %P%nauthor %an <%ae>"
PATCH_OPTIONS = (
    *("-r", "--root", "-p", "-U0", "-c"),
    *("--no-color", "--no-ext-diff", "--no-textconv", "--inter-hunk-context=0"),
)
PREFIX_OPTIONS = ("--src-prefix=a/", "--dst-prefix=b/")


class Addition(Struct, frozen=True):
    """Lines of a file that a commit added. `source` is the file's name in the first parent; None for a new file.

    `at` is the commit time in seconds, `author` is `Name <address>`.
    """

    commit: str
    parent: str | None
    at: int
    author: str
    path: str
    source: str | None
    spans: tuple[Span, ...]


class _PatchState(Struct):
    commit: str = ""
    parent: str | None = None
    at: int = 0
    author: str = ""
    source: str | None = None
    path: str | None = None


def find_additions(git: Git, commits: Iterable[str]) -> Iterator[Addition]:
    """Yield the lines those commits added, following renames, without files that git calls binary. Raises GitError."""
    unique = list(dict.fromkeys(commits))
    for start in range(0, len(unique), COMMITS_AT_ONCE):
        names = "".join(f"{commit}\n" for commit in unique[start : start + COMMITS_AT_ONCE]).encode()
        output = git.run("diff-tree", "--stdin", COMMIT_FORMAT, *PATCH_OPTIONS, *PREFIX_OPTIONS, "-M", stdin=names)
        yield from parse_patch(output)


def find_additions_to_paths(git: Git, commits: Iterable[str], paths: Sequence[str]) -> Iterator[Addition]:
    """Yield the lines those commits added to those paths, ignoring file attributes; a renamed file counts as added.
    Raises GitError.
    """
    unique = list(dict.fromkeys(commits))
    possible = [path for path in paths if is_possible_path(path)]
    if not possible:
        return
    fits = sum(map(len, possible)) <= CHARS_AT_ONCE and len(possible) <= PATHS_AT_ONCE
    pathspecs = ("--", *(f":(top,literal){path}" for path in possible)) if fits else ()
    for start in range(0, len(unique), COMMITS_AT_ONCE):
        names = "".join(f"{commit}\n" for commit in unique[start : start + COMMITS_AT_ONCE]).encode()
        command = ("diff-tree", "--stdin", COMMIT_FORMAT, *PATCH_OPTIONS, *PREFIX_OPTIONS)
        yield from parse_patch(git.run(*command, "--no-renames", "--text", *pathspecs, stdin=names))


def is_possible_path(path: str) -> bool:
    """Return whether git may track a file of that name. git aborts at a path that leads out of the repository."""
    parts = path.split("/")
    return "\0" not in path and not {"", ".", "..", ".git"} & set(parts)


def find_staged_additions(git: Git, head: str | None) -> Iterator[Addition]:
    """Yield the lines the next commit would add, with an empty commit name. Raises GitError."""
    against = head or git.text("hash-object", "-t", "tree", "--stdin")
    options = [option for option in PATCH_OPTIONS if option not in ("-c", "--root")]
    output = git.run("diff-index", "--cached", *options, *PREFIX_OPTIONS, "-M", against)
    yield from parse_patch(output, parent=head)


def parse_patch(output: bytes, *, parent: str | None = None) -> Iterator[Addition]:
    """Parse the additions of a patch without context.

    Hunk lines are counted, because a content may look like a header. The lines of a merge are recognised by their
    signs, because git counts them wrongly if a merge removes the end of a file.
    """
    state = _PatchState(parent=parent)
    spans: list[int] = []
    lines = iter(output.split(b"\n"))
    sides = number = 0
    for line in lines:
        if hunk := HUNK_HEADER.match(line):
            sides, number = len(hunk[1]) - 1, int(hunk[3])
            spans += _added_numbers(lines, hunk) if sides == 1 else ()
            continue
        if sides > 1 and line.startswith(HUNK_LINE_SIGNS):
            signs = line[:sides]
            spans += [number] if signs == b"+" * sides else ()
            number += b"+" in signs
            continue
        sides = sides if line.startswith(b"\\") else 0
        if state.path is not None and spans and not line.startswith(b"\\"):
            yield _make_addition(state, spans)
            spans, state.path = [], None
        if header := COMMIT_HEADER.match(line):
            names = header[3].split()
            state = _PatchState(header[1].decode(), names[0].decode() if names else None, int(header[2]))
        else:
            _parse_header_line(state, line)
    if state.path is not None and spans:
        yield _make_addition(state, spans)


def _parse_header_line(state: _PatchState, line: bytes) -> None:
    key, _, value = line.partition(b" ")
    if key == b"author":
        state.author = value.decode("utf-8", "replace")
    elif key == b"---":
        state.source = parse_patch_path(value)
    elif key == b"+++":
        state.path = parse_patch_path(value)


def _make_addition(state: _PatchState, numbers: list[int]) -> Addition:
    path = state.path or ""
    return Addition(state.commit, state.parent, state.at, state.author, path, state.source, make_spans(numbers))


def parse_patch_path(quoted: bytes) -> str | None:
    """Return a path from a patch header; None for no file."""
    return None if quoted == b"/dev/null" else unquote_path(quoted.removesuffix(b"\t"))[2:]


def _added_numbers(lines: Iterator[bytes], hunk: re.Match[bytes]) -> Iterator[int]:
    """Yield the numbers of the lines that a hunk added."""
    removed_left, number, added_left = int(hunk[2].partition(b",")[2] or 1), int(hunk[3]), int(hunk[4] or 1)
    while added_left > 0 or removed_left > 0:
        line = next(lines, None)
        if line is None:
            return
        if line.startswith(b"+"):
            yield number
        removed_left -= line.startswith((b"-", b" "))
        if line.startswith((b"+", b" ")):
            number, added_left = number + 1, added_left - 1
