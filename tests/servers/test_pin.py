"""The PIN lets an act pass that loosens, where who asks cannot be told; wrong ones cost time."""

import os
import stat
from pathlib import Path

import pytest
from msgspec.structs import replace

from remit.core.acts import Act
from remit.core.machine_paths import STATE_FOLDER
from remit.servers.authority import Judgement, PeerGrade, apply_pin
from remit.servers.pin import FIRST_WAIT_S, FREE_TRIES, MAX_WAIT_S, PinKeeper
from stepped_clock import SteppedClock

GRADES = [grade for grade in PeerGrade if grade != PeerGrade.PERSON]
OPEN = {PeerGrade.UNCLEAR, PeerGrade.SHARED}


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


@pytest.fixture
def keeper(home: Path, clock: SteppedClock) -> PinKeeper:
    found = PinKeeper(home, clock, cost=2)
    found.set("4711")
    return found


@pytest.mark.parametrize("grade", GRADES)
@pytest.mark.parametrize("act", list(Act))
def test_the_right_pin_lets_pass_what_is_unclear_and_loosens(keeper: PinKeeper, grade: PeerGrade, act: Act) -> None:
    without = Judgement(grade, "who knows", "ask").rule(act)
    ruling = apply_pin(without, keeper, "4711")
    is_let = grade in OPEN and act.kind == "loosen" and act != Act.SET_PIN
    assert ruling.allowed is (without.allowed or is_let)
    assert ruling.evidence.get("factor", "") == ("pin" if is_let else "")


def test_a_wrong_pin_and_none_are_refused_with_the_next_step(home: Path, keeper: PinKeeper) -> None:
    ruling = Judgement(PeerGrade.UNCLEAR, "who knows", "ask").rule(Act.TRUST)
    for pin in ("", "4712", "4711\n", "é" * 500):
        found = apply_pin(ruling, keeper, pin)
        assert not found.allowed
        assert "PIN" in found.fix or "remit pin set" in found.fix
    assert keeper.clear()
    found = apply_pin(ruling, keeper, "4711")
    assert not found.allowed
    assert "remit pin set" in found.fix
    assert not keeper.clear()


def test_a_thousand_wrong_tries_at_once_are_ten(keeper: PinKeeper, clock: SteppedClock) -> None:
    found = [keeper.check("0000")[0] for _ in range(1000)]
    assert found == ["wrong"] * FREE_TRIES + ["wait"] * (1000 - FREE_TRIES)
    assert keeper.check("4711") == ("wait", FIRST_WAIT_S)
    clock.passed += FIRST_WAIT_S
    assert keeper.check("4711") == ("right", 0.0)


def test_the_wait_grows_over_a_thousand_tries(keeper: PinKeeper, clock: SteppedClock) -> None:
    waits: list[float] = []
    for _ in range(1000):
        found, wait = keeper.check("0000")
        assert found == "wrong"
        waits.append(wait)
        clock.passed += wait
    assert waits[: FREE_TRIES - 1] == [0.0] * (FREE_TRIES - 1)
    assert waits[FREE_TRIES - 1 : FREE_TRIES + 2] == [FIRST_WAIT_S, 2 * FIRST_WAIT_S, 4 * FIRST_WAIT_S]
    assert waits == sorted(waits)
    assert waits[-1] == MAX_WAIT_S
    assert clock.passed > 900 * MAX_WAIT_S


def test_a_clock_that_jumps_back_shortens_no_wait(keeper: PinKeeper, clock: SteppedClock) -> None:
    for _ in range(FREE_TRIES):
        keeper.check("0000")
    clock.passed += 10
    assert keeper.check("4711") == ("wait", FIRST_WAIT_S - 10)
    clock.passed -= 1_000_000
    assert keeper.check("4711") == ("wait", FIRST_WAIT_S - 10)
    clock.passed += FIRST_WAIT_S - 11
    assert keeper.check("4711") == ("wait", 1.0)


def test_another_process_has_the_same_tries(home: Path, keeper: PinKeeper, clock: SteppedClock) -> None:
    assert {PinKeeper(home, clock).check("0000")[0] for _ in range(FREE_TRIES)} == {"wrong"}
    assert PinKeeper(home, clock).check("4711")[0] == "wait"


def test_the_file_is_the_persons_alone_and_does_not_hold_the_pin(home: Path, keeper: PinKeeper) -> None:
    assert stat.S_IMODE(keeper.path.stat().st_mode) == 0o600
    assert keeper.path.parent == home / STATE_FOLDER
    assert b"4711" not in keeper.path.read_bytes()
    assert os.listdir(keeper.path.parent).count("pin.new") == 0  # noqa: PTH208


def test_a_file_that_is_no_pins_lets_nothing_pass(keeper: PinKeeper) -> None:
    keeper.path.write_bytes(b"{}")
    ruling = Judgement(PeerGrade.SHARED, "who knows", "ask").rule(Act.TRUST)
    assert not apply_pin(ruling, keeper, "4711").allowed
    assert not apply_pin(replace(ruling, grade="agent"), keeper, "4711").allowed
