"""Restores: selection of a snapshot, restore records, and undo of one session's changes."""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from remit.core.record import Body, match_ids
from remit.core.untrusted_input import quote_path
from remit.gate.context import WorkspaceContext
from remit.gate.snapshots.take import SnapshotTaker
from remit.ledger.file_changes import SessionChange
from remit.workspace.contents.content_store import ContentStore, scratch_files
from remit.workspace.git.command import Git, GitError
from remit.workspace.safe_files import FileToWrite
from remit.workspace.snapshots.restore import ApplyResult, Restorer, RestoreResult
from remit.workspace.snapshots.snapshot import Occasion, Snapshot

MAX_NAMED_PATHS = 200
LATEST = "latest"
MAX_NAMED_CANDIDATES = 10


class NoSuchSnapshot(ValueError):
    """Snapshot name without a match, or with several."""


def open_restore(context: WorkspaceContext) -> Restorer:
    config = context.rules.config
    most, secrets = config.snapshots.max_file_mib, config.snapshots.secret_days > 0
    return Restorer(context.workspace, context.snapshots, context.environment.clock, most, secrets=secrets)


def select_offered(found: Sequence[Snapshot]) -> list[Snapshot]:
    """Return the snapshots for people; snapshots that only finished a restore are left out."""
    return [s for s in found if s.occasion.kind != "resume"]


def find_snapshot(found: Sequence[Snapshot], point: str) -> Snapshot:
    """Return the snapshot whose id has this prefix. Raises NoSuchSnapshot."""
    states = [s for s in select_offered(found) if s.occasion.kind != "undone"]
    if point == LATEST and states:
        return states[0]
    fitting = match_ids(point, (s.id for s in found))
    if len(fitting) > 1:
        few = ", ".join(fitting[:MAX_NAMED_CANDIDATES])
        raise NoSuchSnapshot(f"{point!r} fits {len(fitting)} snapshots: {few}; give more of the name")
    if not fitting:
        raise NoSuchSnapshot(f"no snapshot is named {point!r}; `remit restore list` shows what there is")
    return next(s for s in found if s.id == fitting[0])


def find_last_restore(found: Sequence[Snapshot]) -> tuple[Snapshot, Snapshot | None]:
    """Return the state before the last restore, and the restored snapshot. Raises NoSuchSnapshot."""
    for snapshot in found:
        if snapshot.occasion.kind == "restore":
            return snapshot, next((s for s in found if s.id == snapshot.occasion.point), None)
    raise NoSuchSnapshot("there is no restore to undo")


def record_restore(context: WorkspaceContext, done: RestoreResult, *, finished: bool = False) -> str | None:
    """Record a restore; return the reason if the record has to wait."""
    if done.saved is None:
        return None
    detail = make_restore_detail(done.saved, done.plan.write, done.plan.delete, done.failed)
    detail |= {"to": done.point.id}
    detail |= {"undo": True} if done.undoing else {}
    detail |= {"finished": True} if finished else {}
    return append_restore(context, done.saved, detail)


def make_restore_detail(
    saved: Snapshot, written: Collection[str], deleted: Collection[str], failed: Mapping[str, str]
) -> dict[str, object]:
    paths = [quote_path(path) for path in [*written, *deleted][:MAX_NAMED_PATHS]]
    detail: dict[str, object] = {"saved": saved.id, "written": len(written), "deleted": len(deleted), "paths": paths}
    return detail | ({"failed": {quote_path(path): why for path, why in failed.items()}} if failed else {})


def append_restore(context: WorkspaceContext, saved: Snapshot, detail: dict[str, object]) -> str | None:
    snapshot = SnapshotTaker(context).make_record(saved, saved.occasion, None, 0)
    body = Body(event="restore", intent_id=None, session_id=None, detail=detail)
    return context.recorder.append_or_spool([snapshot, context.recorder.make_record(body)])


# Undo of one session

