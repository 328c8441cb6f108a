"""One workspace and what belongs to it: where every part of the gate finds what it works with."""

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Self

from remit.core.call import SessionKey, ToolCall
from remit.core.contents import git_blob
from remit.core.decision import Mode
from remit.gate import effects
from remit.gate.answer import CannotRecord
from remit.gate.approvals import Approvals
from remit.gate.environment import Environment
from remit.gate.governing import Governing, governing, mark, resume
from remit.gate.intents import Intents
from remit.gate.recorder import Recorder
from remit.gate.state import State, StateError
from remit.gate.user_hooks import UserHooks
from remit.workspace.contents import ContentStore
from remit.workspace.observe import glance
from remit.workspace.place import Workspace, locate
from remit.workspace.registry import register, registered


class Site:
    """The workspace, its state, its log and its contents. Each is opened when it is first needed."""

    def __init__(self, workspace: Workspace | None, environment: Environment) -> None:
        self.found = workspace
        self.environment = environment

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
                "there is no workspace here: run this inside a git repository, or `remit intent new` first"
            )
        return self.found

    def current(self) -> bool:
        """Whether a gate that was kept open still holds what is on disk: its state may have been replaced."""
        try:
            return self.state.current()
        except StateError:
            return False

    @cached_property
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

    @cached_property
    def recorder(self) -> Recorder:
        """Who writes the records."""
        return Recorder(self.workspace, self.environment)

    @cached_property
    def store(self) -> ContentStore:
        """Where contents are kept. Raises OSError where this machine has no name."""
        return ContentStore(self.workspace, self.recorder.machine)

    @property
    def governing(self) -> Governing:
        """What governs at this moment."""
        return governing(self.workspace)

    @property
    def intents(self) -> Intents:
        """Intents: list, select, clear, complete, make, edit."""
        return Intents(self.workspace, self.state, self.recorder)

    @cached_property
    def approvals(self) -> Approvals:
        """Questions to a person, and the yeses given so far."""
        return Approvals(self.state, self.environment.clock)

    @cached_property
    def hooks(self) -> UserHooks:
        """The checks that were registered with this gate."""
        return UserHooks()

    def keep(self, contents: Iterable[bytes]) -> None:
        """Keep contents that were not kept before."""
        named_contents = {git_blob(content): content for content in contents}
        fresh = self.state.unkept(set(named_contents))
        self.store.keep([named_contents[name] for name in fresh])
        if fresh:
            self.state.put_kept(fresh)

    def saw(self, session: SessionKey, paths: Iterable[str]) -> None:
        """This session knows what is in these files now."""
        now = {path: glance(self.workspace.root / path) for path in paths}
        if not now:
            return
        self.keep(found.content for found in now.values() if found and found.content is not None)
        self.state.put_seen(session, {path: found.version if found else None for path, found in now.items()})

    def inside(self, call: ToolCall) -> list[str]:
        """The call's paths that lie in the workspace."""
        return self.inside_paths(call, call.paths)

    def inside_paths(self, call: ToolCall, raws: Iterable[str]) -> list[str]:
        """These paths, as far as they lie in the workspace."""
        return effects.inside(self.workspace, call, raws, self.environment)

    def notice(self, rules: Governing) -> None:
        """Record that the intents file changed, whoever changed it, and keep the marker for the client true."""
        self.intents.notice(rules, by="unknown")
        mark(self.workspace, rules.mode)
        register(self.environment.home, self.workspace)

    def mode_now(self) -> Mode:
        """The mode, from the files alone."""
        try:
            return self.governing.mode
        except CannotRecord:
            return "enforce"
