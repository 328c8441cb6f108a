"""What people do to a repository before and while a plan runs: each is named, refused or survived, says what to do
next, and loses nothing. No worker runs here."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import run_git
from fleet.both_engines import PATIENT
from fleet.fleet_driving import PlanRepository, git
from remit.workspace.worktrees import PLAN_REFS
from remit_fleet.board import AttemptEnd, AttemptState, Claim, Order, OrderKind, TaskState, Worker
from remit_fleet.database.rows import change_rows
from remit_fleet.database.store import open_store
from remit_fleet.engines.dbos import DbosEngine
from remit_fleet.moves import claim_task, list_ready
from remit_fleet.schedule import schedule

START = ("plan", "start", "--yes", "--agent-command=small=true {intent}")


@pytest.fixture
def plans(home: Path, tmp_path: Path) -> PlanRepository:
    return PlanRepository(home, tmp_path / "work", f"sqlite:///{tmp_path / 'fleet.db'}")


def add(plans: PlanRepository, id: str, line: str) -> None:
    with plans.intent_file(id).open("a") as file:
        file.write(f"{line}\n")


def make_circle(plans: PlanRepository) -> None:
    add(plans, "INT-001", "dependencies: [INT-002]")
    add(plans, "INT-002", "dependencies: [INT-001]")


def name_unknown_need(plans: PlanRepository) -> None:
    add(plans, "INT-001", "dependencies: [INT-077]")


def break_file(plans: PlanRepository) -> None:
    (plans.root / ".orchestration/active_intents.yaml").write_text("active_intents: [")


def add_unknown_status(plans: PlanRepository) -> None:
    plans.intent_file("INT-003").write_text("id: INT-003\nstatus: SOON\nowned_scope: [src/**]\n")
    git(plans.root, "add", "-A")
    git(plans.root, "commit", "-qm", "broken")


def close_all(plans: PlanRepository) -> None:
    for id in ("INT-001", "INT-002"):
        plans.remit("intent", "set-status", id, "ABORTED")


def detach(plans: PlanRepository) -> None:
    git(plans.root, "checkout", "-q", "--detach")


def leave_changes(plans: PlanRepository) -> None:
    (plans.root / "README.md").write_text("# Not committed\n")


def use_own_branch(plans: PlanRepository) -> list[str]:
    return ["--target", git(plans.root, "branch", "--show-current").strip()]


def list_changes(plans: PlanRepository) -> list[str]:
    """Return what git says of the work tree, and each ref but the record of a plan."""
    refs = git(plans.root, "for-each-ref").splitlines()
    return [git(plans.root, "status", "--porcelain"), *(ref for ref in refs if f"\t{PLAN_REFS}" not in ref)]


def nothing(plans: PlanRepository) -> list[str]:
    return []


@pytest.mark.parametrize(
    ("prepare", "more", "code", "texts"),
    [
        (make_circle, nothing, 1, ["CYCLE", "none of these can land first", "take INT-001 out of `dependencies`"]),
        (name_unknown_need, nothing, 1, ["UNKNOWN_DEPENDENCY", "'INT-077', which is no intent", "remit intent list"]),
        (break_file, nothing, 1, ["INTENTS_FILE_INVALID", "active_intents.yaml:", "remit intent lint"]),
        (add_unknown_status, nothing, 0, ["is open"]),
        (close_all, nothing, 2, ["no intent is open", "remit intent new"]),
        (leave_changes, use_own_branch, 1, ["DIRTY_TARGET", "checked out with uncommitted changes", "commit them"]),
        (leave_changes, nothing, 0, ["is open", "landing on remit/next"]),
        (nothing, use_own_branch, 0, ["is open"]),
        (detach, nothing, 0, ["is open", "landing on remit/next"]),
    ],
)
def test_a_plan_is_refused_with_the_next_step_or_starts(
    plans: PlanRepository,
    prepare: Callable[[PlanRepository], object],
    more: Callable[[PlanRepository], list[str]],
    code: int,
    texts: list[str],
) -> None:
    plans.govern(2)
    options = more(plans)
    prepare(plans)
    before = list_changes(plans)
    shown = plans.remit(*START, *options, *plans.database, code=code)
    assert [text for text in texts if text not in shown] == [], shown
    assert list_changes(plans) == before
    assert len(git(plans.root, "for-each-ref", PLAN_REFS).splitlines()) == (0 if code else 1)
    assert len(plans.status()) == (0 if code else 2)


def test_a_repository_without_a_commit_is_refused(plans: PlanRepository) -> None:
    plans.root.mkdir()
    run_git(plans.root, "init", "-q")
    plans.remit("init", "--yes")
    plans.remit("intent", "new", "one", "--scope", "src/**")
    shown = plans.remit(*START, *plans.database, code=1)
    assert "the repository has no commit" in shown
    assert "git commit --allow-empty" in shown


def test_an_intent_runs_in_one_plan_and_two_plans_may_have_one_target(plans: PlanRepository) -> None:
    plans.govern(2)
    plans.remit(*START, "INT-001", *plans.database)
    refused = plans.remit(*START, "INT-001", *plans.database, code=2)
    assert "INT-001 is waiting in plan" in refused
    plans.remit(*START, "INT-002", *plans.database)
    assert {task["plan"] for task in plans.status().values()} == {plans.status()[i]["plan"] for i in plans.status()}
    assert len({task["plan"] for task in plans.status().values()}) == 2


def open_engine(plans: PlanRepository, home: Path) -> DbosEngine:
    return DbosEngine(open_store(plans.database[1], home), PATIENT)


def end_attempt(engine: DbosEngine, intent: str, how: AttemptEnd, failure: str, usd: float = 0.0) -> None:
    (repository,) = engine.read_board().repositories
    engine.beat(Worker("w:1", "here", slots=9, agents=("small",)))
    with change_rows(engine.store) as rows:
        claim = Claim(repository, intent, "w:1", "small", reserved_usd=usd)
        attempt = claim_task(rows, claim, 60.0)
    assert engine.move_attempt(attempt.token, attempt.key, AttemptState.STARTED)
    assert engine.end_attempt(attempt.token, attempt.key, how, failure, failure)


def test_what_a_plan_has_not_landed_is_started_anew_by_its_ids(plans: PlanRepository, home: Path) -> None:
    ids = plans.govern(4)
    add(plans, "INT-002", "dependencies: [INT-001]")
    plans.remit(*START, *plans.database)
    engine = open_engine(plans, home)
    for _ in range(2):
        end_attempt(engine, "INT-001", AttemptEnd.FAILED, "exit 3")
    plans.remit("plan", "stop", "INT-003", *plans.database)
    (old,) = engine.read_board().plans
    # What needs the stuck one is blocked at the next scheduling.
    engine.beat(Worker("w:1", "here", slots=1, agents=(), draining=True))
    engine.drain_worker("w:1")
    engine.dispatch()
    states = [task["state"] for task in plans.status().values()]
    assert states == ["stuck", "blocked", "dropped", "waiting"]

    plans.remit("intent", "set-status", "INT-003", "ABORTED")
    plans.remit(*START, "INT-001", "INT-002", *plans.database)
    now = plans.status()
    assert {id: now[id]["state"] for id in ids if now[id]["plan"] != old} == {
        "INT-001": "waiting",
        "INT-002": "waiting",
    }
    assert now["INT-001"]["attempts"] == 2  # the next one is the third
    assert "INT-001 is waiting in plan" in plans.remit(*START, "INT-001", *plans.database, code=2)


@pytest.mark.parametrize("more", [["one"], ["one,one"], ["one,two", "--agent", "one"]])
def test_one_agent_has_no_rival(plans: PlanRepository, more: list[str]) -> None:
    plans.govern(1)
    assert "names no two agents" in plans.remit(*START, "INT-001", "--rivals", *more, *plans.database, code=2)


def test_a_task_that_is_resumed_after_it_was_handed_in_is_ready_to_land(plans: PlanRepository, home: Path) -> None:
    plans.govern(1)
    plans.remit(*START, "--no-land", *plans.database)
    engine = open_engine(plans, home)
    end_attempt(engine, "INT-001", AttemptEnd.HANDED_IN, "")
    (repository,) = engine.read_board().repositories
    assert plans.status()["INT-001"]["state"] == "asking"
    refused = plans.remit("task", "give-back", "INT-001", *plans.database, code=2)
    assert "nobody has taken it over" in refused
    assert "remit plan land INT-001" in refused
    assert plans.status()["INT-001"]["state"] == "asking"
    told = plans.remit("plan", "resume", *plans.database)
    assert told == "INT-001  still asks: answer it with `remit plan resume INT-001`\n"
    found = plans.remit("fleet", "doctor", *plans.database, code=1)
    assert f"INT-001 in {str(plans.root)!r} is asking" in found
    assert "there: `remit plan land INT-001`" in found
    assert plans.remit("plan", "resume", "INT-001", *plans.database) == "INT-001  handed_in\n"
    assert engine.read_board().tasks[repository, "INT-001"].state is TaskState.HANDED_IN
    with change_rows(engine.store) as rows:
        assert [task.intent for task in list_ready(rows, repository, "remit/next")] == ["INT-001"]


def test_every_task_is_dropped_only_after_a_yes(plans: PlanRepository) -> None:
    plans.govern(2)
    plans.remit(*START, *plans.database)
    refused = plans.remit("plan", "stop", *plans.database, code=2)
    assert "this drops INT-001, INT-002" in refused
    assert {task["state"] for task in plans.status().values()} == {"waiting"}
    plans.remit("plan", "stop", "--yes", *plans.database)
    assert {task["state"] for task in plans.status().values()} == {"dropped"}
    assert "nothing to stop" in plans.remit("plan", "stop", *plans.database)


def test_an_order_to_a_plan_goes_to_its_tasks_and_one_without_effect_says_so(plans: PlanRepository, home: Path) -> None:
    plans.govern(1)
    plans.remit(*START, *plans.database)
    engine = open_engine(plans, home)
    (first,) = engine.read_board().plans
    assert "nothing to resume" in plans.remit("plan", "resume", *plans.database)
    assert "INT-001  paused" in plans.remit("plan", "pause", first, *plans.database)
    assert "INT-001  waiting" in plans.remit("plan", "resume", first, *plans.database)
    for _ in range(2):
        end_attempt(engine, "INT-001", AttemptEnd.FAILED, "exit 3")
    assert "`remit task retry INT-001` tries it again" in plans.remit("plan", "resume", "INT-001", *plans.database)
    plans.remit(*START, "INT-001", *plans.database)
    assert "later plans have its intents" in plans.remit("plan", "stop", first, *plans.database, code=2)


def test_a_budget_that_is_used_up_says_what_counted_and_is_raised(plans: PlanRepository, home: Path) -> None:
    plans.govern(1)
    plans.remit(*START, "--max-usd=0.5", *plans.database)
    engine = open_engine(plans, home)
    end_attempt(engine, "INT-001", AttemptEnd.FAILED, "exit 3", usd=0.5)
    engine.dispatch()
    why = plans.status()["INT-001"]["why"]
    assert "an attempt that reports no cost counts as its limit" in why
    needed = why.split("`remit plan resume INT-001 --max-usd ")[1].split("` raises it")[0]
    assert "say which plan" in plans.remit("plan", "resume", "--max-usd=2", *plans.database, code=2)
    plans.remit("plan", "resume", "INT-001", f"--max-usd={needed}", *plans.database)
    assert [claim.intent for claim in schedule(engine.read_board()).claims] == ["INT-001"]
    assert f"at most {needed} USD" in plans.remit("plan", "status", *plans.database)


def land_and_undo(plans: PlanRepository, intent: str) -> None:
    """Leave the commits of a landing and of its undo on the target."""
    lander = ["-c", "user.name=Remit", "-c", "user.email=remit@localhost"]
    commit = "HEAD"
    for message in (f"{intent}\n\nRemit-Intent: {intent}", f"Undo\n\nRemit-Intent: {intent}\nRemit-Undone: {{}}"):
        words = ["commit-tree", "HEAD^{tree}", "-p", commit, "-m", message.format(commit)]
        commit = git(plans.root, *lander, *words).strip()
    git(plans.root, "branch", "-f", "remit/next", commit)


def test_what_was_dropped_or_undone_is_in_no_plan_of_a_board_that_is_built_anew(
    plans: PlanRepository, tmp_path: Path
) -> None:
    plans.govern(3)
    plans.remit(*START, *plans.database)
    plans.remit("plan", "stop", "INT-002", *plans.database)
    land_and_undo(plans, "INT-003")
    plans.database = ["--database", f"sqlite:///{tmp_path / 'new.db'}"]
    told = plans.remit("fleet", "rebuild", *plans.database)
    assert {id: task["state"] for id, task in plans.status().items()} == {"INT-001": "waiting"}
    assert "INT-002 was in no plan, or dropped from its plan: `remit plan start INT-002` starts it" in told
    assert "INT-003 was undone, and is in no plan since" in told
    assert "nothing has to be rebuilt" in plans.remit("fleet", "rebuild", *plans.database)
    # What a person asks for comes back.
    plans.remit("fleet", "rebuild", "--all", *plans.database)
    assert {task["state"] for task in plans.status().values()} == {"waiting"}
    assert len(plans.status()) == 3


def test_a_pause_is_no_silence(plans: PlanRepository, home: Path) -> None:
    plans.govern(1)
    plans.remit(*START, *plans.database)
    engine = open_engine(plans, home)
    (repository,) = engine.read_board().repositories
    engine.beat(Worker("w:1", "here", slots=9, agents=("small",)))
    with change_rows(engine.store) as rows:
        attempt = claim_task(rows, Claim(repository, "INT-001", "w:1", "small"), 60.0)
    engine.give_order(Order(0, repository, OrderKind.PAUSE))
    before = engine.read_board().attempts[attempt.key].last_event_at
    engine.give_order(Order(0, repository, OrderKind.RESUME))
    assert engine.read_board().attempts[attempt.key].last_event_at > before


@pytest.mark.live
def test_a_thousand_intents_are_checked_in_bounded_time(plans: PlanRepository) -> None:
    plans.govern(1)
    for number in range(1001, 2000):
        text = f"id: INT-{number}\nname: part\nowned_scope: [src/part{number}/**]\n"
        plans.intent_file(f"INT-{number}").write_text(text)
    answer = json.loads(plans.remit("plan", "check", "--json"))["data"]
    assert len(answer["tasks"]) == 1000
    assert answer["pairs_apart"] == 1000 * 999 // 2
