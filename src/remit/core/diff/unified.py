"""Unified diffs in git's form: reading, writing and exact application, with renames, modes, CRLF and a missing last
newline.

Strict, unlike the patches that models write (`patch.py`): what git would not print is an error, never a guess. Binary
contents are refused, and so is what is not UTF-8: a hunk's lines are text.
Source: git-diff(1) ("Generating patch text with -p") and apply.c of git 2.39 to 2.51, read 2026-11.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from remit.core.untrusted_input import escape_surrogates, unquote_path

FileOperationKind: TypeAlias = Literal["create", "modify", "delete", "rename"]
DiffFault: TypeAlias = Literal["malformed", "binary", "too_large"]
NO_NEWLINE = "\\ No newline at end of file"
NULL_FILE = "/dev/null"
HUNK_HEADER = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@(?: .*)?", re.DOTALL)
INDEX_LINE = re.compile(r"index ([0-9a-f]{40,64})\.\.([0-9a-f]{40,64})(?: ([0-7]{6}))?")
MODE_LINE = re.compile(r"(old mode|new mode|new file mode|deleted file mode) ([0-7]{6})")
PLAIN_MODES = ("100644", "100755")
ESCAPES = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}
QUOTED_NAME = re.compile(r'"(?:[^\\]|\\(?:[0-3][0-7]{2}|[abtnvfr"\\]))*"')
MAX_DIFF_BYTES = 4 << 20
MAX_HUNKS = 10_000


class UnifiedDiffError(ValueError):
    """A text that is no diff of git's. `reason` is `malformed`, `binary` or `too_large`; `line` counts from 1."""

    def __init__(self, why: str, line: int = 0, reason: DiffFault = "malformed") -> None:
        super().__init__(f"the diff cannot be read{f' (line {line})' if line else ''}: {why}")
        self.reason: DiffFault = reason
        self.line = line


class HunkMismatch(ValueError):
    """A hunk that does not fit a content; `hunk` counts from 1."""

    def __init__(self, hunk: int) -> None:
        super().__init__(f"hunk {hunk} does not fit")
        self.hunk = hunk


class DiffHunk(Struct, frozen=True, forbid_unknown_fields=True):
    """A difference with context. Each line begins with a space, `-` or `+`, and keeps its carriage return; one that
    begins with a backslash says that the line before it has no newline.
    """

    old_start: int
    old_lines: int
    new_start: int
    new_lines: int
    lines: tuple[str, ...]

    @property
    def old_text(self) -> list[str]:
        """Return the lines before the change, each with its newline unless it has none."""
        return list(join_newlines(self.lines, "+"))

    @property
    def new_text(self) -> list[str]:
        return list(join_newlines(self.lines, "-"))


class UnifiedFile(Struct, frozen=True):
    """What a diff does to one file. `old_path` differs from `path` for a rename; names of blobs are git's."""

    path: str
    operation: FileOperationKind = "modify"
    old_path: str = ""
    old_mode: str = ""
    new_mode: str = ""
    old_blob: str = ""
    new_blob: str = ""
    hunks: tuple[DiffHunk, ...] = ()


def join_newlines(lines: Iterable[str], left_out: str) -> Iterator[str]:
    """Yield the lines of one side with their newlines; `left_out` is the sign of the other side."""
    waiting: str | None = None
    has_side = False
    for line in lines:
        if line.startswith("\\"):
            if has_side and waiting is not None:
                waiting = waiting.removesuffix("\n")
            continue
        has_side = not line.startswith(left_out)
        if has_side:
            if waiting is not None:
                yield waiting
            waiting = f"{line[1:]}\n"
    if waiting is not None:
        yield waiting


# --- reading ----------------------------------------------------------------------------------------------


def parse_unified(content: bytes) -> tuple[UnifiedFile, ...]:
    """Return the files of a diff. Raises UnifiedDiffError, and nothing else."""
    if len(content) > MAX_DIFF_BYTES:
        raise UnifiedDiffError(f"it has more than {MAX_DIFF_BYTES} bytes", reason="too_large")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnifiedDiffError(f"byte {error.start} is not UTF-8", reason="binary") from error
    reader = UnifiedReader(text.removesuffix("\n").split("\n"))
    files = tuple(reader.read_files())
    names = [name for file in files for name in {file.path, file.old_path or file.path}]
    if len(names) != len(set(names)):
        raise UnifiedDiffError("a file occurs twice")
    return files


