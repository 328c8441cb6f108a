"""The option that says which evidence is believed."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from remit.provenance.origins.evidence import GRADES, named_grades

F = TypeVar("F", bound=Callable[..., Any])


def checked(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """The value, where it names grades."""
    if value is not None:
        try:
            named_grades(value)
        except ValueError as error:
            raise click.BadParameter(str(error), context, parameter) from error
    return value


def grade_option(command: F) -> F:
    """`--grade`: lines with other evidence count as unknown."""
    return click.option(
        "--grade",
        metavar="GRADES",
        callback=checked,
        help="Believe only this evidence: exact, carried, note, likely, with commas between, or "
        f"{', '.join(GRADES[1:-2])}. Lines with other evidence are unknown.",
    )(command)
