"""Undoing of violations: changes that a call had no right to make are reverted, and the agent's version is kept.

A path that somebody else may have written in the same time is never touched, only reported.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.adapters.agents import AGENT_BINARIES
from remit.core.call import ToolCall
from remit.core.diff.contents import sha256
from remit.core.display_text import quote_path, sanitise_line
from remit.core.record import Record
from remit.core.scope.globs import Scope
from remit.core.secrets.secret_files import is_secret_file
from remit.gate.context import WorkspaceContext
from remit.gate.records.call_records import restore_record
from remit.gate.snapshots.take import SnapshotTaker
from remit.gate.state.baseline import find_known_versions, version_identity
from remit.gate.state.pending_calls import OpenCall, PendingCall
from remit.gate.undo.find_violations import BROKEN_CODE, Reasons, find_broken_constraints, find_violations
from remit.gate.undo.git_file_copies import GIT_PREFIX, GitFileCopies, is_git_path
from remit.workspace.files.atomic import FileToWrite, delete_file, write_files
from remit.workspace.files.read_files import MAX_KEPT_BYTES, ObservedFile
from remit.workspace.observe.observation import Change, Observation, content_identity, try_observe_file
from remit.workspace.processes.writers import find_editing_people
from remit.workspace.snapshots.snapshot import Occasion, Snapshot, encode_path

CONTENT_LOST = "its former content was not kept"
PRIVATE_MODE = 0o600
MAX_RECORDED = 100
"""Files that one record names as undone."""

Violations: TypeAlias = Mapping[str, Change]
"""Changes to undo, by path."""


class UndoResult(Struct, frozen=True):
    """Undone changes with the broken rule, and remaining changes with the reason, by path.

    `snapshot_id` names the snapshot of the agent's version, `copies` the agent's versions of git's own files.
    """

    undone: Reasons = {}
    not_undone: Reasons = {}
    snapshot_id: str = ""
    copies: tuple[Path, ...] = ()
    has_commits: bool = False
    """Whether the call made commits: they stay, and may hold the agent's version."""
    broken_constraints: Reasons = {}

    def apply_undo(self, changes: Sequence[Change]) -> tuple[Change, ...]:
        return tuple(replace(c, after=c.before) if c.path in self.undone else c for c in changes)


NOTHING_UNDONE = UndoResult()