class UnifiedReader:
    """A reader of the lines of a diff; methods raise UnifiedDiffError."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.at = 0
        self.hunk_count = 0

    def peek(self) -> str | None:
        return self.lines[self.at] if self.at < len(self.lines) else None

    def error_here(self, why: str) -> UnifiedDiffError:
        return UnifiedDiffError(why, self.at + 1)

    def read_files(self) -> Iterator[UnifiedFile]:
        if not any(line.startswith("diff --git ") for line in self.lines):
            raise UnifiedDiffError("it holds no `diff --git` line")
        while (line := self.peek()) is not None and not line.startswith("diff --git "):
            self.at += 1  # a message may stand before the first file
        while self.peek() is not None:
            yield self.read_file()

    def read_file(self) -> UnifiedFile:
        first = self.lines[self.at]
        if not first.startswith("diff --git "):
            raise self.error_here(f"{first[:80]!r} begins no file")
        begun, named = self.at, split_git_names(first.removeprefix("diff --git "))
        self.at += 1
        fields: dict[str, str] = {}
        while (line := self.peek()) is not None and not line.startswith(("diff --git ", "@@ ")):
            self.read_header(line, fields)
            self.at += 1
        hunks: list[DiffHunk] = []
        while (line := self.peek()) is not None and line.startswith("@@ "):
            hunks.append(self.read_hunk())
        return make_file(fields, named, tuple(hunks), begun + 1)

    def read_header(self, line: str, fields: dict[str, str]) -> None:
        if found := MODE_LINE.fullmatch(line):
            fields[found[1]] = found[2]
        elif found := INDEX_LINE.fullmatch(line):
            fields["old blob"], fields["new blob"], fields["kept mode"] = found[1], found[2], found[3] or ""
        elif line.startswith(("rename from ", "rename to ")):
            key = "rename from" if line.startswith("rename from ") else "rename to"
            fields[key] = parse_name(line.removeprefix(f"{key} "))
        elif line.startswith(("--- ", "+++ ")):
            fields[line[:3]] = parse_name(line[4:].removesuffix("\t"))
        elif line.startswith(("Binary files ", "GIT binary patch")):
            raise UnifiedDiffError("it changes a binary file", self.at + 1, "binary")
        elif line.startswith(("copy from ", "copy to ")):
            raise self.error_here("copies are not exchanged: name the new file")
        elif not re.fullmatch(r"(?:dis)?similarity index \d{1,3}%", line):
            raise self.error_here(f"{line[:80]!r} is no header of git's")

    def read_hunk(self) -> DiffHunk:
        found = HUNK_HEADER.fullmatch(self.lines[self.at])
        if found is None:
            raise self.error_here("the header of the hunk is not `@@ -a,b +c,d @@`")
        self.hunk_count += 1
        if self.hunk_count > MAX_HUNKS:
            raise UnifiedDiffError(f"it has more than {MAX_HUNKS} hunks", self.at + 1, "too_large")
        old_lines, new_lines = int(found[2] or 1), int(found[4] or 1)
        self.at += 1
        start, old, new = self.at, old_lines, new_lines
        while old > 0 or new > 0:
            sign = (self.peek() or "")[:1]
            if sign not in (" ", "-", "+", "\\"):
                raise self.error_here("the hunk ends before its lines are complete")
            old, new, self.at = old - (sign in " -"), new - (sign in " +"), self.at + 1
        if old or new:
            raise self.error_here("the hunk has more lines than its header says")
        if (self.peek() or "").startswith("\\"):
            self.at += 1
        lines = tuple(NO_NEWLINE if line.startswith("\\") else line for line in self.lines[start : self.at])
        return DiffHunk(int(found[1]), old_lines, int(found[3]), new_lines, lines)


def make_file(fields: dict[str, str], named: str | None, hunks: tuple[DiffHunk, ...], line: int) -> UnifiedFile:
    """Return the file of these headers; `named` is the path of the first line if both sides agree."""
    old, new = (fields.get(mark) for mark in ("---", "+++"))
    old_path = fields.get("rename from") or strip_side(old, "a/") or named
    path = fields.get("rename to") or strip_side(new, "b/") or named
    operation: FileOperationKind = "modify"
    if "new file mode" in fields:
        operation, old_path = "create", path
    elif "deleted file mode" in fields:
        operation, path = "delete", old_path
    elif "rename to" in fields:
        operation = "rename"
    if not path or not old_path or (operation == "modify" and path != old_path):
        raise UnifiedDiffError("the two names of a file disagree", line)
    names = ("old mode", "new mode", "new file mode", "deleted file mode", "kept mode")
    modes = [fields.get(name, "") for name in names]
    if any(mode and mode not in PLAIN_MODES for mode in modes):
        raise UnifiedDiffError("it changes a link or a repository; only plain files are exchanged", line)
    old_mode = modes[0] or modes[3] or ("" if operation == "create" else modes[4])
    new_mode = modes[1] or modes[2] or ("" if operation == "delete" else modes[4])
    if not hunks and operation == "modify" and old_mode == new_mode:
        raise UnifiedDiffError(f"it changes nothing in {path[:80]!r}", line)
    old_blob, new_blob = fields.get("old blob", ""), fields.get("new blob", "")
    return UnifiedFile(path, operation, old_path, old_mode, new_mode, old_blob, new_blob, hunks)


def strip_side(name: str | None, side: str) -> str | None:
    if name is None or name == NULL_FILE:
        return None
    return name.removeprefix(side) if name.startswith(side) else None


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
    """Return the path that git has quoted for its bytes outside of plain text. Raises UnifiedDiffError."""
    if text.startswith('"') and not QUOTED_NAME.fullmatch(text):
        raise UnifiedDiffError(f"the quoted name {text[:80]!r} does not end, or holds an unknown escape")
    name = unquote_path(text.encode("utf-8", "surrogateescape"))
    if escape_surrogates(name) != name:
        raise UnifiedDiffError(f"the name {text[:80]!r} is not UTF-8")
    return name


# --- writing ----------------------------------------------------------------------------------------------


def write_unified(files: Iterable[UnifiedFile]) -> bytes:
    """Return the diff in git's form, with full names of blobs."""
    return "".join(part for file in files for part in write_file(file)).encode("utf-8")


