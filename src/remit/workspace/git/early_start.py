"""git started before the code that reads the answer is loaded, so that git works while Python imports.

Only built-in modules are imported here. An early process is used for exactly the same command later (`Git.run`); unused
processes end with this process.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping

GUARDS = (
    "--no-optional-locks",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "core.quotePath=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "gc.auto=0",
    "-c",
    "maintenance.auto=false",
    *(
        part
        for word in ("", "file.", "git.", "ssh.", "http.", "https.", "ext.")
        for part in ("-c", f"protocol.{word}allow=never")
    ),
    *("-c", "core.ignoreStat=false", "-c", "core.checkStat=default", "-c", "core.trustctime=true"),
    *("-c", "core.untrackedCache=false", "-c", "log.showSignature=false"),
)
"""Options against a repository's own configuration: reading must not run programs, take locks, start gc, fetch missing
objects, or believe a file unchanged without looking. Filters are handled by `git.settings.override_options`.
"""

PROGRAM_SETTING_WORDS = (
    *(b"include", b"fsmonitor", b"pager", b"command", b"difffilter", b"external", b"textconv", b"filter", b"gpg"),
    *(b"partialclone", b"promisor", b"excludesfile", b"worktree", b"hookspath"),
)
"""A settings file without any of these words, in any case, names no program and no remote to fetch from."""

MAX_QUESTION_BYTES = 32 * 1024
"""Size that a pipe accepts without a reader; a longer question goes to a separate git."""

READ_BYTES = 1 << 20
SIGKILL = 9
EXIT_POLL_S = 0.0002

START_VARIABLES: dict[str, str] = {}
"""The environment of the first start; empty in processes without an early start."""


class EarlyGit:
    """A running git. `question_pipe` is the write end of its input, if any."""

    def __init__(self, command: tuple[str, ...], variables: Mapping[str, str], *, asks: bool) -> None:
        reading, self.asked = os.pipe() if asks else (os.open(os.devnull, os.O_RDONLY), -1)
        self.told, writing = os.pipe()
        into = [(reading, 0), (writing, 1)]
        nowhere = (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)
        actions = [*((os.POSIX_SPAWN_DUP2, fd, number) for fd, number in into), nowhere]
        try:
            self.process = os.posix_spawnp("git", command, variables, file_actions=actions)
        finally:
            os.close(reading)
            os.close(writing)

    def send_question(self, question: bytes) -> None:
        """Write the question and close the pipe. Raises OSError."""
        query, self.asked = self.asked, -1
        if query >= 0:
            with os.fdopen(query, "wb") as pipe:
                pipe.write(question)

    def read_answer(self, limit_s: float, release: Callable[[], float] = lambda: 1.0) -> tuple[int, bytes]:
        """Return exit code and output after the end. Raises OSError; TimeoutError after killing a slow process.

        `release` unblocks a git that waits at a FIFO, and returns the seconds until the next call.
        """
        until = time.monotonic() + limit_s
        try:
            out = b"".join(read_until(self.told, until, release))
            return os.waitstatus_to_exitcode(self.wait_for_exit(until)), out
        except TimeoutError:
            os.kill(self.process, SIGKILL)
            os.waitpid(self.process, 0)
            raise
        finally:
            os.close(self.told)

    def wait_for_exit(self, until: float) -> int:
        """Return the wait status. Raises OSError, TimeoutError."""
        while True:
            process, status = os.waitpid(self.process, os.WNOHANG)
            if process:
                return status
            if time.monotonic() > until:
                raise TimeoutError(f"git does not end though its answer is there: process {self.process}")
            time.sleep(EXIT_POLL_S)


def read_until(descriptor: int, until: float, release: Callable[[], float]) -> Iterator[bytes]:
    """Yield the blocks of a pipe up to its end. Raises OSError, TimeoutError."""
    from select import POLLIN, poll  # not built in: git starts before the import

    waiting = poll()
    waiting.register(descriptor, POLLIN)
    wait_s = 1.0
    while True:
        left_s = until - time.monotonic()
        if not waiting.poll(max(0.0, min(wait_s, left_s)) * 1000):
            if left_s <= wait_s:
                raise TimeoutError("git takes too long")
            wait_s = release()
            continue
        part = os.read(descriptor, READ_BYTES)
        if not part:
            return
        yield part


STARTED_COMMANDS: dict[tuple[str, ...], EarlyGit] = {}
"""Processes that were started and not yet used, by command."""


def start_git(variables: Mapping[str, str], folder: str, *arguments: str, asks: bool = False) -> None:
    """Start `git <arguments>` in `folder`, whose repository has plain settings. Failures are ignored."""
    START_VARIABLES.update(variables)
    start_command(("git", *GUARDS, "-C", folder, *arguments), variables, asks=asks)


def start_command(command: tuple[str, ...], variables: Mapping[str, str], *, asks: bool) -> None:
    try:
        STARTED_COMMANDS[command] = EarlyGit(command, variables, asks=asks)
    except OSError:
        return


def take_started(command: tuple[str, ...], question: bytes) -> EarlyGit | None:
    """Return the process for the command, with the question sent; None if not available.

    In a process that began with an early start, a missing process is started now, which saves importing `subprocess`.
    """
    if len(question) > MAX_QUESTION_BYTES:
        return None
    if command not in STARTED_COMMANDS and START_VARIABLES:
        start_command(command, START_VARIABLES, asks=bool(question))
    found = STARTED_COMMANDS.pop(command, None)
    if found is None:
        return None
    try:
        found.send_question(question)
    except OSError:
        return None
    return found


def has_plain_settings(repository: str) -> bool:
    """Return whether the repository's settings name no program that would need an override."""
    git = f"{repository}/.git"
    if any(os.path.lexists(f"{git}/{name}") for name in ("commondir", "config.worktree")):
        return False
    try:
        with open(f"{git}/config", "rb") as file:  # noqa: PTH123  pathlib is not loaded yet
            settings = file.read(READ_BYTES).lower()
    except OSError:
        return False
    return len(settings) < READ_BYTES and not any(word in settings for word in PROGRAM_SETTING_WORDS)
