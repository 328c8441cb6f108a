"""Mutation of the pure rooms: each condition of the code is changed in turn, and a test of its room must fail.

`python -m benchmarks.mutate` changes 300 places drawn by `--seed`; `--count 0` all of them, `--room policy` those of a
room, `--changed main` those of the functions changed since a commit (informative: the exit code is 0). A mutant that no
test catches is a survivor. It needs a row in a table of tests or, if no test can see it, a row in `tests/survivors.tsv`
with the reason. The exit code is 1 if a survivor has neither.

Pytest collects a room's tests once and is forked for each mutant. The mutant is applied to the live functions of its
module by their `__code__`, so that each importer sees it; only the tests that reach the function run, the quickest
first. Tables of a module and defaults of arguments are evaluated at import, and are not changed.
"""

import ast
import contextlib
import gc
import importlib
import json
import multiprocessing
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, TextIO

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from mutants import ROOMS, ROOT, Mutant, Room, find_enums, list_functions, list_mutants, read_survivors
from sources import PACKAGES

MAX_CHANGED = 40
"""Mutants of a run with `--changed`."""
MAX_TEST_SECONDS = 60.0
"""CPU seconds of the tests that one mutant meets, by the first run: the longest tests are left out."""
LIMIT_FACTOR, LIMIT_SECONDS = 20, 20
"""A mutant gets this many times the CPU seconds of its tests, and these on top: afterwards it loops, and is caught."""
MAX_WALL_SECONDS = 600.0


# -- running -------------------------------------------------------------------------------------------------


@dataclass
class Reached:
    """A test of the first run: its CPU seconds, and the functions of the room that it calls."""

    item: pytest.Item
    seconds: float
    functions: set[str]


class MutationRun:
    """A plug-in that runs the collected tests of a room once, and then for each mutant, each time in a fork."""

    def __init__(self, room: Room, mutants: list[Mutant], print_line: Callable[[str], None], folder: Path) -> None:
        self.room, self.mutants, self.print_line, self.folder = room, mutants, print_line, folder
        self.has_failed = False
        self.caches: list[Any] = []
        self.survivors: list[tuple[str, str, str, str]] = []
        self.counts: dict[str, int] = dict.fromkeys(("caught", "survived", "out of time", "not applied"), 0)

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        # Imported here: pytest rewrites the asserts of its plug-ins when they are imported.
        from hypothesis import HealthCheck, Phase, settings

        # The same examples for each mutant, none kept for later runs, and none made smaller: one that fails is enough.
        settings.register_profile(
            "mutate",
            derandomize=True,
            database=None,
            deadline=None,
            phases=(Phase.explicit, Phase.generate),
            suppress_health_check=[HealthCheck.too_slow],
        )
        settings.load_profile("mutate")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.has_failed |= report.failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        gc.unfreeze()  # what is frozen is in no list of objects
        live = find_live_functions(self.mutants)
        self.caches = [one for one in gc.get_objects() if is_own_cache(one)]
        gc.collect()
        gc.freeze()
        reached = self.measure_tests(session.items)
        for mutant in self.mutants:
            name = f"{mutant.path}:{mutant.function}"
            tests, seconds = list[pytest.Item](), 0.0
            for one in sorted((one for one in reached if name in one.functions), key=lambda one: one.seconds):
                seconds += one.seconds
                if tests and seconds > MAX_TEST_SECONDS:
                    break
                tests.append(one.item)
            code = mutant.compile_function()
            functions = live.get(name, [])
            if code is None or not functions or any(f.__code__.co_freevars != code.co_freevars for f in functions):
                result = "not applied"
            elif not tests:
                result = "survived"
            else:
                result = self.try_mutant(functions, code, tests, int(LIMIT_FACTOR * seconds) + LIMIT_SECONDS)
            self.counts[result] += 1
            if result == "survived":
                self.survivors.append(mutant.key)
            if result in ("survived", "not applied"):
                self.print_line("\t".join((*mutant.key, f"{result}, {len(tests)} tests")))
        return True

    def measure_tests(self, items: list[pytest.Item]) -> list[Reached]:
        """Run each test once, and return those that pass."""
        path = self.folder / "reached.json"
        wanted = {str(mutant.path) for mutant in self.mutants}

        def run() -> None:
            calls: set[CodeType] = set()

            def note_call(frame: FrameType, event: str, _: object) -> None:
                if event == "call":
                    calls.add(frame.f_code)

            threading.setprofile(note_call)
            rows: list[tuple[int, float, list[str]]] = []
            for number, item in enumerate(items):
                self.clear_caches()
                calls.clear()
                self.has_failed, before = False, time.process_time()
                sys.setprofile(note_call)
                run_test(item, items[number + 1] if number + 1 < len(items) else None)
                sys.setprofile(None)
                names = {f"{code.co_filename}:{outer_name(code)}" for code in list(calls) if code.co_filename in wanted}
                if self.has_failed:
                    self.print_line(f"{item.nodeid} fails without a mutant: it is left out")
                elif names:
                    rows.append((number, time.process_time() - before, sorted(names)))
            path.write_text(json.dumps(rows))

        run_in_fork(run, None, 6 * MAX_WALL_SECONDS)
        rows: list[tuple[int, float, list[str]]] = json.loads(path.read_text())
        return [Reached(items[number], seconds, set(names)) for number, seconds, names in rows]

    def clear_caches(self) -> None:
        """Forget what functions have kept: a kept answer hides a mutant, and who calls the function."""
        for one in self.caches:
            one.cache_clear()

    def try_mutant(self, functions: list[FunctionType], code: CodeType, tests: list[pytest.Item], limit_s: int) -> str:
        """Apply a mutant in a fork, and run these tests up to the first that fails."""

        def run() -> None:
            for function in functions:
                function.__code__ = code
            self.clear_caches()
            for number, item in enumerate(tests):
                run_test(item, tests[number + 1] if number + 1 < len(tests) else None)
                if self.has_failed:
                    os._exit(1)

        status = run_in_fork(run, limit_s, MAX_WALL_SECONDS)
        return "survived" if status == 0 else "caught" if status == 1 else "out of time"


