"""Violations among the changes of a call after its return: found path by path, and undone. The agent's version is kept;
a path that somebody else may have written in the same time is never touched, only reported; the model is told.

Git's own files that can make git run programs or overlook files are copied before each command. They may hold
credentials, so they never become git objects: the copies lie in Remit's folder, readable by this user.
"""

import os
import re
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.core.agents import AGENT_BINARIES
from remit.core.call import ToolCall
from remit.core.decision import ASSIGNMENT_RULE, ErrorType, Facts, Finding, SessionFacts
from remit.core.diff.contents import sha256
from remit.core.record import Record
from remit.core.redaction import is_secret_file
from remit.core.scope.path_patterns import Scope
from remit.core.untrusted_input import quote_path, sanitise_line
from remit.gate.context import WorkspaceContext, join_lines
from remit.gate.gather import gather_facts, mark_ignored
from remit.gate.records.call_records import restore_record
from remit.gate.state.workspace_state import OpenCall, PendingCall, find_known_versions, version_identity
from remit.gate.undo.snapshots import SnapshotTaker, occasion_of_call
from remit.policy.checks.paths import NARROW_RULE
from remit.policy.decide import decide, split_waived
from remit.workspace.contents.content_store import BlobFolder
from remit.workspace.git.command import list_settings
from remit.workspace.observe.observation import (
    Change,
    Observation,
    content_identity,
    find_arriving_paths,
    try_observe_file,
)
from remit.workspace.place.resolve_paths import folds_case, resolve_target
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER, Workspace
from remit.workspace.processes.process_tracking import find_editing_people
from remit.workspace.safe_files import MAX_KEPT_BYTES, FileToWrite, ObservedFile, delete_file, write_files
from remit.workspace.snapshots.snapshot import Snapshot, encode_path

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
    from remit.gate.facts import constraint_facts

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


# Undoing

MAX_RECORDED = 100  # files that one record names as undone
MAX_NAMED = 10
COMMITS_NOTE = " But the call's commits still hold it: take it out of them before anybody gets them."

Violations: TypeAlias = Mapping[str, Change]  # changes to undo, by path


class UndoResult(Struct, frozen=True):
    """Undone changes with the broken rule, and remaining changes with the reason, by path. `snapshot_id` names the
    snapshot of the agent's version, `copies` the agent's versions of git's own files.
    """

    undone: Reasons = {}
    not_undone: Reasons = {}
    snapshot_id: str = ""
    copies: tuple[Path, ...] = ()
    has_commits: bool = False  # whether the call made commits: they stay, and may hold the agent's version
    broken_constraints: Reasons = {}

    def apply_undo(self, changes: Sequence[Change]) -> tuple[Change, ...]:
        return tuple(replace(c, after=c.before) if c.path in self.undone else c for c in changes)


NOTHING_UNDONE = UndoResult()


def undo_violations(
    context: WorkspaceContext, call: ToolCall, pending: PendingCall, changes: Sequence[Change], after: Observation
) -> UndoResult:
    """In enforce, undo what a command or a foreign tool changed without a right to. Raises RECORDING_ERRORS. `after` is
    the observation when the call came back. A file tool was judged by the paths that it names.
    """
    if pending.mode != "enforce" or not pending.whole or call.remit_tool is not None:
        return NOTHING_UNDONE

    # 1. Find the violations.
    rules = find_violations(context, call, pending, changes)
    broken = find_broken_constraints(context, call, pending, [c for c in changes if c.path not in rules])
    rules |= dict.fromkeys(broken, BROKEN_CODE)
    wrong = {c.path: c for c in changes if c.path in rules}
    if not wrong:
        return NOTHING_UNDONE

    # 2. Leave what somebody else may have written, and what has no former content.
    copies = GitFileCopies(context.workspace)
    snapshots = context.snapshots.list_snapshots() if pending.snapshot else []
    point = next((s for s in snapshots if s.id == pending.snapshot), None)
    left = find_claimed(context, call, pending, wrong)
    files, lost = find_former_contents(context, exclude_paths(wrong, left), point, copies)
    left |= lost

    # 3. Keep the agent's version before the files are written.
    kept, unkept, records = keep_agent_version(context, call, pending, exclude_paths(wrong, left), after, copies)
    left |= unkept

    # 4. Restore the files.
    left |= restore_files(context, files, exclude_paths(wrong, left))

    undone = exclude_paths(wrong, left)
    own_copies = (copies.blob_path(c.after.version.sha256) for c in undone.values() if c.after and is_git_path(c.path))
    result = UndoResult(
        undone={path: rules[path] for path in undone},
        not_undone=left,
        snapshot_id=kept,
        copies=tuple(own_copies),
        has_commits=pending.head != after.head,
        broken_constraints={path: broken[path] for path in undone if path in broken},
    )
    context.recorder.append_or_spool([*records, *make_records(context, call, pending, result, point)])
    return result


