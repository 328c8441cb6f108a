"""Going back to a snapshot: the present is saved first, and a restore that was killed is finished by the next one."""

import fcntl
import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec
from msgspec import Struct

from remit.core.contents import sha256
from remit.workspace.git import Git
from remit.workspace.hidden import index_flags
from remit.workspace.place import Workspace
from remit.workspace.snapshots import (
    Dirty,
    Entry,
    Listing,
    Occasion,
    Snapshot,
    Store,
    look_at,
    spelled,
    take,
    unspelled,
)
from remit.workspace.snapshots_plan import Plan, Present, planned
from remit.workspace.snapshots_write import File, delete_file, sweep, write_files
from remit.workspace.whole_files import write_atomically

AT_ONCE = 200
"""Files whose contents are in memory together."""


ATTRIBUTES = ".gitattributes"


class RestoreRunning(RuntimeError):
    """Another restore of this workspace is under way."""


class Journal(Struct, frozen=True):
    """A restore under way: where to, which paths, and the folders that it writes into."""

    id: str
    point: str
    only: tuple[str, ...]
    folders: tuple[str, ...]
    undoing: str = ""


class Restored(Struct, frozen=True):
    """What a restore did. `saved` is the state before it; None where only looked, or nothing was to do."""

    point: Snapshot
    plan: Plan
    saved: Snapshot | None = None
    failed: dict[str, str] = {}
    undoing: str = ""


class Applied(Struct, frozen=True):
    """Changes that were made to files: the snapshot of the state before, and what could not be done, with reasons."""

    saved: Snapshot
    failed: dict[str, str]


