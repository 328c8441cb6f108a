"""Make a repository of many files and commits, and take the time of `remit plan suggest`.

    python benchmarks/suggest.py [--files 20000] [--commits 3000] [--parts 8]

Bars: 3 s from the start of the process to the answer; the same bytes twice; each pair of parts proved apart.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

ROOMS, LAYERS = 40, 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--commits", type=int, default=3_000)
    parser.add_argument("--parts", type=int, default=8)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "repository"
        (root.parent / "home").mkdir()
        os.environ["HOME"] = str(root.parent / "home")
        make_repository(root, given.files, given.commits)
        answers = [run_suggest(root, given.parts) for _ in range(3)]
    took = ", ".join(f"{wall:.2f} s (processor {processor:.2f})" for wall, processor, _ in answers)
    made = json.loads(answers[0][2])["data"]
    same = len({answer for _, _, answer in answers}) == 1
    print(f"{given.files} files, {given.commits} commits: {took}; same bytes: {same}; apart: {made['is_apart']}")
    print(f"sizes {[part['files'] for part in made['parts']]}, held {made['held']}, random {made['random']}")


def make_repository(root: Path, files: int, commits: int) -> None:
    """Make commits that mostly stay in a room, by git's fast-import."""
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    stream = "".join(write_stream(files, commits))
    subprocess.run(["git", "-C", str(root), "fast-import", "--quiet"], input=stream.encode(), check=True)
    subprocess.run(["git", "-C", str(root), "reset", "-q", "--hard", "work"], check=True)
    init = [sys.executable, "-m", "remit", "init", "--yes", "--no-agents"]
    subprocess.run(init, cwd=root, check=True, capture_output=True)


def write_stream(files: int, commits: int) -> Iterator[str]:
    draw = random.Random(0)
    names = [f"src/room{n % ROOMS}/layer{n // ROOMS % LAYERS}/module{n}.py" for n in range(files)]
    by_room = [names[room::ROOMS] for room in range(ROOMS)]
    yield write_commit(
        names, [f"from room{n % ROOMS}.layer{(n // ROOMS + 1) % LAYERS} import x\n" for n in range(files)]
    )
    for number in range(commits - 1):
        room = by_room[draw.randrange(ROOMS)]
        changed = [draw.choice(room if draw.random() < 0.9 else names) for _ in range(draw.randint(1, 9))]
        yield write_commit(list(dict.fromkeys(changed)), [f"x = {number}\n"] * len(changed))


def write_commit(paths: list[str], texts: list[str]) -> str:
    changes = "".join(
        f"M 100644 inline {path}\ndata {len(text)}\n{text}\n" for path, text in zip(paths, texts, strict=False)
    )
    return f"commit refs/heads/work\ncommitter A <a@example.org> 1700000000 +0000\ndata 1\nx\n{changes}\n"


def run_suggest(root: Path, parts: int) -> tuple[float, float, bytes]:
    before, began = os.times(), time.perf_counter()
    words = [sys.executable, "-m", "remit", "plan", "suggest", "--parts", str(parts), "--json"]
    done = subprocess.run(words, cwd=root, check=True, capture_output=True)
    after = os.times()
    processor = after.children_user + after.children_system - before.children_user - before.children_system
    return time.perf_counter() - began, processor, done.stdout


if __name__ == "__main__":
    main()
