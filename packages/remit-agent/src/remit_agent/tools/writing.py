"""The tools that write whole files, and the common way of every tool to write.

A writing tool computes the contents first. The gate is told the exact contents; once allowed, they are written
if the files are unchanged, all or none.
"""

import os
from collections.abc import Callable, Sequence
from difflib import unified_diff

from msgspec import Struct
from msgspec.structs import replace

from remit.core.diff.contents import decode_content, encode_text, sha256
from remit.core.diff.edits import Edit, EditedText, WholeFile, replace_places
from remit.core.diff.place import BYTE_ORDER_MARK, TextPlace, find_line_end
from remit.core.redaction import is_secret_file, redact
from remit.gate.perform import ToolOutput, WorkspaceAccess, WrittenFile
from remit_agent.tools.reading import FilePath, is_below_root, locate_path, read_content
from remit_agent.tools.tool import HostTool, PreparedCall, ToolContext, ToolFailure


class WriteFile(Struct, frozen=True, forbid_unknown_fields=True):
    """Create a file, or replace a whole file; give the complete content, without line numbers. To change a part, use an
    edit tool. A byte order mark and CRLF line ends of the file that is replaced stay. Example:
    {"path": "src/app.py", "content": "def main():\\n    return 0\\n"}
    """

    path: FilePath
    content: str


class GenerateImage(Struct, frozen=True, forbid_unknown_fields=True):
    """Make an image from a description and write it to `path`; `image` names an image to change. Example:
    {"prompt": "a logo: a key in a circle, flat, two colours", "path": "docs/logo.png"}
    """

    prompt: str
    path: FilePath
    image: FilePath | None = None


MAX_DIFF_LINES = 400
MAX_DIFFED_BYTES = 256 * 1024


class FileProposal(Struct, frozen=True):
    """A change of a file. None is a missing file; `permissions` are of a new file."""

    path: str
    before: bytes | None
    after: bytes | None
    edited: EditedText | None = None
    permissions: int | None = None


def diff_changes(changes: Sequence[FileProposal]) -> str:
    lines: list[str] = []
    for change in changes:
        before, after = change.before or b"", change.after or b""
        if is_secret_file(change.path) or b"\0" in before + after or len(before) + len(after) > MAX_DIFFED_BYTES:
            continue
        old, new = (side.decode("utf-8", "replace").splitlines() for side in (before, after))
        lines += unified_diff(old, new, f"a/{change.path}", f"b/{change.path}", lineterm="")
    shown = [redact(line) for line in lines[:MAX_DIFF_LINES]]
    return "\n".join([*shown, *(["…"] if len(lines) > MAX_DIFF_LINES else [])])


def read_existing(context: ToolContext, path: str) -> bytes | None:
    """Return the bytes of a file, None if it does not exist. Raises ToolFailure."""
    return read_content(context, path) if os.path.lexists(locate_path(context, path)) else None


class Proposal(Struct, frozen=True):
    """The changes of a call, and the edit that the gate is told of; None if no edit says them exactly."""

    changes: tuple[FileProposal, ...]
    edit: Edit | None


def prepare_changes(
    context: ToolContext,
    paths: Sequence[str],
    compute: Callable[[], Proposal],
    *,
    only_deletes: bool = False,
    checks_itself: bool = False,
) -> PreparedCall:
    """Return the call that changes files. Raises ToolFailure if the changes cannot be computed.

    Outside the workspace no file is read before the gate has decided: a failure would show the files' contents.
    """

    def propose() -> Proposal:
        proposal = compute()
        if all(change.before == change.after for change in proposal.changes):
            message = f"{', '.join(paths)}: the file already is as the call would make it"
            raise ToolFailure("EDIT_WITHOUT_CHANGE", message, "read_file")
        return proposal

    def act(access: WorkspaceAccess) -> ToolOutput:
        changes = (proposal or propose()).changes
        changed = [change.path for change in changes if read_existing(context, change.path) != change.before]
        if changed:
            message = f"{', '.join(changed)} changed while the call was decided; read it again. Nothing was written."
            raise ToolFailure("EDIT_NOT_FOUND", message, "read_file")
        access.write_contents(WrittenFile(change.path, change.after, change.permissions) for change in changes)
        compared = [(change, compare_change(change)) for change in changes]
        positions = {change.path: edited.positions for change, edited in compared if change.after is not None}
        files = [{"path": c.path, "sha256": c.after and sha256(c.after)} for c in changes]
        text = "\n".join(describe_change(change, edited) for change, edited in compared)
        data = {"files": files, "diff": diff_changes(changes)}
        return ToolOutput(True, text, data, positions=positions)

    proposal = propose() if all(is_below_root(context, path) for path in paths) else None
    call = context.new_call()
    call = replace(
        call,
        effect="delete" if only_deletes else "write",
        paths=tuple(paths),
        edit=proposal and proposal.edit,
        checks_itself=checks_itself and call.citation.expected_content_hash is None,
    )
    return PreparedCall(call, act)


def compare_change(change: FileProposal) -> EditedText:
    if change.edited is not None:
        return change.edited
    before, after = (decode_content(side or b"") for side in (change.before, change.after))
    return replace_places(before, [TextPlace(0, len(before), after)])


def describe_change(change: FileProposal, edited: EditedText) -> str:
    added, removed = edited.counts
    if change.after is None:
        return f"{change.path}: deleted (−{removed} lines)"
    made = "created, " if change.before is None else ""
    return f"{change.path}: {made}+{added} −{removed} lines [content_hash: sha256:{sha256(change.after)}]"


def prepare_write(context: ToolContext, given: WriteFile) -> PreparedCall:
    def compute() -> Proposal:
        before, text = read_existing(context, given.path), given.content
        if before is not None:
            present = decode_content(before)
            if present.startswith(BYTE_ORDER_MARK) and not text.startswith(BYTE_ORDER_MARK):
                text = BYTE_ORDER_MARK + text
            if "\r" not in text and find_line_end(present) == "\r\n":
                text = text.replace("\n", "\r\n")
        return Proposal((FileProposal(given.path, before, encode_text(text)),), WholeFile(text))

    return prepare_changes(context, [given.path], compute)


def prepare_image(context: ToolContext, given: GenerateImage) -> PreparedCall:
    raise ToolFailure("UNAVAILABLE", "the provider of this model makes no images", "ask_user", recoverable=False)


WRITING_TOOLS = (
    HostTool("write_to_file", WriteFile, "write", prepare_write, cites_intent=True),
    HostTool("generate_image", GenerateImage, "write", prepare_image, cites_intent=True),
)
