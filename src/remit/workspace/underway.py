"""What git is in the midst of: a merge, a rebase or the like that stopped, and the files that it brings."""

from collections.abc import Iterator

from remit.workspace.git import Git, GitError
from remit.workspace.head import OID
from remit.workspace.history import fetched, new_objects
from remit.workspace.place import Workspace, pointer

STOPPED = {
    "MERGE_HEAD": "HEAD...{0}",
    "CHERRY_PICK_HEAD": "{0}^..{0}",
    "REVERT_HEAD": "{0}^..{0}",
    "REBASE_HEAD": "{0}^..{0}",
}
"""The files in git's folder that name what is being brought, and what of it is. Source: gitrevisions(7)."""


def arriving(workspace: Workspace, known: tuple[str, ...]) -> frozenset[str]:
    """The paths that git is bringing from commits that were there before, `known` among them, or were just fetched.

    To put them back would make the merge lose them when it is committed. Nothing where git cannot tell.
    """
    try:
        return frozenset(path for between in stopped(workspace, known) for path in named(workspace, between))
    except GitError:
        return frozenset()


def stopped(workspace: Workspace, known: tuple[str, ...]) -> Iterator[str]:
    """What is being brought, as ranges of commits; nothing that the call itself committed."""
    for name, between in STOPPED.items():
        commits = [line for line in pointer(f"{workspace.git_dir}/{name}").split() if OID.fullmatch(line)]
        for commit in commits if known else ():
            if commit not in new_objects(workspace, commit, (*known, *fetched(workspace, known))):
                yield between.format(commit)


def named(workspace: Workspace, between: str) -> list[str]:
    """The paths in which these commits differ."""
    out = Git(workspace.root).run("diff", "--name-only", "-z", "--no-renames", "--relative", between, "--")
    return [path for path in out.decode("utf-8", "surrogateescape").split("\0") if path]
