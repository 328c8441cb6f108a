"""Patches in the V4A form, `*** Begin Patch` … `*** End Patch`: which files they touch, and how.

What cannot be read is an error, never a guess: the call that brings it is refused. Whatever Codex takes for a file's
header is one here; the rest of its leniency is followed only where it cannot change which files are named.
Source: openai/codex, codex-rs/apply-patch/src/parser.rs and invocation.rs, read 2026-11.
"""

import posixpath
import re
from typing import Literal, TypeAlias

from msgspec import Struct

from remit.core.shell import HereDocument, ShellWord, SimpleCommand, UnreadableShell, simple_commands

Kind: TypeAlias = Literal["add", "update", "delete"]

BEGIN = "*** Begin Patch"
END = "*** End Patch"
MOVE = "*** Move to: "
END_OF_FILE = "*** End of File"
HEADERS: dict[str, Kind] = {"*** Add File: ": "add", "*** Update File: ": "update", "*** Delete File: ": "delete"}
MARKERS = (BEGIN, END, MOVE.rstrip(), END_OF_FILE, *(header.rstrip() for header in HEADERS))

# Unicode's White_Space, which is what Codex trims. str.strip() would also take U+001C to U+001F.
WHITE = "\t\n\x0b\x0c\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"

PROGRAMS = frozenset({"apply_patch", "applypatch"})
NAMED = re.compile(r"apply_?patch")
RUNS_OTHERS = re.compile(
    r"(?:ba|da|z|k|a|fi)?sh|eval|exec|env|xargs|parallel|sudo|doas|su|nohup|timeout|time|nice|stdbuf|script|setsid"
    r"|command|builtin|source|\.|find|ssh|watch|python[\d.]*|perl|ruby|node|awk|trap|alias"
)
LIVE = re.compile(r"[$`\\]")
CHANGES_FOLDER = frozenset({"pushd", "popd"})
BEFORE_CD = ("", "&&", ";", "\n")


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

    kind: Kind
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


def patch_paths(text: str) -> tuple[str, ...]:
    """Every file that the patch names. Raises PatchError."""
    return parse_patch(text).paths


def parse_patch(text: str) -> Patch:
    """The patch. Raises PatchError, and nothing else, for any text."""
    lines = [line.removesuffix("\r") for line in text.strip(WHITE).split("\n")]
    first, last = bounds(lines)
    reader = _Reader(lines, first, last)
    operations: list[FileOperation] = []
    while not reader.done:
        operations.append(reader.operation())
    if not operations:
        raise PatchError("it names no file")
    return Patch(tuple(operations))


def bounds(lines: list[str]) -> tuple[int, int]:
    """Where the lines between the first and the last marker begin and end; a here-document may be around them."""
    if len(lines) >= 4 and lines[0] in ("<<EOF", "<<'EOF'", '<<"EOF"') and lines[-1].endswith("EOF"):
        return inner_bounds(lines, 1, len(lines) - 1)
    return inner_bounds(lines, 0, len(lines))


def inner_bounds(lines: list[str], first: int, last: int) -> tuple[int, int]:
    """The same, for lines `first` to `last`."""
    if lines[first].strip(WHITE) != BEGIN:
        raise PatchError(f"it begins with {lines[first][:80]!r}; expected {BEGIN!r}", first + 1)
    if last - first < 2 or lines[last - 1].strip(WHITE) != END:
        raise PatchError(f"it ends with {lines[last - 1][:80]!r}; expected {END!r}", last)
    return first + 1, last - 1


class _Reader:
    """The lines between the markers, from top to bottom."""

    def __init__(self, lines: list[str], first: int, last: int) -> None:
        self.lines, self.at, self.last = lines, first, last

    @property
    def done(self) -> bool:
        """Whether all lines are read."""
        return self.at >= self.last

    @property
    def line(self) -> str:
        """The line at this place."""
        return self.lines[self.at]

    def error(self, why: str) -> PatchError:
        """An error at this place."""
        return PatchError(why, self.at + 1)

    def operation(self) -> FileOperation:
        """One file."""
        kind, path = self.header()
        match kind:
            case "add":
                return FileOperation("add", path, hunks=self.added())
            case "delete":
                return FileOperation("delete", path)
            case "update":
                return self.updated(path)

    def header(self) -> tuple[Kind, str]:
        """What happens, and to which file."""
        clean = self.line.strip(WHITE)
        for marker, kind in HEADERS.items():
            if clean.startswith(marker):
                path = self.path(clean.removeprefix(marker))
                self.at += 1
                return kind, path
        raise self.error(f"{self.line[:80]!r} is no header; expected one of {', '.join(map(repr, HEADERS))}")

    def path(self, text: str) -> str:
        """A path that every reader takes for the same."""
        if not text or text != text.strip() or "\0" in text or "\r" in text:
            raise self.error(f"{text[:80]!r} is no path; expected one without white space at its ends")
        return text

    def added(self) -> tuple[PatchHunk, ...]:
        """The lines of a new file; there may be none."""
        start = self.at
        while not self.done and self.line.startswith("+"):
            self.at += 1
        lines = tuple(self.lines[start : self.at])
        return (PatchHunk(lines),) if lines else ()

    def updated(self, path: str) -> FileOperation:
        """A file that changes, or moves, or both."""
        moved_to = None
        if not self.done and self.line.startswith(MOVE):
            moved_to = self.path(self.line.removeprefix(MOVE))
            self.at += 1
        hunks: list[PatchHunk] = []
        while not self.done and not self.line.startswith("*"):
            if self.line.strip(WHITE):
                hunks.append(self.hunk(first=not hunks))
            else:
                self.at += 1
        if not hunks and moved_to is None:
            raise self.error(f"the update of {path[:80]!r} changes nothing")
        return FileOperation("update", path, moved_to, tuple(hunks))

    def hunk(self, *, first: bool) -> PatchHunk:
        """One place of the file: `@@`, lines, and perhaps the mark of its end."""
        context = self.context(first=first)
        start = self.at
        while not self.done and (not self.line or self.line[0] in " +-"):
            self.no_marker()
            self.at += 1
        lines = tuple(line or " " for line in self.lines[start : self.at])
        if not lines:
            raise self.error("a hunk has no lines; expected some that begin with a space, + or -")
        ends = not self.done and self.line == END_OF_FILE
        self.at += ends
        return PatchHunk(lines, context, ends)

    def context(self, *, first: bool) -> str | None:
        """What stands after `@@`; only the first hunk of a file may do without."""
        if self.line == "@@":
            self.at += 1
            return ""
        if self.line.startswith("@@ "):
            self.at += 1
            return self.lines[self.at - 1][3:]
        if first:
            return None
        raise self.error(f"{self.line[:80]!r} begins no hunk; expected '@@'")

    def no_marker(self) -> None:
        """A marker that is set in is a line of the file to one reader, and a header to another."""
        if self.line[:1] not in ("+", "-") and self.line.strip(WHITE).startswith(MARKERS):
            raise self.error(f"{self.line[:80]!r} is a marker that does not begin its line")


