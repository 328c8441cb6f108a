"""Engines that are wrong on purpose: each breaks a law that the world has to notice."""

from collections.abc import Sequence
from dataclasses import replace as replace_settings

import pytest
from msgspec.structs import replace

from fleet.world import ROUGH, LawBroken, Settings, World
from remit_fleet.board import (
    Attempt,
    AttemptEnd,
    Board,
    Claim,
    Ending,
    Proof,
    ProofAnswer,
    Task,
    TaskKey,
    TaskState,
)
from remit_fleet.engines.inline import InlineEngine

SETTINGS = replace_settings(ROUGH, overlap=0.5, frozen=0.2)


class TokenBlindEngine(InlineEngine):
    """Accepts effects of superseded attempts."""

    def _find_attempt(self, token: int, key: TaskKey) -> Attempt | None:
        return self.live.get(key)


class RepeatedTokenEngine(InlineEngine):
    """Gives the same token twice."""

    def dispatch(self) -> tuple[Claim, ...]:
        claims = super().dispatch()
        self.repositories = {id: replace(repository, token_last=3) for id, repository in self.repositories.items()}
        return claims


class UnprovedEngine(InlineEngine):
    """Takes every pair for apart."""

    def _prove(self, task: Task) -> None:
        super()._prove(task)
        self.proofs = dict.fromkeys(self.proofs, Proof(ProofAnswer.APART))


class CrowdedEngine(InlineEngine):
    """Sees a slot more at each worker than there is."""

    def _view_board(self) -> Board:
        board = super()._view_board()
        workers = {id: replace(worker, slots=worker.slots + 1) for id, worker in board.workers.items()}
        return replace(board, workers=workers)


class ForgetfulEngine(InlineEngine):
    """Never ends what is over."""

    def sweep(self) -> Sequence[Ending]:
        return ()


class IdleLanderEngine(InlineEngine):
    """Forgets that a task was handed in."""

    def enqueue_landing(self, repository: str, target: str) -> None:
        if len(self.landings) < 5:
            super().enqueue_landing(repository, target)


class SpendthriftEngine(InlineEngine):
    """Reserves nothing."""

    def dispatch(self) -> tuple[Claim, ...]:
        before = self.budgets.copy()
        claims = super().dispatch()
        self.budgets = before
        return claims


class LooseHoldEngine(InlineEngine):
    """Frees the paths of what was handed in before it has landed."""

    def end_attempt(self, token: int, key: TaskKey, ended_as: AttemptEnd, failure: str = "", why: str = "") -> bool:
        accepted = super().end_attempt(token, key, ended_as, failure, why)
        if self.tasks[key].state is TaskState.HANDED_IN:
            self.holds.pop(key, None)
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
def test_a_wrong_engine_is_found(engine: type[InlineEngine], law: str) -> None:
    settings = replace_settings(SETTINGS, budget_usd=3.0) if engine is SpendthriftEngine else SETTINGS
    with pytest.raises(LawBroken, match=law):
        run_seeds(engine, settings)


def test_a_broken_law_prints_the_script_that_led_there() -> None:
    with pytest.raises(LawBroken) as broken:
        run_seeds(UnprovedEngine, SETTINGS, log=True)
    assert "seed " in str(broken.value)
    assert "claim INT-" in str(broken.value)


def run_seeds(engine: type[InlineEngine], settings: Settings, *, log: bool = False) -> None:
    """Run some seeds around an engine."""

    class BrokenWorld(World):
        engine_type = engine

    for seed in range(20):
        BrokenWorld(seed, settings, log=log).run()
