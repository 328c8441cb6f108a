"""`remit doctor`: what is wired, what works, and what to do about the rest."""

import os
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import click
import msgspec

from remit.cli.output import FINDINGS, emit, json_option, repo_option, reports_failures
from remit.cli.people import only_people
from remit.cli.wired import reports_wiring, user_place
from remit.gate.gate import Gate
from remit.gate.governing import governing, mark
from remit.ledger.segments import LedgerError
from remit.servers.environment import enter
from remit.wiring import checkup, soundness
from remit.wiring.agents import Found, Place, find_agents
from remit.wiring.checkup import Check
from remit.wiring.client import client_sha256, install_client, server_command
from remit.wiring.containing import containment_check, leftover_checks
from remit.wiring.effects import effects_checks
from remit.wiring.manifest import Manifest, read_manifest, write_manifest
from remit.wiring.plan import perform, plan

UNKNOWN = "not noted"
"""No client's SHA-256: where nobody noted what was installed, it is installed anew."""

COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command()
@click.option("--fix", is_flag=True, help="Repair what can be repaired.")
@click.option("--live", is_flag=True, help="Also run the real agents against a scripted model, in a HOME of their own.")
@click.option("--runs", default=soundness.RUNS, show_default=True, type=click.IntRange(1, 1000), help="To measure by.")
@repo_option
@json_option
@reports_failures
@reports_wiring
def doctor(fix: bool, live: bool, runs: int, repo: Path, as_json: bool) -> None:
    """Check what is wired and whether it works. Exit 1 where something fails."""
    environment = enter()
    gate = Gate.open(repo, environment)
    home = environment.home
    manifest = read_manifest(home)
    user = user_place(home, os.environ, manifest)
    agents = find_agents(home, os.environ.get("PATH", os.defpath), moved=user.moved)
    repaired: list[str] = []
    if fix:
        only_people("`remit doctor --fix`")
        repaired = repair(gate, user, manifest, agents)
        manifest = read_manifest(home)
    checks = examined(gate, user, manifest, agents, runs)
    if live:
        checks += live_checks(agents)
    failed = any(check.level == "fail" for check in checks)
    emit(
        {"ok": not failed, "repaired": repaired, "checks": [msgspec.to_builtins(check) for check in checks]},
        as_json,
        text(checks, repaired),
    )
    if failed:
        sys.exit(FINDINGS)


def examined(gate: Gate, user: Place, manifest: Manifest, agents: list[Found], runs: int) -> list[Check]:
    """All checks, in the order in which things depend on each other."""
    home = user.home
    checks = [checkup.git_check(home), checkup.key_check(home), checkup.grammar_check()]
    checks.append(containment_check(home, gate.environment.temporary, gate.workspace if gate.governed else None))
    checks += leftover_checks(home, gate.environment.temporary)
    seen: dict[str, str] = {}
    if gate.governed:
        checks += [*checkup.repository_checks(gate), *effects_checks(gate)]
        seen = newest_calls(gate)
    else:
        checks.append(Check("warn", "repository", "Remit does not govern here", "remit init"))
    if not agents:
        return [*checks, Check("warn", "agents", "none found, on PATH or by its folder in HOME")]
    places = [wired_place(agent, user, root_of(gate), manifest) for agent in agents]
    wired = [agent for agent, place in zip(agents, places, strict=True) if place]
    checks += client_checks(wired[0], home, manifest, runs) if wired else []
    for agent, place in zip(agents, places, strict=True):
        newest = seen.get(agent.row.agent)
        checks += checkup.agent_checks(agent, place or user, manifest, os.environ, newest)
        if place and gate.governed and gate.governing.mode == "enforce":
            checks.append(checkup.own_rules_check(gate, agent))
    return checks


def newest_calls(gate: Gate) -> dict[str, str]:
    """By agent, when it last asked; nothing where the ledger cannot be read, which has a check of its own."""
    try:
        return checkup.newest_calls(gate)
    except (LedgerError, OSError):
        return {}


def wired_place(agent: Found, user: Place, root: Path | None, manifest: Manifest) -> Place | None:
    """Where `init` wired this agent: for this project, else for all; None where it did not."""
    places = [*([Place(user.home, root)] if root else []), user]
    return next((place for place in places if manifest.file(place.hooks(agent.row))), None)


def client_checks(agent: Found, home: Path, manifest: Manifest, runs: int) -> list[Check]:
    """The client: whether it is there, answers, and how quickly. One that is not ours is not run."""
    there = soundness.client_check(home, manifest.client)
    if there.level == "fail":
        return [there]
    measured = soundness.latency(agent.row, home, os.environ, runs)
    return [there, soundness.latency_check(measured), soundness.daemon_check(home)]


def repair(gate: Gate, user: Place, manifest: Manifest, agents: list[Found]) -> list[str]:
    """Repair what can be repaired; what that was. Raises OSError, Problem, LedgerError."""
    done = repaired_wiring(gate, user, manifest, agents)
    if not gate.governed:
        return done
    if checkup.mode_check(gate).fix == "remit doctor --fix":
        mark(gate.workspace, governing(gate.workspace).mode)
        done.append("the marker of the mode")
    if gate.recorder.spool.pending():
        count = gate.recorder.spool.drain(gate.recorder.log, views=gate.recorder.views)
        done.append(f"{count} records that waited")
    return done


def repaired_wiring(gate: Gate, user: Place, manifest: Manifest, agents: list[Found]) -> list[str]:
    """The client's copy, and entries that are out of date, of agents that were wired before. Raises NoClient."""
    if not manifest.files:
        return []
    home = user.home
    done = ["the hook client"] if soundness.client_check(home, manifest.client).level != "ok" else []
    words = install_client(home, manifest.client or UNKNOWN)
    manifest = msgspec.structs.replace(manifest, client=client_sha256(home))
    write_manifest(home, manifest)
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    for agent in agents:
        place = wired_place(agent, user, root_of(gate), manifest)
        files = plan([agent], place, words, server_command(), manifest, set()) if place else []
        manifest = perform(files, home, manifest, now, version("remit"))
        done += [str(file.path) for file in files if file.changes]
    return done


def root_of(gate: Gate) -> Path | None:
    """The root of the workspace, where there is one."""
    return gate.found.root if gate.found else None


def live_checks(agents: list[Found]) -> list[Check]:
    """One run of each agent that a scripted model can drive."""
    from remit.cli.live import probe  # a model server and a second's work: only where asked for

    return [probe(agent) for agent in agents if agent.binary]


def text(checks: list[Check], repaired: list[str]) -> str:
    """The findings for people."""
    lines = [f"repaired: {what}" for what in repaired] + [line(check) for check in checks]
    failures = sum(check.level == "fail" for check in checks)
    warnings = sum(check.level == "warn" for check in checks)
    return "\n".join([*lines, f"{failures} failures, {warnings} warnings"])


def line(check: Check) -> str:
    """One finding."""
    level = click.style(f"{check.level:<5}", fg=COLOURS[check.level])
    return f"{level} {check.name:<14} {check.message}" + (f"  -> {check.fix}" if check.fix else "")
