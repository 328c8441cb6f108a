"""`require_test_change`: changed code needs a changed test by the time the intent is completed."""

from collections.abc import Iterator

from remit.core.intent import Constraint
from remit.core.intents.constraints import as_texts
from remit.core.scope.globs import Scope
from remit.policy.checks.constraints.breach import Breach, ProposedChange, covers_path

DEFAULT_TEST_PATTERNS = (
    *("tests/**", "test/**", "**/tests/**", "**/test/**", "**/__tests__/**", "**/spec/**"),
    *("**/test_*", "**/*_test.*", "**/*.test.*", "**/*.spec.*", "**/*_spec.*", "**/*Test.java", "**/*Tests.cs"),
)
"""Patterns of tests, unless the constraint names others."""


def find_breaches(constraint: Constraint, change: ProposedChange) -> Iterator[Breach]:
    """Yield the first code file without a test; before the end only as a remark."""
    tests = Scope(as_texts(constraint.options.get("tests")) or DEFAULT_TEST_PATTERNS)
    every = tuple(dict.fromkeys((*change.changed_before, *change.written_paths)))
    code = [path for path in every if covers_path(constraint, path) and not tests.matches(path)]
    if code and not any(tests.matches(path) for path in every):
        yield Breach("changed, and no test", "a test with it", code[0], is_remark=not change.is_final)
