"""Restore of a snapshot: the present is saved first, and the next run finishes a killed restore."""

import os
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec
from msgspec import Struct

from remit.core.clock import Clock
from remit.core.diff.contents import sha256
from remit.core.python_runtime import prepare_type
from remit.workspace.git.command import Git
from remit.workspace.git.ignored_files import read_index_flags
from remit.workspace.place.workspace import Workspace
from remit.workspace.safe_files import (
    FileToWrite,
    ObservedFile,
    delete_file,
    remove_temporary_files,
    try_lock,
    write_atomically,
    write_files,
)
from remit.workspace.snapshots.snapshot import (
    FilesByPath,
    Listing,
    Occasion,
    Snapshot,
    SnapshotFile,
    SnapshotStore,
    decode_path,
    encode_path,
    parent_folders,
    read_files,
    take_snapshot,
)

MAX_FILES_IN_MEMORY = 200  # files whose contents are held in memory together
ATTRIBUTES_FILE = ".gitattributes"


class RestorePlan(Struct, frozen=True):
    """Actions per file; `untouched` are later files. Overwritten and deleted files are in the present's snapshot."""

    write: dict[str, SnapshotFile] = {}
    delete: tuple[str, ...] = ()
    untouched: tuple[str, ...] = ()
    not_restorable: dict[str, str] = {}

    @property
    def is_empty(self) -> bool:
        return not self.write and not self.delete


class PresentFiles(Struct, frozen=True):
    """The present state. `hidden` are files missing on disk that git is told to pass over."""

    files: Listing
    tracked: Collection[str] = frozenset()
    hidden: Collection[str] = frozenset()


def plan_restore(
    then: Listing,
    present: PresentFiles,
    *,
    left: dict[str, str],
    overlooked: Collection[str] = frozenset(),
    made: Listing | None = None,
    only: Collection[str] = (),
) -> RestorePlan:
    """Return the plan. `made` lists the files of an earlier restore, deleted when the restore is undone.

    Later files stay, unless git tracks them or they block a file of the snapshot.
    """
    now = {path: entry for path, entry in present.files.items() if path not in present.hidden}
    write = {
        p: e
        for p, e in then.items()
        if (p in now or p not in present.hidden or p in overlooked)
        and p not in left
        and is_path_selected(p, only)
        and not e.has_same_content(now.get(p))
    }
    folders = {above for path in write for above in parent_folders(path)}
    delete: list[str] = []
    stay: list[str] = []
    for path in sorted(now.keys() - then.keys() - left.keys()):
        # At the place of a needed folder, or below a folder that must become a file.
        is_blocking = path in folders or any(above in write for above in parent_folders(path))
        may_delete = path in present.tracked or (made is not None and now[path].has_same_content(made.get(path)))
        if is_blocking or (may_delete and is_path_selected(path, only)):
            delete.append(path)
        elif is_path_selected(path, only):
            stay.append(path)
    lost = {path: reason for path, reason in left.items() if is_path_selected(path, only)}
    return RestorePlan(write, tuple(delete), tuple(stay), lost)


def is_path_selected(path: str, only: Collection[str]) -> bool:
    """Return whether the path is selected, or lies below a selected path; an empty selection means each path."""
    return not only or path in only or any(above in only for above in parent_folders(path))


class RestoreRunning(RuntimeError):
    """A restore of this workspace is running already."""


class RestoreJournal(Struct, frozen=True):
    """A restore in progress: target, selected paths, and the folders to write."""

    id: str
    point: str
    only: tuple[str, ...]
    folders: tuple[str, ...]
    undoing: str = ""


class RestoreResult(Struct, frozen=True):
    """Result of a restore. `saved` is the state before; None for a preview or an empty plan."""

    point: Snapshot
    plan: RestorePlan
    saved: Snapshot | None = None
    failed: dict[str, str] = {}
    undoing: str = ""


class ApplyResult(Struct, frozen=True):
    """Changes applied to files: the snapshot of the state before, and failures with reasons."""

    saved: Snapshot
    failed: dict[str, str]


