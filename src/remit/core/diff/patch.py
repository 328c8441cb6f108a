"""Patches in V4A format, `*** Begin Patch` … `*** End Patch`: parsing, application, and patches in shell commands.

Unreadable patches are errors, never guesses: the call is denied. Every header that Codex accepts is a header here;
further leniency is followed only if the named files stay the same. Lines are located as Codex does: exactly, without
trailing white space, without any surrounding white space.
Source: openai/codex, codex-rs/apply-patch/src/{parser,invocation,lib,seek_sequence}.rs, read 2026-11.
"""

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Literal, TypeAlias

from msgspec import Struct

from remit.core.shell_commands import ShellWord, SimpleCommand, UnreadableShell, parse_simple_commands

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
        paths = (path for o in self.operations for path in (o.path, o.moved_to) if path is not None)
        return tuple(dict.fromkeys(f"./{path}" if path.startswith("~") else path for path in paths))

    @property
    def checks_itself(self) -> bool:
        """Return whether the patch fails by itself on changed files: true for updates in place."""
        return all(o.kind == "update" and o.moved_to is None for o in self.operations)


def parse_patch(text: str) -> Patch:
    """Parse a patch. Raises PatchError, and nothing else, for any text."""
    lines = [line.removesuffix("\r") for line in text.strip(WHITE_SPACE).split("\n")]
    first, last = 0, len(lines)
    if len(lines) >= 4 and lines[0] in ("<<EOF", "<<'EOF'", '<<"EOF"') and lines[-1].endswith("EOF"):
        first, last = 1, len(lines) - 1  # a here-document may surround the markers
    if lines[first].strip(WHITE_SPACE) != BEGIN:
        raise PatchError(f"it begins with {lines[first][:80]!r}; expected {BEGIN!r}", first + 1)
    if last - first < 2 or lines[last - 1].strip(WHITE_SPACE) != END:
        raise PatchError(f"it ends with {lines[last - 1][:80]!r}; expected {END!r}", last)
    reader = _PatchReader(lines[: last - 1], first + 1)
    operations: list[FileOperation] = []
    while reader.at < len(reader.lines):
        operations.append(reader.read_operation())
    if not operations:
        raise PatchError("it names no file")
    return Patch(tuple(operations))


class _PatchReader:
    """A reader of the lines between the markers."""

    def __init__(self, lines: list[str], at: int) -> None:
        self.lines, self.at = lines, at

    @property
    def line(self) -> str | None:
        return self.lines[self.at] if self.at < len(self.lines) else None

    def error_here(self, why: str) -> PatchError:
        return PatchError(why, self.at + 1)

    def read_operation(self) -> FileOperation:
        written = self.lines[self.at]
        header = written.strip(WHITE_SPACE)
        marker = next((marker for marker in HEADERS if header.startswith(marker)), None)
        if marker is None:
            expected = ", ".join(map(repr, HEADERS))
            raise self.error_here(f"{written[:80]!r} is not a header; expected one of {expected}")
        path = self.read_path(header.removeprefix(marker))
        match HEADERS[marker]:
            case "add":
                start = self.at
                while (line := self.line) is not None and line.startswith("+"):
                    self.at += 1
                added = tuple(self.lines[start : self.at])
                return FileOperation("add", path, hunks=(PatchHunk(added),) if added else ())
            case "delete":
                return FileOperation("delete", path)
            case "update":
                return self.read_update(path)

    def read_path(self, text: str) -> str:
        """Read the line's path, refusing spellings that readers interpret differently."""
        if not text or text != text.strip() or "\0" in text or "\r" in text:
            raise self.error_here(f"{text[:80]!r} is not a path; expected one without white space at its ends")
        self.at += 1
        return text

    def read_update(self, path: str) -> FileOperation:
        moved_to = None
        if (line := self.line) is not None and line.startswith(MOVE):
            moved_to = self.read_path(line.removeprefix(MOVE))
        hunks: list[PatchHunk] = []
        while (line := self.line) is not None and not line.startswith("*"):
            if line.strip(WHITE_SPACE):
                hunks.append(self.read_hunk(line, first=not hunks))
            else:
                self.at += 1
        if not hunks and moved_to is None:
            raise self.error_here(f"the update of {path[:80]!r} changes nothing")
        return FileOperation("update", path, moved_to, tuple(hunks))

    def read_hunk(self, header: str, *, first: bool) -> PatchHunk:
        """Read a hunk: `@@` with context, which only a file's first hunk may lack, lines, an end-of-file mark."""
        context = header[3:] if header == "@@" or header.startswith("@@ ") else None
        if context is None and not first:
            raise self.error_here(f"{header[:80]!r} begins no hunk; expected '@@'")
        self.at += context is not None
        start = self.at
        while (line := self.line) is not None and (not line or line[0] in " +-"):
            if line[:1] not in ("+", "-") and line.strip(WHITE_SPACE).startswith(MARKERS):
                # A line of the file to some readers, a header to others.
                raise self.error_here(f"{line[:80]!r} is a marker that does not begin its line")
            self.at += 1
        lines = tuple(line or " " for line in self.lines[start : self.at])
        if not lines:
            raise self.error_here("a hunk has no lines; expected some that begin with a space, + or -")
        ends = self.line == END_OF_FILE
        self.at += ends
        return PatchHunk(lines, context, ends)


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
        before = after[path] if path in after else read_content(path)
        content: bytes | None = None
        if operation.kind == "add":
            added = [line[1:] for hunk in operation.hunks for line in hunk.lines]
            content = "".join(f"{line}\n" for line in added).encode("utf-8", "replace")
        elif operation.kind == "update":
            if before is None:
                raise PatchMismatch(f"{path[:80]!r} is to be updated, but does not exist")
            changed = apply_hunks(before, operation.hunks)
            content = "".join(f"{line}\n" for line, _ in changed).encode("utf-8", "surrogateescape")
        if operation.moved_to is not None:
            after[path] = None
            path = operation.moved_to
        after[path] = content
    return {f"./{path}" if path.startswith("~") else path: content for path, content in after.items()}


