"""One `git fast-import` that writes snapshots: a process of git's costs more than what it writes.

The packs that snapshots make, folded together, so that there are never many. No object is dropped here.
"""

import fcntl
import os
import selectors
import subprocess
import tempfile
import time
import weakref
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

import msgspec

from remit.core.lazy_property import LazyProperty
from remit.workspace.contents.remit_repository import RemitRepository
from remit.workspace.files.atomic import write_atomically
from remit.workspace.files.locks import lock_file
from remit.workspace.git.command import GitError
from remit.workspace.git.early_start import GUARDS
from remit.workspace.git.refs import read_loose_ref
from remit.workspace.git.settings import override_options

IMPORT_COMMAND = ("fast-import",)
ANSWER_TIMEOUT_S = 60.0
MAX_COMMITS = 25
"""Snapshots of one process: at each, git looks at every ref that the process made."""

IMPORT_OPTIONS = ("-c", "fastimport.unpackLimit=0", "-c", "core.ignoreCase=false")
"""Always a pack, never loose objects, which the user's `gc --auto` counts; and `A` is another file than `a`."""


class FastImport:
    """A running fast-import. What it writes is durable, and under its ref, when `commit` returns.

    Its packs are named in a file of `edges`, locked for as long as the process runs: their `.keep` is git's own, and
    keeps them from being counted. Source: git-fast-import(1), read 2026-11.
    """

    def __init__(self, repository: RemitRepository) -> None:
        self.repository = repository
        self.commit_count = 0
        edges = repository.edges_folder
        edges.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.edges_file = edges / f"{os.getpid()}.{os.urandom(4).hex()}"
        self.lock = os.open(self.edges_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        lock_file(self.lock, self.edges_file)
        self.exit_stack = ExitStack()
        self.exit_stack.callback(os.close, self.lock)
        # Whoever drops a gate without closing it leaves no process behind.
        weakref.finalize(self, self.exit_stack.close)
        self.unread = b""

    @LazyProperty
    def stderr_file(self) -> IO[bytes]:
        """What the process says goes wrong."""
        return self.exit_stack.enter_context(tempfile.TemporaryFile())

    @LazyProperty
    def process(self) -> subprocess.Popen[bytes]:
        """The process. Raises GitError."""
        folder = self.repository.path
        own = ("--git-dir=.", "fast-import", "--quiet", "--force", f"--export-pack-edges={self.edges_file}")
        try:
            command = ["git", *GUARDS, *override_options(folder), *IMPORT_OPTIONS, "-C", str(folder), *own]
            found = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.stderr_file)
        except (OSError, ValueError) as error:
            raise GitError(IMPORT_COMMAND, None, str(error)) from error
        self.exit_stack.callback(wait_for_end, found)
        return found

    def read_tree(self, commit: str) -> str:
        """The name of a commit's tree. Raises GitError."""
        self.send(b'ls %s ""\n' % commit.encode())
        mode, _, rest = self.read_line().partition(b" ")
        if mode != b"040000":
            raise self.build_error(f"it knows no tree of {commit}")
        return rest.split()[1].decode()

    def send(self, stream: bytes) -> None:
        """Send it commands. Raises GitError."""
        if self.process.stdin is None:
            raise AssertionError("the process was started with pipes")
        try:
            self.process.stdin.write(stream)
            self.process.stdin.flush()
        except OSError as error:
            raise self.build_error(str(error)) from error

    def write_commit(self, stream: bytes, ref: str) -> str:
        """Write the commit that `stream` describes, marked `:1`, on `ref`; its name. Raises GitError."""
        self.send(stream + b"checkpoint\nget-mark :1\nprogress written\n")
        name = self.read_line().decode()
        if self.read_line() != b"progress written":
            raise self.build_error("it answered out of turn")
        if not self.has_ref_at(ref, name):
            raise GitError(IMPORT_COMMAND, None, f"the ref {ref!r} was not written: {self.read_stderr()}")
        self.commit_count += 1
        return name

    def read_mark(self, mark: str) -> str:
        """The name of the object with that mark. Raises GitError."""
        self.send(f"get-mark {mark}\n".encode())
        return self.read_line().decode()

    def has_ref_at(self, ref: str, name: str) -> bool:
        """Whether the ref names that commit: fast-import goes on where it could not be written."""
        if read_loose_ref(self.repository.path, ref) == name:
            return True
        said = self.repository.run("rev-parse", "--verify", "--quiet", ref, ok=(0, 1, 128))
        return said.decode().strip() == name

    def read_line(self) -> bytes:
        """The next line of its answer. Raises GitError where none comes."""
        if self.process.stdout is None:
            raise AssertionError("the process was started with pipes")
        until = time.monotonic() + ANSWER_TIMEOUT_S
        descriptor = self.process.stdout.fileno()
        while b"\n" not in self.unread:
            ready = has_output(descriptor, max(0.0, until - time.monotonic()))
            block = os.read(descriptor, 65536) if ready else b""
            if not block:
                raise self.build_error("it ended" if ready else f"no answer within {ANSWER_TIMEOUT_S:.0f} s")
            self.unread += block
        found, _, self.unread = self.unread.partition(b"\n")
        return found

    def build_error(self, what: str) -> GitError:
        """The error to raise; the process is ended, and the report that it leaves in the git folder is taken away."""
        self.process.kill()
        self.process.wait()
        (self.repository.path / f"fast_import_crash_{self.process.pid}").unlink(missing_ok=True)
        return GitError(IMPORT_COMMAND, self.process.returncode, f"{what}: {self.read_stderr()}")

    def read_stderr(self) -> str:
        """What the process said."""
        self.stderr_file.seek(0)
        return self.stderr_file.read(2000).decode("utf-8", "replace")

    def close(self) -> None:
        """Let the process end, and its packs be folded."""
        self.exit_stack.close()


