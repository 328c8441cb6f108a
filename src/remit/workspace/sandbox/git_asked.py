"""git, asked about a repository as a command left it: its new objects and index lie in the sandbox's layer still."""

import subprocess
from collections.abc import Iterable
from pathlib import Path

from remit.workspace.git import TIMEOUT_S, GitError
from remit.workspace.git_ahead import GUARDS
from remit.workspace.git_process import finished

OBJECTS = "GIT_ALTERNATE_OBJECT_DIRECTORIES"
OWN_OBJECTS = "GIT_OBJECT_DIRECTORY"
INDEX = "GIT_INDEX_FILE"

MAX_NAMED_PATHS = 500
"""More paths than this are looked up in the whole tree: a command line has an end."""


class Layered:
    """The real repository `common`, with what `upper` took beside it."""

    def __init__(self, upper: Path, common: Path) -> None:
        self.upper = upper
        self.common = common

    def asked(
        self,
        *arguments: str,
        stdin: bytes = b"",
        index: Path | None = None,
        ok: tuple[int, ...] = (0,),
        scratch: Path | None = None,
    ) -> bytes:
        """Standard output of `git <arguments>`. Raises GitError for an exit code that is not in `ok`."""
        done = self.run(*arguments, stdin=stdin, index=index, scratch=scratch)
        if done.returncode not in ok:
            raise GitError(arguments, done.returncode, done.stderr.decode("utf-8", "replace"))
        return done.stdout

    def says(self, *arguments: str) -> bool:
        """Whether git says yes. Raises GitError where it does not come to an end."""
        return self.run(*arguments).returncode == 0

    def run(
        self, *arguments: str, stdin: bytes = b"", index: Path | None = None, scratch: Path | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Run git to its end. Objects that it makes go to the folder `scratch`. Raises GitError where there is none.

        It stands in `/`, where no file of attributes lies that the command could have written.
        """
        own = self.upper / "objects"
        around = [f"{OBJECTS}={own}", *([f"{INDEX}={index}"] if index else [])]
        if scratch is not None:
            around = [f"{OWN_OBJECTS}={scratch}", f"{OBJECTS}={self.common / 'objects'}:{own}"]
        words = [
            "env",
            "-C",
            "/",
            *around,
            "git",
            *GUARDS,
            "--no-replace-objects",
            "--git-dir",
            str(self.common),
            *arguments,
        ]
        try:
            code, out, said = finished(words, stdin, TIMEOUT_S, str(self.common))
        except OSError as error:
            raise GitError(arguments, None, str(error)) from error
        return subprocess.CompletedProcess(words, code, out, said)

    def commit(self, name: str) -> str:
        """Return the commit of that name; empty where there is none. Raises GitError."""
        words = ("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        return self.asked(*words, ok=(0, 1, 128)).decode().strip()

    def empty_tree(self) -> str:
        """Return the name of the tree without files. Raises GitError."""
        return self.asked("hash-object", "-t", "tree", "/dev/null").decode().strip()

    def blobs(self, tree: str, paths: Iterable[str]) -> dict[str, str]:
        """Return, by path, the object that a commit or tree has there, of these paths. Raises GitError."""
        wanted = set(paths)
        if not wanted or not tree:
            return {}
        named = sorted(wanted) if len(wanted) <= MAX_NAMED_PATHS else []
        raw = self.asked("--literal-pathspecs", "ls-tree", "-r", "-z", "--full-tree", tree, "--", *named)
        lines = (line.partition("\t") for line in raw.decode("utf-8", "surrogateescape").split("\0")[:-1])
        return {path: what.split(" ")[2] for what, _, path in lines if path in wanted}
