"""The tool that applies patches to one or more files, all or none: V4A (`*** Begin Patch`) and unified diffs.

Hunks are located like the texts of the edit tools (`matching.py`): kept lines keep their bytes.
"""

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

from remit.core.diff.edits import Edit, Patching, encode_text
from remit.core.diff.patch import (
    BEGIN,
    FileOperation,
    OperationKind,
    Patch,
    PatchError,
    PatchHunk,
    PatchMismatch,
    apply_patch,
    parse_patch,
)
from remit_agent.toolbox.matching import (
    EditedText,
    TextPlace,
    announce_edit,
    describe_nearest,
    encode_content,
    find_line_end,
    find_places,
    replace_places,
)
from remit_agent.toolbox.reading import read_text
from remit_agent.toolbox.replacing import MAX_NAMED_PLACES, require_apart
from remit_agent.toolbox.tool import HostTool, PreparedCall, ToolContext, ToolFailure
from remit_agent.toolbox.writing import FileProposal, Proposal, prepare_changes, read_existing

HUNK_HEADER = re.compile(r"@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@")
NO_NEWLINE = "\\ No newline at end of file"
NULL_FILE = "/dev/null"
PROGRAM_MODE = "100755"


class ApplyPatch(Struct, frozen=True, forbid_unknown_fields=True):
    """Apply a patch to one or more files, all or none: `*** Begin Patch` … `*** End Patch` with `*** Add File: path`,
    `*** Update File: path` (then perhaps `*** Move to: path`) and `*** Delete File: path`, or a unified diff. Give some
    unchanged lines around each change, and `@@ line above` where they occur more than once. Example:
    {"patch": "*** Begin Patch\\n*** Update File: a.py\\n     x = 1\\n-    return 1\\n+    return x\\n*** End Patch"}
    """

    patch: str


class PlacedHunk(Struct, frozen=True):
    """Old and new text of a hunk. `context` is a line above it, `line` its first line in the old file, if stated."""

    old: str
    new: str
    context: str | None = None
    line: int | None = None
    at_end: bool = False


class PatchedFile(Struct, frozen=True):
    """What a patch does to a file. `permissions` are of a new file."""

    kind: OperationKind
    path: str
    moved_to: str | None = None
    hunks: tuple[PlacedHunk, ...] = ()
    permissions: int | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.path,) if self.moved_to is None else (self.path, self.moved_to)


# --- the two formats --------------------------------------------------------------------------------------


def parse_any_patch(text: str) -> list[PatchedFile]:
    """Return what a patch does, file by file. Raises ToolFailure (PATCH_INVALID) with the line."""
    if BEGIN not in text and re.search(r"^(?:diff --git |--- )", text, re.MULTILINE):
        files = parse_unified(text)
    else:
        try:
            files = list(map(place_operation, parse_patch(text).operations))
        except PatchError as error:
            raise ToolFailure("PATCH_INVALID", str(error)) from error
    merged: dict[str, PatchedFile] = {}
    for file in files:
        earlier = merged.get(file.path)
        if earlier is None:
            merged[file.path] = file
        elif earlier.kind == file.kind == "update" and earlier.moved_to is None:
            merged[file.path] = PatchedFile("update", file.path, file.moved_to, earlier.hunks + file.hunks)
        else:
            raise ToolFailure("PATCH_INVALID", f"{file.path} occurs twice in the patch, not only to be updated")
    return list(merged.values())


def place_operation(operation: FileOperation) -> PatchedFile:
    hunks = tuple(
        PlacedHunk(
            join_side(hunk.lines, "+"), join_side(hunk.lines, "-"), hunk.context or None, at_end=hunk.end_of_file
        )
        for hunk in operation.hunks
    )
    return PatchedFile(operation.kind, operation.path, operation.moved_to, hunks)


def join_side(lines: Iterable[str], other: str) -> str:
    return "".join(f"{line[1:]}\n" for line in lines if line[0] != other)


