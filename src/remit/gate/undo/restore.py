"""Restores: the moment that a person names and the snapshot from before it, the records of restores, undo of one
session's changes and of one hunk, and the way back to a copy of runtime data.

The ledger tells when something began; an agent whose file tools alone changed files left no snapshot of its own, and
the one from before it counts. A database that is there gets its copy by SQLite itself, so that a server which has it
open reads it at once; other files are written anew. What is there now is copied first.
"""

import os
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct

from remit.core.record import KEY, Body, format_utc, match_ids
from remit.core.runtime_data import SIBLINGS, DataVersion
from remit.core.untrusted_input import quote_path
from remit.gate.context import WorkspaceContext
from remit.gate.undo.snapshots import SnapshotTaker
from remit.ledger.file_changes import SessionChange
from remit.ledger.index.index import Index
from remit.ledger.parse_time import NotATime, parse_time
from remit.workspace.contents.content_store import ContentStore, scratch_files
from remit.workspace.git.command import Git, GitError
from remit.workspace.safe_files import FileToWrite, delete_file, write_files
from remit.workspace.snapshots.data_store import DataPoint, DataStore, is_sqlite, list_point_paths, open_sqlite
from remit.workspace.snapshots.restore import ApplyResult, Restorer, RestoreResult, is_path_selected
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


def revert_change(
    context: WorkspaceContext, path: str, before: bytes | None, after: bytes | None, hunk_id: str
) -> ApplyResult:
    """Take the change from `before` to `after` out of the file as it is now, after a snapshot of the present: `remit
    restore undo` brings it back. Raises CannotUndo, GitError, OSError; no file is changed then.
    """
    now = read_current(context.workspace.root / path)
    left = take_out(context.workspace.state, before, after, now)
    if left == now:
        raise CannotUndo("it is taken out already")
    plan = SessionUndo({} if left is None else {path: left}, (path,) if left is None else (), {})
    return apply_undo(context, plan, Occasion("restore"), {"why": "a person took a hunk back", "hunk": hunk_id})


WORK_EVENTS = frozenset({"mutation", "generated", "data_changed"})
WORK_EFFECTS = frozenset({"write", "delete", "execute"})
"""What a call has done, or may do, that changes a file."""

CHANGE_EVENTS = ("mutation", "human_edit")
SEARCHED_CALLS = 5000
SHORTEST_ID_PART = 6
STATE_KINDS = ("call", "session", "restore")


class Moment(Struct, frozen=True):
    """When something began: the time as records have it, in words, and the call that began it."""

    at: str
    about: str
    session: str = ""
    call: str = ""


def find_snapshot_before(context: WorkspaceContext, found: Sequence[Snapshot], what: str) -> Snapshot:
    """Return the state before what a person names. `found` has the newest first. Raises NoSuchSnapshot."""
    with context.index() as index:
        moment = find_moment(context, index, what)
    if moment is None:
        of_command = (s for s in found if s.occasion.kind == "call" and what in (s.occasion.command or s.occasion.tool))
        if (snapshot := next(of_command, None)) is not None:
            return snapshot
        raise NoSuchSnapshot(
            f"no snapshot precedes {what!r}: no intent, session, call, record or time of that name, no command with "
            "these words; `remit restore list` shows what there is"
        )
    states = [s for s in found if s.occasion.kind in STATE_KINDS]
    own = (s for s in states if moment.call and (s.occasion.session, s.occasion.call) == (moment.session, moment.call))
    snapshot = next(own, None) or next((s for s in states if format_time(s.at) <= moment.at), None)
    if snapshot is None:
        raise NoSuchSnapshot(f"{moment.about} began at {moment.at}, and no snapshot is that old")
    return snapshot


def find_moment(context: WorkspaceContext, index: Index, what: str) -> Moment | None:
    """Return when the named thing began; None for a text that names none by itself."""
    if index.list_values("intent_id", 1, prefix=what) == (what,):
        return find_first_work(index, f"the work under {what}", intent_id=what)
    sessions = match_ids(what, index.list_values("session_id", prefix=what)) if len(what) >= SHORTEST_ID_PART else ()
    sessions = sessions or index.list_values("session_id", 1, prefix=what)
    if sessions and (what in sessions or (len(what) >= SHORTEST_ID_PART and len(sessions) == 1)):
        return find_first_work(index, f"session {sessions[0]}", session_id=sessions[0])
    with suppress(NotATime):
        at = parse_time(what, datetime.fromtimestamp(context.environment.clock.now(), UTC))
        return Moment(at, what)
    for document in index.find(event="tool_use", limit=SEARCHED_CALLS):
        if document["metadata"][KEY].get("call", {}).get("id") == what:
            return moment_of(document, f"the call {what}")
    part = len(what) >= SHORTEST_ID_PART and what.replace("-", "").isalnum()
    records = (index.find_by_id_prefix(what) or index.find_by_id_part(what)) if part else []
    return moment_of(records[0], f"the record {what}") if len(records) == 1 else None


