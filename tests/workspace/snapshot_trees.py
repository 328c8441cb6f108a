"""Working trees for the tests of snapshots: how they are looked at, wrecked and written anew."""

import os
import shutil
from pathlib import Path

from remit.workspace.place.workspace import locate_workspace
from remit.workspace.snapshots.git_store import GitSnapshotStore
from remit.workspace.snapshots.restore import Restorer, RestoreResult
from remit.workspace.snapshots.snapshot import Occasion, Snapshot, SnapshotStore, read_files, take_snapshot
from stepped_clock import SteppedClock

MACHINE = "0123456789ab"

Tree = dict[bytes, tuple[bytes, int | None]]
"""By path: the content (of a link its target), and whether it may be executed; None for a link."""


class Worksite:
    """One workspace with its snapshots."""

    def __init__(self, root: Path, store: SnapshotStore | None = None, most_mib: int = 50) -> None:
        found = locate_workspace(root)
        if found is None:
            raise AssertionError("the tests made a workspace")
        self.root, self.workspace, self.most_mib = root, found, most_mib
        self.clock = SteppedClock()
        self.store: SnapshotStore = store or GitSnapshotStore(found, MACHINE)

    def tell_time(self) -> float:
        """Return the time; a second has passed since it was told last."""
        self.clock.advance(1)
        return self.clock.now()

    @property
    def own(self) -> Path:
        """Remit's own repository."""
        return self.workspace.state / "objects.git"

    def take(self, command: str = "", **occasion: str) -> Snapshot:
        """A snapshot of the tree as it is."""
        about = Occasion(kind="call", command=command, **occasion)
        files = read_files(self.workspace)
        return take_snapshot(self.store, self.workspace, about, files, at=self.tell_time(), max_mib=self.most_mib)

    @property
    def restoring(self) -> Restorer:
        """Its restores."""
        self.clock.advance(1)
        return Restorer(self.workspace, self.store, self.clock, self.most_mib)

    def restore(self, point: Snapshot, *only: str) -> RestoreResult:
        """Go back."""
        return self.restoring.restore(point, only)

    def undo(self) -> RestoreResult:
        """Take the last restore back."""
        found = self.store.list_snapshots()
        last = next(s for s in found if s.occasion.kind == "restore")
        return self.restoring.restore(last, (), next(s for s in found if s.id == last.occasion.point))

    def tree(self) -> Tree:
        """All files but git's own."""
        found: Tree = {}
        for folder, names, files in os.walk(os.fsencode(self.root)):
            if folder == os.fsencode(self.root) and b".git" in names:
                names.remove(b".git")
            links = [name for name in names if os.path.islink(os.path.join(folder, name))]  # noqa: PTH114, PTH118
            for name in [*files, *links]:
                path = Path(os.fsdecode(folder)) / os.fsdecode(name)
                key = os.fsencode(path.relative_to(self.root))
                found[key] = seen(path)
        return found

    def wreck(self) -> None:
        """`rm -rf` of everything but `.git`."""
        for path in self.root.iterdir():
            if path.name != ".git":
                remove(path)


def seen(path: Path) -> tuple[bytes, int | None]:
    """One file."""
    if path.is_symlink():
        return os.fsencode(path.readlink()), None
    return path.read_bytes(), path.stat().st_mode & 0o100


def remove(path: Path) -> None:
    """A file, a link, or a folder with all in it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
