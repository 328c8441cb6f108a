"""Checks that an embedding program registers with its gate."""

from pathlib import Path

import pytest

from gate.driving import INTENTS, body, governed, machine, records
from remit.core.call import SessionKey, ToolCall
from remit.core.decision import Finding, Verdict
from remit.core.facts import Facts
from remit.gate.gate import Gate
from remit.policy.engine import Check

KEY = SessionKey("s")


@pytest.fixture
def gate(repository: Path, home: Path) -> Gate:
    """A gate with a session under INT-001."""
    found = Gate.open(governed(repository), machine(home))
    found.intents.select(KEY, "mine", "INT-001", tool="select")
    return found


def write(gate: Gate, path: str = "src/x.py") -> ToolCall:
    """A write."""
    return ToolCall("mine", KEY, "Write", "write", str(gate.workspace.root), paths=(path,))


def saying(verdict: Verdict) -> Check:
    """A hook that always says the same, in the words of another rule."""

    def check(call: ToolCall, facts: Facts) -> Finding | None:
        return Finding("scope", "SCOPE_VIOLATION", "not on a Friday", verdict)

    return check


def test_a_hook_can_refuse_and_is_recorded(gate: Gate) -> None:
    gate.add_hook("friday", saying("deny"))
    answer = gate.before(write(gate))
    assert (answer.decision.effect, answer.reason[:14]) == ("deny", "[HOOK_BLOCKED]")
    assert "not on a Friday" in answer.reason
    violation = body(records(gate.workspace.root, "denied")[-1])["violation"]
    assert violation["error_type"] == "HOOK_BLOCKED"


def test_a_hook_sees_safe_calls_too(gate: Gate) -> None:
    gate.add_hook("friday", saying("deny"))
    read = ToolCall("mine", KEY, "Read", "read", str(gate.workspace.root), paths=("src/x.py",))
    assert gate.before(read).decision.effect == "deny"


def test_a_hook_that_was_taken_out_says_nothing_more(gate: Gate) -> None:
    remove = gate.add_hook("friday", saying("deny"))
    remove()
    remove()
    assert gate.before(write(gate)).decision.effect == "allow"


def test_a_hook_never_loosens(gate: Gate) -> None:
    gate.add_hook("generous", saying("allow"))
    assert gate.before(write(gate, "docs/x")).decision.effect == "deny"
    assert gate.before(write(gate)).decision.effect == "allow"


def test_a_hook_that_breaks_denies_and_that_is_recorded(gate: Gate) -> None:
    def broken(call: ToolCall, facts: Facts) -> Finding | None:
        raise KeyError("gone")

    gate.add_hook("broken", broken)
    assert gate.before(write(gate)).decision.effect == "deny"
    assert body(records(gate.workspace.root, "check_failed")[-1])["check"] == "broken"


def test_in_observe_a_hook_only_objects(repository: Path, home: Path) -> None:
    gate = Gate.open(governed(repository, "observe", INTENTS), machine(home))
    gate.add_hook("friday", saying("deny"))
    decision = gate.before(write(gate)).decision
    assert (decision.effect, decision.verdict) == ("allow", "deny")


def test_a_name_is_given_once(gate: Gate) -> None:
    gate.add_hook("friday", saying("deny"))
    with pytest.raises(ValueError, match="'friday' already"):
        gate.add_hook("friday", saying("deny"))
