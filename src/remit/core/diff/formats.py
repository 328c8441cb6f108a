"""Patches as text: V4A (`*** Begin Patch` … `*** End Patch`) and unified diffs, both read into operations on files.

Unreadable patches are errors, never guesses: the call is denied. Of V4A every header that Codex accepts is a header
here; further leniency is followed only if the named files stay the same. A unified diff is read strictly, as git prints
it, or as models write it: without git's headers, with wrong counts.
Sources: openai/codex, codex-rs/apply-patch/src/{parser,lib}.rs; git-diff(1) ("Generating patch text with -p") and
apply.c of git 2.39 to 2.51, read 2026-11.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from remit.core.untrusted_input import escape_surrogates, unquote_path

OperationKind: TypeAlias = Literal["add", "update", "delete"]
PatchFault: TypeAlias = Literal["malformed", "binary", "too_large"]
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
NO_NEWLINE = "\\ No newline at end of file"

# Unicode's White_Space, which is what Codex trims. str.strip() would also take U+001C to U+001F.
WHITE_SPACE = (
    "\t\n\x0b\x0c\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
)


class PatchError(ValueError):
    """Error for text that is not a readable patch. `line` is 1-based; 0 if no line is at fault."""

    def __init__(self, why: str, line: int = 0, fault: PatchFault = "malformed") -> None:
        super().__init__(f"the patch cannot be read{f' (line {line})' if line else ''}: {why}")
        self.why = why
        self.line = line
        self.fault: PatchFault = fault


class PatchHunk(Struct, frozen=True):
    """A change of a place in a file.

    Each of `lines` begins with a space, `+` or `-`, and keeps its carriage return; one that begins with a backslash
    says that the line before it has no newline. V4A names a line above as `context` (None without `@@`); a unified diff
    names the first line of both sides, from 1, or the line before for a side without lines.
    """

    lines: tuple[str, ...]
    context: str | None = None
    end_of_file: bool = False
    line: int | None = None
    new_line: int = 0

    @property
    def signed(self) -> list[str]:
        """The lines with their signs and newlines."""
        signed: list[str] = []
        for line in self.lines:
            if line.startswith("\\"):
                signed[-1:] = [each.removesuffix("\n") for each in signed[-1:]]
            else:
                signed.append(f"{line}\n")
        return signed

    @property
    def old(self) -> list[str]:
        """The lines before the change, each with its newline unless it has none."""
        return [line[1:] for line in self.signed if line[0] != "+"]

    @property
    def new(self) -> list[str]:
        return [line[1:] for line in self.signed if line[0] != "-"]


class FileOperation(Struct, frozen=True):
    """An operation on a file. `path` and `moved_to` are as written: absolute, or relative to the call's folder.

    Modes and names of blobs are git's, as far as a unified diff names them.
    """

    kind: OperationKind
    path: str
    moved_to: str | None = None
    hunks: tuple[PatchHunk, ...] = ()
    old_mode: str = ""
    new_mode: str = ""
    old_blob: str = ""
    new_blob: str = ""

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.path,) if self.moved_to is None else (self.path, self.moved_to)


class Patch(Struct, frozen=True):
    """A non-empty list of operations in text order; a file may occur twice."""

    operations: tuple[FileOperation, ...]

    @property
    def paths(self) -> tuple[str, ...]:
        paths = (path for operation in self.operations for path in operation.paths)
        return tuple(dict.fromkeys(f"./{path}" if path.startswith("~") else path for path in paths))

    @property
    def checks_itself(self) -> bool:
        """Return whether the patch fails by itself on changed files: true for updates in place."""
        return all(o.kind == "update" and o.moved_to is None for o in self.operations)


def parse_patch(text: str) -> Patch:
    """Parse a patch. Raises PatchError as the only error, for any text."""
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


# --- unified diffs ----------------------------------------------------------------------------------------

NULL_FILE = "/dev/null"
HUNK_HEADER = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@.*", re.DOTALL)
INDEX_LINE = re.compile(r"index ([0-9a-f]{40,64})\.\.([0-9a-f]{40,64})(?: ([0-7]{6}))?")
MODE_LINE = re.compile(r"(old mode|new mode|new file mode|deleted file mode) ([0-7]{6})")
NAME_LINE = re.compile(r"(rename from|rename to|---|\+\+\+) (.+)", re.DOTALL)
PLAIN_MODES = ("100644", "100755")
QUOTED_NAME = re.compile(r'"(?:[^\\]|\\(?:[0-3][0-7]{2}|[abtnvfr"\\]))*"')
MAX_DIFF_BYTES = 4 << 20
MAX_HUNKS = 10_000


def parse_git_diff(content: bytes) -> tuple[FileOperation, ...]:
    """Return the operations of git's diff; text that git would not print is refused. Raises PatchError only."""
    if len(content) > MAX_DIFF_BYTES:
        raise PatchError(f"it has more than {MAX_DIFF_BYTES} bytes", fault="too_large")
    try:
        return parse_unified(content.decode("utf-8"), strict=True)
    except UnicodeDecodeError as error:
        raise PatchError(f"byte {error.start} is not UTF-8", fault="binary") from error


