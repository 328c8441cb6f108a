"""Of rivals, only those whose work is here are compared, on the remote's target, with the files made anew."""

from pathlib import Path

from msgspec.structs import replace

from fleet.clones import make_clones
from fleet.small_plan import REPOSITORY, TARGET, SmallPlan, made_path
from fleet.test_killed_landing import REPOSITORY as SHARED
from fleet.test_killed_landing import hand_in, open_engine
from gate.hooks.trusted_hooks import trust_all
from remit_fleet.engines.dbos import DbosEngine
from remit_fleet.moves import store_task
from remit_fleet.workers.landing_rounds import land_handed_in


def have_rivals(engine: DbosEngine, repository: str, intent: str, *numbers: int) -> None:
    """Let these attempts of a task be those of rivals that handed in."""
    with engine.change(repository) as rows:
        store_task(rows, replace(rows.tasks[repository, intent], finished=numbers))


def test_a_rival_whose_work_is_not_here_does_not_hold_up_the_others(
    repository: Path, tmp_path: Path, home: Path
) -> None:
    plan = SmallPlan(repository, tmp_path, home)
    with (plan.root / ".orchestration/remit.toml").open("a") as settings:
        settings.write('[orchestrator]\ncommons = [{paths = ["all.lock"], make = "ls -R src > all.lock"}]\n')
        settings.write('[verify]\nlanding = ["test -e all.lock"]\n')
    trust_all(plan.root, home)
    plan.hand_in("INT-001", "INT-002")
    have_rivals(plan.engine, REPOSITORY, "INT-001", 1, 7)
    shown = plan.land()
    assert [shown[id].split(":")[0] for id in ("INT-001", "INT-002")] == ["landed", "landed"], shown
    assert made_path("INT-001", "made1.py") in plan.list_files()
    (why,) = [event.body["why"] for event in plan.engine.read_events(0) if event.body.get("state") == "chosen"]
    assert "attempt 1: green" in str(why)
    assert (
        f"attempt 7: 'refs/heads/remit/INT-001/7' is no commit here that has anything in common with {TARGET}"
        in str(why)
    )


def test_rivals_are_chosen_among_once_the_remote_that_has_their_work_answers(tmp_path: Path, home: Path) -> None:
    a, b, ids = make_clones(tmp_path, 2)
    engine, far = open_engine(tmp_path, a.root, ids), tmp_path / "far.git"
    hand_in(engine, a, ids[0])
    have_rivals(engine, SHARED, ids[0], 1, 7)
    far.rename(tmp_path / "away.git")
    land_handed_in(engine, b.gate, b.trees, SHARED, "remit/next", lambda _: True)
    task = engine.read_board().tasks[SHARED, ids[0]]
    assert (task.state, task.why.startswith("the remote since")) == ("handed_in", True), task.why
    (tmp_path / "away.git").rename(far)
    land_handed_in(engine, b.gate, b.trees, SHARED, "remit/next", lambda _: True)
    assert engine.read_board().tasks[SHARED, ids[0]].state == "landed"