class Restoring:
    """Restores of one workspace. `at` gives the time of what is saved."""

    def __init__(
        self,
        workspace: Workspace,
        store: Store,
        clock: Callable[[], float],
        most_mib: int = 50,
        *,
        secrets: bool = True,
    ) -> None:
        self.secrets = secrets
        self.workspace = workspace
        self.store = store
        self.clock = clock
        self.most_mib = most_mib
        place = workspace.state / "restores" / sha256(os.fsencode(workspace.root))[:16]
        self.journal, self.lock = place.with_suffix(".json"), place.with_suffix(".lock")

    @contextmanager
    def alone(self) -> Generator[None]:
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

    def interrupted(self) -> Journal | None:
        """The restore that did not end; None where all did."""
        try:
            return msgspec.json.decode(self.journal.read_bytes(), type=Journal)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def finish(self) -> Restored | None:
        """Finish what was interrupted; None where nothing was, or its snapshot is gone. Raises GitError, OSError."""
        found = self.interrupted()
        if found is None:
            return None
        with self.alone():
            sweep(self.workspace.root, dict.fromkeys(map(unspelled, found.folders)), found.id)
            known = {s.id: s for s in self.store.listed()}
            done = None
            if found.point in known:
                occasion = Occasion("resume", point=found.point)
                only = tuple(map(unspelled, found.only))
                done = self.performed(known[found.point], only, occasion, known.get(found.undoing))
            self.journal.unlink(missing_ok=True)
            return done

    def preview(self, point: Snapshot, only: Sequence[str] = (), undoing: Snapshot | None = None) -> Restored:
        """What a restore would do. Changes nothing but Remit's own folder: the present is compared as a snapshot is."""
        with self.alone():
            occasion = Occasion("resume", point=point.id)
            present, saved = self.present(occasion, point)
            plan = without(self.plan(point, present, only, undoing), saved_not(saved))
            self.store.forget([saved])
            return Restored(point, plan)

    def restore(self, point: Snapshot, only: Sequence[str] = (), undoing: Snapshot | None = None) -> Restored:
        """Go back. Raises GitError, OSError where the present cannot be saved: then nothing was changed."""
        with self.alone():
            return self.performed(point, only, Occasion("restore", point=point.id), undoing)

    def performed(self, point: Snapshot, only: Sequence[str], occasion: Occasion, undoing: Snapshot | None) -> Restored:
        """Save, note down, write, delete."""
        present, saved = self.present(occasion, point)
        plan = without(self.plan(point, present, only, undoing), saved_not(saved))
        if plan.empty:
            self.store.forget([saved])
            return Restored(point, plan)
        self.note(saved.id, point, only, plan, undoing)
        failed = self.carried_out(plan, saved.id, {unspelled(path): bits for path, bits in point.permissions.items()})
        self.journal.unlink(missing_ok=True)
        return Restored(point, plan, saved, failed, undoing.id if undoing else "")

    def note(self, name: str, point: Snapshot, only: Sequence[str], plan: Plan, undoing: Snapshot | None) -> None:
        """Write down what is about to be done."""
        folders = dict.fromkeys(spelled(path.rpartition("/")[0]) for path in plan.write)
        entry = Journal(name, point.id, tuple(map(spelled, only)), tuple(folders), undoing.id if undoing else "")
        write_atomically(self.journal, msgspec.json.encode(entry), 0o600)

    def carried_out(self, plan: Plan, name: str, permissions: Mapping[str, int]) -> dict[str, str]:
        """What could not be done, and why. What is in the way goes first."""
        root = self.workspace.root
        failed = {path: why for path in plan.delete if (why := delete_file(root, path)) is not None}
        for entries in chunks(plan.write):
            found = self.store.contents(entries)
            failed |= write_files(
                root, {p: File(e.mode, found[p], permissions.get(p)) for p, e in entries.items()}, name
            )
        return failed

    def plan(self, point: Snapshot, present: Present, only: Sequence[str], undoing: Snapshot | None) -> Plan:
        """What is to be done."""
        left = {unspelled(path): why for path, why in point.left.items()}
        overlooked = frozenset(map(unspelled, point.overlooked))
        made = self.store.listing(undoing) if undoing else None
        return planned(self.store.listing(point), present, left=left, overlooked=overlooked, made=made, only=only)

    def apply(self, files: Mapping[str, File], delete: Sequence[str], occasion: Occasion) -> Applied:
        """Save the present, then write these files and delete those. Files that could not be saved are not touched.

        Raises GitError, OSError where the present cannot be saved: then nothing was changed.
        """
        with self.alone():
            saved = self.save(occasion, look_at(self.workspace, [*files, *delete]))
            failed = {path: why for path, why in saved_not(saved).items() if path in files or path in delete}
            gone = {
                path: why for path in delete if path not in failed and (why := delete_file(self.workspace.root, path))
            }
            write = {path: file for path, file in files.items() if path not in failed}
            return Applied(saved, {**failed, **gone, **write_files(self.workspace.root, write, saved.id)})

    def save(self, occasion: Occasion, more: Dirty) -> Snapshot:
        """Keep the working tree as it is now, with these files of it that git does not tell about."""
        there = {path: seen for path, seen in more.items() if seen is not None}
        return take(
            self.store,
            self.workspace,
            occasion,
            {**look_at(self.workspace), **there},
            at=self.clock(),
            most_mib=self.most_mib,
            secrets=self.secrets,
            overlooked=index_flags(self.workspace).overlooked,
        )

    def present(self, occasion: Occasion, point: Snapshot) -> tuple[Present, Snapshot]:
        """What is there now, and the snapshot that keeps it."""
        saved = self.save(occasion, self.ignored_now(point))
        flags = index_flags(self.workspace).overlooked
        hidden = frozenset(path for path in flags if not os.path.lexists(self.workspace.root / path))
        return Present(self.store.listing(saved), self.tracked(), hidden), saved

    def ignored_now(self, point: Snapshot) -> Dirty:
        """Files of the snapshot that git does not tell about, being ignored by now: they are saved all the same."""
        if self.workspace.common_dir is None:
            return {}
        tracked = self.tracked()
        there = look_at(self.workspace, (p for p in self.store.listing(point) if p not in tracked))
        return {path: found for path, found in there.items() if found is not None}

    def tracked(self) -> frozenset[str]:
        """The files in git's index."""
        if self.workspace.common_dir is None:
            return frozenset()
        out = Git(self.workspace.root).run("ls-files", "-z")
        return frozenset(os.fsdecode(path) for path in out.split(b"\0") if path)


def saved_not(saved: Snapshot) -> dict[str, str]:
    """The files that could not be saved: they are not touched, for nobody could bring them back."""
    return {unspelled(path): f"it could not be saved: {why}" for path, why in saved.left.items()}


def without(plan: Plan, unsaved: Mapping[str, str]) -> Plan:
    """The plan without these."""
    unsaved = {p: why for p, why in unsaved.items() if p in plan.write or p in plan.delete}
    write = {p: e for p, e in plan.write.items() if p not in unsaved}
    return Plan(write, tuple(p for p in plan.delete if p not in unsaved), plan.stay, {**plan.left, **unsaved})


def chunks(entries: Listing) -> Iterator[dict[str, Entry]]:
    """The entries, some at a time; what tells git the others' line endings before them."""
    first = [name for name in entries if name.rpartition("/")[2] == ATTRIBUTES]
    rest = [name for name in entries if name.rpartition("/")[2] != ATTRIBUTES]
    for start in range(0, len(first), AT_ONCE):
        yield {name: entries[name] for name in first[start : start + AT_ONCE]}
    for start in range(0, len(rest), AT_ONCE):
        yield {name: entries[name] for name in rest[start : start + AT_ONCE]}
