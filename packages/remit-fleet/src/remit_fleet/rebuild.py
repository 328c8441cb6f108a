"""Rebuilding of the board from files: intents, records of plans, attempts' branches and artefacts, and landed intents.

The fleet database may be deleted at any time. Running tasks are tried again; what was handed in on this host lands.
"""

import re
import socket
from collections import defaultdict
from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import replace

from remit.gate.context import WorkspaceContext
from remit.gate.intents.intents import record_body
from remit.workspace.git.repository import BRANCH_FOLDER, BRANCH_PREFIX
from remit.workspace.merging import TreeStore
from remit.workspace.worktrees import HANDED_IN_REFS
from remit_fleet.artifacts import Artifacts, AttemptFacts
from remit_fleet.board import Attempt, AttemptEnd, AttemptState, FleetRepository, Hold, OpenPlan, Role, Task
from remit_fleet.database.rows import DatabaseRows, is_key, take_token
from remit_fleet.database.store import attempts, repositories, row_of
from remit_fleet.engines.dbos import DbosEngine
from remit_fleet.landing.land import read_landed_attempts
from remit_fleet.landing.undo import find_landings
from remit_fleet.moves import store_task
from remit_fleet.states import HANDED_IN, WAITING, ask_to_land, rebuild_task

MAX_LANDINGS = 100_000
MAX_TOKEN = 2**31 - 1
ATTEMPT_REFS = (f"{BRANCH_PREFIX}{BRANCH_FOLDER}", HANDED_IN_REFS)
ATTEMPT_REF = re.compile(rf"({'|'.join(ATTEMPT_REFS)})/([A-Z]{{2,8}}-\d+)/(\d+)")


class FoundBranch(Struct, frozen=True):
    """Branch of an attempt: its newest commit, and the time of it."""

    attempt: int
    head: str
    at: float


class FoundAttempt(Struct, frozen=True):
    """Branch of an intent's decisive attempt: the newest handed-in attempt without a landing, or the `newest` attempt
    without any. `has_work`: the branch holds work without a landing; `is_marked`: the attempt was handed in on this
    host, and no person has taken the task over or stopped the task.
    """

    intent: str
    attempt: int
    head: str
    has_work: bool
    is_marked: bool
    at: float
    newest: FoundBranch

    def must_go_on(self, facts: AttemptFacts | None) -> bool:
        is_told = facts is not None and (
            facts.attempt.ended_as is not AttemptEnd.HANDED_IN or facts.host != socket.gethostname()
        )
        return self.has_work and (is_told or self.is_marked)


def find_attempts(store: TreeStore, target: str) -> dict[str, FoundAttempt]:
    """Return for each intent the attempt with a branch in git that counts. Raises GitError."""
    tip = store.find_commit(f"refs/heads/{target}") or store.find_commit("HEAD")
    landed = read_landed_attempts(store, tip)[1] if tip else {}
    branches: defaultdict[str, list[FoundBranch]] = defaultdict(list)
    marked: set[tuple[str, str]] = set()
    listed = store.git.text("for-each-ref", "--format=%(refname) %(objectname) %(committerdate:unix)", *ATTEMPT_REFS)
    for line in listed.splitlines():
        name, head, at = line.split(" ")
        match = ATTEMPT_REF.fullmatch(name)
        if match is not None and match[1] == HANDED_IN_REFS:
            marked.add((match[2], head))
        elif match is not None:
            branches[match[2]].append(FoundBranch(int(match[3]), head, float(at or 0)))
    found: dict[str, FoundAttempt] = {}

    def has_work(branch: FoundBranch) -> bool:
        # An attempt of a review stage has a branch too, without a commit of its own.
        return tip is not None and store.find_merge_base(tip, branch.head) != branch.head

    for intent, known in branches.items():
        known.sort(key=lambda branch: branch.attempt)
        handed_in = [one for one in known if (intent, one.head) in marked and f"{intent}/{one.attempt}" not in landed]
        newest = known[-1]
        one = next(filter(has_work, reversed(handed_in)), newest)
        is_marked = (intent, one.head) in marked
        found[intent] = FoundAttempt(intent, one.attempt, one.head, has_work(one), is_marked, one.at, newest)
    return found


def find_landed(context: WorkspaceContext, target: str) -> dict[str, str]:
    """Return the commit of each intent landed on the target, by the target's commits, and for older ones the ledger."""
    store = TreeStore(context.workspace)
    tip = store.find_commit(f"refs/heads/{target}")
    landed = find_landings(store, tip) if tip else {}
    with context.index() as index:
        for document in index.find(event="task_landed", limit=MAX_LANDINGS):
            body = record_body(document)
            intent = body.get("intent_id")
            if body.get("target") == target and isinstance(intent, str):
                landed.setdefault(intent, str(body.get("commit", "")))
    return landed


def list_facts(context: WorkspaceContext) -> dict[str, list[AttemptFacts]]:
    """Return for each intent what artefacts say of its attempts, in order."""
    found: dict[str, list[AttemptFacts]] = {}
    for facts in Artifacts(context).read_facts():
        if facts.attempt.token <= MAX_TOKEN:
            found.setdefault(facts.attempt.intent, []).append(facts)
    return found