def heredoc_patches(command: str) -> tuple[CommandPatch, ...]:
    """The patches that a shell command applies, `apply_patch <<'EOF'` or `apply_patch '…'`, `cd x &&` before it or not.

    Raises PatchError where the command applies a patch that its text does not show, or in a folder that it does not.
    """
    if NAMED.search(command) is None:
        return ()
    try:
        commands = simple_commands(command)
    except UnreadableShell as error:
        raise PatchError(f"the command around it cannot be read: {error}") from error
    hidden = next((c for c in commands if hides(c)), None)
    if hidden is not None:
        raise PatchError(f"it is started by {hidden.words[0].text[:80]!r}; run apply_patch <<'EOF' … EOF itself")
    patches = tuple(applied(commands, n) for n, c in enumerate(commands) if applies(c))
    if "\\" in command.partition("<<")[0] and any(patch.folder for patch in patches):
        raise PatchError("the folder holds a backslash, which Codex keeps and a shell takes out")
    return patches


def program(command: SimpleCommand) -> str:
    """The name of what a command runs, without its folder; assignments and reserved words before it skipped."""
    words = operands(command)
    return words[0].text.rpartition("/")[2] if words else ""


RESERVED = frozenset({"{", "}", "!", "if", "then", "else", "elif", "fi", "while", "until", "do", "done", "time"})
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")


def operands(command: SimpleCommand) -> tuple[ShellWord, ...]:
    """The words from the program on."""
    words = command.words
    while words and (words[0].text in RESERVED or ASSIGNMENT.match(words[0].text)):
        words = words[1:]
    return words


def applies(command: SimpleCommand) -> bool:
    """Whether the command is apply_patch."""
    return program(command) in PROGRAMS


def hides(command: SimpleCommand) -> bool:
    """Whether the command may run apply_patch in a way that its words do not show."""
    if applies(command) or not RUNS_OTHERS.fullmatch(program(command)):
        return False
    texts = (*(word.text for word in command.words), *(document.body for document in command.documents))
    return any(NAMED.search(text) for text in texts)


def applied(commands: tuple[SimpleCommand, ...], n: int) -> CommandPatch:
    """The patch of the command at `n`, in its folder."""
    patch = parse_patch(patch_text(commands[n]))
    if all(posixpath.isabs(path) for path in patch.paths):
        return CommandPatch("", patch)
    return CommandPatch(folder_of(commands, n), patch)


def patch_text(command: SimpleCommand) -> str:
    """The text that reaches apply_patch: its here-document, else its only argument."""
    arguments = operands(command)[1:]
    documents = command.documents
    if len(documents) == 1 and not arguments:
        return fixed(documents[0])
    if len(arguments) == 1 and arguments[0].literal and not command.fed:
        return arguments[0].text
    raise PatchError("the command does not show it; expected apply_patch <<'EOF' … EOF")


def fixed(document: HereDocument) -> str:
    """The body, where the shell changes nothing in it."""
    if not document.closed:
        raise PatchError("its here-document is not closed")
    if not document.quoted and LIVE.search(document.body):
        raise PatchError("the shell would change its text; quote the delimiter: <<'EOF'")
    return document.body


def folder_of(commands: tuple[SimpleCommand, ...], n: int) -> str:
    """The folder that the command at `n` runs in: every `cd` before it has to be a plain one, joined by `&&`."""
    folder, sure = "", True
    for command in commands[: n + 1]:
        sure = sure and command.before in (("&&",) if folder else BEFORE_CD)
        if program(command) in CHANGES_FOLDER:
            raise PatchError("the folder it is applied in is not known; use absolute paths")
        if program(command) == "cd":
            sure = command.before in BEFORE_CD if not folder else sure
            folder = posixpath.join(folder, plain_folder(command))
        if folder and (not sure or command.depth):
            raise PatchError("the folder it is applied in is not sure; write cd FOLDER && apply_patch, nothing between")
    return folder


def plain_folder(command: SimpleCommand) -> str:
    """The folder that `cd` names."""
    words = operands(command)[1:]
    if len(words) != 1 or not words[0].literal or words[0].text.startswith("-") or not words[0].text:
        raise PatchError("the folder that cd names is not plain")
    return words[0].text
