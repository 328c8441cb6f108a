"""Pruning of the fleet's refs, here and on the remote: plans, attempts' branches, marks and checkpoints, artefacts.

A ref goes after the end of the plan or task, once the target holds the ref's content; artefacts go by age. Unmerged
refs stay until a person names them, and checked-out refs stay.
"""

import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from remit.gate.context import WorkspaceContext
from remit.workspace.git.command import GitError
from remit.workspace.git.repository import BRANCH_PREFIX
from remit.workspace.merging import TreeStore
from remit.workspace.sharing.shared_refs import SharedRefs
from remit.workspace.worktrees import ARTIFACT_REFS, BRANCH_FOLDER, HANDED_IN_REFS, PLAN_REFS, WIP_REFS
from remit_fleet.board import Board
from remit_fleet.landing.land import ATTEMPT_TRAILER, LANDER
from remit_fleet.remote import FLEET_REF, RETENTION_S, SHARING_ERRORS, FleetRemote
from remit_fleet.states import FINAL_STATES

ATTEMPT_BRANCHES = f"{BRANCH_PREFIX}{BRANCH_FOLDER}"
PRUNED_PLACES = (
    *(f"{PLAN_REFS}*", f"{WIP_REFS}/*", f"{ARTIFACT_REFS}/*"),
    *(f"{HANDED_IN_REFS}/*", f"{ATTEMPT_BRANCHES}/*"),
)
PLAN_TIME = "%Y%m%d-%H%M%S"
MAX_SEARCHED_COMMITS = 5000
PRUNING_INTERVAL_S = 24 * 3600.0


class FleetRef(Struct, frozen=True):
    """A ref of the fleet, here or on the remote; `why` it goes or stays."""

    ref: str
    commit: str
    is_remote: bool
    why: str = ""


class RefPruning(Struct, frozen=True):
    """The refs that go, those that stay, and those of a pruning that the remote did not delete."""

    gone: tuple[FleetRef, ...] = ()
    kept: tuple[FleetRef, ...] = ()
    refused: tuple[str, ...] = ()


class FleetTasks(Struct, frozen=True):
    """What the board knows of a repository: the intents and plans that are open, those that are over, and targets."""

    open_intents: frozenset[str]
    open_plans: frozenset[str]
    ended_intents: frozenset[str]
    ended_plans: frozenset[str]
    targets: frozenset[str]


def describe_tasks(board: Board, repository: str, target: str) -> FleetTasks:
    tasks = [task for task in board.tasks.values() if task.repository == repository]
    running = [task for task in tasks if task.state not in FINAL_STATES]
    plans = {plan.id: plan.target for plan in board.plans.values() if plan.repository == repository}
    open_intents, open_plans = {task.intent for task in running}, {task.plan for task in running}
    return FleetTasks(
        frozenset(open_intents),
        frozenset(open_plans),
        frozenset({task.intent for task in tasks} - open_intents),
        frozenset(plans.keys() - open_plans),
        frozenset({target, *plans.values()}),
    )


def prune_when_due(context: WorkspaceContext, board: Board, repository: str, stamp: Path) -> int:
    """Delete old refs once a day, as a worker does, and return how many. Errors leave them to the next time."""
    with suppress(FileNotFoundError):
        if context.environment.clock.now() - stamp.stat().st_mtime < PRUNING_INTERVAL_S:
            return 0
    with suppress(*SHARING_ERRORS):
        tasks = describe_tasks(board, repository, context.rules.config.orchestrator.target)
        pruner = RefPruner(context, tasks, must_be_old=True)
        done = pruner.carry_out(pruner.plan())
        stamp.touch()
        return len(done.gone)
    return 0


