"""Handing over of a worktree to a person, and taking back: an ordinary worktree meanwhile, never reused."""

import shutil
import time
from collections.abc import Mapping
from pathlib import Path

from remit.core.assignment import ANYWHERE, Assignment
from remit.gate.gate import Gate
from remit.workspace import worktrees
from remit.workspace.git.command import Git
from remit.workspace.git.repository import BRANCH_PREFIX
from remit.workspace.merging import Identity
from remit.workspace.place.assignment_file import AssignmentFile
from remit.workspace.place.workspace import Workspace
from remit_fleet.board import Attempt, Task
from remit_fleet.remote import FleetRemote
from remit_fleet.workers.starting_point import find_work


def hand_over(trees: worktrees.Worktrees, last: Attempt) -> Path:
    """Return the worktree of an ended attempt, with its files and without an assignment.

    A worktree reused by a later attempt is made anew from the checkpoint. Raises NoWorktree, GitError, OSError.
    """
    worktrees.forget_hand_ins(trees.store, last.intent)
    tree = find_tree(trees, last) or restore_tree(trees, last)
    trees.end_git_folder(tree)
    if tree.assignment_path:
        shutil.rmtree(Path(tree.assignment_path).parent, ignore_errors=True)
    return tree.root


def find_tree(trees: worktrees.Worktrees, last: Attempt) -> Workspace | None:
    branch = f"{BRANCH_PREFIX}remit/{worktrees.attempt_name(last.intent, last.attempt)}"
    return next((tree for tree in trees.list_trees() if worktrees.current_branch_ref(tree) == branch), None)


def restore_tree(trees: worktrees.Worktrees, last: Attempt) -> Workspace:
    ref, work = find_work(trees, last)
    head = trees.store.find_commit(f"{BRANCH_PREFIX}remit/{worktrees.attempt_name(last.intent, last.attempt)}")
    if head is None or work is None:
        raise worktrees.NoWorktree(
            f"nothing of attempt {last.attempt} of {last.intent} is on this host; it ran at {last.worker}"
        )
    tree = trees.prepare(last.intent, last.attempt, head)
    if work != head:
        Git(tree.root).run("restore", "--source", ref, "--worktree", "--", ".")
    return tree


def take_back(trees: worktrees.Worktrees, task: Task, last: Attempt) -> Mapping[str, str]:
    """Keep the person's files in a checkpoint, and release the worktree for reuse; return the unkept files, with
    reasons.
    """
    tree = find_tree(trees, last)
    if tree is None:
        return {}
    by = "given back by a person"
    kept = trees.checkpoint(tree, last.intent, last.attempt, by, int(time.time()))
    assign(tree, task, last)
    return kept.left if kept is not None else {}


def send_to_hosts(gate: Gate, last: Attempt, *, is_done: bool) -> None:
    """Push a person's checkpoint, and the branch of finished work, where hosts share a remote: the next attempt or the
    landing may be another host's. Raises RemoteAway, RemoteRefused, RefMoved, GitError.
    """
    if remote := gate.rules.config.orchestrator.remote:
        hosts, name = FleetRemote(gate, remote), worktrees.attempt_name(last.intent, last.attempt)
        hosts.push_checkpoint(name)
        if is_done:
            hosts.push_attempt(name)


def assign(tree: Workspace, task: Task, last: Attempt) -> None:
    """Write the assignment of an ended attempt: no agent works under it, and the worktree is known again."""
    terms = Assignment(
        task=f"{task.repository}:{task.intent}",
        intent=task.intent,
        attempt=last.attempt,
        token=last.token,
        scope=task.scope,
        state="ended",
        base=last.base,
    )
    AssignmentFile(tree).write(terms, 0.0)


def hand_in_by_person(trees: worktrees.Worktrees, gate: Gate, task: Task, last: Attempt) -> tuple[str, ...]:
    """Commit a person's files on the attempt's branch; return the paths outside the write set, without a commit if any.
    Raises NoWorktree, GitError.
    """
    tree = find_tree(trees, last)
    if tree is None:
        raise worktrees.NoWorktree(f"the worktree of {task.intent} is not on this host; it ran at {last.worker}")
    git = Git(tree.root)
    name, email = (git.text("config", "--get", key, ok=(0, 1)) for key in ("user.name", "user.email"))
    author = Identity(name or "a person", email, int(time.time()))
    intent = gate.intents.get(task.intent)
    assign(tree, task, last)
    sets = (task.scope, intent.owned_scope, ANYWHERE)
    handed = trees.hand_in(tree, sets, f"{task.intent}: by a person\n\nIntent: {task.intent}", author)
    if handed.outside:
        git.run("reset", "--quiet")  # the person goes on with files that are not staged
        hand_over(trees, last)
    else:
        worktrees.mark_handed_in(trees.store, task.intent, last.attempt)
    return handed.outside
