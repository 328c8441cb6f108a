"""A lost board is rebuilt on any host from what the remote has: plans, stages, landings; what nobody knows is said."""

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from fleet.clones import Clone, make_clones
from fleet.small_plan import REPOSITORY, SmallPlan
from fleet.test_remote import work
from forked_commands import run_command
from remit_fleet.artifacts import AttemptFacts, keep_artifacts
from remit_fleet.board import Attempt, AttemptEnd, FleetRepository, OpenPlan, Role, Task, TaskState
from remit_fleet.database.store import open_store
from remit_fleet.engines.dbos import DbosEngine
from remit_fleet.forecast import measure_past
from remit_fleet.plan_records import read_plan_records, write_plan_record
from remit_fleet.rebuild import describe_unknown, list_facts, rebuild_plan

ROLES = {
    "builder": Role("builder", chain=("tester", "reviewer")),
    "tester": Role("tester"),
    "reviewer": Role("reviewer"),
}
PLAN = OpenPlan("20260102-030405-ab12", "shared-x", "remit/next", by="ana")
IDS = [f"INT-{number:03d}" for number in range(1, 6)]


@pytest.fixture
def clones(tmp_path: Path, home: Path) -> tuple[Clone, Clone]:
    a, b, _ = make_clones(tmp_path, 6)
    return a, b


def make_task(intent: str) -> Task:
    return Task(PLAN.id, intent, PLAN.repository, scope=(f"src/{intent.lower()}/**",), scope_sha256=intent)


def leave_facts(clone: Clone, intent: str, number: int, stage: int, ended_as: AttemptEnd, base: str = "") -> None:
    """Leave the artefact of an attempt, as its worker does."""
    role = ROLES["builder"].stages[stage]
    attempt = Attempt("other-name", intent, number, 40 + number, role=role, ended_as=ended_as, base=base, usd=0.5)
    facts = AttemptFacts(attempt, PLAN.id, stage, "far-away")
    keep_artifacts(clone.gate, facts, clone.home / "none.log", clone.home / "none", 0.0)


def publish(clone: Clone, plan: OpenPlan, *intents: str) -> None:
    tag = write_plan_record(clone.trees.store, plan, map(make_task, intents), clone.commit("main"), 0)
    clone.remote.publish_plan(plan.id, tag)


@pytest.mark.live
def test_plans_stages_and_landings_of_another_host_are_found_again(clones: tuple[Clone, Clone], tmp_path: Path) -> None:
    a, b = clones
    publish(b, PLAN, *IDS)
    landed, tested, sent_back, failed, untold = IDS
    b.land(b.hand_in(landed, 1, work(landed)))
    for intent in IDS[1:]:
        b.hand_in(intent, 2, work(intent))
    leave_facts(b, tested, 1, 0, AttemptEnd.FAILED)
    leave_facts(b, tested, 2, 1, AttemptEnd.HANDED_IN)
    leave_facts(b, sent_back, 2, 2, AttemptEnd.SENT_BACK)
    leave_facts(b, failed, 2, 0, AttemptEnd.FAILED)
    heads = {intent: b.commit(f"refs/heads/remit/{intent}/2") for intent in IDS[1:]}

    a.remote.fetch_fleet("remit/next")
    (record,) = read_plan_records(a.trees.store)
    assert (record.plan, [one.intent for one in record.intents]) == (PLAN, IDS)
    engine = DbosEngine(open_store(None, tmp_path))
    repository = FleetRepository(PLAN.repository)
    rebuilt = rebuild_plan(engine, a.gate, repository, record.plan, [make_task(id) for id in IDS], ROLES)
    board = engine.read_board()
    states = {task.intent: (task.state, task.stage, task.head) for task in board.tasks.values()}
    assert states == {
        landed: (TaskState.LANDED, 0, ""),
        tested: (TaskState.WAITING, 2, heads[tested]),
        sent_back: (TaskState.WAITING, 0, heads[sent_back]),
        failed: (TaskState.WAITING, 0, ""),
        untold: (TaskState.WAITING, 1, heads[untold]),
    }
    assert [(one.attempt, one.ended_as, one.usd) for one in engine.list_attempts((PLAN.repository, tested))] == [
        (1, AttemptEnd.FAILED, 0.5),
        (2, AttemptEnd.HANDED_IN, 0.5),
    ]
    assert board.repositories[PLAN.repository].token_last > 42  # no token of the lost board is given again
    unknown = describe_unknown(rebuilt, ROLES, list_facts(a.gate))
    assert [line for line in unknown if "stages" in line] == [
        f"not known: which stages {untold} had passed; it goes on with the tester"
    ]


