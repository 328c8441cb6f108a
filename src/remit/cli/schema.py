"""`remit schema`: the JSON Schema of each public shape, made from the code that reads and writes it."""

import click

from remit.cli.output import Failure, document, emit, json_option, reports_failures
from remit.core.schemas import SHAPES, schema_of


@click.command()
@click.argument("name", required=False)
@click.option("--list", "listing", is_flag=True, help="Name the shapes.")
@json_option
@reports_failures
def schema(name: str | None, listing: bool, as_json: bool) -> None:
    """Print the JSON Schema (2020-12) of the shape NAME."""
    if listing or name is None:
        names = [{"name": key, "about": about} for key, (about, _) in SHAPES.items()]
        emit(names, as_json, "\n".join(f"{key:<14} {about}" for key, (about, _) in SHAPES.items()))
        return
    if name not in SHAPES:
        raise Failure("NOT_FOUND", f"there is no shape {name!r}", fix=f"one of {', '.join(SHAPES)}", target=name)
    made = schema_of(name)
    emit(made, as_json, document(made))
