"""Restores as a person asks for them: the list of snapshots, a preview with diffs, the restore, and pins. The command
`remit restore` and the console's page Recovery call these functions.
"""

import os
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from msgspec import Struct

from remit.core.diff.contents import sha256
from remit.core.redaction import redact
from remit.core.untrusted_input import quote_path, sanitise_line
from remit.gate.context import WorkspaceContext
from remit.gate.undo import restore
from remit.gate.undo.snapshots import SnapshotTaker
from remit.ledger.file_changes import SessionChange, join_session_changes
from remit.workspace.git.repository import head_commit
from remit.workspace.safe_files import read_regular_file
from remit.workspace.snapshots.data_store import DataPoint, DataStore
from remit.workspace.snapshots.restore import RestoreResult
from remit.workspace.snapshots.snapshot import PinnedSnapshots, Snapshot, decode_path, is_secret_path

UNDO = "undo"
MAX_DIFFS = 40  # files of a preview whose diff is computed; the rest are named
MAX_DIFF_BYTES = 256 << 10  # of one side
MAX_DIFF_LINES = 400
MAX_READ_BYTES = 16 << 20
NOT_COMPARED = f"not compared: more than {MAX_DIFFS} files"


class RestoreTarget(Struct, frozen=True):
    """The snapshot to return to; `undoing` is the snapshot of the restore that is taken back."""

    point: Snapshot
    undoing: Snapshot | None = None


class FileRestore(Struct, frozen=True):
    """What a restore does to one file, with the diff from now to then; `note` is the reason for no diff."""

    path: str
    change: Literal["write", "create", "delete"]
    diff: str = ""
    note: str = ""


class RestorePreview(Struct, frozen=True):
    """What a restore would do, as data and file by file. `plan_sha256` names the plan that a person saw."""

    plan: dict[str, Any]
    files: list[FileRestore]
    is_empty: bool
    plan_sha256: str
    head_moved: bool
    remarks: list[str]


def list_restore_points(context: WorkspaceContext) -> list[tuple[Snapshot | DataPoint, dict[str, Any]]]:
    """Return the snapshots and the copies of runtime data, newest first, each with the data for people."""
    pinned = PinnedSnapshots(context.workspace).pinned_ids()
    offered = restore.select_offered(context.snapshots.list_snapshots())
    found: list[tuple[Snapshot | DataPoint, dict[str, Any]]] = [
        (snapshot, {**snapshot_document(snapshot), "pinned": snapshot.id in pinned}) for snapshot in offered
    ]
    found += [(point, data_point_document(point)) for point in DataStore(context.workspace).list_points()]
    return sorted(found, key=lambda each: each[0].at, reverse=True)


def find_target(context: WorkspaceContext, name: str, *, before: str | None = None) -> RestoreTarget:
    """Return the snapshot by name, `latest`, `undo`, or what it precedes. Raises NoSuchSnapshot."""
    found = context.snapshots.list_snapshots()
    if before is not None:
        return RestoreTarget(restore.find_snapshot_before(context, found, before))
    if name == UNDO:
        return RestoreTarget(*restore.find_last_restore(found))
    return RestoreTarget(restore.find_snapshot(found, name or restore.LATEST))


def finish_interrupted(context: WorkspaceContext) -> str:
    """Finish and record a restore that was interrupted; return its snapshot's name, empty for none. Raises
    RestoreRunning, GitError, OSError.
    """
    try:
        done = restore.open_restore(context).finish_interrupted()
    finally:
        context.snapshots.close()
    if done is None:
        return ""
    restore.record_restore(context, done, finished=True)
    return done.point.id


def plan_restore_to(context: WorkspaceContext, target: RestoreTarget, only: Sequence[str] = ()) -> RestoreResult:
    """Return what a restore would do, and change no file. Raises RestoreRunning, GitError, OSError."""
    try:
        return restore.open_restore(context).preview(target.point, only, target.undoing)
    finally:
        context.snapshots.close()


def restore_to(
    context: WorkspaceContext, target: RestoreTarget, only: Sequence[str] = ()
) -> tuple[RestoreResult, str | None]:
    """Save the present, go back and record it; return the reason if the record has to wait. Raises as
    `plan_restore_to`.
    """
    try:
        done = restore.open_restore(context).restore(target.point, only, target.undoing)
    finally:
        context.snapshots.close()
    waiting = restore.record_restore(context, done)
    SnapshotTaker(context).tidy_store()
    return done, waiting


