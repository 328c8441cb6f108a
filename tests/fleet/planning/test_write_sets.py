"""What a task may write, and proofs by pair."""

import random
from itertools import combinations

import pytest

from core.random_scopes import FOLDING_ALPHABET, FULL_ALPHABET, list_paths, make_scope, select_matches
from remit.core.config import Commons, OrchestratorSettings
from remit.core.intent import Intent
from remit.core.scope.apart import Answer, Apart, Shared
from remit_fleet.planning.roles import DEFAULT_ROLES, find_role
from remit_fleet.planning.write_sets import Proofs, WriteSet, make_write_set

SETTINGS = OrchestratorSettings()
COMMONS = (Commons(("uv.lock", "**/package-lock.json"), make="make locks"),)


def test_a_write_set_is_the_scope_within_the_role_without_the_commons() -> None:
    intent = Intent("INT-001", ("src/**", "tests/**", "uv.lock", "!src/gen/**"))
    builder, tester, architect, reviewer = (
        make_write_set(intent, find_role(SETTINGS, name), COMMONS)
        for name in ("builder", "tester", "architect", "reviewer")
    )
    paths = [
        "src/a.py",
        "src/gen/a.py",
        "tests/test_a.py",
        "src/test_b.py",
        "uv.lock",
        "src/package-lock.json",
        "docs/x.md",
    ]
    written = {
        name: [path for path in paths if own.contains(path)]
        for name, own in (("builder", builder), ("tester", tester), ("architect", architect), ("reviewer", reviewer))
    }
    assert written == {
        "builder": ["src/a.py", "tests/test_a.py", "src/test_b.py"],
        "tester": ["tests/test_a.py", "src/test_b.py"],
        "architect": [],
        "reviewer": [],
    }


def test_a_role_that_narrows_proves_apart_what_scopes_share() -> None:
    a, b = Intent("INT-001", ("a/**", "shared/**")), Intent("INT-002", ("b/**", "shared/**"))
    wide = [make_write_set(intent, find_role(SETTINGS, "builder")) for intent in (a, b)]
    narrow = [WriteSet(own.intent_id, own.scope, ("a/**", "b/**")) for own in wide]
    assert Proofs().decide(*wide) == Shared("shared/x")
    assert Proofs().decide(*narrow) == Apart()


def test_each_pair_is_decided_once_and_the_decisions_can_be_kept() -> None:
    kept: dict[tuple[str, str], Answer] = {}
    sets = [WriteSet(f"INT-00{n}", (f"src/{n % 2}/**",)) for n in range(4)]
    found = list(Proofs(known=kept).find_shared(sets))
    assert [(pair.first, pair.second) for pair in found] == [("INT-000", "INT-002"), ("INT-001", "INT-003")]
    mine = dict.fromkeys(kept, Apart())
    assert list(Proofs(known=dict(mine)).find_shared(sets)) == []  # what is kept is believed


def test_neighbours_are_found_across_depths_names_and_case() -> None:
    scopes = ["src/a/b.py", "src/**", "SRC/A/*", "lib", "lib/x/*.c", "**/*.md"]
    sets = [WriteSet(f"INT-00{n}", (scope,)) for n, scope in enumerate(scopes)]
    pairs = {(pair.first[-1], pair.second[-1]) for pair in Proofs().find_shared(sets)}
    assert pairs == {("0", "1"), ("0", "5"), ("3", "4"), ("1", "5"), ("2", "5"), ("3", "5")}
    folded = {(pair.first[-1], pair.second[-1]) for pair in Proofs(fold=True).find_shared(sets)}
    assert folded == pairs | {("0", "2"), ("1", "2")}


@pytest.mark.parametrize("fold", [False, True])
def test_the_quick_look_for_neighbours_misses_no_pair(fold: bool) -> None:
    draw = random.Random(3)
    scopes = [make_scope(draw) for _ in range(20 if fold else 60)]
    sets = [WriteSet(f"{n}", scope.patterns) for n, scope in enumerate(scopes)]
    found = {(pair.first, pair.second): pair.answer for pair in Proofs(fold=fold).find_shared(sets)}
    paths = list_paths(FOLDING_ALPHABET if fold else FULL_ALPHABET, 4)
    matches = [select_matches(scope, paths, fold=fold) for scope in scopes]
    for a, b in combinations(range(len(sets)), 2):
        answer = Proofs(fold=fold).decide(sets[a], sets[b])
        assert found.get((f"{a}", f"{b}"), Apart()) == answer
        assert answer != Apart() or not matches[a] & matches[b], (scopes[a], scopes[b])


def test_the_shipped_roles_only_narrow() -> None:
    assert [role.name for role in DEFAULT_ROLES] == ["architect", "builder", "tester", "reviewer"]
    assert {role.name: role.effects for role in DEFAULT_ROLES}["reviewer"] == ("read",)
