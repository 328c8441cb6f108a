"""Git's part of a contained command: judged as a whole, and brought over."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec.structs import replace

from remit.core.decision import Finding
from remit.gate.containment.compare_trees import WorkingTrees
from remit.gate.containment.contained_command import ContainedCommand
from remit.gate.containment.git_judgement import GIT_FOLDER, MADE_FACT, NO_GIT_CHANGES, GitJudgement, GitVerdict
from remit.gate.containment.messages import git_part_dropped, remit_ref, write_failure
from remit.workspace.git.command import Git, GitError
from remit.workspace.place.workspace import Workspace
from remit.workspace.sandbox.apply_changes import ChangeApplier
from remit.workspace.sandbox.git_changes import REMOTES, GitChanges, write_tracking_settings
from remit.workspace.sandbox.layer_changes import StagedChange, find_staged_changes
from remit.workspace.sandbox.layers import Staging
from remit.workspace.sandbox.new_commits import TooManyCommits


class GitPart:
    """One command's changes to git's folder.

    `changes` are those outside of git's folder that may come over, `git_changes` is None without a repository.
    """

    def __init__(
        self,
        command: ContainedCommand,
        staging: Staging,
        every: Sequence[StagedChange],
        changes: Sequence[StagedChange],
    ) -> None:
        workspace = command.context.workspace
        self.command = command
        self.staging = staging
        self.changes = changes
        self.git_changes = find_git_changes(workspace, staging, every)
        self.trees = WorkingTrees(workspace, staging.root.upper, changes)

    def judge(self) -> GitVerdict:
        """Judge the changes as a whole. Raises OSError, StateError."""
        found = self.git_changes
        if found is None:
            return NO_GIT_CHANGES
        remit_refs = tuple(remit_ref(GIT_FOLDER, c.path) for c in found.remit_changes if c.path.startswith("refs/"))
        try:
            judgement = GitJudgement(self.command, self.staging, self.changes, found, self.trees)
            verdict = judgement.judge() if found.changes or found.has_settings_change else NO_GIT_CHANGES
            verdict = replace(verdict, halves=judgement.find_half_brought())
        except (GitError, TooManyCommits, UnicodeDecodeError) as error:
            # Files brought by git cannot be told from the command's own: every change is dropped.
            dropped = (git_part_dropped(GIT_FOLDER, str(error)),)
            verdict = GitVerdict(findings=dropped, brought=frozenset(change.path for change in self.changes))
        return replace(verdict, findings=(*remit_refs, *verdict.findings))

    def bring_over(self, verdict: GitVerdict) -> list[Finding]:
        """Bring over approved changes and return the failures. Raises GitError, StateError."""
        found = self.git_changes
        if found is None or not verdict.stays:
            return []
        failed = ChangeApplier(found.upper, found.common).apply_in_order(found.order_changes())
        if failed:
            return [write_failure(f"{GIT_FOLDER}/{path}", why) for path, why in failed.items()]
        write_tracking_settings(found.common, verdict.settings)
        if found.index is not None and self.changes:
            # The index identifies a file by inode and times, different now from those in the sandbox: without a
            # refresh `git merge --abort` and the like would take the file for changed.
            Git(self.trees.top).run("update-index", "-q", "--refresh", ok=(0, 1, 128))
        self.remember_made(verdict.new_names)
        return []

    def remember_made(self, names: Iterable[str]) -> None:
        """Store the session and intent that made these commits and names. Raises StateError."""
        state = self.command.context.state
        value = json.dumps([self.command.call.session.session_id, self.command.intent_id])
        with state.group_changes():
            for name in names:
                state.put_fact(f"{MADE_FACT}{name}", value)

    def keep_unnamed_commits(self, verdict: GitVerdict) -> tuple[str, ...]:
        """Keep the command's dropped commits as objects without a name, and return their ids.

        Return none after a fetch: objects of a later fetch must not exist beforehand.
        """
        found = self.git_changes
        if found is None or verdict.stays or found.worktree_path("FETCH_HEAD") in found.paths:
            return ()
        if any(move.name.startswith(REMOTES) for move in found.ref_moves):
            return ()
        tips = tuple(tip for tip in dict.fromkeys(found.list_tips().values()) if not found.is_real_object(tip))
        objects = found.valid_objects() if tips else []
        failed = ChangeApplier(found.upper, found.common).apply_in_order(objects)
        return tips if objects and not failed else ()


def find_git_changes(workspace: Workspace, staging: Staging, changes: Sequence[StagedChange]) -> GitChanges | None:
    """Return the changes to git's folder; None without a repository. Raises OSError."""
    common, root = workspace.common_dir, workspace.root
    if common is None:
        return None
    if staging.common is not None:
        upper, own = staging.common.upper, find_staged_changes(staging.common.upper, common)
    else:
        name = str(common.relative_to(root))
        upper = staging.root.upper / name
        own = [replace(c, path=c.path[len(name) + 1 :]) for c in changes if c.path.startswith(f"{name}/")]
    return GitChanges(upper, common, own, worktree_git_folder(workspace.git_dir, common))


def worktree_git_folder(git_dir: Path | None, common: Path) -> str:
    """Return a linked worktree's git folder relative to the repository's; "" for the main worktree."""
    if git_dir is None or git_dir == common or not git_dir.is_relative_to(common):
        return ""
    return str(git_dir.relative_to(common))
