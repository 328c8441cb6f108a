"""`remit status`: what is governed here, and what happened lately."""

import os
from datetime import UTC, datetime
from pathlib import Path

import click
from msgspec import Struct, to_builtins

from remit.cli.log import summary_line
from remit.cli.output import emit, json_option, open_gate, repo_option, reports_failures
from remit.cli.wired import reports_wiring, user_place
from remit.core.text import shown
from remit.gate.gate import Gate
from remit.gate.trusting import untrusted_line
from remit.ledger.index import Index
from remit.ledger.moments import moment
from remit.provenance.verify.coverage import Coverage, Share, Ungoverned, coverage
from remit.wiring.agents import Place
from remit.wiring.manifest import read_manifest
from remit.wiring.plan import shown_path
from remit.wiring.soundness import unhooked

MOST = 50


class Measured(Struct, frozen=True):
    """The coverage of all that is recorded, and that of the last seven days."""

    all: Coverage
    week: Share


@click.command()
@click.option("--coverage", "whole", is_flag=True, help="List each change that nobody judged before.")
@repo_option
@json_option
@reports_failures
@reports_wiring
def status(whole: bool, repo: Path, as_json: bool) -> None:
    """Show what is governed here, who works on what, and what happened lately."""
    gate = open_gate(repo)
    if not gate.governed:
        emit({"governed": False}, as_json, "Remit does not govern this repository; start with `remit init`")
        return
    measured = covered(gate)
    if whole:
        emit({"coverage": as_data(measured)}, as_json, "\n".join(whole_coverage(measured)))
        return
    loose = loose_hooks(gate)
    data = {**facts(gate, measured), "unhooked": [{"agent": agent, "path": str(p)} for p, agent in loose.items()]}
    emit(data, as_json, "\n".join([*alarm(gate, loose), text(gate, data, measured)]))


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


def facts(gate: Gate, measured: Measured) -> dict[str, object]:
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
        "coverage": as_data(measured),
    }


def covered(gate: Gate) -> Measured:
    """How much of what changed was judged before, overall, by session and in the last week."""
    workspace = gate.workspace
    week = moment("7d", datetime.fromtimestamp(gate.environment.clock(), UTC))
    with Index.open(workspace.state / "index.db", workspace.log_folder) as index:
        index.catch_up()
        return Measured(coverage(index), coverage(index, since=week).overall)


def shared(share: Share) -> dict[str, object]:
    """A share as data."""
    return {
        "changed": share.changed,
        "judged": share.judged,
        "ungoverned": list(share.ungoverned),
        "people": share.people,
        "git": share.git,
    }


def as_data(measured: Measured) -> dict[str, object]:
    """The coverage as data, with each change that had no verdict."""
    sessions = [{"session_id": name, **shared(its)} for name, its in measured.all.sessions.items()]
    changes = [to_builtins(change) for change in measured.all.changes]
    return {**shared(measured.all.overall), "week": shared(measured.week), "sessions": sessions, "changes": changes}


def coverage_lines(gate: Gate, measured: Measured) -> list[str]:
    """The coverage for people; nothing where nothing changed yet."""
    share = measured.all.overall
    if not share.changed:
        return []
    newest = next(iter(gate.state.recent_sessions(1)), None)
    own = measured.all.sessions.get(newest.session_id) if newest else None
    parts = [("this week", measured.week), *([("the newest session", own)] if own else [])]
    lines = [f"coverage {share.judged} of {share.changed} changed files were judged before they changed"]
    lines += [f"         {name}: {its.judged} of {its.changed}" for name, its in parts if its.changed]
    if share.ungoverned:
        names = ", ".join(shown(path, 120) for path in share.ungoverned[:10])
        more = f" and {len(share.ungoverned) - 10} more" if len(share.ungoverned) > 10 else ""
        lines += [
            f"         not: {names}{more}",
            *likely(measured.all.changes[0]),
            "         each: remit status --coverage",
        ]
    return lines


def likely(change: Ungoverned) -> list[str]:
    """The newest change without a verdict, and its likeliest writer."""
    if not change.writers:
        return []
    return [f"         newest: {shown(change.path, 120)}, likely by {shown(change.writers[0], 160)}"]


def whole_coverage(measured: Measured) -> list[str]:
    """Each change that had no verdict before, for people."""
    share = measured.all.overall
    lines = [f"{share.judged} of {share.changed} changed files were judged before they changed"]
    lines += [f"people alone changed {share.people} files, git {share.git}"] if share.people or share.git else []
    for name, its in measured.all.sessions.items():
        lines.append(f"  {shown(name, 60) if name else 'no session':<40} {its.judged} of {its.changed}")
    for change in measured.all.changes[:MOST]:
        undone = "; undone" if change.undone else ""
        lines.append(f"{change.at[:19]}Z  {change.operation:<7} {shown(change.path, 120)}  {change.why}{undone}")
        lines += [f"    likely: {shown(writer, 200)}" for writer in change.writers[:3]]
    left = len(measured.all.changes) - MOST
    return [*lines, f"… and {left} more; --json has all"] if left > 0 else lines


def text(gate: Gate, data: dict[str, object], measured: Measured) -> str:
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
    open_ids = [f"{i.id} {shown(i.title, 100)}" for i in intents if i.status in ("DRAFT", "IN_PROGRESS")]
    lines.append(
        f"intents  {'; '.join(open_ids[:5]) or 'none open: make one with `remit intent new NAME --scope GLOB`'}"
    )
    if data["errors"]:
        lines.append(f"         active_intents.yaml has {data['errors']} errors: see `remit intent lint`")
    for key in gate.state.recent_sessions(5):
        session = gate.state.active(key)
        lines.append(f"session  {shown(key.session_id, 60)}  {session.agent}  {session.intent_id or 'no intent'}")
    lines += coverage_lines(gate, measured)
    if data["waiting_records"]:
        lines.append(f"spool    {data['waiting_records']} records wait to be written")
    return "\n".join([*lines, *(f"         {summary_line(d)}" for d in newest)])