class Restorer:
    """Restores of a workspace. `clock` gives the time for saved snapshots."""

    def __init__(
        self,
        workspace: Workspace,
        store: SnapshotStore,
        clock: Clock,
        max_mib: int = 50,
        *,
        secrets: bool = True,
    ) -> None:
        self.workspace, self.store, self.clock = workspace, store, clock
        self.max_mib, self.secrets = max_mib, secrets
        path = workspace.state / "restores" / sha256(os.fsencode(workspace.root))[:16]
        self.journal, self.lock = path.with_suffix(".json"), path.with_suffix(".lock")

    @contextmanager
    def lock_restores(self) -> Generator[None]:
        self.lock.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with try_lock(self.lock) as is_free:
            if not is_free:
                raise RestoreRunning("another restore is under way here; wait until it ends")
            yield

    def read_journal(self) -> RestoreJournal | None:
        try:
            return msgspec.json.decode(self.journal.read_bytes(), type=prepare_type(RestoreJournal))
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def finish_interrupted(self) -> RestoreResult | None:
        """Finish an interrupted restore; None if none, or its snapshot is gone. Raises GitError, OSError."""
        found = self.read_journal()
        if found is None:
            return None
        with self.lock_restores():
            remove_temporary_files(self.workspace.root, dict.fromkeys(map(decode_path, found.folders)), found.id)
            known = {s.id: s for s in self.store.list_snapshots()}
            done = None
            if found.point in known:
                occasion = Occasion("resume", point=found.point)
                only = tuple(map(decode_path, found.only))
                done = self.perform(known[found.point], only, occasion, known.get(found.undoing))
            self.journal.unlink(missing_ok=True)
            return done

    def preview(self, point: Snapshot, only: Sequence[str] = (), undoing: Snapshot | None = None) -> RestoreResult:
        """Return what a restore would do. Writes only Remit's own folder, to compare the present as a snapshot."""
        with self.lock_restores():
            plan, saved = self.plan_and_save(point, only, Occasion("resume", point=point.id), undoing)
            self.store.forget([saved])
            return RestoreResult(point, plan)

    def restore(self, point: Snapshot, only: Sequence[str] = (), undoing: Snapshot | None = None) -> RestoreResult:
        with self.lock_restores():
            return self.perform(point, only, Occasion("restore", point=point.id), undoing)

    def perform(
        self, point: Snapshot, only: Sequence[str], occasion: Occasion, undoing: Snapshot | None
    ) -> RestoreResult:
        """Save the present, write the journal, write and delete files."""
        plan, saved = self.plan_and_save(point, only, occasion, undoing)
        if plan.is_empty:
            self.store.forget([saved])
            return RestoreResult(point, plan)
        self.write_journal(saved.id, point, only, plan, undoing)
        # Deletions first.
        root, bits = self.workspace.root, {decode_path(path): bits for path, bits in point.permissions.items()}
        failed = {path: reason for path in plan.delete if (reason := delete_file(root, path)) is not None}
        for entries in split_into_batches(plan.write):
            found = self.store.read_contents(entries)
            files = {p: FileToWrite(e.mode, found[p], bits.get(p)) for p, e in entries.items()}
            failed |= write_files(root, files, saved.id)
        self.journal.unlink(missing_ok=True)
        return RestoreResult(point, plan, saved, failed, undoing.id if undoing else "")

    def write_journal(
        self, name: str, point: Snapshot, only: Sequence[str], plan: RestorePlan, undoing: Snapshot | None
    ) -> None:
        folders = tuple(dict.fromkeys(encode_path(path.rpartition("/")[0]) for path in plan.write))
        entry = RestoreJournal(name, point.id, tuple(map(encode_path, only)), folders, undoing.id if undoing else "")
        write_atomically(self.journal, msgspec.json.encode(entry), 0o600)

    def plan_and_save(
        self, point: Snapshot, only: Sequence[str], occasion: Occasion, undoing: Snapshot | None
    ) -> tuple[RestorePlan, Snapshot]:
        then, tracked, ignored = self.store.list_files(point), frozenset[str](), dict[str, ObservedFile | None]()
        if self.workspace.common_dir is not None:
            out = Git(self.workspace.root).run("ls-files", "-z")
            tracked = frozenset(os.fsdecode(path) for path in out.split(b"\0") if path)
            # Files of the snapshot that git ignores by now are saved nevertheless.
            ignored = read_files(self.workspace, (path for path in then if path not in tracked))
        saved = self.save_present(occasion, ignored)
        flags = read_index_flags(self.workspace).overlooked
        hidden = frozenset(path for path in flags if not os.path.lexists(self.workspace.root / path))
        now = self.store.list_files(saved)
        plan = plan_restore(
            then,
            PresentFiles(now, tracked, hidden),
            left={decode_path(path): reason for path, reason in point.left.items()},
            overlooked=frozenset(map(decode_path, point.overlooked)),
            made=self.list_made(undoing, now) if undoing else None,
            only=only,
        )
        unsaved = unsaved_reasons(saved, {*plan.write, *plan.delete})
        write = {path: entry for path, entry in plan.write.items() if path not in unsaved}
        delete = tuple(path for path in plan.delete if path not in unsaved)
        return RestorePlan(write, delete, plan.untouched, {**plan.not_restorable, **unsaved}), saved

    def list_made(self, undoing: Snapshot, now: Listing) -> Listing:
        """Return the files of the snapshot whose restore is undone. Once git tracks a file no more whose name suggests
        a secret, its content is stored elsewhere, under another name: then the bytes are compared.
        """
        made = self.store.list_files(undoing)
        moved = {p: e for p, e in made.items() if p in now and (now[p].mode, not now[p].private) == (e.mode, e.private)}
        before = self.store.read_contents(moved) if moved else {}
        present = self.store.read_contents({path: now[path] for path in moved}) if moved else {}
        return made | {path: now[path] for path in moved if path in before and before[path] == present.get(path)}

    def apply_changes(self, files: Mapping[str, FileToWrite], delete: Sequence[str], occasion: Occasion) -> ApplyResult:
        """Save the present, write and delete files; unsaved ones stay. Raises GitError, OSError: no file is changed."""
        root = self.workspace.root
        with self.lock_restores():
            saved = self.save_present(occasion, read_files(self.workspace, [*files, *delete]))
            failed = unsaved_reasons(saved, {*files, *delete})
            write = {path: file for path, file in files.items() if path not in failed}
            gone = {path: why for path in delete if path not in failed and (why := delete_file(root, path))}
            return ApplyResult(saved, {**failed, **gone, **write_files(root, write, saved.id)})

    def save_present(self, occasion: Occasion, more: FilesByPath) -> Snapshot:
        """Take a snapshot of the present, including these files that git does not report."""
        there = {path: seen for path, seen in more.items() if seen is not None}
        return take_snapshot(
            self.store,
            self.workspace,
            occasion,
            {**read_files(self.workspace), **there},
            at=self.clock.now(),
            max_mib=self.max_mib,
            secrets=self.secrets,
            overlooked=read_index_flags(self.workspace).overlooked,
        )


def unsaved_reasons(saved: Snapshot, paths: Collection[str]) -> dict[str, str]:
    """Return the `paths` that could not be saved: they stay untouched, since no restore could bring them back."""
    left = {decode_path(path): reason for path, reason in saved.left.items()}
    return {path: f"it could not be saved: {reason}" for path, reason in left.items() if path in paths}


def split_into_batches(entries: Listing) -> Iterator[dict[str, SnapshotFile]]:
    first = [name for name in entries if name.rpartition("/")[2] == ATTRIBUTES_FILE]
    rest = [name for name in entries if name.rpartition("/")[2] != ATTRIBUTES_FILE]
    for names in (first, rest):
        for start in range(0, len(names), MAX_FILES_IN_MEMORY):
            yield {name: entries[name] for name in names[start : start + MAX_FILES_IN_MEMORY]}