def run_test(item: pytest.Item, following: pytest.Item | None) -> None:
    hook: Any = item.config.hook
    hook.pytest_runtest_protocol(item=item, nextitem=following)


def run_in_fork(run: Callable[[], None], cpu_s: int | None, wall_s: float) -> int | None:
    """Run a function in a forked process; its exit code, or None if it was ended."""

    def run_limited() -> None:
        os.setsid()
        if cpu_s is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 5))
        code = 1
        try:
            run()
            code = 0
        finally:
            os._exit(code)

    process = multiprocessing.get_context("fork").Process(target=run_limited)
    process.start()
    process.join(wall_s)
    if process.is_alive():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid or 0, 9)
        process.join()
    return process.exitcode if process.exitcode in (0, 1) else None


def outer_name(code: CodeType) -> str:
    return code.co_qualname.partition(".<locals>")[0]


def find_live_functions(mutants: Iterable[Mutant]) -> dict[str, list[FunctionType]]:
    """Import the files of the mutants, and return their functions by file and name, whatever wraps them."""
    paths = {mutant.path for mutant in mutants}
    for path in sorted(paths):
        folder = next(package.parent for package in PACKAGES if path.is_relative_to(package))
        importlib.import_module(".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__"))
    files = {str(path) for path in paths}
    found: dict[str, list[FunctionType]] = {}
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and one.__code__.co_filename in files:
            found.setdefault(f"{one.__code__.co_filename}:{one.__code__.co_qualname}", []).append(one)
    return found


def is_own_cache(one: object) -> bool:
    tops = {package.name for package in PACKAGES}
    return isinstance(one, type(find_enums)) and (one.__module__ or "").partition(".")[0] in tops


# -- the command ---------------------------------------------------------------------------------------------


