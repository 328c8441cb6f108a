"""An attempt whose remote is away, slow or refusing: the board says so, nothing is lost, and a person can mend it."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import run_git
from fleet.both_engines import REPOSITORY, key_of, open_engine, start
from fleet.clones import Clone, make_clones
from fleet.test_remote import put_hook, work
from remit.workspace.git.command import GitError
from remit.workspace.merging import NO_COMMIT
from remit.workspace.sharing.shared_refs import RemoteAway
from remit_fleet.attempts import find_endings
from remit_fleet.board import Attempt, OpenPlan, Order, OrderKind, Role, Task, TaskState
from remit_fleet.engines.dbos import DbosEngine
from remit_fleet.landing.land import LandingTerms
from remit_fleet.remote import FleetRemote
from remit_fleet.schedule import explain_waits
from remit_fleet.workers.landing_rounds import make_lander
from remit_fleet.workers.waiting import WorkerStopped, exchange_with_remote

INTENT = "INT-001"


@pytest.fixture
def clones(tmp_path: Path, home: Path) -> tuple[Clone, Clone]:
    a, b, _ = make_clones(tmp_path, 2)
    return a, b


@pytest.fixture
def engine(tmp_path: Path) -> DbosEngine:
    made = open_engine("sqlite", tmp_path, INTENT, role=Role("builder", max_seconds=0.0))
    assert isinstance(made, DbosEngine)
    return made


class Pauses:
    """Pauses of a worker: each acts, and then lets it go on; the last one stops it."""

    def __init__(self, *acts: Callable[[], object]) -> None:
        self.acts = list(acts)

    def __call__(self, _: float) -> bool:
        if not self.acts:
            return True
        self.acts.pop(0)()
        return False


def hand_in(clone: Clone, engine: DbosEngine, attempt: Attempt, wait: Callable[[float], bool]) -> object:
    def push(remote: FleetRemote) -> bool:
        remote.push_attempt(f"{INTENT}/1")
        return True

    return exchange_with_remote(engine, clone.gate, attempt, push, wait)


def commit_work(clone: Clone, far: Path) -> None:
    """Have work on the attempt's branch that the remote does not have."""
    clone.hand_in(INTENT, 1, work(INTENT))
    run_git(far, "update-ref", "-d", f"refs/heads/remit/{INTENT}/1")


def find_task(engine: DbosEngine) -> Task:
    return engine.read_board().tasks[key_of(INTENT)]


def test_a_remote_that_is_away_is_named_with_the_time_and_ends_no_attempt(
    clones: tuple[Clone, Clone], engine: DbosEngine, tmp_path: Path
) -> None:
    a, _ = clones
    far, away = tmp_path / "far.git", tmp_path / "away.git"
    commit_work(a, far)
    attempt = start(engine, INTENT)
    far.rename(away)
    seen: list[str] = []

    def look() -> None:
        board = engine.read_board()
        seen.append(explain_waits(board)[key_of(INTENT)])
        assert find_endings(board) == []  # though its role has no time left: the agent is not at fault

    done = hand_in(a, engine, attempt, Pauses(look, look, lambda: away.rename(far)))
    assert done is True
    assert seen[0] == seen[1]
    assert seen[0].startswith("the remote since 20")
    assert "the remote 'origin' does not answer" in seen[0]
    assert find_task(engine).why == ""
    assert run_git(far, "for-each-ref", "--format=%(refname)", "refs/heads/remit").strip().endswith("INT-001/1")
    said = [event.body.get("text", "") for event in engine.read_events(0)]
    assert "the remote answers again" in said


def test_a_remote_that_refuses_asks_with_its_words_and_is_asked_again_after_the_answer(
    clones: tuple[Clone, Clone], engine: DbosEngine, tmp_path: Path
) -> None:
    a, _ = clones
    far = tmp_path / "far.git"
    commit_work(a, far)
    put_hook(
        far, "pre-receive", 'printf "frozen \\033[31mtoday, token=%s\\n" ghp_aB3dE5gH7jK9mN1pQ3sT5vW7yZ >&2; exit 1'
    )
    attempt = start(engine, INTENT)
    asked: list[Task] = []

    def answer() -> None:
        asked.append(find_task(engine))
        (far / "hooks" / "pre-receive").unlink()
        engine.give_order(Order(0, REPOSITORY, OrderKind.RESUME, INTENT, by="ana"))

    assert hand_in(a, engine, attempt, Pauses(lambda: None, answer)) is True
    assert asked[0].state is TaskState.ASKING
    assert "refuses to move 'refs/heads/remit/INT-001/1'" in asked[0].why
    assert "today" in asked[0].why
    assert "`remit plan resume INT-001`" in asked[0].why
    assert "\x1b" not in asked[0].why
    assert "ghp_" not in asked[0].why
    assert find_task(engine).state is TaskState.RUNNING


