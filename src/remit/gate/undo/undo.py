"""Effects that a command had no right to, taken back: only those, and what the agent made of them is kept aside.

A path that somebody else may have written in the same time is never touched: it is reported.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from msgspec import UNSET, Struct
from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.diff.contents import sha256
from remit.core.display_text import quote_path, sanitise_line
from remit.core.record import Body, Record
from remit.core.scope.globs import Scope
from remit.core.secrets.secret_files import is_secret_file
from remit.gate.context import WorkspaceContext
from remit.gate.effects.concurrent_calls import version_identity
from remit.gate.effects.likely_writers import AGENT_BINARIES
from remit.gate.records import record_parts
from remit.gate.snapshots.take import SnapshotTaker
from remit.gate.state.baseline import find_known_versions
from remit.gate.state.workspace_state import OpenCall, PendingCall
from remit.gate.undo.find_violations import BROKEN_CODE, Reasons, ViolationFinder, is_git_path
from remit.gate.undo.git_files import GIT_PREFIX, GitFileCopies
from remit.workspace.files.atomic import FileToWrite, delete_file, write_files
from remit.workspace.files.read_files import MAX_KEPT_BYTES, ObservedFile
from remit.workspace.observe.observation import Change, Observation, content_identity, try_observe_file
from remit.workspace.processes.writers import find_editing_people
from remit.workspace.snapshots.snapshot import Occasion, Snapshot, encode_path

CONTENT_LOST = "its former content was not kept"
PRIVATE_MODE = 0o600
MAX_RECORDED = 100
"""Files that one record names as put back."""

Violations: TypeAlias = Mapping[str, Change]


class UndoResult(Struct, frozen=True):
    """What was undone, and what should have been and was not: by path, the reason.

    `kept` is the snapshot that holds the agent's version, `places` where it lies of git's own files.
    """

    undone: Reasons = {}
    not_undone: Reasons = {}
    snapshot_id: str = ""
    copies: tuple[Path, ...] = ()
    has_commits: bool = False
    """The call made commits, which may hold the agent's version: they stay."""
    broken_constraints: Reasons = {}
    """By path, in words, the constraints that were broken."""

    def apply_undo(self, done: tuple[Change, ...]) -> tuple[Change, ...]:
        """The changes, those that were undone as they are now."""
        return tuple(replace(c, after=c.before) if c.path in self.undone else c for c in done)


NOTHING_UNDONE = UndoResult()


