"""The lines that commits added to their parents, as `git diff-tree` tells them: one git for many commits.

A merge added only what no parent has. Source: git-diff-tree(1), the combined format, read 2026-11.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from remit.core.diff.line_spans import Span, make_spans
from remit.workspace.git.command import Git

COMMITS_AT_ONCE = 100
PATHS_AT_ONCE = 400
CHARS_AT_ONCE = 30_000
"""Of paths on a command line; a single argument may have 128 KiB."""

COMMIT_HEADER = re.compile(rb"commit ([0-9a-f]{40,64}) (\d+)((?: [0-9a-f]{40,64})*) ?$")
HUNK_HEADER = re.compile(rb"(@@+)((?: -\d+(?:,\d+)?)+) \+(\d+)(?:,(\d+))? @@")
HUNK_LINE_SIGNS = (b" ", b"+", b"-")
PATH_ESCAPE = re.compile(rb'\\([0-7]{3}|[abtnvfr"\\])')
ESCAPED_LETTERS = dict(zip(b'abtnvfr"\\', b'\a\b\t\n\v\f\r"\\', strict=True))

COMMIT_FORMAT = "--format=tformat:commit %H %ct %P%nauthor %an <%ae>"
PATCH_OPTIONS = (
    "-r",
    "--root",
    "-p",
    "-U0",
    "-c",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--inter-hunk-context=0",
)
PREFIX_OPTIONS = ("--src-prefix=a/", "--dst-prefix=b/")


class Addition(Struct, frozen=True):
    """Lines of a file that a commit added. `source` is what its first parent calls the file; None for a new one.

    `at` is the commit's time in seconds, `author` is `Name <address>`.
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
    """What those commits added, renames followed; not of files that git calls binary. Raises GitError."""
    asked = list(dict.fromkeys(commits))
    for at in range(0, len(asked), COMMITS_AT_ONCE):
        names = "".join(f"{commit}\n" for commit in asked[at : at + COMMITS_AT_ONCE]).encode()
        out = git.run("diff-tree", "--stdin", COMMIT_FORMAT, *PATCH_OPTIONS, *PREFIX_OPTIONS, "-M", stdin=names)
        yield from parse_patch(out)


def find_additions_to_paths(git: Git, commits: Iterable[str], paths: Sequence[str]) -> Iterator[Addition]:
    """What those commits added to those paths, whatever attributes the files have; a renamed file counts as added.

    Paths that no commit can hold have no lines. Raises GitError.
    """
    asked = list(dict.fromkeys(commits))
    known = [path for path in paths if is_possible_path(path)]
    if not known:
        return
    few = sum(map(len, known)) <= CHARS_AT_ONCE and len(known) <= PATHS_AT_ONCE
    only = ("--", *(f":(top,literal){path}" for path in known)) if few else ()
    for at in range(0, len(asked), COMMITS_AT_ONCE):
        names = "".join(f"{commit}\n" for commit in asked[at : at + COMMITS_AT_ONCE]).encode()
        call = ("diff-tree", "--stdin", COMMIT_FORMAT, *PATCH_OPTIONS, *PREFIX_OPTIONS)
        yield from parse_patch(git.run(*call, "--no-renames", "--text", *only, stdin=names))


def is_possible_path(path: str) -> bool:
    """Whether git may hold a file of that name. It ends at one that leads out of the repository."""
    parts = path.split("/")
    return "\0" not in path and not {"", ".", "..", ".git"} & set(parts)


def find_staged_additions(git: Git, head: str | None) -> Iterator[Addition]:
    """What the next commit would add; its name is empty. Raises GitError."""
    against = head or git.text("hash-object", "-t", "tree", "--stdin")
    patch = [option for option in PATCH_OPTIONS if option not in ("-c", "--root")]
    out = git.run("diff-index", "--cached", *patch, *PREFIX_OPTIONS, "-M", against)
    yield from parse_patch(out, parent=head)


def parse_patch(output: bytes, *, parent: str | None = None) -> Iterator[Addition]:
    """The additions in a patch without context. Lines of hunks are counted, so that no content passes for a header;
    those of a merge are told by their signs, since git counts them wrongly where a merge takes out the end of a file.
    """
    about = _PatchState(parent=parent)
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
        if about.path is not None and spans and not line.startswith(b"\\"):
            yield _make_addition(about, spans)
            spans, about.path = [], None
        if header := COMMIT_HEADER.match(line):
            names = header[3].split()
            about = _PatchState(header[1].decode(), names[0].decode() if names else None, int(header[2]))
        else:
            _parse_header_line(about, line)
    if about.path is not None and spans:
        yield _make_addition(about, spans)


def _parse_header_line(state: _PatchState, line: bytes) -> None:
    """One line between hunks."""
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
    """A path as the patch writes it; None for no file."""
    name = quoted.removesuffix(b"\t")
    if name.startswith(b'"'):
        name = PATH_ESCAPE.sub(_unescape_char, name[1:-1])
    return None if quoted == b"/dev/null" else name[2:].decode("utf-8", "surrogateescape")


def _unescape_char(found: re.Match[bytes]) -> bytes:
    said = found[1]
    return bytes([int(said, 8) & 0xFF if len(said) == 3 else ESCAPED_LETTERS[said[0]]])


def _added_numbers(lines: Iterator[bytes], hunk: re.Match[bytes]) -> Iterator[int]:
    """The numbers of the lines that a hunk put there."""
    gone, number, left = int(hunk[2].partition(b",")[2] or 1), int(hunk[3]), int(hunk[4] or 1)
    while left > 0 or gone > 0:
        line = next(lines, None)
        if line is None:
            return
        if line.startswith(b"+"):
            yield number
        gone -= line.startswith((b"-", b" "))
        if line.startswith((b"+", b" ")):
            number, left = number + 1, left - 1
