"""Remit's own git repository in the state folder, so that no stored object shows among the user's refs.

The repository is bare. Objects are its own packs, and hard links to the packs and loose objects of the user's
repository: a link costs no space, and git's `gc` removes only the user's name. A snapshot therefore survives any
cleanup of the user's repository. No alternates are used; only readers see both repositories.

Source: gitrepository-layout(5), gitformat-pack(5), git-repack(1), read 2026-11.
"""

import errno
import os
import shutil
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from remit.workspace.files.atomic import write_atomically
from remit.workspace.files.locks import FileLocked, hold_lock, lock_file, try_lock
from remit.workspace.files.read_files import read_tail
from remit.workspace.git.command import Git
from remit.workspace.place.workspace import Workspace, is_folder

REPOSITORY_FOLDER = "objects.git"
LOCK_NAME = "remit.lock"
BORROWED_FILE = "borrowed.json"
MAX_BORROWED_BYTES = 1 << 20
MAX_HEADS = 16
"""Commits whose objects are known to be linked: one per active worktree."""

CLOCK_TICK_NS = 50_000_000
"""More than the resolution of any file system's folder times."""

PACK_PARTS = (".pack", ".rev", ".idx")
"""Link order: a pack without an index is never read."""

NO_LINK_ERRORS = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS})


class BorrowedObjects(Struct):
    """Record of linked objects. `heads` maps a user's commit to the commit here with equal files.

    `folders` are modification times of the user's object folders by name; `packs` are names of the user's packs.
    """

    heads: dict[str, str] = {}
    folders: dict[str, int] = {}
    packs: tuple[str, ...] = ()


