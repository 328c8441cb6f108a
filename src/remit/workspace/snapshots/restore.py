"""Restore of a snapshot: the present is saved first, and the next run finishes a killed restore."""

import os
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec
from msgspec import Struct

from remit.core.diff.contents import sha256
from remit.workspace.files.atomic import FileToWrite, delete_file, remove_temporary_files, write_atomically, write_files
from remit.workspace.files.locks import try_lock
from remit.workspace.git.command import Git
from remit.workspace.git.hidden_files import read_index_flags
from remit.workspace.place.workspace import Workspace
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

MAX_FILES_IN_MEMORY = 200
"""Files whose contents are held in memory together."""

ATTRIBUTES_FILE = ".gitattributes"


class RestorePlan(Struct, frozen=True):
    """Actions per file: `write` from the snapshot, `delete`, `untouched` later files, `not_restorable` with reasons.

    Overwritten and deleted files must be in the snapshot of the present.
    """

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
    wanted = {p: e for p, e in then.items() if p in now or p not in present.hidden or p in overlooked}
    write = {
        p: e
        for p, e in wanted.items()
        if p not in left and is_path_selected(p, only) and not e.has_same_content(now.get(p))
    }
    later = [p for p in now if p not in then and p not in left]
    blocking = find_blocking_files(write, later)
    delete = {p for p in later if p in blocking or (is_path_selected(p, only) and may_delete(p, present, now[p], made))}
    stay = (p for p in later if p not in delete and is_path_selected(p, only))
    return RestorePlan(
        write, tuple(sorted(delete)), tuple(sorted(stay)), {p: w for p, w in left.items() if is_path_selected(p, only)}
    )


def may_delete(path: str, present: PresentFiles, entry: SnapshotFile, made: Listing | None) -> bool:
    return path in present.tracked or (made is not None and entry.has_same_content(made.get(path)))