class ViolationUndo:
    """Takes back what the calls of one workspace did beyond their right."""

    def __init__(self, context: WorkspaceContext) -> None:
        self.context = context
        self.root = context.workspace.root
        self.git_files = GitFileCopies(context.workspace)
        self.finder = ViolationFinder(context, self.git_files)

    def undo_violations(
        self, call: ToolCall, pending: PendingCall, done: tuple[Change, ...], after: Observation
    ) -> UndoResult:
        """In enforce, take back what this command, or foreign tool, changed and may not.

        Raises what CannotRecord names. `after` is what was found when it came back. A file tool names what it writes,
        and was judged by that.
        """
        if pending.mode != "enforce" or not pending.whole or call.remit_tool is not None:
            return NOTHING_UNDONE
        rules = self.finder.find_violations(call, pending, done)
        broken = self.finder.find_broken_constraints(call, pending, [c for c in done if c.path not in rules])
        rules |= dict.fromkeys(broken, BROKEN_CODE)
        wrong = {c.path: c for c in done if c.path in rules}
        if not wrong:
            return NOTHING_UNDONE
        left = self.find_claimed(call, pending, wrong)
        point = self.find_snapshot(pending)
        files, lost = self.find_former_contents(exclude_paths(wrong, left), point)
        left |= lost
        kept, unkept, records = self.keep_agent_version(call, pending, exclude_paths(wrong, left), after)
        left |= unkept
        left |= self.restore_files(files, exclude_paths(wrong, left))
        gone = exclude_paths(wrong, left)
        places = tuple(
            self.git_files.copy_path(c.after.version.sha256) for c in gone.values() if c.after and is_git_path(c.path)
        )
        found = UndoResult(
            {path: rules[path] for path in gone},
            left,
            kept,
            places,
            pending.head != after.head,
            {path: broken[path] for path in gone if path in broken},
        )
        self.context.recorder.append_or_spool([*records, *self.make_records(call, pending, found, point)])
        return found

    # -- whose it is ----------------------------------------------------------------------------------------

    def find_claimed(self, call: ToolCall, pending: PendingCall, wrong: Violations) -> Reasons:
        """Those that somebody else may have written, and who. Raises StateError."""
        recorded = find_known_versions(self.context.state, wrong)
        others = [c for c in self.context.state.list_open_calls() if not is_same_call(c, call)]
        people = find_editing_people(self.root, list(wrong), AGENT_BINARIES)
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

    # -- taking back ----------------------------------------------------------------------------------------

    def find_snapshot(self, pending: PendingCall) -> Snapshot | None:
        """The state from before the call. Raises GitError, OSError."""
        if not pending.snapshot:
            return None
        return next((s for s in self.context.snapshots.list_snapshots() if s.id == pending.snapshot), None)

    def find_former_contents(self, wrong: Violations, point: Snapshot | None) -> tuple[dict[str, FileToWrite], Reasons]:
        """What these files were, but for those that were not there; and those of which nobody knows it any more."""
        known = {p: c.before.content for p, c in wrong.items() if c.before and c.before.content is not None}
        missing = [c for p, c in wrong.items() if c.before and p not in known]
        known |= {c.path: found for c in missing if (found := self.git_files.content_before(c)) is not None}
        known |= self.contents_in_snapshot([c for c in missing if c.path not in known], point)
        bits = point.permissions if point else {}
        files = {
            path: FileToWrite(c.before.version.mode, known[path], bits.get(encode_path(path), file_permissions(c)))
            for path, c in wrong.items()
            if c.before and path in known
        }
        return files, {c.path: CONTENT_LOST for c in missing if c.path not in known}

    def contents_in_snapshot(self, missing: list[Change], point: Snapshot | None) -> dict[str, bytes]:
        """The contents that only the snapshot holds: secrets, and large files."""
        if point is None or not missing:
            return {}
        listing = self.context.snapshots.list_files(point)
        found = self.context.snapshots.read_contents({c.path: listing[c.path] for c in missing if c.path in listing})
        shas = {c.path: c.before.version.sha256 for c in missing if c.before}
        return {path: content for path, content in found.items() if sha256(content) == shas[path]}

    def keep_agent_version(
        self, call: ToolCall, pending: PendingCall, wrong: Violations, after: Observation
    ) -> tuple[str, Reasons, list[Record]]:
        """Keep the agent's version: the snapshot that holds it, what no snapshot holds, and its record."""
        self.git_files.keep_files({path: c.after for path, c in wrong.items()})
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
        snapshot, record = SnapshotTaker(self.context).take_snapshot(occasion, after, pending.intent_id)
        unkept = {path: why for path in made if (why := snapshot.left.get(encode_path(path)))}
        unkept |= {
            path: "private patterns hide it from git" for path in made if is_hidden_from_git(after.files.get(path))
        }
        return snapshot.id, {p: f"its version could not be kept: {why}" for p, why in unkept.items()}, [record]

    def restore_files(self, files: Mapping[str, FileToWrite], wrong: Violations) -> Reasons:
        """Delete what was not there, then put back what was; what could not be. One that changed again stays."""
        failed = {p: "it changed again meanwhile" for p, c in wrong.items() if self.has_new_content(c)}
        rest = exclude_paths(wrong, failed)
        for path in (path for path, change in rest.items() if change.before is None):
            root, name = self.locate_file(path)
            if (why := delete_file(root, name)) is not None:
                failed[path] = why
        mark = os.urandom(4).hex()
        for root, prefix in {
            self.locate_file(path)[0]: GIT_PREFIX if is_git_path(path) else "" for path in rest
        }.items():
            own = {p[len(prefix) :]: files[p] for p in rest if p in files and is_git_path(p) == bool(prefix)}
            failed |= {prefix + name: why for name, why in write_files(root, own, mark).items()}
        return failed

    def has_new_content(self, change: Change) -> bool:
        """Whether the file is by now another than the comparison found."""
        root, name = self.locate_file(change.path)
        return content_identity(try_observe_file(root / name)) != content_identity(change.after)

    def locate_file(self, path: str) -> tuple[Path, str]:
        """The folder that holds a path, and its name there."""
        common = self.context.workspace.common_dir
        return (common, path[len(GIT_PREFIX) :]) if common and is_git_path(path) else (self.root, path)

    def make_records(
        self, call: ToolCall, pending: PendingCall, found: UndoResult, point: Snapshot | None
    ) -> list[Record]:
        """That files were put back, which, why, and where the agent's version is; many of them in several records."""
        every = list(found.undone)
        parts = (every[at : at + MAX_RECORDED] for at in range(0, len(every), MAX_RECORDED))
        return [self.make_record(call, pending, found, point, paths) for paths in parts]

    def make_record(
        self, call: ToolCall, pending: PendingCall, found: UndoResult, point: Snapshot | None, paths: list[str]
    ) -> Record:
        """One of these records, of some of the files."""
        detail: dict[str, object] = {
            "paths": list(map(quote_path, paths)),
            "why": "the call had no right to change them",
            "rules": {quote_path(path): found.undone[path] for path in paths},
        }
        broken = {
            quote_path(path): found.broken_constraints[path] for path in paths if path in found.broken_constraints
        }
        detail |= {"broken": broken} if broken else {}
        detail |= {"kept": found.snapshot_id} if found.snapshot_id else {}
        detail |= {"to": point.id} if point else {}
        detail |= (
            {"left": {quote_path(path): why for path, why in found.not_undone.items()}} if found.not_undone else {}
        )
        body = Body(
            event="restore",
            intent_id=pending.intent_id,
            session_id=call.session.session_id,
            agent_id=call.session.agent_id or UNSET,
            call=record_parts.call_part(call),
            detail=detail,
        )
        return self.context.recorder.make_record(body)


def is_same_call(other: OpenCall, call: ToolCall) -> bool:
    """Whether a call under way is this one."""
    if other.session != call.session:
        return False
    if call.call_id:
        return other.call_id == call.call_id
    return (other.tool, other.arguments_sha256) == (call.tool, call.arguments_sha256)


def can_write(other: OpenCall, call: ToolCall, path: str) -> bool:
    """Whether another call of the same session, a sub-agent's perhaps, had the right to write there."""
    pending = other.pending
    if pending is None or other.session.session_id != call.session.session_id:
        return False
    return path in pending.judged or (pending.whole and Scope(pending.owned_scope).matches(path))


def is_hidden_from_git(found: ObservedFile | None) -> bool:
    """Whether an observation holds a small file without its content: then no snapshot does."""
    return found is not None and found.content is None and found.version.size <= MAX_KEPT_BYTES


def file_permissions(change: Change) -> int | None:
    """The permissions of a file that is written anew: a secret is for nobody else's eyes."""
    return PRIVATE_MODE if change.after is None and is_secret_file(change.path) else None


def exclude_paths(changes: Violations, left: Mapping[str, str]) -> dict[str, Change]:
    """The changes but for these paths."""
    return {path: change for path, change in changes.items() if path not in left}
