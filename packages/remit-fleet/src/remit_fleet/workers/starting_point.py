"""Start of an attempt: the target's tip, with the previous attempt's work, as far as the work fits.

Work that does not merge, or lies outside of the write set, stays in the checkpoint and is named: the agent begins from
the tip without the rest.
"""

from collections.abc import Iterable
from contextlib import suppress

from msgspec import Struct

from remit.core.scope.path_patterns import Scope
from remit.workspace.git.command import GitError
from remit.workspace.git.repository import BRANCH_PREFIX, prefix_in_repository
from remit.workspace.merging import Identity
from remit.workspace.worktrees import WIP_REFS, Worktrees, attempt_name, current_branch_ref, is_governing
from remit_fleet.board import Attempt
from remit_fleet.landing.land import read_landed_attempts

STARTER = ("Remit", "remit@localhost")


class StartingPoint(Struct, frozen=True):
    """First commit of an attempt's branch: `base`, the target's tip, or a commit on `base` with earlier work.

    `taken` are the files that differ from the base. `ref` names the earlier work; `left` are its files missing in the
    commit, `conflicts` the conflicting files because of which no earlier work was taken.
    """

    commit: str
    base: str
    ref: str = ""
    taken: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()

    def describe(self) -> str:
        """Return the earlier work in the worktree, in words for its agent."""
        if self.conflicts:
            return f"Nothing of it is here, because it conflicts with what has landed since; it is kept as {self.ref}."
        if not self.ref:
            return ""
        left = f" Not here, and kept as {self.ref}: {', '.join(self.left)}." if self.left else ""
        return f"Your worktree begins with what it left.{left}" if self.taken else left.strip()


def find_starting_point(
    trees: Worktrees, base: str, sets: Iterable[tuple[str, ...]], last: Attempt | None
) -> StartingPoint:
    """Return the starting point of the attempt after `last`. Each file has to match each of the `sets`. Raises
    GitError.
    """
    store = trees.store
    if last is None or attempt_name(last.intent, last.attempt) in read_landed_attempts(store, base)[1]:
        return StartingPoint(base, base)  # what landed is in the base, unless a person took it out again
    ref, work = find_work(trees, last)
    if work is None:
        return StartingPoint(base, base)
    merged = store.merge(base, work)
    if merged.conflicts:
        return StartingPoint(base, base, ref, conflicts=merged.conflicts)
    scopes, prefix = [Scope(patterns) for patterns in sets], prefix_in_repository(trees.workspace)
    changed = [change.path for change in store.list_changes(base, merged.tree)]
    taken = tuple(
        path
        for path in changed
        if path.startswith(prefix)
        and not is_governing(path.removeprefix(prefix))
        and all(scope.matches(path.removeprefix(prefix)) for scope in scopes)
    )
    left = tuple(path for path in changed if path not in taken)
    if not taken:
        return StartingPoint(base, base, ref, left=left)
    tree = store.replace_files(merged.tree, store.read_files(base, left))
    # At the time of the earlier attempt's end: a start that is made again after a crash is the same commit.
    who = Identity(*STARTER, int(last.ended_at or last.started_at))
    message = f"Begin with what attempt {last.attempt} left\n\nIntent: {last.intent}\n"
    return StartingPoint(store.commit(tree, (base,), message, who), base, ref, taken, left)


def find_work(trees: Worktrees, last: Attempt) -> tuple[str, str | None]:
    """Return the ref and the newest commit of an ended attempt: a checkpoint, or its handed-in branch."""
    name, store = attempt_name(last.intent, last.attempt), trees.store
    branch, wip = f"{BRANCH_PREFIX}remit/{name}", f"{WIP_REFS}/{name}"
    for tree in trees.list_trees():
        if current_branch_ref(tree) == branch:
            # Its worker may be about to do the same, or be gone.
            with suppress(GitError, OSError):
                trees.end_git_folder(tree)
                trees.checkpoint(tree, last.intent, last.attempt, "a checkpoint", int(last.ended_at or 0))
    kept, head = store.find_commit(wip), store.find_commit(branch)
    if kept is not None and (head is None or store.find_commit(f"{kept}^") == head):
        return wip, kept
    return branch, head
