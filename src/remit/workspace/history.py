"""What git brings when HEAD moves: contents that were in the repository before, or came from another one."""

import os

from remit.workspace.git import Git, GitError
from remit.workspace.observe import Observation, tree_modes
from remit.workspace.place import Workspace

MOST_REFS = 5000
PUSHED = "update by push"
"""How a remote's ref came to be where it is when this repository put it there. Source: git-push(1), read 2026-11."""


def known_commits(workspace: Workspace, head: str | None) -> tuple[str, ...]:
    """Where every ref and `head` stand; nothing without git. With very many refs, the branches' alone."""
    if workspace.common_dir is None:
        return ()
    git = Git(workspace.root)
    found = set(git.text("for-each-ref", "--format=%(objectname)").split())
    if len(found) > MOST_REFS:
        found = set(git.text("for-each-ref", "--format=%(objectname)", "refs/heads").split()[:MOST_REFS])
    return tuple(sorted(found | ({head} if head else set())))


def brought(
    workspace: Workspace, before: Observation, after: Observation, paths: set[str], known: tuple[str, ...]
) -> set[str]:
    """Those of `paths` whose content was in the repository before the call, or was fetched during it.

    A commit's own word, its date, counts for nothing: whoever makes it may choose it. A path that differs from the new
    HEAD was changed by hand; a file that is gone was brought only where HEAD went to a commit that was there before.
    Nothing where git cannot tell: then the call is taken to have done it.
    """
    clean = sorted(path for path in paths if path not in after.files)
    if after.head is None or before.head == after.head or not clean or not known:
        return set()
    try:
        fresh = new_objects(workspace, after.head, (*known, *fetched(workspace, known)))
        held = tree_modes(workspace, after.head, clean)
    except GitError:
        return set()
    arrived = after.head not in fresh
    return {path for path in clean if (held[path][1] not in fresh if path in held else arrived)}


def new_objects(workspace: Workspace, head: str, known: tuple[str, ...]) -> set[str]:
    """The objects that `head` reaches, and none of the known commits does."""
    lines = "".join(f"{name}\n" for name in (head, *(f"^{oid}" for oid in known)))
    out = Git(workspace.root).run(
        "rev-list", "--objects", "--no-object-names", "--ignore-missing", "--stdin", stdin=lines.encode()
    )
    return set(out.decode("ascii", "replace").split())


def fetched(workspace: Workspace, known: tuple[str, ...]) -> list[str]:
    """Where remotes' refs stand that moved since, and not because this repository pushed."""
    git = Git(workspace.root)
    out = git.run("for-each-ref", "--format=%(objectname) %(refname)", "refs/remotes")
    rows = [line.partition(" ")[::2] for line in os.fsdecode(out).splitlines()]
    moved = [(oid, name) for oid, name in rows if oid not in known]
    return [oid for oid, name in moved if not last_move(git, name).startswith(PUSHED)]


def last_move(git: Git, ref: str) -> str:
    """What git wrote down when the ref last moved; empty where it keeps no such log."""
    return git.text("reflog", "-1", "--format=%gs", ref, ok=(0, 128))
