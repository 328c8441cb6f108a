"""What each test costs: a plug-in that writes CPU seconds by test, and the kind of programs that it started.

`pytest -p costs --costs FOLDER` writes one table for each worker: test, tier, CPU seconds of the test's own process and
of its children that ended, wall seconds, programs started. `python tests/costs.py FOLDER` adds them up by room.
"""

import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import forked_commands

started: Counter[str] = Counter()


def note_start(event: str, arguments: tuple[Any, ...]) -> None:
    """Count the processes that this one starts, by the name of their program."""
    if event == "subprocess.Popen":
        started[Path(os.fsdecode(arguments[0])).name] += 1
    elif event in {"os.fork", "os.forkpty", "os.posix_spawn"}:
        started[event] += 1


def measure() -> tuple[float, float, float]:
    """CPU seconds of this process, of its children that ended, and the monotonic clock."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    forked = forked_commands.seconds_used
    return own.ru_utime + own.ru_stime, children.ru_utime + children.ru_stime + forked, time.monotonic()


class Costs:
    """The table of one worker."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file = (folder / f"{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}.tsv").open("a", encoding="utf-8")
        sys.addaudithook(note_start)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        started.clear()
        before = measure()
        result = yield
        own, children, wall = (now - then for now, then in zip(measure(), before, strict=True))
        marks = ",".join(sorted({mark.name for mark in item.iter_markers()}))
        programs = ",".join(f"{name}:{times}" for name, times in sorted(started.items()))
        fixtures = ",".join(getattr(item, "fixturenames", ()))
        self.file.write(f"{item.nodeid}\t{marks}\t{own:.3f}\t{children:.3f}\t{wall:.3f}\t{programs}\t{fixtures}\n")
        self.file.flush()
        return result


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--costs", type=Path, help="write what each test costs into this folder")


def pytest_configure(config: pytest.Config) -> None:
    folder: Path | None = config.getoption("--costs")
    if folder is not None and (hasattr(config, "workerinput") or config.getoption("numprocesses", 0) in {0, None}):
        config.pluginmanager.register(Costs(folder.absolute()), "costs of tests")
