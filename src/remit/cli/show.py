"""`remit show ID`: one record, whole."""

from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import click

from remit.cli.completion import complete_records
from remit.cli.ids import find_record
from remit.cli.output import emit_view, governed_site, json_option, repo_option, reports_failures, view_options
from remit.cli.reading import with_classes
from remit.cli.show_view import record_view
from remit.cli.sources import own_index
from remit.core.record import KEY
from remit.gate.site import Site

AROUND = timedelta(hours=1)
MAX_RELATED = 1000


@click.command()
@click.argument("record_id", metavar="ID", shell_complete=complete_records)
@repo_option
@json_option
@view_options
@reports_failures
def show(record_id: str, repo: Path, as_json: bool) -> None:
    """Show one record; ID is its id, or the part of it that `remit log` shows."""
    site = governed_site(repo)
    [found] = with_classes(site, [find_record(site, record_id)])
    emit_view(found, as_json, partial(record_view, found, [] if as_json else find_related(site, found)))


def find_related(site: Site, document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the other records of the same call, the oldest first."""
    body: dict[str, Any] = document["metadata"][KEY]
    call = call_of(document)
    if not body.get("session_id") or not (call.get("id") or call.get("arguments_sha256")):
        return []
    at = datetime.fromisoformat(str(document["timestamp"]))
    since, until = ((at + shift).isoformat().replace("+00:00", "Z") for shift in (-AROUND, AROUND))
    with own_index(site) as index:
        near = index.find(session_id=str(body["session_id"]), since=since, until=until, limit=MAX_RELATED)
    key = "id" if call.get("id") else "arguments_sha256"
    return [d for d in near if d["id"] != document["id"] and call_of(d).get(key) == call[key]][::-1]


def call_of(document: dict[str, Any]) -> dict[str, Any]:
    """Return the call that a record is about; empty for none."""
    return document["metadata"][KEY].get("call") or {}
