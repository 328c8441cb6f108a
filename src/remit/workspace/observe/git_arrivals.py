"""Contents that git itself brings when HEAD moves, or during a stopped merge or rebase."""

import os
from collections.abc import Iterator

from remit.workspace.git.command import Git, GitError
from remit.workspace.git.refs import OID
from remit.workspace.git.tree_files import read_tree_entries
from remit.workspace.observe.observation import Observation
from remit.workspace.place.workspace import Workspace, read_pointer

MAX_REFS = 5000
PUSH_REFLOG_TEXT = "update by push"
"""Reflog text of a remote ref after a push from this repository. Source: git-push(1), read 2026-11."""

OPERATION_RANGES = {
    "MERGE_HEAD": "HEAD...{0}",
    "CHERRY_PICK_HEAD": "{0}^..{0}",
    "REVERT_HEAD": "{0}^..{0}",
    "REBASE_HEAD": "{0}^..{0}",
}
"""Files in git's folder that name incoming commits, and the range of each. Source: gitrevisions(7)."""


def list_known_commits(workspace: Workspace, head: str | None) -> tuple[str, ...]:
    """Return the tips of each ref and `head`; empty without git. With very many refs, only branches."""
    if workspace.common_dir is None:
        return ()
    git = Git(workspace.root)
    found = set(git.text("for-each-ref", "--format=%(objectname)").split())
    if len(found) > MAX_REFS:
        found = set(git.text("for-each-ref", "--format=%(objectname)", "refs/heads").split()[:MAX_REFS])
    return tuple(sorted(found | ({head} if head else set())))


def find_git_arrivals(
    workspace: Workspace, before: Observation, after: Observation, paths: set[str], known: tuple[str, ...]
) -> set[str]:
    """Return the `paths` whose content was in the repository before the call, or was fetched during the call.

    Commit dates count for nothing: the author chooses them. A path that differs from the new HEAD was changed by hand.
    A removed file arrived only if HEAD moved to a commit that existed before. Empty if git fails: the call is held
    responsible.
    """
    clean = sorted(path for path in paths if path not in after.files)
    if after.head is None or before.head == after.head or not clean or not known:
        return set()
    try:
        fresh = list_new_objects(workspace, after.head, (*known, *list_fetched_tips(workspace, known)))
        held = read_tree_entries(workspace, after.head, clean)
    except GitError:
        return set()
    arrived = after.head not in fresh
    return {path for path in clean if (held[path][1] not in fresh if path in held else arrived)}


def list_new_objects(workspace: Workspace, head: str, known: tuple[str, ...]) -> set[str]:
    """Return the objects that `head` reaches and no known commit does."""
    lines = "".join(f"{name}\n" for name in (head, *(f"^{oid}" for oid in known)))
    out = Git(workspace.root).run(
        "rev-list", "--objects", "--no-object-names", "--ignore-missing", "--stdin", stdin=lines.encode()
    )
    return set(out.decode("ascii", "replace").split())


def list_fetched_tips(workspace: Workspace, known: tuple[str, ...]) -> list[str]:
    """Return remote refs that moved since, except by a push from this repository."""
    git = Git(workspace.root)
    out = git.run("for-each-ref", "--format=%(objectname) %(refname)", "refs/remotes")
    rows = [line.partition(" ")[::2] for line in os.fsdecode(out).splitlines()]
    moved = [(oid, name) for oid, name in rows if oid not in known]
    # Without a reflog, the text is empty.
    return [
        oid
        for oid, name in moved
        if not git.text("reflog", "-1", "--format=%gs", name, ok=(0, 128)).startswith(PUSH_REFLOG_TEXT)
    ]


def find_arriving_paths(workspace: Workspace, known: tuple[str, ...]) -> frozenset[str]:
    """Return the paths that a stopped operation brings from earlier or just fetched commits.

    Restoring them would lose them from the merge. Empty if git fails.
    """
    try:
        words = ("diff", "--name-only", "-z", "--no-renames", "--relative")
        ranges = list_arriving_ranges(workspace, known)
        diffs = b"".join(Git(workspace.root).run(*words, commits, "--") for commits in ranges)
    except GitError:
        return frozenset()
    return frozenset(path for path in diffs.decode("utf-8", "surrogateescape").split("\0") if path)


def list_arriving_ranges(workspace: Workspace, known: tuple[str, ...]) -> Iterator[str]:
    """Yield the incoming commit ranges, without commits made by the call itself."""
    for name, between in OPERATION_RANGES.items():
        commits = [line for line in read_pointer(f"{workspace.git_dir}/{name}").split() if OID.fullmatch(line)]
        for commit in commits if known else ():
            if commit not in list_new_objects(workspace, commit, (*known, *list_fetched_tips(workspace, known))):
                yield between.format(commit)
