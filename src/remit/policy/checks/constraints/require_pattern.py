"""`require_pattern`: each file matches a syntax pattern (`pattern`) or a regular expression (`regex`)."""

from collections.abc import Iterable

from remit.core.intent import Constraint
from remit.policy.checks.constraints.breach import Breach, ProposedChange, find_file_breaches
from remit.policy.checks.constraints.pattern_matches import describe_pattern, find_matches


def find_breaches(constraint: Constraint, change: ProposedChange) -> Iterable[Breach]:
    return find_file_breaches(constraint, change, measure_matches)


def measure_matches(constraint: Constraint, path: str, content: bytes) -> Breach | None:
    """Return a breach if a content does not match; a file in another language needs no match."""
    found = find_matches(constraint, path, content)
    if found is None or found:
        return None
    return Breach(f"no {describe_pattern(constraint)}", "one", path)
