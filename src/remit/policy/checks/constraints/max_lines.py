"""`max_lines`: a file has at most `max` lines, whichever way they end."""

from collections.abc import Iterable

from remit.core.intent import Constraint
from remit.core.source_text import decoded, lines_of
from remit.policy.checks.constraints.breach import Breach, Situation, each_file


def broken(constraint: Constraint, situation: Situation) -> Iterable[Breach]:
    """The files that are too long."""
    return each_file(constraint, situation, measure)


def measure(constraint: Constraint, path: str, content: bytes) -> Breach | None:
    """One content."""
    most = int(constraint.options["max"])
    number = len(lines_of(decoded(content)))
    if number <= most:
        return None
    return Breach(f"{number} lines", f"at most {most}", path, (most + 1,), number)
