"""Fuzzing of what strangers hand to Remit: commands, paths, settings files and hook payloads.

`python benchmarks/fuzz.py [--minutes 10] [--seconds N] [--seed N] [--area NAME]`. The seeds are real ones: the command
corpora, the captured payloads, settings files of every dialect. What must hold: nothing is raised but the errors that
are promised, no process ends, no case takes longer than a few seconds; a command, a path or a payload that was refused
is not let through for junk that stands before, in, behind or around it; settings that are merged and taken out again
are what they were, byte for byte.

The work is done in a child, which notes down each case before it tries it: a parser may end the whole process. Each
finding is a line of JSON; the exit code is 1 where there was one.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from fuzz_cases import AREAS

from remit.core.agents import ROWS
from remit.gate.gate import Gate
from remit.gate.governing.settings import govern_workspace, set_mode
from remit.gate.machine import Environment
from remit.workspace.place.workspace import workspace_at

SLOWEST_S = 10
BATCH_S = 20.0
"""Seconds that one child works; then the next one begins, with the next seed."""

INTENTS = """\
version: "1.0"
active_intents:
  - id: INT-001
    name: Names
    status: IN_PROGRESS
    owned_scope: ["src/**"]
"""
FILES = ("src/a.py", "src/b.py", "src/pkg/mod.py", "docs/readme.md", "tests/test_a.py", "secret/keys.txt", ".env")

# The child


def ground(top: Path) -> Gate:
    """A repository in enforce, one intent, and a home of its own."""
    root, home = top / "w", top / "home"
    for name in FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x = 1\n")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    (root / ".orchestration").mkdir()
    (root / ".orchestration" / "active_intents.yaml").write_text(INTENTS)
    (home / "tmp").mkdir(parents=True)
    workspace = workspace_at(root, root)
    govern_workspace(workspace)
    set_mode(workspace, "enforce")
    rows = ROWS.values()
    around = Environment(home, home / "tmp", settings=tuple({path for row in rows for path in row.settings_files}))
    return Gate.open(root, around)


def child(area: str, seed: int, seconds: float, note: Path) -> None:
    """Cases of one area, until the time is over. Each kind of finding once, on a line; the number of cases last."""
    done, until, told = 0, time.monotonic() + seconds, set[str]()
    with tempfile.TemporaryDirectory() as top, note.open("wb", buffering=0) as noted:
        for case, trial in AREAS[area](random.Random(seed), ground(Path(top).resolve())):
            raw = json.dumps(case).encode()
            os.pwrite(noted.fileno(), raw, 0)
            os.ftruncate(noted.fileno(), len(raw))
            signal.alarm(SLOWEST_S)
            wrong = tried(trial)
            signal.alarm(0)
            if wrong and wrong not in told:
                told.add(wrong)
                print(json.dumps({"area": area, "seed": seed, "what": wrong, "case": case}), flush=True)
            done += 1
            if time.monotonic() > until:
                break
    print(done)


def tried(trial: Callable[[], str | None]) -> str | None:
    """What is wrong with a case, or where it raised."""
    try:
        return trial()
    except Exception as error:  # noqa: BLE001  whatever it is, it is the finding
        frames = traceback.extract_tb(error.__traceback__)[-3:]
        places = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames))
        return f"{type(error).__name__} at {places}"


# The parent


def batch(area: str, seed: int, seconds: float) -> tuple[int, list[str]]:
    """How many cases a child tried, and what it found; how it ended, if by a signal."""
    with tempfile.NamedTemporaryFile() as note:
        words = [sys.executable, __file__, "--child", note.name, "--area", area, "--seed", str(seed)]
        done = subprocess.run([*words, "--seconds", str(seconds)], capture_output=True, text=True, check=False)
        lines = done.stdout.splitlines()
        if done.returncode == 0 and lines:
            return int(lines[-1]), lines[:-1]
        case = Path(note.name).read_text("utf-8")
    if not case:
        sys.exit(f"the child could not begin:\n{done.stderr}")
    ended = {"area": area, "seed": seed, "what": f"the child ended with {done.returncode}", "case": case}
    return 0, [*lines, json.dumps({**ended, "stderr": done.stderr[-2000:]})]


def main() -> None:
    """All areas by turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--area", choices=sorted(AREAS))
    parser.add_argument("--child", type=Path)
    given = parser.parse_args()
    if given.child:
        child(given.area, given.seed, given.seconds, given.child)
        return
    seconds = given.seconds or given.minutes * 60
    areas: list[str] = [given.area] if given.area else list(AREAS)
    turn = min(BATCH_S, seconds / len(areas))
    counts, found, seed, until = dict.fromkeys(areas, 0), 0, given.seed, time.monotonic() + seconds
    while seed < given.seed + len(areas) or time.monotonic() < until - turn / 2:
        area = areas[int(seed - given.seed) % len(areas)]
        number, lines = batch(area, seed, turn)
        counts[area] += number
        found += len(lines)
        seed += 1
        for line in lines:
            print(line, flush=True)
    done = ", ".join(f"{count} {area}" for area, count in counts.items())
    print(f"{done}: {found} findings, seeds {given.seed} to {seed - 1}")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