def test_a_person_who_drops_the_task_and_a_worker_that_stops_end_the_wait(
    clones: tuple[Clone, Clone], engine: DbosEngine, tmp_path: Path
) -> None:
    a, _ = clones
    commit_work(a, tmp_path / "far.git")
    (tmp_path / "far.git").rename(tmp_path / "away.git")
    attempt = start(engine, INTENT)
    with pytest.raises(WorkerStopped, match="does not answer"):
        hand_in(a, engine, attempt, Pauses())
    drop = Order(0, REPOSITORY, OrderKind.DROP, INTENT, by="ana")
    assert hand_in(a, engine, attempt, Pauses(lambda: engine.give_order(drop))) is None


def test_work_begins_without_the_remote_where_all_that_it_needs_is_here(
    clones: tuple[Clone, Clone], tmp_path: Path
) -> None:
    a, b = clones
    landed = b.land(b.hand_in("INT-002", 1, work("INT-002"))).new
    head = a.commit("main")
    plan = OpenPlan("p", "r", "remit/next", head)
    (tmp_path / "far.git").rename(tmp_path / "away.git")
    assert a.remote.find_local_start(plan, "", (), "") == head
    # A landing it needs, the work of an earlier stage or of the last attempt lie on the other host.
    assert a.remote.find_local_start(plan, "", (landed,), "") is None
    assert a.remote.find_local_start(plan, landed, (), "") is None
    assert a.remote.find_local_start(plan, "", (), "INT-002/1") is None
    assert b.remote.find_local_start(plan, landed, (landed,), "INT-002/1") == landed


def test_a_slow_answer_is_an_answer(clones: tuple[Clone, Clone], engine: DbosEngine, tmp_path: Path) -> None:
    a, _ = clones
    far = tmp_path / "far.git"
    commit_work(a, far)
    begun, go = tmp_path / "begun", tmp_path / "go"
    os.mkfifo(begun)
    os.mkfifo(go)
    put_hook(far, "pre-receive", f"echo > {begun}; read x < {go}")
    attempt = start(engine, INTENT)

    def answer() -> None:
        begun.read_text()
        go.write_text("go\n")

    threading.Thread(target=answer, daemon=True).start()
    assert hand_in(a, engine, attempt, Pauses()) is True


def test_a_push_that_takes_long_gets_twice_the_time_at_each_try(
    clones: tuple[Clone, Clone], engine: DbosEngine
) -> None:
    limits: list[float] = []

    def push(remote: FleetRemote) -> bool:
        limits.append(remote.refs.limit_s)
        if len(limits) < 4:
            raise RemoteAway("origin", GitError(("push",), None, "took too long"))
        return True

    nothing = Pauses(*3 * [lambda: None])
    assert exchange_with_remote(engine, clones[0].gate, start(engine, INTENT), push, nothing) is True
    assert limits == [60, 120, 240, 480]


def test_a_push_ends_at_its_limit(clones: tuple[Clone, Clone], tmp_path: Path) -> None:
    a, _ = clones
    commit_work(a, tmp_path / "far.git")
    with pytest.raises(RemoteAway, match=r"did not end within 0\.001 seconds"):
        FleetRemote(a.gate, "origin", 0.001).push_attempt(f"{INTENT}/1")
    lander, head = make_lander(a.gate, a.trees), a.commit(f"remit/{INTENT}/1")
    with pytest.raises(RemoteAway, match=r"did not end within 0\.001 seconds"):
        lander.move_target(LandingTerms(remote="origin", limit_s=0.001), head, NO_COMMIT)


def test_an_exchange_ends_at_its_limit(clones: tuple[Clone, Clone]) -> None:
    a, _ = clones
    with pytest.raises(RemoteAway, match=r"did not end within 0\.001 seconds"):
        FleetRemote(a.gate, "origin", 0.001).list_refs("refs/heads/*")
