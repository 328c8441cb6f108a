"""How close schedules come to the shortest possible time, on some of the seeds of `benchmarks/schedules.py`."""

from dataclasses import replace
from statistics import median, quantiles

import pytest

from fleet.world import Settings, find_bound, run_seed

SEEDS = range(30)
MANY_SEEDS = range(100)
"""A twentieth of them is enough to say what the slowest twentieth takes."""
PLAN = Settings(tasks=60, thorough=False)


def measure(settings: Settings, seeds: range = SEEDS, *, shares_paths: bool = False) -> tuple[list[float], float]:
    """Return makespans divided by their bound, and the median speed-up over one agent. The bound counts work and
    needs; with `shares_paths` also the most wanted path.
    """
    runs = [run_seed(seed, settings) for seed in seeds]
    bounds = [max(run.work_s / settings.workers, run.critical_s) for run in runs]
    if shares_paths:
        bounds = [find_bound(run, settings.workers) for run in runs]
    ratios = [run.makespan_s / bound for run, bound in zip(runs, bounds, strict=True)]
    return ratios, median(run.work_s / run.makespan_s for run in runs)


@pytest.mark.live
def test_four_workers_come_close_to_the_bound() -> None:
    for settings in (replace(PLAN, workers=4), replace(PLAN, workers=4, needs=0.5, nearness=10)):
        ratios, speedup = measure(settings, MANY_SEEDS)
        assert median(ratios) <= 1.12
        assert quantiles(ratios, n=20)[-1] <= 1.30
        assert speedup >= 3.5


@pytest.mark.live
def test_tasks_that_share_paths_come_close_to_what_their_paths_allow() -> None:
    """Work and needs alone say nothing of them: at ten percent of the pairs, schedules take twice that bound."""
    for share in (0.02, 0.05, 0.1):
        ratios, _ = measure(replace(PLAN, workers=8, shared_pairs=share), shares_paths=True)
        assert median(ratios) <= 1.40


def test_eight_workers_are_worth_it_while_attempts_fail() -> None:
    _, speedup = measure(replace(PLAN, workers=8, failed=0.1, died=0.03, grown=0.05, overlap=0.15))
    assert speedup >= 4.2


def test_the_longest_tail_first_is_quicker_than_the_order_of_the_plan() -> None:
    chains = replace(PLAN, workers=4, needs=0.5, nearness=10)
    ranked, unranked = measure(chains), measure(replace(chains, is_ranked=False))
    assert median(ranked[0]) < median(unranked[0])


def test_trains_are_quicker_than_single_landings_where_verification_is_slow() -> None:
    slow = replace(PLAN, workers=8, verify_s=300.0)
    assert measure(slow)[1] > 2 * measure(replace(slow, train=1))[1]
