"""`forbid_pattern`: a pattern stands in no file: of syntax (`pattern`), or a regular expression (`regex`)."""

from collections.abc import Iterable

from remit.core.intent import Constraint
from remit.policy.checks.constraints.breach import NAMED_MOST, Breach, Situation, each_file
from remit.policy.checks.constraints.finding import found_in, pattern_words


def broken(constraint: Constraint, situation: Situation) -> Iterable[Breach]:
    """The files in which it stands."""
    return each_file(constraint, situation, measure)


def measure(constraint: Constraint, path: str, content: bytes) -> Breach | None:
    """One content."""
    found = found_in(constraint, path, content)
    if not found:
        return None
    where = ", ".join(dict.fromkeys(f"{match.cell}line {match.line}" for match in found[:NAMED_MOST]))
    lines = tuple(dict.fromkeys(match.line for match in found[:NAMED_MOST]))
    items = tuple(match.text for match in found)
    return Breach(f"{pattern_words(constraint)} ({where})", "none", path, lines, len(found), items)
