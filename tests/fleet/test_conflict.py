"""Conflicts: the settlement of each kind."""

import pytest
from msgspec.structs import replace

from remit_fleet.conflict import (
    MAX_ROUNDS,
    ConflictKind,
    Evidence,
    Party,
    SettlementKind,
    decide,
)

K, D = ConflictKind, SettlementKind
FIRST, SECOND = Party("INT-001", paths=8, lines=90), Party("INT-002", paths=8, lines=100)
WAITING_OWNER = replace(FIRST, waits_for_other=True)


@pytest.mark.parametrize(
    ("evidence", "kind", "redo"),
    [
        (Evidence(K.TARGET_MOVED, FIRST, SECOND, rounds=9), D.WAIT, ""),
        (Evidence(K.GROW, FIRST, SECOND, ("a",)), D.WAIT, "INT-002"),
        (Evidence(K.GROW, WAITING_OWNER, SECOND, ("a", "b")), D.SPLIT, ""),
        (Evidence(K.GROW, WAITING_OWNER, SECOND, ("a", "b", "c")), D.REASSIGN, "INT-001"),
        (Evidence(K.GROW, replace(WAITING_OWNER, lines=100), SECOND, ("a", "b", "c")), D.REASSIGN, "INT-002"),
        (Evidence(K.TEXT, FIRST, SECOND, ("a",)), D.REASSIGN, "INT-002"),
        (Evidence(K.MEANING, FIRST, SECOND), D.REASSIGN, "INT-002"),
        (Evidence(K.REFUSED, FIRST, SECOND, why="conflict markers"), D.ASK, "INT-002"),
    ],
)
def test_what_is_done_about_a_conflict(evidence: Evidence, kind: SettlementKind, redo: str) -> None:
    settlement = decide(evidence)
    assert (settlement.kind, settlement.redo) == (kind, redo)
    assert settlement.why


@pytest.mark.parametrize("kind", sorted(set(K) - {K.TARGET_MOVED}))
def test_after_two_rounds_a_person_is_asked(kind: ConflictKind) -> None:
    assert decide(Evidence(kind, FIRST, SECOND, rounds=MAX_ROUNDS - 1)).kind is not None
    assert decide(Evidence(kind, FIRST, SECOND, rounds=MAX_ROUNDS)).kind is D.ASK