def rebuild_plan(
    engine: DbosEngine,
    context: WorkspaceContext,
    repository: FleetRepository,
    plan: OpenPlan,
    tasks: Sequence[Task],
    roles: Mapping[str, Role],
) -> list[Task]:
    """Open a plan with states derived from files, and return its tasks. Raises ValueError if a task is already open."""
    store = TreeStore(context.workspace)
    known, landed, facts = find_attempts(store, plan.target), find_landed(context, plan.target), list_facts(context)
    engine.add_repository(repository)
    engine.open_plan(plan, tasks, roles, is_rebuilt=True)
    rebuilt: list[Task] = []
    for task in tasks:
        found, attempts_known = known.get(task.intent), facts.get(task.intent, [])
        number = found.attempt if found else 0
        last = next((each for each in attempts_known if each.attempt.attempt == number), None)
        is_handed_in = found is not None and found.must_go_on(last) and task.intent not in landed
        after = rebuild_task(task, landed.get(task.intent, ""), is_handed_in)
        numbers = [each.attempt.attempt for each in attempts_known] + ([found.newest.attempt] if found else [])
        with engine.change(repository.id) as rows:
            if found is not None:
                after = resume_stages(after, roles.get(task.role) or Role(task.role), found, last)
            after = replace(after, attempts=max(numbers, default=0))
            restore_told_attempts(rows.connection, after, attempts_known)
            if found is not None:
                restore_attempt(rows, after, found)
            after = ask_to_land(after) if plan.limits.lands_by_hand else after
            store_task(rows, after)
        rebuilt.append(after)
    return rebuilt


def resume_stages(task: Task, role: Role, found: FoundAttempt, facts: AttemptFacts | None) -> Task:
    """Return a task with unlanded work at the stage after the last known one: the one that its artefact names, else the
    builder's, because branches do not tell which stages made them.
    """
    if task.state is not HANDED_IN:
        return task
    if facts is None or facts.stage >= len(role.stages):
        stage = role.builder_stage + 1
    elif facts.attempt.ended_as is AttemptEnd.HANDED_IN:
        stage = facts.stage + 1
    elif facts.attempt.ended_as is AttemptEnd.SENT_BACK:
        stage = role.builder_stage
    elif facts.stage == 0:
        return replace(task, state=WAITING)  # the next attempt begins with what this one left
    else:
        return replace(task, state=WAITING, stage=facts.stage, head=facts.attempt.base)
    if stage >= len(role.stages):
        return replace(task, stage=len(role.chain))
    return replace(task, state=WAITING, stage=stage, head=found.head)


def describe_unknown(tasks: Sequence[Task], roles: Mapping[str, Role], facts: Mapping[str, object]) -> list[str]:
    """Return what the files do not tell about rebuilt tasks."""
    unknown = ["not known: orders, messages, budgets spent, and what a person dropped, paused or had taken over"]
    for task in tasks:
        role = roles.get(task.role) or Role(task.role)
        if task.stage and role.chain and task.intent not in facts:
            where = role.stages[task.stage]
            unknown.append(f"not known: which stages {task.intent} had passed; it goes on with the {where}")
    return unknown


def restore_told_attempts(connection: sa.Connection, task: Task, told: Sequence[AttemptFacts]) -> None:
    for facts in told:
        one = facts.attempt
        id = f"{task.repository}:{task.intent}:{one.attempt}:told"
        ended_at = one.ended_at or one.started_at
        row = replace(one, repository=task.repository, state=AttemptState.ENDED, workflow_id=id, ended_at=ended_at)
        connection.execute(sa.insert(attempts).values(**row_of(row, attempts), plan=task.plan))
    highest = max((facts.attempt.token for facts in told), default=0)
    this = sa.and_(repositories.c.id == task.repository, repositories.c.token_last < highest)
    connection.execute(sa.update(repositories).where(this).values(token_last=highest))


def restore_attempt(rows: DatabaseRows, task: Task, found: FoundAttempt) -> None:
    """Write the row of an attempt found in git, unless it is there, to give the next attempt a higher number, and its
    hold.
    """
    connection = rows.connection
    token = take_token(connection, task.repository)
    if task.state is HANDED_IN:
        hold = Hold(task.repository, task.intent, found.attempt, token, task.scope, task.scope_sha256)
        rows.holds[hold.key] = hold
    ended_as = AttemptEnd.HANDED_IN if found.has_work and found.is_marked else AttemptEnd.LOST
    restore_row(connection, task, FoundBranch(found.attempt, found.head, found.at), token, ended_as)
    if found.newest.attempt != found.attempt:  # the next attempt begins with what it left
        restore_row(connection, task, found.newest, take_token(connection, task.repository), AttemptEnd.LOST)


def restore_row(connection: sa.Connection, task: Task, branch: FoundBranch, token: int, ended_as: AttemptEnd) -> None:
    this = (*is_key(attempts, task.key), attempts.c.attempt == branch.attempt)
    if connection.execute(sa.update(attempts).where(*this).values(token=token, head=branch.head)).rowcount:
        return
    attempt = Attempt(
        *(task.repository, task.intent, branch.attempt, token),
        workflow_id=f"{task.repository}:{task.intent}:{branch.attempt}:rebuilt",
        branch=f"remit/{task.intent}/{branch.attempt}",
        state=AttemptState.ENDED,
        ended_as=ended_as,
        failure="the fleet database was built anew",
        head=branch.head,
        started_at=branch.at,  # nobody knows when it began: a forecast leaves it out
        ended_at=branch.at,
        last_event_at=branch.at,
    )
    connection.execute(sa.insert(attempts).values(**row_of(attempt, attempts), plan=task.plan))