def write_file(file: UnifiedFile) -> Iterator[str]:
    old_path = file.old_path or file.path
    a, b = quote_name(f"a/{old_path}"), quote_name(f"b/{file.path}")
    yield f"diff --git {a} {b}\n"
    if file.operation == "create":
        yield f"new file mode {file.new_mode or PLAIN_MODES[0]}\n"
    elif file.operation == "delete":
        yield f"deleted file mode {file.old_mode or PLAIN_MODES[0]}\n"
    elif file.old_mode != file.new_mode:
        yield f"old mode {file.old_mode}\nnew mode {file.new_mode}\n"
    if file.operation == "rename":
        yield f"rename from {quote_name(old_path)}\nrename to {quote_name(file.path)}\n"
    if file.old_blob and file.new_blob and file.old_blob != file.new_blob:
        kept = f" {file.new_mode}" if file.old_mode == file.new_mode and file.new_mode else ""
        yield f"index {file.old_blob}..{file.new_blob}{kept}\n"
    if file.hunks:
        old, new = (f"{name}\t" if " " in name and not name.startswith('"') else name for name in (a, b))
        yield f"--- {NULL_FILE if file.operation == 'create' else old}\n"
        yield f"+++ {NULL_FILE if file.operation == 'delete' else new}\n"
    for hunk in file.hunks:
        yield f"@@ -{hunk.old_start},{hunk.old_lines} +{hunk.new_start},{hunk.new_lines} @@\n"
        yield from (f"{line}\n" for line in hunk.lines)


def quote_name(name: str) -> str:
    """Return a name as git writes it with `core.quotePath=false`."""
    if not re.search(r'[\x00-\x1f"\\\x7f]', name):
        return name
    named = {code: letter for letter, code in ESCAPES.items()}
    codes = ((character, ord(character)) for character in name)
    parts = (f"\\{named[n]}" if n in named else f"\\{n:03o}" if n < 32 or n == 127 else c for c, n in codes)
    return f'"{"".join(parts)}"'


# --- applying ---------------------------------------------------------------------------------------------


def apply_hunks_exactly(content: bytes, hunks: Iterable[DiffHunk]) -> bytes:
    """Return the content after the hunks, each exactly where it says. Raises HunkMismatch."""
    lines = split_text(content)
    result: list[str] = []
    at = 0
    for number, hunk in enumerate(hunks, 1):
        old = hunk.old_text
        start = hunk.old_start - 1 if hunk.old_lines else hunk.old_start
        if start < at or lines[start : start + len(old)] != old:
            raise HunkMismatch(number)
        result += lines[at:start]
        result += hunk.new_text
        at = start + len(old)
    return "".join((*result, *lines[at:])).encode("utf-8", "surrogateescape")


def split_text(content: bytes) -> list[str]:
    """Return the lines with their newlines; only a newline ends a line."""
    parts = content.decode("utf-8", "surrogateescape").split("\n")
    return [*(f"{part}\n" for part in parts[:-1]), *([parts[-1]] if parts[-1] else [])]
