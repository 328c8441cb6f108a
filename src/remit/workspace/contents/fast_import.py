"""The running `git fast-import` that writes objects into Remit's own repository.

Source: git-fast-import(1), read 2026-11.
"""

import subprocess
import tempfile
import threading
import weakref
from contextlib import ExitStack, suppress
from typing import IO

from remit.workspace.contents.content_store import MAX_DELTA_DEPTH, RemitRepository
from remit.workspace.git.command import GitError, git_words
from remit.workspace.git.repository import read_loose_ref

IMPORT_COMMAND = ("fast-import",)
ANSWER_TIMEOUT_S = 60.0
IMPORT_OPTIONS = ("-c", "fastimport.unpackLimit=0", "-c", "core.ignoreCase=false")
"""Always a pack, never loose objects; and case-sensitive names."""


class FastImport:
    """A running fast-import: starting a git process costs more than the written data.

    After `write_commit` returns, the commit is durable and under its ref. No object is dropped while the process runs.
    """

    def __init__(self, repository: RemitRepository) -> None:
        self.repository = repository
        self.commit_count = 0
        self.exit_stack = ExitStack()
        self.exit_stack.enter_context(repository.prevent_dropping())
        # An owner that is dropped without `close` leaves no process behind.
        weakref.finalize(self, self.exit_stack.close)
        self.stderr_file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  closed with the stack
        self.exit_stack.enter_context(self.stderr_file)
        words = [*git_words(repository.path, IMPORT_COMMAND, IMPORT_OPTIONS), "--git-dir=.", *IMPORT_COMMAND]
        pipe = subprocess.PIPE
        try:
            self.process = subprocess.Popen(
                [*words, "--quiet", "--force", f"--depth={MAX_DELTA_DEPTH}"],
                stdin=pipe,
                stdout=pipe,
                stderr=self.stderr_file,
            )
        except OSError as error:
            self.close()
            raise GitError(IMPORT_COMMAND, None, str(error)) from error
        self.exit_stack.callback(wait_for_end, self.process)

    def write_commit(self, stream: bytes, ref: str) -> str:
        """Write the commit in `stream`, marked `:1`, on `ref`; return its name. Raises GitError."""
        name = self.ask(stream + b"checkpoint\nget-mark :1\n").decode()
        # fast-import continues after a failed ref update.
        if read_loose_ref(self.repository.path, ref) != name:
            out = self.repository.run("rev-parse", "--verify", "--quiet", ref, ok=(0, 1, 128))
            if out.decode().strip() != name:
                raise GitError(IMPORT_COMMAND, None, f"the ref {ref!r} was not written: {self.read_stderr()}")
        self.commit_count += 1
        return name

    def read_tree(self, commit: str) -> str:
        mode, _, rest = self.ask(b'ls %s ""\n' % commit.encode()).partition(b" ")
        if mode != b"040000":
            raise self.build_error(f"it knows no tree of {commit}")
        return rest.split()[1].decode()

    def send(self, stream: bytes) -> None:
        """Send commands. Raises GitError if they are not read in time."""
        self.exchange(stream, has_answer=False)

    def ask(self, stream: bytes) -> bytes:
        """Send commands and return the line of output. Raises GitError if none comes in time."""
        line = self.exchange(stream, has_answer=True)
        if not line:
            raise self.build_error(f"it ended, or gave no answer within {ANSWER_TIMEOUT_S:.0f} s")
        return line.rstrip(b"\n")

    def exchange(self, stream: bytes, *, has_answer: bool) -> bytes:
        timer = threading.Timer(ANSWER_TIMEOUT_S, self.process.kill)
        timer.start()
        try:
            if self.process.stdin is None or self.process.stdout is None:
                raise AssertionError("the process was started with pipes")
            self.process.stdin.write(stream)
            self.process.stdin.flush()
            return self.process.stdout.readline() if has_answer else b""
        except OSError as error:
            raise self.build_error(str(error)) from error
        finally:
            timer.cancel()

    def build_error(self, reason: str) -> GitError:
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
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):  # the process ended before reading its input
                pipe.close()
    try:
        process.wait(ANSWER_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
