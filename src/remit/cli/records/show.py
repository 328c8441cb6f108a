"""`remit show ID`: one record in full, with the related records of its call."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import click
from msgspec import json
from rich.text import Text

from remit.cli.completion import complete_records
from remit.cli.output import emit_view, governed_context, open_index, view_command_options
from remit.cli.records.query import add_classes, find_record
from remit.cli.records.record_table import actor_mark, record_table
from remit.cli.screen import Screen
from remit.cli.view import GAP, TextTable, ViewPart, facts, heading, join_texts, mark, styled_text
from remit.core.formats.record_summary import EXTENT_NAMES, OPERATION_SIGNS, summarize_record
from remit.core.record import KEY, format_utc
from remit.core.untrusted_input import as_object
from remit.gate.context import WorkspaceContext

FORMATTED_KEYS = frozenset(
    {"event", "schema", "chain", "call", "decision", "violation", "files", "result", "approval", "changed"}
)
"""Keys with formatted lines; other keys are listed as JSON."""
MAX_FILES = 50
RELATED_WINDOW = timedelta(hours=1)
MAX_RELATED = 1000


@click.command()
@click.argument("record_id", metavar="ID", shell_complete=complete_records)
@view_command_options
def show(record_id: str, repo: Path, as_json: bool) -> None:
    """Show one record; ID is its id, or the part of it that `remit log` shows."""
    context = governed_context(repo)
    [document] = add_classes(context, [find_record(context, record_id)])
    related = [] if as_json else find_related(context, document)
    emit_view(document, as_json, partial(record_view, document, related))


def find_related(context: WorkspaceContext, document: dict[str, Any]) -> list[dict[str, Any]]:
    body: dict[str, Any] = document["metadata"][KEY]
    call: dict[str, Any] = body.get("call") or {}
    key = "id" if call.get("id") else "arguments_sha256"
    if not body.get("session_id") or not call.get(key):
        return []
    at = datetime.fromisoformat(str(document["timestamp"]))
    since, until = (format_utc(at + shift, "auto") for shift in (-RELATED_WINDOW, RELATED_WINDOW))
    with open_index(context.workspace) as index:
        near = index.find(session_id=str(body["session_id"]), since=since, until=until, limit=MAX_RELATED)
    others = (other for other in reversed(near) if other["id"] != document["id"])
    return [other for other in others if as_object(other["metadata"][KEY].get("call")).get(key) == call[key]]


def record_view(document: dict[str, Any], related: Sequence[dict[str, Any]], screen: Screen) -> Iterator[ViewPart]:
    """Return a record: event, actor, approval, reasons, and related records."""
    body: dict[str, Any] = document["metadata"][KEY]
    summary = summarize_record(body)
    verb = mark(summary.meaning, summary.verb, is_strong=True)
    yield heading(str(document["id"]), screen.format_time(str(document["timestamp"])))
    yield join_texts(actor_mark(document, is_short=False), verb, summary.about, between=GAP)
    yield ""
    yield facts(record_facts(document, body))
    files: list[dict[str, Any]] = body.get("files", [])
    if files:
        yield ""
        yield TextTable([file_row(file, body) for file in files[:MAX_FILES]], cut=1, indent=2)
        if len(files) > MAX_FILES:
            yield f"  … and {len(files) - MAX_FILES} more; --json has all"
    if related:
        yield ""
        yield heading("Of the same call")
        yield record_table(related, screen, indent=2)


def record_facts(document: dict[str, Any], body: dict[str, Any]) -> Iterator[tuple[str, str | Text]]:
    call: dict[str, Any] = body.get("call", {})
    decision: dict[str, Any] = body.get("decision", {})
    result: dict[str, Any] = body.get("result", {})
    yield "command", str(call.get("command") or "")
    yield "paths", ", ".join(map(str, call.get("paths", [])))
    yield "call", " ".join(str(call[key]) for key in ("name", "id") if call.get(key))
    if decision:
        rules = f" by {', '.join(map(str, decision['rules']))}" if decision.get("rules") else ""
        yield "decision", f"{decision.get('effect')}{rules} in {decision.get('mode')}"
        if decision.get("verdict") not in (None, decision.get("effect")):
            yield "verdict", str(decision["verdict"])
    if decision.get("approved_by"):
        yield "approved", mark("person", f"by a {decision['approved_by']}: {decision.get('grant')}")
    if result:
        code = f", exit {result['exit_code']}" if result.get("exit_code") is not None else ""
        yield "result", f"{'ok' if result.get('ok') else 'failed'}{code}: {result.get('summary') or ''}".rstrip(": ")
    approval: dict[str, Any] = body.get("approval", {})
    yield "question", str(approval.get("action") or "")
    yield "because", str(approval.get("message") or approval.get("rule") or "")
    if "risk" in approval:
        reasons = "; ".join(map(str, approval.get("reasons", [])))
        yield "risk", ": ".join(filter(None, (f"{approval['risk']} of 100", reasons)))
    if approval.get("answer"):
        is_yes = approval["answer"] == "allow"
        grant: dict[str, Any] = approval.get("grant") or {}
        extent = EXTENT_NAMES.get(str(grant.get("extent") or approval.get("extent") or "once"), "") if is_yes else ""
        answer = mark("allowed" if is_yes else "denied", "yes" if is_yes else "no")
        yield (
            "answer",
            join_texts(answer, extent, str(grant.get("rule") or ""), f"by {approval.get('by')}", name_person(approval)),
        )
    yield "words", str(approval.get("words") or "")
    violation: dict[str, Any] = body.get("violation", {})
    yield "refused", styled_text(str(violation.get("error_type") or ""), "red")
    yield "why", str(violation.get("error") or "")
    yield "next", str(violation.get("action_hint") or "")
    for key, value in body.items():
        if key not in FORMATTED_KEYS and value not in (None, "", [], {}):
            yield key, value if isinstance(value, str) else json.encode(value).decode()
    yield "commit", str(document.get("vcs", {}).get("revision") or "")
    chain: dict[str, Any] = body.get("chain", {})
    yield "log", f"record {chain.get('seq')} of {chain.get('log')}" if chain else ""


def name_person(approval: dict[str, Any]) -> str:
    """Return who answered, if they had to log in."""
    who = as_object(approval.get("who"))
    return f"{who.get('name')} ({who.get('subject')} at {who.get('issuer')})" if who else ""


def file_row(file: dict[str, Any], body: dict[str, Any]) -> tuple[Text, Text, Text, Text]:
    hunks: list[list[int]] = file.get("hunks") or []
    added, removed = sum(hunk[3] for hunk in hunks), sum(hunk[1] for hunk in hunks)
    is_stray = file.get("in_scope") is False and body.get("intent_id") is not None and body.get("event") == "mutation"
    counts = join_texts(styled_text(f"+{added}", "green"), styled_text(f"-{removed}", "red"))
    sign = styled_text(OPERATION_SIGNS.get(str(file.get("operation")), "~"))
    stray = styled_text("out of scope" if is_stray else "", "yellow")
    return sign, styled_text(file.get("path")), counts if hunks else styled_text(""), stray
