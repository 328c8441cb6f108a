"""The tool that applies patches to one or more files, all or none: V4A (`*** Begin Patch`) and unified diffs.

Hunks are located like the texts of the edit tools: kept lines keep their bytes.
"""

import re

from msgspec import Struct
from msgspec.structs import replace

from remit.core.diff.contents import encode_text
from remit.core.diff.edits import Patching
from remit.core.diff.formats import BEGIN, FileOperation, Patch, PatchError, PatchHunk, parse_patch, parse_unified
from remit.core.diff.place import TextPlace, find_line_end
from remit_agent.tools.reading import read_text
from remit_agent.tools.replacing import TextExchange, choose_places, exchange_places
from remit_agent.tools.tool import HostTool, PreparedCall, ToolContext, ToolFailure
from remit_agent.tools.writing import FileProposal, Proposal, prepare_changes, read_existing

PROGRAM_MODE = "100755"
WAY_OUT = "give more unchanged lines, or `@@` and a line above that is unique"


class ApplyPatch(Struct, frozen=True, forbid_unknown_fields=True):
    """Apply a patch to one or more files, all or none: `*** Begin Patch` … `*** End Patch` with `*** Add File: path`,
    `*** Update File: path` (then perhaps `*** Move to: path`) and `*** Delete File: path`, or a unified diff. Give some
    unchanged lines around each change, and `@@ line above` where they occur more than once. Example:
    {"patch": "*** Begin Patch\\n*** Update File: a.py\\n     x = 1\\n-    return 1\\n+    return x\\n*** End Patch"}
    """

    patch: str


def parse_any_patch(text: str) -> Patch:
    """Return a patch with one operation a file. Raises ToolFailure (PATCH_INVALID) with the line."""
    is_unified = BEGIN not in text and re.search(r"^(?:diff --git |--- )", text, re.MULTILINE)
    try:
        operations = parse_unified(text) if is_unified else parse_patch(text).operations
    except PatchError as error:
        raise ToolFailure("PATCH_INVALID", str(error)) from error
    merged: dict[str, FileOperation] = {}
    for each in operations:
        earlier = merged.get(each.path)
        if earlier is None:
            merged[each.path] = each
        elif earlier.kind == each.kind == "update" and earlier.moved_to is None:
            merged[each.path] = replace(each, hunks=earlier.hunks + each.hunks)
        else:
            raise ToolFailure("PATCH_INVALID", f"{each.path} occurs twice in the patch, not only to be updated")
    return Patch(tuple(merged.values()))


def place_hunk(content: str, hunk: PatchHunk, earlier: int, where: str) -> TextPlace:
    """Return the one place of a hunk. Raises ToolFailure."""
    old, new = "".join(hunk.old), "".join(hunk.new)
    if old:
        above = hunk.context or None
        exchange = TextExchange(old, new, 1, hunk.line, True, above, hunk.end_of_file, WAY_OUT)
        return choose_places(content, exchange, where, earlier)[0]
    if content and (hunk.context or hunk.line is not None):
        message = f"{where}it has only new lines; give at least one line of the file before or after them"
        raise ToolFailure("PATCH_INVALID", message)
    start = "" if content.endswith("\n") or not content else find_line_end(content)
    return TextPlace(len(content), len(content), start + new)


def propose_file(context: ToolContext, file: FileOperation) -> tuple[list[FileProposal], FileOperation]:
    """Return the changes of one file of a patch, and the operation that says exactly these. Raises ToolFailure."""
    path, created = file.path, file.moved_to
    if file.kind == "add":
        created = path
    if created is not None and read_existing(context, created) is not None:
        raise ToolFailure("PATCH_INVALID", f"{created} exists already; update or delete it, or choose another name")
    if file.kind == "add":
        content = encode_text("".join(line for hunk in file.hunks for line in hunk.new))
        permissions = 0o755 if file.new_mode == PROGRAM_MODE else None
        return [FileProposal(path, None, content, permissions=permissions)], file
    if file.kind == "delete":
        before = read_existing(context, path)
        if before is None:
            raise ToolFailure("FILE_NOT_FOUND", f"{path} is to be deleted, but does not exist")
        return [FileProposal(path, before, None)], file
    text = read_text(context, path)
    places: list[TextPlace] = []
    for n, hunk in enumerate(file.hunks, 1):
        where = f"{path}: hunk {n} of {len(file.hunks)}: "
        places.append(place_hunk(text, hunk, places[-1].end if places else 0, where))
    change, operation = exchange_places(path, text, places)
    if file.moved_to is None:
        return [change], operation
    moved = [FileProposal(path, change.before, None), FileProposal(file.moved_to, None, change.after)]
    return moved, replace(operation, moved_to=file.moved_to)


def prepare_patch(context: ToolContext, given: ApplyPatch) -> PreparedCall:
    patch = parse_any_patch(given.patch)

    def compute() -> Proposal:
        proposed = [propose_file(context, operation) for operation in patch.operations]
        changes = tuple(change for changes, _ in proposed for change in changes)
        return Proposal(changes, Patching(Patch(tuple(operation for _, operation in proposed))))

    return prepare_changes(
        context,
        [path for operation in patch.operations for path in operation.paths],
        compute,
        only_deletes=all(operation.kind == "delete" for operation in patch.operations),
        checks_itself=patch.checks_itself,
    )


PATCHING_TOOLS = (HostTool("apply_patch", ApplyPatch, "write", prepare_patch, cites_intent=True),)
