"""Patches in the V4A form, `*** Begin Patch` … `*** End Patch`: which files they touch, and how.

What cannot be read is an error, never a guess: the call that brings it is refused. Whatever Codex takes for a file's
header is one here; the rest of its leniency is followed only where it cannot change which files are named.
Source: openai/codex, codex-rs/apply-patch/src/parser.rs and invocation.rs, read 2026-11.

What a V4A patch leaves: its operations, carried out on contents.

Lines are looked for as Codex does: as they are, then without white space at their ends, then without any around them.
Source: openai/codex, codex-rs/apply-patch/src/lib.rs and seek_sequence.rs, read 2026-11.
"""

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import Literal, TypeAlias

from msgspec import Struct

from remit.core.shell.simple_commands import (
    HereDocument,
    ShellWord,
    SimpleCommand,
    UnreadableShell,
    parse_simple_commands,
)

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

APPLY_PROGRAMS = frozenset({"apply_patch", "applypatch"})
PROGRAM_MENTION = re.compile(r"apply_?patch")
STARTER_PROGRAM = re.compile(
    r"(?:ba|da|z|k|a|fi)?sh|eval|exec|env|xargs|parallel|sudo|doas|su|nohup|timeout|time|nice|stdbuf|script|setsid"
    r"|command|builtin|source|\.|find|ssh|watch|python[\d.]*|perl|ruby|node|awk|trap|alias"
)
EXPANDED_CHARS = re.compile(r"[$`\\]")
CHANGES_FOLDER = frozenset({"pushd", "popd"})
CD_OPERATORS = ("", "&&", ";", "\n")


class PatchError(ValueError):
    """The text is no patch that can be read. `line` is 1-based; 0 where no line is to blame."""

    def __init__(self, why: str, line: int = 0) -> None:
        super().__init__(f"the patch cannot be read{f' (line {line})' if line else ''}: {why}")
        self.why = why
        self.line = line


class PatchHunk(Struct, frozen=True):
    """One place in a file. `lines` keep their first character: space, `+` or `-`.

    `context` is what follows `@@`; None where there is no such line.
    """

    lines: tuple[str, ...]
    context: str | None = None
    end_of_file: bool = False


class FileOperation(Struct, frozen=True):
    """What happens to one file. `path` and `moved_to` are as written: absolute, or relative to the call's folder."""

    kind: OperationKind
    path: str
    moved_to: str | None = None
    hunks: tuple[PatchHunk, ...] = ()


