"""The laws of the board hold on both engines, and whatever is done to both leaves the same board.

Time stands still here: leases and silence are the laws of the simulated world, which the engine in memory runs alone.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from dbos import run_dbos_database_migrations
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet.both_engines import PATIENT
from remit.core.assignment import hash_scope
from remit_fleet.board import (
    AttemptEnd,
    AttemptState,
    FleetRepository,
    LandingState,
    OpenPlan,
    Order,
    OrderKind,
    ProofAnswer,
    Role,
    Task,
    TaskState,
    Worker,
)
from remit_fleet.conflict import ConflictKind, Evidence, Party
from remit_fleet.database.rows import prove_scopes
from remit_fleet.database.store import open_store
from remit_fleet.engines.dbos import DbosEngine
from remit_fleet.engines.engine import Engine
from remit_fleet.engines.memory import MemoryEngine
from remit_fleet.engines.workflows import ENGINE_SCHEMA

R, TARGET = "r", "remit/next"
REPOSITORY = FleetRepository(R, attempts=3)
PLAN = OpenPlan("p", R, TARGET)
ROLE = Role("any", ("a",), chain=("tester",))
SCOPES = (("src/a/**",), ("src/b/**",), ("src/a/x.py", "src/c/**"), ("src/d/**",), ("**/*.md",))
NEEDS = ((), (), (), ("INT-001",), ())
IDS = tuple(f"INT-{number:03}" for number in range(1, len(SCOPES) + 1))
WORKER = Worker("w1", "h1", slots=2, agents=("a", "b"))
ONE_ORDERS = (*OrderKind,)
ALL_ORDERS = (OrderKind.PAUSE, OrderKind.RESUME)

Deed = tuple[str, int, int]
DEEDS = st.lists(
    st.tuples(
        st.sampled_from(["dispatch", "dispatch", "start", "hand in", "hand in", "fail", "lose", "land", "land red"])
        | st.sampled_from(["order", "order all", "stale", "widen", "beat", "sweep", "open"]),
        st.integers(0, len(IDS) - 1),
        st.integers(0, len(ONE_ORDERS) - 1),
    ),
    max_size=30,
)


def list_tasks() -> list[Task]:
    return [
        Task("p", id, R, role="any", needs=needs, scope=scope, scope_sha256=hash_scope(scope))
        for id, scope, needs in zip(IDS, SCOPES, NEEDS, strict=True)
    ]


def do(engine: MemoryEngine | DbosEngine, deed: Deed, number: int, tokens: dict[str, list[int]]) -> object:
    """Do something to an engine, and return what it answers."""
    kind, which, choice = deed
    id = IDS[which]
    key, live = (R, id), engine.read_board().attempts.get((R, id))
    match kind:
        case "dispatch":
            return sorted(claim.intent for claim in engine.dispatch())
        case "start" if live:
            return engine.move_attempt(live.token, key, AttemptState.STARTED)
        case "hand in" if live and live.state is AttemptState.STARTED:
            return engine.end_attempt(live.token, key, AttemptEnd.HANDED_IN)
        case "fail" if live:
            return engine.end_attempt(live.token, key, AttemptEnd.FAILED, f"failure {number % 3}", "it failed")
        case "lose" if live:
            return engine.end_attempt(live.token, key, AttemptEnd.LOST, "", "gone")
        case "order":
            engine.give_order(Order(0, R, ONE_ORDERS[choice], id, body="b" if choice % 2 else "", by="Ann"))
        case "order all":
            engine.give_order(Order(0, R, ALL_ORDERS[choice % 2], by="Ann"))
        case "stale":
            old = [token for token in tokens[id] if live is None or token != live.token]
            answers = [engine.end_attempt(token, key, AttemptEnd.HANDED_IN) for token in old]
            answers += [engine.move_attempt(token, key, AttemptState.STARTED) for token in old]
            assert not any(answers), "an effect of a superseded attempt was accepted"
        case "widen" if live:
            scope = (*engine.read_board().tasks[key].scope, f"{SCOPES[choice % len(SCOPES)][0]}")
            return engine.widen_hold(live.token, key, scope, hash_scope(scope))
        case "open":
            return open_another(engine, which, choice, number)
        case "beat":
            return sorted((hold.intent, hold.token) for hold in engine.beat(WORKER))
        case "sweep":
            return len(engine.sweep())
        case "land" | "land red":
            return land(engine, is_red=kind == "land red")
        case _:
            return None
    return None


def open_another(engine: Engine, which: int, choice: int, number: int) -> object:
    """Open a plan for one intent, perhaps with a need that nobody knows, and return why it is refused."""
    needs = (("INT-999",), NEEDS[which])[choice % 2]
    task = replace(list_tasks()[which], plan=f"p{number:03}", needs=needs)
    try:
        engine.open_plan(replace(PLAN, id=task.plan), [task], {ROLE.name: ROLE})
    except ValueError as refused:
        return str(refused)
    return None


def land(engine: Engine, *, is_red: bool) -> object:
    landing = engine.gather_landing(R, TARGET, "c0", {})
    if landing is None:
        return None
    *good, last = landing.members
    if is_red:
        evidence = [Evidence(ConflictKind.MEANING, Party(good[0] if good else "a person"), Party(last))]
        ended = replace(landing, state=LandingState.RED, new="c1" if good else "c0", why="red")
        return engine.settle_landing(ended, good, evidence), landing.members
    landed = replace(landing, state=LandingState.LANDED, new="c1")
    return engine.settle_landing(landed, landing.members), landing.members


def view(engine: Engine) -> dict[str, Any]:
    """Return what both engines have to agree on."""
    board = engine.read_board()
    return {
        "tasks": {
            task.intent: (str(task.state), task.returns_to, task.stage, task.attempts, task.landed, task.agents)
            for task in board.tasks.values()
        },
        "holds": {hold.intent: (hold.attempt, hold.token, hold.scope) for hold in board.holds.values()},
        "attempts": {
            each.intent: (each.attempt, each.token, each.worker, each.agent, str(each.state))
            for each in board.attempts.values()
        },
        "paused": sorted(plan.id for plan in board.plans.values() if plan.is_paused),
        "breakers": sorted((str(b.kind), b.key, b.trips, len(b.failures)) for b in board.breakers.values()),
    }


def check_laws(engine: Engine, tokens: dict[str, list[int]]) -> None:
    """Check what holds on every board: write sets apart, slots, tokens that rise, needs that have landed."""
    board = engine.read_board()
    held = list(board.holds.values())
    for at, hold in enumerate(held):
        for other in held[at + 1 :]:
            assert prove_scopes(hold.scope, other.scope).answer is ProofAnswer.APART
    assert len(board.attempts) <= WORKER.slots
    last = max((token for known in tokens.values() for token in known), default=0)
    for key, attempt in sorted(board.attempts.items(), key=lambda item: item[1].token):
        assert board.holds[key].token == attempt.token
        if attempt.token not in tokens[attempt.intent]:
            assert attempt.token > last
            tokens[attempt.intent].append(attempt.token)
            needs = board.tasks[key].needs
            assert all(board.tasks[R, need].state is TaskState.LANDED for need in needs)


@pytest.fixture(scope="module")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database file with the tables of both."""
    path = tmp_path_factory.mktemp("empty") / "fleet.db"
    store = open_store(f"sqlite:///{path}", path.parent)
    run_dbos_database_migrations(store.url, schema=ENGINE_SCHEMA)
    store.close()
    return path


