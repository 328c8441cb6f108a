"""What git brings when HEAD moves: contents that somebody else committed, some other time."""

import os

from remit.workspace.git import Git, GitError
from remit.workspace.observe import Observation, prefix_in_repository
from remit.workspace.place import Workspace

MOST_COMMITS = "5000"


def brought(workspace: Workspace, before: Observation, after: Observation, paths: set[str], since: float) -> set[str]:
    """Those of `paths` whose content is that of a commit made before `since` (seconds since the epoch).

    A path that differs from the new HEAD was changed by hand; one that a commit made since then holds was, too.
    Nothing where git cannot tell: then the call is taken to have done it.
    """
    if after.head is None or before.head == after.head:
        return set()
    clean = {path for path in paths if path not in after.files}
    try:
        made = commit_times(workspace, before.head, after.head)
    except GitError:
        return set()
    return {path for path in clean if made.get(path, 0) < int(since)}


def commit_times(workspace: Workspace, old: str | None, new: str) -> dict[str, int]:
    """When each path was last committed between two commits, by the committer's clock; the newest commit counts."""
    span = f"{old}..{new}" if old else new
    out = Git(workspace.root).run(
        *("log", "-m", "--no-renames", "--format=%x01%ct", "--name-only", "-z", f"--max-count={MOST_COMMITS}", span)
    )
    prefix = prefix_in_repository(workspace)
    found: dict[str, int] = {}
    time = 0
    for field in os.fsdecode(out).split("\0"):
        head, mark, stamp = field.rpartition("\x01")
        name = head.removeprefix("\n") if mark else field.removeprefix("\n")
        if name.startswith(prefix) and name:
            found.setdefault(name.removeprefix(prefix), time)
        if mark:
            time = int(stamp or 0)
    return found