def find_first_work(index: Index, about: str, **by: Any) -> Moment | None:
    first: dict[str, Any] | None = None
    for document in index.iterate_records(**by):
        body: dict[str, Any] = document["metadata"][KEY]
        call: dict[str, Any] = body.get("call") or {}
        first = first or (document if body.get("event") in ("intent_selected", "session_start") else None)
        is_own = str(call.get("name")).startswith("mcp__remit__") or str(call.get("command")).startswith("remit ")
        may_change = body.get("event") == "tool_use" and call.get("effect") in WORK_EFFECTS and not is_own
        if may_change or body.get("event") in WORK_EVENTS:
            return moment_of(document, about)
    return moment_of(first, about) if first else None


def moment_of(document: dict[str, Any], about: str) -> Moment:
    body: dict[str, Any] = document["metadata"][KEY]
    call: dict[str, Any] = body.get("call") or {}
    return Moment(str(document["timestamp"]), about, str(body.get("session_id") or ""), str(call.get("id") or ""))


def format_time(at: float) -> str:
    return format_utc(datetime.fromtimestamp(at, UTC))


def count_changes_between(context: WorkspaceContext, snapshot: Snapshot, what: str) -> int:
    """Return how many recorded changes lie between a snapshot and what a person named: they go back as well."""
    with context.index() as index:
        moment = find_moment(context, index, what)
        if moment is None:
            return 0
        since = format_time(snapshot.at)
        return sum(index.count_matching(event=event, since=since, until=moment.at) for event in CHANGE_EVENTS)


MADE_MODE = "100644"


class DataRestore(Struct, frozen=True):
    """A restore of runtime data, planned or done: the copy of each path, and the point that holds what was there."""

    point: DataPoint
    copies: dict[str, str]
    saved: str = ""
    failed: dict[str, str] = {}


def plan_data_restore(context: WorkspaceContext, name: str, only: Sequence[str] = ()) -> DataRestore:
    """Return what a point brings back. Raises NoSuchSnapshot, OSError."""
    point = DataStore(context.workspace).find_point(name)
    if point is None:
        raise NoSuchSnapshot(f"no copy of runtime data is named {name!r}; `remit restore list` shows what there is")
    return DataRestore(point, {p: key for p, key in list_point_paths(point).items() if is_path_selected(p, only)})


def restore_data(context: WorkspaceContext, plan: DataRestore) -> DataRestore:
    """Keep the present, bring the copies back and record it. Raises OSError before any change."""
    store, root = DataStore(context.workspace), context.workspace.root
    found = {path: version for path in plan.copies if (version := store.copy_file(path)) is not None}
    saved = save_present(context, store, plan.point.name, found)
    failed: dict[str, str] = {}
    for path, key in plan.copies.items():
        try:
            why = bring_back(root, path, store.copy_path(key))
        except OSError as error:
            why = error.strerror or str(error)
        failed |= {path: why} if why else {}
    done = [quote_path(path) for path in plan.copies if path not in failed]
    detail: dict[str, object] = {"saved": saved, "written": len(done), "deleted": 0, "paths": done}
    detail |= {"to": plan.point.name}
    detail |= {"failed": {quote_path(path): why for path, why in failed.items()}} if failed else {}
    body = Body(event="restore", intent_id=None, session_id=None, detail=detail)
    context.recorder.append_or_spool([context.recorder.make_record(body)])
    return DataRestore(plan.point, plan.copies, saved, failed)


def save_present(context: WorkspaceContext, store: DataStore, name: str, versions: Mapping[str, DataVersion]) -> str:
    made = store.write_point(Occasion("restore", point=name), versions, context.environment.clock.now())
    return made.name if made else ""


def bring_back(root: Path, path: str, copy: Path) -> str:
    """Put a copy in its place; return why it could not be put there. Raises OSError."""
    target = root / path
    if is_sqlite(target) and is_sqlite(copy):
        try:
            with closing(open_sqlite(copy, "ro&immutable=1")) as old, closing(open_sqlite(target)) as new:
                old.backup(new)
        except sqlite3.Error as error:
            return f"{error}: end what has it open, and try again"
        return ""
    for ending in SIBLINGS:
        # A log of another version would be read into this one.
        delete_file(root, f"{path}{ending}")
    permissions = target.stat().st_mode & 0o777 if target.is_file() else None
    file = FileToWrite(MADE_MODE, copy.read_bytes(), permissions)
    return write_files(root, {path: file}, "data").get(path, "")
