"""Rebuilding of the board from files: intents, branches of attempts, and the ledger's landed intents.

The fleet database may be deleted at any time. Running tasks are tried again; what was handed in on this host lands.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from msgspec import Struct
from msgspec.structs import replace

from remit.gate.context import WorkspaceContext
from remit.gate.intents.intents import record_body
from remit.orchestrator.board import Attempt, AttemptEnd, AttemptState, FleetRepository, Hold, OpenPlan, Role, Task
from remit.orchestrator.database.holds import take_token
from remit.orchestrator.database.rows import store_task
from remit.orchestrator.database.store import attempts, holds, row_of
from remit.orchestrator.engines.dbos import DbosEngine
from remit.orchestrator.states import HANDED_IN, WAITING, ask_to_land, rebuild_task
from remit.workspace.merging import TreeStore
from remit.workspace.worktrees import BRANCH_FOLDER, HANDED_IN_REFS

MAX_LANDINGS = 100_000
ATTEMPT_REFS = (f"refs/heads/{BRANCH_FOLDER}", HANDED_IN_REFS)
ATTEMPT_REF = re.compile(rf"({'|'.join(ATTEMPT_REFS)})/([A-Z]{{2,8}}-\d+)/(\d+)")


class FoundAttempt(Struct, frozen=True):
    """Newest branch of an attempt at an intent. `is_handed_in`: it was handed in, and has not landed."""

    intent: str
    attempt: int
    head: str
    is_handed_in: bool


def find_attempts(store: TreeStore, target: str) -> dict[str, FoundAttempt]:
    """Return for each intent its newest attempt with a branch in git. Raises GitError."""
    tip = store.find_commit(f"refs/heads/{target}") or store.find_commit("HEAD")
    heads: defaultdict[str, dict[int, str]] = defaultdict(dict)
    marked: set[tuple[str, str]] = set()
    listed = store.git.text("for-each-ref", "--format=%(refname) %(objectname)", *ATTEMPT_REFS)
    for line in listed.splitlines():
        name, _, head = line.partition(" ")
        match = ATTEMPT_REF.fullmatch(name)
        if match is not None and match[1] == HANDED_IN_REFS:
            marked.add((match[2], head))
        elif match is not None:
            heads[match[2]][int(match[3])] = head
    found: dict[str, FoundAttempt] = {}
    for intent, numbers in heads.items():
        number, head = max(numbers.items())
        # An attempt of a review stage has a branch too, without a commit of its own.
        is_handed_in = (intent, head) in marked and tip is not None and store.find_merge_base(tip, head) != head
        found[intent] = FoundAttempt(intent, number, head, is_handed_in)
    return found


def find_landed(context: WorkspaceContext, target: str) -> dict[str, str]:
    """Return the commit of each intent landed on the target, according to the ledger."""
    landed: dict[str, str] = {}
    with context.index() as index:
        for document in index.find(event="task_landed", limit=MAX_LANDINGS):
            body = record_body(document)
            intent = body.get("intent_id")
            if body.get("target") == target and isinstance(intent, str):
                landed.setdefault(intent, str(body.get("commit", "")))
    return landed


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
    known, landed = find_attempts(store, plan.target), find_landed(context, plan.target)
    engine.add_repository(repository)
    engine.open_plan(plan, tasks, roles)
    rebuilt: list[Task] = []
    for task in tasks:
        found = known.get(task.intent)
        is_handed_in = found is not None and found.is_handed_in and task.intent not in landed
        after = rebuild_task(task, landed.get(task.intent, ""), is_handed_in)
        with engine.store.write() as connection:
            if found is not None:
                role = roles.get(task.role) or Role(task.role)
                after = replace(resume_stages(after, role, found), attempts=found.attempt)
                restore_attempt(connection, after, found)
            after = ask_to_land(after) if plan.limits.lands_by_hand else after
            store_task(engine.store, connection, task, after)
        rebuilt.append(after)
    return rebuilt


def resume_stages(task: Task, role: Role, found: FoundAttempt) -> Task:
    """Return the task at the stage after its builder, because files do not record the finished review stages."""
    stage = role.builder_stage + 1
    if task.state is not HANDED_IN or stage >= len(role.stages):
        return task
    return replace(task, state=WAITING, stage=stage, head=found.head)


def restore_attempt(connection: sa.Connection, task: Task, found: FoundAttempt) -> None:
    """Write the row of an attempt found in git, to give the next attempt a higher number, and its hold."""
    token = take_token(connection, task.repository)
    ended_as = AttemptEnd.HANDED_IN if found.is_handed_in else AttemptEnd.LOST
    attempt = Attempt(
        *(task.repository, task.intent, found.attempt, token),
        workflow_id=f"{task.repository}:{task.intent}:{found.attempt}:rebuilt",
        branch=f"remit/{task.intent}/{found.attempt}",
        state=AttemptState.ENDED,
        ended_as=ended_as,
        failure="the fleet database was built anew",
        head=found.head,
    )
    connection.execute(sa.insert(attempts).values(**row_of(attempt, attempts), plan=task.plan))
    if task.state is HANDED_IN:
        hold = Hold(task.repository, task.intent, found.attempt, token, task.scope, task.scope_sha256)
        connection.execute(sa.insert(holds).values(**row_of(hold, holds)))
