"""`require_test_change`: whoever changes code changes a test as well, by the time the intent is completed."""

from collections.abc import Iterator

from remit.core.constraint_shapes import texts_of
from remit.core.globs import Scope
from remit.core.intent import Constraint
from remit.policy.checks.constraints.breach import Breach, Situation, covers

TESTS = (
    *("tests/**", "test/**", "**/tests/**", "**/test/**", "**/__tests__/**", "**/spec/**"),
    *("**/test_*", "**/*_test.*", "**/*.test.*", "**/*.spec.*", "**/*_spec.*", "**/*Test.java", "**/*Tests.cs"),
)
"""What counts as a test where the constraint does not say."""


def broken(constraint: Constraint, situation: Situation) -> Iterator[Breach]:
    """The code that no test came with; before the end that is only told."""
    tests = Scope(texts_of(constraint.options.get("tests")) or TESTS)
    every = tuple(dict.fromkeys((*situation.changed, *situation.named)))
    code = [path for path in every if covers(constraint, path) and not tests.matches(path)]
    if code and not any(tests.matches(path) for path in every):
        yield Breach("changed, and no test", "a test with it", code[0], remark=not situation.final)