def change_pin(context: WorkspaceContext, name: str, *, is_pinned: bool) -> tuple[Snapshot, bool]:
    """Pin or unpin a snapshot; return it, and whether anything changed. Raises NoSuchSnapshot."""
    snapshot = restore.find_snapshot(context.snapshots.list_snapshots(), name)
    pins = PinnedSnapshots(context.workspace)
    if not is_pinned:
        return snapshot, pins.unpin(snapshot.id)
    has_changed = snapshot.id not in pins.pinned_ids()
    pins.pin(snapshot.id)
    return snapshot, has_changed


def preview_restore(context: WorkspaceContext, target: RestoreTarget, only: Sequence[str] = ()) -> RestorePreview:
    """Return a preview with the diff of each file, for a person to look at. Raises as `plan_restore_to`."""
    result = plan_restore_to(context, target, only)
    point, plan = result.point, result.plan
    return RestorePreview(
        restore_document(result),
        describe_files(context, result),
        plan.is_empty,
        hash_plan(result),
        bool(point.head) and point.head != head_commit(context.workspace),
        list(point.remarks),
    )


def hash_plan(result: RestoreResult) -> str:
    """Return a name of the plan: the snapshot, and the files to write and delete. What is saved first is no part."""
    names = [result.point.id, *sorted(map(quote_path, result.plan.write)), "", *map(quote_path, result.plan.delete)]
    return sha256("\0".join(names).encode())


def describe_files(context: WorkspaceContext, result: RestoreResult) -> list[FileRestore]:
    write, delete = result.plan.write, result.plan.delete
    compared = dict(list(write.items())[:MAX_DIFFS])
    then = context.snapshots.read_contents(compared)
    context.snapshots.close()
    found: list[FileRestore] = []
    for path, entry in write.items():
        change = "write" if os.path.lexists(context.workspace.root / path) else "create"
        if path not in compared or entry.mode == "120000":
            note = "a symbolic link" if path in compared else NOT_COMPARED
            found.append(FileRestore(quote_path(path), change, note=note))
        else:
            found.append(describe_file(context, path, change, read_present(context, path), then[path]))
    for number, path in enumerate(delete):
        if len(compared) + number >= MAX_DIFFS:
            found.append(FileRestore(quote_path(path), "delete", note=NOT_COMPARED))
        else:
            found.append(describe_file(context, path, "delete", read_present(context, path), b""))
    return found


def describe_file(
    context: WorkspaceContext, path: str, change: Literal["write", "create", "delete"], now: bytes, then: bytes
) -> FileRestore:
    note = diff = ""
    if is_secret_path(path):
        note = "it may hold secrets, and is not shown"
    elif max(len(now), len(then)) > MAX_DIFF_BYTES:
        note = f"too large to show: {len(now)} bytes now, {len(then)} then"
    elif b"\0" in now or b"\0" in then:
        note = f"not text: {len(now)} bytes now, {len(then)} then"
    else:
        lines = redact(context.contents.unified_diff(now, then)).splitlines()
        left = len(lines) - MAX_DIFF_LINES
        diff = "\n".join([*lines[:MAX_DIFF_LINES], *([f"… and {left} lines more"] if left > 0 else [])])
        note = "" if diff else "empty" if not (now or then) else "only its mode changes"
    return FileRestore(quote_path(path), change, diff, note)


