"""Conflicts: the settlement of each kind, and lines that a merge may not lose."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from remit.orchestrator.conflict import (
    MAX_ROUNDS,
    ConflictKind,
    Evidence,
    Party,
    SettlementKind,
    decide,
    find_dropped_lines,
)

K, D = ConflictKind, SettlementKind
FIRST, SECOND = Party("INT-001", paths=8, lines=90), Party("INT-002", paths=8, lines=100)
WAITING_OWNER = replace(FIRST, waits_for_other=True)


@pytest.mark.parametrize(
    ("evidence", "kind", "redo"),
    [
        (Evidence(K.TARGET_MOVED, FIRST, SECOND, rounds=9), D.WAIT, ""),
        (Evidence(K.STALE, FIRST, SECOND), D.WAIT, "INT-002"),
        (Evidence(K.STALE, FIRST, SECOND, repeated=True), D.ASK, "INT-002"),
        (Evidence(K.GROW, FIRST, SECOND, ("a",)), D.WAIT, "INT-002"),
        (Evidence(K.GROW, WAITING_OWNER, SECOND, ("a", "b")), D.SPLIT, ""),
        (Evidence(K.GROW, WAITING_OWNER, SECOND, ("a", "b", "c")), D.REASSIGN, "INT-001"),
        (Evidence(K.GROW, replace(WAITING_OWNER, lines=100), SECOND, ("a", "b", "c")), D.REASSIGN, "INT-002"),
        (Evidence(K.TEXT, FIRST, SECOND, ("a",)), D.REASSIGN, "INT-002"),
        (Evidence(K.TEXT, FIRST, SECOND, ("a",), is_clean=True), D.MERGE, ""),
        (Evidence(K.TEXT, FIRST, replace(SECOND, is_green=False), ("a",), is_clean=True), D.REASSIGN, "INT-002"),
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
    assert decide(Evidence(kind, FIRST, SECOND, rounds=MAX_ROUNDS - 1, is_clean=True)).kind is not None
    assert decide(Evidence(kind, FIRST, SECOND, rounds=MAX_ROUNDS, is_clean=True)).kind is D.ASK


LINES = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=6)


@given(LINES, LINES, LINES)
def test_a_merge_that_holds_what_both_added_lost_nothing(
    base: Sequence[str], earlier: Sequence[str], later: Sequence[str]
) -> None:
    assert find_dropped_lines(base, [*base, *earlier], [*base, *later], [*base, *earlier, *later]) == []


@given(LINES, LINES, LINES)
def test_a_line_that_one_side_added_and_the_merge_does_not_hold_is_found(
    base: Sequence[str], earlier: Sequence[str], later: Sequence[str]
) -> None:
    merged = [*base, *earlier, *later]
    assert find_dropped_lines(base, [*base, *earlier, "new"], [*base, *later], merged) == ["new"]
    assert find_dropped_lines(base, [*base, *earlier], [*base, *later, "new", "new"], [*merged, "new"]) == ["new"]


def test_a_line_of_the_base_does_not_stand_in_for_an_added_one() -> None:
    assert find_dropped_lines(["x"], ["x", "x"], ["x"], ["x"]) == ["x"]


def test_what_one_side_deleted_may_be_gone() -> None:
    assert find_dropped_lines(["x", "y"], ["y"], ["x", "y", "z"], ["y", "z"]) == []
