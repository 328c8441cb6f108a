"""The one seam to git: every call of the git command goes through here, but for the look at a repository's settings
that has to come before (`git_settings`).
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from remit.workspace.git import early_start, pipes
from remit.workspace.git.early_start import GUARDS, take_started
from remit.workspace.git.process import run_git_process
from remit.workspace.git.settings import override_options

TIMEOUT_S = 60.0

MISSING_OBJECT_TEXT = "from promisor remote"
"""What git says where a partial clone lacks something, and it may not fetch that."""

PARTIAL_CLONE_HELP = (
    "this partial clone lacks a part of its history that is needed here, and Remit itself fetches nothing\n"
    "hint: `git fetch --refetch --no-filter` brings all of it over, once; `git blame FILE` what that file needs"
)


GIT_FATAL_EXIT_CODE = 128
"""git's exit code where it cannot work in a repository at all, among other troubles."""

DUBIOUS_OWNERSHIP = re.compile(r"detected dubious ownership in repository at '(?P<folder>[^\n]+)'")
"""What git says where the repository belongs to another user."""

OWNERSHIP_HELP = (
    "the repository {folder!r} belongs to another user, and git does not work in it\n"
    "hint: if you trust it, run `git config --global --add safe.directory {folder}`"
)


class GitError(RuntimeError):
    """git could not be run, or said no."""

    def __init__(self, arguments: Iterable[str], code: int | None, message: str) -> None:
        command = " ".join(["git", *arguments])
        owned = DUBIOUS_OWNERSHIP.search(message)
        if owned:
            message = OWNERSHIP_HELP.format(folder=owned["folder"])
        elif MISSING_OBJECT_TEXT in message:
            message = PARTIAL_CLONE_HELP
        told = message.strip()[:500]
        super().__init__(told if owned else f"`{command[:300]}` failed ({code}): {told}")
        self.code = code
        self.message = message


class Git:
    """git in one repository, which sees the objects in the folder `borrowed` too."""

    def __init__(self, folder: Path, *, extra_objects: Path | None = None) -> None:
        self.folder = folder
        self.extra_objects = extra_objects

    def run(self, *arguments: str, stdin: bytes = b"", ok: tuple[int, ...] = (0,)) -> bytes:
        """Standard output of `git <arguments>`. Raises GitError for an exit code that is not in `ok`."""
        try:
            command = [
                *self._environment_prefix(),
                "git",
                *GUARDS,
                *override_options(self.folder),
                "-C",
                str(self.folder),
                *arguments,
            ]
        except ValueError as error:
            raise GitError(arguments, None, str(error)) from error
        try:
            ahead = None if self.extra_objects else take_early_answer(tuple(command), stdin, folder=str(self.folder))
            if ahead is not None and ahead[0] in ok and ahead[0] != GIT_FATAL_EXIT_CODE:
                return ahead[1]
            code, out, said = run_git_process(command, stdin, TIMEOUT_S, str(self.folder))
        except FileNotFoundError as error:
            raise GitError(arguments, None, "git is not on PATH; install it, or mend PATH") from error
        except OSError as error:
            raise GitError(arguments, None, str(error)) from error
        if code not in ok or (
            code == GIT_FATAL_EXIT_CODE and DUBIOUS_OWNERSHIP.search(said.decode("utf-8", "replace"))
        ):
            raise GitError(arguments, code, said.decode("utf-8", "replace"))
        return out

    def _environment_prefix(self) -> tuple[str, ...]:
        """What the command begins with, so that git finds the objects that it borrows."""
        if self.extra_objects is None:
            return ()
        # Quoted, since a colon would separate two folders.
        path = "".join(
            c if c.isascii() and c.isprintable() and c not in '"\\' else octal_escape(c)
            for c in str(self.extra_objects)
        )
        return ("env", f'GIT_ALTERNATE_OBJECT_DIRECTORIES="{path}"')

    def start_early(self, *arguments: str) -> None:
        """Start what `run` will be asked for soon, in a process that began so: it asks once, and ends."""
        if early_start.START_VARIABLES and not override_options(self.folder):
            early_start.start_git(early_start.START_VARIABLES, str(self.folder), *arguments)

    def text(self, *arguments: str, ok: tuple[int, ...] = (0,)) -> str:
        """Standard output as text, without the last newline."""
        return self.run(*arguments, ok=ok).decode("utf-8", "surrogateescape").rstrip("\n")

    def read_head(self) -> str | None:
        """The commit that HEAD names; None before the first."""
        return self.text("rev-parse", "--verify", "--quiet", "HEAD^{commit}", ok=(0, 1, 128)) or None


def octal_escape(character: str) -> str:
    """A character as git's quoting writes it: three octal digits for each of its bytes."""
    return "".join(f"\\{byte:03o}" for byte in os.fsencode(character))


def take_early_answer(
    command: tuple[str, ...], question: bytes, limit_s: float = TIMEOUT_S, folder: str = "."
) -> tuple[int, bytes] | None:
    """Exit code and output of that command where it was started ahead; why it failed, only asking again tells.

    Raises TimeoutError: who asked again would wait as long once more.
    """
    started = take_started(command, question)
    try:
        return started.read_answer(limit_s, lambda: pipes.release_pipes(folder)) if started else None
    except TimeoutError as error:
        raise TimeoutError(f"`git` was killed after {limit_s:g} seconds: {error}") from error
    except OSError:
        return None
