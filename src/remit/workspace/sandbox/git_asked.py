"""git, asked about a repository as a command left it: its new objects and index lie in the sandbox's layer still."""

import subprocess
from pathlib import Path

from remit.workspace.git import TIMEOUT_S, GitError
from remit.workspace.git_ahead import GUARDS
from remit.workspace.git_process import finished

OBJECTS = "GIT_ALTERNATE_OBJECT_DIRECTORIES"
INDEX = "GIT_INDEX_FILE"


class Layered:
    """The real repository `common`, with what `upper` took beside it."""

    def __init__(self, upper: Path, common: Path) -> None:
        self.upper = upper
        self.common = common

    def asked(
        self, *arguments: str, stdin: bytes = b"", index: Path | None = None, ok: tuple[int, ...] = (0,)
    ) -> bytes:
        """Standard output of `git <arguments>`. Raises GitError for an exit code that is not in `ok`."""
        done = self.run(*arguments, stdin=stdin, index=index)
        if done.returncode not in ok:
            raise GitError(arguments, done.returncode, done.stderr.decode("utf-8", "replace"))
        return done.stdout

    def says(self, *arguments: str) -> bool:
        """Whether git says yes. Raises GitError where it does not come to an end."""
        return self.run(*arguments).returncode == 0

    def run(self, *arguments: str, stdin: bytes = b"", index: Path | None = None) -> subprocess.CompletedProcess[bytes]:
        """git, to its end. Raises GitError where there is none."""
        around = [f"{OBJECTS}={self.upper / 'objects'}", *([f"{INDEX}={index}"] if index else [])]
        words = ["env", *around, "git", *GUARDS, "--no-replace-objects", "--git-dir", str(self.common), *arguments]
        try:
            code, out, said = finished(words, stdin, TIMEOUT_S, ".")
        except OSError as error:
            raise GitError(arguments, None, str(error)) from error
        return subprocess.CompletedProcess(words, code, out, said)
