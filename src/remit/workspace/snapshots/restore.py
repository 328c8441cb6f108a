"""Going back to a snapshot: the present is saved first, and a restore that was killed is finished by the next one.

What going back to a snapshot would do to each file. Pure.
"""

import fcntl
import os
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec
from msgspec import Struct

from remit.core.diff.contents import sha256
from remit.workspace.files.atomic import FileToWrite, delete_file, remove_temporary_files, write_atomically, write_files
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


class RestorePlan(Struct, frozen=True):
    """`write` gets the snapshot's files, `delete` goes, `stay` came later and is not touched, `left` is not restorable.

    All that is overwritten or deleted must be in the snapshot of the present that is taken before.
    """

    write: dict[str, SnapshotFile] = {}
    delete: tuple[str, ...] = ()
    untouched: tuple[str, ...] = ()
    not_restorable: dict[str, str] = {}

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not self.write and not self.delete


class PresentFiles(Struct, frozen=True):
    """What is there now. `hidden` are files that git is told to overlook and that are not on disk."""

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
    """The plan. `made` is what an earlier restore had put there: undoing it takes its files away again.

    Files that came later stay, unless git tracks them, or they stand where a file of the snapshot has to.
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
    """Whether a later file is git's, or an earlier restore put it there."""
    return path in present.tracked or (made is not None and entry.has_same_content(made.get(path)))


def find_blocking_files(write: Iterable[str], later: Collection[str]) -> set[str]:
    """The later files that stand where a folder must be, or below a folder that must become a file."""
    files = set(write)
    folders = {above for path in files for above in parent_folders(path)}
    return {p for p in later if p in folders or any(above in files for above in parent_folders(p))}


def is_path_selected(path: str, only: Collection[str]) -> bool:
    """Whether the path is one of those asked for, or below one; all are where none is named."""
    return not only or path in only or any(above in only for above in parent_folders(path))


MAX_FILES_IN_MEMORY = 200
"""Files whose contents are in memory together."""


ATTRIBUTES_FILE = ".gitattributes"


class RestoreRunning(RuntimeError):
    """Another restore of this workspace is under way."""


class RestoreJournal(Struct, frozen=True):
    """A restore under way: where to, which paths, and the folders that it writes into."""

    id: str
    point: str
    only: tuple[str, ...]
    folders: tuple[str, ...]
    undoing: str = ""


class RestoreResult(Struct, frozen=True):
    """What a restore did. `saved` is the state before it; None where only looked, or nothing was to do."""

    point: Snapshot
    plan: RestorePlan
    saved: Snapshot | None = None
    failed: dict[str, str] = {}
    undoing: str = ""


class ApplyResult(Struct, frozen=True):
    """Changes that were made to files: the snapshot of the state before, and what could not be done, with reasons."""

    saved: Snapshot
    failed: dict[str, str]


