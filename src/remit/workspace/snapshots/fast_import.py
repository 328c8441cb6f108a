"""Object packs of snapshots: a `git fast-import` process that writes them, and folding of many packs into few.

Starting a git process costs more than the written data. Folding drops no object.
"""

import os
import selectors
import subprocess
import tempfile
import time
import weakref
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import msgspec

from remit.core.lazy_property import LazyProperty
from remit.workspace.contents.remit_repository import RemitRepository
from remit.workspace.files.atomic import write_atomically
from remit.workspace.files.locks import hold_lock, try_lock
from remit.workspace.git.command import GitError, git_words
from remit.workspace.git.refs import read_loose_ref

IMPORT_COMMAND = ("fast-import",)
ANSWER_TIMEOUT_S = 60.0
MAX_COMMITS = 25
"""Snapshots per process: at each, git checks every ref that the process made."""

IMPORT_OPTIONS = ("-c", "fastimport.unpackLimit=0", "-c", "core.ignoreCase=false")
"""Always a pack, never loose objects, which the user's `gc --auto` counts; and case-sensitive names."""

PACKS_PER_FOLD = 8
"""Packs folded into a pack of the next level; the total stays a small multiple of this value."""

PackLevels = dict[str, int]
"""Pack name to level: the number of times its objects were folded."""


# -- writing -------------------------------------------------------------------------------------------------


class FastImport:
    """A running fast-import. After `write_commit` returns, the commit is durable and under its ref.

    Its packs are listed in a file of `edges`, locked while the process runs. git's own `.keep` files keep the packs
    from being counted. Source: git-fast-import(1), read 2026-11.
    """

    def __init__(self, repository: RemitRepository) -> None:
        self.repository = repository
        self.commit_count = 0
        self.unread = b""
        edges = repository.edges_folder
        edges.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.edges_file = edges / f"{os.getpid()}.{os.urandom(4).hex()}"
        self.exit_stack = ExitStack()
        self.exit_stack.enter_context(hold_lock(self.edges_file))
        # An owner that is dropped without `close` leaves no process behind.
        weakref.finalize(self, self.exit_stack.close)

    @LazyProperty
    def stderr_file(self) -> IO[bytes]:
        return self.exit_stack.enter_context(tempfile.TemporaryFile())

    @LazyProperty
    def process(self) -> subprocess.Popen[bytes]:
        """The process, started at first use. Raises GitError."""
        words = git_words(self.repository.path, IMPORT_COMMAND, IMPORT_OPTIONS)
        own = ("--git-dir=.", "fast-import", "--quiet", "--force", f"--export-pack-edges={self.edges_file}")
        try:
            process = subprocess.Popen(
                [*words, *own], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.stderr_file
            )
        except OSError as error:
            raise GitError(IMPORT_COMMAND, None, str(error)) from error
        self.exit_stack.callback(wait_for_end, process)
        return process

    def write_commit(self, stream: bytes, ref: str) -> str:
        """Write the commit in `stream`, marked `:1`, on `ref`; return its name. Raises GitError."""
        self.send(stream + b"checkpoint\nget-mark :1\nprogress written\n")
        name = self.read_line().decode()
        if self.read_line() != b"progress written":
            raise self.build_error("it answered out of turn")
        if not self.has_ref_at(ref, name):
            raise GitError(IMPORT_COMMAND, None, f"the ref {ref!r} was not written: {self.read_stderr()}")
        self.commit_count += 1
        return name

    def has_ref_at(self, ref: str, name: str) -> bool:
        """Return whether the ref names the commit: fast-import continues after a failed ref update."""
        if read_loose_ref(self.repository.path, ref) == name:
            return True
        out = self.repository.run("rev-parse", "--verify", "--quiet", ref, ok=(0, 1, 128))
        return out.decode().strip() == name

    def read_tree(self, commit: str) -> str:
        """Return the tree of a commit. Raises GitError."""
        self.send(b'ls %s ""\n' % commit.encode())
        mode, _, rest = self.read_line().partition(b" ")
        if mode != b"040000":
            raise self.build_error(f"it knows no tree of {commit}")
        return rest.split()[1].decode()

    def read_mark(self, mark: str) -> str:
        self.send(f"get-mark {mark}\n".encode())
        return self.read_line().decode()

    def send(self, stream: bytes) -> None:
        """Send commands. Raises GitError."""
        if self.process.stdin is None:
            raise AssertionError("the process was started with pipes")
        try:
            self.process.stdin.write(stream)
            self.process.stdin.flush()
        except OSError as error:
            raise self.build_error(str(error)) from error

    def read_line(self) -> bytes:
        """Return the next line of output. Raises GitError if none comes."""
        if self.process.stdout is None:
            raise AssertionError("the process was started with pipes")
        until = time.monotonic() + ANSWER_TIMEOUT_S
        descriptor = self.process.stdout.fileno()
        while b"\n" not in self.unread:
            is_ready = has_output(descriptor, max(0.0, until - time.monotonic()))
            block = os.read(descriptor, 65536) if is_ready else b""
            if not block:
                raise self.build_error("it ended" if is_ready else f"no answer within {ANSWER_TIMEOUT_S:.0f} s")
            self.unread += block
        line, _, self.unread = self.unread.partition(b"\n")
        return line

    def build_error(self, reason: str) -> GitError:
        """End the process, remove its crash report, and return the error to raise."""
        self.process.kill()
        self.process.wait()
        (self.repository.path / f"fast_import_crash_{self.process.pid}").unlink(missing_ok=True)
        return GitError(IMPORT_COMMAND, self.process.returncode, f"{reason}: {self.read_stderr()}")

    def read_stderr(self) -> str:
        self.stderr_file.seek(0)
        return self.stderr_file.read(2000).decode("utf-8", "replace")

    def close(self) -> None:
        self.exit_stack.close()


