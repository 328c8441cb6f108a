"""Violations among the changes of a call after its return, found path by path. Git's own files that can make git run
programs or overlook files are copied before each command. They may hold credentials, so they never become git objects:
the copies lie in Remit's folder, readable by this user.
"""

import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TypeAlias

from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.decision import ASSIGNMENT_RULE, ErrorType, Facts, Finding, SessionFacts
from remit.core.scope.path_patterns import Scope
from remit.gate.context import WorkspaceContext
from remit.gate.gather import gather_facts, mark_ignored
from remit.gate.state.workspace_state import PendingCall
from remit.policy.checks.paths import NARROW_RULE
from remit.policy.decide import decide, split_waived
from remit.workspace.contents.content_store import BlobFolder
from remit.workspace.git.command import list_settings
from remit.workspace.observe.observation import Change, find_arriving_paths
from remit.workspace.place.resolve_paths import folds_case, resolve_target
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER, Workspace
from remit.workspace.safe_files import ObservedFile

UNDONE_CODES: frozenset[ErrorType] = frozenset({"SCOPE_VIOLATION", "INTENTIGNORE_PATH_BLOCKED", "PROTECTED_PATH"})
"""Violations for which a change is undone: they concern the path itself, and not the moment."""

NO_INTENT_CODE: ErrorType = "MISSING_OR_INVALID_INTENT"
BROKEN_CODE: ErrorType = "CONSTRAINT_VIOLATION"

Reasons: TypeAlias = dict[str, str]  # reasons by path
GIT_PREFIX = ".git/"  # prefix of git's own files in the paths of an observation
HIDING_FILES = frozenset({".git/info/exclude", ".git/info/attributes"})
CONFIG_PATH = re.compile(r"\.git/config(\.worktree)?")
BRANCH_SETTINGS = re.compile(
    r"branch\..+\.(remote|merge|rebase|pushremote)|remote\..+\.(url|fetch|pushurl|tagopt)", re.DOTALL
)
"""Settings that `git push -u`, `git checkout --track` and `git remote add` write: harmless ones."""


class GitFileCopies(BlobFolder):
    """The copies of a workspace, by the SHA-256 of their content."""

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace.state / "guarded")

    def keep_files(self, files: Mapping[str, ObservedFile | None]) -> None:
        for path, seen in files.items():
            if seen is not None and seen.content is not None and is_git_path(path):
                self.store(seen.content)

    def content_before(self, change: Change) -> bytes | None:
        with suppress(OSError):
            return self.load(change.before.version.sha256) if change.before else None
        return None

    def is_harmless(self, change: Change) -> bool:
        """Return True if git runs and overlooks no more files after the change."""
        if not CONFIG_PATH.fullmatch(change.path):
            return change.path not in HIDING_FILES and not change.path.startswith(f"{GIT_PREFIX}hooks/")
        before, after = self.read_settings(change.before), self.read_settings(change.after)
        if before is None or after is None:
            return False
        changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
        return all(BRANCH_SETTINGS.fullmatch(key) for key in changed)

    def read_settings(self, side: ObservedFile | None) -> dict[str, str] | None:
        if side is None:
            return {}
        try:
            key = self.store(side.content) if side.content is not None else side.version.sha256
            return list_settings(self.blob_path(key))
        except (OSError, subprocess.SubprocessError):
            return None


def is_git_path(path: str) -> bool:
    return path.startswith(GIT_PREFIX)


