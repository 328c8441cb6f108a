"""`remit schema`: the JSON Schema of each public shape, generated from the code."""

import click

from remit.cli.output import Failure, emit, encode_json, json_option, reports_failures
from remit.core.formats.json_schemas import SCHEMAS, add_title, build_schema, build_struct_schema
from remit.provenance.blame.blamed_line import BlamedLine
from remit.provenance.why.explanation import Explanation

ANSWER_SHAPES: dict[str, tuple[str, type]] = {
    "blamed-line": ("one of the lines that `remit blame --json` tells", BlamedLine),
    "explanation": ("what `remit why --json` tells", Explanation),
}
"""Shapes of commands' answers."""


@click.command()
@click.argument("name", required=False)
@click.option("--list", "listing", is_flag=True, help="Name the shapes.")
@json_option
@reports_failures
def schema(name: str | None, listing: bool, as_json: bool) -> None:
    """Print the JSON Schema (2020-12) of the shape NAME."""
    shapes = {key: about for key, (about, _) in (*SCHEMAS.items(), *ANSWER_SHAPES.items())}
    if listing or name is None:
        names = [{"name": key, "about": about} for key, about in shapes.items()]
        emit(names, as_json, "\n".join(f"{key:<14} {about}" for key, about in shapes.items()))
        return
    if name not in shapes:
        raise Failure("NOT_FOUND", f"there is no shape {name!r}", fix=f"one of {', '.join(shapes)}", target=name)
    made = (
        build_schema(name)
        if name in SCHEMAS
        else add_title(name, ANSWER_SHAPES[name][0], build_struct_schema(ANSWER_SHAPES[name][1]))
    )
    emit(made, as_json, encode_json(made))