class Patch(Struct, frozen=True):
    """At least one operation, in the order of the text; a file may come twice."""

    operations: tuple[FileOperation, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """Every file it names, the targets of moves too, each once. `~` is a name in a patch, not a home: `./~`."""
        named = (path for o in self.operations for path in (o.path, o.moved_to) if path is not None)
        return tuple(dict.fromkeys(f"./{path}" if path.startswith("~") else path for path in named))

    @property
    def checks_itself(self) -> bool:
        """Whether it fails by itself on files that changed: only updates in place do."""
        return all(o.kind == "update" and o.moved_to is None for o in self.operations)


class CommandPatch(Struct, frozen=True):
    """A patch that a shell command applies, in `folder`: relative to where the command starts, empty for there."""

    folder: str
    patch: Patch

    @property
    def paths(self) -> tuple[str, ...]:
        """Its files, relative to where the command starts."""
        return tuple(posixpath.join(self.folder, path) for path in self.patch.paths)

    @property
    def operations(self) -> tuple[FileOperation, ...]:
        """Its operations, likewise."""
        to = posixpath.join
        return tuple(
            FileOperation(o.kind, to(self.folder, o.path), o.moved_to and to(self.folder, o.moved_to), o.hunks)
            for o in self.patch.operations
        )


def list_patch_paths(text: str) -> tuple[str, ...]:
    """Every file that the patch names. Raises PatchError."""
    return parse_patch(text).paths


def parse_patch(text: str) -> Patch:
    """The patch. Raises PatchError, and nothing else, for any text."""
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
    """Where the lines between the first and the last marker begin and end; a here-document may be around them."""
    if len(lines) >= 4 and lines[0] in ("<<EOF", "<<'EOF'", '<<"EOF"') and lines[-1].endswith("EOF"):
        return check_markers(lines, 1, len(lines) - 1)
    return check_markers(lines, 0, len(lines))


def check_markers(lines: list[str], first: int, last: int) -> tuple[int, int]:
    """The same, for lines `first` to `last`."""
    if lines[first].strip(WHITE_SPACE) != BEGIN:
        raise PatchError(f"it begins with {lines[first][:80]!r}; expected {BEGIN!r}", first + 1)
    if last - first < 2 or lines[last - 1].strip(WHITE_SPACE) != END:
        raise PatchError(f"it ends with {lines[last - 1][:80]!r}; expected {END!r}", last)
    return first + 1, last - 1


class _PatchReader:
    """The lines between the markers, from top to bottom."""

    def __init__(self, lines: list[str], first: int, last: int) -> None:
        self.lines, self.at, self.last = lines, first, last

    @property
    def at_end(self) -> bool:
        """Whether all lines are read."""
        return self.at >= self.last

    @property
    def current_line(self) -> str:
        """The line at this place."""
        return self.lines[self.at]

    def error_here(self, why: str) -> PatchError:
        """An error at this place."""
        return PatchError(why, self.at + 1)

    def read_operation(self) -> FileOperation:
        """One file."""
        kind, path = self.read_header()
        match kind:
            case "add":
                return FileOperation("add", path, hunks=self.read_added_lines())
            case "delete":
                return FileOperation("delete", path)
            case "update":
                return self.read_update(path)

    def read_header(self) -> tuple[OperationKind, str]:
        """What happens, and to which file."""
        clean = self.current_line.strip(WHITE_SPACE)
        for marker, kind in HEADERS.items():
            if clean.startswith(marker):
                path = self.check_path(clean.removeprefix(marker))
                self.at += 1
                return kind, path
        raise self.error_here(
            f"{self.current_line[:80]!r} is no header; expected one of {', '.join(map(repr, HEADERS))}"
        )

    def check_path(self, text: str) -> str:
        """A path that every reader takes for the same."""
        if not text or text != text.strip() or "\0" in text or "\r" in text:
            raise self.error_here(f"{text[:80]!r} is no path; expected one without white space at its ends")
        return text

    def read_added_lines(self) -> tuple[PatchHunk, ...]:
        """The lines of a new file; there may be none."""
        start = self.at
        while not self.at_end and self.current_line.startswith("+"):
            self.at += 1
        lines = tuple(self.lines[start : self.at])
        return (PatchHunk(lines),) if lines else ()

    def read_update(self, path: str) -> FileOperation:
        """A file that changes, or moves, or both."""
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
        """One place of the file: `@@`, lines, and perhaps the mark of its end."""
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
        """What stands after `@@`; only the first hunk of a file may do without."""
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
        """A marker that is set in is a line of the file to one reader, and a header to another."""
        if self.current_line[:1] not in ("+", "-") and self.current_line.strip(WHITE_SPACE).startswith(MARKERS):
            raise self.error_here(f"{self.current_line[:80]!r} is a marker that does not begin its line")


def find_shell_patches(command: str) -> tuple[CommandPatch, ...]:
    """The patches that a shell command applies, `apply_patch <<'EOF'` or `apply_patch '…'`, `cd x &&` before it or not.

    Raises PatchError where the command applies a patch that its text does not show, or in a folder that it does not.
    """
    if PROGRAM_MENTION.search(command) is None:
        return ()
    try:
        commands = parse_simple_commands(command)
    except UnreadableShell as error:
        raise PatchError(f"the command around it cannot be read: {error}") from error
    hidden = next((c for c in commands if may_hide_patch(c)), None)
    if hidden is not None:
        raise PatchError(f"it is started by {hidden.words[0].text[:80]!r}; run apply_patch <<'EOF' … EOF itself")
    patches = tuple(read_shell_patch(commands, n) for n, c in enumerate(commands) if runs_apply_patch(c))
    if "\\" in command.partition("<<")[0] and any(patch.folder for patch in patches):
        raise PatchError("the folder holds a backslash, which Codex keeps and a shell takes out")
    return patches


def program_name(command: SimpleCommand) -> str:
    """The name of what a command runs, without its folder; assignments and reserved words before it skipped."""
    words = program_words(command)
    return words[0].text.rpartition("/")[2] if words else ""


RESERVED_WORDS = frozenset({"{", "}", "!", "if", "then", "else", "elif", "fi", "while", "until", "do", "done", "time"})
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")


def program_words(command: SimpleCommand) -> tuple[ShellWord, ...]:
    """The words from the program on."""
    words = command.words
    while words and (words[0].text in RESERVED_WORDS or ASSIGNMENT.match(words[0].text)):
        words = words[1:]
    return words


def runs_apply_patch(command: SimpleCommand) -> bool:
    """Whether the command is apply_patch."""
    return program_name(command) in APPLY_PROGRAMS


def may_hide_patch(command: SimpleCommand) -> bool:
    """Whether the command may run apply_patch in a way that its words do not show."""
    if runs_apply_patch(command) or not STARTER_PROGRAM.fullmatch(program_name(command)):
        return False
    texts = (*(word.text for word in command.words), *(document.body for document in command.documents))
    return any(PROGRAM_MENTION.search(text) for text in texts)


def read_shell_patch(commands: tuple[SimpleCommand, ...], n: int) -> CommandPatch:
    """The patch of the command at `n`, in its folder."""
    patch = parse_patch(find_patch_text(commands[n]))
    if all(posixpath.isabs(path) for path in patch.paths):
        return CommandPatch("", patch)
    return CommandPatch(find_folder(commands, n), patch)


def find_patch_text(command: SimpleCommand) -> str:
    """The text that reaches apply_patch: its here-document, else its only argument."""
    arguments = program_words(command)[1:]
    documents = command.documents
    if len(documents) == 1 and not arguments:
        return literal_body(documents[0])
    if len(arguments) == 1 and arguments[0].literal and not command.fed:
        return arguments[0].text
    raise PatchError("the command does not show it; expected apply_patch <<'EOF' … EOF")


def literal_body(document: HereDocument) -> str:
    """The body, where the shell changes nothing in it."""
    if not document.closed:
        raise PatchError("its here-document is not closed")
    if not document.quoted and EXPANDED_CHARS.search(document.body):
        raise PatchError("the shell would change its text; quote the delimiter: <<'EOF'")
    return document.body


def find_folder(commands: tuple[SimpleCommand, ...], n: int) -> str:
    """The folder that the command at `n` runs in: every `cd` before it has to be a plain one, joined by `&&`."""
    folder, sure = "", True
    for command in commands[: n + 1]:
        sure = sure and command.before in (("&&",) if folder else CD_OPERATORS)
        if program_name(command) in CHANGES_FOLDER:
            raise PatchError("the folder it is applied in is not known; use absolute paths")
        if program_name(command) == "cd":
            sure = command.before in CD_OPERATORS if not folder else sure
            folder = posixpath.join(folder, read_cd_folder(command))
        if folder and (not sure or command.depth):
            raise PatchError("the folder it is applied in is not sure; write cd FOLDER && apply_patch, nothing between")
    return folder


def read_cd_folder(command: SimpleCommand) -> str:
    """The folder that `cd` names."""
    words = program_words(command)[1:]
    if len(words) != 1 or not words[0].literal or words[0].text.startswith("-") or not words[0].text:
        raise PatchError("the folder that cd names is not plain")
    return words[0].text


class PatchMismatch(ValueError):
    """The patch does not fit the files. The message says where."""


Origin: TypeAlias = int | None
"""The line, from 0, that one was before; None for one that the patch puts there."""

LINE_NORMALISERS: tuple[Callable[[str], str], ...] = (str, str.rstrip, str.strip)


def apply_patch(patch: Patch, read_content: Callable[[str], bytes | None]) -> dict[str, bytes | None]:
    """What each file that the patch names holds then; None for one that is gone. Raises DoesNotApply."""
    after: dict[str, bytes | None] = {}
    for operation in patch.operations:
        path = operation.path
        before = after[path] if path in after else read_content(path)
        content = None if operation.kind == "delete" else apply_operation(operation, before)
        if operation.moved_to is not None:
            after[path] = None
            path = operation.moved_to
        after[path] = content
    return {f"./{path}" if path.startswith("~") else path: content for path, content in after.items()}


def apply_operation(operation: FileOperation, before: bytes | None) -> bytes:
    """The content that an addition or an update leaves."""
    if operation.kind == "add":
        lines = [line[1:] for hunk in operation.hunks for line in hunk.lines]
        return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
    if before is None:
        raise PatchMismatch(f"{operation.path[:80]!r} is to be updated, and is not there")
    changed = apply_hunks(decode_lines(before), operation.hunks)
    return "".join(f"{line}\n" for line, _ in changed).encode("utf-8", "surrogateescape")


def trace_patch_origins(patch: Patch, path: str, before: bytes) -> list[Origin] | None:
    """For each line that the patch leaves in a file, the line that it was, by the signs of the patch's own lines. None
    where it does not update that file once. Raises DoesNotApply.
    """
    own = [o for o in patch.operations if path in (o.path, o.moved_to)]
    if len(own) != 1 or own[0].kind != "update" or own[0].moved_to is not None:
        return None
    return [origin for _, origin in apply_hunks(decode_lines(before), own[0].hunks)]


def decode_lines(content: bytes) -> list[str]:
    """The lines of a file."""
    lines = content.decode("utf-8", "surrogateescape").split("\n")
    return lines if lines[-1] else lines[:-1]


def apply_hunks(lines: list[str], hunks: Sequence[PatchHunk]) -> list[tuple[str, Origin]]:
    """The lines after all hunks, which come in the order of the file."""
    out: list[tuple[str, Origin]] = []
    done = 0
    for hunk in hunks:
        at = done
        if hunk.context:
            at = find_lines(lines, [hunk.context], at, end=False) + 1
        old = [line[1:] for line in hunk.lines if line[0] != "+"]
        new = [line[1:] for line in hunk.lines if line[0] != "-"]
        signs = [line[0] for line in hunk.lines]
        full = len(old)
        start, old, new = locate_hunk(lines, old, new, at, hunk)
        out += [(lines[n], n) for n in range(done, start)]
        out += zip(new, trace_hunk_lines(signs, start) if len(old) == full else repeat(None), strict=False)
        done = start + len(old)
    return out + [(lines[n], n) for n in range(done, len(lines))]


def trace_hunk_lines(signs: Iterable[str], start: int) -> Iterator[Origin]:
    """For each line that a hunk leaves, the old line that it is: the hunk's old lines begin at `start`."""
    for sign in signs:
        if sign != "-":
            yield start if sign == " " else None
        start += sign != "+"


def locate_hunk(
    lines: list[str], old: list[str], new: list[str], at: int, hunk: PatchHunk
) -> tuple[int, list[str], list[str]]:
    """Where the old lines stand, and both sides; a last empty line that is not there is left out of them."""
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
    """Where `wanted` stands, from `at` on; at the end of the file first, where that is meant. Raises DoesNotApply."""
    last = len(lines) - len(wanted)
    starts = [last, *range(at, last + 1)] if end and last >= at else range(at, last + 1)
    for look in LINE_NORMALISERS:
        sought = [look(line) for line in wanted]
        seen = [look(line) for line in lines]
        for start in starts:
            if seen[start : start + len(wanted)] == sought:
                return start
    raise PatchMismatch(f"the line {wanted[0][:80]!r} is not there" if wanted else "an empty place is not there")
