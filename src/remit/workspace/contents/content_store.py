"""Store of file contents named in records, as git objects under a private ref that `gc` respects.

A content is first appended to a pending file: an entry costs a write to an open file, 20 µs, against 6 ms for a git
process; a file per content costs ten times as much, and delays the next sync of the log by its folder and name.
`fold.py` moves pending contents into git. Without git, or for paths that git ignores, a content becomes a file of
Remit's own, named by its git blob name.

The objects lie in Remit's own git repository in the state folder, and never show among the user's refs.
The repository is bare. Objects are its own packs, and hard links to the packs and loose objects of the user's
repository: a link costs no space, and git's `gc` removes only the user's name. A snapshot therefore survives any
cleanup of the user's repository. No alternates are used; only readers see both repositories.

Source: gitrepository-layout(5), gitformat-pack(5), git-repack(1), read 2026-11.
"""

import errno
import os
import re
import shutil
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from remit.core.diff.contents import Hunk, hash_git_blob, sha256
from remit.core.python_runtime import prepare_type
from remit.workspace.git.command import Git, GitError
from remit.workspace.git.repository import parse_batch_output
from remit.workspace.place.workspace import Workspace, find_shared_objects, is_folder
from remit.workspace.safe_files import hold_lock, lock_file, read_tail, try_lock, write_atomically

REPOSITORY_FOLDER = "objects.git"
LOCK_NAME = "remit.lock"
BORROWED_FILE = "borrowed.json"
MAX_BORROWED_BYTES = 1 << 20
PACKS_PER_FOLD = 8
MAX_DELTA_DEPTH = 100  # differences to go through to a content: the versions of a file lie one on another
DELTA_MEMORY = "64m"  # of the contents that git compares at once
MAX_HEADS = 16  # commits whose objects are known to be linked: one per active worktree
CLOCK_TICK_NS = 50_000_000  # more than the resolution of any file system's folder times
PACK_PARTS = (".pack", ".rev", ".idx")  # link order: a pack without an index is never read
OBJECT_FOLDER = re.compile("pack|[0-9a-f]{2}")
NO_LINK_ERRORS = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS})


