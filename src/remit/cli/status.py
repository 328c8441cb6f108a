"""`remit status`: what is governed here, and what happened lately."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import click
from msgspec import Struct, to_builtins
from rich.text import Text

from remit.cli.intent_views import intent_table
from remit.cli.mode import ABOUT
from remit.cli.output import emit, emit_view, json_option, open_gate, repo_option, reports_failures, view_options
from remit.cli.record_rows import record_table
from remit.cli.screen import Screen
from remit.cli.view import GAP, Part, Table, facts, heading, line, mark, words
from remit.cli.wired import reports_wiring, user_place
from remit.gate.gate import Gate
from remit.gate.trusting import untrusted_line
from remit.ledger.index import Index
from remit.ledger.moments import moment
from remit.provenance.verify.coverage import Coverage, Share, coverage
from remit.wiring.agents import Place
from remit.wiring.manifest import read_manifest
from remit.wiring.plan import shown_path
from remit.wiring.soundness import unhooked

OPEN = ("DRAFT", "IN_PROGRESS")
MAX_CHANGES = 50
MAX_NAMED = 10
MAX_INTENTS = 5
MAX_SESSIONS = 5
MAX_NEWEST = 5


class Measured(Struct, frozen=True):
    """The coverage of all that is recorded, and that of the last seven days."""

    all: Coverage
    week: Share


GRADE_WORDS = {"exact": "written by", "likely": "likely by", None: "perhaps by"}
"""How sure it is who made a change: the words of blame's grades."""


@click.command()
@click.option("--coverage", "whole", is_flag=True, help="List each change that nobody judged before.")
@repo_option
@json_option
@view_options
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
        emit_view({"coverage": as_data(measured)}, as_json, partial(coverage_view, measured))
        return
    loose = loose_hooks(gate)
    data = {**status_data(gate, measured), "unhooked": [{"agent": agent, "path": str(p)} for p, agent in loose.items()]}
    emit_view(data, as_json, partial(status_view, gate, loose, measured))


def loose_hooks(gate: Gate) -> dict[Path, str]:
    """The settings files whose hooks are gone or changed since `init`, with their agents."""
    home = gate.environment.home
    manifest = read_manifest(home)
    return unhooked([user_place(home, os.environ, manifest), Place(home), Place(home, gate.workspace.root)], manifest)


def alarm(gate: Gate, loose: dict[Path, str]) -> Iterator[Text]:
    """Return a loud line where hooks are missing, so that calls are not judged."""
    if not loose and not read_manifest(gate.environment.home).files:
        yield mark("warning", "no agent is wired: nobody asks before a call. See `remit init`")
    if not loose:
        return
    named = ", ".join(f"{agent} ({shown_path(path, gate.environment.home)})" for path, agent in loose.items())
    said = f"HOOKS ARE GONE OR CHANGED: {named}. Calls go by unjudged. Run: remit doctor --fix"
    yield mark("failed", said, is_strong=True)


def status_data(gate: Gate, measured: Measured) -> dict[str, object]:
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
        "intents": {"open": sum(i.status in OPEN for i in intents), "all": len(intents)},
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


def coverage_facts(gate: Gate, measured: Measured) -> Iterator[tuple[str, Text]]:
    """Return the coverage for people; nothing before the first change."""
    share = measured.all.overall
    if not share.changed:
        return
    newest = next(iter(gate.state.recent_sessions(1)), None)
    own = measured.all.sessions.get(newest.session_id) if newest else None
    parts = [("this week", measured.week), *([("the newest session", own)] if own else [])]
    told = "; ".join(f"{name}: {its.judged} of {its.changed}" for name, its in parts if its.changed)
    yield "coverage", words(f"{share.judged} of {share.changed} changed files were judged before they changed")
    yield "", words(told, "dim")
    if share.ungoverned:
        more = f" and {len(share.ungoverned) - MAX_NAMED} more" if len(share.ungoverned) > MAX_NAMED else ""
        yield (
            "",
            mark("warning", f"not: {', '.join(share.ungoverned[:MAX_NAMED])}{more}; see `remit status --coverage`"),
        )
        change = measured.all.changes[0]
        if change.writers:
            yield "", words(f"newest: {change.path}, {GRADE_WORDS[change.grade]} {change.writers[0]}", "dim")


