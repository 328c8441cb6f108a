"""The remote by which the hosts of a fleet share a repository: the target, the branches and checkpoints of attempts,
the base of each plan, and the logs that tell who wrote a line.

An attempt's refs have one writer, so what is here already is not fetched again. The target moves forward only: where
somebody has rewritten it, nothing is moved on either side, and a person is asked.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress

from msgspec.structs import replace

from remit.core.intent import Intent
from remit.gate.context import RECORDING_ERRORS, WorkspaceContext
from remit.gate.intents.intents import Intents
from remit.gate.log_sharing.share_logs import fetch_logs, write_log_ref
from remit.orchestrator.board import SHARED_PREFIX, OpenPlan
from remit.workspace.git.command import Git, GitError
from remit.workspace.git.repository import BRANCH_PREFIX, prefix_in_repository
from remit.workspace.intents_file.parse import parse_intents
from remit.workspace.merging import NO_COMMIT, RefCheckedOut, RefMoved, RemoteRefused, TreeStore
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER, Workspace
from remit.workspace.sharing.shared_refs import (
    FETCH_OPTIONS,
    NotesBusy,
    NotesRef,
    RemoteAway,
    SharedLogDiffers,
    SharedRefs,
)
from remit.workspace.worktrees import WIP_REFS

PLAN_REFS, REMOTE_REFS = "refs/remit/plans/", "refs/remit/remotes/"
SHARING_ERRORS = (RemoteAway, RemoteRefused, RefMoved, SharedLogDiffers, NotesBusy, *RECORDING_ERRORS)
"""Errors of sharing that lose nothing: the next exchange brings what this one did not."""


class TargetRewritten(RuntimeError):
    """Error for a target that somebody has moved back, or to another history, on the remote."""

    def __init__(self, remote: str, target: str, ours: str, theirs: str) -> None:
        super().__init__(
            f"{target!r} was rewritten on {remote!r}: {theirs[:12]} does not hold what is here, {ours[:12]}; nothing "
            f"was moved. Compare them with `git log {theirs[:12]}...{ours[:12]}`. To take theirs, run "
            f"`git update-ref {BRANCH_PREFIX}{target} {theirs[:12]}`; to put ours back, "
            f"`git push --force-with-lease={target}:{theirs[:12]} {remote} {ours[:12]}:{BRANCH_PREFIX}{target}`; "
            "then `remit plan resume`"
        )


class IntentDiffers(RuntimeError):
    """Error for an intent whose scope on this host is not the plan's."""

    def __init__(self, intent: str) -> None:
        super().__init__(
            f"the scope of {intent} in active_intents.yaml of this host is not the plan's; pull, or commit and push, "
            "until both hosts have the same"
        )


def name_shared(workspace: Workspace) -> str:
    """Return the name of a repository that all its clones give it: by its first commit. Raises GitError."""
    roots = Git(workspace.root).text("rev-list", "--max-parents=0", "HEAD").split()
    return f"{SHARED_PREFIX}{roots[-1][:16]}"


def read_intents_of(context: WorkspaceContext, commit: str) -> dict[str, Intent]:
    path = f"{prefix_in_repository(context.workspace)}{ORCHESTRATION_FOLDER}/active_intents.yaml"
    content = TreeStore(context.workspace).read_files(commit, [path]).get(path) if commit else None
    return {intent.id: intent for intent in parse_intents(content).intents} if content else {}


def find_uncommitted_intents(context: WorkspaceContext, commit: str, names: Iterable[str]) -> list[str]:
    """Return the intents that a commit does not have with the scope that they have here."""
    committed, intents = read_intents_of(context, commit), Intents(context)
    here = {name: intents.get(name).owned_scope for name in names}
    return [name for name in here if name not in committed or committed[name].owned_scope != here[name]]


