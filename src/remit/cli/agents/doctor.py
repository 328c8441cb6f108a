"""`remit doctor`: check the wiring, and name the repair for each finding."""

import os
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import click
from msgspec.structs import replace

from remit.cli.output import FINDINGS, command_options, emit, open_index
from remit.cli.person_only import require_person
from remit.console.remote.settings import RemoteSetupRefused, read_remote_settings, resolve_file
from remit.console.status import read_console_status
from remit.core.acts import Act
from remit.core.machine_paths import CONFIG_PATH
from remit.core.record import format_utc
from remit.core.untrusted_input import as_object, sanitise_line
from remit.gate.containment.agent_permissions import describe_rules
from remit.gate.gate import Gate
from remit.gate.governing.lives import mend_lives
from remit.gate.governing.rules import load_rules, update_marker
from remit.gate.people import adoption
from remit.ledger.log_files import LedgerError
from remit.servers.environment import read_environment
from remit.wiring import doctor_checks
from remit.wiring.agents import DetectedAgent, SettingsPlace, find_agents, find_user_place, find_wired_place
from remit.wiring.doctor_checks import BY_HAND, FIX, LATENCY_RUNS, DoctorCheck
from remit.wiring.hook_client import hash_client, install_client, server_command
from remit.wiring.hook_switches import find_hook_switches
from remit.wiring.manifest import Manifest, read_manifest, write_manifest
from remit.wiring.wire import display_path, plan_settings, write_plans

MAX_RECORDS = 2000
UNKNOWN_CLIENT_HASH = "not noted"  # matches no client: without a recorded SHA-256 the client is reinstalled
LEVEL_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command()
@click.option("--fix", is_flag=True, help="Repair what can be repaired.")
@click.option("--live", is_flag=True, help="Also run the real agents against a scripted model, in a HOME of their own.")
@click.option("--ci", is_flag=True, help="Also fail where no agent on PATH is wired: for a runner.")
@click.option("--runs", default=LATENCY_RUNS, show_default=True, type=click.IntRange(1, 1000), help="To measure by.")
@command_options
def doctor(fix: bool, live: bool, ci: bool, runs: int, repo: Path, as_json: bool) -> None:
    """Check what is wired and whether it works. Exit 1 where something fails."""
    environment = read_environment()
    gate = Gate.open(repo, environment)
    manifest = read_manifest(environment.home)
    user = find_user_place(environment.home, os.environ, manifest)
    agents = find_agents(environment.home, os.environ.get("PATH", os.defpath), moved=user.moved_folders)
    repaired: list[str] = []
    if fix:
        require_person(Act.MEND_WIRING)
        repaired = repair(gate, user, manifest, agents)
        manifest = read_manifest(environment.home)
    checks = run_checks(gate, user, manifest, agents, runs, for_ci=ci)
    if live:
        from remit.cli.agents.live_probe import probe_agent  # imports a model server, which only --live needs

        checks += [probe_agent(agent) for agent in agents]
    failures, warnings = (sum(check.level == level for check in checks) for level in ("fail", "warn"))
    lines = [f"repaired: {item}" for item in repaired]
    for check in checks:
        level = click.style(f"{check.level:<5}", fg=LEVEL_COLOURS[check.level])
        lines.append(f"{level} {check.name:<14} {check.message}" + (f"  -> {check.fix}" if check.fix else ""))
    lines.append(f"{failures} failures, {warnings} warnings")
    emit({"ok": not failures, "repaired": repaired, "checks": checks}, as_json, lines, FINDINGS if failures else 0)


