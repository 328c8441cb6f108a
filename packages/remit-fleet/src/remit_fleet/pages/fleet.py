"""Fleet: plans of a repository, tasks with what each waits for, attempts, workers, and what happened lately."""

import getpass
import os
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, Literal, cast

from msgspec import Struct

from remit.console.guard import Refused
from remit.console.pages.page import PageRequest
from remit.console.render import parse_seconds
from remit.core.machine_paths import FLEET_PATH
from remit.core.record import KEY
from remit.core.untrusted_input import sanitise_line
from remit.gate.gate import Gate
from remit.ledger.index.index import Index
from remit_fleet import fleet
from remit_fleet.board import Attempt, Board, FleetEvent, Order, OrderKind, PlanUse, Task, Worker
from remit_fleet.forecast import describe_use
from remit_fleet.schedule import explain_waits
from remit_fleet.states import FINAL_STATES, apply_order

if TYPE_CHECKING:
    from remit_fleet.engines.dbos import DbosEngine

DATABASE_VARIABLE = "REMIT_DATABASE"  # as of the commands' option `--database`
NO_PLAN = "No plan was started in this repository. A plan runs several agents, each on an intent of its own."
ORDERS = (OrderKind.PAUSE, OrderKind.RESUME, OrderKind.RETRY, OrderKind.STOP)
MAX_EVENTS, MAX_SELECTIONS, MAX_WORDS_CHARS = 20, 50, 300
SESSION_SLACK_S = 5.0  # the fleet's clock is the database's


class FleetAttempt(Struct, frozen=True):
    """An attempt at a task, with the sessions that had its intent while it ran."""

    attempt: Attempt
    sessions: list[str]


class FleetTask(Struct, frozen=True):
    """A task of a plan. `wait` says what it waits for, or how it ended; `orders` are those that change it now."""

    task: Task
    title: str
    wait: str
    is_over: bool
    orders: list[OrderKind]
    attempts: list[FleetAttempt]


class FleetPlan(Struct, frozen=True):
    """An open plan with its tasks. `use` is what it has used so far, beside its forecast."""

    id: str
    target: str
    by: str
    made_at: float
    is_paused: bool
    tasks: list[FleetTask]
    use: str


class WorkerUse(Struct, frozen=True):
    """A worker that is alive; `used` counts its slots with an attempt."""

    worker: Worker
    used: int


class EventLine(Struct, frozen=True):
    """An event of the fleet's feed, its body in words."""

    seq: int
    at: float
    kind: str
    intent: str
    attempt: int | None
    words: str


class Fleet(Struct, frozen=True):
    """The fleet as of a repository. `problem` says why there is none, and `fix` is the next command. `is_polled` is
    true for a database that does not tell this machine of changes.
    """

    plans: list[FleetPlan] = []
    workers: list[WorkerUse] = []
    events: list[EventLine] = []
    orders: list[OrderKind] = []
    problem: str = ""
    fix: str = ""
    is_polled: bool = False


class OrderBody(Struct, frozen=True, forbid_unknown_fields=True):
    """An order to a task; with an empty intent, to all tasks of the repository."""

    kind: Literal["pause", "resume", "retry", "stop"]
    intent: str = ""


def read_fleet(request: PageRequest) -> Fleet:
    return request.repositories.run_job(request.one_repository, describe_fleet)


def order_task(request: PageRequest, body: OrderBody) -> dict[str, Any]:
    return request.repositories.run_job(request.one_repository, send_order, body.kind, body.intent)


# In a worker


def describe_fleet(gate: Gate) -> Fleet:
    database = os.environ.get(DATABASE_VARIABLE)
    nothing = Fleet(problem=NO_PLAN, fix="remit plan start", is_polled=bool(database))
    if not database and not (gate.environment.home / FLEET_PATH).exists():
        return nothing
    repository = fleet.name_repository_of(gate.workspace)
    try:
        with open_engine(gate) as engine, gate.index() as index:
            board = engine.read_board()
            plans = list_plans(gate, engine, board, index, repository)
            events = engine.read_newest_events(repository, MAX_EVENTS)
    except fleet.FleetUnavailable as error:
        return Fleet(problem=str(error), fix=error.fix, is_polled=True)
    if not plans:
        return nothing
    used = [attempt.worker for attempt in board.attempts.values()]
    workers = [WorkerUse(worker, used.count(worker.id)) for worker in board.workers.values()]
    tasks = [each.task for plan in plans for each in plan.tasks]
    every = [kind for kind in (OrderKind.PAUSE, OrderKind.RESUME) if any(does_change(task, kind, "") for task in tasks)]
    return Fleet(plans, workers, [describe_event(event) for event in events], every, is_polled=bool(database))


