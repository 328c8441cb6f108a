"""How long the analysis of a command takes, over the commands of both corpora in `tests/policy/corpus`.

`python benchmarks/commands.py [ROUNDS]`, 10 by default; each command is analysed anew in each round, and no answer is
remembered. Nothing is asserted: the line is the result. The bar for the 99th percentile is 1 ms. It is the time of the
processor that counts, so that what else the machine does has no part in it.
"""

import json
import sys
import time
from collections import Counter
from pathlib import Path

from remit.policy.commands import analyse
from remit.policy.commands.parsed_command import parse_command

CORPUS = Path(__file__).parent.parent / "tests" / "policy" / "corpus"


def commands() -> list[str]:
    """All of them."""
    return [
        json.loads(line)["cmd"] for file in sorted(CORPUS.glob("*.jsonl")) for line in file.read_bytes().splitlines()
    ]


def main() -> None:
    """One line of times, one of answers."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    texts = commands()
    outcomes = Counter(analyse(text).outcome for text in texts)
    spent: list[float] = []
    for _ in range(rounds):
        for text in texts:
            analyse.cache_clear()
            parse_command.cache_clear()
            begun = time.thread_time()
            analyse(text)
            spent.append((time.thread_time() - begun) * 1e6)
    spent.sort()
    at = {share: spent[int(len(spent) * share)] for share in (0.5, 0.95, 0.99)}
    times = ", ".join(f"{name} {at[share]:.0f} µs" for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)))
    print(f"{len(texts)} commands: {times}, most {spent[-1]:.0f} µs")
    print(", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common()))


if __name__ == "__main__":
    main()