def exclude_paths(changes: Violations, excluded: Mapping[str, str]) -> dict[str, Change]:
    return {path: change for path, change in changes.items() if path not in excluded}


def find_claimed(context: WorkspaceContext, call: ToolCall, pending: PendingCall, wrong: Violations) -> Reasons:
    """Return the paths with another possible author, and the author. Raises StateError."""
    recorded = find_known_versions(context.state, wrong)
    others = [other.pending for other in context.state.list_open_calls() if other.pending and is_other(other, call)]
    people = find_editing_people(context.workspace.root, list(wrong), AGENT_BINARIES)
    found: Reasons = {}
    for path, change in wrong.items():
        if change.possible_sessions:
            found[path] = f"it may be the work of {', '.join(change.possible_sessions)}, or of a person"
        elif path in recorded and version_identity(recorded[path]) != content_identity(change.before):
            found[path] = "another call wrote it meanwhile"
        elif any(path in o.judged or (o.whole and Scope(o.owned_scope).matches(path)) for o in others):
            found[path] = "another call of this session may have written it"
        elif path in people:
            found[path] = f"a person may have written it: {sanitise_line(str(people[path]), 120)}"
    return found


def is_other(other: OpenCall, call: ToolCall) -> bool:
    """Return True for another call of the same session, a sub-agent's perhaps."""
    if other.session.session_id != call.session.session_id:
        return False
    if other.session != call.session:
        return True
    if call.call_id:
        return other.call_id != call.call_id
    return (other.tool, other.arguments_sha256) != (call.tool, call.arguments_sha256)


def find_former_contents(
    context: WorkspaceContext, wrong: Violations, point: Snapshot | None, copies: GitFileCopies
) -> tuple[dict[str, FileToWrite], Reasons]:
    known: dict[str, bytes] = {}
    for path, change in wrong.items():
        content = change.before.content if change.before else None
        if content is None:
            content = copies.content_before(change)
        if content is not None:
            known[path] = content
    missing = {p: c.before.version.sha256 for p, c in wrong.items() if c.before and p not in known}
    if point is not None and missing:
        listing = context.snapshots.list_files(point)
        found = context.snapshots.read_contents({path: listing[path] for path in missing if path in listing})
        known |= {path: content for path, content in found.items() if sha256(content) == missing[path]}
    files: dict[str, FileToWrite] = {}
    for path, change in wrong.items():
        if change.before and path in known:
            # A secret that is written anew is private; else the file's own permissions apply.
            private = 0o600 if change.after is None and is_secret_file(path) else None
            permissions = point.permissions.get(encode_path(path), private) if point else private
            files[path] = FileToWrite(change.before.version.mode, known[path], permissions)
    return files, {path: "its former content was not kept" for path in missing if path not in known}


def keep_agent_version(
    context: WorkspaceContext,
    call: ToolCall,
    pending: PendingCall,
    wrong: Violations,
    after: Observation,
    copies: GitFileCopies,
) -> tuple[str, Reasons, list[Record]]:
    copies.keep_files({path: c.after for path, c in wrong.items()})
    made = [path for path, c in wrong.items() if c.after and not is_git_path(path)]
    if not made:
        return "", {}, []
    occasion = occasion_of_call("undone", call, pending.intent_id, pending.snapshot)
    snapshot, record = SnapshotTaker(context).take_snapshot(occasion, after, pending.intent_id)
    unkept: Reasons = {}
    for path in made:
        seen = after.files.get(path)
        why = snapshot.left.get(encode_path(path))
        if seen is not None and seen.content is None and seen.version.size <= MAX_KEPT_BYTES:
            why = "private patterns hide it from git"
        if why:
            unkept[path] = f"its version could not be kept: {why}"
    return snapshot.id, unkept, [record]


