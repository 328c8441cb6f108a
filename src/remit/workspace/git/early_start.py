"""git, started before the code is loaded that will read its answer: git works while Python loads.

Nothing is imported here but built-in modules. What was started is used only where the very same command is asked for
later (`Git.start`), and by nobody else; what is not asked for ends with this process.
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
"""What a repository's own configuration may not make our reading do: run programs, take locks, start gc, fetch what a
partial clone lacks, believe a file unchanged without looking. Its filters are taken out by `git_settings.overrides`."""

PROGRAM_SETTING_WORDS = (
    *(b"include", b"fsmonitor", b"pager", b"command", b"difffilter", b"external", b"textconv", b"filter", b"gpg"),
    *(b"partialclone", b"promisor", b"excludesfile", b"worktree", b"hookspath"),
)
"""Without one of these words, in capitals or not, a settings file names no program and nothing to fetch."""

MAX_QUESTION_BYTES = 32 * 1024
"""Bytes that a pipe takes whatever the reader does; a longer question goes to a git of its own."""

READ_BYTES = 1 << 20
SIGKILL = 9
EXIT_POLL_S = 0.0002


class EarlyGit:
    """One git at work. `asked` is the pipe that it reads its question from, where it has one."""

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
        """Let it begin with that question. Raises OSError."""
        asked, self.asked = self.asked, -1
        if asked >= 0:
            with os.fdopen(asked, "wb") as pipe:
                pipe.write(question)

    def read_answer(self, limit_s: float, release: Callable[[], float] = lambda: 1.0) -> tuple[int, bytes]:
        """Exit code and output, once it has ended. Raises OSError; TimeoutError where it takes longer: it is killed.

        `release` lets go a git that waits at a pipe; it answers after how many seconds to call it again.
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
        """How it ended. Raises OSError, TimeoutError."""
        while True:
            process, status = os.waitpid(self.process, os.WNOHANG)
            if process:
                return status
            if time.monotonic() > until:
                raise TimeoutError(f"git does not end though its answer is there: process {self.process}")
            time.sleep(EXIT_POLL_S)


def read_until(descriptor: int, until: float, release: Callable[[], float]) -> Iterator[bytes]:
    """What comes from a pipe to its end. Raises OSError; TimeoutError where that is not there in time."""
    from select import POLLIN, poll  # no built-in module, and git is to be started before it is loaded

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
"""What was started and not asked for yet, by its whole command."""


START_VARIABLES: dict[str, str] = {}
"""The variables with which the first were started; none where this process starts none ahead."""


def start_git(variables: Mapping[str, str], folder: str, *arguments: str, asks: bool = False) -> None:
    """Start `git <arguments>` in `folder`, whose repository must be `plain`. Where that fails, it is not started."""
    START_VARIABLES.update(variables)
    start_command(("git", *GUARDS, "-C", folder, *arguments), variables, asks=asks)


def start_command(command: tuple[str, ...], variables: Mapping[str, str], *, asks: bool) -> None:
    """Start that command. Where that fails, it is not started."""
    try:
        STARTED_COMMANDS[command] = EarlyGit(command, variables, asks=asks)
    except OSError:
        return


def take_started(command: tuple[str, ...], question: bytes) -> EarlyGit | None:
    """The one that was started with that command, with its question asked; in a process that began so, any other is
    started now, which needs no module more. None where neither can be.
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
    """Whether the settings of that folder's repository name nothing that would have to be taken out."""
    git = f"{repository}/.git"
    if any(os.path.lexists(f"{git}/{name}") for name in ("commondir", "config.worktree")):
        return False
    try:
        with open(f"{git}/config", "rb") as file:  # noqa: PTH123  pathlib is not loaded yet
            settings = file.read(READ_BYTES).lower()
    except OSError:
        return False
    return len(settings) < READ_BYTES and not any(word in settings for word in PROGRAM_SETTING_WORDS)
