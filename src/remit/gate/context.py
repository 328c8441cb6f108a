"""One workspace and what belongs to it: where every part of the gate finds what it works with.

Which store a workspace's snapshots lie in.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Self

from remit.core.call import SessionKey, ToolCall
from remit.core.decision import Mode
from remit.core.diff.contents import hash_git_blob
from remit.core.lazy_property import LazyProperty
from remit.core.team_hooks import TrustItem
from remit.gate.answer import RECORDING_ERRORS
from remit.gate.environment import Environment
from remit.gate.intents.intents import Intents
from remit.gate.records import record_parts
from remit.gate.records.recorder import Recorder
from remit.gate.rules.load import Rules, load_rules, resume_governing, update_marker
from remit.gate.rules.trust import find_untrusted, untrusted_notice_once
from remit.gate.state.database import StateError
from remit.gate.state.questions import QuestionStore
from remit.gate.state.workspace_state import State
from remit.gate.team_hooks.registry import RegisteredHooks
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.observe.observation import Observation, Observer, observe_workspace, try_observe_file
from remit.workspace.place.governed_repositories import is_repository_registered, register_repository
from remit.workspace.place.workspace import Workspace, locate_workspace
from remit.workspace.snapshots.copy_store import CopySnapshotStore
from remit.workspace.snapshots.git_store import GitSnapshotStore
from remit.workspace.snapshots.snapshot import SnapshotStore


def open_snapshot_store(workspace: Workspace, recorder: Recorder, *, stays: bool) -> SnapshotStore:
    """The repository, where there is one; else copies. Raises OSError where this machine has no name."""
    if workspace.common_dir is None:
        return CopySnapshotStore(workspace)
    return GitSnapshotStore(workspace, recorder.machine, keeps_importer=stays)


class WorkspaceContext:
    """The workspace, its state, its log and its contents. Each is opened when it is first needed."""

    serves_many_calls = False
    """Whether this gate serves more calls than one: then it remembers by itself what it just answered."""

    def __init__(self, workspace: Workspace | None, environment: Environment) -> None:
        self.found_workspace = workspace
        self.environment = environment
        self.last_rules: Rules | None = None
        """What governed when that was last asked."""
        self.observer: Observer | None = None
        """Who knows what changed since the last look, in a process that watches."""
        self.noticed_rules: Rules | None = None
        """The rules that were looked at last for changes: what governs is read anew only when a file of it changed."""

    @classmethod
    def open(cls, path: Path | str, environment: Environment | None = None) -> Self:
        """The one of the workspace that holds `path`, which need not exist."""
        return cls(locate_workspace(Path(path)), environment or Environment.of_this_process())

    @property
    def is_governed(self) -> bool:
        """Whether there is anything to enforce or to record here."""
        if self.found_workspace is None:
            return False
        return self.found_workspace.is_governed or self.restore_from_registry(self.found_workspace)

    def restore_from_registry(self, workspace: Workspace) -> bool:
        """Whether it was governed until somebody deleted Remit's state: then it is again, and that is recorded."""
        if not is_repository_registered(self.environment.home, workspace):
            return False
        resume_governing(workspace)
        self.recorder.append_or_spool([self.recorder.recovery_record({"reason": "state_removed"})])
        return True

    @property
    def workspace(self) -> Workspace:
        """The workspace; only for a gate that has one."""
        if self.found_workspace is None:
            raise LookupError(
                "there is no workspace here: run this in a git repository, or `remit init` in a folder without git"
            )
        return self.found_workspace

    def is_current(self) -> bool:
        """Whether a gate that was kept open still holds what is on disk: its state may have been replaced."""
        try:
            return self.state.is_current()
        except StateError:
            return False

    def close(self) -> None:
        """Let go of the files that were opened; nothing is done with this one any more."""
        state, recorder = self.__dict__.get("state"), self.__dict__.get("recorder")
        if isinstance(state, State):
            state.close()
        if isinstance(recorder, Recorder):
            recorder.close()
        if "snapshots" in self.__dict__:
            self.snapshots.close()

    @LazyProperty
    def state(self) -> State:
        """The state database. Raises StateError; also what keeps a repair from being recorded."""
        state = State(self.workspace.state / "state.db", self.workspace.root)
        if state.aside is not None:
            repair = {"reason": "state_damaged", "moved_to": state.aside.name}
            self.recorder.append_or_spool([self.recorder.recovery_record(repair)])
        return state

    @property
    def repair_notice(self) -> str:
        """What has to be said about the state, once it was opened."""
        state = self.__dict__.get("state")
        if not isinstance(state, State) or state.aside is None:
            return ""
        return (
            f"Remit's state was damaged and begins anew; the old file is {state.aside.name}. "
            "No record is lost, but select your intent again."
        )

    @LazyProperty
    def recorder(self) -> Recorder:
        """Who writes the records."""
        return Recorder(self.workspace, self.environment)

    @LazyProperty
    def contents(self) -> ContentStore:
        """Where contents are kept. Raises OSError where this machine has no name."""
        return ContentStore(self.workspace, self.recorder.machine)

    @LazyProperty
    def snapshots(self) -> SnapshotStore:
        """Where states of the working tree are kept. Raises OSError where this machine has no name."""
        return open_snapshot_store(self.workspace, self.recorder, stays=self.serves_many_calls)

    @property
    def rules(self) -> Rules:
        """What governs at this moment."""
        self.last_rules = load_rules(self.workspace)
        self.recorder.patterns = self.last_rules.config.redact.patterns
        return self.last_rules

    @property
    def intents(self) -> Intents:
        """Intents: list, select, clear, complete, make, edit."""
        return Intents(self.workspace, self.state, self.recorder)

    @LazyProperty
    def questions(self) -> QuestionStore:
        """Questions to a person, and the yeses given so far."""
        return QuestionStore(self.state, self.environment.clock)

    @LazyProperty
    def hooks(self) -> RegisteredHooks:
        """The checks that were registered with this gate."""
        return RegisteredHooks()

    @property
    def untrusted_commands(self) -> tuple[TrustItem, ...]:
        """What the repository would have Remit run, and no person on this machine trusts. Raises OSError, GitError."""
        return find_untrusted(self.rules, self.recorder)

    def untrusted_notice(self, session: SessionKey) -> str:
        """The notice of that for a session, once; by the rules that its call was just judged by. In observe it goes to
        the person alone, at the turn's end.
        """
        rules = self.last_rules or self.rules
        if rules.mode == "observe":
            return ""
        return untrusted_notice_once(find_untrusted(rules, self.recorder), self.state, session)

    def observe(self, *, fully: bool = False) -> Observation:
        """The whole workspace; `fully` where nothing that watched may be relied on. Raises GitError."""
        return self.observer.observe(fully=fully) if self.observer else observe_workspace(self.workspace)

    def keep_contents(self, contents: Iterable[tuple[str, bytes]]) -> None:
        """Keep the contents of these paths that were not kept before."""
        found = [(hash_git_blob(content), path, content) for path, content in contents]
        fresh = self.state.find_unkept({name for name, _, _ in found})
        self.contents.keep_contents(each for each in found if each[0] in fresh or self.contents.has_own_file(each[0]))

    def fold_contents(self) -> None:
        """Take the contents that wait into git. Raises OSError, GitError, StateError."""
        self.contents.migrate_old_refs()
        folded = self.contents.fold_into_git()
        if folded:
            self.state.mark_kept(folded)

    def mark_files_seen(self, session: SessionKey, paths: Iterable[str]) -> None:
        """This session knows what is in these files now."""
        now = {path: try_observe_file(self.workspace.root / path) for path in paths}
        if not now:
            return
        self.keep_contents(record_parts.contents_to_keep(now.items()))
        self.state.put_seen_files(session, {path: found.version if found else None for path, found in now.items()})

    def paths_of_call(self, call: ToolCall) -> list[str]:
        """The call's paths that lie in the workspace."""
        return self.workspace_paths(call, call.paths)

    def workspace_paths(self, call: ToolCall, raws: Iterable[str]) -> list[str]:
        """These paths, as far as they lie in the workspace."""
        return record_parts.paths_in_workspace(self.workspace, call, raws, self.environment)

    def notice_rules(self, rules: Rules) -> None:
        """Record that the intents file changed, whoever changed it, and keep the marker for the client true."""
        update_marker(self.workspace, rules.mode)
        if rules is self.noticed_rules:
            return
        self.intents.record_file_changes(rules, by="unknown")
        register_repository(self.environment.home, self.workspace)
        self.noticed_rules = rules

    def read_mode(self) -> Mode:
        """The mode, from the files alone."""
        try:
            return self.rules.mode
        except RECORDING_ERRORS:
            return "enforce"
