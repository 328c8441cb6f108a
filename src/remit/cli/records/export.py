"""`remit export`: records in another form, one a line."""

import sys
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any, cast, get_args

import click

from remit.cli.output import Failure, encode_json, governed_gate, json_option, print_text, repo_option, reports_failures
from remit.cli.records.query import each_record, filter_options, resolve_filters
from remit.core.display_text import sanitise_text
from remit.core.formats.record_export import Format, export_record, format_csv_header

PARQUET = "parquet"


@click.command()
@click.option("--as", "form", type=click.Choice([*get_args(Format), PARQUET]), default="agent-trace", show_default=True)
@filter_options
@repo_option
@json_option
@reports_failures
def export(form: str, repo: Path, as_json: bool, **filters: Any) -> None:
    """Write records, the oldest first, in another form. s1 to s4 are the ledgers of older tools.

    A form leaves out what it has no words for: s1, s3, s4 and in-toto know changes of files only. in-toto is one
    Statement a line, unsigned, about the contents that a change left. parquet has the columns of csv, and needs
    `pip install 'remit[parquet]'`; in csv a text that a spreadsheet would run begins with an apostrophe.
    """
    gate = governed_gate(repo)
    found = fetch_first(each_record(gate, resolve_filters(gate, repo, filters)))
    if form == PARQUET:
        export_parquet(found, as_json)
        return
    chosen = cast("Format", form)
    lines = (line for record in found for line in export_record(record, chosen))
    if as_json:
        write_document(form, lines)
        return
    for line in chain([format_csv_header()] if chosen == "csv" else [], lines):
        print_text(sanitise_text(line) if sys.stdout.isatty() else line)


def fetch_first(found: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The same records, the first of them looked for: what fails, fails before a line is written. Raises Failure."""
    first = list(islice(found, 1))
    return chain(first, found)


def export_parquet(found: Iterator[dict[str, Any]], as_json: bool) -> None:
    """Write a Parquet file to standard output. Raises Failure where that cannot be."""
    from remit.cli.records.parquet import write_parquet  # an optional part stands behind it

    if as_json or sys.stdout.isatty():
        raise Failure("USAGE", "parquet is no text", fix="remit export --as parquet > records.parquet")
    write_parquet(found, sys.stdout.buffer)


def write_document(form: str, lines: Iterator[str]) -> None:
    """One JSON document, of which no more than a line is in memory."""
    first = next(lines, None)
    click.echo(f'{{"schema_version":1,"data":{{"as":{encode_json(form)},"lines":[', nl=False)
    if first is not None:
        click.echo(encode_json(first), nl=False)
    for line in lines:
        click.echo("," + encode_json(line), nl=False)
    click.echo("]}}")
