"""What a task may write, and proofs by pair."""

from remit.core.config import Commons, OrchestratorSettings
from remit.core.intent import Intent
from remit.core.scope.apart import Answer, Apart, Shared
from remit.orchestrator.planning.roles import DEFAULT_ROLES, find_role
from remit.orchestrator.planning.write_sets import Proofs, WriteSet, make_write_set

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


def test_the_shipped_roles_only_narrow() -> None:
    assert [role.name for role in DEFAULT_ROLES] == ["architect", "builder", "tester", "reviewer"]
    assert {role.name: role.effects for role in DEFAULT_ROLES}["reviewer"] == ("read",)
