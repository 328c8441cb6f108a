"""`remit status`: what is governed here, and what happened lately."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import click
from msgspec import Struct, to_builtins
from rich.text import Text

from remit.cli.agents.wiring import reports_wiring, user_place
from remit.cli.intent.intent_view import intent_table
from remit.cli.output import emit, emit_view, json_option, open_gate, repo_option, reports_failures, view_options
from remit.cli.policy.mode import MODE_DESCRIPTIONS
from remit.cli.records.record_table import record_table
from remit.cli.terminal.screen import Screen
from remit.cli.terminal.view import GAP, TextTable, ViewPart, facts, heading, join_texts, mark, styled_text
from remit.gate.gate import Gate
from remit.gate.rules.trust import describe_untrusted
from remit.ledger.index.index import open_index
from remit.ledger.parse_time import parse_time
from remit.provenance.verify.coverage import Coverage, CoverageShare, measure_coverage
from remit.wiring.agents import SettingsPlace
from remit.wiring.client_checks import find_unhooked_files
from remit.wiring.manifest import read_manifest
from remit.wiring.plan import display_path

OPEN_STATUSES = ("DRAFT", "IN_PROGRESS")
MAX_CHANGES = 50
MAX_NAMED = 10
MAX_INTENTS = 5
MAX_SESSIONS = 5
MAX_NEWEST = 5


class CoverageReport(Struct, frozen=True):
    """The coverage of all that is recorded, and that of the last seven days."""

    total: Coverage
    week: CoverageShare


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
    if not gate.is_governed:
        emit({"governed": False}, as_json, "Remit does not govern this repository; start with `remit init`")
        return
    measured = report_coverage(gate)
    if whole:
        emit_view({"coverage": coverage_document(measured)}, as_json, partial(coverage_view, measured))
        return
    loose = find_loose_hooks(gate)
    data = {**status_data(gate, measured), "unhooked": [{"agent": agent, "path": str(p)} for p, agent in loose.items()]}
    emit_view(data, as_json, partial(status_view, gate, loose, measured))


def find_loose_hooks(gate: Gate) -> dict[Path, str]:
    """The settings files whose hooks are gone or changed since `init`, with their agents."""
    home = gate.environment.home
    manifest = read_manifest(home)
    return find_unhooked_files(
        [user_place(home, os.environ, manifest), SettingsPlace(home), SettingsPlace(home, gate.workspace.root)],
        manifest,
    )


def hook_warnings(gate: Gate, loose: dict[Path, str]) -> Iterator[Text]:
    """Return a loud line where hooks are missing, so that calls are not judged."""
    if not loose and not read_manifest(gate.environment.home).files:
        yield mark("warning", "no agent is wired: nobody asks before a call. See `remit init`")
    if not loose:
        return
    named = ", ".join(f"{agent} ({display_path(path, gate.environment.home)})" for path, agent in loose.items())
    said = f"HOOKS ARE GONE OR CHANGED: {named}. Calls go by unjudged. Run: remit doctor --fix"
    yield mark("failed", said, is_strong=True)


def status_data(gate: Gate, measured: CoverageReport) -> dict[str, object]:
    """The status as data."""
    rules = gate.rules
    intents = rules.document.intents if rules.document else ()
    sessions = [
        {"session_id": key.session_id, "intent_id": gate.state.active_session(key).intent_id}
        for key in gate.state.list_recent_sessions(5)
    ]
    return {
        "governed": True,
        "root": str(gate.workspace.root),
        "mode": rules.mode,
        "config_error": rules.config_error,
        "intents": {"open": sum(i.status in OPEN_STATUSES for i in intents), "all": len(intents)},
        "errors": len(rules.document.errors) if rules.document else 0,
        "sessions": sessions,
        "untrusted": [command.name for command in gate.untrusted_commands],
        "waiting_records": gate.recorder.spool.count_pending(),
        "coverage": coverage_document(measured),
    }


def report_coverage(gate: Gate) -> CoverageReport:
    """How much of what changed was judged before, overall, by session and in the last week."""
    workspace = gate.workspace
    week = parse_time("7d", datetime.fromtimestamp(gate.environment.clock(), UTC))
    with open_index(workspace.state, workspace.log_folder) as index:
        return CoverageReport(measure_coverage(index), measure_coverage(index, since=week).overall)


def share_document(share: CoverageShare) -> dict[str, object]:
    """A share as data."""
    return {
        "changed": share.changed,
        "judged": share.covered_files,
        "ungoverned": list(share.ungoverned),
        "people": share.people,
        "git": share.git,
    }


def coverage_document(measured: CoverageReport) -> dict[str, object]:
    """The coverage as data, with each change that had no verdict."""
    sessions = [{"session_id": name, **share_document(its)} for name, its in measured.total.sessions.items()]
    changes = [to_builtins(change) for change in measured.total.changes]
    return {
        **share_document(measured.total.overall),
        "week": share_document(measured.week),
        "sessions": sessions,
        "changes": changes,
    }


def coverage_facts(gate: Gate, measured: CoverageReport) -> Iterator[tuple[str, Text]]:
    """Return the coverage for people; nothing before the first change."""
    share = measured.total.overall
    if not share.changed:
        return
    newest = next(iter(gate.state.list_recent_sessions(1)), None)
    own = measured.total.sessions.get(newest.session_id) if newest else None
    parts = [("this week", measured.week), *([("the newest session", own)] if own else [])]
    told = "; ".join(f"{name}: {its.covered_files} of {its.changed}" for name, its in parts if its.changed)
    yield (
        "coverage",
        styled_text(f"{share.covered_files} of {share.changed} changed files were judged before they changed"),
    )
    yield "", styled_text(told, "dim")
    if share.ungoverned:
        more = f" and {len(share.ungoverned) - MAX_NAMED} more" if len(share.ungoverned) > MAX_NAMED else ""
        yield (
            "",
            mark("warning", f"not: {', '.join(share.ungoverned[:MAX_NAMED])}{more}; see `remit status --coverage`"),
        )
        change = measured.total.changes[0]
        if change.writers:
            yield "", styled_text(f"newest: {change.path}, {GRADE_WORDS[change.grade]} {change.writers[0]}", "dim")


def coverage_view(measured: CoverageReport, screen: Screen) -> Iterator[ViewPart]:
    """Return each change that had no verdict before, for people."""
    share = measured.total.overall
    yield f"{share.covered_files} of {share.changed} changed files were judged before they changed"
    if share.people or share.git:
        yield f"people alone changed {share.people} files, git {share.git}"
    sessions = measured.total.sessions.items()
    yield TextTable(
        [(name or "no session", f"{its.covered_files} of {its.changed}") for name, its in sessions], cut=0, indent=2
    )
    for change in measured.total.changes[:MAX_CHANGES]:
        undone = mark("undone", "undone") if change.undone else None
        at, why = styled_text(screen.format_time(change.at), "dim"), styled_text(change.why, "yellow")
        yield join_texts(at, change.operation, change.path, why, undone, between=GAP)
        for writer in change.writers[:3]:
            yield styled_text(f"    {GRADE_WORDS[change.grade]} {writer}")
    left = len(measured.total.changes) - MAX_CHANGES
    if left > 0:
        yield f"… and {left} more; --json has all"


def status_view(gate: Gate, loose: dict[Path, str], measured: CoverageReport, screen: Screen) -> Iterator[ViewPart]:
    """Return the rules, sessions, coverage, open intents and newest records."""
    workspace, rules = gate.workspace, gate.rules
    yield from hook_warnings(gate, loose)
    yield heading(str(workspace.root))
    yield facts([*rule_facts(gate), *session_facts(gate), *coverage_facts(gate, measured), *spool_facts(gate)])
    intents = [i for i in (rules.document.intents if rules.document else ()) if i.status in OPEN_STATUSES]
    if intents:
        yield ""
        yield intent_table(intents[:MAX_INTENTS])
        if len(intents) > MAX_INTENTS:
            yield f"… and {len(intents) - MAX_INTENTS} more: `remit intent list`"
    with open_index(workspace.state, workspace.log_folder) as index:
        newest = index.find(limit=MAX_NEWEST)
    if newest:
        yield ""
        yield record_table(newest, screen)


def rule_facts(gate: Gate) -> Iterator[tuple[str, Text]]:
    """Return the mode, and what is wrong with the files that govern."""
    rules = gate.rules
    intents = rules.document.intents if rules.document else ()
    yield (
        "mode",
        join_texts(styled_text(rules.mode, "bold"), styled_text(MODE_DESCRIPTIONS[rules.mode], "dim"), between=GAP),
    )
    if rules.config_error:
        yield "", mark("failed", rules.config_error)
    if said := describe_untrusted(gate.untrusted_commands):
        yield "trust", mark("warning", f"{said}: see `remit trust`")
    if rules.document and rules.document.errors:
        yield (
            "",
            mark("warning", f"active_intents.yaml has {len(rules.document.errors)} errors: see `remit intent lint`"),
        )
    if not any(i.status in OPEN_STATUSES for i in intents):
        yield "intents", styled_text("none open: make one with `remit intent new NAME --scope GLOB`")


def session_facts(gate: Gate) -> Iterator[tuple[str, Text]]:
    """Return the newest sessions, with what each works under."""
    for number, key in enumerate(gate.state.list_recent_sessions(MAX_SESSIONS)):
        session = gate.state.active_session(key)
        about = styled_text(session.intent_id or "no intent", "" if session.intent_id else "dim")
        yield (
            ("" if number else "sessions"),
            join_texts(mark("agent", session.agent), key.session_id, about, between=GAP),
        )


def spool_facts(gate: Gate) -> Iterator[tuple[str, Text]]:
    """Return how many records wait to be written."""
    if waiting := gate.recorder.spool.count_pending():
        yield "spool", mark("warning", f"{waiting} records wait to be written")
