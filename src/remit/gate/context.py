"""The context that every step of a call shares: a workspace's state, recorder, contents, snapshots and rules. Also the
form of an answer, and attempts at steps of which none may stop the next.
"""

import sqlite3
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from msgspec import Struct, json
from msgspec.structs import replace

from remit.core.call import SessionKey, ToolCall
from remit.core.config import TrustItem, make_grant_item
from remit.core.decision import Decision, Grant, Mode, ProjectGrant, Violation
from remit.core.diff.contents import ContentVersion, hash_git_blob, sha256
from remit.core.intent import Intent, describe_intent_change, identify, key_by_uid, split_id
from remit.core.python_runtime import LazyProperty, prepare_type
from remit.core.record import Body, Record
from remit.core.redaction import is_secret_file
from remit.gate.governing.lives import PENDING, read_life
from remit.gate.governing.rules import Rules, accept_rules, copies_signature, load_rules, save_copies, update_marker
from remit.gate.governing.settings import resume_governing
from remit.gate.machine import Environment
from remit.gate.records.recorder import TAIL_BYTES, Recorder, find_recorded_events
from remit.gate.state.database import StateError
from remit.gate.state.workspace_state import State, find_unkept, mark_kept
from remit.ledger.log_files import LedgerError
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.git.command import GitError
from remit.workspace.git.repository import find_tracked
from remit.workspace.observe.observation import Change, Observation, Observer, observe_workspace, try_observe_file
from remit.workspace.place.config import read_trust
from remit.workspace.place.resolve_paths import paths_in_workspace
from remit.workspace.place.workspace import Workspace, is_repository_registered, locate_workspace, register_repository
from remit.workspace.safe_files import MAX_KEPT_BYTES, ObservedFile
from remit.workspace.snapshots.git_store import GitSnapshotStore
from remit.workspace.snapshots.snapshot import CopySnapshotStore
from remit.workspace.snapshots.snapshot import SnapshotStore as SnapshotStore

if TYPE_CHECKING:
    from remit.core.runtime_data import DataPatterns
    from remit.ledger.index.index import Index


RECORDING_ERRORS = (StateError, LedgerError, GitError, OSError)
"""The errors that keep a record or the state from being written: database, ledger, git, disk."""


FOLDING_WAIT_S = 10.0


class Answer(Struct, frozen=True):
    """An answer to an agent's hook: the decision, the reason of a denial, and context for the model."""

    decision: Decision
    reason: str = ""
    context: str = ""
    arguments: dict[str, Any] | None = None
    """Arguments that replace the agent's, where a hook rewrote the call or a command runs contained."""
    permission: Literal["", "allow", "ask"] = ""
    """The answer of the person's own rules to the command that `arguments` wrap; `reason` names the rule."""
    message: str = ""  # text for the person at the end of a turn

    def with_notice(self, text: str) -> "Answer":
        reason = join_lines(self.reason, text) if self.reason else ""
        return replace(self, reason=reason, context=join_lines(self.context, text)) if text else self


class Attempts:
    """Steps after a tool has run: a failed step is noted, and the next step is taken. `with attempts: ...` catches
    RECORDING_ERRORS; variables of a failed step keep their earlier values.
    """

    def __init__(self) -> None:
        self.failures: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        if not isinstance(error, RECORDING_ERRORS):
            return False
        self.failures.append(str(error).partition("\n")[0])
        return True

    @property
    def failure_notice(self) -> str:
        if not self.failures:
            return ""
        return f"Remit could not do all of its work ({'; '.join(dict.fromkeys(self.failures))}). Tell the person."


def join_lines(*parts: str) -> str:
    return "\n".join(filter(None, parts))