MAX_MERGE_CONFLICTS = 127
"""`git merge-file` exits with the number of conflicts, at most 127, and with 255 for an error. Source: its manual."""


class SessionUndo(Struct, frozen=True):
    """Plan of an undo: files to write and delete, and files left alone with the reason."""

    write: dict[str, bytes]
    delete: tuple[str, ...]
    left: dict[str, str]

    @property
    def is_empty(self) -> bool:
        return not self.write and not self.delete


class CannotUndo(ValueError):
    """Change that cannot be removed from its file. The message is the reason, without the file's name."""


def plan_session_undo(context: WorkspaceContext, store: ContentStore, changes: Iterable[SessionChange]) -> SessionUndo:
    """Return the plan that removes these changes from the current files, newest first. Lines changed by others stay. A
    file with changes to the same lines is left alone. Raises GitError, OSError.
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
                now[path] = first[path] = read_current(context.workspace.root / path)
            except OSError as error:
                left[path] = error.strerror or str(error)
                continue
        try:
            now[path] = remove_change(context.workspace.state, store, change, now[path])
        except CannotUndo as error:
            left[path] = str(error)
    done = {path: content for path, content in now.items() if path not in left and content != first[path]}
    return SessionUndo(
        write={path: content for path, content in done.items() if content is not None},
        delete=tuple(path for path, content in done.items() if content is None),
        left=left,
    )


def remove_change(folder: Path, store: ContentStore, change: SessionChange, now: bytes | None) -> bytes | None:
    """Return the content `now` without one change; None for no file. Raises CannotUndo."""
    return take_out(folder, load_content(store, change.before), load_content(store, change.after), now)


def take_out(folder: Path, before: bytes | None, after: bytes | None, now: bytes | None) -> bytes | None:
    """Return the content `now` without the change from `before` to `after`; None for no file. Raises CannotUndo."""
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
    with scratch_files(folder, now, after, before) as files:
        try:
            return Git(folder).run("merge-file", "-p", "--quiet", *files)
        except GitError as error:
            if error.code is not None and 0 < error.code <= MAX_MERGE_CONFLICTS:
                raise CannotUndo("somebody changed the same lines since") from error
            raise CannotUndo("git cannot merge its contents") from error


def load_content(store: ContentStore, blob: str | None) -> bytes | None:
    """Return the stored content; None for no file. Raises CannotUndo for a missing content."""
    content = store.load(blob) if blob else None
    if content is None and blob is not None:
        raise CannotUndo("its content was not kept, or no longer is")
    return content


def read_current(path: Path) -> bytes | None:
    """Return the file's bytes; None if missing. Raises OSError for anything but a regular file."""
    if not os.path.lexists(path):
        return None
    if path.is_symlink() or not path.is_file():
        raise OSError("it is not a regular file")
    return path.read_bytes()


def undo_session(context: WorkspaceContext, plan: SessionUndo, session: str) -> ApplyResult:
    """Save the present state as a snapshot, write and delete as planned, and record the undo. `remit restore undo`
    returns to that snapshot. Raises GitError, OSError before any change if the present cannot be saved.
    """
    return apply_undo(context, plan, Occasion("restore", session=session), {"session": session})


def apply_undo(
    context: WorkspaceContext, plan: SessionUndo, occasion: Occasion, detail: dict[str, object]
) -> ApplyResult:
    """Write and delete as planned, after a snapshot of the present, and record it with `detail`."""
    root = context.workspace.root
    modes = {path: "100755" if os.access(root / path, os.X_OK) else "100644" for path in plan.write}
    files = {path: FileToWrite(modes[path], content) for path, content in plan.write.items()}
    done = open_restore(context).apply_changes(files, plan.delete, occasion)
    outcome = make_restore_detail(done.saved, plan.write, plan.delete, {**plan.left, **done.failed})
    append_restore(context, done.saved, {**detail, **outcome})
    return done
