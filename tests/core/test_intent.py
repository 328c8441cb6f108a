"""The life cycle, as a table and as a law."""

import pytest
from msgspec.structs import replace

from remit.core.intent import (
    FINAL_STATUSES,
    STATUSES,
    IllegalTransition,
    Intent,
    Status,
    check_transition,
    find_completion_obstacles,
    find_unfinished_dependencies,
)

INTENT = Intent("INT-001", ("src/**",))

LEGAL = {
    ("DRAFT", "IN_PROGRESS"),
    ("DRAFT", "ABORTED"),
    ("IN_PROGRESS", "DONE"),
    ("IN_PROGRESS", "BLOCKED"),
    ("IN_PROGRESS", "ABORTED"),
    ("BLOCKED", "IN_PROGRESS"),
    ("BLOCKED", "ABORTED"),
}


@pytest.mark.parametrize("to", STATUSES)
@pytest.mark.parametrize("start", STATUSES)
def test_only_the_steps_of_the_contract_are_taken(start: Status, to: Status) -> None:
    intent = replace(INTENT, status=start)
    if (start, to) in LEGAL:
        check_transition(intent, to)
        return
    with pytest.raises(IllegalTransition) as raised:
        check_transition(intent, to)
    assert set(raised.value.allowed) == {b for a, b in LEGAL if a == start}
    assert all(status in str(raised.value) for status in raised.value.allowed)


def test_the_message_names_what_is_allowed() -> None:
    with pytest.raises(IllegalTransition, match="DRAFT and cannot become DONE; expected IN_PROGRESS or ABORTED"):
        check_transition(INTENT, "DONE")


def test_the_message_of_a_final_intent_names_the_way_on() -> None:
    with pytest.raises(IllegalTransition, match="DONE is final; `remit intent fork INT-001`"):
        check_transition(replace(INTENT, status="DONE"), "IN_PROGRESS")


@pytest.mark.parametrize("status", STATUSES)
def test_a_parent_completes_after_its_children(status: Status) -> None:
    child = Intent("INT-002", ("a",), status=status, parent_intent="INT-001")
    stranger = Intent("INT-003", ("a",), status="IN_PROGRESS")
    obstacles = find_completion_obstacles(INTENT, (INTENT, child, stranger))
    assert len(obstacles) == (status not in FINAL_STATUSES)
    assert all("INT-002" in sentence and status in sentence for sentence in obstacles)


def test_an_unknown_dependency_is_not_done() -> None:
    intent = Intent("INT-001", ("a",), dependencies=("INT-002", "INT-003", "INT-004"))
    others = (Intent("INT-002", ("a",), status="DONE"), Intent("INT-003", ("a",), status="ABORTED"))
    assert find_unfinished_dependencies(intent, others) == ("INT-003", "INT-004")
