"""`remit status`: what is governed here, and what happened lately."""

import os
from pathlib import Path

import click

from remit.cli.log import summary_line
from remit.cli.output import emit, json_option, open_gate, repo_option, reports_failures
from remit.cli.wired import reports_wiring, user_place
from remit.core.text import shown
from remit.gate.gate import Gate
from remit.gate.trusting import untrusted_line
from remit.ledger.index import Index
from remit.provenance.coverage import Coverage, Share, coverage
from remit.wiring.agents import Place
from remit.wiring.manifest import read_manifest
from remit.wiring.plan import shown_path
from remit.wiring.soundness import unhooked


@click.command()
@repo_option
@json_option
@reports_failures
@reports_wiring
def status(repo: Path, as_json: bool) -> None:
    """Show what is governed here, who works on what, and what happened lately."""
    gate = open_gate(repo)
    if not gate.governed:
        emit({"governed": False}, as_json, "Remit does not govern this repository; start with `remit init`")
        return
    measured = covered(gate)
    loose = loose_hooks(gate)
    data = {**facts(gate, measured), "unhooked": [{"agent": agent, "path": str(p)} for p, agent in loose.items()]}
    emit(data, as_json, "\n".join([*alarm(gate, loose), text(gate, data, measured.overall)]))


def loose_hooks(gate: Gate) -> dict[Path, str]:
    """The settings files whose hooks are gone or changed since `init`, with their agents."""
    home = gate.environment.home
    manifest = read_manifest(home)
    return unhooked([user_place(home, os.environ, manifest), Place(home), Place(home, gate.workspace.root)], manifest)


def alarm(gate: Gate, loose: dict[Path, str]) -> list[str]:
    """One loud line, where calls may go by that nobody judges."""
    if not loose and not read_manifest(gate.environment.home).files:
        return ["no agent is wired: nobody asks before a call. See `remit init`"]
    if not loose:
        return []
    named = ", ".join(f"{agent} ({shown_path(path, gate.environment.home)})" for path, agent in loose.items())
    said = f"HOOKS ARE GONE OR CHANGED: {named}. Calls go by unjudged. Run: remit doctor --fix"
    return [click.style(said, fg="red", bold=True)]


def facts(gate: Gate, measured: Coverage) -> dict[str, object]:
    """The status as data."""
    rules = gate.governing
    intents = rules.document.intents if rules.document else ()
    sessions = [
        {"session_id": key.session_id, "intent_id": gate.state.active(key).intent_id}
        for key in gate.state.recent_sessions(5)
    ]
    return {
        "governed": True,
        "root": str(gate.workspace.root),
        "mode": rules.mode,
        "config_error": rules.config_error,
        "intents": {"open": sum(i.status in ("DRAFT", "IN_PROGRESS") for i in intents), "all": len(intents)},
        "errors": len(rules.document.errors) if rules.document else 0,
        "sessions": sessions,
        "untrusted": [command.name for command in gate.untrusted],
        "waiting_records": gate.recorder.spool.pending(),
        "coverage": {
            **shared(measured.overall),
            "sessions": [{"session_id": name, **shared(share)} for name, share in measured.sessions.items()],
        },
    }


def covered(gate: Gate) -> Coverage:
    """How much of what changed was judged before, overall and by session."""
    workspace = gate.workspace
    with Index.open(workspace.state / "index.db", workspace.log_folder) as index:
        index.catch_up()
        return coverage(index)


def shared(share: Share) -> dict[str, object]:
    """A share as data."""
    return {"changed": share.changed, "judged": share.judged, "ungoverned": list(share.ungoverned)}


def coverage_lines(share: Share) -> list[str]:
    """The coverage for people; nothing where nothing changed yet."""
    if not share.changed:
        return []
    said = f"coverage {share.judged} of {share.changed} changed files were judged before they changed"
    if not share.ungoverned:
        return [said]
    names = ", ".join(shown(path, 120) for path in share.ungoverned[:10])
    more = f" and {len(share.ungoverned) - 10} more" if len(share.ungoverned) > 10 else ""
    return [said, f"         not: {names}{more}"]


def text(gate: Gate, data: dict[str, object], share: Share) -> str:
    """The status for people."""
    workspace = gate.workspace
    with Index.open(workspace.state / "index.db", workspace.log_folder) as index:
        index.catch_up()
        newest = index.find(limit=5)
    rules = gate.governing
    lines = [f"{workspace.root}", f"mode     {rules.mode}"]
    if rules.config_error:
        lines.append(f"         {rules.config_error}")
    if said := untrusted_line(gate.untrusted):
        lines.append(f"trust    {said}: see `remit trust`")
    intents = rules.document.intents if rules.document else ()
    open_ids = [f"{i.id} {i.title}" for i in intents if i.status in ("DRAFT", "IN_PROGRESS")]
    lines.append(
        f"intents  {'; '.join(open_ids[:5]) or 'none open: make one with `remit intent new NAME --scope GLOB`'}"
    )
    if data["errors"]:
        lines.append(f"         active_intents.yaml has {data['errors']} errors: see `remit intent lint`")
    for key in gate.state.recent_sessions(5):
        session = gate.state.active(key)
        lines.append(f"session  {key.session_id}  {session.agent}  {session.intent_id or 'no intent'}")
    lines += coverage_lines(share)
    if data["waiting_records"]:
        lines.append(f"spool    {data['waiting_records']} records wait to be written")
    return "\n".join([*lines, *(f"         {summary_line(d)}" for d in newest)])