def restore_files(context: WorkspaceContext, files: Mapping[str, FileToWrite], wrong: Violations) -> Reasons:
    """Delete new files, write the former ones, and return the failures with their reasons."""
    common, root = context.workspace.common_dir, context.workspace.root
    places = {path: (common, GIT_PREFIX) if common and is_git_path(path) else (root, "") for path in wrong}
    now = {path: try_observe_file(place / path.removeprefix(prefix)) for path, (place, prefix) in places.items()}
    changed = (path for path, c in wrong.items() if content_identity(now[path]) != content_identity(c.after))
    failed = dict.fromkeys(changed, "it changed again meanwhile")
    groups: dict[tuple[Path, str], dict[str, FileToWrite]] = {}
    for path, change in exclude_paths(wrong, failed).items():
        folder, prefix = places[path]
        if change.before is None:
            failed |= {path: why} if (why := delete_file(folder, path.removeprefix(prefix))) is not None else {}
        elif path in files:
            groups.setdefault(places[path], {})[path.removeprefix(prefix)] = files[path]
    mark = os.urandom(4).hex()
    for (folder, prefix), own in groups.items():
        failed |= {prefix + name: why for name, why in write_files(folder, own, mark).items()}
    return failed


def make_records(
    context: WorkspaceContext, call: ToolCall, pending: PendingCall, result: UndoResult, point: Snapshot | None
) -> list[Record]:
    paths = list(result.undone)
    records: list[Record] = []
    for start in range(0, len(paths), MAX_RECORDED):
        part = paths[start : start + MAX_RECORDED]
        detail: dict[str, object] = {
            "paths": list(map(quote_path, part)),
            "why": "the call had no right to change them",
            "rules": {quote_path(path): result.undone[path] for path in part},
        }
        broken = {quote_path(p): result.broken_constraints[p] for p in part if p in result.broken_constraints}
        detail |= {"broken": broken} if broken else {}
        detail |= {"kept": result.snapshot_id} if result.snapshot_id else {}
        detail |= {"to": point.id} if point else {}
        detail |= {"left": {quote_path(p): why for p, why in result.not_undone.items()}} if result.not_undone else {}
        records.append(restore_record(context.recorder, call, pending.intent_id, detail))
    return records


# Messages


def describe_undo(call: ToolCall, pending: PendingCall, result: UndoResult) -> str:
    """Return the message about a call's violations; empty if there were none."""
    undone = remaining = ""
    if result.undone:
        outside = result.undone.keys() - result.broken_constraints.keys()
        scope = f" {pending.intent_id} owns {', '.join(pending.owned_scope[:MAX_NAMED])}."
        broken = list(result.broken_constraints.values())[:MAX_NAMED]
        next_step = "Stay in the scope, or ask for a wider one; do not try another way."
        if NO_INTENT_CODE in result.undone.values():
            next_step = "Select an intent that owns such files before you call it again."
        elif not outside:
            next_step = "Do it again so that the constraint holds, or ask for another one; do not try another way."
        undone = (
            f"Remit [{', '.join(dict.fromkeys(result.undone.values()))}]: what this {call.tool} call did to "
            f"{list_paths(result.undone)} was undone: it is as it was before the call, and the rest of the call's work "
            f"stays.{' '.join([scope if pending.intent_id and outside else '', *broken])}"
            f"{kept_version_message(result)}{COMMITS_NOTE * result.has_commits} {next_step}"
        )
    if result.not_undone:
        listed = list(result.not_undone.items())[:MAX_NAMED]
        reasons = "; ".join(f"{sanitise_line(quote_path(path), 120)} ({why})" for path, why in listed)
        more = f"; and {len(result.not_undone) - MAX_NAMED} more" if len(result.not_undone) > MAX_NAMED else ""
        remaining = (
            f"Remit: this {call.tool} call had no right to change these either, and they were not undone: "
            f"{reasons}{more}. It is recorded. If it was you, undo it yourself; tell the person."
        )
    return join_lines(undone, remaining)


def kept_version_message(result: UndoResult) -> str:
    example = next((path for path in result.undone if not is_git_path(path)), "PATH")
    if result.snapshot_id:
        command = f"remit restore {result.snapshot_id} {sanitise_line(quote_path(example))}"
        return f" Your version is kept: a person gets it back by `{command}`."
    return f" Your version is kept as {', '.join(map(str, result.copies[:MAX_NAMED]))}." if result.copies else ""


def list_paths(paths: Collection[str]) -> str:
    more = f" and {len(paths) - MAX_NAMED} more" if len(paths) > MAX_NAMED else ""
    return ", ".join(sanitise_line(quote_path(path), 120) for path in list(paths)[:MAX_NAMED]) + more
