"""`remit doctor`: check the wiring, and name the repair for each finding."""

import os
import sys
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import click
import msgspec

from remit.cli.agents.wiring import reports_wiring, user_place
from remit.cli.output import FINDINGS, command_options, emit
from remit.cli.person_only import require_person
from remit.core.timestamps import format_utc
from remit.gate.gate import Gate
from remit.gate.rules.governed_workspaces import update_marker
from remit.gate.rules.load import load_rules
from remit.ledger.segments import LedgerError
from remit.servers.environment import read_environment
from remit.wiring import client_checks, doctor_checks
from remit.wiring.agents import DetectedAgent, SettingsPlace, find_agents
from remit.wiring.doctor_checks import DoctorCheck, check_containment, check_effects, check_leftovers
from remit.wiring.hook_client import hash_client, install_client, server_command
from remit.wiring.manifest import Manifest, read_manifest, write_manifest
from remit.wiring.plan import plan_settings, write_plans

UNKNOWN_CLIENT_HASH = "not noted"
"""Matches no client: without a recorded SHA-256 the client is reinstalled."""

LEVEL_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command()
@click.option("--fix", is_flag=True, help="Repair what can be repaired.")
@click.option("--live", is_flag=True, help="Also run the real agents against a scripted model, in a HOME of their own.")
@click.option(
    "--runs", default=client_checks.LATENCY_RUNS, show_default=True, type=click.IntRange(1, 1000), help="To measure by."
)
@command_options
@reports_wiring
def doctor(fix: bool, live: bool, runs: int, repo: Path, as_json: bool) -> None:
    """Check what is wired and whether it works. Exit 1 where something fails."""
    environment = read_environment()
    gate = Gate.open(repo, environment)
    home = environment.home
    manifest = read_manifest(home)
    user = user_place(home, os.environ, manifest)
    agents = find_agents(home, os.environ.get("PATH", os.defpath), moved=user.moved_folders)
    repaired: list[str] = []
    if fix:
        require_person("`remit doctor --fix`")
        repaired = repair(gate, user, manifest, agents)
        manifest = read_manifest(home)
    checks = run_checks(gate, user, manifest, agents, runs)
    if live:
        from remit.cli.agents.live_probe import probe_agent  # imports a model server, which only --live needs

        checks += [probe_agent(agent) for agent in agents if agent.binary]
    failures = sum(check.level == "fail" for check in checks)
    warnings = sum(check.level == "warn" for check in checks)
    lines = [*(f"repaired: {item}" for item in repaired), *map(check_line, checks)]
    text = "\n".join([*lines, f"{failures} failures, {warnings} warnings"])
    emit({"ok": not failures, "repaired": repaired, "checks": checks}, as_json, text)
    if failures:
        sys.exit(FINDINGS)


def run_checks(
    gate: Gate, user: SettingsPlace, manifest: Manifest, agents: list[DetectedAgent], runs: int
) -> list[DoctorCheck]:
    """Return the results of all checks, prerequisites first."""
    home = user.home
    checks = [doctor_checks.check_git(home), doctor_checks.check_key(home), doctor_checks.check_grammars()]
    checks.append(check_containment(home, gate.environment.temporary, gate.workspace if gate.is_governed else None))
    checks += check_leftovers(home, gate.environment.temporary)
    newest_calls: dict[str, str] = {}
    if gate.is_governed:
        checks += [*doctor_checks.check_repository(gate), *check_effects(gate)]
        with suppress(LedgerError, OSError):  # an unreadable ledger has a check of its own
            newest_calls = doctor_checks.find_newest_calls(gate)
    else:
        checks.append(DoctorCheck("warn", "repository", "Remit does not govern here", "remit init"))
    if not agents:
        return [*checks, DoctorCheck("warn", "agents", "none found, on PATH or by its folder in HOME")]
    places = [find_wired_place(agent, user, workspace_root(gate), manifest) for agent in agents]
    wired = [agent for agent, place in zip(agents, places, strict=True) if place]
    checks += check_client(wired[0], home, manifest, runs) if wired else []
    for agent, place in zip(agents, places, strict=True):
        newest_call = newest_calls.get(agent.row.agent)
        checks += doctor_checks.check_agent(agent, place or user, manifest, os.environ, newest_call)
        if place and gate.is_governed and gate.rules.mode == "enforce":
            checks.append(doctor_checks.check_own_rules(gate, agent))
    return checks


def find_wired_place(
    agent: DetectedAgent, user: SettingsPlace, root: Path | None, manifest: Manifest
) -> SettingsPlace | None:
    """Return the place wired by `init`: the project first, then the user; None if not wired."""
    places = [*([SettingsPlace(user.home, root)] if root else []), user]
    return next((place for place in places if manifest.find_file(place.hooks_file(agent.row))), None)


def check_client(agent: DetectedAgent, home: Path, manifest: Manifest, runs: int) -> list[DoctorCheck]:
    identity = client_checks.check_client(home, manifest.client)
    if identity.level == "fail":
        return [identity]
    latency = client_checks.measure_latency(agent.row, home, os.environ, runs)
    return [identity, client_checks.check_latency(latency), client_checks.check_daemon(home)]


def repair(gate: Gate, user: SettingsPlace, manifest: Manifest, agents: list[DetectedAgent]) -> list[str]:
    """Repair the wiring, the mode's marker and the spool; return the repaired items.

    Raises OSError, WiringProblem, LedgerError.
    """
    repaired = repair_wiring(gate, user, manifest, agents)
    if not gate.is_governed:
        return repaired
    if doctor_checks.check_mode(gate).fix == "remit doctor --fix":
        update_marker(gate.workspace, load_rules(gate.workspace).mode)
        repaired.append("the marker of the mode")
    if gate.recorder.spool.count_pending():
        count = gate.recorder.spool.drain(gate.recorder.log, views=gate.recorder.views)
        repaired.append(f"{count} records that waited")
    return repaired


def repair_wiring(gate: Gate, user: SettingsPlace, manifest: Manifest, agents: list[DetectedAgent]) -> list[str]:
    """Reinstall the client and rewrite outdated entries of wired agents. Raises NoClient."""
    if not manifest.files:
        return []
    home = user.home
    repaired = ["the hook client"] if client_checks.check_client(home, manifest.client).level != "ok" else []
    words = install_client(home, manifest.client or UNKNOWN_CLIENT_HASH)
    manifest = msgspec.structs.replace(manifest, client=hash_client(home))
    write_manifest(home, manifest)
    now = format_utc(datetime.now(UTC), "seconds")
    for agent in agents:
        place = find_wired_place(agent, user, workspace_root(gate), manifest)
        files = plan_settings([agent], place, words, server_command(), manifest, set()) if place else []
        manifest = write_plans(files, home, manifest, now, version("remit"))
        repaired += [str(file.path) for file in files if file.has_changes]
    return repaired


def workspace_root(gate: Gate) -> Path | None:
    return gate.found_workspace.root if gate.found_workspace else None


def check_line(check: DoctorCheck) -> str:
    level = click.style(f"{check.level:<5}", fg=LEVEL_COLOURS[check.level])
    return f"{level} {check.name:<14} {check.message}" + (f"  -> {check.fix}" if check.fix else "")
