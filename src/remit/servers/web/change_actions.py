"""What a person does on the page Changes: mark hunks as reviewed, take one back, send comments to an agent."""

import re
from typing import Any

from msgspec import Struct

from remit.core.call import SessionKey
from remit.core.untrusted_input import quote_path
from remit.gate.people.reviews import ReviewComment, ReviewRefused, mark_reviewed, send_comments
from remit.gate.undo.restore import CannotUndo, revert_change
from remit.provenance.verify.changed_hunks import CompareEnds, HunkPatch, find_ends, read_hunk_patches
from remit.servers.web.guard import Refused
from remit.servers.web.pages.page import PageRequest
from remit.workspace.git.command import Git, GitError
from remit.workspace.snapshots.restore import RestoreRunning

MAX_COMMENTS = 100


class MarkBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Hunks to mark as reviewed, or not, and the records behind them."""

    hunks: list[str]
    reviewed: bool
    records: list[str] = []


class RevertBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A hunk of a range, or of what no commit has for an empty range, to take back."""

    hunk: str
    range: str = ""


class CommentsBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Comments for the agent of a session."""

    session: str
    comments: list[ReviewComment]


def mark_hunks(request: PageRequest, body: MarkBody) -> dict[str, Any]:
    with request.repositories.open_gate(request.one_repository) as gate:
        mark_reviewed(gate.state, body.hunks, body.records, reviewed=body.reviewed)
    return {"hunks": body.hunks, "reviewed": body.reviewed}


def send_message(request: PageRequest, body: CommentsBody) -> dict[str, Any]:
    if not 0 < len(body.comments) <= MAX_COMMENTS or not all(each.text.strip() for each in body.comments):
        raise Refused(400, f"a message has 1 to {MAX_COMMENTS} comments, none of them empty")
    with request.repositories.open_gate(request.one_repository) as gate:
        try:
            message = send_comments(gate, SessionKey(body.session), body.comments)
        except ReviewRefused as refused:
            raise Refused(400, str(refused), "shorten the comments, or send fewer") from None
    return {"session": body.session, "comments": len(body.comments), "message": message}


def revert_hunk(request: PageRequest, body: RevertBody) -> dict[str, Any]:
    with request.repositories.open_gate(request.one_repository) as gate:
        git = Git(gate.workspace.root)
        try:
            ends = find_ends(git, body.range or None)
            found = next((each for each in read_hunk_patches(git, ends) if body.hunk in each.ids), None)
            if found is None:
                raise Refused(409, "this hunk is there no more", "load the page again")
            before, after = read_sides(git, ends, found, found.ids.index(body.hunk))
            done = revert_change(gate, found.path, before, after, body.hunk)
        except CannotUndo as error:
            raise Refused(409, f"the hunk cannot be taken back: {error}", "take it back by hand") from None
        except (GitError, RestoreRunning) as error:
            raise Refused(409, str(error).partition("\n")[0], "try again") from None
    if done.failed:
        raise Refused(500, f"the hunk was not taken back: {'; '.join(done.failed.values())}", "run `remit doctor`")
    return {"hunk": body.hunk, "path": quote_path(found.path), "saved": done.saved.id}


def read_sides(git: Git, ends: CompareEnds, changed: HunkPatch, position: int) -> tuple[bytes | None, bytes | None]:
    """Return the file without the hunk and with it, as the tip has it; None for no file. Raises Refused, GitError,
    OSError.
    """
    patch = changed.patch
    if patch.path is None:
        # The file is gone: its only change is its removal.
        return git.run("cat-file", "blob", f"{ends.base}:./{patch.source}"), None
    if ends.tip:
        after = git.run("cat-file", "blob", f"{ends.tip}:./{patch.path}")
    else:
        after = (git.folder / patch.path).read_bytes()
    if patch.source is None:
        return None, after
    if patch.source != patch.path:
        raise Refused(409, "the file was renamed", "take the change back by hand")
    hunk = patch.hunks[position]
    base = split_at_newlines(git.run("cat-file", "blob", f"{ends.base}:./{patch.source}"))
    old = [base[number - 1] for number in hunk.old_range]
    lines = split_at_newlines(after)
    changed_lines = {number for each in patch.hunks for number in each.new_range}
    unchanged = next((line for number, line in enumerate(lines, 1) if number not in changed_lines), b"")
    if unchanged.endswith(b"\r\n") and not any(line.endswith(b"\r\n") for line in base):
        old = [line.replace(b"\n", b"\r\n") for line in old]  # git converts the line ends of this file
    start = hunk.new_range.start - 1
    return b"".join((*lines[:start], *old, *lines[start + hunk.new_lines :])), after


def split_at_newlines(content: bytes) -> list[bytes]:
    """Return the lines with their newlines, as git counts lines."""
    return re.findall(rb"[^\n]*\n|[^\n]+", content)
