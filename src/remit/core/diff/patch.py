"""Patches in V4A format, `*** Begin Patch` … `*** End Patch`: parsing, application, and patches in shell commands.

Unreadable patches are errors, never guesses: the call is denied. Every header that Codex accepts is a header here;
further leniency is followed only if the named files stay the same. Lines are located as Codex does: exactly, without
trailing white space, without any surrounding white space.
Source: openai/codex, codex-rs/apply-patch/src/{parser,invocation,lib,seek_sequence}.rs, read 2026-11.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Literal, TypeAlias

from msgspec import Struct

OperationKind: TypeAlias = Literal["add", "update", "delete"]

BEGIN = "*** Begin Patch"
END = "*** End Patch"
MOVE = "*** Move to: "
END_OF_FILE = "*** End of File"
HEADERS: dict[str, OperationKind] = {
    "*** Add File: ": "add",
    "*** Update File: ": "update",
    "*** Delete File: ": "delete",
}
MARKERS = (BEGIN, END, MOVE.rstrip(), END_OF_FILE, *(header.rstrip() for header in HEADERS))

# Unicode's White_Space, which is what Codex trims. str.strip() would also take U+001C to U+001F.
WHITE_SPACE = (
    "\t\n\x0b\x0c\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
)


class PatchError(ValueError):
    """Error for text that is not a readable patch. `line` is 1-based; 0 if no line is at fault."""

    def __init__(self, why: str, line: int = 0) -> None:
        super().__init__(f"the patch cannot be read{f' (line {line})' if line else ''}: {why}")
        self.why = why
        self.line = line


class PatchHunk(Struct, frozen=True):
    """A place in a file. `lines` keep their first character: space, `+` or `-`.

    `context` is the text after `@@`, or None without such a line.
    """

    lines: tuple[str, ...]
    context: str | None = None
    end_of_file: bool = False


class FileOperation(Struct, frozen=True):
    """An operation on a file. `path` and `moved_to` are as written: absolute, or relative to the call's folder."""

    kind: OperationKind
    path: str
    moved_to: str | None = None
    hunks: tuple[PatchHunk, ...] = ()


