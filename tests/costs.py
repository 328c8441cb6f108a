"""What each test costs: a plug-in that writes CPU seconds by test, and the programs that it started.

`pytest -p costs --costs FOLDER` writes one table for each worker. `python tests/costs.py FOLDER BUDGET` adds them up by
room, and exits with 1 where a room costs more than its budget, which may only fall. CPU seconds of a busy machine are
longer: all budgets grow by what the median room costs more than planned.
"""

import os
import resource
import statistics
import sys
import time
import tomllib
from collections.abc import Generator
from pathlib import Path

import pytest

import forked_commands
import tiers


def measure() -> tuple[float, float, float]:
    """CPU seconds of this process, of its children that ended, and the monotonic clock."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    forked = forked_commands.seconds_used
    return own.ru_utime + own.ru_stime, children.ru_utime + children.ru_stime + forked, time.monotonic()


TOLERANCE = 1.25
LEAST_CPU_S = 5.0
"""Rooms below are never over budget: chance decides there."""


class Costs:
    """The table of one worker."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = (folder / f"{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}.tsv").open("a", encoding="utf-8")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        before = measure()
        result = yield
        own, children, wall = (now - then for now, then in zip(measure(), before, strict=True))
        tier = next((name for name in tiers.TIERS if item.get_closest_marker(name)), "none")
        programs = ",".join(f"{name}:{times}" for name, times in sorted(tiers.started.items()))
        self.file.write(f"{item.nodeid}\t{tier}\t{own:.3f}\t{children:.3f}\t{wall:.3f}\t{programs}\n")
        self.file.flush()
        return result


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--costs", type=Path, help="write what each test costs into this folder")


def pytest_configure(config: pytest.Config) -> None:
    folder: Path | None = config.getoption("--costs")
    if folder is not None and (hasattr(config, "workerinput") or config.getoption("numprocesses", 0) in {0, None}):
        config.pluginmanager.register(Costs(folder.absolute()), "costs of tests")


def add_up(folder: Path) -> dict[str, float]:
    """CPU seconds by room, from the tables of one run; the dearest tests are printed."""
    rooms, tests = dict[str, float](), list[tuple[float, str, str]]()
    for table in folder.glob("*.tsv"):
        for line in table.read_text("utf-8").splitlines():
            test, tier, own, children, _, programs = line.split("\t")
            if tier == "unit" and programs:
                print(f"a unit test started {programs}: {test}")
            seconds = float(own) + float(children)
            room = test.split("::")[0].split("/")[1]
            rooms[room] = rooms.get(room, 0.0) + seconds
            tests.append((seconds, tier, test))
    for seconds, tier, test in sorted(tests, reverse=True)[:10]:
        print(f"{seconds:6.1f} CPU s  {tier:6} {test}")
    return rooms


def main(folder: Path, budget_file: Path) -> int:
    rooms = add_up(folder)
    budget: dict[str, float] = tomllib.loads(budget_file.read_text("utf-8"))["cpu_seconds"]
    ratios = [rooms.get(room, 0.0) / planned for room, planned in budget.items() if planned >= LEAST_CPU_S]
    busy = max(1.0, statistics.median(ratios or [1.0]))
    over = list[str]()
    for room, seconds in sorted(rooms.items(), key=lambda item: -item[1]):
        planned = budget.get(room, LEAST_CPU_S)
        is_over = seconds > max(LEAST_CPU_S, planned) * busy * TOLERANCE
        over += [room] if is_over else []
        print(f"{seconds:6.1f} CPU s of {planned:5.1f}  {room}{'  OVER ITS BUDGET' if is_over else ''}")
    print(f"{sum(rooms.values()):6.1f} CPU s of {sum(budget.values()):5.1f}  in all; slower than planned: {busy:.2f}")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
