"""What git brings when HEAD moves: contents that were in the repository before, or came from another one.

What git is in the midst of: a merge, a rebase or the like that stopped, and the files that it brings.
"""

import os
from collections.abc import Iterator

from remit.workspace.git.command import Git, GitError
from remit.workspace.git.refs import OID
from remit.workspace.observe.observation import Observation, read_tree_entries
from remit.workspace.place.workspace import Workspace, read_pointer

MAX_REFS = 5000
PUSH_REFLOG_TEXT = "update by push"
"""How a remote's ref came to be where it is when this repository put it there. Source: git-push(1), read 2026-11."""


def list_known_commits(workspace: Workspace, head: str | None) -> tuple[str, ...]:
    """Where every ref and `head` stand; nothing without git. With very many refs, the branches' alone."""
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
    """Those of `paths` whose content was in the repository before the call, or was fetched during it.

    A commit's own word, its date, counts for nothing: whoever makes it may choose it. A path that differs from the new
    HEAD was changed by hand; a file that is gone was brought only where HEAD went to a commit that was there before.
    Nothing where git cannot tell: then the call is taken to have done it.
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
    """The objects that `head` reaches, and none of the known commits does."""
    lines = "".join(f"{name}\n" for name in (head, *(f"^{oid}" for oid in known)))
    out = Git(workspace.root).run(
        "rev-list", "--objects", "--no-object-names", "--ignore-missing", "--stdin", stdin=lines.encode()
    )
    return set(out.decode("ascii", "replace").split())


def list_fetched_tips(workspace: Workspace, known: tuple[str, ...]) -> list[str]:
    """Where remotes' refs stand that moved since, and not because this repository pushed."""
    git = Git(workspace.root)
    out = git.run("for-each-ref", "--format=%(objectname) %(refname)", "refs/remotes")
    rows = [line.partition(" ")[::2] for line in os.fsdecode(out).splitlines()]
    moved = [(oid, name) for oid, name in rows if oid not in known]
    return [oid for oid, name in moved if not read_last_reflog_entry(git, name).startswith(PUSH_REFLOG_TEXT)]


def read_last_reflog_entry(git: Git, ref: str) -> str:
    """What git wrote down when the ref last moved; empty where it keeps no such log."""
    return git.text("reflog", "-1", "--format=%gs", ref, ok=(0, 128))


OPERATION_RANGES = {
    "MERGE_HEAD": "HEAD...{0}",
    "CHERRY_PICK_HEAD": "{0}^..{0}",
    "REVERT_HEAD": "{0}^..{0}",
    "REBASE_HEAD": "{0}^..{0}",
}
"""The files in git's folder that name what is being brought, and what of it is. Source: gitrevisions(7)."""


def find_arriving_paths(workspace: Workspace, known: tuple[str, ...]) -> frozenset[str]:
    """The paths that git is bringing from commits that were there before, `known` among them, or were just fetched.

    To put them back would make the merge lose them when it is committed. Nothing where git cannot tell.
    """
    try:
        return frozenset(
            path
            for between in list_arriving_ranges(workspace, known)
            for path in list_paths_in_range(workspace, between)
        )
    except GitError:
        return frozenset()


def list_arriving_ranges(workspace: Workspace, known: tuple[str, ...]) -> Iterator[str]:
    """What is being brought, as ranges of commits; nothing that the call itself committed."""
    for name, between in OPERATION_RANGES.items():
        commits = [line for line in read_pointer(f"{workspace.git_dir}/{name}").split() if OID.fullmatch(line)]
        for commit in commits if known else ():
            if commit not in list_new_objects(workspace, commit, (*known, *list_fetched_tips(workspace, known))):
                yield between.format(commit)


def list_paths_in_range(workspace: Workspace, between: str) -> list[str]:
    """The paths in which these commits differ."""
    out = Git(workspace.root).run("diff", "--name-only", "-z", "--no-renames", "--relative", between, "--")
    return [path for path in out.decode("utf-8", "surrogateescape").split("\0") if path]