def find_blocking_files(write: Iterable[str], later: Collection[str]) -> set[str]:
    """Return later files at the place of a needed folder, or below a folder that must become a file."""
    files = set(write)
    folders = {above for path in files for above in parent_folders(path)}
    return {p for p in later if p in folders or any(above in files for above in parent_folders(p))}


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
        clock: Callable[[], float],
        max_mib: int = 50,
        *,
        secrets: bool = True,
    ) -> None:
        self.secrets = secrets
        self.workspace = workspace
        self.store = store
        self.clock = clock
        self.max_mib = max_mib
        path = workspace.state / "restores" / sha256(os.fsencode(workspace.root))[:16]
        self.journal, self.lock = path.with_suffix(".json"), path.with_suffix(".lock")

    @contextmanager
    def lock_restores(self) -> Generator[None]:
        """Allow a single restore at a time. Raises RestoreRunning."""
        self.lock.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with try_lock(self.lock) as is_free:
            if not is_free:
                raise RestoreRunning("another restore is under way here; wait until it ends")
            yield

    def read_journal(self) -> RestoreJournal | None:
        """Return the journal of an unfinished restore; None if none."""
        try:
            return msgspec.json.decode(self.journal.read_bytes(), type=RestoreJournal)
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
            occasion = Occasion("resume", point=point.id)
            present, saved = self.read_present(occasion, point)
            plan = exclude_unsaved(self.build_plan(point, present, only, undoing), unsaved_reasons(saved))
            self.store.forget([saved])
            return RestoreResult(point, plan)

    def restore(self, point: Snapshot, only: Sequence[str] = (), undoing: Snapshot | None = None) -> RestoreResult:
        """Restore a snapshot. Raises GitError, OSError if the present cannot be saved; no file is changed then."""
        with self.lock_restores():
            return self.perform(point, only, Occasion("restore", point=point.id), undoing)

    def perform(
        self, point: Snapshot, only: Sequence[str], occasion: Occasion, undoing: Snapshot | None
    ) -> RestoreResult:
        """Save the present, write the journal, write and delete files."""
        # 1. Save the present; files that cannot be saved leave the plan.
        present, saved = self.read_present(occasion, point)
        plan = exclude_unsaved(self.build_plan(point, present, only, undoing), unsaved_reasons(saved))
        if plan.is_empty:
            self.store.forget([saved])
            return RestoreResult(point, plan)
        # 2. Note the restore, so that the next run can finish after a crash.
        self.write_journal(saved.id, point, only, plan, undoing)
        # 3. Delete and write files.
        failed = self.write_and_delete(
            plan, saved.id, {decode_path(path): bits for path, bits in point.permissions.items()}
        )
        self.journal.unlink(missing_ok=True)
        return RestoreResult(point, plan, saved, failed, undoing.id if undoing else "")

    def write_journal(
        self, name: str, point: Snapshot, only: Sequence[str], plan: RestorePlan, undoing: Snapshot | None
    ) -> None:
        folders = tuple(dict.fromkeys(encode_path(path.rpartition("/")[0]) for path in plan.write))
        entry = RestoreJournal(name, point.id, tuple(map(encode_path, only)), folders, undoing.id if undoing else "")
        write_atomically(self.journal, msgspec.json.encode(entry), 0o600)

    def write_and_delete(self, plan: RestorePlan, name: str, permissions: Mapping[str, int]) -> dict[str, str]:
        """Carry out the plan, deletions first; return failures with reasons."""
        root = self.workspace.root
        failed = {path: reason for path in plan.delete if (reason := delete_file(root, path)) is not None}
        for entries in split_into_batches(plan.write):
            found = self.store.read_contents(entries)
            failed |= write_files(
                root, {p: FileToWrite(e.mode, found[p], permissions.get(p)) for p, e in entries.items()}, name
            )
        return failed

    def build_plan(
        self, point: Snapshot, present: PresentFiles, only: Sequence[str], undoing: Snapshot | None
    ) -> RestorePlan:
        left = {decode_path(path): reason for path, reason in point.left.items()}
        overlooked = frozenset(map(decode_path, point.overlooked))
        made = self.store.list_files(undoing) if undoing else None
        return plan_restore(
            self.store.list_files(point), present, left=left, overlooked=overlooked, made=made, only=only
        )

    def apply_changes(self, files: Mapping[str, FileToWrite], delete: Sequence[str], occasion: Occasion) -> ApplyResult:
        """Save the present, write and delete these files. Files that cannot be saved stay untouched.

        Raises GitError, OSError if the present cannot be saved; no file is changed then.
        """
        with self.lock_restores():
            saved = self.save_present(occasion, read_files(self.workspace, [*files, *delete]))
            failed = {
                path: reason for path, reason in unsaved_reasons(saved).items() if path in files or path in delete
            }
            gone = {
                path: reason
                for path in delete
                if path not in failed and (reason := delete_file(self.workspace.root, path))
            }
            write = {path: file for path, file in files.items() if path not in failed}
            return ApplyResult(saved, {**failed, **gone, **write_files(self.workspace.root, write, saved.id)})

    def save_present(self, occasion: Occasion, more: FilesByPath) -> Snapshot:
        """Take a snapshot of the present, including these files that git does not report."""
        there = {path: seen for path, seen in more.items() if seen is not None}
        return take_snapshot(
            self.store,
            self.workspace,
            occasion,
            {**read_files(self.workspace), **there},
            at=self.clock(),
            max_mib=self.max_mib,
            secrets=self.secrets,
            overlooked=read_index_flags(self.workspace).overlooked,
        )

    def read_present(self, occasion: Occasion, point: Snapshot) -> tuple[PresentFiles, Snapshot]:
        """Return the present files, and the snapshot that holds them."""
        saved = self.save_present(occasion, self.find_ignored_files(point))
        flags = read_index_flags(self.workspace).overlooked
        hidden = frozenset(path for path in flags if not os.path.lexists(self.workspace.root / path))
        return PresentFiles(self.store.list_files(saved), self.list_tracked_files(), hidden), saved

    def find_ignored_files(self, point: Snapshot) -> FilesByPath:
        """Return files of the snapshot that git ignores by now: they are saved nevertheless."""
        if self.workspace.common_dir is None:
            return {}
        tracked = self.list_tracked_files()
        there = read_files(self.workspace, (p for p in self.store.list_files(point) if p not in tracked))
        return {path: found for path, found in there.items() if found is not None}

    def list_tracked_files(self) -> frozenset[str]:
        if self.workspace.common_dir is None:
            return frozenset()
        out = Git(self.workspace.root).run("ls-files", "-z")
        return frozenset(os.fsdecode(path) for path in out.split(b"\0") if path)


def unsaved_reasons(saved: Snapshot) -> dict[str, str]:
    """Return files that could not be saved: they stay untouched, since no restore could bring them back."""
    return {decode_path(path): f"it could not be saved: {reason}" for path, reason in saved.left.items()}


def exclude_unsaved(plan: RestorePlan, unsaved: Mapping[str, str]) -> RestorePlan:
    unsaved = {p: reason for p, reason in unsaved.items() if p in plan.write or p in plan.delete}
    write = {p: e for p, e in plan.write.items() if p not in unsaved}
    return RestorePlan(
        write, tuple(p for p in plan.delete if p not in unsaved), plan.untouched, {**plan.not_restorable, **unsaved}
    )


def split_into_batches(entries: Listing) -> Iterator[dict[str, SnapshotFile]]:
    """Yield the files in batches, `.gitattributes` first: git needs them for line endings."""
    first = [name for name in entries if name.rpartition("/")[2] == ATTRIBUTES_FILE]
    rest = [name for name in entries if name.rpartition("/")[2] != ATTRIBUTES_FILE]
    for start in range(0, len(first), MAX_FILES_IN_MEMORY):
        yield {name: entries[name] for name in first[start : start + MAX_FILES_IN_MEMORY]}
    for start in range(0, len(rest), MAX_FILES_IN_MEMORY):
        yield {name: entries[name] for name in rest[start : start + MAX_FILES_IN_MEMORY]}
