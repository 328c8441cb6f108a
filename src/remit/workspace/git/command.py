"""The git command. Each call of git goes through here, except for reading a repository's settings first."""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from remit.workspace.git import early_start
from remit.workspace.git.early_start import GUARDS, take_started
from remit.workspace.git.programs_in_settings import override_options
from remit.workspace.git.run_process import release_pipes, run_git_process

TIMEOUT_S = 60.0

MISSING_OBJECT_TEXT = "from promisor remote"
"""git's message for an object that a partial clone lacks and may not fetch."""

PARTIAL_CLONE_HELP = (
    "this partial clone lacks a part of its history that is needed here, and Remit itself fetches nothing\n"
    "hint: `git fetch --refetch --no-filter` brings all of it over, once; `git blame FILE` what that file needs"
)

GIT_FATAL_EXIT_CODE = 128
"""git's exit code if the repository cannot be used, among other errors."""

DUBIOUS_OWNERSHIP = re.compile(r"detected dubious ownership in repository at '(?P<folder>[^\n]+)'")
"""git's message for a repository of another user."""

OWNERSHIP_HELP = (
    "the repository {folder!r} belongs to another user, and git does not work in it\n"
    "hint: if you trust it, run `git config --global --add safe.directory {folder}`"
)


class GitError(RuntimeError):
    """git could not be run, or failed."""

    def __init__(self, arguments: Iterable[str], code: int | None, message: str) -> None:
        command = " ".join(["git", *arguments])
        owned = DUBIOUS_OWNERSHIP.search(message)
        if owned:
            message = OWNERSHIP_HELP.format(folder=owned["folder"])
        elif MISSING_OBJECT_TEXT in message:
            message = PARTIAL_CLONE_HELP
        text = message.strip()[:500]
        super().__init__(text if owned else f"`{command[:300]}` failed ({code}): {text}")
        self.code = code
        self.message = message


class GitResult(NamedTuple):
    """The end of a git process, with its output and error text."""

    code: int
    output: bytes
    errors: str


class Git:
    """git in a repository, optionally with the objects of the folder `extra_objects`."""

    def __init__(self, folder: Path, *, extra_objects: Path | None = None) -> None:
        self.folder = folder
        self.extra_objects = extra_objects

    def run(self, *arguments: str, stdin: bytes = b"", ok: tuple[int, ...] = (0,)) -> bytes:
        """Return the standard output of `git <arguments>`. Raises GitError for an exit code not in `ok`."""
        command = (*self._environment_prefix(), *git_words(self.folder, arguments), *arguments)
        if self.extra_objects is None:
            try:
                early = take_early_answer(command, stdin, folder=str(self.folder))
            except TimeoutError as error:
                raise GitError(arguments, None, str(error)) from error
            if early is not None and early[0] in ok and early[0] != GIT_FATAL_EXIT_CODE:
                return early[1]
        done = execute(command, arguments, stdin, self.folder)
        if done.code not in ok or (done.code == GIT_FATAL_EXIT_CODE and DUBIOUS_OWNERSHIP.search(done.errors)):
            raise GitError(arguments, done.code, done.errors)
        return done.output

    def text(self, *arguments: str, ok: tuple[int, ...] = (0,)) -> str:
        """Return the standard output as text, without the last newline. Raises GitError."""
        return self.run(*arguments, ok=ok).decode("utf-8", "surrogateescape").rstrip("\n")

    def read_head(self) -> str | None:
        """Return the commit of HEAD; None before the first commit."""
        return self.text("rev-parse", "--verify", "--quiet", "HEAD^{commit}", ok=(0, 1, 128)) or None

    def start_early(self, *arguments: str) -> None:
        """Start a command that `run` will be asked for soon; only in a process that began with an early start."""
        if early_start.START_VARIABLES and not override_options(self.folder):
            early_start.start_git(early_start.START_VARIABLES, str(self.folder), *arguments)

    def _environment_prefix(self) -> tuple[str, ...]:
        if self.extra_objects is None:
            return ()
        # Quoted, since a colon would separate two folders.
        characters = str(self.extra_objects)
        path = "".join(c if c.isascii() and c.isprintable() and c not in '"\\' else octal_escape(c) for c in characters)
        return ("env", f'GIT_ALTERNATE_OBJECT_DIRECTORIES="{path}"')


def git_words(folder: Path, arguments: Iterable[str] = (), options: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the words before the arguments: git in `folder`, running no program of the repository. Raises GitError."""
    try:
        return ("git", *GUARDS, *override_options(folder), *options, "-C", str(folder))
    except ValueError as error:
        raise GitError(arguments, None, str(error)) from error


def execute(command: Sequence[str], arguments: Iterable[str], stdin: bytes, folder: Path) -> GitResult:
    """Run a complete command in `folder` to its end. Raises GitError if git cannot run."""
    try:
        code, out, errors = run_git_process(command, stdin, TIMEOUT_S, str(folder))
    except FileNotFoundError as error:
        raise GitError(arguments, None, "git is not on PATH; install it, or mend PATH") from error
    except OSError as error:
        raise GitError(arguments, None, str(error)) from error
    return GitResult(code, out, errors.decode("utf-8", "replace"))


def octal_escape(character: str) -> str:
    """Quote a character for git: three octal digits per byte."""
    return "".join(f"\\{byte:03o}" for byte in os.fsencode(character))


def take_early_answer(
    command: tuple[str, ...], question: bytes, limit_s: float = TIMEOUT_S, folder: str = "."
) -> tuple[int, bytes] | None:
    """Return exit code and output if the command was started early; None otherwise, or on failure.

    Raises TimeoutError: a second attempt would wait as long again.
    """
    started = take_started(command, question)
    if started is None:
        return None
    try:
        return started.read_answer(limit_s, lambda: release_pipes(folder))
    except TimeoutError as error:
        raise TimeoutError(f"`git` was killed after {limit_s:g} seconds: {error}") from error
    except OSError:
        return None