class BorrowedObjects(Struct):
    """Record of linked objects. `heads` maps a user's commit to the commit here with equal files. `folders` are
    modification times of the user's object folders by name; `packs` are names of the user's packs.
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
        self.stores = (self.objects,)
        if (shared := find_shared_objects(workspace)) is not None:
            self.objects, self.stores = shared, (shared, self.objects)
        self.path = workspace.state / REPOSITORY_FOLDER

    @property
    def exists(self) -> bool:
        return is_folder(self.path / "objects")

    def run(self, *arguments: str, stdin: bytes = b"", ok: tuple[int, ...] = (0,)) -> bytes:
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

    @contextmanager
    def prevent_dropping(self) -> Generator[None]:
        with hold_lock(self.path / LOCK_NAME, shared=True):
            yield

    def read_borrow_list(self) -> BorrowedObjects:
        """Return the record of linked objects; empty if unreadable, which only repeats the linking."""
        try:
            # `read_tail` does not wait for a FIFO in place of the file.
            found = msgspec.json.decode(
                read_tail(self.path / BORROWED_FILE, MAX_BORROWED_BYTES), type=prepare_type(BorrowedObjects)
            )
        except msgspec.DecodeError:
            return BorrowedObjects()
        # For git, a name of zeros is no commit: the snapshot would lack HEAD's files.
        found.heads = {head: base for head, base in found.heads.items() if base.strip("0")}
        return found

    def borrow_objects(self, known: BorrowedObjects) -> None:
        """Link each object that the user's repository has by now. Raises OSError."""
        known.packs = tuple(sorted({pack for store in self.stores for pack in self.borrow_from(store, known.folders)}))
        # The alternates of the user's repository, such as a clone with `--shared`, are used here, too.
        theirs, here = self.objects / "info/alternates", self.path / "objects/info/alternates"
        if theirs.exists() and not here.exists():
            places = (self.objects / line for line in theirs.read_text("utf-8").splitlines() if line)
            here.parent.mkdir(exist_ok=True)
            here.write_text("".join(f"{os.path.normpath(path)}\n" for path in places), "utf-8")

    def borrow_from(self, store: Path, folders: dict[str, int]) -> set[str]:
        key, packs, packed_at = "" if store == self.objects else "own:", set[str](), -1
        # git adds a pack before removing its loose objects, so the folders are read again after a new pack.
        while packed_at != (packed_at := _folder_mtime_ns(store / "pack")):
            settled_ns = time.time_ns() - CLOCK_TICK_NS
            for name in filter(OBJECT_FOLDER.fullmatch, os.listdir(store)):  # noqa: PTH208  before a call
                at = _folder_mtime_ns(store / name)
                if at == 0 or (name != "pack" and folders.get(f"{key}{name}") == at):
                    continue
                theirs, here = store / name, self.path / "objects" / name
                names = set(os.listdir(theirs))  # noqa: PTH208  before a call
                if name == "pack":
                    packs = {n.removesuffix(".idx") for n in names if n.endswith(".idx")}
                    borrowed = [f"{stem}{suffix}" for stem in packs for suffix in PACK_PARTS]
                    borrowed = [] if folders.get(f"{key}{name}") == at else borrowed
                else:
                    here.mkdir(exist_ok=True)
                    borrowed = [n for n in names.difference(os.listdir(here)) if not n.startswith("tmp_")]  # noqa: PTH208
                for part in borrowed:
                    _link_or_copy(theirs / part, here / part)
                # A name added within a clock tick does not change the folder's time.
                folders[f"{key}{name}"] = at if at < settled_ns else -1
        return packs

    def write_borrow_list(self, known: BorrowedObjects) -> None:
        known.heads = dict(list(known.heads.items())[-MAX_HEADS:])
        write_atomically(self.path / BORROWED_FILE, msgspec.json.encode(known), 0o600)

    # -- dropping -------------------------------------------------------------------------------------------

    def fold_packs(self) -> None:
        """Make one pack of each eight of a size; drop no object. Raises OSError, GitError.

        Only the list and the removal of the packs exclude importers: a merge may take seconds, and calls take
        snapshots meanwhile.
        """
        for names in self._find_packs_to_fold():
            made = f"pack-{self._merge_packs(names)}"
            with try_lock(self.path / LOCK_NAME) as is_free:
                for name in names if is_free else ():
                    # Index first: a pack without an index is never read.
                    for suffix in ("idx", "rev", "bitmap", "pack") if name != made else ():
                        (self.path / f"objects/pack/{name}.{suffix}").unlink(missing_ok=True)

    def _find_packs_to_fold(self) -> list[list[str]]:
        """Return the groups of packs to merge; none while an importer runs."""
        if not self.exists:
            return []
        folder = self.path / "objects/pack"
        with try_lock(self.path / LOCK_NAME) as is_free:
            if not is_free:
                return []
            for left in (*folder.glob("*.keep"), *self.path.glob("fast_import_crash_*")):  # of a killed fast-import
                left.unlink(missing_ok=True)
            borrowed = set(self.read_borrow_list().packs)
            names_by_class: dict[int, list[str]] = defaultdict(list)
            for pack in folder.glob("*.pack"):
                status = pack.stat()
                # A pack with a second name is the user's. Sizes of classes differ eightfold, so that each object is
                # copied only a few times.
                if status.st_nlink == 1 and pack.stem not in borrowed:
                    names_by_class[status.st_size.bit_length() // 3].append(pack.stem)
        return [names for names in names_by_class.values() if len(names) >= PACKS_PER_FOLD]

    def _merge_packs(self, names: Sequence[str]) -> str:
        options = (f"--depth={MAX_DELTA_DEPTH}", f"--window-memory={DELTA_MEMORY}", "--delta-base-offset")
        words = ("pack-objects", "--stdin-packs", *options, "--threads=1", "--quiet", f"{self.path}/objects/pack/pack")
        return self.run(*words, stdin="".join(f"{name}.pack\n" for name in names).encode()).decode().strip()

    def has_stale_packs(self) -> bool:
        names = (name for name in self.read_borrow_list().packs if not (self.objects / f"pack/{name}.idx").exists())
        return any((self.path / f"objects/pack/{name}.idx").exists() for name in names)

    def drop_unused_objects(self) -> bool:
        """Drop unneeded objects; return False while an importer runs. Raises OSError, GitError. Packs of the user's
        repository stay linked; other needed objects go into a single pack.
        """
        with try_lock(self.path / LOCK_NAME) as is_free:
            # A running importer, which holds the lock, relies on the objects that it has seen here.
            if not is_free:
                return False
            linked = [name for name in self.read_borrow_list().packs if (self.objects / f"pack/{name}.idx").exists()]
            (self.path / BORROWED_FILE).unlink(missing_ok=True)
            keep = [f"--keep-pack={name}.pack" for name in linked]
            self.run("-c", "repack.writeBitmaps=false", "repack", "-a", "-d", "-q", "--threads=1", *keep)
            self.run("prune", "--expire=now")
            return True


def object_reader(workspace: Workspace) -> Git:
    return RemitRepository(workspace).reader if workspace.common_dir else Git(workspace.root)


def _folder_mtime_ns(folder: Path) -> int:
    try:
        return os.stat(folder).st_mtime_ns  # noqa: PTH116  up to 256 of them before a call
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


BLOBS_REF = "refs/remit/blobs"
MAX_WAITING_BYTES = 32 << 20
MAX_WAITING_COUNT = 256
"""Contents that may wait while calls go on; more are folded at once, and what waits is always folded in a pause."""

MAX_RECENT = 8
MAX_RECENT_BYTES = 1 << 18

MAX_HEADER_BYTES = 64
MARK_BYTES = 17  # A pending file begins with a random word: a replacement may reuse the inode
BLOB_KEY = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
ENTRY_HEADER = re.compile(rb"([0-9a-f]{40}) (\d{1,15}) (\d{1,6})\n")
HUNK_HEADER = re.compile(rb"-(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
DIFF_WORDS = ("diff", "--no-index", "--no-color", "--no-ext-diff", "--no-textconv")


class BlobFolder:
    """A folder of contents, each in a file named by its hash and readable by the user only: for contents that git must
    not hold. `hash_content` gives the key of a content.
    """

    def __init__(self, folder: Path, hash_content: Callable[[bytes], str] = sha256) -> None:
        self.folder = folder
        self.hash_content = hash_content

    def store(self, content: bytes, *, durable: bool = True) -> str:
        key = self.hash_content(content)
        path = self.blob_path(key)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(path, content, 0o600, durable=durable)
        return key

    def load(self, key: str) -> bytes:
        if not BLOB_KEY.fullmatch(key):
            raise OSError(f"{key!r} is no name of a content")
        content = self.blob_path(key).read_bytes()
        if self.hash_content(content) != key:
            raise OSError(f"the copy {str(self.blob_path(key))!r} is not what was kept")
        return content

    def has_blob(self, key: str) -> bool:
        return BLOB_KEY.fullmatch(key) is not None and self.blob_path(key).is_file()

    def keep_only(self, keys: Iterable[str]) -> None:
        wanted = set(keys)
        for path in self.folder.glob("[0-9a-f][0-9a-f]/*"):
            if path.parent.name + path.name not in wanted:
                path.unlink(missing_ok=True)

    def total_bytes(self, keys: Iterable[str]) -> int:
        return sum(self.blob_path(key).stat().st_size for key in set(keys) if self.blob_path(key).exists())

    def blob_path(self, key: str) -> Path:
        return self.folder / key[:2] / key[2:]


# -- contents waiting for git --------------------------------------------------------------------------------


class PendingContent(Struct, frozen=True):
    """Position of a content in the file. `path` is the path in the workspace, or empty."""

    blob: str
    path: bytes
    offset: int
    size: int

    @property
    def end(self) -> int:
        return self.offset + self.size + 1


class PendingContents:
    """Entries of a single file, each complete or absent. Threads and processes may add and drop concurrently."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.entries: list[PendingContent] = []
        self.entries_by_blob: dict[str, PendingContent] = {}
        self.mark: bytes = b""
        self.end = 0

    def add(self, contents: Sequence[tuple[str, bytes, bytes]]) -> None:
        """Append (blob name, path, content) triples. Raises OSError; readers then see complete entries only."""
        with self._open_locked(os.O_RDWR | os.O_CREAT | os.O_APPEND) as descriptor:
            size = self._read_new_entries(descriptor)
            if self.end < size:
                # Bytes after the last complete entry, left by a crash or a stranger, go to a separate file.
                self._set_aside(os.pread(descriptor, size - self.end, self.end))
                os.ftruncate(descriptor, self.end)
            start, blob, added = self.end, b"", list[PendingContent]()
            if not start:
                self.mark = blob = new_mark()
            for name, path, content in contents:
                if (known := self.entries_by_blob.get(name)) is None or known.path != path:
                    blob += b"%s %d %d\n%s" % (name.encode(), len(content), len(path), path)
                    added.append(PendingContent(name, path, start + len(blob), len(content)))
                    blob += content + b"\n"
            try:
                while blob:
                    blob = blob[os.write(descriptor, blob) :]
            except OSError:
                os.ftruncate(descriptor, start)
                raise
            self.end = start or MARK_BYTES
            for entry in added:
                self._remember(entry)

    def read_content(self, blob: str) -> bytes | None:
        try:
            with self._open_locked(os.O_RDONLY, shared=True) as descriptor:
                self._read_new_entries(descriptor)
                entry = self.entries_by_blob.get(blob)
                return os.pread(descriptor, entry.size, entry.offset) if entry else None
        except FileNotFoundError:
            return None

    def list_entries(self) -> list[PendingContent]:
        try:
            with self._open_locked(os.O_RDONLY, shared=True) as descriptor:
                self._read_new_entries(descriptor)
                return [*self.entries]
        except FileNotFoundError:
            return []

    def seal(self, path: Path) -> None:
        """Rename the file, if present: entries added from now on begin a new file. Raises OSError."""
        with suppress(FileNotFoundError), self._open_locked(os.O_RDWR):
            self.path.rename(path)

    def remove(self, damaged: Iterable[PendingContent]) -> None:
        """Remove the file: the entries are stored elsewhere now, except damaged entries, which are set aside with the
        bytes of no entry. Raises OSError.
        """
        with self._open_locked(os.O_RDWR) as descriptor:
            size = self._read_new_entries(descriptor)
            self._set_aside(os.pread(descriptor, size - self.end, self.end))
            for entry in damaged:
                self._set_aside(os.pread(descriptor, entry.size, entry.offset))
            self.path.unlink()

    def _set_aside(self, torn: bytes) -> None:
        if torn:
            folder = self.path.parent / "torn"
            folder.mkdir(mode=0o700, exist_ok=True)
            (folder / f"{sha256(torn)}.bin").write_bytes(torn)

    def _is_at_path(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(descriptor))  # noqa: PTH116  at every content
        except FileNotFoundError:
            return False

    @contextmanager
    def _open_locked(self, flags: int, *, shared: bool = False) -> Generator[int]:
        """Open and lock the file; retry if it was replaced or renamed during the wait. Raises FileLocked, OSError."""
        while True:
            try:
                descriptor = os.open(self.path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
            except FileNotFoundError:
                if not flags & os.O_CREAT:
                    raise
                self.path.parent.mkdir(parents=True, exist_ok=True)
                continue
            try:
                lock_file(descriptor, self.path, shared=shared)
                if self._is_at_path(descriptor):
                    yield descriptor
                    return
            finally:
                os.close(descriptor)

    def _read_new_entries(self, descriptor: int) -> int:
        """Read entries added since the last call; return the file size. Torn or damaged bytes end the reading."""
        size, mark = os.fstat(descriptor).st_size, os.pread(descriptor, MARK_BYTES, 0)
        if mark != self.mark or size < self.end:
            self.entries, self.entries_by_blob = [], {}
            is_ours = len(mark) == MARK_BYTES and mark.endswith(b"\n")
            self.mark, self.end = mark, MARK_BYTES if is_ours else 0
        while 0 < self.end < size:
            header = ENTRY_HEADER.match(os.pread(descriptor, MAX_HEADER_BYTES, self.end))
            if header is None:
                break
            path_bytes, path_start = int(header[3]), self.end + header.end()
            path = os.pread(descriptor, path_bytes, path_start)
            entry = PendingContent(header[1].decode(), path, path_start + path_bytes, int(header[2]))
            if entry.end > size or os.pread(descriptor, 1, entry.end - 1) != b"\n":
                break
            self._remember(entry)
        return size

    def _remember(self, entry: PendingContent) -> None:
        self.entries.append(entry)
        self.entries_by_blob[entry.blob] = entry
        self.end = entry.end


def new_mark() -> bytes:
    return os.urandom(MARK_BYTES // 2).hex().encode() + b"\n"


# -- all contents of a workspace -----------------------------------------------------------------------------


class ContentStore:
    """Contents of a workspace's records, under this machine's ref."""

    def __init__(self, workspace: Workspace, machine: str) -> None:
        self.workspace = workspace
        self.ref = f"{BLOBS_REF}/{machine}"
        folder = workspace.state / "contents"
        self.files = BlobFolder(folder, hash_git_blob)
        self.pending = PendingContents(folder / "waiting")
        self.folding = PendingContents(folder / "folding")
        """The contents that are on their way into git, or were when a process was killed."""
        self.recent: OrderedDict[str, bytes] = OrderedDict()
        """The contents added last: most are read when the call completes. A blob name identifies a content exactly."""

    def keep_contents(self, contents: Iterable[tuple[str, str, bytes]]) -> None:
        """Store (blob name, path, content) triples; the path is empty for contents without a file. Raises OSError."""
        entries = [(blob, os.fsencode(path), content) for blob, path, content in contents]
        if entries:
            self.pending.add(entries)
            self.recent.update((blob, content) for blob, _, content in entries if len(content) <= MAX_RECENT_BYTES)
        while len(self.recent) > MAX_RECENT:
            self.recent.popitem(last=False)

    def is_full(self) -> bool:
        """Return whether too many contents are pending to wait for a pause. Raises OSError."""
        return self.waiting_bytes() >= MAX_WAITING_BYTES or len(self.pending.list_entries()) >= MAX_WAITING_COUNT

    def waiting_bytes(self) -> int:
        try:
            return self.pending.path.stat().st_size
        except FileNotFoundError:
            return 0

    # -- reading --------------------------------------------------------------------------------------------

    def load(self, blob: str) -> bytes | None:
        content = self.recent.get(blob)
        content = self._read_without_git(blob) if content is None else content
        if content is not None or self.workspace.common_dir is None:
            return content
        try:
            return object_reader(self.workspace).run("cat-file", "blob", blob)
        except GitError:
            return None

    def _read_without_git(self, blob: str) -> bytes | None:
        """Return a content stored outside git; None also after a torn write. The places are in the order in which a
        content passes through them.
        """
        for read in (self.pending.read_content, self.folding.read_content, self.files.load):
            try:
                content = read(blob)
            except OSError:
                continue
            if content is not None and hash_git_blob(content) == blob:
                return content
        return None

    def load_many(self, blobs: Iterable[str]) -> dict[str, bytes]:
        contents, rest = self._load_without_git(blobs)
        if rest:
            out = object_reader(self.workspace).run("cat-file", "--batch", stdin="\n".join(rest).encode())
            contents |= {b: c for b, c in zip(rest, parse_batch_output(out), strict=True) if c is not None}
        return contents

    def content_sizes(self, blobs: Iterable[str]) -> dict[str, int]:
        contents, rest = self._load_without_git(blobs)
        sizes = {blob: len(content) for blob, content in contents.items()}
        if rest:
            question = "\n".join(rest).encode()
            out = object_reader(self.workspace).run("cat-file", "--batch-check=%(objectsize)", stdin=question)
            sizes |= {blob: int(size) for blob, size in zip(rest, out.splitlines(), strict=True) if size.isdigit()}
        return sizes

    def _load_without_git(self, blobs: Iterable[str]) -> tuple[dict[str, bytes], list[str]]:
        wanted = list(dict.fromkeys(blobs))
        contents = {blob: content for blob in wanted if (content := self._read_without_git(blob)) is not None}
        return contents, [blob for blob in wanted if blob not in contents and self.workspace.common_dir is not None]

    # -- comparing ------------------------------------------------------------------------------------------

    def unified_diff(self, old: bytes, new: bytes) -> str:
        with scratch_files(self.workspace.state, old, new) as paths:
            out = Git(self.workspace.state).run(*DIFF_WORDS, *paths, ok=(0, 1))
        text = out.decode("utf-8", "replace")
        return text[text.find("@@") :] if "@@" in text else ""

    def compute_hunks(self, pairs: Mapping[str, tuple[bytes, bytes]]) -> dict[str, tuple[Hunk, ...]]:
        """Return git's hunks for each pair of contents with a single git process."""
        if not pairs:
            return {}
        from tempfile import TemporaryDirectory  # with its imports a tenth of a command's start, and rarely needed

        self.workspace.state.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix="scratch.", dir=self.workspace.state) as name:
            # `old/` and `new/`, with a numbered file per pair: names may hold anything.
            for side, contents in zip(("old", "new"), zip(*pairs.values(), strict=True), strict=True):
                Path(name, side).mkdir()
                for number, content in enumerate(contents):
                    Path(name, side, str(number)).write_bytes(content)
            out = Git(Path(name)).run(
                *("-c", "core.autocrlf=false", *DIFF_WORDS),
                *("--no-renames", "--inter-hunk-context=0", "-U0", "--text", "old", "new"),
                ok=(0, 1),
            )
        found = parse_hunks(out)
        return {pair: found.get(str(number), ()) for number, pair in enumerate(pairs)}


@contextmanager
def scratch_files(folder: Path, *contents: bytes) -> Generator[list[str]]:
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"scratch.{os.getpid()}.{n}" for n in range(len(contents))]
    try:
        for path, content in zip(paths, contents, strict=True):
            path.write_bytes(content)
        yield [str(path) for path in paths]
    finally:
        for path in paths:
            path.unlink(missing_ok=True)


def parse_hunks(diff: bytes) -> dict[str, tuple[Hunk, ...]]:
    """Return the hunks of a `-U0` diff by file number. Content lines begin with a sign, headers never do. The diff is
    cut at its headers; lines between are not inspected.
    """
    hunks: dict[str, tuple[Hunk, ...]] = {}
    for file in diff.split(b"\ndiff --git ") if diff else ():
        names, *parts = file.split(b"\n@@ ")
        headers = filter(None, map(HUNK_HEADER.match, parts))
        number = names.partition(b"\n")[0].rpartition(b"/")[2].decode()
        # An omitted count is 1.
        hunks[number] = tuple(Hunk(int(h[1]), int(h[2] or 1), int(h[3]), int(h[4] or 1)) for h in headers)
    return hunks
