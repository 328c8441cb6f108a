"""`remit show ID`: one record, whole."""

from pathlib import Path

import click
import msgspec

from remit.cli.completion import complete_records
from remit.cli.output import Failure, document, emit, governed_gate, json_option, repo_option, reports_failures
from remit.cli.reading import by_id


@click.command()
@click.argument("record_id", metavar="ID", shell_complete=complete_records)
@repo_option
@json_option
@reports_failures
def show(record_id: str, repo: Path, as_json: bool) -> None:
    """Show one record; ID is its id, or the part of it that `remit log` shows."""
    found = by_id(governed_gate(repo), record_id)
    if len(found) != 1:
        why = f"{len(found)} records match {record_id!r}" if found else f"no record {record_id!r}"
        raise Failure("NOT_FOUND", why, fix="`remit log` lists the newest")
    emit(found[0], as_json, msgspec.json.format(document(found[0]), indent=2))