def parse_unified(text: str) -> list[PatchedFile]:
    """Return the files of a unified diff, git's extended headers included. Raises ToolFailure."""
    files: list[PatchedFile] = []
    lines = text.removesuffix("\n").split("\n")
    at = 0
    header: dict[str, str] = {}
    while at < len(lines):
        line = lines[at].removesuffix("\r")
        at += 1
        if line.startswith("diff --git "):
            files += make_headed_file(header, (), at)
            header = {"git": line}
        elif line.startswith(("--- ", "+++ ")):
            header[line[:3]] = strip_prefix(line[4:].partition("\t")[0])
        elif match := re.match(r"(rename from|rename to|new file mode|deleted file mode|copy from) (.+)", line):
            header[match[1]] = match[2]
        elif HUNK_HEADER.match(line):
            hunks, at = read_hunks(lines, at - 1)
            files += make_headed_file(header, hunks, at)
            header = {}
        elif line.startswith(("GIT binary patch", "Binary files")):
            raise ToolFailure("PATCH_INVALID", f"line {at} of the patch: it changes a file that is not text")
        elif line[:1] in ("+", "-", " ", "@"):
            raise ToolFailure(
                "PATCH_INVALID", f"line {at} of the patch, {line[:80]!r}, stands in no hunk (`@@ -1 +1 @@`)"
            )
    files += make_headed_file(header, (), at)
    if not files:
        raise ToolFailure("PATCH_INVALID", "the patch changes no file")
    return files


def strip_prefix(path: str) -> str:
    return path if path == NULL_FILE else re.sub(r"^[ab]/", "", path)


def make_headed_file(header: dict[str, str], hunks: tuple[PlacedHunk, ...], line: int) -> list[PatchedFile]:
    """Return the facts of a file's headers in a unified diff, with the hunks."""
    git = re.fullmatch(r"diff --git a/(.+) b/(.+)", header.get("git", ""))
    old = header.get("rename from") or header.get("---") or (git[1] if git else "")
    new = header.get("rename to") or header.get("+++") or (git[2] if git else "")
    if "copy from" in header:
        raise ToolFailure("PATCH_INVALID", f"before line {line} of the patch: a copy; add the file as a new one")
    if not hunks and not header.keys() & {"rename from", "new file mode", "deleted file mode"}:
        return []
    if not old or not new:
        raise ToolFailure(
            "PATCH_INVALID", f"before line {line} of the patch: no `--- path` and `+++ path` name the file"
        )
    if old == NULL_FILE or "new file mode" in header:
        permissions = 0o755 if header.get("new file mode") == PROGRAM_MODE else None
        return [PatchedFile("add", new, hunks=hunks, permissions=permissions)]
    if new == NULL_FILE or "deleted file mode" in header:
        return [PatchedFile("delete", old)]
    return [PatchedFile("update", old, new if new != old else None, hunks)]


def read_hunks(lines: Sequence[str], at: int) -> tuple[tuple[PlacedHunk, ...], int]:
    """Return the hunks from line index `at` on, and the index behind them. The counts in their headers are not
    believed: models miscount.
    """
    hunks: list[PlacedHunk] = []
    while at < len(lines) and (match := HUNK_HEADER.match(lines[at])):
        at += 1
        sides: dict[str, list[str]] = {"-": [], "+": []}
        while at < len(lines) and not is_hunk_end(lines, at):
            line = lines[at]
            at += 1
            if line.startswith("\\"):
                for sign in "-+" if lines[at - 2][:1] == " " else lines[at - 2][:1]:
                    sides[sign][-1] = sides[sign][-1].removesuffix("\n")
                continue
            for sign in "-+" if line[:1] in ("", " ", "\r") else line[0]:
                sides[sign].append(f"{line[1:]}\n")
        hunks.append(PlacedHunk("".join(sides["-"]), "".join(sides["+"]), line=int(match[1])))
    return tuple(hunks), at


def is_hunk_end(lines: Sequence[str], at: int) -> bool:
    line = lines[at]
    is_header = line.startswith("--- ") and lines[at + 1 : at + 2] and lines[at + 1].startswith("+++ ")
    return bool(is_header) or line[:1] not in ("", " ", "+", "-", "\\", "\r")


# --- placing hunks ----------------------------------------------------------------------------------------


def edit_text(path: str, content: str, hunks: Sequence[PlacedHunk]) -> EditedText:
    """Return the file after the hunks. Raises ToolFailure."""
    places: list[TextPlace] = []
    for n, hunk in enumerate(hunks, 1):
        where = f"{path}: hunk {n} of {len(hunks)}: "
        places.append(place_hunk(content, hunk, places[-1].end if places else 0, where))
    require_apart(places, path)
    return replace_places(content, places)