def parse_unified(text: str, *, strict: bool = False) -> tuple[FileOperation, ...]:
    """Return what a diff does to files. Without `strict` the counts of hunks are not believed: models miscount.

    Raises PatchError.
    """
    files = tuple(_UnifiedReader(text.removesuffix("\n").split("\n"), strict).read_files())
    seen = [path for file in files for path in file.paths]
    if strict and len(seen) != len(set(seen)):
        raise PatchError("a file occurs twice")
    if not files:
        raise PatchError("it holds no `diff --git` line" if strict else "it changes no file")
    return files


class _UnifiedReader:
    """A reader of the lines of a diff; methods raise PatchError."""

    def __init__(self, lines: Sequence[str], strict: bool) -> None:
        self.lines, self.strict = lines, strict
        self.at = self.hunk_count = 0
        self.fields: dict[str, str] = {}
        self.hunks: list[PatchHunk] = []

    def peek(self) -> str | None:
        return self.lines[self.at] if self.at < len(self.lines) else None

    def error_here(self, why: str, fault: PatchFault = "malformed") -> PatchError:
        return PatchError(why, self.at + 1, fault)

    def read_files(self) -> Iterator[FileOperation]:
        is_message = self.strict  # one may stand before git's first file
        while (line := self.peek()) is not None:
            begins = line.startswith("diff --git ")
            if begins or (not self.strict and self.hunks and line.startswith("--- ")):
                yield from self.end_file()
                is_message = False
            if line.startswith("@@ ") and not is_message:
                self.hunks.append(self.read_hunk(line))
                continue
            if begins:
                self.fields["git"] = split_git_names(line.removeprefix("diff --git ").removesuffix("\r")) or ""
            elif not is_message:
                self.read_header(line if self.strict else line.removesuffix("\r"))
            self.at += 1
        yield from self.end_file()

    def read_header(self, line: str) -> None:
        fields = self.fields
        if self.strict and self.hunks:
            raise self.error_here(f"{line[:80]!r} begins no file")
        if found := MODE_LINE.fullmatch(line):
            fields[found[1]] = found[2]
        elif found := INDEX_LINE.fullmatch(line):
            fields["old blob"], fields["new blob"], fields["kept mode"] = found[1], found[2], found[3] or ""
        elif found := NAME_LINE.fullmatch(line):
            fields[found[1]] = parse_name(found[2].partition("\t")[0])
        elif line.startswith(("Binary files ", "GIT binary patch")):
            raise self.error_here("it changes a binary file", "binary")
        elif line.startswith(("copy from ", "copy to ")):
            raise self.error_here("it copies a file; add the new file instead")
        elif line[:1] in ("+", "-", " ", "@"):
            raise self.error_here(f"{line[:80]!r} stands in no hunk (`@@ -a,b +c,d @@`)")
        elif self.strict and not re.fullmatch(r"(?:dis)?similarity index \d{1,3}%", line):
            raise self.error_here(f"{line[:80]!r} is no header of git's")

    def read_hunk(self, header: str) -> PatchHunk:
        found = HUNK_HEADER.fullmatch(header)
        if found is None:
            raise self.error_here("the header of the hunk is not `@@ -a,b +c,d @@`")
        self.hunk_count += 1
        if self.hunk_count > MAX_HUNKS:
            raise self.error_here(f"it has more than {MAX_HUNKS} hunks", "too_large")
        self.at += 1
        start, old, new = self.at, int(found[2] or 1), int(found[4] or 1)
        while (old > 0 or new > 0) if self.strict else not self.is_hunk_end():
            sign = (self.peek() or "")[:1]
            if self.strict and sign not in (" ", "-", "+", "\\"):
                raise self.error_here("the hunk ends before its lines are complete")
            old, new, self.at = old - (sign in " -"), new - (sign in " +"), self.at + 1
        if self.strict and (old or new):
            raise self.error_here("the hunk has more lines than its header says")
        if self.strict and (self.peek() or "").startswith("\\"):
            self.at += 1
        lines = tuple(
            NO_NEWLINE if line.startswith("\\") else f" {line}" if line in ("", "\r") else line
            for line in self.lines[start : self.at]
        )
        return PatchHunk(lines, line=int(found[1]), new_line=int(found[3]))

    def is_hunk_end(self) -> bool:
        line, after = (*self.lines[self.at : self.at + 2], "", "")[:2]
        is_header = line.startswith("--- ") and after.startswith("+++ ")
        return self.at == len(self.lines) or is_header or line[:1] not in ("", " ", "+", "-", "\\", "\r")

    def end_file(self) -> Iterator[FileOperation]:
        fields, hunks, self.fields, self.hunks = self.fields, tuple(self.hunks), {}, []
        if not fields and not hunks:
            return
        old, new, named = (fields.get(mark, "") for mark in ("---", "+++", "git"))
        old_path = fields.get("rename from") or self.strip_side(old, "a/") or named
        path = fields.get("rename to") or self.strip_side(new, "b/") or named
        modes = [fields.get(f"{name} mode", "") for name in ("old", "new", "new file", "deleted file", "kept")]
        if any(mode and mode not in PLAIN_MODES for mode in modes):
            raise self.error_here("it changes a link or a repository; only plain files can be changed")
        kind: OperationKind = "update"
        if modes[2] or old == NULL_FILE:
            kind, old_path = "add", path
        elif modes[3] or new == NULL_FILE:
            kind, path = "delete", old_path
        if not path or not old_path:
            raise self.error_here("no `--- path` and `+++ path` before this line name the file")
        if self.strict and kind == "update" and path != old_path and "rename to" not in fields:
            raise self.error_here("the two names of a file disagree")
        old_mode = modes[0] or modes[3] or ("" if kind == "add" else modes[4])
        new_mode = modes[1] or modes[2] or ("" if kind == "delete" else modes[4])
        if kind == "update" and not hunks and path == old_path and (old_mode == new_mode or not self.strict):
            if self.strict:
                raise self.error_here(f"it changes nothing in {path[:80]!r}")
            return
        moved_to = path if path != old_path else None
        blobs = fields.get("old blob", ""), fields.get("new blob", "")
        yield FileOperation(kind, old_path, moved_to, hunks, old_mode, new_mode, *blobs)

    def strip_side(self, name: str, side: str) -> str:
        if name == NULL_FILE:
            return ""
        if name.startswith(side):
            return name.removeprefix(side)
        return "" if self.strict else re.sub(r"^[ab]/", "", name)


def split_git_names(text: str) -> str | None:
    """Return the path of `a/PATH b/PATH`; None if the two differ, as for renames, which name themselves elsewhere."""
    if text.startswith('"'):
        first, _, second = text.partition('" "')
        one, other = parse_name(f'{first}"'), parse_name(f'"{second}')
    else:
        half = len(text) // 2
        one, other = text[:half], text[half + 1 :]
    same = one.startswith("a/") and other.startswith("b/") and one[2:] == other[2:]
    return one[2:] if same else None


def parse_name(text: str) -> str:
    """Return the path that git has quoted for its bytes outside of plain text. Raises PatchError."""
    if text.startswith('"') and not QUOTED_NAME.fullmatch(text):
        raise PatchError(f"the quoted name {text[:80]!r} does not end, or holds an unknown escape")
    name = unquote_path(text.encode("utf-8", "surrogateescape"))
    if escape_surrogates(name) != name:
        raise PatchError(f"the name {text[:80]!r} is not UTF-8")
    return name