def find_changed(base: str) -> Callable[[Mutant], bool]:
    """Return the question whether a mutant lies in a function that was changed since a commit."""
    diff = subprocess.run(
        ["git", "-C", str(ROOT), "diff", "-U0", base, "--", "src", "packages"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    lines: dict[Path, set[int]] = {}
    path = ROOT
    for line in diff.splitlines():
        if line.startswith("+++ "):
            path = ROOT / line.removeprefix("+++ b/")
        elif hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            lines.setdefault(path, set()).update(range(first, first + max(count, 1)))
    spans = {
        (path, name): range(node.lineno, (node.end_lineno or node.lineno) + 1)
        for path in lines
        if path.exists()
        for name, node in list_functions(ast.parse(path.read_text("utf-8")))
    }
    return lambda mutant: not lines.get(mutant.path, set()).isdisjoint(spans.get((mutant.path, mutant.function), ()))


def draw_mutants(options: Namespace) -> list[Mutant]:
    found = [mutant for room in ROOMS if options.room in ("", room.name) for mutant in list_mutants(room)]
    found = [mutant for mutant in found if re.search(options.only, "\t".join(mutant.key))]
    if options.changed:
        found = list(filter(find_changed(options.changed), found))
    count = min(options.count or len(found), MAX_CHANGED if options.changed else len(found))
    drawn = set(random.Random(options.seed).sample(range(len(found)), min(count, len(found))))
    return [mutant for number, mutant in enumerate(found) if number in drawn]


def run_room(room: Room, mutants: list[Mutant], folder: Path, console: TextIO) -> None:
    """Collect the room's tests, try the mutants, and write what came of them to `result.json`."""
    run = MutationRun(room, mutants, lambda line: print(line, file=console, flush=True), folder)
    words = ("-q", "--no-header", "-p", "no:cacheprovider", "-m", room.tiers)
    log = folder / "pytest.log"
    with log.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    code = pytest.main([*words, f"--basetemp={folder / 'tmp'}", *room.tests], plugins=[run])
    if code != pytest.ExitCode.OK:
        print(log.read_text(), file=console, flush=True)
        sys.exit(2)
    (folder / "result.json").write_text(json.dumps([run.counts, run.survivors]))


def main() -> int:
    parser = ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--room", default="", choices=["", *(room.name for room in ROOMS)])
    parser.add_argument("--changed", default="", metavar="BASE", help="only functions changed since this commit")
    parser.add_argument("--count", type=int, default=300, help="mutants to draw; 0 for all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="only mutants whose row matches this expression")
    parser.add_argument("--list", action="store_true", help="print the mutants, and run nothing")
    options = parser.parse_args()
    mutants = draw_mutants(options)
    if options.list:
        print(*("\t".join(mutant.key) for mutant in mutants), sep="\n")
        return 0
    os.chdir(ROOT)
    accepted = read_survivors()
    unexplained = 0
    for room in ROOMS:
        own = [mutant for mutant in mutants if mutant.room is room]
        if not own:
            continue
        with tempfile.TemporaryDirectory() as name:
            started = resource.getrusage(resource.RUSAGE_CHILDREN)
            process = multiprocessing.get_context("fork").Process(
                target=run_room, args=(room, own, Path(name), os.fdopen(os.dup(1), "w"))
            )
            process.start()
            process.join()
            if process.exitcode:
                return 2
            counts, survivors = json.loads((Path(name) / "result.json").read_text())
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = ended.ru_utime + ended.ru_stime - started.ru_utime - started.ru_stime
        fresh = [key for key in survivors if tuple(key) not in accepted]
        unexplained += len(fresh)
        told = ", ".join(f"{count} {result}" for result, count in counts.items())
        print(f"== {room.name}: {len(own)} mutants in {seconds:.0f} CPU s: {told}, {len(fresh)} of them unexplained")
    return int(bool(unexplained) and not options.changed)


if __name__ == "__main__":
    sys.exit(main())