def coverage_view(measured: Measured, screen: Screen) -> Iterator[Part]:
    """Return each change that had no verdict before, for people."""
    share = measured.all.overall
    yield f"{share.judged} of {share.changed} changed files were judged before they changed"
    if share.people or share.git:
        yield f"people alone changed {share.people} files, git {share.git}"
    sessions = measured.all.sessions.items()
    yield Table([(name or "no session", f"{its.judged} of {its.changed}") for name, its in sessions], cut=0, indent=2)
    for change in measured.all.changes[:MAX_CHANGES]:
        undone = mark("undone", "undone") if change.undone else None
        at, why = words(screen.time(change.at), "dim"), words(change.why, "yellow")
        yield line(at, change.operation, change.path, why, undone, between=GAP)
        for writer in change.writers[:3]:
            yield words(f"    {GRADE_WORDS[change.grade]} {writer}")
    left = len(measured.all.changes) - MAX_CHANGES
    if left > 0:
        yield f"… and {left} more; --json has all"


def status_view(gate: Gate, loose: dict[Path, str], measured: Measured, screen: Screen) -> Iterator[Part]:
    """Return the rules, sessions, coverage, open intents and newest records."""
    workspace, rules = gate.workspace, gate.governing
    yield from alarm(gate, loose)
    yield heading(str(workspace.root))
    yield facts([*rule_facts(gate), *session_facts(gate), *coverage_facts(gate, measured), *spool_facts(gate)])
    intents = [i for i in (rules.document.intents if rules.document else ()) if i.status in OPEN]
    if intents:
        yield ""
        yield intent_table(intents[:MAX_INTENTS])
        if len(intents) > MAX_INTENTS:
            yield f"… and {len(intents) - MAX_INTENTS} more: `remit intent list`"
    with Index.open(workspace.state / "index.db", workspace.log_folder) as index:
        index.catch_up()
        newest = index.find(limit=MAX_NEWEST)
    if newest:
        yield ""
        yield record_table(newest, screen)


def rule_facts(gate: Gate) -> Iterator[tuple[str, Text]]:
    """Return the mode, and what is wrong with the files that govern."""
    rules = gate.governing
    intents = rules.document.intents if rules.document else ()
    yield "mode", line(words(rules.mode, "bold"), words(ABOUT[rules.mode], "dim"), between=GAP)
    if rules.config_error:
        yield "", mark("failed", rules.config_error)
    if said := untrusted_line(gate.untrusted):
        yield "trust", mark("warning", f"{said}: see `remit trust`")
    if rules.document and rules.document.errors:
        yield (
            "",
            mark("warning", f"active_intents.yaml has {len(rules.document.errors)} errors: see `remit intent lint`"),
        )
    if not any(i.status in OPEN for i in intents):
        yield "intents", words("none open: make one with `remit intent new NAME --scope GLOB`")


def session_facts(gate: Gate) -> Iterator[tuple[str, Text]]:
    """Return the newest sessions, with what each works under."""
    for number, key in enumerate(gate.state.recent_sessions(MAX_SESSIONS)):
        session = gate.state.active(key)
        about = words(session.intent_id or "no intent", "" if session.intent_id else "dim")
        yield ("" if number else "sessions"), line(mark("agent", session.agent), key.session_id, about, between=GAP)


def spool_facts(gate: Gate) -> Iterator[tuple[str, Text]]:
    """Return how many records wait to be written."""
    if waiting := gate.recorder.spool.pending():
        yield "spool", mark("warning", f"{waiting} records wait to be written")
