"""Constraints as commands take them."""

from collections.abc import Iterable

from remit.cli.output import Failure
from remit.core.constraint_text import BadConstraint, read_constraint
from remit.core.intent import Constraint


def constraints_of(texts: Iterable[str]) -> tuple[Constraint, ...]:
    """The constraints of these lines, structured ones too. Raises Failure."""
    try:
        return tuple(map(read_constraint, texts))
    except BadConstraint as error:
        fix = "for example --constraint 'max_lines: paths=\"src/**/*.py\", max=500'"
        raise Failure("INVALID_CONSTRAINT", str(error), target="--constraint", fix=fix) from error