class Restorer:
    """Restores of one workspace. `at` gives the time of what is saved."""

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
        place = workspace.state / "restores" / sha256(os.fsencode(workspace.root))[:16]
        self.journal, self.lock = place.with_suffix(".json"), place.with_suffix(".lock")

    @contextmanager
    def lock_restores(self) -> Generator[None]:
        """One restore at a time. Raises RestoreRunning."""
        self.lock.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError as error:
            raise RestoreRunning("another restore is under way here; wait until it ends") from error
        finally:
            os.close(descriptor)

    def read_journal(self) -> RestoreJournal | None:
        """The restore that did not end; None where all did."""
        try:
            return msgspec.json.decode(self.journal.read_bytes(), type=RestoreJournal)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def finish_interrupted(self) -> RestoreResult | None:
        """Finish what was interrupted; None where nothing was, or its snapshot is gone. Raises GitError, OSError."""
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
        """What a restore would do. Changes nothing but Remit's own folder: the present is compared as a snapshot is."""
        with self.lock_restores():
            occasion = Occasion("resume", point=point.id)
            present, saved = self.read_present(occasion, point)
            plan = exclude_unsaved(self.build_plan(point, present, only, undoing), unsaved_reasons(saved))
            self.store.forget([saved])
            return RestoreResult(point, plan)

    def restore(self, point: Snapshot, only: Sequence[str] = (), undoing: Snapshot | None = None) -> RestoreResult:
        """Go back. Raises GitError, OSError where the present cannot be saved: then nothing was changed."""
        with self.lock_restores():
            return self.perform(point, only, Occasion("restore", point=point.id), undoing)

    def perform(
        self, point: Snapshot, only: Sequence[str], occasion: Occasion, undoing: Snapshot | None
    ) -> RestoreResult:
        """Save, note down, write, delete."""
        present, saved = self.read_present(occasion, point)
        plan = exclude_unsaved(self.build_plan(point, present, only, undoing), unsaved_reasons(saved))
        if plan.is_empty:
            self.store.forget([saved])
            return RestoreResult(point, plan)
        self.write_journal(saved.id, point, only, plan, undoing)
        failed = self.write_and_delete(
            plan, saved.id, {decode_path(path): bits for path, bits in point.permissions.items()}
        )
        self.journal.unlink(missing_ok=True)
        return RestoreResult(point, plan, saved, failed, undoing.id if undoing else "")

    def write_journal(
        self, name: str, point: Snapshot, only: Sequence[str], plan: RestorePlan, undoing: Snapshot | None
    ) -> None:
        """Write down what is about to be done."""
        folders = dict.fromkeys(encode_path(path.rpartition("/")[0]) for path in plan.write)
        entry = RestoreJournal(
            name, point.id, tuple(map(encode_path, only)), tuple(folders), undoing.id if undoing else ""
        )
        write_atomically(self.journal, msgspec.json.encode(entry), 0o600)

    def write_and_delete(self, plan: RestorePlan, name: str, permissions: Mapping[str, int]) -> dict[str, str]:
        """What could not be done, and why. What is in the way goes first."""
        root = self.workspace.root
        failed = {path: why for path in plan.delete if (why := delete_file(root, path)) is not None}
        for entries in split_into_batches(plan.write):
            found = self.store.read_contents(entries)
            failed |= write_files(
                root, {p: FileToWrite(e.mode, found[p], permissions.get(p)) for p, e in entries.items()}, name
            )
        return failed

    def build_plan(
        self, point: Snapshot, present: PresentFiles, only: Sequence[str], undoing: Snapshot | None
    ) -> RestorePlan:
        """What is to be done."""
        left = {decode_path(path): why for path, why in point.left.items()}
        overlooked = frozenset(map(decode_path, point.overlooked))
        made = self.store.list_files(undoing) if undoing else None
        return plan_restore(
            self.store.list_files(point), present, left=left, overlooked=overlooked, made=made, only=only
        )

    def apply_changes(self, files: Mapping[str, FileToWrite], delete: Sequence[str], occasion: Occasion) -> ApplyResult:
        """Save the present, then write these files and delete those. Files that could not be saved are not touched.

        Raises GitError, OSError where the present cannot be saved: then nothing was changed.
        """
        with self.lock_restores():
            saved = self.save_present(occasion, read_files(self.workspace, [*files, *delete]))
            failed = {path: why for path, why in unsaved_reasons(saved).items() if path in files or path in delete}
            gone = {
                path: why for path in delete if path not in failed and (why := delete_file(self.workspace.root, path))
            }
            write = {path: file for path, file in files.items() if path not in failed}
            return ApplyResult(saved, {**failed, **gone, **write_files(self.workspace.root, write, saved.id)})

    def save_present(self, occasion: Occasion, more: FilesByPath) -> Snapshot:
        """Keep the working tree as it is now, with these files of it that git does not tell about."""
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
        """What is there now, and the snapshot that keeps it."""
        saved = self.save_present(occasion, self.find_ignored_files(point))
        flags = read_index_flags(self.workspace).overlooked
        hidden = frozenset(path for path in flags if not os.path.lexists(self.workspace.root / path))
        return PresentFiles(self.store.list_files(saved), self.list_tracked_files(), hidden), saved

    def find_ignored_files(self, point: Snapshot) -> FilesByPath:
        """Files of the snapshot that git does not tell about, being ignored by now: they are saved all the same."""
        if self.workspace.common_dir is None:
            return {}
        tracked = self.list_tracked_files()
        there = read_files(self.workspace, (p for p in self.store.list_files(point) if p not in tracked))
        return {path: found for path, found in there.items() if found is not None}

    def list_tracked_files(self) -> frozenset[str]:
        """The files in git's index."""
        if self.workspace.common_dir is None:
            return frozenset()
        out = Git(self.workspace.root).run("ls-files", "-z")
        return frozenset(os.fsdecode(path) for path in out.split(b"\0") if path)


def unsaved_reasons(saved: Snapshot) -> dict[str, str]:
    """The files that could not be saved: they are not touched, for nobody could bring them back."""
    return {decode_path(path): f"it could not be saved: {why}" for path, why in saved.left.items()}


def exclude_unsaved(plan: RestorePlan, unsaved: Mapping[str, str]) -> RestorePlan:
    """The plan without these."""
    unsaved = {p: why for p, why in unsaved.items() if p in plan.write or p in plan.delete}
    write = {p: e for p, e in plan.write.items() if p not in unsaved}
    return RestorePlan(
        write, tuple(p for p in plan.delete if p not in unsaved), plan.untouched, {**plan.not_restorable, **unsaved}
    )


def split_into_batches(entries: Listing) -> Iterator[dict[str, SnapshotFile]]:
    """The entries, some at a time; what tells git the others' line endings before them."""
    first = [name for name in entries if name.rpartition("/")[2] == ATTRIBUTES_FILE]
    rest = [name for name in entries if name.rpartition("/")[2] != ATTRIBUTES_FILE]
    for start in range(0, len(first), MAX_FILES_IN_MEMORY):
        yield {name: entries[name] for name in first[start : start + MAX_FILES_IN_MEMORY]}
    for start in range(0, len(rest), MAX_FILES_IN_MEMORY):
        yield {name: entries[name] for name in rest[start : start + MAX_FILES_IN_MEMORY]}