def run_checks(
    gate: Gate, user: SettingsPlace, manifest: Manifest, agents: list[DetectedAgent], runs: int, *, for_ci: bool
) -> list[DoctorCheck]:
    """Return the results of all checks, prerequisites first."""
    home, temporary = user.home, gate.environment.temporary
    workspace = gate.workspace if gate.is_governed else None
    checks = [*doctor_checks.check_git(home), *doctor_checks.check_key(home), *doctor_checks.check_grammars()]
    checks.append(doctor_checks.check_containment(home, temporary, workspace))
    checks += doctor_checks.check_leftovers(home, temporary)
    checks += doctor_checks.check_door()
    checks.append(check_console(home))
    newest_calls: dict[str, str] = {}
    root = gate.found_workspace.root if gate.found_workspace else None
    if gate.is_governed:
        checks += doctor_checks.check_repository(gate)
        if pattern := adoption.read_adoption(gate.workspace):
            checks.append(DoctorCheck("ok", "adopted", f"by {sanitise_line(pattern)} in [adopt] of ~/{CONFIG_PATH}"))
        # An unreadable ledger has a check of its own.
        with suppress(LedgerError, OSError), open_index(gate.workspace) as index:
            for record in index.find(event="tool_use", limit=MAX_RECORDS):  # newest first
                newest_calls.setdefault(str(as_object(record.get("tool")).get("name")), str(record["timestamp"]))
    else:
        checks.append(check_ungoverned(gate))
    if for_ci and not any(agent.binary and find_wired_place(agent, user, root, manifest) for agent in agents):
        text = "no agent on PATH is wired: nobody asks Remit before a call"
        checks.append(DoctorCheck("fail", "agents", text, "remit adopt --ci"))
    if not agents:
        return [*checks, DoctorCheck("warn", "agents", "none found, on PATH or by its folder in HOME")]
    places = [(agent, find_wired_place(agent, user, root, manifest)) for agent in agents]
    if wired := next((agent for agent, place in places if place), None):
        client = doctor_checks.check_client(home, manifest.client)
        checks += client
        if client[0].level != "fail":
            checks += doctor_checks.check_latency(wired.row, home, os.environ, runs)
            checks += doctor_checks.check_daemon(home)
    for agent, place in places:
        newest_call = newest_calls.get(agent.row.agent)
        checks += doctor_checks.check_agent(agent, place or user, manifest, os.environ, newest_call)
        switches = find_hook_switches([agent.row.agent] if place else [], user, root, os.environ)
        checks += [DoctorCheck("fail", agent.row.agent, str(switch), BY_HAND) for switch in switches]
        if place and gate.is_governed and gate.rules.mode == "enforce":
            own_rules = describe_rules(agent.row, gate.workspace.root, gate.environment)
            own_rules = own_rules or f"you have no permission rules about commands; {agent.row.rules_in_enforce}"
            checks.append(DoctorCheck("ok", f"{agent.row.agent} rules", own_rules))
    return checks


def check_ungoverned(gate: Gate) -> DoctorCheck:
    workspace, home = gate.found_workspace, gate.environment.home
    try:
        adoption.read_adopt_settings(home)
    except adoption.AdoptSettingsError as error:
        return DoctorCheck("fail", "repository", str(error), BY_HAND)
    carried = adoption.find_carried_rules(workspace)
    if carried is None or workspace is None:
        return DoctorCheck("warn", "repository", "Remit does not govern here", "remit init")
    if adoption.are_rules_declined(home, workspace):
        return DoctorCheck("warn", "repository", "its rules do not hold in this clone: you said so", "remit adopt")
    pattern = adoption.find_adopting_pattern(home, workspace)
    when = f"; they will from an agent's first call on ([adopt] {pattern})" if pattern else ""
    text = f"it carries Remit rules ({carried.mode}), and they do not hold in this clone{when}"
    return DoctorCheck("fail", "repository", text, "remit adopt")


def check_console(home: Path) -> DoctorCheck:
    try:
        settings = read_remote_settings(home)
    except RemoteSetupRefused as error:
        return DoctorCheck("fail", "console", str(error), error.fix)
    kept = read_console_status(home)
    if kept is not None and (kept.restarts or not kept.is_running):
        return DoctorCheck("warn", "console", kept.describe(), "see daemon.log in ~/.local/state/remit")
    if settings is None:
        return DoctorCheck("ok", "console", "for this machine only")
    secret_files = [resolve_file(name, home) for name in (settings.key, settings.client_secret_file) if name]
    if exposed := [path for path in secret_files if path.stat().st_mode & 0o077]:
        path = display_path(exposed[0], home)
        return DoctorCheck("warn", "console", f"{path} can be read by others", f"chmod 600 {path}")
    return DoctorCheck("ok", "console", f"open to people who log in, at {settings.origin}; login by {settings.issuer}")


def repair(gate: Gate, user: SettingsPlace, manifest: Manifest, agents: list[DetectedAgent]) -> list[str]:
    """Repair the wiring, the mode's marker, the lives of intents and the spool; return the repaired items."""
    repaired: list[str] = []
    home = user.home
    if manifest.files:
        repaired += ["the hook client"] if doctor_checks.check_client(home, manifest.client)[0].level != "ok" else []
        words = install_client(home, manifest.client or UNKNOWN_CLIENT_HASH)
        manifest = replace(manifest, client=hash_client(home))
        write_manifest(home, manifest)
        now = format_utc(datetime.now(UTC), "seconds")
        for agent in agents:
            place = find_wired_place(agent, user, gate.found_workspace.root if gate.found_workspace else None, manifest)
            files = plan_settings([agent], place, words, server_command(home), manifest, set()) if place else []
            manifest = write_plans(files, home, manifest, now, version("remit"))
            repaired += [str(file.path) for file in files if file.has_changes]
    if gate.is_governed:
        if doctor_checks.check_mode(gate)[0].fix == FIX:
            update_marker(gate.workspace, load_rules(gate.workspace).mode)
            repaired.append("the marker of the mode")
        if doctor_checks.check_lives(gate)[0].fix == FIX:
            mend_lives(gate.workspace)
            repaired.append("the lives of intents")
        if count := gate.recorder.take_spooled():
            repaired.append(f"{count} records that waited")
    return repaired