class WorkspaceContext:
    """A workspace with its state, log, contents and snapshots, each opened at first use."""

    serves_many_calls = False
    """Whether the process stays: then answers are remembered in memory, and contents are folded between calls."""

    max_unfolded_bytes = 256 << 20
    """Bytes of waiting contents after which a call folds them itself: far more than a daemon lets gather."""

    def __init__(self, workspace: Workspace | None, environment: Environment) -> None:
        self.found_workspace = workspace
        self.environment = environment
        self.observer: Observer | None = None
        """Watcher of the working tree, in a process that stays."""
        self.last_rules: Rules | None = None
        """Rules as they were when they were last asked for."""
        self.noticed_rules: Rules | None = None
        """Rules whose intents file was last looked at for changes."""
        self.can_fold = True
        self.resumed_calls: set[tuple[SessionKey, str]] = set()
        """Calls that a program of this process may have begun before it died."""
        self.question_listener: Callable[[Any], None] | None = None
        """Shows a `Question` to the person of this process, which runs an agent of its own, and returns at once."""

    @classmethod
    def open(cls, path: Path | str, environment: Environment | None = None) -> Self:
        return cls(locate_workspace(Path(path)), environment or Environment.of_this_process())

    @property
    def workspace(self) -> Workspace:
        """The workspace. Raises LookupError without a workspace."""
        if self.found_workspace is None:
            raise LookupError(
                "there is no workspace here: run this in a git repository, or `remit init` in a folder without git"
            )
        return self.found_workspace

    @property
    def is_governed(self) -> bool:
        workspace = self.found_workspace
        if workspace is None or workspace.is_governed:
            return workspace is not None
        if not is_repository_registered(self.environment.home, workspace):
            return False
        # Somebody deleted Remit's state: the registry in HOME still knows the repository.
        resume_governing(workspace)
        self.recorder.append_or_spool([self.recorder.recovery_record({"reason": "state_removed"})])
        return True

    def is_resumed(self, call: ToolCall) -> bool:
        return (call.session, call.call_id) in self.resumed_calls

    # What is kept about the workspace

    @LazyProperty
    def state(self) -> State:
        """The state database. Raises StateError, and what keeps a repair from being recorded."""
        state = State(self.workspace.state / "state.db", self.workspace.root)
        if state.damaged_copy is not None:
            repair = {"reason": "state_damaged", "moved_to": state.damaged_copy.name}
            self.recorder.append_or_spool([self.recorder.recovery_record(repair)])
        return state

    @LazyProperty
    def recorder(self) -> Recorder:
        return Recorder(self.workspace, self.environment)

    @LazyProperty
    def contents(self) -> ContentStore:
        """The store of file contents. Raises OSError if this machine has no name."""
        return ContentStore(self.workspace, self.recorder.machine)

    @LazyProperty
    def snapshots(self) -> SnapshotStore:
        """The store of snapshots: the repository, or copies without git. Raises OSError as `contents` does."""
        if self.workspace.common_dir is None:
            return CopySnapshotStore(self.workspace)
        return GitSnapshotStore(self.workspace, self.recorder.machine, keeps_importer=self.serves_many_calls)

    @property
    def rules(self) -> Rules:
        self.last_rules = self.recorder.rules = load_rules(self.workspace)
        return self.last_rules

    def record_late(self, call: ToolCall, decision: Decision, violation: Violation | None, error: Exception) -> bool:
        """Keep the record of a call whose decision could not be recorded because of `error`; return False if nothing
        can be written. The record goes to the log, or to the spool if the log failed: a second wait for the log's lock
        would hold up the agent. An allowed call with a record from before the failure gets no second record.
        """
        # Imported here: the other calls have made their records.
        from remit.gate.records.call_records import unrecorded_call_record

        try:
            if violation is None and "tool_use" in find_recorded_events(self.recorder, call):
                return True
            why = str(error).partition("\n")[0]
            records = [unrecorded_call_record(self.recorder, call, decision, violation, why)]
            if isinstance(error, LedgerError):
                self.recorder.spool_records(records)
            else:
                self.recorder.append_or_spool(records)
        except RECORDING_ERRORS:
            return False
        return True

    def active_grants(self, rules: Rules) -> tuple[Grant, ...]:
        project: tuple[ProjectGrant, ...] = ()
        if rules.config.grants:
            # A clone brings a stranger's.
            digests = self.trusted_digests()
            project = tuple(grant for grant in rules.config.grants if make_grant_item(grant).digest in digests)
        return self.state.active_grants(self.environment.clock.now(), project)

    def trusted_digests(self) -> frozenset[str]:
        """Return what a person on this machine trusts of the repository. Raises OSError, and GitError where it has no
        name yet.
        """
        found = read_trust(self.environment.home, self.recorder.repository)
        return found.digests if found is not None else frozenset()

    def are_trusted(self, items: tuple[TrustItem, ...]) -> bool:
        """Return True if there are items, and a person on this machine trusts each of them."""
        return bool(items) and {item.digest for item in items} <= self.trusted_digests()

    def notice_rules(self, rules: Rules) -> None:
        """Record that the intents file changed, whoever changed it, and keep the marker for the hook client true."""
        update_marker(self.workspace, rules.mode)
        if rules is not self.noticed_rules:
            self.record_intent_changes(rules, by="unknown")
            register_repository(self.environment.home, self.workspace)
            self.noticed_rules = rules

    def record_intent_changes(self, rules: Rules, *, by: str) -> None:
        """Record every difference between the intents file and its last recorded version, and copy what governs."""
        state, document = self.state, rules.written
        document = document.without(PENDING) if document else None
        self.refresh_view(rules)  # first: it is one of the files that are copied
        signature = copies_signature(self.workspace)
        kept = state.read_fact("kept")
        if signature != kept:
            save_copies(self.workspace)
            state.put_fact("kept", signature)
        is_known = rules.is_accepted and signature == kept
        if rules.digest and not is_known and not rules.loosened and not rules.errors:
            accept_rules(self.workspace, rules)
        if document is None or not document.sha256 or document.sha256 == state.read_fact("intents_sha256"):
            return
        recorded = json.decode(state.read_fact("intents") or "[]", type=prepare_type(tuple[Intent, ...]))
        old, new = map(key_by_uid, (recorded, document.intents))
        state.follow_intents(old, new)
        records, versions = list[Record](), list[str]()
        for name in dict.fromkeys((*new, *old)):
            before, after = old.get(name), new.get(name)
            intent = after or before
            if intent is not None and (before is None or replace(before, id=intent.id, uid=intent.uid) != after):
                version = document.find_version(intent.id)
                detail = {"content_sha256": version, "by": by, **describe_intent_change(before, after)}
                names = (split_id(intent.id)[0], identify(intent))
                body = Body("intent_changed", intent_id=names[0], intent_uid=names[1], session_id=None, detail=detail)
                records.append(self.recorder.make_record(body))
                versions.append(version)
        # A process that died before it stored this has recorded it.
        newest = self.recorder.log.read_end(TAIL_BYTES).rpartition(b'"content_sha256":"')[2]
        if records and not newest.startswith(versions[-1].encode()):
            self.recorder.append(records)
        state.put_fact("intents", json.encode(document.intents).decode())
        state.put_fact("intents_sha256", document.sha256)

    def refresh_view(self, rules: Rules) -> None:
        folder, document = self.workspace.folder, rules.document
        seen = sha256(
            repr((document and document.sha256, sorted((i, d.status) for i, d in rules.life.items()))).encode()
        )
        if document is None or not document.files or self.workspace.is_assigned or seen == self.state.read_fact("view"):
            return
        # Imported here: the parser takes milliseconds to load, and few calls change a file.
        from remit.workspace.intents_file.view import write_view

        times = {record.intent_id: record.at for record in read_life(self.workspace).values()}
        with suppress(OSError):  # a view decides nothing
            write_view(folder, document, times)
            self.state.put_fact("view", seen)

    def read_mode(self) -> Mode:
        """Return the mode; enforce if the rules cannot be read."""
        try:
            return self.rules.mode
        except RECORDING_ERRORS:
            return "enforce"

    @contextmanager
    def index(self) -> Generator["Index"]:
        """Open the index of the ledger, brought up to date with the log. Raises OSError, LedgerError."""
        # Imported here: most calls need no index.
        from remit.ledger.index.index import open_index

        try:
            with open_index(self.workspace.state, self.workspace.log_folder) as index:
                yield index
        except sqlite3.Error as error:
            raise LedgerError(f"the index of the ledger cannot be asked: {error}") from error

    def is_current(self) -> bool:
        try:
            return self.state.is_current()
        except StateError:
            return False

    @property
    def repair_notice(self) -> str:
        state = vars(self).get("state")
        if not isinstance(state, State) or state.damaged_copy is None:
            return ""
        return (
            f"Remit's state was damaged and begins anew; the old file is {state.damaged_copy.name}. "
            "No record is lost, but select your intent again."
        )

    def close(self) -> None:
        for name in ("state", "recorder", "snapshots"):
            if name in vars(self):
                vars(self)[name].close()

    # Files

    def observe(self, *, fully: bool = False) -> Observation:
        """Observe the whole workspace; `fully` without what a watcher says. Raises GitError."""
        seen = self.observer.observe(fully=fully) if self.observer else observe_workspace(self.workspace)
        return self.leave_out_data(seen) if (self.last_rules or self.rules).config.containment.data else seen

    def leave_out_data(self, seen: Observation) -> Observation:
        data = self.find_data_patterns()
        plain = (path for path, found in seen.files.items() if found is None or found.version.mode == "100644")
        covered = {path for path in plain if data.covers(path)} if data else frozenset[str]()
        own = covered - find_tracked(self.workspace, covered)
        return replace(seen, files={path: found for path, found in seen.files.items() if path not in own})

    def find_data_patterns(self) -> "DataPatterns | None":
        """Return the patterns of runtime data that a person on this machine trusts. Raises OSError, GitError."""
        settings = (self.last_rules or self.rules).config.containment
        if not settings.data:
            return None
        # Imported here: few repositories name runtime data.
        from remit.core.runtime_data import DataPatterns

        return DataPatterns(settings.data) if self.are_trusted(settings.data_items) else None

    def keep_contents(self, contents: Iterable[tuple[str, bytes]]) -> None:
        found = [(hash_git_blob(content), path, content) for path, content in contents]
        fresh = find_unkept(self.state, {name for name, _, _ in found})
        self.contents.keep_contents(each for each in found if each[0] in fresh or self.contents.files.has_blob(each[0]))
        if self.contents.waiting_bytes() > self.max_unfolded_bytes and self.can_fold:
            # Nobody folds, or not quickly enough: the call that adds more pays for it.
            try:
                self.fold_contents(FOLDING_WAIT_S)
            except RECORDING_ERRORS:
                self.can_fold = False  # it waits on; the next call of this gate need not try in vain

    def fold_contents(self, wait_s: float = 0.0) -> None:
        """Move waiting contents into git. Raises OSError, GitError, StateError."""
        # Imported here: in a process that stays, no call does this.
        from remit.workspace.contents.fold import fold_into_git, migrate_old_refs

        migrate_old_refs(self.contents)
        folded = fold_into_git(self.contents, wait_s)
        if folded:
            mark_kept(self.state, folded)

    def load_version(self, version: ContentVersion | None) -> ObservedFile | None:
        if version is None:
            return None
        return ObservedFile(version, self.contents.load(version.git_blob) if version.size <= MAX_KEPT_BYTES else None)

    def mark_files_seen(self, session: SessionKey, paths: Iterable[str]) -> None:
        now = {path: try_observe_file(self.workspace.root / path) for path in paths}
        if not now:
            return
        self.keep_contents(contents_to_keep(now.items()))
        self.state.put_seen_files(session, {path: seen.version if seen else None for path, seen in now.items()})

    def paths_of_call(self, call: ToolCall) -> list[str]:
        return self.workspace_paths(call, call.paths)

    def workspace_paths(self, call: ToolCall, raws: Iterable[str]) -> list[str]:
        return paths_in_workspace(self.workspace, call, raws, self.environment)


def contents_to_keep(files: Iterable[tuple[str, ObservedFile | None]]) -> Iterator[tuple[str, bytes]]:
    for path, seen in files:
        if seen is not None and seen.content is not None and not path.startswith(".git/") and not is_secret_file(path):
            yield path, seen.content


def contents_of_changes(changes: Iterable[Change]) -> Iterator[tuple[str, bytes]]:
    return contents_to_keep((change.path, side) for change in changes for side in (change.before, change.after))
