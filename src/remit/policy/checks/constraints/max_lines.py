"""`max_lines`: a file has at most `max` lines, whatever the line endings."""

from collections.abc import Iterable

from remit.core.code.source_text import decode_text, split_text_lines
from remit.core.intent import Constraint
from remit.policy.checks.constraints.breach import Breach, ProposedChange, find_file_breaches


def find_breaches(constraint: Constraint, change: ProposedChange) -> Iterable[Breach]:
    return find_file_breaches(constraint, change, measure_lines)


def measure_lines(constraint: Constraint, path: str, content: bytes) -> Breach | None:
    maximum = int(constraint.options["max"])
    number = len(split_text_lines(decode_text(content)))
    if number <= maximum:
        return None
    return Breach(f"{number} lines", f"at most {maximum}", path, (maximum + 1,), number)
