"""`forbid_pattern`: no file matches a syntax pattern (`pattern`) or a regular expression (`regex`)."""

from collections.abc import Iterable

from remit.core.intent import Constraint
from remit.policy.checks.constraints.breach import MAX_NAMED, Breach, ProposedChange, find_file_breaches
from remit.policy.checks.constraints.pattern_matches import describe_pattern, find_matches


def find_breaches(constraint: Constraint, change: ProposedChange) -> Iterable[Breach]:
    return find_file_breaches(constraint, change, measure_matches)


def measure_matches(constraint: Constraint, path: str, content: bytes) -> Breach | None:
    found = find_matches(constraint, path, content)
    if not found:
        return None
    where = ", ".join(dict.fromkeys(f"{match.cell}line {match.line}" for match in found[:MAX_NAMED]))
    lines = tuple(dict.fromkeys(match.line for match in found[:MAX_NAMED]))
    items = tuple(match.text for match in found)
    return Breach(f"{describe_pattern(constraint)} ({where})", "none", path, lines, len(found), items)