class RemitRepository:
    """Remit's repository for a workspace in git, created at the first write."""

    def __init__(self, workspace: Workspace) -> None:
        if workspace.common_dir is None:
            raise AssertionError("only a workspace in git has one")
        self.workspace = workspace
        self.objects = workspace.common_dir / "objects"
        self.path = workspace.state / REPOSITORY_FOLDER

    @property
    def exists(self) -> bool:
        return is_folder(self.path / "objects")

    def run(self, *arguments: str, stdin: bytes = b"", ok: tuple[int, ...] = (0,)) -> bytes:
        """Return the output of `git <arguments>` in the repository. Raises GitError."""
        return Git(self.path).run("--git-dir=.", *arguments, stdin=stdin, ok=ok)

    def list_refs(self, below: str) -> list[str]:
        return self.run("for-each-ref", "--format=%(refname)", below).decode().splitlines() if self.exists else []

    @property
    def reader(self) -> Git:
        """Git in the user's repository with the objects of this repository added. For reading only: a writer would omit
        objects found here.
        """
        return Git(self.workspace.root, extra_objects=self.path / "objects" if self.exists else None)

    def create(self) -> None:
        """Create the repository unless present. Of concurrent callers, one wins. Raises OSError, GitError."""
        if self.exists:
            return
        self.workspace.state.mkdir(parents=True, exist_ok=True)
        form = Git(self.workspace.root).text("rev-parse", "--show-object-format")
        fresh = self.path.with_name(f"{REPOSITORY_FOLDER}.{os.getpid()}.{os.urandom(4).hex()}")
        begin = ("init", "--quiet", "--bare", "--template=", f"--object-format={form}")
        Git(self.workspace.state).run(*begin, str(fresh))
        try:
            fresh.rename(self.path)
        except OSError:
            shutil.rmtree(fresh)
            if not self.exists:
                raise

    # -- borrowing ------------------------------------------------------------------------------------------

    @property
    def edges_folder(self) -> Path:
        return self.workspace.state / "snapshots/edges"

    @contextmanager
    def prevent_dropping(self) -> Generator[None]:
        """Hold a shared lock against `drop_unused_objects`. Raises OSError."""
        with hold_lock(self.path / LOCK_NAME, shared=True):
            yield

    def read_borrow_list(self) -> BorrowedObjects:
        """Return the record of linked objects; empty if unreadable, which only repeats the linking."""
        try:
            # `read_tail` does not wait for a FIFO in place of the file.
            found = msgspec.json.decode(read_tail(self.path / BORROWED_FILE, MAX_BORROWED_BYTES), type=BorrowedObjects)
        except msgspec.DecodeError:
            return BorrowedObjects()
        # For git, a name of zeros is no commit: the snapshot would lack HEAD's files.
        found.heads = {head: base for head, base in found.heads.items() if base.strip("0")}
        return found

    def borrow_objects(self, known: BorrowedObjects) -> None:
        """Link each object that the user's repository has by now. Raises OSError."""
        packed_at = -1
        # git adds a pack before removing its loose objects, so the folders are read again after a new pack.
        while packed_at != (packed_at := _folder_mtime_ns(self.objects / "pack")):
            settled_ns = time.time_ns() - CLOCK_TICK_NS
            for name in self._object_folders():
                at = _folder_mtime_ns(self.objects / name)
                if at == 0 or known.folders.get(name) == at:
                    continue
                if name == "pack":
                    known.packs = tuple(self._borrow_packs())
                else:
                    self._borrow_loose(name)
                # A name added within a clock tick does not change the folder's time.
                known.folders[name] = at if at < settled_ns else -1
        self._borrow_alternates()

    def write_borrow_list(self, known: BorrowedObjects) -> None:
        known.heads = dict(list(known.heads.items())[-MAX_HEADS:])
        write_atomically(self.path / BORROWED_FILE, msgspec.json.encode(known), 0o600)

    def _object_folders(self) -> Iterator[str]:
        yield "pack"
        yield from (f"{number:02x}" for number in range(256))

    def _borrow_packs(self) -> Iterator[str]:
        folder = self.objects / "pack"
        for name in sorted(os.listdir(folder)):  # noqa: PTH208  before a call
            stem = name.removesuffix(".idx")
            if stem != name:
                for suffix in PACK_PARTS:
                    _link_or_copy(folder / f"{stem}{suffix}", self.path / "objects/pack" / f"{stem}{suffix}")
                yield stem

    def _borrow_loose(self, name: str) -> None:
        here = self.path / "objects" / name
        here.mkdir(exist_ok=True)
        for rest in set(os.listdir(self.objects / name)) - set(os.listdir(here)):  # noqa: PTH208
            if not rest.startswith("tmp_"):
                _link_or_copy(self.objects / name / rest, here / rest)

    def _borrow_alternates(self) -> None:
        """Use the alternates of the user's repository, such as a clone with `--shared`."""
        theirs = self.objects / "info/alternates"
        here = self.path / "objects/info/alternates"
        if theirs.exists() and not here.exists():
            places = (self.objects / line for line in theirs.read_text("utf-8").splitlines() if line)
            here.parent.mkdir(exist_ok=True)
            here.write_text("".join(f"{os.path.normpath(path)}\n" for path in places), "utf-8")

    # -- dropping -------------------------------------------------------------------------------------------

    def has_stale_packs(self) -> bool:
        names = (name for name in self.read_borrow_list().packs if not (self.objects / f"pack/{name}.idx").exists())
        return any((self.path / f"objects/pack/{name}.idx").exists() for name in names)

    def drop_unused_objects(self) -> bool:
        """Drop unneeded objects; return False while an importer runs. Raises OSError, GitError.

        Packs of the user's repository stay linked; other needed objects go into a single pack.
        """
        with try_lock(self.path / LOCK_NAME) as is_free:
            # A running importer relies on the objects that it has seen here.
            if not is_free or any(_has_lock_holder(path) for path in self.edges_folder.glob("*")):
                return False
            linked = [name for name in self.read_borrow_list().packs if (self.objects / f"pack/{name}.idx").exists()]
            (self.path / BORROWED_FILE).unlink(missing_ok=True)
            keep = [f"--keep-pack={name}.pack" for name in linked]
            self.run("-c", "repack.writeBitmaps=false", "repack", "-a", "-d", "-q", "--threads=1", *keep)
            self.run("prune", "--expire=now")
            return True


def object_reader(workspace: Workspace) -> Git:
    return RemitRepository(workspace).reader if workspace.common_dir else Git(workspace.root)


def _has_lock_holder(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        lock_file(descriptor, path, timeout_s=0)
    except FileLocked:
        return True
    finally:
        os.close(descriptor)
    return False


def _folder_mtime_ns(folder: Path) -> int:
    try:
        return os.stat(folder).st_mtime_ns  # noqa: PTH116  256 of them before a call
    except FileNotFoundError:
        return 0


def _link_or_copy(source: Path, name: Path) -> None:
    """Hard-link a file, or copy if the file system cannot link. Raises OSError."""
    try:
        os.link(source, name)
    except (FileExistsError, FileNotFoundError):
        return  # linked before, packed by git meanwhile, or an optional part of a pack
    except OSError as error:
        if error.errno not in NO_LINK_ERRORS:
            raise
        fresh = name.with_name(f"tmp_obj_{os.urandom(6).hex()}")
        with suppress(FileNotFoundError):
            shutil.copyfile(source, fresh)
            fresh.rename(name)