def place_hunk(content: str, hunk: PlacedHunk, earlier: int, where: str) -> TextPlace:
    """Return the one place of a hunk. Raises ToolFailure."""
    if not hunk.old:
        if content and (hunk.context or hunk.line is not None):
            message = f"{where}it has only new lines; give at least one line of the file before or after them"
            raise ToolFailure("PATCH_INVALID", message)
        start = "" if content.endswith("\n") or not content else find_line_end(content)
        return TextPlace(len(content), len(content), start + hunk.new)
    places = find_places(content, hunk.old, hunk.new, whole_lines=True)
    if not places:
        message = f"{where}its old lines are not in the file.{describe_nearest(content, hunk.old)}"
        raise ToolFailure("EDIT_NOT_FOUND", message)
    found = [place for place in places if place.start >= earlier] or places
    if hunk.context is not None and len(found) > 1:
        above = [place.end for place in find_places(content, f"{hunk.context}\n", "", whole_lines=True)]
        below = {min((p.start for p in found if p.start >= end), default=-1) for end in above}
        found = [place for place in found if place.start in below] or found
    if hunk.at_end and len(found) > 1:
        found = [place for place in found if not content[place.end :].strip()] or found
    lines = [content.count("\n", 0, place.start) + 1 for place in found]
    if len(found) > 1 and hunk.line in lines:
        found = [found[lines.index(hunk.line)]]
    if len(found) > 1:
        named = ", ".join(map(str, lines[:MAX_NAMED_PLACES]))
        message = f"{where}its old lines stand {len(found)} times in the file (lines {named}); "
        raise ToolFailure(
            "EDIT_AMBIGUOUS", f"{message}give more unchanged lines, or `@@` and a line above that is unique"
        )
    return found[0]


def propose_file(context: ToolContext, file: PatchedFile) -> list[FileProposal]:
    """Return the changes of one file of a patch. Raises ToolFailure."""
    target = file.moved_to or (file.path if file.kind == "add" else None)
    if target is not None and target != file.path and read_existing(context, target) is not None:
        raise ToolFailure("PATCH_INVALID", f"{target} exists already; delete it first, or choose another name")
    if file.kind == "add":
        if read_existing(context, file.path) is not None:
            raise ToolFailure("PATCH_INVALID", f"{file.path} exists already; update it, or use write_to_file")
        content = "".join(hunk.new for hunk in file.hunks)
        return [FileProposal(file.path, None, encode_text(content), permissions=file.permissions)]
    if file.kind == "delete":
        before = read_existing(context, file.path)
        if before is None:
            raise ToolFailure("FILE_NOT_FOUND", f"{file.path} is to be deleted, but does not exist")
        return [FileProposal(file.path, before, None)]
    content = read_text(context, file.path)
    edited = edit_text(file.path, content, file.hunks)
    before, after = encode_content(content), encode_content(edited.content)
    if file.moved_to is None:
        return [FileProposal(file.path, before, after, edited)]
    return [FileProposal(file.path, before, None), FileProposal(file.moved_to, None, after)]


def announce_patch(files: Sequence[PatchedFile], changes: Sequence[FileProposal]) -> Edit | None:
    """Return the patch for the gate, or None if no patch makes exactly the new contents."""
    edits = {c.path: announce_edit(c.path, c.edited) for c in changes if c.edited is not None}
    if len(changes) == 1 and changes[0].edited is not None:
        return edits[changes[0].path]
    operations: list[FileOperation] = []
    for file in files:
        hunks: tuple[PatchHunk, ...] = ()
        match edits.get(file.path):
            case Patching(patch):
                hunks = patch.operations[0].hunks
            case _ if file.kind == "add":
                hunks = (PatchHunk(tuple(f"+{line}" for hunk in file.hunks for line in hunk.new.split("\n")[:-1])),)
            case _:
                pass
        operations.append(FileOperation(file.kind, file.path, file.moved_to, hunks))
    patch = Patch(tuple(operations))
    try:
        made = apply_patch(patch, {change.path: change.before for change in changes}.get)
    except PatchMismatch:
        return None
    return Patching(patch) if made == {change.path: change.after for change in changes} else None


def prepare_patch(context: ToolContext, given: ApplyPatch) -> PreparedCall:
    files = parse_any_patch(given.patch)

    def compute() -> Proposal:
        changes = tuple(change for file in files for change in propose_file(context, file))
        return Proposal(changes, announce_patch(files, changes))

    paths = [path for file in files for path in file.paths]
    return prepare_changes(
        context,
        paths,
        compute,
        only_deletes=all(file.kind == "delete" for file in files),
        checks_itself=all(file.kind == "update" and file.moved_to is None for file in files),
    )


PATCHING_TOOLS = (HostTool("apply_patch", ApplyPatch, "write", prepare_patch, cites_intent=True),)
