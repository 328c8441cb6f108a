"""`remit log`: the newest records."""

from pathlib import Path
from typing import Any

import click

from remit.cli.output import emit, governed_gate, json_option, repo_option, reports_failures
from remit.core.record import KEY
from remit.core.text import shown
from remit.ledger.index import Index


@click.command()
@click.option("--event", help="Only these events, such as mutation or denied.")
@click.option("--intent", "intent_id", metavar="ID", help="Only records under this intent.")
@click.option("--session", metavar="ID", help="Only records of this session.")
@click.option("--path", help="Only records that touched this file.")
@click.option("--since", metavar="TIME", help="Only records since then (ISO 8601, UTC).")
@click.option("-n", "--limit", default=20, show_default=True, type=click.IntRange(1, 100_000))
@repo_option
@json_option
@reports_failures
def log(
    event: str | None,
    intent_id: str | None,
    session: str | None,
    path: str | None,
    since: str | None,
    limit: int,
    repo: Path,
    as_json: bool,
) -> None:
    """List the newest records, the newest first."""
    workspace = governed_gate(repo).workspace
    with Index.open(workspace.state / "index.db", workspace.log_folder) as index:
        index.catch_up()
        found = index.find(event=event, intent_id=intent_id, session_id=session, path=path, since=since, limit=limit)
    emit(found, as_json, "\n".join(map(summary_line, found)) or "no records")


def summary_line(document: dict[str, Any]) -> str:
    """One record on one line."""
    body: dict[str, Any] = document["metadata"][KEY]
    at = str(document["timestamp"])[:19].replace("T", " ")
    return f"{str(document['id'])[-12:]}  {at}  {body['event']:<16} {body.get('intent_id') or '-':<8} {about(body)}"


def about(body: dict[str, Any]) -> str:
    """What a record is about, in a few words."""
    call: dict[str, Any] = body.get("call", {})
    if body.get("event") == "denied":
        violation: dict[str, Any] = body.get("violation", {})
        return f"{call.get('name')}: {violation.get('error_type')} {shown(str(violation.get('path', '')), 80)}"
    if body.get("event") == "mutation":
        files: list[dict[str, Any]] = body.get("files", [])
        stray = "" if body.get("in_scope") else "  (out of scope)"
        return ", ".join(f"{f.get('operation')} {shown(str(f.get('path')), 80)}" for f in files[:5]) + stray
    if call:
        target = call.get("command") or " ".join(call.get("paths", []))
        return f"{call.get('name')} {shown(str(target), 100)}".rstrip()
    return shown(" ".join(str(body[k]) for k in ("name", "from", "to", "by", "agent", "reason") if body.get(k)), 100)
