"""The laws of the fleet over many seeds, and how close the schedule comes to the shortest possible time.

`python benchmarks/schedules.py [--seeds N] [--first N] [--laws]`, 10,000 seeds by default, on two processes. Processor
time stands beside the clock's, which other work on the machine moves. All is simulated: tasks are of ten minutes on
average, and no agent runs. A seed that breaks a law prints the script that led there, and ends the run.

The bound of a makespan is the longest of work divided by workers, the critical path, and the work and landings of the
tasks that may write one path. It knows nothing of attempts that fail, nor of the landings of the other tasks, so that
1.0 cannot be reached. The speed-up is the work of all
tasks, as one agent would do it, divided by the makespan.
"""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from multiprocessing import Pool
from pathlib import Path
from statistics import median, quantiles

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from fleet.world import ROUGH, Settings, find_bound, run_seed
from remit_fleet.board import Board, FleetRepository, OpenPlan, Proof, ProofAnswer, Task, Worker, pair_scopes
from remit_fleet.schedule import measure_tails, schedule

PROCESSES = 2
BLOCK = 250
SAMPLE = 200
"""Seeds of a row of the table of makespans."""
LONG_CHAINS = Settings(tasks=60, needs=0.5, nearness=10)
MANY = replace(ROUGH, thorough=False)
FAILING = Settings(tasks=60, workers=8, failed=0.1, died=0.03, grown=0.05)


def run_block(first: int) -> tuple[int, Counter[str], int, int]:
    """Run a block of seeds: events, ends of attempts, tasks landed, effects of superseded attempts refused."""
    events = landed = refused = 0
    ends: Counter[str] = Counter()
    for seed in range(first, first + BLOCK):
        figures = run_seed(seed, MANY)
        events += figures.events
        landed += figures.landed
        refused += figures.zombies_refused
        ends.update(figures.ends)
    return events, ends, landed, refused


def check_laws(seeds: int, first: int) -> None:
    began = time.perf_counter()
    events = landed = refused = 0
    ends: Counter[str] = Counter()
    with Pool(PROCESSES) as pool:
        for block in pool.imap_unordered(run_block, range(first, first + seeds, BLOCK)):
            events, landed, refused = events + block[0], landed + block[2], refused + block[3]
            ends.update(block[1])
        pool.close()
        pool.join()
    took = time.perf_counter() - began
    used = os.times().children_user + os.times().children_system
    each = used / PROCESSES
    print(
        f"{seeds} seeds, {ROUGH.tasks} tasks, 1 to 9 workers: {took:.1f} s; {PROCESSES} processors, {each:.1f} s each"
    )
    print(f"  {events:,} events, no law broken after any of them")
    print(
        f"  landed {landed / seeds / ROUGH.tasks:.1%} of the tasks; {refused:,} effects of superseded attempts refused"
    )
    print("  attempts:", ", ".join(f"{end} {count:,}" for end, count in ends.most_common()))


def measure_row(job: tuple[int, Settings]) -> tuple[float, float, float]:
    """Run a seed: makespan divided by the bound, speed-up, share of tasks landed."""
    seed, settings = job
    figures = run_seed(seed, settings)
    bound = find_bound(figures, settings.workers * settings.slots)
    return figures.makespan_s / bound, figures.work_s / figures.makespan_s, figures.landed / figures.tasks


def print_rows(title: str, rows: Sequence[tuple[str, Settings]]) -> None:
    print(f"\n{title}, {SAMPLE} seeds\n{'':44} makespan ÷ bound p50 / p95   speed-up p50   landed")
    with Pool(PROCESSES) as pool:
        for name, settings in rows:
            found = pool.map(measure_row, [(seed, settings) for seed in range(SAMPLE)], chunksize=20)
            ratios, speedups, shares = zip(*found, strict=True)
            ninety_fifth = quantiles(ratios, n=20)[-1]
            print(f"{name:44} {median(ratios):17.2f} / {ninety_fifth:.2f} {median(speedups):14.1f} ", end="")
            print(f"{sum(shares) / len(shares):8.1%}")


def time_schedule(count: int, slots: int) -> float:
    """Return the seconds in which the first tasks of a plan are scheduled, of which none needs another."""
    tasks = [Task("p", f"INT-{n:04}", "r", scope_sha256=str(n), estimate_s=60.0 + n % 97) for n in range(count)]
    apart = Proof(ProofAnswer.APART)
    board = Board(
        0.0,
        {"r": FleetRepository("r")},
        {"p": OpenPlan("p", "r", "t")},
        {task.key: task for task in measure_tails(tasks)},
        workers={"w": Worker("w", "h", slots=slots, agents=("a",))},
        proofs={pair_scopes(a.scope_sha256, b.scope_sha256): apart for a in tasks for b in tasks if a is not b},
    )
    times: list[float] = []
    for _ in range(9):
        began = time.perf_counter()
        claims = schedule(board).claims
        times.append(time.perf_counter() - began)
        assert len(claims) == slots
    return median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description="The laws of the fleet, and its makespans.")
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--laws", action="store_true", help="only the laws")
    chosen = parser.parse_args()
    check_laws(chosen.seeds, chosen.first)
    if chosen.laws:
        return
    sizes = (2, 4, 8, 16)
    print_rows(
        "60 tasks, nothing fails",
        [
            *((f"{n:2} workers", Settings(tasks=60, workers=n)) for n in sizes),
            *((f"{n:2} workers, long chains", replace(LONG_CHAINS, workers=n)) for n in sizes),
            *(
                (f"{n:2} workers, long chains, in the plan's order", replace(LONG_CHAINS, workers=n, is_ranked=False))
                for n in sizes
            ),
        ],
    )
    print_rows(
        "60 tasks, 8 workers; 10 % of attempts fail, 3 % lose their worker, 5 % need a path more",
        [
            *((f"{part:.0%} of the tasks overlap", replace(FAILING, overlap=part)) for part in (0.0, 0.15, 0.5)),
            *((f"{part:.0%} of all pairs overlap", replace(FAILING, shared_pairs=part)) for part in (0.02, 0.05)),
            *((f"a verification takes {s} s", replace(FAILING, verify_s=s)) for s in (120, 300, 900)),
            *(
                (f"a verification takes {s} s, trains of one", replace(FAILING, verify_s=s, train=1))
                for s in (120, 300)
            ),
        ],
    )
    for count in (30, 300, 1000):
        print(f"scheduling {count} tasks on 16 free slots: {time_schedule(count, 16) * 1000:.2f} ms")


if __name__ == "__main__":
    main()