def read_present(context: WorkspaceContext, path: str) -> bytes:
    """Return the present content; empty for no file. What cannot be shown as text is returned as a NUL."""
    try:
        return read_regular_file(context.workspace.root / path, MAX_READ_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return b""
    except OSError:
        return b"\0"  # a link, a folder, or a file that is too large


# Undo of one session


class SessionUndoPreview(Struct, frozen=True):
    """What the undo of a session would do, as data and file by file. `plan_sha256` names the plan that a person saw."""

    plan: dict[str, Any]
    files: list[FileRestore]
    is_empty: bool
    plan_sha256: str


def list_session_changes(context: WorkspaceContext, session: str) -> tuple[SessionChange, ...] | None:
    """Return the changes that a session's records name; None if no record names the session."""
    with context.index() as index:
        if not index.find(session_id=session, limit=1):
            return None
        return join_session_changes(index.iterate_records(session_id=session, event="mutation"))


def preview_session_undo(context: WorkspaceContext, session: str, plan: restore.SessionUndo) -> SessionUndoPreview:
    """Return a preview of `plan` with the diff of each file, for a person to look at."""
    files: list[FileRestore] = []
    for path in (*plan.write, *plan.delete):
        then = plan.write.get(path)
        is_there = os.path.lexists(context.workspace.root / path)
        change = "delete" if then is None else "write" if is_there else "create"
        if len(files) >= MAX_DIFFS:
            files.append(FileRestore(quote_path(path), change, note=NOT_COMPARED))
        else:
            files.append(describe_file(context, path, change, read_present(context, path), then or b""))
    return SessionUndoPreview(session_undo_document(session, plan), files, plan.is_empty, hash_session_undo(plan))


def hash_session_undo(plan: restore.SessionUndo) -> str:
    """Return a name of the plan: the contents to write, and the files to delete and to leave alone."""
    parts = [f"{quote_path(path)} {sha256(content)}" for path, content in sorted(plan.write.items())]
    return sha256("\0".join([*parts, "", *map(quote_path, plan.delete), "", *map(quote_path, plan.left)]).encode())


def session_undo_document(session: str, plan: restore.SessionUndo) -> dict[str, Any]:
    return {
        "session_id": session,
        "saved": None,
        "write": list(map(quote_path, plan.write)),
        "delete": list(map(quote_path, plan.delete)),
        "left": quote_keys(plan.left),
    }


# As data and in words


def snapshot_document(snapshot: Snapshot) -> dict[str, Any]:
    occasion = snapshot.occasion
    origin = {"intent_id": occasion.intent, "session_id": occasion.session, "agent": occasion.agent}
    origin |= {"tool": occasion.tool, "command": occasion.command}
    return {
        "id": snapshot.id,
        "at": datetime.fromtimestamp(snapshot.at, UTC).isoformat(timespec="milliseconds"),
        "before": occasion.kind,
        "commit": snapshot.commit or None,
        "head": snapshot.head,
        "files": snapshot.files,
        "left": {quote_path(decode_path(path)): why for path, why in snapshot.left.items()},
        "remarks": snapshot.remarks,
        **{key: value for key, value in origin.items() if value},
    }


def data_point_document(point: DataPoint) -> dict[str, Any]:
    row = snapshot_document(Snapshot(point.name, point.at, point.root, point.occasion, len(point.files)))
    return {**row, "data": [quote_path(decode_path(path)) for path in point.files], "pinned": False}


def restore_document(result: RestoreResult) -> dict[str, Any]:
    """Return the plan or result of a restore as data."""
    return {
        "point": snapshot_document(result.point),
        "saved": result.saved.id if result.saved else None,
        "write": [quote_path(path) for path in result.plan.write],
        "delete": [quote_path(path) for path in result.plan.delete],
        "stay": [quote_path(path) for path in result.plan.untouched],
        "left": quote_keys(result.plan.not_restorable),
        "failed": quote_keys(result.failed),
    }


def quote_keys(reasons: Mapping[str, str]) -> dict[str, str]:
    return {quote_path(path): why for path, why in reasons.items()}


def describe_occasion(snapshot: Snapshot | DataPoint) -> str:
    """Return the event that the snapshot, or the copy of runtime data, precedes."""
    occasion = snapshot.occasion
    command = sanitise_line(occasion.command or occasion.tool, 60)
    match occasion.kind:
        case "session":
            agent = f" of {sanitise_line(occasion.agent, 20)}" if occasion.agent else ""
            return f"before session {sanitise_line(occasion.session, 40)}{agent}"
        case "undone":
            return f"before what {command} did out of scope was undone ({occasion.intent})"
        case "restore":
            return f"before the restore of {sanitise_line(occasion.point, 40)}"
        case _:
            return " ".join(filter(None, ("before", command, f"({occasion.intent})" if occasion.intent else "")))


def unquote_selection(names: Collection[str], result: RestoreResult) -> list[str]:
    """Return the paths of a plan with these quoted names."""
    return [path for path in (*result.plan.write, *result.plan.delete) if quote_path(path) in names]
