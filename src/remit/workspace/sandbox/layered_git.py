"""git on a repository as a command left it: new objects and index still lie in the sandbox's layer."""

from collections.abc import Iterable
from pathlib import Path

from remit.workspace.git.command import GitError, GitResult, execute
from remit.workspace.git.early_start import GUARDS

ALTERNATE_OBJECTS_VARIABLE = "GIT_ALTERNATE_OBJECT_DIRECTORIES"
OBJECTS_VARIABLE = "GIT_OBJECT_DIRECTORY"
INDEX_VARIABLE = "GIT_INDEX_FILE"

MAX_NAMED_PATHS = 500
"""Above this count the whole tree is listed: a command line is limited."""


class LayeredGit:
    """The real repository `common`, with the writes in `upper` beside."""

    def __init__(self, upper: Path, common: Path) -> None:
        self.upper = upper
        self.common = common

    def run(
        self, *arguments: str, stdin: bytes = b"", index: Path | None = None, scratch: Path | None = None
    ) -> GitResult:
        """Run git; new objects go to the folder `scratch`. Raises GitError if git cannot run.

        The working directory is `/`, out of reach of attribute files written by the command.
        """
        new_objects = self.upper / "objects"
        variables = [f"{ALTERNATE_OBJECTS_VARIABLE}={new_objects}"]
        if scratch is not None:
            alternates = f"{self.common / 'objects'}:{new_objects}"
            variables = [f"{OBJECTS_VARIABLE}={scratch}", f"{ALTERNATE_OBJECTS_VARIABLE}={alternates}"]
        if index is not None:
            variables.append(f"{INDEX_VARIABLE}={index}")
        git = ("git", *GUARDS, "--no-replace-objects", "--git-dir", str(self.common))
        return execute(["env", "-C", "/", *variables, *git, *arguments], arguments, stdin, self.common)

    def output(
        self,
        *arguments: str,
        stdin: bytes = b"",
        index: Path | None = None,
        ok: tuple[int, ...] = (0,),
        scratch: Path | None = None,
    ) -> bytes:
        """Return the standard output of `git <arguments>`. Raises GitError for an exit code not in `ok`."""
        done = self.run(*arguments, stdin=stdin, index=index, scratch=scratch)
        if done.code not in ok:
            raise GitError(arguments, done.code, done.errors)
        return done.output

    def succeeds(self, *arguments: str) -> bool:
        """Return whether git exits with 0. Raises GitError if git cannot run."""
        return self.run(*arguments).code == 0

    def empty_tree_name(self) -> str:
        return self.output("hash-object", "-t", "tree", "/dev/null").decode().strip()

    def read_blob_names(self, tree: str, paths: Iterable[str]) -> dict[str, str]:
        """Return the blob by path in a commit or tree, for these paths. Raises GitError."""
        wanted = set(paths)
        if not wanted or not tree:
            return {}
        pathspecs = sorted(wanted) if len(wanted) <= MAX_NAMED_PATHS else []
        out = self.output("--literal-pathspecs", "ls-tree", "-r", "-z", "--full-tree", tree, "--", *pathspecs)
        rows = (line.partition("\t") for line in out.decode("utf-8", "surrogateescape").split("\0")[:-1])
        return {path: about.split(" ")[2] for about, _, path in rows if path in wanted}