class Patch(Struct, frozen=True):
    """A non-empty list of operations in text order; a file may occur twice."""

    operations: tuple[FileOperation, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """Return every named file once, move targets included. `~` is a file name, not a home: `./~`."""
        paths = (path for o in self.operations for path in (o.path, o.moved_to) if path is not None)
        return tuple(dict.fromkeys(f"./{path}" if path.startswith("~") else path for path in paths))

    @property
    def checks_itself(self) -> bool:
        """Return whether the patch fails by itself on changed files: true for updates in place."""
        return all(o.kind == "update" and o.moved_to is None for o in self.operations)


def parse_patch(text: str) -> Patch:
    """Parse a patch. Raises PatchError, and nothing else, for any text."""
    lines = [line.removesuffix("\r") for line in text.strip(WHITE_SPACE).split("\n")]
    first, last = find_body_bounds(lines)
    reader = _PatchReader(lines, first, last)
    operations: list[FileOperation] = []
    while not reader.at_end:
        operations.append(reader.read_operation())
    if not operations:
        raise PatchError("it names no file")
    return Patch(tuple(operations))


def find_body_bounds(lines: list[str]) -> tuple[int, int]:
    """Return first and end index of the lines between the markers; a here-document may surround them."""
    if len(lines) >= 4 and lines[0] in ("<<EOF", "<<'EOF'", '<<"EOF"') and lines[-1].endswith("EOF"):
        return check_markers(lines, 1, len(lines) - 1)
    return check_markers(lines, 0, len(lines))


def check_markers(lines: list[str], first: int, last: int) -> tuple[int, int]:
    if lines[first].strip(WHITE_SPACE) != BEGIN:
        raise PatchError(f"it begins with {lines[first][:80]!r}; expected {BEGIN!r}", first + 1)
    if last - first < 2 or lines[last - 1].strip(WHITE_SPACE) != END:
        raise PatchError(f"it ends with {lines[last - 1][:80]!r}; expected {END!r}", last)
    return first + 1, last - 1


class _PatchReader:
    """A reader of the lines between the markers."""

    def __init__(self, lines: list[str], first: int, last: int) -> None:
        self.lines, self.at, self.last = lines, first, last

    @property
    def at_end(self) -> bool:
        return self.at >= self.last

    @property
    def current_line(self) -> str:
        return self.lines[self.at]

    def error_here(self, why: str) -> PatchError:
        return PatchError(why, self.at + 1)

    def read_operation(self) -> FileOperation:
        kind, path = self.read_header()
        match kind:
            case "add":
                return FileOperation("add", path, hunks=self.read_added_lines())
            case "delete":
                return FileOperation("delete", path)
            case "update":
                return self.read_update(path)

    def read_header(self) -> tuple[OperationKind, str]:
        header = self.current_line.strip(WHITE_SPACE)
        for marker, kind in HEADERS.items():
            if header.startswith(marker):
                path = self.check_path(header.removeprefix(marker))
                self.at += 1
                return kind, path
        raise self.error_here(
            f"{self.current_line[:80]!r} is not a header; expected one of {', '.join(map(repr, HEADERS))}"
        )

    def check_path(self, text: str) -> str:
        """Check a path for spellings that readers interpret differently."""
        if not text or text != text.strip() or "\0" in text or "\r" in text:
            raise self.error_here(f"{text[:80]!r} is not a path; expected one without white space at its ends")
        return text

    def read_added_lines(self) -> tuple[PatchHunk, ...]:
        start = self.at
        while not self.at_end and self.current_line.startswith("+"):
            self.at += 1
        lines = tuple(self.lines[start : self.at])
        return (PatchHunk(lines),) if lines else ()

    def read_update(self, path: str) -> FileOperation:
        moved_to = None
        if not self.at_end and self.current_line.startswith(MOVE):
            moved_to = self.check_path(self.current_line.removeprefix(MOVE))
            self.at += 1
        hunks: list[PatchHunk] = []
        while not self.at_end and not self.current_line.startswith("*"):
            if self.current_line.strip(WHITE_SPACE):
                hunks.append(self.read_hunk(first=not hunks))
            else:
                self.at += 1
        if not hunks and moved_to is None:
            raise self.error_here(f"the update of {path[:80]!r} changes nothing")
        return FileOperation("update", path, moved_to, tuple(hunks))

    def read_hunk(self, *, first: bool) -> PatchHunk:
        """Read a hunk: `@@`, lines, and an optional end-of-file mark."""
        context = self.read_context(first=first)
        start = self.at
        while not self.at_end and (not self.current_line or self.current_line[0] in " +-"):
            self.refuse_indented_marker()
            self.at += 1
        lines = tuple(line or " " for line in self.lines[start : self.at])
        if not lines:
            raise self.error_here("a hunk has no lines; expected some that begin with a space, + or -")
        ends = not self.at_end and self.current_line == END_OF_FILE
        self.at += ends
        return PatchHunk(lines, context, ends)

    def read_context(self, *, first: bool) -> str | None:
        """Read the text after `@@`; only a file's first hunk may lack the line."""
        if self.current_line == "@@":
            self.at += 1
            return ""
        if self.current_line.startswith("@@ "):
            self.at += 1
            return self.lines[self.at - 1][3:]
        if first:
            return None
        raise self.error_here(f"{self.current_line[:80]!r} begins no hunk; expected '@@'")

    def refuse_indented_marker(self) -> None:
        """Refuse an indented marker: a line of the file to some readers, a header to others."""
        if self.current_line[:1] not in ("+", "-") and self.current_line.strip(WHITE_SPACE).startswith(MARKERS):
            raise self.error_here(f"{self.current_line[:80]!r} is a marker that does not begin its line")


class PatchMismatch(ValueError):
    """Error for a patch that does not fit the files."""


Origin: TypeAlias = int | None
"""Previous index of a line; None for an added line."""

LINE_NORMALISERS: tuple[Callable[[str], str], ...] = (str, str.rstrip, str.strip)


def apply_patch(patch: Patch, read_content: Callable[[str], bytes | None]) -> dict[str, bytes | None]:
    """Return the content of each named file after the patch; None for a removed file. Raises PatchMismatch."""
    after: dict[str, bytes | None] = {}
    for operation in patch.operations:
        path = operation.path
        previous = after[path] if path in after else read_content(path)
        content = None if operation.kind == "delete" else apply_operation(operation, previous)
        if operation.moved_to is not None:
            after[path] = None
            path = operation.moved_to
        after[path] = content
    return {f"./{path}" if path.startswith("~") else path: content for path, content in after.items()}


def apply_operation(operation: FileOperation, before: bytes | None) -> bytes:
    """Return the content after an addition or an update."""
    if operation.kind == "add":
        lines = [line[1:] for hunk in operation.hunks for line in hunk.lines]
        return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
    if before is None:
        raise PatchMismatch(f"{operation.path[:80]!r} is to be updated, but does not exist")
    changed = apply_hunks(decode_lines(before), operation.hunks)
    return "".join(f"{line}\n" for line, _ in changed).encode("utf-8", "surrogateescape")


def trace_patch_origins(patch: Patch, path: str, before: bytes) -> list[Origin] | None:
    """Return the previous index of each line after the patch, by the signs of the patch's lines.

    None unless the patch updates `path` exactly once, in place. Raises PatchMismatch.
    """
    operations = [o for o in patch.operations if path in (o.path, o.moved_to)]
    if len(operations) != 1 or operations[0].kind != "update" or operations[0].moved_to is not None:
        return None
    return [origin for _, origin in apply_hunks(decode_lines(before), operations[0].hunks)]


def decode_lines(content: bytes) -> list[str]:
    lines = content.decode("utf-8", "surrogateescape").split("\n")
    return lines if lines[-1] else lines[:-1]


def apply_hunks(lines: list[str], hunks: Sequence[PatchHunk]) -> list[tuple[str, Origin]]:
    """Return the lines after the hunks, which follow file order, with their origins."""
    result: list[tuple[str, Origin]] = []
    consumed = 0
    for hunk in hunks:
        at = consumed
        if hunk.context:
            at = find_lines(lines, [hunk.context], at, end=False) + 1
        old = [line[1:] for line in hunk.lines if line[0] != "+"]
        new = [line[1:] for line in hunk.lines if line[0] != "-"]
        signs = [line[0] for line in hunk.lines]
        old_count = len(old)
        start, old, new = locate_hunk(lines, old, new, at, hunk)
        result += [(lines[n], n) for n in range(consumed, start)]
        result += zip(new, trace_hunk_lines(signs, start) if len(old) == old_count else repeat(None), strict=False)
        consumed = start + len(old)
    return result + [(lines[n], n) for n in range(consumed, len(lines))]


def trace_hunk_lines(signs: Iterable[str], start: int) -> Iterator[Origin]:
    """Yield the origin of each line left by a hunk; `start` is the index of its first old line."""
    for sign in signs:
        if sign != "-":
            yield start if sign == " " else None
        start += sign != "+"


def locate_hunk(
    lines: list[str], old: list[str], new: list[str], at: int, hunk: PatchHunk
) -> tuple[int, list[str], list[str]]:
    """Return the index of the old lines, and both sides; a missing last empty line is dropped from both."""
    if not old:
        return len(lines), old, new
    try:
        return find_lines(lines, old, at, end=hunk.end_of_file), old, new
    except PatchMismatch:
        if old[-1]:
            raise
    shorter = new[:-1] if new and not new[-1] else new
    return find_lines(lines, old[:-1], at, end=hunk.end_of_file), old[:-1], shorter


def find_lines(lines: list[str], wanted: list[str], at: int, *, end: bool) -> int:
    """Return the index of `wanted` from `at` on, trying the end of the file first with `end`. Raises PatchMismatch."""
    last = len(lines) - len(wanted)
    starts = [last, *range(at, last + 1)] if end and last >= at else range(at, last + 1)
    for look in LINE_NORMALISERS:
        sought = [look(line) for line in wanted]
        seen = [look(line) for line in lines]
        for start in starts:
            if seen[start : start + len(wanted)] == sought:
                return start
    raise PatchMismatch(f"the line {wanted[0][:80]!r} is not there" if wanted else "an empty place is not there")
