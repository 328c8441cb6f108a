"""One `git fast-import` that writes snapshots: a process of git's costs more than what it writes."""

import os
import selectors
import subprocess
import tempfile
import time
import weakref
from contextlib import ExitStack
from typing import IO

from remit.core.once import Once
from remit.workspace.file_locks import lock_file
from remit.workspace.git import GitError
from remit.workspace.git_ahead import GUARDS
from remit.workspace.git_settings import overrides
from remit.workspace.head import loose_ref
from remit.workspace.own_repository import OwnRepository

COMMAND = ("fast-import",)
ACK_S = 60.0
MOST = 25
"""Snapshots of one process: at each, git looks at every ref that the process made."""

OPTIONS = ("-c", "fastimport.unpackLimit=0", "-c", "core.ignoreCase=false")
"""Always a pack, never loose objects, which the user's `gc --auto` counts; and `A` is another file than `a`."""


class Importer:
    """A running fast-import. What it writes is durable, and under its ref, when `commit` returns.

    Its packs are named in a file of `edges`, locked for as long as the process runs: their `.keep` is git's own, and
    keeps them from being counted. Source: git-fast-import(1), read 2026-11.
    """

    def __init__(self, repository: OwnRepository) -> None:
        self.repository = repository
        self.made = 0
        edges = repository.edges
        edges.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.edges = edges / f"{os.getpid()}.{os.urandom(4).hex()}"
        self.lock = os.open(self.edges, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        lock_file(self.lock, self.edges)
        self.held = ExitStack()
        self.held.callback(os.close, self.lock)
        # Whoever drops a gate without closing it leaves no process behind.
        weakref.finalize(self, self.held.close)
        self.unread = b""

    @Once
    def said(self) -> IO[bytes]:
        """What the process says goes wrong."""
        return self.held.enter_context(tempfile.TemporaryFile())

    @Once
    def process(self) -> subprocess.Popen[bytes]:
        """The process. Raises GitError."""
        folder = self.repository.path
        own = ("--git-dir=.", "fast-import", "--quiet", "--force", f"--export-pack-edges={self.edges}")
        try:
            command = ["git", *GUARDS, *overrides(folder), *OPTIONS, "-C", str(folder), *own]
            found = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said)
        except (OSError, ValueError) as error:
            raise GitError(COMMAND, None, str(error)) from error
        self.held.callback(ended, found)
        return found

    def tree(self, commit: str) -> str:
        """The name of a commit's tree. Raises GitError."""
        self.ask(b'ls %s ""\n' % commit.encode())
        mode, _, rest = self.line().partition(b" ")
        if mode != b"040000":
            raise self.trouble(f"it knows no tree of {commit}")
        return rest.split()[1].decode()

    def ask(self, stream: bytes) -> None:
        """Send it commands. Raises GitError."""
        if self.process.stdin is None:
            raise AssertionError("the process was started with pipes")
        try:
            self.process.stdin.write(stream)
            self.process.stdin.flush()
        except OSError as error:
            raise self.trouble(str(error)) from error

    def commit(self, stream: bytes, ref: str) -> str:
        """Write the commit that `stream` describes, marked `:1`, on `ref`; its name. Raises GitError."""
        self.ask(stream + b"checkpoint\nget-mark :1\nprogress written\n")
        name = self.line().decode()
        if self.line() != b"progress written":
            raise self.trouble("it answered out of turn")
        if not self.stands(ref, name):
            raise GitError(COMMAND, None, f"the ref {ref!r} was not written: {self.complaint()}")
        self.made += 1
        return name

    def marked(self, mark: str) -> str:
        """The name of the object with that mark. Raises GitError."""
        self.ask(f"get-mark {mark}\n".encode())
        return self.line().decode()

    def stands(self, ref: str, name: str) -> bool:
        """Whether the ref names that commit: fast-import goes on where it could not be written."""
        if loose_ref(self.repository.path, ref) == name:
            return True
        said = self.repository.run("rev-parse", "--verify", "--quiet", ref, ok=(0, 1, 128))
        return said.decode().strip() == name

    def line(self) -> bytes:
        """The next line of its answer. Raises GitError where none comes."""
        if self.process.stdout is None:
            raise AssertionError("the process was started with pipes")
        until = time.monotonic() + ACK_S
        descriptor = self.process.stdout.fileno()
        while b"\n" not in self.unread:
            ready = readable(descriptor, max(0.0, until - time.monotonic()))
            block = os.read(descriptor, 65536) if ready else b""
            if not block:
                raise self.trouble("it ended" if ready else f"no answer within {ACK_S:.0f} s")
            self.unread += block
        found, _, self.unread = self.unread.partition(b"\n")
        return found

    def trouble(self, what: str) -> GitError:
        """The error to raise; the process is ended, and the report that it leaves in the git folder is taken away."""
        self.process.kill()
        self.process.wait()
        (self.repository.path / f"fast_import_crash_{self.process.pid}").unlink(missing_ok=True)
        return GitError(COMMAND, self.process.returncode, f"{what}: {self.complaint()}")

    def complaint(self) -> str:
        """What the process said."""
        self.said.seek(0)
        return self.said.read(2000).decode("utf-8", "replace")

    def close(self) -> None:
        """Let the process end, and its packs be folded."""
        self.held.close()


def ended(process: subprocess.Popen[bytes]) -> None:
    """Wait for the process to end of itself, now that it hears no more."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except BrokenPipeError:  # it ended before it had read all
                continue
    try:
        process.wait(ACK_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def readable(descriptor: int, wait_s: float) -> bool:
    """Whether something can be read within that time. The number may be beyond what `select` takes."""
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(wait_s))