def test_a_plan_is_rebuilt_before_the_plan_of_what_it_needs(clones: tuple[Clone, Clone], tmp_path: Path) -> None:
    engine = DbosEngine(open_store(None, tmp_path))
    later = replace(PLAN, id="20260102-030406-cd34")
    needing = replace(make_task(IDS[1]), plan=later.id, needs=(IDS[0],))
    engine.add_repository(FleetRepository(PLAN.repository))
    with pytest.raises(ValueError, match=f"{IDS[1]} needs {IDS[0]}: in no plan"):
        engine.open_plan(later, [needing], ROLES)
    for plan, task in ((later, needing), (PLAN, make_task(IDS[0]))):
        rebuild_plan(engine, clones[0].gate, FleetRepository(PLAN.repository), plan, [task], ROLES)
    assert [task.state for task in engine.read_board().tasks.values()] == [TaskState.WAITING] * 2
    engine.store.close()


def test_a_rebuilt_board_knows_when_attempts_ended_and_keeps_what_an_earlier_rival_handed_in(
    repository: Path, tmp_path: Path, home: Path
) -> None:
    plan = SmallPlan(repository, tmp_path, home)
    plan.hand_in("INT-001", "INT-002")
    plan.trees.prepare("INT-001", 2, "main")  # a rival has begun
    shown = plan.rebuild()
    assert shown["INT-001"].startswith("asking"), shown  # to be landed by hand
    first, second = plan.engine.list_attempts((REPOSITORY, "INT-001"))
    assert (first.ended_as, second.ended_as) == (AttemptEnd.HANDED_IN, AttemptEnd.LOST)
    assert all(one.started_at == one.ended_at and one.started_at > 1_500_000_000 for one in (first, second))
    assert measure_past([first, second]) == ()
    assert plan.land()["INT-001"].startswith("landed")


def test_a_record_of_a_plan_that_is_junk_or_another_plans_is_passed_over(clones: tuple[Clone, Clone]) -> None:
    a, _ = clones
    publish(a, PLAN, IDS[0])
    store = a.trees.store
    tag = a.commit(f"refs/remit/plans/{PLAN.id}^{{tag}}")
    store.git.run("update-ref", "refs/remit/plans/20260102-030405-zz99", tag)
    store.git.run("update-ref", "refs/remit/plans/20260102-030405-yy99", a.commit("main"))
    assert [record.plan.id for record in read_plan_records(store)] == [PLAN.id]


def test_the_command_rebuilds_what_was_planned_and_names_what_was_not(
    clones: tuple[Clone, Clone], tmp_path: Path
) -> None:
    a, b = clones
    publish(b, PLAN, *IDS[:2])
    publish(b, replace(PLAN, id="20260102-030406-cd34"), IDS[2])
    b.land(b.hand_in(IDS[0], 1, work(IDS[0])))
    b.hand_in(IDS[1], 3, work(IDS[1]))
    words = ["fleet", "rebuild", "--database", f"sqlite:///{tmp_path}/new.db"]
    env = {**os.environ, "HOME": str(a.home)}
    away = (tmp_path / "far.git").rename(tmp_path / "away.git")
    refused = run_command(words, a.root, env)
    assert "work of other hosts would be done again" in refused.stderr
    away.rename(tmp_path / "far.git")
    done = run_command(words, a.root, env)
    assert done.returncode == 0, done.stderr
    assert sorted(line.split()[0] + " " + line.split()[1] for line in done.stdout.splitlines()) == [
        f"{IDS[0]} landed",
        f"{IDS[1]} handed_in",
        f"{IDS[2]} waiting",
    ]
    assert f"{IDS[3]} was in no plan" in done.stderr
    assert "not known: orders, messages, budgets spent" in done.stderr
