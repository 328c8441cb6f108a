"""`remit status`: mode, intents, sessions, coverage and the newest records."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import click
from msgspec import Struct
from rich.text import Text

from remit.cli.intent.intent_view import intent_table
from remit.cli.output import emit, emit_view, open_gate, open_index, view_command_options
from remit.cli.policy.mode import MODE_DESCRIPTIONS
from remit.cli.records.record_table import record_table
from remit.cli.screen import Screen
from remit.cli.view import GAP, TextTable, ViewPart, facts, heading, join_texts, mark, styled_text
from remit.console.status import read_console_status
from remit.gate.gate import Gate
from remit.gate.intents.owned_files import describe_nested_rules, warn_about_dead_scope
from remit.gate.people.adoption import are_rules_declined, find_adopting_pattern, find_carried_rules
from remit.gate.people.trust import describe_untrusted
from remit.ledger.parse_time import parse_time
from remit.provenance.verify.verdict_coverage import Coverage, CoverageShare, measure_coverage
from remit.wiring.agents import SettingsPlace, find_user_place
from remit.wiring.doctor_checks import find_unhooked_files, has_own_hooks
from remit.wiring.hook_switches import find_hook_switches, list_wired_agents
from remit.wiring.manifest import read_manifest
from remit.wiring.wire import display_path

MAX_CHANGES, MAX_NAMED, MAX_INTENTS, MAX_SESSIONS, MAX_NEWEST = 50, 10, 5, 5, 5
GRADE_WORDS = {"exact": "written by", "likely": "likely by", None: "perhaps by"}
"""Phrases for blame's grades of evidence."""


class CoverageReport(Struct, frozen=True):
    """The coverage of all records, and of the last seven days."""

    total: Coverage
    week: CoverageShare


@click.command()
@click.option("--coverage", "whole", is_flag=True, help="List each change that nobody judged before.")
@view_command_options
def status(whole: bool, repo: Path, as_json: bool) -> None:
    """Show what is governed here, who works on what, and what happened lately."""
    gate = open_gate(repo)
    if not gate.is_governed:
        show_ungoverned(gate, as_json)
        return
    week = parse_time("7d", datetime.fromtimestamp(gate.environment.clock.now(), UTC))
    with open_index(gate.workspace) as index:
        coverage = CoverageReport(measure_coverage(index), measure_coverage(index, since=week).overall)
    if whole:
        emit_view({"coverage": coverage_document(coverage)}, as_json, partial(coverage_view, coverage))
        return
    home, rules = gate.environment.home, gate.rules
    manifest = read_manifest(home)
    user = find_user_place(home, os.environ, manifest)
    places = [user, SettingsPlace(home), SettingsPlace(home, gate.workspace.root)]
    unhooked = find_unhooked_files(places, manifest)
    # Calls of these agents are not judged, so the view begins with a warning.
    warnings: list[Text] = []
    outdated = {path: agent for path, agent in unhooked.items() if has_own_hooks(path, manifest)}
    gone = {path: agent for path, agent in unhooked.items() if path not in outdated}
    if gone:
        files = ", ".join(f"{agent} ({display_path(path, home)})" for path, agent in gone.items())
        text = f"HOOKS ARE GONE OR CHANGED: {files}. Calls go by unjudged. Run: remit doctor --fix"
        warnings.append(mark("failed", text, is_strong=True))
    if outdated:
        agents = ", ".join(dict.fromkeys(outdated.values()))
        text = f"the hooks of {agents} are an earlier version's; they still judge. Run: remit doctor --fix"
        warnings.append(mark("warning", text))
    if not manifest.files:
        warnings.append(mark("warning", "no agent is wired: nobody asks before a call. See `remit init`"))
    switches = find_hook_switches(list_wired_agents(manifest), user, gate.workspace.root, os.environ)
    warnings += [mark("failed", str(switch), is_strong=True) for switch in switches]
    if nested := describe_nested_rules(gate.workspace):
        warnings.append(mark("warning", nested))
    for shown in rules.open_intents[:MAX_INTENTS]:
        warnings += [mark("warning", line) for line in warn_about_dead_scope(gate.workspace, shown)]
    recent = [(key.session_id, gate.state.active_session(key)) for key in gate.state.list_recent_sessions(MAX_SESSIONS)]
    data = {
        "governed": True,
        "root": str(gate.workspace.root),
        "mode": rules.mode,
        "config_error": rules.config_error,
        "intents": {"open": len(rules.open_intents), "all": len(rules.intents.intents)},
        "errors": len(rules.document.errors) if rules.document else 0,
        "sessions": [{"session_id": name, "intent_id": session.intent_id} for name, session in recent],
        "untrusted": [command.name for command in gate.untrusted_commands],
        "waiting_records": gate.recorder.spool.count_pending(),
        "coverage": coverage_document(coverage),
        "unhooked": [{"agent": agent, "path": str(path)} for path, agent in gone.items()],
        "outdated": [{"agent": agent, "path": str(path)} for path, agent in outdated.items()],
        "switched_off": switches,
        "nested_rules": nested,
    }
    emit_view(data, as_json, partial(status_view, gate, warnings, coverage))


def show_ungoverned(gate: Gate, as_json: bool) -> None:
    carried = find_carried_rules(gate.found_workspace)
    if carried is None or gate.found_workspace is None:
        emit({"governed": False}, as_json, "Remit does not govern this repository; start with `remit init`")
        return
    home = gate.environment.home
    is_declined = are_rules_declined(home, gate.found_workspace)
    pattern = find_adopting_pattern(home, gate.found_workspace)
    text = f"THIS REPOSITORY CARRIES REMIT RULES ({carried.mode}), AND THEY DO NOT HOLD HERE. Run: remit adopt"
    line = mark("failed", f"{text}, or remit adopt --never", is_strong=True)
    if is_declined:
        line = styled_text(
            "The rules of this repository do not hold here: you said so (`remit adopt` ends that)", "dim"
        )
    elif pattern:
        line = mark(
            "warning", f"its rules ({carried.mode}) hold from an agent's first call on: [adopt] names {pattern}"
        )
    data = {"governed": False, "carried": carried.mode, "declined": is_declined, "adopted_by": pattern or None}
    emit_view(data, as_json, lambda _: [line])


