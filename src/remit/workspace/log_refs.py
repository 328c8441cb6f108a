"""Tree heads in logs that were shared, as refs `refs/remit/log/<machine>` or as tracked files: a witness that outlives
the state folder.
"""

from collections.abc import Iterator

from remit.workspace.git import Git
from remit.workspace.place import LOGS, Workspace
from remit.workspace.tracked import folder_trouble, trouble

REFS = "refs/remit/log/"
PLAIN = ("-c", "grep.lineNumber=false", "-c", "grep.column=false", "-c", "grep.patternType=default")
MARK = '"event":"tree_head"'


def shared_head_lines(workspace: Workspace) -> Iterator[tuple[bytes, str]]:
    """The lines of `tree_head` records in every shared log, and where each stands. Nothing of a log is checked out.

    Any file of the ref's tree may hold them, in whatever folders. Raises GitError.
    """
    if workspace.common_dir is None:
        return
    git = Git(workspace.root)
    for ref in git.text("for-each-ref", "--format=%(refname)", REFS).splitlines():
        # No tree: somebody put another object there, which says nothing.
        if not git.text("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{tree}}", ok=(0, 1, 128)):
            continue
        out = git.run(*PLAIN, "grep", "-h", "-F", "--no-color", "-a", "-e", MARK, ref, "--", ":/", ok=(0, 1))
        for line in out.splitlines():
            yield line, ref


def tracked_head_lines(workspace: Workspace, name: str) -> Iterator[tuple[bytes, str]]:
    """The lines of `tree_head` records in the tracked log of that name, as it lies there and as HEAD has it.

    Raises GitError, OSError.
    """
    path = f"{LOGS}/{name}"
    if folder_trouble(workspace.tracked_logs) is None and trouble(workspace.root / path) is None:
        found = (line for line in (workspace.root / path).read_bytes().splitlines() if MARK.encode() in line)
        yield from ((line, path) for line in found)
    if workspace.common_dir is not None:
        grep = ("grep", "-h", "-F", "--no-color", "-a", "-e", MARK, "HEAD", "--", f":(literal){path}")
        out = Git(workspace.root).run(*PLAIN, *grep, ok=(0, 1, 128))
        yield from ((line, f"HEAD:{path}") for line in out.splitlines())
