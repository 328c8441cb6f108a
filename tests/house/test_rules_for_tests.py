"""Rules for tests, as figures that may only fall: a change that lowers one lowers its bound here.

`docs/explanation/the-test-suite.md` says why each rule stands, and what to do instead.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
LEAST_LIMIT_S = 60

BOUNDS = {
    "sleeps": 15,
    "short limits": 21,
    "own waits": 3,
    "present times": 10,
    "shortened intervals": 5,
}
SLEEP = re.compile(r"\bsleep\((?!0\))")
LIMITS = {"timeout", "seconds", "timeout_s", "limit_s"}
"""Names of arguments that limit a wait. A limit in milliseconds is Playwright's, and stands in one place."""
WAITS = {"wait", "join", "result", "communicate"}
TIMES = {("time", "time"), ("time", "time_ns"), ("datetime", "now"), ("time", "perf_counter"), ("date", "today")}


def find_breaches(path: Path) -> Iterator[tuple[str, int]]:
    """Find where a file breaks a rule: the rule's name, and the line."""
    text = path.read_text("utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        if SLEEP.search(line) and "# until somebody ends it" not in line:
            yield "sleeps", number
        if re.search(r"\bPACE\b", line):
            yield "shortened intervals", number
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.name in {"wait_until", "wait_for"}:
            yield "own waits", node.lineno
        if isinstance(node, ast.Call):
            if is_short_limit(node):
                yield "short limits", node.lineno
            if is_present_time(node):
                yield "present times", node.lineno


def is_short_limit(call: ast.Call) -> bool:
    """Tell whether a wait is limited to less than a minute: a busy machine takes longer, and the test fails."""
    limits = [keyword.value for keyword in call.keywords if keyword.arg in LIMITS]
    if isinstance(call.func, ast.Attribute) and call.func.attr in WAITS and len(call.args) == 1:
        limits.append(call.args[0])
    values = [limit.value for limit in limits if isinstance(limit, ast.Constant)]
    return any(isinstance(value, int | float) and 0 < value < LEAST_LIMIT_S for value in values)


def is_present_time(call: ast.Call) -> bool:
    match call.func:
        case ast.Attribute(value=ast.Name(id=module), attr=name):
            return (module, name) in TIMES
        case _:
            return False


@pytest.fixture(scope="module")
def breaches() -> list[tuple[str, str]]:
    """The rule that is broken, and the place, for all tests."""
    own = {Path(__file__), *(TESTS / name for name in ("waiting.py", "stepped_clock.py", "stress.py"))}
    return [
        (rule, f"{path.relative_to(TESTS)}:{line}")
        for path in sorted(TESTS.rglob("*.py"))
        if path not in own
        for rule, line in find_breaches(path)
    ]


@pytest.mark.parametrize("rule", BOUNDS)
def test_a_rule_for_tests_is_broken_no_more_often_than_before(rule: str, breaches: list[tuple[str, str]]) -> None:
    places = [place for broken, place in breaches if broken == rule]
    assert len(places) <= BOUNDS[rule], places


def test_every_rule_is_looked_for(tmp_path: Path) -> None:
    breaks = """
import time
def wait_until(): ...
def test_it(thread):
    time.sleep(0.5)
    thread.join(5)
    assert PACE < time.time()
"""
    (tmp_path / "test_it.py").write_text(breaks)
    assert Counter(rule for rule, _ in find_breaches(tmp_path / "test_it.py")) == dict.fromkeys(BOUNDS, 1)


def test_each_test_stands_in_one_tier(request: pytest.FixtureRequest) -> None:
    """All that were collected: the gate and the stories are no less than the whole."""
    tiers = [
        sum(1 for name in ("unit", "system", "live") if item.get_closest_marker(name)) for item in request.session.items
    ]
    assert set(tiers) == {1}
