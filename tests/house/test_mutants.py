"""Mutants of the pure rooms: what the operators make of code, and the list of those that no test can see."""

from pathlib import Path

import pytest

from mutants import ROOMS, list_sources, mutate_source, read_survivors
from sources import name_source

TABLE: list[tuple[str, list[str]]] = [
    ("a < 1", ["comparison: a < 1 → a <= 1"]),
    ("a == 1", ["not: a == 1 → a != 1", "comparison: a == 1 → a == 2"]),
    ("0 <= a < 2", ["comparison: 0 <= a < 2 → 0 < a < 2", "comparison: 0 <= a < 2 → 0 <= a <= 2"]),
    ("a in b", ["not: a in b → a not in b"]),
    ("a is None", ["not: a is None → a is not None"]),
    ("a and b", ["and-or: a and b → a or b", "drop: a and b → b", "drop: a and b → a"]),
    ("a or ''", []),
    ("not a", ["not: not a → a"]),
    ("all(a)", ["all-any: all(a) → any(a)"]),
    ("[x for x in a if b]", ["drop: for x in a if b → for x in a"]),
    ("f(sync=True)", ["constant: True → False"]),
    ("f('deny')", ["constant: 'deny' → 'allow'"]),
    ("f('no member of an enum')", []),
    ("f'{a} deny'", []),
    ("b if a else c", ["branch: b if a else c → b", "branch: b if a else c → c"]),
]


def list_changes(body: str) -> list[str]:
    found = mutate_source(ROOMS[0], Path("x.py"), f"def function(a):\n{body}")
    return [f"{operator}: {change}" for _, _, operator, change in (mutant.key for mutant in found)]


@pytest.mark.parametrize(("expression", "changes"), TABLE)
def test_an_operator_changes_one_place(expression: str, changes: list[str]) -> None:
    assert list_changes(f"    return {expression}\n") == changes


def test_statements_without_a_result_are_deleted_and_returns_exchanged() -> None:
    assert list_changes("    f(a)\n    if a:\n        return b\n    return c\n") == [
        "delete: f(a) → pass",
        "delete: if a: return b → pass",
        "branch: if a: return b → if a: return c",
    ]


def test_a_mutant_is_compiled_alone_and_leaves_the_others_as_they_were() -> None:
    first, second = mutate_source(ROOMS[0], Path("x.py"), "def f(a):\n    return (a < 1, a > 1)\n")
    codes = [mutant.compile_function() for mutant in (first, second, first)]
    assert codes[0] == codes[2] != codes[1]


def test_each_accepted_survivor_is_a_mutant_and_has_a_reason() -> None:
    accepted = read_survivors()
    sources = {name_source(path): (room, path) for room in ROOMS for path in list_sources(room)}
    for file in {key[0] for key in accepted}:
        room, path = sources[file]
        mutants = {mutant.key for mutant in mutate_source(room, path, path.read_text("utf-8"))}
        assert {key for key in accepted if key[0] == file} <= mutants
    assert all(reason.strip() for reason in accepted.values())