@contextmanager
def open_engine(gate: Gate) -> "Generator[DbosEngine]":
    """Open the fleet database of the user, or the one that the variable names. Raises FleetUnavailable."""
    with fleet.report_database_errors():
        engine = fleet.open_fleet(os.environ.get(DATABASE_VARIABLE), gate.environment.home)
        with closing(engine.store):
            yield engine


def list_plans(gate: Gate, engine: "DbosEngine", board: Board, index: Index, repository: str) -> list[FleetPlan]:
    from remit_fleet.database.past import sum_use

    waits, use = explain_waits(board), sum_use(engine.store, repository)
    titles = gate.rules.titles
    plans: list[FleetPlan] = []
    for plan in board.plans.values():
        if plan.repository != repository:
            continue
        tasks: list[FleetTask] = []
        for task in board.tasks.values():
            if task.plan != plan.id:
                continue
            attempts = list_attempts(engine.list_attempts(task.key), index)
            orders = [kind for kind in ORDERS if does_change(task, kind, task.intent)]
            wait, is_over = waits.get(task.key, task.why), task.state in FINAL_STATES
            tasks.append(FleetTask(task, titles.get(task.intent, ""), wait, is_over, orders, attempts))
        used = describe_use(board, plan, use.get(plan.id, PlanUse()))
        plans.append(FleetPlan(plan.id, plan.target, plan.by, plan.made_at, plan.is_paused, tasks, used))
    return sorted(plans, key=lambda plan: plan.made_at, reverse=True)


def does_change(task: Task, kind: OrderKind, intent: str) -> bool:
    return apply_order(task, Order(0, task.repository, kind, intent=intent)).state is not task.state


def list_attempts(attempts: Sequence[Attempt], index: Index) -> list[FleetAttempt]:
    """Return the attempts, the newest first, each with the sessions that selected the intent while it ran."""
    selected: list[tuple[float, str]] = []
    if attempts:
        for document in index.find(event="intent_selected", intent_id=attempts[0].intent, limit=MAX_SELECTIONS):
            body: Mapping[str, Any] = document["metadata"][KEY]
            selected.append((parse_seconds(str(document["timestamp"])), str(body.get("session_id") or "")))
    found: list[FleetAttempt] = []
    for attempt in reversed(attempts):
        first, last = attempt.started_at - SESSION_SLACK_S, (attempt.ended_at or time.time()) + SESSION_SLACK_S
        during = (session for at, session in selected if attempt.started_at and first <= at <= last and session)
        found.append(FleetAttempt(attempt, list(dict.fromkeys((*attempt.sessions, *during)))))
    return found


def describe_event(event: FleetEvent) -> EventLine:
    words = ", ".join(f"{key} {describe_value(value)}" for key, value in event.body.items() if value)
    shown = sanitise_line(words, MAX_WORDS_CHARS)
    return EventLine(event.seq, event.at, str(event.kind), event.intent, event.attempt, shown)


def describe_value(value: object) -> str:
    return " ".join(map(str, cast("list[object]", value))) if isinstance(value, list) else str(value)


def send_order(gate: Gate, kind: str, intent: str) -> dict[str, Any]:
    """Carry out a person's order, as `remit plan` and `remit task` do. Raises Refused."""
    repository = fleet.name_repository_of(gate.workspace)
    person = gate.environment.person
    by = f"{sanitise_line(person.name, 80) if person else getpass.getuser()} in the console"
    try:
        with open_engine(gate) as engine:
            fleet.give_order(engine, repository, OrderKind(kind), intent, by)
    except fleet.UnknownTask as error:
        raise Refused(404, str(error), "load the page again") from None
    except fleet.FleetUnavailable as error:
        raise Refused(503, str(error), error.fix) from None
    return {"kind": kind, "intent": intent}
