"""`remit export`: records in another form, one a line."""

import sys
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, cast, get_args

import click

from remit.cli.output import Failure, command_options, encode_json, governed_gate, print_text
from remit.cli.records.query import each_record, filter_options, resolve_filters
from remit.core.display_text import sanitise_text
from remit.core.formats.record_export import COLUMNS, Format, export_record, format_csv_header, make_csv_row

PARQUET = "parquet"
BATCH_ROWS = 10_000


@click.command()
@click.option("--as", "form", type=click.Choice([*get_args(Format), PARQUET]), default="agent-trace", show_default=True)
@filter_options
@command_options
def export(form: str, repo: Path, as_json: bool, **filters: Any) -> None:
    """Write records, the oldest first, in another form. s1 to s4 are the ledgers of older tools.

    A form leaves out what it has no words for: s1, s3, s4 and in-toto know changes of files only. in-toto is one
    Statement a line, unsigned, about the contents that a change left. parquet has the columns of csv, and needs
    `pip install 'remit[parquet]'`; in csv a text that a spreadsheet would run begins with an apostrophe.
    """
    gate = governed_gate(repo)
    records = each_record(gate, resolve_filters(gate, repo, filters))
    # Fetch the first record now: errors surface before any output.
    records = chain(list(islice(records, 1)), records)
    if form == PARQUET:
        write_parquet(records, as_json)
        return
    text_form = cast("Format", form)
    lines = (line for record in records for line in export_record(record, text_form))
    if as_json:
        write_document(form, lines)
        return
    for line in chain([format_csv_header()] if form == "csv" else [], lines):
        print_text(sanitise_text(line) if sys.stdout.isatty() else line)


def write_document(form: str, lines: Iterator[str]) -> None:
    """Print one JSON document, line by line to bound memory."""
    first = next(lines, None)
    click.echo(f'{{"schema_version":1,"data":{{"as":{encode_json(form)},"lines":[', nl=False)
    if first is not None:
        click.echo(encode_json(first), nl=False)
    for line in lines:
        click.echo("," + encode_json(line), nl=False)
    click.echo("]}}")


def write_parquet(records: Iterator[dict[str, Any]], as_json: bool) -> None:
    """Write the columns of the `csv` form as Parquet to standard output, in batches. Raises Failure."""
    if as_json or sys.stdout.isatty():
        raise Failure("USAGE", "parquet is no text", fix="remit export --as parquet > records.parquet")
    try:
        import arro3.core  # optional dependency
        import arro3.io
    except ImportError as error:
        fix = "pip install 'remit[parquet]'"
        raise Failure("NOT_INSTALLED", "Parquet needs the optional part `parquet`", fix=fix) from error
    arrow: Any = arro3.core  # the stubs are incomplete
    schema = arrow.Schema([arrow.Field(name, arrow.DataType.string(), nullable=False) for name in COLUMNS])

    def read_batches() -> Iterator[Any]:
        rows = map(make_csv_row, records)
        while batch := list(islice(rows, BATCH_ROWS)):
            columns = [arrow.Array(list(column), arrow.DataType.string()) for column in zip(*batch, strict=True)]
            yield arrow.RecordBatch.from_arrays(columns, schema=schema)

    arro3.io.write_parquet(arrow.RecordBatchReader.from_batches(schema, read_batches()), sys.stdout.buffer)