class FleetRemote:
    """A remote of one clone. Methods raise RemoteAway, GitError."""

    def __init__(self, context: WorkspaceContext, remote: str) -> None:
        self.context = context
        self.remote = remote
        self.store = TreeStore(context.workspace)
        self.refs = SharedRefs(context.workspace)

    # Taking in

    def list_refs(self, *names: str) -> dict[str, str]:
        try:
            return self.refs.list_remote_refs(self.remote, *names)
        except GitError as error:
            raise RemoteAway(self.remote, error) from error

    def fetch(self, *names: str) -> dict[str, str]:
        """Bring refs here that are missing, patterns too; return what the remote has."""
        listed = self.list_refs(*names)
        missing = {name: name for name in listed if self.store.find_commit(name) is None}
        self.fetch_into(missing)
        return listed

    def fetch_into(self, places: Mapping[str, str]) -> None:
        if not places:
            return
        specs = (f"{name}:{place}" for name, place in places.items())
        try:
            self.refs.run_over_network("fetch", *FETCH_OPTIONS, "--", self.remote, *specs)
        except GitError as error:
            raise RemoteAway(self.remote, error) from error

    def follow_target(self, target: str) -> tuple[str | None, str]:
        """Bring the target here forward to the remote's. Return the tip to build on, and the remote's, NO_COMMIT
        without one. Raises TargetRewritten.
        """
        ref = f"{BRANCH_PREFIX}{target}"
        theirs, ours = self.list_refs(ref).get(ref), self.store.find_commit(ref)
        if theirs is None or theirs == ours:
            return ours, theirs or NO_COMMIT
        if self.store.find_commit(theirs) is None:
            self.fetch_into({f"+{ref}": f"{REMOTE_REFS}{self.remote}/{target}"})
        if ours is None or self.refs.is_ancestor(ours, theirs):
            # A person's own branch stays where it is; work begins at the remote's tip.
            with suppress(RefCheckedOut, RefMoved):
                self.store.swap_ref(ref, theirs, ours or NO_COMMIT)
            return theirs, theirs
        if self.refs.is_ancestor(theirs, ours):
            return ours, theirs
        raise TargetRewritten(self.remote, target, ours, theirs)

    def fetch_attempts(self, names: Iterable[str]) -> None:
        """Bring the branches of attempts here that other hosts handed in, and the logs that tell of them."""
        wanted = [ref for ref in (f"{BRANCH_PREFIX}remit/{name}" for name in names) if not self.store.find_commit(ref)]
        if wanted:
            self.fetch(*wanted)
            self.fetch_logs()

    def fetch_logs(self) -> None:
        try:
            fetch_logs(self.context, self.remote)
        except GitError as error:
            raise RemoteAway(self.remote, error) from error

    def take_in_plan(self, plan: OpenPlan, intent: str) -> str:
        """Bring a plan's base, the target, the attempts at an intent so far and the intent itself here; return the
        commit to start from. Raises TargetRewritten, IntentDiffers.
        """
        first = f"{PLAN_REFS}{plan.id}"
        self.fetch(first, f"{WIP_REFS}/{intent}/*", f"{BRANCH_PREFIX}remit/{intent}/*")
        tip, _ = self.follow_target(plan.target)
        base = self.store.find_commit(first)
        if base is not None:
            self.take_in_intent(base, intent)
        found = tip or base or self.store.find_commit("HEAD")
        if found is None:
            raise GitError(("fetch", self.remote), None, f"{self.remote!r} has neither {plan.target} nor {first}")
        return found

    def take_in_intent(self, commit: str, name: str) -> None:
        """Add an intent to the file here as it is in a commit: the agents of this host are judged by the file."""
        intents = Intents(self.context)
        here, there = intents.find_intent(name), read_intents_of(self.context, commit).get(name)
        if there is None:
            return
        if here is None:
            intents.create(replace(there, status="DRAFT"), by="fleet")
        elif here.owned_scope != there.owned_scope:
            raise IntentDiffers(name)

    # Sending

    def publish_plan(self, plan: str, commit: str) -> None:
        """Let other hosts have the commit that a plan begins at: its intents, and its files before the first landing.
        Raises RemoteRefused, RefMoved.
        """
        self.push_once(f"{PLAN_REFS}{plan}", commit)

    def push_once(self, ref: str, commit: str) -> None:
        """Push a ref that only this host writes; it may be there already, older or the same."""
        there = self.store.read_remote_ref(self.remote, ref)
        if there != commit:
            self.store.push_ref(self.remote, ref, commit, there)

    def push_attempt(self, name: str) -> None:
        """Push the branch of an attempt, and the log that tells who wrote its lines."""
        ref = f"{BRANCH_PREFIX}remit/{name}"
        if (head := self.store.find_commit(ref)) is not None:
            self.push_once(ref, head)
        self.share_log()

    def push_checkpoint(self, name: str) -> None:
        ref = f"{WIP_REFS}/{name}"
        if (commit := self.store.find_commit(ref)) is not None:
            self.push_once(ref, commit)

    def share_log(self) -> None:
        """Push this machine's log, and the notes of commits, as far as the settings share them."""
        share = self.context.rules.config.share
        if share.log == "ref":
            written = write_log_ref(self.context)
            self.push_once(written.ref, written.tip)
        if share.notes:
            NotesRef(self.context.workspace).sync_remote(self.remote, push=True)