def find_violations(
    context: WorkspaceContext, call: ToolCall, pending: PendingCall, changes: Iterable[Change]
) -> Reasons:
    """Return the rule that each change breaks. Raises RECORDING_ERRORS. The scope is that of the decision, further
    rules have their present form. A call allowed by a person may have any effect except on protected files.
    `.orchestration/` is left out: governing files are put back by `undo.governing_files`, and Remit writes the rest.
    """
    own = [c for c in changes if not c.from_git and c.path not in pending.judged and not is_remit_path(c.path)]
    copies = GitFileCopies(context.workspace)
    found = {c.path: "PROTECTED_PATH" for c in own if is_git_path(c.path) and not copies.is_harmless(c)}
    files = exclude_git_changes(context, own, pending)
    if not files:
        return found
    # Of the rest, only an unproved call runs without an intent in enforce.
    undone = UNDONE_CODES | {NO_INTENT_CODE} if pending.effect == "unproved" else UNDONE_CODES
    tool, facts = gather_facts_for_effects(context, call, pending)
    root, rules = context.workspace.root, context.last_rules or context.rules
    folds, scope = folds_case(root), Scope(pending.owned_scope)
    targets = (resolve_target(context.workspace, f"{root}/{c.path}", c.path, context.environment) for c in files)
    folded = tuple(replace(target, folds=folds) for target in targets)
    for target in mark_ignored(folded, context.workspace, rules):
        decision = decide(tool, replace(facts, targets=(target,)))
        codes = undone & {f.code for f in decision.findings if f.verdict != "allow"}
        if pending.grants:
            codes &= {"PROTECTED_PATH"}
        is_narrowed = any(f.rule in (NARROW_RULE, ASSIGNMENT_RULE) for f in decision.findings)
        if not is_narrowed and (pending.intent_id is None or scope.matches(target.raw, fold=folds)):
            codes -= {"SCOPE_VIOLATION"}
        if codes and decision.effect != "allow":
            found[target.raw] = min(codes)
    return found


def find_broken_constraints(
    context: WorkspaceContext, call: ToolCall, pending: PendingCall, changes: Sequence[Change]
) -> Reasons:
    """Return in words the constraints of the intent that a change broke, by path. Raises RECORDING_ERRORS. What a
    person allowed stays. A file tool is refused before it breaks a constraint.
    """
    intent = context.rules.intents.get(pending.intent_id)
    written = [c for c in changes if not c.from_git and c.after is not None and not is_remit_path(c.path)]
    if intent is None or not intent.rules or pending.grants or not written:
        return {}
    # Imported here: the ledger's index is opened only for intents that have constraints.
    from remit.gate.evidence import constraint_facts

    broken = constraint_facts.find_broken_constraints(intent, exclude_git_changes(context, written, pending))
    if not broken:
        return {}
    tool, facts = gather_facts_for_effects(context, call, pending)
    unwaived = {
        path: why for path, why in broken.items() if not split_waived((constraint_finding(path, why),), tool, facts)[1]
    }
    return unwaived | find_move_sources(unwaived, changes)


def exclude_git_changes(context: WorkspaceContext, changes: Iterable[Change], pending: PendingCall) -> list[Change]:
    files = [change for change in changes if not is_git_path(change.path)]
    from_git = find_arriving_paths(context.workspace, pending.known_commits) if files else frozenset[str]()
    return [change for change in files if change.path not in from_git]


def gather_facts_for_effects(context: WorkspaceContext, call: ToolCall, pending: PendingCall) -> tuple[ToolCall, Facts]:
    tool, rules = as_file_tool(call), context.rules
    facts = gather_facts(context, tool, rules).facts
    session = SessionFacts(pending.intent_id, narrow=facts.session.narrow)
    return tool, replace(facts, session=session, grants=context.active_grants(rules))


def as_file_tool(call: ToolCall) -> ToolCall:
    """Return the call as its effects are judged: a tool that writes files, and compares contents by itself."""
    own = {"command": None, "paths": (), "is_unlisted": False, "whole_workspace": False, "has_unwatched_stdin": False}
    return replace(call, effect="write", checks_itself=True, **own)


def find_move_sources(broken: Reasons, changes: Iterable[Change]) -> Reasons:
    changes = tuple(changes)
    made = {c.after.version.sha256: c.path for c in changes if c.path in broken and c.before is None and c.after}
    deleted = {c.path: c.before.version.sha256 for c in changes if c.after is None and c.before}
    return {path: broken[made[content]] for path, content in deleted.items() if content in made}


def constraint_finding(path: str, why: str) -> Finding:
    return Finding(rule="constraints", code=BROKEN_CODE, message=why, path=path)


def is_remit_path(path: str) -> bool:
    return path.startswith(f"{ORCHESTRATION_FOLDER}/")
