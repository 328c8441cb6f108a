"""The context of a workspace: its state, recorder, contents, snapshots and rules, for every step of a call."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from remit.core.call import SessionKey, ToolCall
from remit.core.decision import Mode
from remit.core.diff.contents import ContentVersion, hash_git_blob
from remit.core.lazy_property import LazyProperty
from remit.core.secrets.secret_files import is_secret_file
from remit.gate.answer import RECORDING_ERRORS
from remit.gate.call_targets import paths_in_workspace
from remit.gate.environment import Environment
from remit.gate.ledger_index import open_index
from remit.gate.records.recorder import Recorder
from remit.gate.rules.governed_workspaces import resume_governing
from remit.gate.rules.load import Rules, load_rules
from remit.gate.state.baseline import find_unkept, mark_kept
from remit.gate.state.database import StateError
from remit.gate.state.workspace_state import State
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.files.read_files import MAX_KEPT_BYTES, ObservedFile
from remit.workspace.observe.observation import Change, Observation, Observer, observe_workspace, try_observe_file
from remit.workspace.place.governed_repositories import is_repository_registered
from remit.workspace.place.workspace import Workspace, locate_workspace
from remit.workspace.snapshots.copy_store import CopySnapshotStore
from remit.workspace.snapshots.git_store import GitSnapshotStore
from remit.workspace.snapshots.snapshot import SnapshotStore as SnapshotStore

if TYPE_CHECKING:
    from remit.ledger.index.index import Index


class WorkspaceContext:
    """A workspace with its state, log, contents and snapshots, each opened at first use."""

    serves_many_calls = False
    """Whether the process stays: then answers are remembered in memory, and contents are folded between calls."""

    def __init__(self, workspace: Workspace | None, environment: Environment) -> None:
        self.found_workspace = workspace
        self.environment = environment
        self.observer: Observer | None = None
        """Watcher of the working tree, in a process that stays."""
        self.last_rules: Rules | None = None
        """Rules as they were when they were last asked for."""
        self.noticed_rules: Rules | None = None
        """Rules whose intents file was last looked at for changes."""

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
        if self.found_workspace is None:
            return False
        return self.found_workspace.is_governed or self.restore_from_registry(self.found_workspace)

    def restore_from_registry(self, workspace: Workspace) -> bool:
        """Govern again and record that, if the workspace is registered; return False otherwise."""
        if not is_repository_registered(self.environment.home, workspace):
            return False
        resume_governing(workspace)
        self.recorder.append_or_spool([self.recorder.recovery_record({"reason": "state_removed"})])
        return True

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
        self.last_rules = load_rules(self.workspace)
        self.recorder.patterns = self.last_rules.config.redact.patterns
        return self.last_rules

    def read_mode(self) -> Mode:
        """Return the mode; enforce if the rules cannot be read."""
        try:
            return self.rules.mode
        except RECORDING_ERRORS:
            return "enforce"

    def index(self) -> AbstractContextManager["Index"]:
        """Open the index of the ledger, brought up to date with the log. Raises OSError, LedgerError."""
        return open_index(self.workspace)

    def is_current(self) -> bool:
        try:
            return self.state.is_current()
        except StateError:
            return False

    @property
    def repair_notice(self) -> str:
        """The message about a damaged state."""
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
        return self.observer.observe(fully=fully) if self.observer else observe_workspace(self.workspace)

    def keep_contents(self, contents: Iterable[tuple[str, bytes]]) -> None:
        """Keep new contents. Raises StateError, OSError."""
        found = [(hash_git_blob(content), path, content) for path, content in contents]
        fresh = find_unkept(self.state, {name for name, _, _ in found})
        self.contents.keep_contents(each for each in found if each[0] in fresh or self.contents.has_own_file(each[0]))

    def fold_contents(self) -> None:
        """Move waiting contents into git. Raises OSError, GitError, StateError."""
        self.contents.migrate_old_refs()
        folded = self.contents.fold_into_git()
        if folded:
            mark_kept(self.state, folded)

    def load_version(self, version: ContentVersion | None) -> ObservedFile | None:
        if version is None:
            return None
        return ObservedFile(version, self.contents.load(version.git_blob) if version.size <= MAX_KEPT_BYTES else None)

    def mark_files_seen(self, session: SessionKey, paths: Iterable[str]) -> None:
        """Store the present content of files as seen by a session."""
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
        if seen is not None and seen.content is not None and can_keep_content(path):
            yield path, seen.content


def can_keep_content(path: str) -> bool:
    return not path.startswith(".git/") and not is_secret_file(path)


def contents_of_changes(changes: Iterable[Change]) -> Iterator[tuple[str, bytes]]:
    return contents_to_keep((change.path, side) for change in changes for side in (change.before, change.after))
