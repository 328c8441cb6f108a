"""Prove scopes apart, against brute force over all short paths, and take the time of a pair and of a plan.

    python benchmarks/apart.py [--pairs 100000] [--seed 0] [--fold] [--length 6]

Bars: no answer wrong, at most 0.1 % unproved; a pair in 0.6 ms (p50); all pairs of 100 intents, cold, in 3 s; a plan of
40 intents in 0.3 s, of 1,000 in 3 s. All times are processor time.
"""

import argparse
import random
import sys
import time
from collections import Counter
from itertools import combinations, product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from core.random_scopes import FOLDING_ALPHABET, FULL_ALPHABET, list_paths, make_scope, select_matches
from remit.core.config import AgentRole, OrchestratorSettings
from remit.core.intent import Intent, IntentsDocument
from remit.core.scope.apart import Answer, Apart, Shared, Unproved, decide_apart
from remit.core.scope.path_patterns import Scope
from remit_fleet.planning.plan import RepositoryFacts, make_plan

ROOMS = ["api", "auth", "billing", "catalogue", "cli", "core", "db", "events", "mail", "orders", "search", "web"]
LAYERS = ["views", "models", "jobs", "forms", "util", "rpc", "io", "ui", "x"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--length", type=int, default=6, help="characters of the longest path of brute force")
    parser.add_argument("--fold", action="store_true", help="as on a file system that ignores case")
    given = parser.parse_args()
    time_pairs(100, fold=given.fold)
    for count in (40, 1000):
        time_plan(count, fold=given.fold)
    compare_with_brute_force(given.pairs, given.seed, given.length, fold=given.fold)


def compare_with_brute_force(pairs: int, seed: int, length: int, *, fold: bool) -> None:
    """Compare pairs of random scopes: each scope meets 100 others."""
    draw = random.Random(seed)
    paths = list_paths(FOLDING_ALPHABET if fold else FULL_ALPHABET, length)
    side = max(2, pairs // 100)
    first, second = [make_scope(draw) for _ in range(side)], [make_scope(draw) for _ in range(100)]
    in_second = [select_matches(scope, paths, fold=fold) for scope in second]
    counts, times = Counter[str](), list[float]()
    for a in first:
        in_a = select_matches(a, paths, fold=fold)
        for b, in_b in zip(second, in_second, strict=True):
            began = time.process_time()
            answer = decide_apart(a, b, fold=fold)
            times.append(time.process_time() - began)
            counts[judge(a, b, answer, bool(in_a & in_b), fold=fold)] += 1
    times.sort()
    of_pair = ", ".join(f"p{p} {times[int(len(times) * p / 100)] * 1000:.2f}" for p in (50, 99))
    print(f"{len(times)} pairs, {len(paths)} paths: {dict(counts)}; a pair {of_pair}, max {times[-1] * 1000:.1f} ms")


def judge(a: Scope, b: Scope, answer: Answer, is_shared: bool, *, fold: bool) -> str:
    match answer:
        case Unproved():
            return "unproved"
        case Apart():
            verdict = "WRONG" if is_shared else "apart"
        case Shared(path, other):
            is_right = a.matches(path, fold=fold) and b.matches(other or path, fold=fold)
            verdict = "WRONG" if not is_right else "shared" if is_shared else "shared by a longer path"
    if verdict == "WRONG":
        print(f"wrong: {answer} of {a.patterns} and {b.patterns}")
    return verdict


def time_plan(count: int, *, fold: bool) -> None:
    """Make a plan of intents, ten in a room: a folder each, names in the room's folder, or files in a common folder."""
    draw = random.Random(1)
    intents: list[Intent] = []
    for number in range(count):
        room, layer = f"room{number // 10}", ([*LAYERS, "y"])[number % 10]
        choices = [
            (f"src/{room}/{layer}/**", f"tests/{room}/test_{layer}*.py"),
            (f"src/{room}/**/*_{layer}.{{py,pyi}}", f"!src/{room}/**/[_.]*", f"docs/{room}/{layer}.md"),
            (f"src/{room}/{layer}.py", f"tests/{room}/{layer}[0-9]?.py", f"db/migrations/[0-9]*_{room}_{layer}.sql"),
        ]
        intents.append(Intent(f"INT-{number:04}", draw.choice(choices)))
    facts = RepositoryFacts(folds_case=fold)
    began = time.process_time()
    made = make_plan(IntentsDocument(tuple(intents)), (), AgentRole("builder"), OrchestratorSettings(), facts)
    took = time.process_time() - began
    unproved = sum(isinstance(pair.answer, Unproved) for pair in made.shared)
    pairs = f"{made.pairs_apart} pairs apart, {len(made.shared)} not, {unproved} unproved"
    print(f"plan of {count} intents: {took:.2f} s; {pairs}")


def time_pairs(count: int, *, fold: bool) -> None:
    """Decide all pairs of scopes as intents have them."""
    draw = random.Random(1)
    scopes: list[Scope] = []
    for number, (room, layer) in enumerate(list(product(ROOMS, LAYERS))[:count]):
        choices = [
            (f"src/{room}/{layer}/**", f"tests/{room}/test_{layer}*.py"),
            (f"src/{room}/**/*_{layer}.{{py,pyi}}", f"!src/{room}/**/[_.]*", f"docs/{room}/{layer}.md"),
            (
                f"src/{room}/**",
                f"!src/{room}/{{views,models,jobs,forms,util,rpc,io,ui}}/**",
                f"src/{room}/{layer}/keep/*.py",
            ),
            (f"src/{room}/{layer}.py", f"tests/{room}/{layer}[0-9]?.py", f"db/migrations/[0-9]*_{room}_{layer}.sql"),
        ]
        scopes.append(Scope(draw.choice(choices) if number % 4 else choices[number // 4 % 4]))
    began = time.process_time()
    answers = Counter(type(decide_apart(a, b, fold=fold)).__name__ for a, b in combinations(scopes, 2))
    took = time.process_time() - began
    print(f"{count} intents, all {sum(answers.values())} pairs, cold: {took:.2f} s, {dict(answers)}")


if __name__ == "__main__":
    main()