def trace_patch_origins(patch: Patch, path: str, before: bytes) -> list[Origin] | None:
    """Return the previous index of each line after the patch, by the signs of the patch's lines.

    None unless the patch updates `path` exactly once, in place. Raises PatchMismatch.
    """
    operations = [o for o in patch.operations if path in (o.path, o.moved_to)]
    if len(operations) != 1 or operations[0].kind != "update" or operations[0].moved_to is not None:
        return None
    return [origin for _, origin in apply_hunks(before, operations[0].hunks)]


def apply_hunks(content: bytes, hunks: Sequence[PatchHunk]) -> list[tuple[str, Origin]]:
    """Return the lines after the hunks, which follow file order, with their origins."""
    lines = content.decode("utf-8", "surrogateescape").split("\n")
    lines = lines if lines[-1] else lines[:-1]
    result: list[tuple[str, Origin]] = []
    consumed = 0
    for hunk in hunks:
        at = consumed
        if hunk.context:
            at = find_lines(lines, [hunk.context], at, end=False) + 1
        old = [line[1:] for line in hunk.lines if line[0] != "+"]
        new = [line[1:] for line in hunk.lines if line[0] != "-"]
        origins: Iterable[Origin] = repeat(None)
        try:
            start = find_lines(lines, old, at, end=hunk.end_of_file) if old else len(lines)
            origins = trace_hunk_lines(hunk.lines, start)
        except PatchMismatch:
            if old[-1]:
                raise
            # A missing last empty line is dropped from both sides.
            old, new = old[:-1], new[:-1] if new and not new[-1] else new
            start = find_lines(lines, old, at, end=hunk.end_of_file)
        result += [(lines[n], n) for n in range(consumed, start)]
        result += zip(new, origins, strict=False)
        consumed = start + len(old)
    return result + [(lines[n], n) for n in range(consumed, len(lines))]


def trace_hunk_lines(lines: Iterable[str], start: int) -> Iterator[Origin]:
    """Yield the origin of each line left by a hunk; `start` is the index of its first old line."""
    for line in lines:
        if line[0] != "-":
            yield start if line[0] == " " else None
        start += line[0] != "+"


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


# --- patches in shell commands ----------------------------------------------------------------------------

APPLY_PROGRAMS = frozenset({"apply_patch", "applypatch"})
PROGRAM_MENTION = re.compile(r"apply_?patch")
STARTER_PROGRAM = re.compile(
    r"(?:ba|da|z|k|a|fi)?sh|eval|exec|env|xargs|parallel|sudo|doas|su|nohup|timeout|time|nice|stdbuf|script|setsid"
    r"|command|builtin|source|\.|find|ssh|watch|python[\d.]*|perl|ruby|node|awk|trap|alias"
)
EXPANDED_CHARS = re.compile(r"[$`\\]")
CHANGES_FOLDER = frozenset({"pushd", "popd"})
CD_OPERATORS = ("", "&&", ";", "\n")
RESERVED_WORDS = frozenset({"{", "}", "!", "if", "then", "else", "elif", "fi", "while", "until", "do", "done", "time"})
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")