def close(engine: DbosEngine) -> None:
    if engine.queues.client is not None:
        engine.queues.client.destroy()
    engine.store.close()


def open_both(empty: Path, folder: Path) -> tuple[MemoryEngine, DbosEngine]:
    for path in folder.glob("fleet.db*"):
        path.unlink()
    shutil.copy(empty, folder / "fleet.db")
    memory = MemoryEngine([REPOSITORY], lambda a, b: prove_scopes(a.scope, b.scope))
    durable = DbosEngine(open_store(f"sqlite:///{folder / 'fleet.db'}", folder), PATIENT)
    durable.add_repository(REPOSITORY)
    for engine in (memory, durable):
        engine.open_plan(PLAN, list_tasks(), {ROLE.name: ROLE})
        engine.beat(WORKER)
    return memory, durable


@example(deeds=[("order", 1, ONE_ORDERS.index(OrderKind.DROP)), ("open", 1, 0), ("open", 1, 1), ("dispatch", 0, 0)])
@example(deeds=[("dispatch", 0, 0), ("start", 0, 0), ("order", 0, ONE_ORDERS.index(OrderKind.RETRY)), ("fail", 0, 0)])
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(deeds=DEEDS)
def test_whatever_is_done_to_both_leaves_the_same_board(
    empty_database: Path, tmp_path: Path, deeds: Sequence[Deed]
) -> None:
    both = open_both(empty_database, tmp_path)
    try:
        known: list[dict[str, list[int]]] = [{id: [] for id in IDS} for _ in both]
        for number, deed in enumerate(deeds):
            both[0].now += 0.01
            answers = [do(engine, deed, number, tokens) for engine, tokens in zip(both, known, strict=True)]
            assert answers[0] == answers[1], deed
            assert view(both[0]) == view(both[1]), deed
            for engine, tokens in zip(both, known, strict=True):
                check_laws(engine, tokens)
    finally:
        close(both[1])
