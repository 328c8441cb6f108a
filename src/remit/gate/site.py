"""One workspace and what belongs to it: where every part of the gate finds what it works with."""

from collections.abc import Iterable
from pathlib import Path
from typing import Self

from remit.core.call import SessionKey, ToolCall
from remit.core.contents import git_blob
from remit.core.decision import Mode
from remit.core.hooks import Brought
from remit.core.once import Once
from remit.gate import effects
from remit.gate.answer import CannotRecord
from remit.gate.approvals import Approvals
from remit.gate.environment import Environment
from remit.gate.governing import Governing, governing, mark, resume
from remit.gate.intents import Intents
from remit.gate.recorder import Recorder
from remit.gate.snapshot_store import snapshot_store
from remit.gate.state import State
from remit.gate.state_file import StateError
from remit.gate.trusting import notice_once, untrusted
from remit.gate.user_hooks import UserHooks
from remit.workspace.contents import ContentStore
from remit.workspace.observe import Observation, Observer, glance, observe
from remit.workspace.place import Workspace, locate
from remit.workspace.registry import register, registered
from remit.workspace.snapshots import Store as SnapshotStore


class Site:
    """The workspace, its state, its log and its contents. Each is opened when it is first needed."""

    kept_open = False
    """Whether this gate serves more calls than one: then it remembers by itself what it just answered."""

    def __init__(self, workspace: Workspace | None, environment: Environment) -> None:
        self.found = workspace
        self.environment = environment
        self.rules: Governing | None = None
        """What governed when that was last asked."""
        self.observer: Observer | None = None
        """Who knows what changed since the last look, in a process that watches."""
        self.noticed: Governing | None = None
        """The rules that were looked at last for changes: what governs is read anew only when a file of it changed."""

    @classmethod
    def open(cls, path: Path | str, environment: Environment | None = None) -> Self:
        """The one of the workspace that holds `path`, which need not exist."""
        return cls(locate(Path(path)), environment or Environment.here())

    @property
    def governed(self) -> bool:
        """Whether there is anything to enforce or to record here."""
        if self.found is None:
            return False
        return self.found.governed or self.restored_by_registry(self.found)

    def restored_by_registry(self, workspace: Workspace) -> bool:
        """Whether it was governed until somebody deleted Remit's state: then it is again, and that is recorded."""
        if not registered(self.environment.home, workspace):
            return False
        resume(workspace)
        self.recorder.append_or_spool([self.recorder.recovery({"reason": "state_removed"})])
        return True

    @property
    def workspace(self) -> Workspace:
        """The workspace; only for a gate that has one."""
        if self.found is None:
            raise LookupError(
                "there is no workspace here: run this in a git repository, or `remit init` in a folder without git"
            )
        return self.found

    def current(self) -> bool:
        """Whether a gate that was kept open still holds what is on disk: its state may have been replaced."""
        try:
            return self.state.current()
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

    @Once
    def state(self) -> State:
        """The state database. Raises StateError; also what keeps a repair from being recorded."""
        state = State(self.workspace.state / "state.db", self.workspace.root)
        if state.aside is not None:
            repair = {"reason": "state_damaged", "moved_to": state.aside.name}
            self.recorder.append_or_spool([self.recorder.recovery(repair)])
        return state

    @property
    def news(self) -> str:
        """What has to be said about the state, once it was opened."""
        state = self.__dict__.get("state")
        if not isinstance(state, State) or state.aside is None:
            return ""
        return (
            f"Remit's state was damaged and begins anew; the old file is {state.aside.name}. "
            "No record is lost, but select your intent again."
        )

    @Once
    def recorder(self) -> Recorder:
        """Who writes the records."""
        return Recorder(self.workspace, self.environment)

    @Once
    def store(self) -> ContentStore:
        """Where contents are kept. Raises OSError where this machine has no name."""
        return ContentStore(self.workspace, self.recorder.machine)

    @Once
    def snapshots(self) -> SnapshotStore:
        """Where states of the working tree are kept. Raises OSError where this machine has no name."""
        return snapshot_store(self.workspace, self.recorder, stays=self.kept_open)

    @property
    def governing(self) -> Governing:
        """What governs at this moment."""
        self.rules = governing(self.workspace)
        self.recorder.patterns = self.rules.config.redact.patterns
        return self.rules

    @property
    def intents(self) -> Intents:
        """Intents: list, select, clear, complete, make, edit."""
        return Intents(self.workspace, self.state, self.recorder)

    @Once
    def approvals(self) -> Approvals:
        """Questions to a person, and the yeses given so far."""
        return Approvals(self.state, self.environment.clock)

    @Once
    def hooks(self) -> UserHooks:
        """The checks that were registered with this gate."""
        return UserHooks()

    @property
    def untrusted(self) -> tuple[Brought, ...]:
        """What the repository would have Remit run, and no person on this machine trusts. Raises OSError, GitError."""
        return untrusted(self.governing, self.recorder)

    def untrusted_notice(self, session: SessionKey) -> str:
        """The notice of that for a session, once; by the rules that its call was just judged by. In observe it goes to
        the person alone, at the turn's end.
        """
        rules = self.rules or self.governing
        if rules.mode == "observe":
            return ""
        return notice_once(untrusted(rules, self.recorder), self.state, session)

    def observe(self, *, fully: bool = False) -> Observation:
        """The whole workspace; `fully` where nothing that watched may be relied on. Raises GitError."""
        return self.observer.observe(fully=fully) if self.observer else observe(self.workspace)

    def keep(self, contents: Iterable[tuple[str, bytes]]) -> None:
        """Keep the contents of these paths that were not kept before."""
        found = [(git_blob(content), path, content) for path, content in contents]
        fresh = self.state.unkept({name for name, _, _ in found})
        self.store.keep(each for each in found if each[0] in fresh or self.store.holds_apart(each[0]))

    def fold(self) -> None:
        """Take the contents that wait into git. Raises OSError, GitError, StateError."""
        self.store.take_over()
        folded = self.store.fold()
        if folded:
            self.state.put_kept(folded)

    def saw(self, session: SessionKey, paths: Iterable[str]) -> None:
        """This session knows what is in these files now."""
        now = {path: glance(self.workspace.root / path) for path in paths}
        if not now:
            return
        self.keep(effects.keepable(now.items()))
        self.state.put_seen(session, {path: found.version if found else None for path, found in now.items()})

    def inside(self, call: ToolCall) -> list[str]:
        """The call's paths that lie in the workspace."""
        return self.inside_paths(call, call.paths)

    def inside_paths(self, call: ToolCall, raws: Iterable[str]) -> list[str]:
        """These paths, as far as they lie in the workspace."""
        return effects.inside(self.workspace, call, raws, self.environment)

    def notice(self, rules: Governing) -> None:
        """Record that the intents file changed, whoever changed it, and keep the marker for the client true."""
        mark(self.workspace, rules.mode)
        if rules is self.noticed:
            return
        self.intents.notice(rules, by="unknown")
        register(self.environment.home, self.workspace)
        self.noticed = rules

    def mode_now(self) -> Mode:
        """The mode, from the files alone."""
        try:
            return self.governing.mode
        except CannotRecord:
            return "enforce"