def wait_for_end(process: subprocess.Popen[bytes]) -> None:
    """Close the pipes and wait for the process to end."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except BrokenPipeError:  # the process ended before reading its input
                continue
    try:
        process.wait(ANSWER_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def has_output(descriptor: int, wait_s: float) -> bool:
    """Return whether output arrives within the time. Works for descriptors beyond the limit of `select`."""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(wait_s))


# -- folding -------------------------------------------------------------------------------------------------


def fold_packs(repository: RemitRepository, folder: Path) -> int:
    """Fold packs of ended processes if enough exist; return the count of removed packs. Raises OSError, GitError.

    `folder` is the snapshots' folder with `edges/`. Does nothing while a different process folds.
    """
    if not repository.exists:
        return 0
    store = repository.path / "objects" / "pack"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with try_lock(folder / "packs.lock") as is_free:
        if not is_free:
            return 0
        packs = {n: level for n, level in collect_packs(folder, store).items() if (store / f"{n}.pack").exists()}
        replaced: list[str] = []
        for level in range(max(packs.values(), default=-1) + 1):
            small = [name for name, its_level in packs.items() if its_level == level]
            if len(small) >= PACKS_PER_FOLD:
                packs = {name: its_level for name, its_level in packs.items() if name not in small}
                packs[merge_packs(repository, store, small)] = level + 1
                replaced += small
        write_atomically(folder / "packs", msgspec.json.encode(packs), 0o600)
        for name in replaced:
            if name not in packs:
                remove_pack(store, name)
        return len(replaced)


def collect_packs(folder: Path, store: Path) -> PackLevels:
    """Return the known packs and those of processes that ended since."""
    packs = read_known_packs(folder / "packs")
    done: list[Path] = []
    for edges in sorted((folder / "edges").glob("*")):
        with try_lock(edges) as is_free:
            if is_free:
                packs |= dict.fromkeys(parse_edges(edges.read_bytes()), 0)
                done.append(edges)
    for name in packs:
        remove_keep_mark(store / f"{name}.keep")
    write_atomically(folder / "packs", msgspec.json.encode(packs), 0o600)
    for edges in done:
        edges.unlink(missing_ok=True)
    return packs


def read_known_packs(path: Path) -> PackLevels:
    """Return the recorded packs; empty if unreadable, which leaves those packs to git."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=PackLevels)
    except (OSError, msgspec.DecodeError):
        return {}


def parse_edges(edges: bytes) -> Iterator[str]:
    """Yield the packs listed by fast-import: lines of `<path>: <commit>…`."""
    for line in edges.splitlines():
        name = os.fsdecode(line.rpartition(b": ")[0].rpartition(b"/")[2])
        if name.startswith("pack-") and name.endswith(".pack"):
            yield name.removesuffix(".pack")


def remove_keep_mark(path: Path) -> None:
    """Remove the mark of a killed fast-import."""
    try:
        if path.read_bytes().startswith(b"fast-import"):
            path.unlink()
    except FileNotFoundError:
        return


def merge_packs(repository: RemitRepository, store: Path, names: list[str]) -> str:
    """Write a pack with the objects of these packs; return its name. Source: git-pack-objects(1), read 2026-11."""
    listed = "".join(f"{name}.pack\n" for name in names).encode()
    own = ("pack-objects", "--stdin-packs", "--quiet", "--threads=1", str(store / "pack"))
    return f"pack-{repository.run(*own, stdin=listed).decode().strip()}"


def remove_pack(store: Path, name: str) -> None:
    """Remove a pack, index first: a pack without an index is never read."""
    for suffix in ("idx", "rev", "bitmap", "pack"):
        (store / f"{name}.{suffix}").unlink(missing_ok=True)
