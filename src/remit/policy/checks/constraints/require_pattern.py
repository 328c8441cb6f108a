"""`require_pattern`: a pattern stands in each file: of syntax (`pattern`), or a regular expression (`regex`)."""

from collections.abc import Iterable

from remit.core.intent import Constraint
from remit.policy.checks.constraints.breach import Breach, Situation, each_file
from remit.policy.checks.constraints.finding import found_in, pattern_words


def broken(constraint: Constraint, situation: Situation) -> Iterable[Breach]:
    """The files in which it does not stand."""
    return each_file(constraint, situation, measure)


def measure(constraint: Constraint, path: str, content: bytes) -> Breach | None:
    """One content. A file in a language that the pattern is not for needs none."""
    found = found_in(constraint, path, content)
    if found is None or found:
        return None
    return Breach(f"no {pattern_words(constraint)}", "one", path)
