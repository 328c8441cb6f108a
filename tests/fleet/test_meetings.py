"""An attempt that wants a path of another one: it waits, one is redone on top of the other, or a person is asked."""

from pathlib import Path

import pytest

from fleet.both_engines import ENGINES, AnyEngine, key_of, open_engine, start
from remit_fleet.board import AttemptEnd, Order, OrderKind, Role, TaskState
from remit_fleet.conflict import ConflictKind, Evidence, Party, Settlement, SettlementKind

S, D = TaskState, SettlementKind
ONE, TWO = "INT-001", "INT-002"


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AnyEngine:
    made = open_engine(request.param, tmp_path, ONE, TWO, role=Role("builder"))
    for intent in (ONE, TWO):
        start(made, intent)
    return made


def meet(
    engine: AnyEngine, owner: str, wanting: str, lines: tuple[int, int] = (9, 9), files: int = 2
) -> Settlement | None:
    parties = (Party(owner, files, lines[0]), Party(wanting, files, lines[1]))
    evidence = Evidence(ConflictKind.GROW, *parties, paths=(f"src/{owner}.py",))
    token = engine.read_board().attempts[key_of(wanting)].token
    return engine.meet_owner(token, key_of(wanting), evidence)


def states(engine: AnyEngine) -> list[TaskState]:
    tasks = engine.read_board().tasks
    return [tasks[key_of(intent)].state for intent in (ONE, TWO)]


def drop(engine: AnyEngine, intent: str) -> None:
    engine.give_order(Order(0, "repo", OrderKind.DROP, intent))


def release(engine: AnyEngine) -> None:
    """Have the engine look, as its sweep does."""
    engine.release_waiting()


def test_the_later_one_waits_until_the_owner_is_over(engine: AnyEngine) -> None:
    settled = meet(engine, ONE, TWO)
    assert settled is not None
    assert settled.kind is D.WAIT
    assert states(engine) == [S.RUNNING, S.PAUSED]
    assert engine.read_board().tasks[key_of(TWO)].why == "INT-001 holds src/INT-001.py and finishes first"
    release(engine)
    assert states(engine) == [S.RUNNING, S.PAUSED]
    drop(engine, ONE)
    release(engine)
    assert states(engine) == [S.DROPPED, S.RUNNING]
    assert key_of(TWO) in engine.read_board().attempts


def test_a_pause_of_a_person_outlasts_the_owner(engine: AnyEngine) -> None:
    meet(engine, ONE, TWO)
    engine.give_order(Order(0, "repo", OrderKind.PAUSE, TWO, by="ana"))
    drop(engine, ONE)
    release(engine)
    assert states(engine) == [S.DROPPED, S.PAUSED]


def test_of_two_that_want_each_others_paths_the_smaller_is_redone_on_top(engine: AnyEngine) -> None:
    meet(engine, ONE, TWO)
    settled = meet(engine, TWO, ONE, lines=(5, 90))
    assert settled == Settlement(D.REASSIGN, TWO, "each needs what the other holds")
    assert states(engine) == [S.RUNNING, S.WAITING]
    board = engine.read_board()
    assert board.tasks[key_of(TWO)].needs == (ONE,)
    assert key_of(TWO) not in board.attempts
    assert key_of(TWO) not in board.holds


def test_the_owner_goes_on_when_the_other_one_is_redone(engine: AnyEngine) -> None:
    meet(engine, ONE, TWO)
    meet(engine, TWO, ONE, lines=(90, 5))
    assert states(engine) == [S.WAITING, S.RUNNING]
    assert engine.read_board().tasks[key_of(ONE)].needs == (TWO,)


def test_a_small_part_that_both_need_is_proposed_as_an_intent_of_its_own(engine: AnyEngine) -> None:
    meet(engine, ONE, TWO, files=9)
    settled = meet(engine, TWO, ONE, files=9)
    assert settled is not None
    assert settled.kind is D.SPLIT
    assert states(engine) == [S.ASKING, S.ASKING]
    why = engine.read_board().tasks[key_of(ONE)].why
    assert why == "src/INT-002.py should be an intent of its own that INT-002 and INT-001 need"


def test_after_two_rounds_a_person_is_asked(engine: AnyEngine) -> None:
    for _ in range(2):
        meet(engine, ONE, TWO)
        engine.give_order(Order(0, "repo", OrderKind.RESUME, TWO))
    settled = meet(engine, ONE, TWO)
    assert settled is not None
    assert settled.kind is D.ASK
    assert states(engine) == [S.RUNNING, S.ASKING]


def test_a_task_that_is_paused_or_over_meets_nobody(engine: AnyEngine) -> None:
    meet(engine, ONE, TWO)
    assert meet(engine, ONE, TWO) is None
    token = engine.read_board().attempts[key_of(ONE)].token
    engine.end_attempt(token, key_of(ONE), AttemptEnd.LOST)
    evidence = Evidence(ConflictKind.GROW, Party(TWO), Party(ONE), paths=("x",))
    assert engine.meet_owner(token, key_of(ONE), evidence) is None
