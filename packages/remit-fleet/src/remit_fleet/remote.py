"""Remote by which the hosts of a fleet share a repository: the target, the branches and checkpoints of attempts, the
base of each plan, and the logs with the author of each line.

An attempt's refs have one writer; a present ref is therefore not fetched again. The target only moves forward: after a
rewrite, no ref is moved on either side, and a person is asked.
"""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress

from msgspec.structs import replace

from remit.core.intent import Intent
from remit.gate.context import RECORDING_ERRORS, WorkspaceContext
from remit.gate.intents.intents import Intents
from remit.gate.records.share_logs import fetch_logs, write_log_ref
from remit.workspace import worktrees
from remit.workspace.git.command import TIMEOUT_S, Git, GitError
from remit.workspace.git.repository import BRANCH_FOLDER, BRANCH_PREFIX, prefix_in_repository
from remit.workspace.intents_file.committed import read_committed_intents
from remit.workspace.merging import NO_COMMIT, RefCheckedOut, RefMoved, RemoteRefused, TreeStore
from remit.workspace.place.workspace import Workspace
from remit.workspace.sharing import shared_refs
from remit_fleet.board import SHARED_PREFIX, OpenPlan

FLEET_REF = re.compile(
    rf"(?P<place>{worktrees.WIP_REFS}|{worktrees.ARTIFACT_REFS}|{worktrees.HANDED_IN_REFS}|{BRANCH_PREFIX}{BRANCH_FOLDER})/(?P<attempt>{worktrees.ATTEMPT_NAME.pattern})"
    rf"(?:-landing)?|{worktrees.PLAN_REFS}(?P<plan>[0-9]{{8}}-[0-9]{{6}}-[A-Za-z0-9]{{1,20}})"
)
"""The refs of plans and attempts: the target `remit/next`, and what else somebody put there, is none of them."""

MAX_DELETED_REFS = 100  # of one push
REMOTE_REFS = "refs/remit/remotes/"
RETENTION_S = 14 * 24 * 3600.0
"""How long refs are kept that nobody needs for merging any more."""

SHARING_ERRORS = (
    shared_refs.RemoteAway,
    RemoteRefused,
    RefMoved,
    shared_refs.SharedLogDiffers,
    shared_refs.NotesBusy,
    *RECORDING_ERRORS,
)
"""Errors of sharing that lose nothing: the next exchange brings what this one did not."""


class TargetRewritten(RuntimeError):
    """Error for a target that was moved back, or to a different history, on the remote."""

    def __init__(self, remote: str, target: str, ours: str, theirs: str) -> None:
        super().__init__(
            f"{target!r} was rewritten on {remote!r}: {theirs[:12]} does not hold what is here, {ours[:12]}; nothing "
            f"was moved. Compare them with `git log {theirs[:12]}...{ours[:12]}`. To take theirs, run "
            f"`git update-ref {BRANCH_PREFIX}{target} {theirs[:12]}`; to put ours back, "
            f"`git push --force-with-lease={target}:{theirs[:12]} {remote} {ours[:12]}:{BRANCH_PREFIX}{target}`; "
            "then `remit plan land`"
        )


class IntentDiffers(RuntimeError):
    """Error for an intent whose scope on this host differs from the plan's."""

    def __init__(self, intent: str) -> None:
        super().__init__(
            f"the scope of {intent} on this host is not the plan's; pull, or commit and push, "
            "until both hosts have the same"
        )


def name_shared(workspace: Workspace) -> str:
    """Return the repository name shared by every clone, derived from the first commit. Raises GitError."""
    roots = Git(workspace.root).text("rev-list", "--max-parents=0", "HEAD").split()
    return f"{SHARED_PREFIX}{roots[-1][:16]}"


def read_intents_of(context: WorkspaceContext, commit: str) -> dict[str, Intent]:
    if not commit:
        return {}
    return read_committed_intents(Git(context.workspace.root), commit, prefix_in_repository(context.workspace))


def find_uncommitted_intents(context: WorkspaceContext, commit: str, names: Iterable[str]) -> list[str]:
    """Return the intents whose local scope is missing or different in a commit."""
    committed, intents = read_intents_of(context, commit), Intents(context)
    here = {name: intents.get(name).owned_scope for name in names}
    return [name for name in here if name not in committed or committed[name].owned_scope != here[name]]