class CommandPatch(Struct, frozen=True):
    """A patch applied by a shell command in `folder`, relative to the command's working folder.

    `folder` is empty for the working folder itself.
    """

    folder: str
    patch: Patch

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(posixpath.join(self.folder, path) for path in self.patch.paths)

    @property
    def operations(self) -> tuple[FileOperation, ...]:
        to = posixpath.join
        return tuple(
            FileOperation(o.kind, to(self.folder, o.path), o.moved_to and to(self.folder, o.moved_to), o.hunks)
            for o in self.patch.operations
        )


def find_shell_patches(command: str) -> tuple[CommandPatch, ...]:
    """Return the patches applied by a shell command: `apply_patch <<'EOF'` or `apply_patch '…'`, also after `cd x &&`.

    Raises PatchError if the command applies a patch, or changes to a folder, that its text does not show.
    """
    if PROGRAM_MENTION.search(command) is None:
        return ()
    try:
        commands = parse_simple_commands(command)
    except UnreadableShell as error:
        raise PatchError(f"the command around it cannot be read: {error}") from error
    for each in commands:
        texts = (*(word.text for word in each.words), *(document.body for document in each.documents))
        starts = program_name(each) not in APPLY_PROGRAMS and STARTER_PROGRAM.fullmatch(program_name(each))
        if starts and any(PROGRAM_MENTION.search(text) for text in texts):
            raise PatchError(f"it is started by {each.words[0].text[:80]!r}; run apply_patch <<'EOF' … EOF itself")
    patches: list[CommandPatch] = []
    for n, each in enumerate(commands):
        if program_name(each) in APPLY_PROGRAMS:
            patch = parse_patch(find_patch_text(each))
            is_absolute = all(posixpath.isabs(path) for path in patch.paths)
            patches.append(CommandPatch("" if is_absolute else find_folder(commands[: n + 1]), patch))
    if "\\" in command.partition("<<")[0] and any(patch.folder for patch in patches):
        raise PatchError("the folder holds a backslash, which the agent keeps and a shell takes out")
    return tuple(patches)


def program_name(command: SimpleCommand) -> str:
    words = program_words(command)
    return words[0].text.rpartition("/")[2] if words else ""


def program_words(command: SimpleCommand) -> tuple[ShellWord, ...]:
    words = command.words
    while words and (words[0].text in RESERVED_WORDS or ASSIGNMENT.match(words[0].text)):
        words = words[1:]
    return words


def find_patch_text(command: SimpleCommand) -> str:
    """Return the text passed to apply_patch: its here-document, or its only argument."""
    arguments = program_words(command)[1:]
    if len(command.documents) == 1 and not arguments:
        document = command.documents[0]
        if not document.closed:
            raise PatchError("its here-document is not closed")
        if not document.quoted and EXPANDED_CHARS.search(document.body):
            raise PatchError("the shell would change its text; quote the delimiter: <<'EOF'")
        return document.body
    if len(arguments) == 1 and arguments[0].literal and not command.fed:
        return arguments[0].text
    raise PatchError("the command does not show it; expected apply_patch <<'EOF' … EOF")


def find_folder(commands: Iterable[SimpleCommand]) -> str:
    """Return the working folder of the last command: each earlier `cd` must be plain and joined by `&&`."""
    folder, sure = "", True
    for command in commands:
        sure = sure and command.before in (("&&",) if folder else CD_OPERATORS)
        if program_name(command) in CHANGES_FOLDER:
            raise PatchError("the folder it is applied in is not known; use absolute paths")
        if program_name(command) == "cd":
            sure = command.before in CD_OPERATORS if not folder else sure
            words = program_words(command)[1:]
            if len(words) != 1 or not words[0].literal or words[0].text.startswith("-") or not words[0].text:
                raise PatchError("the folder that cd names is not plain")
            folder = posixpath.join(folder, words[0].text)
        if folder and (not sure or command.depth):
            raise PatchError("the folder it is applied in is not sure; write cd FOLDER && apply_patch, nothing between")
    return folder
