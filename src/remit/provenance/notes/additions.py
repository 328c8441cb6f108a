"""The lines that commits added to their parents, as `git diff-tree` tells them: one git for many commits.

A merge added only what no parent has. Source: git-diff-tree(1), the combined format, read 2026-11.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from remit.core.spans import Span, spans_of
from remit.workspace.git import Git

COMMITS_AT_ONCE = 100
PATHS_AT_ONCE = 400
CHARS_AT_ONCE = 30_000
"""Of paths on a command line; a single argument may have 128 KiB."""

HEADER = re.compile(rb"commit ([0-9a-f]{40,64}) (\d+)((?: [0-9a-f]{40,64})*) ?$")
HUNK = re.compile(rb"(@@+)((?: -\d+(?:,\d+)?)+) \+(\d+)(?:,(\d+))? @@")
SIGNS = (b" ", b"+", b"-")
ESCAPE = re.compile(rb'\\([0-7]{3}|[abtnvfr"\\])')
LETTERS = dict(zip(b'abtnvfr"\\', b'\a\b\t\n\v\f\r"\\', strict=True))

FORMAT = "--format=tformat:commit %H %ct %P%nauthor %an <%ae>"
OPTIONS = ("-r", "--root", "-p", "-U0", "-c", "--no-color", "--no-ext-diff", "--no-textconv", "--inter-hunk-context=0")
PREFIXES = ("--src-prefix=a/", "--dst-prefix=b/")


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


class _About(Struct):
    commit: str = ""
    parent: str | None = None
    at: int = 0
    author: str = ""
    source: str | None = None
    path: str | None = None


def additions(git: Git, commits: Iterable[str]) -> Iterator[Addition]:
    """What those commits added, renames followed; not of files that git calls binary. Raises GitError."""
    asked = list(dict.fromkeys(commits))
    for at in range(0, len(asked), COMMITS_AT_ONCE):
        names = "".join(f"{commit}\n" for commit in asked[at : at + COMMITS_AT_ONCE]).encode()
        out = git.run("diff-tree", "--stdin", FORMAT, *OPTIONS, *PREFIXES, "-M", stdin=names)
        yield from read_patch(out)


def added_lines(git: Git, commits: Iterable[str], paths: Sequence[str]) -> Iterator[Addition]:
    """What those commits added to those paths, whatever attributes the files have; a renamed file counts as added.

    Paths that no commit can hold have no lines. Raises GitError.
    """
    asked = list(dict.fromkeys(commits))
    known = [path for path in paths if is_tracked_so(path)]
    if not known:
        return
    few = sum(map(len, known)) <= CHARS_AT_ONCE and len(known) <= PATHS_AT_ONCE
    only = ("--", *(f":(top,literal){path}" for path in known)) if few else ()
    for at in range(0, len(asked), COMMITS_AT_ONCE):
        names = "".join(f"{commit}\n" for commit in asked[at : at + COMMITS_AT_ONCE]).encode()
        call = ("diff-tree", "--stdin", FORMAT, *OPTIONS, *PREFIXES)
        yield from read_patch(git.run(*call, "--no-renames", "--text", *only, stdin=names))


def is_tracked_so(path: str) -> bool:
    """Whether git may hold a file of that name. It ends at one that leads out of the repository."""
    parts = path.split("/")
    return "\0" not in path and not {"", ".", "..", ".git"} & set(parts)


def staged(git: Git, head: str | None) -> Iterator[Addition]:
    """What the next commit would add; its name is empty. Raises GitError."""
    against = head or git.text("hash-object", "-t", "tree", "--stdin")
    patch = [option for option in OPTIONS if option not in ("-c", "--root")]
    out = git.run("diff-index", "--cached", *patch, *PREFIXES, "-M", against)
    yield from read_patch(out, parent=head)


def read_patch(out: bytes, *, parent: str | None = None) -> Iterator[Addition]:
    """The additions in a patch without context. Lines of hunks are counted, so that no content passes for a header;
    those of a merge are told by their signs, since git counts them wrongly where a merge takes out the end of a file.
    """
    about = _About(parent=parent)
    spans: list[int] = []
    lines = iter(out.split(b"\n"))
    sides = number = 0
    for line in lines:
        if hunk := HUNK.match(line):
            sides, number = len(hunk[1]) - 1, int(hunk[3])
            spans += _added(lines, hunk) if sides == 1 else ()
            continue
        if sides > 1 and line.startswith(SIGNS):
            signs = line[:sides]
            spans += [number] if signs == b"+" * sides else ()
            number += b"+" in signs
            continue
        sides = sides if line.startswith(b"\\") else 0
        if about.path is not None and spans and not line.startswith(b"\\"):
            yield _addition(about, spans)
            spans, about.path = [], None
        if header := HEADER.match(line):
            names = header[3].split()
            about = _About(header[1].decode(), names[0].decode() if names else None, int(header[2]))
        else:
            _told(about, line)
    if about.path is not None and spans:
        yield _addition(about, spans)


def _told(about: _About, line: bytes) -> None:
    """One line between hunks."""
    key, _, value = line.partition(b" ")
    if key == b"author":
        about.author = value.decode("utf-8", "replace")
    elif key == b"---":
        about.source = path_said(value)
    elif key == b"+++":
        about.path = path_said(value)


def _addition(about: _About, numbers: list[int]) -> Addition:
    path = about.path or ""
    return Addition(about.commit, about.parent, about.at, about.author, path, about.source, spans_of(numbers))


def path_said(said: bytes) -> str | None:
    """A path as the patch writes it; None for no file."""
    name = said.removesuffix(b"\t")
    if name.startswith(b'"'):
        name = ESCAPE.sub(_letter, name[1:-1])
    return None if said == b"/dev/null" else name[2:].decode("utf-8", "surrogateescape")


def _letter(found: re.Match[bytes]) -> bytes:
    said = found[1]
    return bytes([int(said, 8) & 0xFF if len(said) == 3 else LETTERS[said[0]]])


def _added(lines: Iterator[bytes], hunk: re.Match[bytes]) -> Iterator[int]:
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
