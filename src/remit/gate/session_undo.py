"""Undoing what one session changed, and nothing that others changed in the same files."""

import os
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from remit.core.record import Body
from remit.core.text import quoted_path
from remit.gate.gate import Gate
from remit.gate.restores import PATHS_NAMED, restoring
from remit.gate.site import Site
from remit.gate.snapshots import Snapshots
from remit.ledger.session_changes import SessionChange
from remit.workspace.contents import ContentStore, scratch
from remit.workspace.git import Git, GitError
from remit.workspace.snapshots import Occasion
from remit.workspace.snapshots_restore import Applied
from remit.workspace.snapshots_write import File

MERGE_CONFLICTS = 127
"""`git merge-file` ends with the number of conflicts, at most 127, and with 255 for an error. Source: its manual."""


class SessionUndo(Struct, frozen=True):
    """The files that an undo would write and delete, and the files that it leaves, each with the reason."""

    write: dict[str, bytes]
    delete: tuple[str, ...]
    left: dict[str, str]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to write and nothing to delete."""
        return not self.write and not self.delete


def plan_session_undo(site: Site, store: ContentStore, changes: Iterable[SessionChange]) -> SessionUndo:
    """Return what undoes these changes: each is taken out of its file as it is now, the newest first.

    Lines that others changed since stay. A file in which both changed the same lines is left as it is. Raises GitError,
    OSError.
    """
    now: dict[str, bytes | None] = {}
    first: dict[str, bytes | None] = {}
    left: dict[str, str] = {}
    for change in reversed(tuple(changes)):
        path = change.path
        if path in left:
            continue
        if path not in now:
            try:
                now[path] = first[path] = read_now(site.workspace.root / path)
            except OSError as error:
                left[path] = error.strerror or str(error)
                continue
        try:
            now[path] = without_change(site.workspace.state, store, change, now[path])
        except CannotUndo as error:
            left[path] = str(error)
    done = {path: content for path, content in now.items() if path not in left and content != first[path]}
    return SessionUndo(
        write={path: content for path, content in done.items() if content is not None},
        delete=tuple(path for path, content in done.items() if content is None),
        left=left,
    )


class CannotUndo(ValueError):
    """One change cannot be taken out of its file. The message is the reason, without the file's name."""


def without_change(folder: Path, store: ContentStore, change: SessionChange, now: bytes | None) -> bytes | None:
    """Return the content `now` without one change; None for no file. Raises CannotUndo."""
    before, after = load(store, change.before), load(store, change.after)
    if now == after:
        return before
    if now == before:
        return now
    if now is None:
        raise CannotUndo("somebody deleted it since")
    if after is None:
        raise CannotUndo("it was deleted, and somebody made it anew since")
    if before is None:
        raise CannotUndo("the session made it, and somebody changed it since")
    return merge(folder, now, after, before)


def merge(folder: Path, current: bytes, base: bytes, other: bytes) -> bytes:
    """Return `current` with the way from `base` to `other` applied. Raises CannotUndo where both changed a line."""
    with scratch(folder, current, base, other) as files:
        try:
            return Git(folder).run("merge-file", "-p", "--quiet", *files)
        except GitError as error:
            if error.code is not None and 0 < error.code <= MERGE_CONFLICTS:
                raise CannotUndo("somebody changed the same lines since") from error
            raise CannotUndo("git cannot merge its contents") from error


def load(store: ContentStore, blob: str | None) -> bytes | None:
    """Return the content of that name; None for no file. Raises CannotUndo where the content is gone."""
    if blob is None:
        return None
    content = store.load(blob) if blob else None
    if content is None:
        raise CannotUndo("its content was not kept, or no longer is")
    return content


def read_now(path: Path) -> bytes | None:
    """Return the file's bytes, None where there is none. Raises OSError where it is no regular file."""
    if not os.path.lexists(path):
        return None
    if path.is_symlink() or not path.is_file():
        raise OSError("it is not a regular file")
    return path.read_bytes()


def undo_session(gate: Gate, plan: SessionUndo, session: str) -> Applied:
    """Save the present state as a snapshot, then write and delete as planned, and record it.

    `remit restore undo` goes back to that snapshot. Raises GitError, OSError where the present cannot be saved: then
    nothing was changed.
    """
    files = {path: File(mode_now(gate.workspace.root / path), content) for path, content in plan.write.items()}
    occasion = Occasion("restore", session=session)
    done = restoring(gate).apply(files, plan.delete, occasion)
    detail: dict[str, object] = {
        "session": session,
        "saved": done.saved.id,
        "written": len(plan.write),
        "deleted": len(plan.delete),
        "paths": [quoted_path(path) for path in [*plan.write, *plan.delete][:PATHS_NAMED]],
    }
    left = {**plan.left, **done.failed}
    detail |= {"failed": {quoted_path(path): why for path, why in left.items()}} if left else {}
    snapshot = Snapshots(gate).record(done.saved, occasion, None, 0)
    body = Body(event="restore", intent_id=None, session_id=None, detail=detail)
    gate.recorder.append_or_spool([snapshot, gate.recorder.record(body)])
    return done


def mode_now(path: Path) -> str:
    """Return git's mode of the file as it is now; that of a plain file where there is none."""
    return "100755" if os.access(path, os.X_OK) else "100644"
