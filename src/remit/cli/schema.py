"""`remit schema`: the JSON Schema of each public shape, made from the code that reads and writes it."""

import click

from remit.cli.output import Failure, document, emit, json_option, reports_failures
from remit.core.schemas import SHAPES, entitled, of_struct, schema_of
from remit.provenance.blame.blamed_line import BlamedLine
from remit.provenance.why.explanation import Explanation

ANSWERS: dict[str, tuple[str, type]] = {
    "blamed-line": ("one of the lines that `remit blame --json` tells", BlamedLine),
    "explanation": ("what `remit why --json` tells", Explanation),
}
"""What commands answer."""


@click.command()
@click.argument("name", required=False)
@click.option("--list", "listing", is_flag=True, help="Name the shapes.")
@json_option
@reports_failures
def schema(name: str | None, listing: bool, as_json: bool) -> None:
    """Print the JSON Schema (2020-12) of the shape NAME."""
    shapes = {key: about for key, (about, _) in (*SHAPES.items(), *ANSWERS.items())}
    if listing or name is None:
        names = [{"name": key, "about": about} for key, about in shapes.items()]
        emit(names, as_json, "\n".join(f"{key:<14} {about}" for key, about in shapes.items()))
        return
    if name not in shapes:
        raise Failure("NOT_FOUND", f"there is no shape {name!r}", fix=f"one of {', '.join(shapes)}", target=name)
    made = schema_of(name) if name in SHAPES else entitled(name, ANSWERS[name][0], of_struct(ANSWERS[name][1]))
    emit(made, as_json, document(made))
