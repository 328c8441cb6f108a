"""git, asked about a repository as a command left it: its new objects and index lie in the sandbox's layer still."""

import subprocess
from collections.abc import Iterable
from pathlib import Path

from remit.workspace.git.command import TIMEOUT_S, GitError
from remit.workspace.git.early_start import GUARDS
from remit.workspace.git.process import run_git_process

ALTERNATE_OBJECTS_VARIABLE = "GIT_ALTERNATE_OBJECT_DIRECTORIES"
OBJECTS_VARIABLE = "GIT_OBJECT_DIRECTORY"
INDEX_VARIABLE = "GIT_INDEX_FILE"

MAX_NAMED_PATHS = 500
"""More paths than this are looked up in the whole tree: a command line has an end."""


class LayeredGit:
    """The real repository `common`, with what `upper` took beside it."""

    def __init__(self, upper: Path, common: Path) -> None:
        self.upper = upper
        self.common = common

    def output(
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

    def succeeds(self, *arguments: str) -> bool:
        """Whether git says yes. Raises GitError where it does not come to an end."""
        return self.run(*arguments).returncode == 0

    def run(
        self, *arguments: str, stdin: bytes = b"", index: Path | None = None, scratch: Path | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Run git to its end. Objects that it makes go to the folder `scratch`. Raises GitError where there is none.

        It stands in `/`, where no file of attributes lies that the command could have written.
        """
        own = self.upper / "objects"
        around = [f"{ALTERNATE_OBJECTS_VARIABLE}={own}", *([f"{INDEX_VARIABLE}={index}"] if index else [])]
        if scratch is not None:
            around = [f"{OBJECTS_VARIABLE}={scratch}", f"{ALTERNATE_OBJECTS_VARIABLE}={self.common / 'objects'}:{own}"]
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
            code, out, said = run_git_process(words, stdin, TIMEOUT_S, str(self.common))
        except OSError as error:
            raise GitError(arguments, None, str(error)) from error
        return subprocess.CompletedProcess(words, code, out, said)

    def resolve_commit(self, name: str) -> str:
        """Return the commit of that name; empty where there is none. Raises GitError."""
        words = ("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
        return self.output(*words, ok=(0, 1, 128)).decode().strip()

    def empty_tree_name(self) -> str:
        """Return the name of the tree without files. Raises GitError."""
        return self.output("hash-object", "-t", "tree", "/dev/null").decode().strip()

    def read_blob_names(self, tree: str, paths: Iterable[str]) -> dict[str, str]:
        """Return, by path, the object that a commit or tree has there, of these paths. Raises GitError."""
        wanted = set(paths)
        if not wanted or not tree:
            return {}
        named = sorted(wanted) if len(wanted) <= MAX_NAMED_PATHS else []
        raw = self.output("--literal-pathspecs", "ls-tree", "-r", "-z", "--full-tree", tree, "--", *named)
        lines = (line.partition("\t") for line in raw.decode("utf-8", "surrogateescape").split("\0")[:-1])
        return {path: what.split(" ")[2] for what, _, path in lines if path in wanted}