class FleetRemote:
    """Remote of one clone, each exchange within `limit_s`. Methods raise RemoteAway, GitError."""

    def __init__(self, context: WorkspaceContext, remote: str, limit_s: float = TIMEOUT_S) -> None:
        self.context = context
        self.remote = remote
        self.store = TreeStore(context.workspace, limit_s)
        self.refs = shared_refs.SharedRefs(context.workspace, limit_s)

    # Taking in

    def list_refs(self, *names: str) -> dict[str, str]:
        try:
            return self.refs.list_remote_refs(self.remote, *names)
        except GitError as error:
            raise shared_refs.RemoteAway(self.remote, error) from error

    def fetch(self, *names: str) -> dict[str, str]:
        """Fetch missing refs, by name or pattern; return the remote's matching refs."""
        listed = self.list_refs(*names)
        missing = {name: name for name in listed if self.store.find_commit(name) is None}
        self.fetch_into(missing)
        return listed

    def fetch_into(self, places: Mapping[str, str]) -> None:
        if not places:
            return
        specs = (f"{name}:{place}" for name, place in places.items())
        try:
            self.refs.run_over_network("fetch", *shared_refs.FETCH_OPTIONS, "--", self.remote, *specs)
        except GitError as error:
            raise shared_refs.RemoteAway(self.remote, error) from error

    def fetch_objects(self, names: Iterable[str]) -> None:
        """Fetch the commits of refs, without a ref here."""
        wanted = tuple(names)
        try:
            if wanted:
                self.refs.run_over_network("fetch", *shared_refs.FETCH_OPTIONS, "--", self.remote, *wanted)
        except GitError as error:
            raise shared_refs.RemoteAway(self.remote, error) from error

    def fetch_fleet(self, target: str) -> None:
        """Fetch all that tells of the fleet's plans and attempts: for a host whose database is lost. Raises
        TargetRewritten.
        """
        there = self.list_refs(
            f"{worktrees.PLAN_REFS}*",
            f"{worktrees.WIP_REFS}/*",
            f"{worktrees.ARTIFACT_REFS}/*",
            f"{BRANCH_PREFIX}{BRANCH_FOLDER}/*",
        )
        here = {ref: self.store.find_commit(ref) for ref in there if FLEET_REF.fullmatch(ref)}
        self.fetch_into({f"+{ref}": ref for ref, commit in here.items() if commit is None})
        for ref in (ref for ref, commit in here.items() if commit is None and ref.startswith(BRANCH_PREFIX)):
            intent, _, number = ref.removeprefix(f"{BRANCH_PREFIX}{BRANCH_FOLDER}/").partition("/")
            worktrees.mark_handed_in(self.store, intent, int(number))  # a host pushes a branch only as it hands it in
        self.follow_target(target)
        self.fetch_logs()

    def follow_target(self, target: str) -> tuple[str | None, str]:
        """Move the local target forward to the remote's. Return the tip to build on, and the remote's tip, NO_COMMIT if
        missing. Raises TargetRewritten.
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
        """Fetch missing branches of handed-in attempts, and the logs about their lines."""
        wanted = [ref for ref in (f"{BRANCH_PREFIX}remit/{name}" for name in names) if not self.store.find_commit(ref)]
        if wanted:
            self.fetch(*wanted)
            self.fetch_logs()

    def fetch_logs(self) -> None:
        try:
            fetch_logs(self.context.recorder, self.remote)
        except GitError as error:
            raise shared_refs.RemoteAway(self.remote, error) from error

    def fetch_artifacts(self, intent: str) -> set[str]:
        """Fetch what attempts at an intent left; return the refs that only this host has."""
        pattern = f"{worktrees.ARTIFACT_REFS}/{intent}/*"
        there = self.list_refs(pattern)
        self.fetch_into({f"+{ref}": ref for ref, commit in there.items() if self.store.find_commit(ref) != commit})
        here = self.store.git.text("for-each-ref", "--format=%(refname)", pattern).splitlines()
        return {ref for ref in here if ref not in there}

    def fetch_plan(self, plan: OpenPlan, intent: str) -> str:
        """Fetch a plan's base, the target and the earlier attempts at an intent; return the commit to start from.
        Raises TargetRewritten.
        """
        first = f"{worktrees.PLAN_REFS}{plan.id}"
        self.fetch(first, f"{worktrees.WIP_REFS}/{intent}/*", f"{BRANCH_PREFIX}remit/{intent}/*")
        tip, _ = self.follow_target(plan.target)
        found = tip or self.store.find_commit(first) or self.store.find_commit("HEAD")
        if found is None:
            raise GitError(("fetch", self.remote), None, f"{self.remote!r} has neither {plan.target} nor {first}")
        return found

    def find_local_start(self, plan: OpenPlan, head: str, needs: Iterable[str], last: str) -> str | None:
        """Return the commit to start an attempt from without the remote: the target's tip here, or the plan's base, if
        the stages' work so far, the landings it needs and the work of the `last` attempt are here. Raises GitError.
        """
        find = self.store.find_commit
        base = find(f"{worktrees.PLAN_REFS}{plan.id}") or find(plan.base or "HEAD")
        tip = find(f"{BRANCH_PREFIX}{plan.target}") or base
        work = (f"{BRANCH_PREFIX}remit/{last}", f"{worktrees.WIP_REFS}/{last}") if last else ()
        if tip is None or (head and find(head) is None) or (work and not any(map(find, work))):
            return None
        return tip if all(find(need) and self.refs.is_ancestor(need, tip) for need in needs) else None

    def take_in_intent_of(self, plan: OpenPlan, intent: str) -> None:
        """Add an intent of a plan's base to the local intents file. Raises IntentDiffers."""
        base = self.store.find_commit(f"{worktrees.PLAN_REFS}{plan.id}")
        if base is not None:
            self.take_in_intent(base, intent)

    def take_in_intent(self, commit: str, name: str) -> None:
        """Add an intent of a commit to the local intents file, because local agents are governed by the file."""
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
        """Publish the plan's base commit, or the tag on it, to the hosts: its intents, and its files before the first
        landing. Raises RemoteRefused, RefMoved.
        """
        self.push_once(f"{worktrees.PLAN_REFS}{plan}", commit)

    def push_once(self, ref: str, commit: str) -> None:
        there = self.store.read_remote_ref(self.remote, ref)
        if there != commit:
            self.store.push_ref(self.remote, ref, commit, there)

    def push_attempt(self, name: str, commit: str = "") -> None:
        """Push an attempt's branch, at this commit if one is named, and the log with the authors of its lines."""
        ref = f"{BRANCH_PREFIX}remit/{name}"
        if head := commit or self.store.find_commit(ref):
            self.push_once(ref, head)
        self.share_log()

    def push_checkpoint(self, name: str) -> None:
        ref = f"{worktrees.WIP_REFS}/{name}"
        if (commit := self.store.find_commit(ref)) is not None:
            self.push_once(ref, commit)

    def push_artifacts(self, refs: Iterable[str], since: float) -> None:
        """Push artefacts written here, and those newer than `since` that the remote lacks. Raises RemoteRefused."""
        there = self.list_refs(f"{worktrees.ARTIFACT_REFS}/*")
        form = "--format=%(refname) %(committerdate:unix)"
        listed = self.store.git.text("for-each-ref", form, worktrees.ARTIFACT_REFS)
        missed = (ref for ref, _, at in (line.partition(" ") for line in listed.splitlines()) if float(at) >= since)
        wanted = dict.fromkeys((*refs, *(ref for ref in missed if ref not in there)))
        if not wanted:
            return
        try:
            # By force: an artefact has one writer, and no history.
            specs = (f"+{ref}:{ref}" for ref in wanted)
            self.refs.run_over_network("push", *shared_refs.PUSH_OPTIONS, "--", self.remote, *specs)
        except GitError as error:
            raise RemoteRefused(self.remote, worktrees.ARTIFACT_REFS, error) from error

    def delete_refs(self, refs: Mapping[str, str]) -> dict[str, str]:
        """Delete refs that are still at these commits; return those that the remote did not delete."""
        left, names = dict(refs), list(refs)
        for start in range(0, len(names), MAX_DELETED_REFS):
            batch = names[start : start + MAX_DELETED_REFS]
            leases = (f"--force-with-lease={name}:{refs[name]}" for name in batch)
            with suppress(GitError):  # the remote tells what became of it
                words = ("push", *shared_refs.PUSH_OPTIONS, *leases, "--", self.remote, *(f":{name}" for name in batch))
                self.refs.run_over_network(*words)
        there = self.list_refs(*left)
        return {name: commit for name, commit in there.items() if name in left}

    def share_log(self) -> None:
        """Push this machine's log, and the notes of commits, as far as the settings allow."""
        share = self.context.rules.config.share
        if share.log == "ref":
            written = write_log_ref(self.context.recorder)
            self.push_once(written.ref, written.tip)
        if share.notes:
            shared_refs.NotesRef(self.context.workspace).sync_remote(self.remote, push=True)
