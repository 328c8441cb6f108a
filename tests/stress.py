"""Runs tests where load would make them fail: with burners on each core, and while their processes are stopped.

`python tests/stress.py` runs the tests of changed rooms, in rounds with other orders of the tests, until `--minutes`
are over; `--all` takes every room, `--test NAME` one file or test (`--rounds 20` where it is new). In every other round
one random child of the run is stopped for up to two seconds, again and again: that finds what load finds, in less time.
What failed is printed as rows of `tests/flaky.tsv`; the exit code is 1 where something did.
"""

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from processes import list_below

ROOT = Path(__file__).parents[1]
BURN = "while True: pass"
BURNERS_OF_CORE = 2
ROUNDS = 5
STOP_INTERVAL_S = 0.2
MAX_STOP_S = 2.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--test", action="append", default=[])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--minutes", type=float, default=15.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    tests: list[str] = given.test or (["tests"] if given.all else list_changed_rooms())
    if not tests:
        print("no room is changed: name a test by --test, or take --all")
        return 0
    end = time.monotonic() + given.minutes * 60
    burners = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range(BURNERS_OF_CORE * (os.cpu_count() or 1))]
    failures = list[str]()
    try:
        for number in range(given.rounds):
            failures += run_round(tests, given.seed + number, stops=number % 2 == 1, seconds=end - time.monotonic())
            if time.monotonic() > end:
                print(f"time is over after round {number + 1} of {given.rounds}")
                break
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
    print(*sorted(failures), f"{len(failures)} failures", sep="\n")
    return 1 if failures else 0


def list_changed_rooms() -> list[str]:
    chosen = [sys.executable, str(ROOT / ".ci" / "live_tests.py")]
    done = subprocess.run(chosen, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.split()


def run_round(tests: list[str], seed: int, stops: bool, seconds: float) -> list[str]:
    """Run the tests once, in an order of their own; the lines of what failed."""
    tier = [] if any("::" in test for test in tests) else ["-m", "system"]
    command = [sys.executable, "-m", "pytest", "-n", "2", "-q", "-p", "no:cacheprovider", *tier, *tests]
    environment = {**os.environ, "REMIT_TEST_ORDER": str(seed)}
    print(f"round with seed {seed}{', children stopped' if stops else ''}", flush=True)
    run = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    over = threading.Timer(max(60.0, seconds), run.terminate)
    over.start()
    ended = threading.Event()
    stopper = threading.Thread(target=stop_children, args=(run.pid, random.Random(seed), ended))
    if stops:
        stopper.start()
    printed = run.communicate()[0]
    over.cancel()
    ended.set()
    if stops:
        stopper.join()
    print("\n".join(printed.splitlines()[-1:]), flush=True)
    return re.findall(r"^(?:FAILED|ERROR) .*$", printed, re.MULTILINE)


def stop_children(root: int, chance: random.Random, ended: threading.Event) -> None:
    """Stop one child of a run after another, and let it go on; pytest's own workers too."""
    while not ended.wait(STOP_INTERVAL_S):
        children = list_below(root)
        if not children:
            continue
        child = chance.choice(children)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGSTOP)
            ended.wait(chance.uniform(0.0, MAX_STOP_S))
            os.kill(child, signal.SIGCONT)


if __name__ == "__main__":
    sys.exit(main())
