"""What must hold between intents. The codes and their places: tests/workspace/test_intents_file_parse.py."""

import time
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.core.intent import Intent, LintFinding
from remit.core.intents.validation import (
    FilePosition,
    PlacedIntent,
    describe_constraint,
    parse_time,
    validate_intents,
)
from remit.core.scope.apart import Apart, decide_apart
from remit.core.scope.path_patterns import Scope


def placed(*intents: Intent) -> list[PlacedIntent]:
    """Each intent on a line of its own."""
    return [PlacedIntent(intent, {"": FilePosition(line, 1)}) for line, intent in enumerate(intents, 1)]


def of(code: str, findings: Sequence[LintFinding]) -> list[LintFinding]:
    return [f for f in findings if f.code == code]


def chain(count: int, *, closed: bool) -> list[PlacedIntent]:
    names = [f"INT-{n:05d}" for n in range(count)]
    after = [*names[1:], names[0]]
    intents = [Intent(a, ("a",), dependencies=(b,), parent_intent=b) for a, b in zip(names, after, strict=True)]
    if not closed:
        intents[-1] = Intent(names[-1], ("a",))
    return placed(*intents)


def test_a_cycle_is_named_once_in_its_order() -> None:
    findings = validate_intents(chain(3, closed=True))
    (cycle,) = of("CIRCULAR_DEPENDENCY", findings)
    assert cycle.message.endswith("INT-00000 → INT-00001 → INT-00002 → INT-00000")
    (parents,) = of("INVALID_PARENT", findings)
    assert "INT-00000 → INT-00001 → INT-00002 → INT-00000" in parents.message


@pytest.mark.parametrize("closed", [True, False])
def test_a_chain_of_ten_thousand_is_followed_to_its_end(closed: bool) -> None:
    findings = validate_intents(chain(10_000, closed=closed))
    assert len(of("CIRCULAR_DEPENDENCY", findings)) == len(of("INVALID_PARENT", findings)) == closed
    assert all(len(f.message) < 1_000 for f in findings)


NAMES = [f"INT-{n:03d}" for n in range(6)]
GRAPHS = st.fixed_dictionaries({name: st.lists(st.sampled_from(NAMES), max_size=3) for name in NAMES})


@given(GRAPHS)
def test_a_cycle_is_found_exactly_where_there_is_one(graph: dict[str, list[str]]) -> None:
    intents = [Intent(name, ("a",), dependencies=tuple(needs)) for name, needs in graph.items()]
    reach = {name: {need for need in needs if need != name} for name, needs in graph.items()}
    for _ in NAMES:
        reach = {name: needs.union(*(reach[need] for need in needs)) for name, needs in reach.items()}
    found = of("CIRCULAR_DEPENDENCY", validate_intents(placed(*intents)))
    assert bool(found) == any(name in needs for name, needs in reach.items())
    for finding in found:
        ring = finding.message.split(": ")[1].split(" → ")
        assert ring[0] == ring[-1]
        assert all(b in graph[a] for a, b in pairwise(ring))


PIECES = ["src", "src2", "a", "*", "**", "*.py", "a.py", "{a,src}", ".", "[as]", "s?c", "\\a"]
PATTERNS = st.lists(st.sampled_from(PIECES), min_size=1, max_size=3).map("/".join)


@given(PATTERNS, PATTERNS)
def test_every_overlap_of_intents_in_progress_is_found(a: str, b: str) -> None:
    one, two = (Intent(f"INT-00{n}", (p,), status="IN_PROGRESS") for n, p in ((1, a), (2, b)))
    answer = decide_apart(Scope((a,)), Scope((b,)))
    findings = of("SCOPE_OVERLAP", validate_intents(placed(one, two)))
    assert [f.message.endswith(repr(getattr(answer, "path", None))) for f in findings] == [True] * (answer != Apart())


def test_only_intents_in_progress_overlap() -> None:
    one = Intent("INT-001", ("src/**",), status="IN_PROGRESS")
    two = Intent("INT-002", ("src/**",), status="BLOCKED")
    assert of("SCOPE_OVERLAP", validate_intents(placed(one, two))) == []


@pytest.mark.parametrize("pattern", ["src/**", "src/{n}/**", "**/*{n}*/[a-z]?.py"])
def test_a_thousand_intents_in_progress_are_compared_in_bounded_time(pattern: str) -> None:
    intents = [
        Intent(f"INT-{n:03d}", (pattern.replace("{n}", str(n)),) * 10, status="IN_PROGRESS") for n in range(1000)
    ]
    start = time.process_time()
    findings = of("SCOPE_OVERLAP", validate_intents(placed(*intents)))
    assert time.process_time() - start < 3
    assert "not every pair" in findings[-1].message


def test_findings_are_in_the_order_of_the_file() -> None:
    lines = [f.line for f in validate_intents(placed(*(Intent("INT-001", ("a",)) for _ in range(5))))]
    assert lines == sorted(lines)


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("2026-02-16T10:00:00Z", True),
        ("2026-02-16T10:00Z", True),
        ("2026-02-16T10:00:00.123456+05:30", True),
        ("2026-02-16T10:00:00-0800", True),
        ("2026-02-16T10:00:00", False),
        ("2026-02-16 10:00:00Z", False),
        ("2026-02-16", False),
        ("2026-13-16T10:00:00Z", False),
        ("2026-02-16T25:00:00Z", False),
        ("2026-02-16T10:00:00+99:00", False),
        ("２０２６-02-16T10:00:00Z", False),
        ("", False),
    ],
)
def test_a_time_has_a_date_a_clock_and_an_offset(text: str, good: bool) -> None:
    assert (parse_time(text) is not None) is good


def test_times_at_the_ends_of_the_calendar_can_be_compared() -> None:
    intent = Intent("INT-001", ("a",), created_at="0001-01-01T00:00:00+14:00", updated_at="9999-12-31T23:59:59-14:00")
    assert of("INVALID_TIMESTAMP", validate_intents(placed(intent))) == []


def test_a_rule_without_text_says_itself() -> None:
    assert describe_constraint("max_lines", {"paths": "src/**", "max": 5}) == 'max_lines: paths="src/**", max=5'
    assert describe_constraint("require_test_change", {}) == "require_test_change"
