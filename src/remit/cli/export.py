"""`remit export`: records in another form, one a line."""

from pathlib import Path
from typing import cast, get_args

import click

from remit.cli.output import emit, governed_gate, json_option, repo_option, reports_failures
from remit.cli.reading import filter_options, found_records, wanted
from remit.core.shapes import Format, csv_header, write_as

EVERYTHING = 10_000_000


@click.command()
@click.option("--as", "form", type=click.Choice(get_args(Format)), default="agent-trace", show_default=True)
@filter_options
@repo_option
@json_option
@reports_failures
def export(form: str, repo: Path, as_json: bool, **filters: str | None) -> None:
    """Write records, the oldest first, in another form. s1 to s4 are the ledgers of older tools.

    A form leaves out what it has no words for: s1, s3 and s4 know changes of files only.
    """
    chosen = cast("Format", form)
    found = found_records(governed_gate(repo), wanted(filters, (), EVERYTHING))
    lines = [line for document in reversed(found) for line in write_as(document, chosen)]
    header = [csv_header()] if chosen == "csv" else []
    emit({"as": form, "lines": lines}, as_json, "\n".join(header + lines))
