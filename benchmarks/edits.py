"""Replay commits of real repositories with each edit tool of the agent, with and without the usual faults of models.

    python benchmarks/edits.py GIT_DIR… [--commits 60] [--faults 40]

Bars: each commit comes out byte for byte; each fault is applied right, or refused with what the next try needs.
"""

import argparse
import subprocess
import tempfile
import time
from pathlib import Path

from agent.replayed_commits import FAULTS, WAYS, Replayer, read_commits

FAULT_WAYS = ("edit", "apply_diff", "V4A patch")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("repositories", nargs="+", type=Path)
    parser.add_argument("--commits", type=int, default=60, help="commits of each repository")
    parser.add_argument("--faults", type=int, default=40, help="commits of each repository whose hunks get faults")
    parser.add_argument("--problems", type=int, default=20, help="problems to print")
    given = parser.parse_args()
    began, commits = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["git", "init", "-q", folder], check=True)
        replayer = Replayer(Path(folder).resolve())
        for repository in given.repositories:
            for n, commit in enumerate(read_commits(repository, given.commits, replayer.counts)):
                commits += 1
                for way in WAYS:
                    replayer.replay(commit, way)
                changed = [file for file in commit.files if file.before and file.after] if n < given.faults else []
                for file in changed[:3]:
                    for fault in FAULTS:
                        for way in FAULT_WAYS:
                            replayer.try_fault(fault, way, file)
    print(f"{commits} commits of {len(given.repositories)} repositories, {time.monotonic() - began:.0f} s")
    for name, times in sorted(replayer.counts.items()):
        print(f"{times:>7}  {name}")
    for problem in replayer.problems[: given.problems]:
        print(problem)


if __name__ == "__main__":
    main()
