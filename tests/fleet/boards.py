"""Boards for tests: one repository, one plan, with what a test adds."""

from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from remit_fleet.board import (
    Attempt,
    AttemptState,
    Board,
    FleetRepository,
    Hold,
    OpenPlan,
    Proof,
    ProofAnswer,
    ProofKey,
    Role,
    Task,
    TaskState,
    Worker,
    pair_scopes,
)

REPOSITORY = "r"


def make_task(intent: str, scope: str = "", **fields: Any) -> Task:
    """Return a task of the plan; `scope` lists its paths, one letter each, and is its own hash."""
    scope = scope or intent
    return Task("p", intent, REPOSITORY, scope=tuple(scope), scope_sha256=scope, role="any", **fields)


def hold_task(task: Task, token: int = 1, until: float | None = 60.0) -> Hold:
    return Hold(task.repository, task.intent, 1, token, task.scope, task.scope_sha256, until=until)


def start_attempt(task: Task, worker: str = "w1", token: int = 1, **fields: Any) -> Attempt:
    return Attempt(
        task.repository, task.intent, 1, token, worker=worker, agent="a", state=AttemptState.STARTED, **fields
    )


def make_board(tasks: Iterable[Task], slots: int = 4, **fields: Any) -> Board:
    """Return a board on which the running tasks have holds and attempts, and a worker has slots."""
    known = {task.key: task for task in tasks}
    busy = [task for task in known.values() if task.state in (TaskState.RUNNING, TaskState.HANDED_IN)]
    running = [task for task in busy if task.state is TaskState.RUNNING]
    board = Board(
        now=0.0,
        repositories={REPOSITORY: FleetRepository(REPOSITORY)},
        plans={"p": OpenPlan("p", REPOSITORY, "remit/next")},
        tasks=known,
        holds={task.key: hold_task(task) for task in busy},
        attempts={task.key: start_attempt(task) for task in running},
        workers={"w1": Worker("w1", "h1", slots=slots, agents=("a",))},
        roles={"any": Role("any", ("a",))},
        proofs=prove_scopes(known.values()),
    )
    return replace(board, **fields)


def prove_scopes(tasks: Iterable[Task]) -> dict[ProofKey, Proof]:
    """Return the proofs of all pairs: scopes share the letters that stand in both."""
    proofs: dict[ProofKey, Proof] = {}
    for one in tasks:
        for other in tasks:
            shared = sorted(set(one.scope) & set(other.scope))
            answer = Proof(ProofAnswer.SHARED, shared[0]) if shared else Proof(ProofAnswer.APART)
            proofs[pair_scopes(one.scope_sha256, other.scope_sha256)] = answer
    return proofs
