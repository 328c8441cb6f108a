"""The one seam to git: every call of the git command goes through here, but for the look at a repository's settings
that has to come before (`git_settings`).
"""

import subprocess
from collections.abc import Iterable
from pathlib import Path

from remit.workspace.git_settings import overrides

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
partial clone lacks, believe a file unchanged without looking. Its filters are taken out by `overrides`."""

TIMEOUT_S = 60.0


class GitError(RuntimeError):
    """git could not be run, or said no."""

    def __init__(self, arguments: Iterable[str], code: int | None, message: str) -> None:
        command = " ".join(["git", *arguments])
        super().__init__(f"`{command[:300]}` failed ({code}): {message.strip()[:500]}")
        self.code = code
        self.message = message


class Git:
    """git in one repository."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, *arguments: str, stdin: bytes = b"", ok: tuple[int, ...] = (0,)) -> bytes:
        """Standard output of `git <arguments>`. Raises GitError for an exit code that is not in `ok`."""
        try:
            command = ["git", *GUARDS, *overrides(self.folder), "-C", str(self.folder), *arguments]
        except ValueError as error:
            raise GitError(arguments, None, str(error)) from error
        try:
            done = subprocess.run(command, input=stdin, capture_output=True, timeout=TIMEOUT_S, check=False)
        except FileNotFoundError as error:
            raise GitError(arguments, None, "git is not on PATH; install it, or mend PATH") from error
        except (OSError, subprocess.TimeoutExpired) as error:
            raise GitError(arguments, None, str(error)) from error
        if done.returncode not in ok:
            raise GitError(arguments, done.returncode, done.stderr.decode("utf-8", "replace"))
        return done.stdout

    def text(self, *arguments: str, ok: tuple[int, ...] = (0,)) -> str:
        """Standard output as text, without the last newline."""
        return self.run(*arguments, ok=ok).decode("utf-8", "surrogateescape").rstrip("\n")

    def head(self) -> str | None:
        """The commit that HEAD names; None before the first."""
        return self.text("rev-parse", "--verify", "--quiet", "HEAD^{commit}", ok=(0, 1, 128)) or None