def status_view(gate: Gate, warnings: list[Text], coverage: CoverageReport, screen: Screen) -> Iterator[ViewPart]:
    yield from warnings
    yield heading(str(gate.workspace.root))
    yield facts([*rule_facts(gate), *coverage_facts(gate, coverage)])
    rules = gate.rules
    intents = rules.open_intents
    if intents:
        yield ""
        yield intent_table(map(rules.describe_intent, intents[:MAX_INTENTS]))
        if len(intents) > MAX_INTENTS:
            yield f"… and {len(intents) - MAX_INTENTS} more: `remit intent list`"
    with open_index(gate.workspace) as index:
        newest = index.find(limit=MAX_NEWEST)
    if newest:
        yield ""
        yield record_table(newest, screen)


def rule_facts(gate: Gate) -> Iterator[tuple[str, Text | str]]:
    rules = gate.rules
    description = styled_text(MODE_DESCRIPTIONS[rules.mode], "dim")
    yield "mode", join_texts(styled_text(rules.mode, "bold"), description, between=GAP)
    if rules.config_error:
        yield "", mark("failed", rules.config_error)
    if rules.loosened:
        what = "; ".join(dict.fromkeys(what for what, _ in rules.loosened))
        yield "", mark("warning", f"git brought looser rules ({what}), which do not hold: see `remit rules diff`")
    if untrusted := describe_untrusted(gate.untrusted_commands):
        yield "trust", mark("warning", f"{untrusted}: see `remit trust`")
    if rules.document and rules.document.errors:
        errors = len(rules.document.errors)
        yield "", mark("warning", f"the files of intents have {errors} errors: see `remit intent lint`")
    if not rules.open_intents:
        yield "intents", "none open: make one with `remit intent new NAME --scope GLOB`"
    for number, key in enumerate(gate.state.list_recent_sessions(MAX_SESSIONS)):
        session = gate.state.active_session(key)
        active = styled_text(session.intent_id or "no intent", "" if session.intent_id else "dim")
        yield (
            "" if number else "sessions",
            join_texts(mark("agent", session.agent), key.session_id, active, between=GAP),
        )
    if waiting := gate.recorder.spool.count_pending():
        yield "spool", mark("warning", f"{waiting} records wait to be written")
    console = read_console_status(gate.environment.home)
    if console is not None and (console.restarts or not console.is_running):
        yield "console", mark("warning", console.describe())


def coverage_document(coverage: CoverageReport) -> dict[str, object]:
    def share_document(share: CoverageShare) -> dict[str, object]:
        counts = {"changed": share.changed, "judged": share.covered_files, "people": share.people, "git": share.git}
        return {**counts, "ungoverned": list(share.ungoverned)}

    total = coverage.total
    return {
        **share_document(total.overall),
        "week": share_document(coverage.week),
        "sessions": [{"session_id": name, **share_document(share)} for name, share in total.sessions.items()],
        "changes": list(total.changes),
    }


def coverage_facts(gate: Gate, coverage: CoverageReport) -> Iterator[tuple[str, Text | str]]:
    share = coverage.total.overall
    if not share.changed:
        return
    newest = next(iter(gate.state.list_recent_sessions(1)), None)
    session_share = coverage.total.sessions.get(newest.session_id) if newest else None
    parts = [("this week", coverage.week), *([("the newest session", session_share)] if session_share else [])]
    shares = [f"{name}: {part.covered_files} of {part.changed}" for name, part in parts if part.changed]
    yield "coverage", f"{share.covered_files} of {share.changed} changed files were judged before they changed"
    yield "", styled_text("; ".join(shares), "dim")
    if share.ungoverned:
        more = f" and {len(share.ungoverned) - MAX_NAMED} more" if len(share.ungoverned) > MAX_NAMED else ""
        files = ", ".join(share.ungoverned[:MAX_NAMED])
        yield "", mark("warning", f"not: {files}{more}; see `remit status --coverage`")
        change = coverage.total.changes[0]
        if change.writers:
            yield "", styled_text(f"newest: {change.path}, {GRADE_WORDS[change.grade]} {change.writers[0]}", "dim")


def coverage_view(coverage: CoverageReport, screen: Screen) -> Iterator[ViewPart]:
    share = coverage.total.overall
    yield f"{share.covered_files} of {share.changed} changed files were judged before they changed"
    if share.people or share.git:
        yield f"people alone changed {share.people} files, git {share.git}"
    sessions = coverage.total.sessions.items()
    rows = [(name or "no session", f"{part.covered_files} of {part.changed}") for name, part in sessions]
    yield TextTable(rows, cut=0, indent=2)
    for change in coverage.total.changes[:MAX_CHANGES]:
        undone = mark("undone", "undone") if change.undone else None
        at, why = styled_text(screen.format_time(change.at), "dim"), styled_text(change.why, "yellow")
        yield join_texts(at, change.operation, change.path, why, undone, between=GAP)
        for writer in change.writers[:3]:
            yield styled_text(f"    {GRADE_WORDS[change.grade]} {writer}")
    left = len(coverage.total.changes) - MAX_CHANGES
    if left > 0:
        yield f"… and {left} more; --json has all"
