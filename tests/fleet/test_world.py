"""The laws of the fleet, after each event of seeded runs. `benchmarks/schedules.py` runs ten thousand of them."""

from dataclasses import replace

import pytest

from fleet.world import CALM, ROUGH, Settings, run_seed


@pytest.mark.parametrize("block", range(4))
def test_the_laws_hold_whatever_fails(block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        run_seed(seed, ROUGH)


@pytest.mark.parametrize("settings", [{"slots": 3, "workers": 3}, {"stages": 1}, {"train": 1}], ids=str)
def test_the_laws_hold_with_other_sizes(settings: dict[str, int]) -> None:
    for seed in range(20):
        run_seed(seed, replace(ROUGH, **settings))


def test_all_tasks_land_where_nothing_fails() -> None:
    for seed in range(40):
        assert run_seed(seed, CALM).landed == CALM.tasks


@pytest.mark.parametrize("settings", [Settings(slots=4, workers=2), Settings(stages=2), Settings(overlap=1.0)], ids=str)
def test_all_tasks_land_with_other_sizes(settings: Settings) -> None:
    for seed in range(10):
        assert run_seed(seed, settings).landed == settings.tasks


def test_the_laws_hold_while_money_runs_out() -> None:
    for seed in range(40):
        run_seed(seed, replace(ROUGH, budget_usd=3.0))


def test_the_same_seed_is_the_same_run() -> None:
    assert run_seed(7, ROUGH) == run_seed(7, ROUGH)
