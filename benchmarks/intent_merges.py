"""How often git cannot merge branches that each worked on intents: `python benchmarks/intent_merges.py [--seeds 120]`.

Two people take two to five random steps each (add, start, widen, criterion, rename, complete), each with a clone and a
machine of their own; git merges. Nothing is asserted.
"""

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from gate.intents.branches import merge_branches
from remit.workspace.system_clock import SYSTEM_CLOCK


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=120)
    count = parser.parse_args().seeds
    results: Counter[str] = Counter()
    for seed in range(count):
        with tempfile.TemporaryDirectory() as folder:
            merge = merge_branches(Path(folder), seed, SYSTEM_CLOCK)
        word = "conflict" if not merge.is_clean else "broken" if merge.errors else "lost" if merge.lost else "right"
        results[word] += 1
        if word not in ("right", "conflict"):
            print(f"seed {seed}: {word}: {merge.errors or merge.lost}")
    print(", ".join(f"{results[word]} {word}" for word in ("conflict", "broken", "lost", "right")), f"of {count}")


if __name__ == "__main__":
    main()
