"""The same small board on each engine: three tasks of one plan, a worker of four slots, and tokens by intent."""

from pathlib import Path
from typing import TypeAlias

from msgspec.structs import replace

from fleet.world import prove_by_paths
from remit.core.assignment import hash_scope
from remit_fleet.board import (
    Attempt,
    AttemptState,
    Claim,
    FleetRepository,
    OpenPlan,
    PlanLimits,
    Role,
    Task,
    TaskKey,
    Worker,
)
from remit_fleet.database.rows import change_rows
from remit_fleet.database.store import open_store
from remit_fleet.engines.dbos import DbosEngine, Timing
from remit_fleet.engines.memory import MemoryEngine
from remit_fleet.moves import claim_task

PATIENT = Timing(dead_after_s=3600.0)
"""For workers that beat only once: however slow the machine is, they are there."""

AnyEngine: TypeAlias = DbosEngine | MemoryEngine
ENGINES = ("memory", "sqlite")
REPOSITORY = "repo"


def key_of(intent: str) -> TaskKey:
    return REPOSITORY, intent


def make_task(intent: str, role: Role) -> Task:
    scope = (f"src/{intent}.py",)
    return Task("plan", intent, REPOSITORY, role=role.name, scope=scope, scope_sha256=hash_scope(scope))


def open_engine(kind: str, folder: Path, *intents: str, role: Role, limits: PlanLimits | None = None) -> AnyEngine:
    """Return an engine with a task for each intent."""
    repository = FleetRepository(REPOSITORY, url="/repo")
    plan = OpenPlan("plan", REPOSITORY, "remit/next", limits=limits or PlanLimits())
    tasks = [make_task(intent, role) for intent in intents]
    if kind == "memory":
        engine: AnyEngine = MemoryEngine([repository], prove_by_paths)
    else:
        engine = DbosEngine(open_store(None, folder), PATIENT)
        engine.add_repository(repository)
    engine.open_plan(plan, tasks, {role.name: role})
    engine.beat(Worker("host:1", "host", slots=4, agents=("small",)))
    return engine


def start(engine: AnyEngine, intent: str, usd: float = 0.0) -> Attempt:
    """Start an attempt as a worker does, and return it."""
    if isinstance(engine, MemoryEngine):
        if key_of(intent) not in engine.rows.live:
            engine.dispatch()
    else:
        claim = Claim(REPOSITORY, intent, "host:1", "small", usd)
        with change_rows(engine.store) as rows:
            claim_task(rows, claim, 60.0)
    attempt = engine.read_board().attempts[key_of(intent)]
    assert engine.move_attempt(attempt.token, attempt.key, AttemptState.STARTED)
    return replace(attempt, state=AttemptState.STARTED)
