"""A `remit plan land` that was killed on one of two hosts: the other host lands its train, each task once."""

from pathlib import Path

import pytest

from conftest import run_git
from fleet.clones import TARGET, Clone, make_clones
from remit.core.assignment import hash_scope
from remit_fleet.board import (
    AttemptEnd,
    AttemptState,
    Claim,
    FleetRepository,
    OpenPlan,
    Order,
    OrderKind,
    PlanLimits,
    Role,
    Task,
    Worker,
)
from remit_fleet.database.rows import change_rows
from remit_fleet.database.store import open_store
from remit_fleet.engines.dbos import DbosEngine
from remit_fleet.moves import claim_task
from remit_fleet.workers.landing_rounds import land_handed_in, land_members, list_members, make_lander

REPOSITORY = "shared"


def open_engine(folder: Path, root: Path, ids: list[str]) -> DbosEngine:
    engine = DbosEngine(open_store(f"sqlite:///{folder / 'fleet.db'}", folder))
    engine.add_repository(FleetRepository(REPOSITORY, str(root), "remit/next"))
    scopes = {id: (f"src/{id.lower()}/**",) for id in ids}
    tasks = [Task("plan", id, REPOSITORY, scope=scope, scope_sha256=hash_scope(scope)) for id, scope in scopes.items()]
    plan = OpenPlan("plan", REPOSITORY, "remit/next", limits=PlanLimits(lands_by_hand=True))
    engine.open_plan(plan, tasks, {"builder": Role("builder")})
    engine.beat(Worker("w:1", "here", slots=9, agents=("small",)))
    return engine


def hand_in(engine: DbosEngine, clone: Clone, intent: str) -> None:
    with change_rows(engine.store) as rows:
        attempt = claim_task(rows, Claim(REPOSITORY, intent, "w:1", "small"), 60.0)
    assert engine.move_attempt(attempt.token, attempt.key, AttemptState.STARTED)
    member = clone.hand_in(intent, attempt.attempt, {f"src/{intent.lower()}/new.py": f"made_by = {intent!r}\n"})
    head = clone.commit(member.commit)
    assert engine.move_attempt(attempt.token, attempt.key, AttemptState.STARTED, head=head)
    assert engine.end_attempt(attempt.token, attempt.key, AttemptEnd.HANDED_IN)
    engine.give_order(Order(0, REPOSITORY, OrderKind.RESUME, intent=intent))


@pytest.mark.parametrize("has_moved_target", [False, True])
def test_what_a_killed_landing_of_one_host_had_taken_is_landed_by_the_other(
    tmp_path: Path, home: Path, has_moved_target: bool
) -> None:
    a, b, ids = make_clones(tmp_path, 2)
    engine = open_engine(tmp_path, a.root, ids)
    for id in ids:
        hand_in(engine, a, id)
    landing = engine.gather_landing(REPOSITORY, "remit/next", "", {})
    assert landing is not None
    if has_moved_target:  # and died before it could say so
        land_members(a.gate, make_lander(a.gate, a.trees), landing, list_members(engine, a.gate, landing))
    land_handed_in(engine, b.gate, b.trees, REPOSITORY, "remit/next", lambda _: True)
    tasks = engine.read_board().tasks.values()
    assert [(task.intent, str(task.state)) for task in tasks] == [(id, "landed") for id in ids], list(tasks)
    form = "--format=%(trailers:key=Remit-Intent,valueonly)"
    assert sorted(run_git(tmp_path / "far.git", "log", "--first-parent", "--merges", form, TARGET).split()) == ids
    # The killed one, started again, finds nothing left to do.
    land_handed_in(engine, a.gate, a.trees, REPOSITORY, "remit/next", lambda _: True)
    assert run_git(tmp_path / "far.git", "log", "--first-parent", "--merges", form, TARGET).split().count(ids[0]) == 1