class RefPruner:
    """Pruning in one clone and on its remote. Methods raise RemoteAway, GitError."""

    def __init__(
        self,
        context: WorkspaceContext,
        tasks: FleetTasks,
        retention_s: float = RETENTION_S,
        *,
        must_be_old: bool = False,
    ) -> None:
        self.tasks = tasks
        self.must_be_old = must_be_old
        self.before = context.environment.clock.now() - retention_s
        self.store = TreeStore(context.workspace)
        self.refs = SharedRefs(context.workspace)
        remote = context.rules.config.orchestrator.remote
        self.remote = FleetRemote(context, remote) if remote else None

    def plan(self, names: Collection[str] = ()) -> RefPruning:
        """Return what goes and what stays; `names` are intents, attempts or plans that go though they never landed."""
        targets = [f"{BRANCH_PREFIX}{target}" for target in sorted(self.tasks.targets)]
        there = self.remote.list_refs(*PRUNED_PLACES, *targets) if self.remote else {}
        form = "--format=%(refname) %(objectname)"
        listed = self.store.git.text("for-each-ref", form, *(place.rstrip("/*") for place in PRUNED_PLACES))
        here = dict(line.split(" ") for line in listed.splitlines())
        if self.remote:
            lacking = [ref for ref, commit in there.items() if self.store.find_commit(commit) is None]
            self.remote.fetch_objects(lacking)
        found = [
            FleetRef(*row, is_remote) for rows, is_remote in ((here, False), (there, True)) for row in rows.items()
        ]
        far = [there[ref] for ref in targets if ref in there]
        near = map(self.store.find_commit, (*targets, *self.find_own_branch()))
        # What only this clone has merged is no reason to delete it on the remote.
        is_merged_there, is_merged_here = self.make_test(far), self.make_test([*far, *filter(None, near)])
        gone: list[FleetRef] = []
        kept: list[FleetRef] = []
        for one in (one for one in found if FLEET_REF.fullmatch(one.ref)):
            try:
                goes, why = self.judge(one, names, is_merged_there if one.is_remote else is_merged_here)
            except GitError as error:
                goes, why = False, f"git cannot read it: {error}"
            (gone if goes else kept).append(replace(one, why=why))
        return RefPruning(tuple(gone), tuple(kept))

    def find_own_branch(self) -> tuple[str, ...]:
        """Return the person's branch that is checked out here; none while it is an attempt's, or a bare commit."""
        branch = self.store.git.text("symbolic-ref", "--quiet", "HEAD", ok=(0, 1))
        return () if not branch or FLEET_REF.fullmatch(branch) else (branch,)

    def judge(self, one: FleetRef, names: Collection[str], is_merged: Callable[[str, str], bool]) -> tuple[bool, str]:
        """Return whether a ref goes, and why."""
        named = FLEET_REF.fullmatch(one.ref)
        assert named is not None, one.ref
        plan, attempt = named["plan"] or "", named["attempt"] or ""
        intent = attempt.partition("/")[0]
        if intent in self.tasks.open_intents or plan in self.tasks.open_plans:
            return False, f"{'its task' if intent else 'its plan'} is not over"
        if not one.is_remote and one.ref.startswith(BRANCH_PREFIX) and (place := self.store.find_checkout(one.ref)):
            return False, f"checked out in {place}"
        if {plan, attempt, intent} - {""} & set(names):
            return True, "named"
        is_old = self.is_old(one, plan)
        if named["place"] == ARTIFACT_REFS:
            return is_old, "old" if is_old else "not old yet"
        is_over = intent in self.tasks.ended_intents or plan in self.tasks.ended_plans
        if not is_old and (self.must_be_old or not is_over):
            return False, "not old yet" if is_over else "this fleet knows no such task or plan, and it is not old yet"
        merged = is_merged(attempt, one.commit)
        return merged, "merged" if merged else f"never merged: `remit fleet prune {attempt or plan}` deletes it"

    def is_old(self, one: FleetRef, plan: str) -> bool:
        if plan:  # whose commit is older than the plan
            with suppress(ValueError, OverflowError):
                return time.mktime(time.strptime(plan.rpartition("-")[0], PLAN_TIME)) < self.before
            return False
        at = self.store.git.text("show", "--no-patch", "--format=%ct", f"{one.commit}^{{commit}}")
        return float(at) < self.before

    def make_test(self, tips: Iterable[str]) -> Callable[[str, str], bool]:
        known = list(dict.fromkeys(tips))
        words = ("log", "--first-parent", f"--max-count={MAX_SEARCHED_COMMITS}", f"--committer={LANDER[1]}")
        form = f"--format=%(trailers:key={ATTEMPT_TRAILER},valueonly,separator=%x20)"
        landed = {name for tip in known for name in self.store.git.text(*words, form, tip).split()}

        def is_merged(attempt: str, commit: str) -> bool:
            if attempt in landed or any(self.refs.is_ancestor(commit, tip) for tip in known):
                return True
            for tip in known:
                if self.store.find_merge_base(tip, commit) is not None:
                    merged = self.store.merge(tip, commit)
                    if not merged.conflicts and merged.tree == self.store.read_tree_name(tip):
                        return True
            return False

        return is_merged

    def carry_out(self, planned: RefPruning) -> RefPruning:
        """Delete the refs that go, each only if it is where it was."""
        here = [one for one in planned.gone if not one.is_remote]
        there = {one.ref: one.commit for one in planned.gone if one.is_remote}
        lines = "".join(f"delete {one.ref} {one.commit}\n" for one in here)
        self.store.git.run("update-ref", "--stdin", stdin=lines.encode())
        refused = self.remote.delete_refs(there) if self.remote and there else ()
        left = tuple(one for one in planned.gone if not (one.is_remote and one.ref in refused))
        return RefPruning(left, planned.kept, tuple(refused))
