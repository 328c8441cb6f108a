"""Remit's own git repository, in its state folder: what it keeps shows in no listing of the user's refs.

A bare repository without worktree. Its objects are its own packs, and second names (hard links) of the packs and loose
objects that the user's repository has: a name costs nothing, and git's `gc` there takes away only its own. So what a
snapshot needs stays, whatever the user's repository drops. It looks for no object elsewhere; only who reads sees both.

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
from remit.workspace.files.locks import FileLocked, lock_file
from remit.workspace.files.read_files import read_tail
from remit.workspace.git.command import Git
from remit.workspace.place.workspace import Workspace, is_folder

REPOSITORY_FOLDER = "objects.git"
BORROWED_FILE = "borrowed.json"
MAX_BORROWED_BYTES = 1 << 20
MAX_HEADS = 16
"""Commits whose objects are known to be here: one for each worktree that is at work."""

CLOCK_TICK_NS = 50_000_000
"""Longer than any file system takes to tell two changes of a folder apart."""

PACK_PARTS = (".pack", ".rev", ".idx")
"""In this order: without its index nobody looks for a pack."""

NO_LINK_ERRORS = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS})


class BorrowedObjects(Struct):
    """What was linked so far. `heads` are commits of the user's, each with the commit here that has the same files.

    `folders` are the times at which the user's object folders changed last, by name; `packs` are names of theirs.
    """

    heads: dict[str, str] = {}
    folders: dict[str, int] = {}
    packs: tuple[str, ...] = ()


class RemitRepository:
    """The one of a workspace in git. It is made when something is first written."""

    def __init__(self, workspace: Workspace) -> None:
        if workspace.common_dir is None:
            raise AssertionError("only a workspace in git has one")
        self.workspace = workspace
        self.objects = workspace.common_dir / "objects"
        self.path = workspace.state / REPOSITORY_FOLDER

    @property
    def exists(self) -> bool:
        """Whether it was made."""
        return is_folder(self.path / "objects")

    def run(self, *arguments: str, stdin: bytes = b"", ok: tuple[int, ...] = (0,)) -> bytes:
        """`git <arguments>` in it. Raises GitError."""
        return Git(self.path).run("--git-dir=.", *arguments, stdin=stdin, ok=ok)

    def list_refs(self, below: str) -> list[str]:
        """The names of its refs below that one. Raises GitError."""
        return self.run("for-each-ref", "--format=%(refname)", below).decode().splitlines() if self.exists else []

    @property
    def reader(self) -> Git:
        """Git in the user's repository, which then sees the objects of this one too. For reading only: what writes
        would leave out what it finds here.
        """
        return Git(self.workspace.root, extra_objects=self.path / "objects" if self.exists else None)

    def create(self) -> None:
        """Make it, unless it is there. Of several that do, one wins. Raises OSError, GitError."""
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
        """The folder of files that running importers hold locked."""
        return self.workspace.state / "snapshots/edges"

    @contextmanager
    def prevent_dropping(self) -> Generator[None]:
        """Nothing is dropped meanwhile. Raises OSError."""
        with self._hold_lock(shared=True):
            yield

    @contextmanager
    def _hold_lock(self, *, shared: bool, timeout_s: float = 10.0) -> Generator[None]:
        path = self.path / "remit.lock"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            lock_file(descriptor, path, shared=shared, timeout_s=timeout_s)
            yield
        finally:
            os.close(descriptor)

    def read_borrow_list(self) -> BorrowedObjects:
        """What was linked; nothing where that cannot be read: then it is linked again."""
        try:
            # Without waiting: a FIFO may have been put in its place.
            found = msgspec.json.decode(read_tail(self.path / BORROWED_FILE, MAX_BORROWED_BYTES), type=BorrowedObjects)
        except msgspec.DecodeError:
            return BorrowedObjects()
        # To git, a name of zeros is no commit at all: the snapshot would lack HEAD's files.
        found.heads = {head: base for head, base in found.heads.items() if base.strip("0")}
        return found

    def borrow_objects(self, known: BorrowedObjects) -> None:
        """Give every object that the user's repository has by now a second name here. Raises OSError."""
        packed_at = -1
        # git brings a pack before it takes away the loose objects in it: where one came meanwhile, it is looked again.
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
                # Names that come within one tick of the clock do not show in the folder's time.
                known.folders[name] = at if at < settled_ns else -1
        self._borrow_alternates()

    def write_borrow_list(self, known: BorrowedObjects) -> None:
        """Remember what was linked. Raises OSError."""
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
        """What the user's repository borrows itself, such as a clone with `--shared`, is borrowed from there."""
        theirs = self.objects / "info/alternates"
        here = self.path / "objects/info/alternates"
        if theirs.exists() and not here.exists():
            places = (self.objects / line for line in theirs.read_text("utf-8").splitlines() if line)
            here.parent.mkdir(exist_ok=True)
            here.write_text("".join(f"{os.path.normpath(place)}\n" for place in places), "utf-8")

    # -- dropping -------------------------------------------------------------------------------------------

    def has_stale_packs(self) -> bool:
        """Whether packs are borrowed that the user's repository dropped: from then on they take room."""
        names = (name for name in self.read_borrow_list().packs if not (self.objects / f"pack/{name}.idx").exists())
        return any((self.path / f"objects/pack/{name}.idx").exists() for name in names)

    def drop_unused_objects(self) -> bool:
        """Drop every object that nothing kept here needs; whether nobody was using it. Raises OSError, GitError.

        What the user's repository has in packs stays borrowed; the rest of what is needed goes into one pack.
        """
        try:
            with self._hold_lock(shared=False, timeout_s=0):
                # An importer that runs relies on what it has seen here.
                if any(_has_lock_holder(path) for path in self.edges_folder.glob("*")):
                    return False
                current = [
                    name for name in self.read_borrow_list().packs if (self.objects / f"pack/{name}.idx").exists()
                ]
                (self.path / BORROWED_FILE).unlink(missing_ok=True)
                kept = [f"--keep-pack={name}.pack" for name in current]
                self.run("-c", "repack.writeBitmaps=false", "repack", "-a", "-d", "-q", "--threads=1", *kept)
                self.run("prune", "--expire=now")
        except FileLocked:
            return False
        return True


def object_reader(workspace: Workspace) -> Git:
    """Git for reading the objects that a workspace has, the user's and Remit's."""
    return RemitRepository(workspace).reader if workspace.common_dir else Git(workspace.root)


def _has_lock_holder(path: Path) -> bool:
    """Whether a process holds the lock of that file."""
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
    """When names in a folder changed last; 0 where there is none."""
    try:
        return os.stat(folder).st_mtime_ns  # noqa: PTH116  256 of them before a call
    except FileNotFoundError:
        return 0


def _link_or_copy(source: Path, name: Path) -> None:
    """Give a file a second name, or where the file system cannot, a copy. Raises OSError."""
    try:
        os.link(source, name)
    except (FileExistsError, FileNotFoundError):
        return  # it is here, or git packed it meanwhile, or there is no such part of a pack
    except OSError as error:
        if error.errno not in NO_LINK_ERRORS:
            raise
        fresh = name.with_name(f"tmp_obj_{os.urandom(6).hex()}")
        with suppress(FileNotFoundError):
            shutil.copyfile(source, fresh)
            fresh.rename(name)
