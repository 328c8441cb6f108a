"""Engines that are wrong on purpose: each breaks a law that the world has to notice."""

from collections.abc import Mapping, Sequence
from dataclasses import replace as replace_settings

import pytest
from msgspec.structs import replace

from fleet.world import APART, ROUGH, LawBroken, R, Settings, World
from remit_fleet.board import (
    Attempt,
    AttemptEnd,
    Claim,
    Ending,
    Hold,
    Landing,
    Proof,
    Task,
    TaskKey,
    TaskState,
    Worker,
)
from remit_fleet.engines.memory import MemoryEngine
from remit_fleet.rows import Rows

SETTINGS = replace_settings(ROUGH, overlap=0.5, frozen=0.2, died=0.2)


class TokenBlindEngine(MemoryEngine):
    """Accepts effects of superseded attempts."""

    def find_live(self, rows: Rows, token: int, key: TaskKey) -> tuple[Attempt, Task] | None:
        attempt = rows.live.get(key)
        return (attempt, rows.tasks[key]) if attempt is not None else None


class RepeatedTokenEngine(MemoryEngine):
    """Gives the same token twice."""

    def dispatch(self) -> tuple[Claim, ...]:
        claims = super().dispatch()
        self.rows.repositories[R] = replace(self.rows.repositories[R], token_last=3)
        return claims


class UnprovedEngine(MemoryEngine):
    """Takes every pair for apart."""

    def beat(self, worker: Worker) -> Sequence[Hold]:
        self.rows.proofs.update(dict.fromkeys(self.rows.proofs, APART))
        self.rows.prove_pair = call_apart
        return super().beat(worker)


def call_apart(_: Task | Hold, __: Task | Hold) -> Proof:
    return APART


class CrowdedEngine(MemoryEngine):
    """Sees a slot more at each worker than there is."""

    def beat(self, worker: Worker) -> Sequence[Hold]:
        return super().beat(replace(worker, slots=worker.slots + 1))


class ForgetfulEngine(MemoryEngine):
    """Never ends what is over."""

    def sweep(self) -> Sequence[Ending]:
        return ()


class IdleLanderEngine(MemoryEngine):
    """Forgets that a task was handed in."""

    def gather_landing(
        self, repository: str, target: str, old: str, touched: Mapping[str, Sequence[str]]
    ) -> Landing | None:
        return super().gather_landing(repository, target, old, touched) if len(self.rows.landings) < 5 else None


class SpendthriftEngine(MemoryEngine):
    """Reserves nothing."""

    def dispatch(self) -> tuple[Claim, ...]:
        before = self.rows.budgets.copy()
        claims = super().dispatch()
        self.rows.budgets.update(before)
        return claims


class LooseHoldEngine(MemoryEngine):
    """Frees the paths of what was handed in before it has landed."""

    def end_attempt(self, token: int, key: TaskKey, ended_as: AttemptEnd, failure: str = "", why: str = "") -> bool:
        accepted = super().end_attempt(token, key, ended_as, failure, why)
        if self.rows.tasks[key].state is TaskState.HANDED_IN:
            self.rows.holds.pop(key, None)
        return accepted


@pytest.mark.parametrize(
    ("engine", "law"),
    [
        (TokenBlindEngine, "2: token"),
        (RepeatedTokenEngine, "2: token"),
        (UnprovedEngine, "1: two holds share a path"),
        (CrowdedEngine, "7: "),
        (ForgetfulEngine, "10: "),
        (IdleLanderEngine, "3: "),
        (SpendthriftEngine, "5: "),
        (LooseHoldEngine, "KeyError"),
    ],
)
def test_a_wrong_engine_is_found(engine: type[MemoryEngine], law: str) -> None:
    settings = replace_settings(SETTINGS, budget_usd=3.0) if engine is SpendthriftEngine else SETTINGS
    with pytest.raises(LawBroken, match=law):
        run_seeds(engine, settings)


def test_a_broken_law_prints_the_script_that_led_there() -> None:
    with pytest.raises(LawBroken) as broken:
        run_seeds(UnprovedEngine, SETTINGS, log=True)
    assert "seed " in str(broken.value)
    assert "claim INT-" in str(broken.value)


def run_seeds(engine: type[MemoryEngine], settings: Settings, *, log: bool = False) -> None:
    """Run some seeds around an engine."""

    class BrokenWorld(World):
        engine_type = engine

    for seed in range(20):
        BrokenWorld(seed, settings, log=log).run()
