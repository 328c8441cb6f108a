"""Going back to a copy of runtime data. A database that is there gets the copy by SQLite itself, so that a server which
has it open reads it at once; other files are written anew. What is there now is copied first.
"""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

from msgspec import Struct

from remit.core.record import Body
from remit.core.runtime_data import SIBLINGS, DataVersion
from remit.core.untrusted_input import quote_path
from remit.gate.context import WorkspaceContext
from remit.gate.snapshots.restore import NoSuchSnapshot
from remit.workspace.safe_files import FileToWrite, delete_file, write_files
from remit.workspace.snapshots.data_store import DataPoint, DataStore, is_sqlite, list_point_paths, open_sqlite
from remit.workspace.snapshots.restore import is_path_selected
from remit.workspace.snapshots.snapshot import Occasion

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