def undo_violations(
    context: WorkspaceContext, call: ToolCall, pending: PendingCall, changes: Sequence[Change], after: Observation
) -> UndoResult:
    """In enforce, undo what a command or a foreign tool changed without a right to. Raises RECORDING_ERRORS.

    `after` is the observation when the call came back. A file tool was judged by the paths that it names.
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
    left = find_claimed(context, call, pending, wrong)
    point = find_snapshot(context, pending)
    files, lost = find_former_contents(context, exclude_paths(wrong, left), point, copies)
    left |= lost

    # 3. Keep the agent's version before the files are written.
    kept, unkept, records = keep_agent_version(context, call, pending, exclude_paths(wrong, left), after, copies)
    left |= unkept

    # 4. Restore the files.
    left |= restore_files(context, files, exclude_paths(wrong, left))

    undone = exclude_paths(wrong, left)
    result = UndoResult(
        undone={path: rules[path] for path in undone},
        not_undone=left,
        snapshot_id=kept,
        copies=tuple(
            copies.copy_path(c.after.version.sha256) for c in undone.values() if c.after and is_git_path(c.path)
        ),
        has_commits=pending.head != after.head,
        broken_constraints={path: broken[path] for path in undone if path in broken},
    )
    context.recorder.append_or_spool([*records, *make_records(context, call, pending, result, point)])
    return result


def find_claimed(context: WorkspaceContext, call: ToolCall, pending: PendingCall, wrong: Violations) -> Reasons:
    """Return the paths with another possible author, and the author. Raises StateError."""
    recorded = find_known_versions(context.state, wrong)
    others = [other for other in context.state.list_open_calls() if not is_same_call(other, call)]
    people = find_editing_people(context.workspace.root, list(wrong), AGENT_BINARIES)
    found: Reasons = {}
    for path, change in wrong.items():
        if change.possible_sessions:
            found[path] = f"it may be the work of {', '.join(change.possible_sessions)}, or of a person"
        elif path in recorded and version_identity(recorded[path]) != content_identity(change.before):
            found[path] = "another call wrote it meanwhile"
        elif any(can_write(other, call, path) for other in others):
            found[path] = "another call of this session may have written it"
        elif path in people:
            found[path] = f"a person may have written it: {sanitise_line(str(people[path]), 120)}"
    return found


def is_same_call(other: OpenCall, call: ToolCall) -> bool:
    if other.session != call.session:
        return False
    if call.call_id:
        return other.call_id == call.call_id
    return (other.tool, other.arguments_sha256) == (call.tool, call.arguments_sha256)


def can_write(other: OpenCall, call: ToolCall, path: str) -> bool:
    """Return True if another call of the same session (a sub-agent's, perhaps) had the right to write there."""
    pending = other.pending
    if pending is None or other.session.session_id != call.session.session_id:
        return False
    return path in pending.judged or (pending.whole and Scope(pending.owned_scope).matches(path))


# Former contents


def find_snapshot(context: WorkspaceContext, pending: PendingCall) -> Snapshot | None:
    """Return the snapshot from before the call, if one was taken. Raises GitError, OSError."""
    if not pending.snapshot:
        return None
    return next((s for s in context.snapshots.list_snapshots() if s.id == pending.snapshot), None)


def find_former_contents(
    context: WorkspaceContext, wrong: Violations, point: Snapshot | None, copies: GitFileCopies
) -> tuple[dict[str, FileToWrite], Reasons]:
    """Return the former files by path, without those that did not exist; and the files whose content is lost.

    Three stores are asked: the content store (in the observation), the copies of git's files, the snapshot.
    """
    known = {p: c.before.content for p, c in wrong.items() if c.before and c.before.content is not None}
    missing = [c for p, c in wrong.items() if c.before and p not in known]
    known |= {c.path: found for c in missing if (found := copies.content_before(c)) is not None}
    known |= find_in_snapshot(context, [c for c in missing if c.path not in known], point)
    bits = point.permissions if point else {}
    files = {
        path: FileToWrite(c.before.version.mode, known[path], bits.get(encode_path(path), private_permissions(c)))
        for path, c in wrong.items()
        if c.before and path in known
    }
    return files, {c.path: CONTENT_LOST for c in missing if c.path not in known}


def find_in_snapshot(context: WorkspaceContext, missing: list[Change], point: Snapshot | None) -> dict[str, bytes]:
    """Return the contents that only the snapshot holds: secrets, and large files."""
    if point is None or not missing:
        return {}
    listing = context.snapshots.list_files(point)
    found = context.snapshots.read_contents({c.path: listing[c.path] for c in missing if c.path in listing})
    expected = {c.path: c.before.version.sha256 for c in missing if c.before}
    return {path: content for path, content in found.items() if sha256(content) == expected[path]}


def private_permissions(change: Change) -> int | None:
    """Return the permissions of a secret that is written anew; None if the file's own apply."""
    return PRIVATE_MODE if change.after is None and is_secret_file(change.path) else None


# The agent's version


def keep_agent_version(
    context: WorkspaceContext,
    call: ToolCall,
    pending: PendingCall,
    wrong: Violations,
    after: Observation,
    copies: GitFileCopies,
) -> tuple[str, Reasons, list[Record]]:
    """Keep the agent's version; return the snapshot, the lost files, and the snapshot's record."""
    copies.keep_files({path: c.after for path, c in wrong.items()})
    made = {path: c.after for path, c in wrong.items() if c.after and not is_git_path(path)}
    if not made:
        return "", {}, []
    occasion = Occasion(
        kind="undone",
        intent=pending.intent_id or "",
        session=call.session.session_id,
        agent=call.agent,
        call=call.call_id,
        tool=call.tool,
        command=call.command or "",
        point=pending.snapshot,
    )
    snapshot, record = SnapshotTaker(context).take_snapshot(occasion, after, pending.intent_id)
    unkept = {path: why for path in made if (why := snapshot.left.get(encode_path(path)))}
    unkept |= {path: "private patterns hide it from git" for path in made if is_hidden_from_git(after.files.get(path))}
    return snapshot.id, {path: f"its version could not be kept: {why}" for path, why in unkept.items()}, [record]


def is_hidden_from_git(seen: ObservedFile | None) -> bool:
    return seen is not None and seen.content is None and seen.version.size <= MAX_KEPT_BYTES


# Restoring


def restore_files(context: WorkspaceContext, files: Mapping[str, FileToWrite], wrong: Violations) -> Reasons:
    """Delete new files, write the former ones, and return the failures with their reasons."""
    failed = {path: "it changed again meanwhile" for path, c in wrong.items() if has_new_content(context, c)}
    rest = exclude_paths(wrong, failed)
    for path, change in rest.items():
        if change.before is None:
            root, name = locate_file(context, path)
            if (why := delete_file(root, name)) is not None:
                failed[path] = why
    mark = os.urandom(4).hex()
    roots = {locate_file(context, path)[0]: GIT_PREFIX if is_git_path(path) else "" for path in rest}
    for root, prefix in roots.items():
        own = {p[len(prefix) :]: files[p] for p in rest if p in files and is_git_path(p) == bool(prefix)}
        failed |= {prefix + name: why for name, why in write_files(root, own, mark).items()}
    return failed


def has_new_content(context: WorkspaceContext, change: Change) -> bool:
    root, name = locate_file(context, change.path)
    return content_identity(try_observe_file(root / name)) != content_identity(change.after)


def locate_file(context: WorkspaceContext, path: str) -> tuple[Path, str]:
    common = context.workspace.common_dir
    return (common, path[len(GIT_PREFIX) :]) if common and is_git_path(path) else (context.workspace.root, path)


# Records


def make_records(
    context: WorkspaceContext, call: ToolCall, pending: PendingCall, result: UndoResult, point: Snapshot | None
) -> list[Record]:
    """Return the records of undone files, with the reasons and the place of the agent's version."""
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


def exclude_paths(changes: Violations, excluded: Mapping[str, str]) -> dict[str, Change]:
    return {path: change for path, change in changes.items() if path not in excluded}