def wait_for_end(process: subprocess.Popen[bytes]) -> None:
    """Wait for the process to end of itself, now that it hears no more."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except BrokenPipeError:  # it ended before it had read all
                continue
    try:
        process.wait(ANSWER_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def has_output(descriptor: int, wait_s: float) -> bool:
    """Whether something can be read within that time. The number may be beyond what `select` takes."""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(wait_s))


PACKS_PER_FOLD = 8
"""So many packs become one, of which so many become one again: there are never more than a few times as many."""

PackLevels = dict[str, int]
"""The name of each pack, and how often what is in it was folded."""


def fold_packs(repository: RemitRepository, folder: Path) -> int:
    """Fold packs of processes that ended, where there are enough; how many are gone. Raises OSError, GitError.

    `folder` is the snapshots' own, with `edges/` in it. Where another process is at it, nothing is to do.
    """
    if not repository.exists:
        return 0
    store = repository.path / "objects" / "pack"
    with try_lock(folder / "packs.lock") as mine:
        if not mine:
            return 0
        packs = {
            name: level for name, level in collect_packs(folder, store).items() if (store / f"{name}.pack").exists()
        }
        gone: list[str] = []
        for level in range(max(packs.values(), default=-1) + 1):
            small = [name for name, each in packs.items() if each == level]
            if len(small) >= PACKS_PER_FOLD:
                packs = {name: each for name, each in packs.items() if name not in small}
                packs[merge_packs(repository, store, small)] = level + 1
                gone += small
        write_atomically(folder / "packs", msgspec.json.encode(packs), 0o600)
        for name in gone:
            if name not in packs:
                remove_pack(store, name)
        return len(gone)


@contextmanager
def try_lock(path: Path) -> Generator[bool]:
    """Whether nobody else holds this lock; it is held meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield lock_without_waiting(descriptor)
    finally:
        os.close(descriptor)


def lock_without_waiting(descriptor: int) -> bool:
    """Whether the lock could be had."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def collect_packs(folder: Path, store: Path) -> PackLevels:
    """The packs known so far, and those of processes that ended since."""
    packs = read_known_packs(folder / "packs")
    done: list[Path] = []
    for edges in sorted((folder / "edges").glob("*")):
        with try_lock(edges) as mine:
            if mine:
                packs |= dict.fromkeys(parse_edges(edges.read_bytes()), 0)
                done.append(edges)
    for name in packs:
        remove_keep_mark(store / f"{name}.keep")
    write_atomically(folder / "packs", msgspec.json.encode(packs), 0o600)
    for edges in done:
        edges.unlink(missing_ok=True)
    return packs


def read_known_packs(path: Path) -> PackLevels:
    """What is written down; nothing where it cannot be read: then those packs are left to git."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=PackLevels)
    except (OSError, msgspec.DecodeError):
        return {}


def parse_edges(edges: bytes) -> Iterator[str]:
    """The packs that a fast-import named: a line each, `<path>: <commit>…`."""
    for line in edges.splitlines():
        name = os.fsdecode(line.rpartition(b": ")[0].rpartition(b"/")[2])
        if name.startswith("pack-") and name.endswith(".pack"):
            yield name.removesuffix(".pack")


def remove_keep_mark(path: Path) -> None:
    """Take away the mark of a fast-import that was killed."""
    try:
        if path.read_bytes().startswith(b"fast-import"):
            path.unlink()
    except FileNotFoundError:
        return


def merge_packs(repository: RemitRepository, store: Path, names: list[str]) -> str:
    """Write one pack with all that these hold; its name. Source: git-pack-objects(1), read 2026-11."""
    listed = "".join(f"{name}.pack\n" for name in names).encode()
    own = ("pack-objects", "--stdin-packs", "--quiet", "--threads=1", str(store / "pack"))
    return f"pack-{repository.run(*own, stdin=listed).decode().strip()}"


def remove_pack(store: Path, name: str) -> None:
    """Remove one pack; its index first: without it nobody looks for the pack."""
    for suffix in ("idx", "rev", "bitmap", "pack"):
        (store / f"{name}.{suffix}").unlink(missing_ok=True)
