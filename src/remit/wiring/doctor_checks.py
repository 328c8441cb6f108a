"""Checks of `remit doctor`: each examines a single aspect and returns the result and, if needed, the next step."""

import shlex
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from remit.core.code.grammars import GRAMMARS, list_missing_grammars
from remit.core.display_text import sanitise_line
from remit.core.machine_paths import KEY_PATH
from remit.core.tree_head import InvalidPublicKey
from remit.gate.approvals.agent_permissions import describe_rules
from remit.gate.gate import Gate
from remit.gate.log_sharing.check_file import find_tracked_log_faults
from remit.gate.log_sharing.check_logs import check_ledger
from remit.gate.rules.load import load_rules
from remit.gate.rules.scope_exempt_files import find_tracked_matches
from remit.gate.rules.trust import describe_untrusted
from remit.gate.state.database import StateError
from remit.gate.state.watch_status import read_watch_status
from remit.ledger.index.index import open_index
from remit.ledger.integrity.verify_log import check_log_health
from remit.ledger.parse_time import parse_time
from remit.ledger.segments import LedgerError
from remit.provenance.verify.verdict_coverage import measure_coverage
from remit.wiring.agents import TRUST_FUNCTIONS, DetectedAgent, SettingsPlace
from remit.wiring.hook_client import NoClient, client_words, server_command
from remit.wiring.manifest import Manifest
from remit.wiring.plan import WiringProblem, describe_unread, display_path, plan_settings
from remit.workspace.git.command import Git, GitError
from remit.workspace.place.workspace import ENFORCE_MARKER, Workspace
from remit.workspace.sandbox.containment import (
    KIND_DESCRIPTIONS,
    find_containment,
    find_repair_command,
    kind_for_workspace,
)
from remit.workspace.sandbox.layers import remove_leftovers, staging_folders

Level: TypeAlias = Literal["ok", "warn", "fail"]

MIN_GIT_VERSION = (2, 31)
PROBE_TIMEOUT_S = 30.0
MAX_RECORDS = 2000
MAX_VERIFIED_BYTES = 32 * 1024 * 1024


class DoctorCheck(Struct, frozen=True, omit_defaults=True):
    """The result of one check. `fix` is the next step, if needed."""

    level: Level
    name: str
    message: str
    fix: str = ""


def check_agent(
    found: DetectedAgent, place: SettingsPlace, manifest: Manifest, environment: Mapping[str, str], seen: str | None
) -> list[DoctorCheck]:
    """Check an agent; `seen` is the time of the agent's newest call in the ledger."""
    agent = found.row.agent
    if found.binary is None:
        installed = DoctorCheck("warn", agent, f"not on PATH, though ~/{found.row.config_folder} is there")
    else:
        version = read_agent_version(found.binary, environment)
        installed = (
            DoctorCheck("ok", agent, f"installed: {version}")
            if version
            else DoctorCheck("warn", agent, "it tells no version")
        )
    return [installed, check_wiring(found, place, manifest), check_last_call(agent, seen)]


def check_own_rules(gate: Gate, found: DetectedAgent) -> DoctorCheck:
    """Describe the person's own permission rules, and their effect."""
    return DoctorCheck(
        "ok", f"{found.row.agent} rules", describe_rules(found.row, gate.workspace.root, gate.environment)
    )


def read_agent_version(binary: str, environment: Mapping[str, str]) -> str:
    """Return the agent's version; empty without an answer in time."""
    try:
        completed = subprocess.run(
            [binary, "--version"], capture_output=True, timeout=PROBE_TIMEOUT_S, env=dict(environment), check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return completed.stdout.decode("utf-8", "replace").strip().partition("\n")[0][:80]


def check_wiring(found: DetectedAgent, place: SettingsPlace, manifest: Manifest) -> DoctorCheck:
    """Check that hooks, server and approval in the agent's settings match the installed version."""
    agent, fix = found.row.agent, f"remit init --agent {found.row.agent}"
    try:
        plans = plan_settings([found], place, client_words(place.home), server_command(), manifest, set())
    except (WiringProblem, NoClient, OSError) as error:
        return DoctorCheck("fail", agent, str(error), "repair the file by hand")
    outdated = [file for file in plans if file.has_changes]
    files = ", ".join(display_path(file.path, place.home) for file in outdated or plans)
    blind = [text for file in plans if (text := describe_unread(file, place.home).strip())]
    if blind and not outdated:
        return DoctorCheck("fail", agent, blind[0], "repair the file by hand")
    if not outdated:
        trusted = agent not in TRUST_FUNCTIONS or any("trust" in file.parts for file in plans)
        if trusted:
            return DoctorCheck("ok", agent, f"wired: {files}; Remit's tools approved")
        return DoctorCheck(
            "warn", agent, f"wired: {files}; whether it trusts the hooks is not known", f"{fix} --trust-codex"
        )
    if any(manifest.find_file(file.path) for file in outdated):
        return DoctorCheck("fail", agent, f"wired, and out of date or incomplete: {files}", "remit doctor --fix")
    return DoctorCheck("warn", agent, f"not wired: {files}", fix)


def check_last_call(agent: str, seen: str | None) -> DoctorCheck:
    if seen is None:
        return DoctorCheck("warn", agent, "no call of it in this ledger yet", "start one session of it here")
    return DoctorCheck("ok", agent, f"last call {seen[:19].replace('T', ' ')} UTC")


def find_newest_calls(gate: Gate) -> dict[str, str]:
    """Return the time of each agent's newest call among the newest records. Raises LedgerError, OSError."""
    workspace = gate.workspace
    with open_index(workspace.state, workspace.log_folder) as index:
        found = index.find(event="tool_use", limit=MAX_RECORDS)
    newest: dict[str, str] = {}
    for record in found:
        tool: dict[str, Any] = record.get("tool") or {}
        newest.setdefault(str(tool.get("name")), str(record["timestamp"]))
    return newest


# --- the repository ----------------------------------------------------------------------------------------


def check_repository(gate: Gate) -> list[DoctorCheck]:
    return [
        *(check_mode(gate), check_log_end(gate), check_chain(gate), check_spool(gate)),
        *(check_state(gate), check_trust(gate), *check_generated(gate), *check_tracked_logs(gate)),
    ]


def check_tracked_logs(gate: Gate) -> list[DoctorCheck]:
    """Check the tracked log files; no result without such files."""
    try:
        found = find_tracked_log_faults(gate)
    except (LedgerError, GitError, OSError) as error:
        return [DoctorCheck("fail", "shared logs", str(error))]
    messages = (finding.message.rpartition("; ") for finding in found)
    return [DoctorCheck("warn", "shared logs", what, step) for what, _, step in messages]


def check_trust(gate: Gate) -> DoctorCheck:
    """Check for commands of the repository that wait for a person's trust."""
    try:
        text = describe_untrusted(gate.untrusted_commands)
    except (GitError, OSError) as error:
        return DoctorCheck("fail", "trust", str(error))
    return (
        DoctorCheck("warn", "trust", text, "remit trust")
        if text
        else DoctorCheck("ok", "trust", "nothing waits for a yes")
    )


def check_generated(gate: Gate) -> list[DoctorCheck]:
    """Check that patterns of generated files match no tracked files; no result without matches."""
    patterns = gate.rules.config.containment.generated
    try:
        tracked = find_tracked_matches(gate.workspace, patterns)
    except GitError as error:
        return [DoctorCheck("fail", "generated", str(error))]
    if not tracked:
        return []
    first = sanitise_line(tracked[0], 80)
    text = f"[containment] generated matches {len(tracked)} tracked files, which it does not cover: {first}"
    return [DoctorCheck("warn", "generated", text, "narrow the patterns in .orchestration/remit.toml")]


def check_mode(gate: Gate) -> DoctorCheck:
    """Check that the marker for failing hooks agrees with the mode."""
    rules = load_rules(gate.workspace)
    if rules.config_error:
        return DoctorCheck("fail", "mode", rules.config_error, "repair it by hand")
    marked = (gate.workspace.state / ENFORCE_MARKER).exists()
    if marked != (rules.mode == "enforce"):
        return DoctorCheck("fail", "mode", f"{rules.mode}, but the marker says otherwise", "remit doctor --fix")
    return DoctorCheck("ok", "mode", rules.mode)


def check_chain(gate: Gate) -> DoctorCheck:
    """Verify the log; a large one is left to `remit ledger verify`."""
    folder = gate.recorder.log.folder
    size = sum(file.stat().st_size for file in folder.iterdir() if file.is_file()) if folder.is_dir() else 0
    if size > MAX_VERIFIED_BYTES:
        return DoctorCheck("ok", "ledger", f"{size >> 20} MiB, not verified here", "remit ledger verify")
    try:
        report = check_ledger(gate.recorder, gate.rules.config)
    except (LedgerError, GitError, OSError, InvalidPublicKey) as error:
        return DoctorCheck("fail", "ledger", str(error))
    if bad := report.errors:
        return DoctorCheck("fail", "ledger", f"{len(bad)} errors, the first: {bad[0].message}", "remit ledger verify")
    others = sum(finding.code in ("unproved", "unreadable") and bool(finding.log) for finding in report.findings)
    text = f"; {others} other machines have logs here, see `remit ledger verify`" if others else ""
    return DoctorCheck("ok", "ledger", f"the chain is whole{text}")


def check_log_end(gate: Gate) -> DoctorCheck:
    """Check the end of the log, whatever its size."""
    try:
        health = check_log_health(gate.recorder.log.folder)
    except (LedgerError, OSError) as error:
        return DoctorCheck("fail", "log", str(error), "remit ledger verify")
    if not health.ok:
        return DoctorCheck("fail", "log", health.why, "remit ledger verify")
    return DoctorCheck("ok", "log", f"nothing is missing or altered among its newest {health.records_checked} records")


def check_spool(gate: Gate) -> DoctorCheck:
    waiting = gate.recorder.spool.count_pending()
    if waiting:
        return DoctorCheck("fail", "spool", f"{waiting} records wait to be written", "remit doctor --fix")
    return DoctorCheck("ok", "spool", "empty")


def check_state(gate: Gate) -> DoctorCheck:
    try:
        gate.state.list_recent_sessions(1)
    except StateError as error:
        return DoctorCheck("fail", "state", str(error), "move it away; it is made anew")
    return DoctorCheck("ok", "state", "state.db can be used")


def check_key(home: Path) -> DoctorCheck:
    """Check that only the owner can read the signing key."""
    key = home / KEY_PATH
    if not key.is_file():
        return DoctorCheck("warn", "key", "there is none yet; it is made with the first record")
    if key.stat().st_mode & 0o077:
        return DoctorCheck("fail", "key", f"{display_path(key, home)} can be read by others", f"chmod 600 {key}")
    return DoctorCheck("ok", "key", display_path(key, home))


def check_grammars() -> DoctorCheck:
    """Check the grammars: without a grammar, functions and classes of the language have no names."""
    unknown = list_missing_grammars()
    if not unknown:
        return DoctorCheck("ok", "languages", f"{len(GRAMMARS)} can be read")
    about = f"without {', '.join(unknown)}: their functions have no names"
    return DoctorCheck("warn", "languages", about, "pip install --force-reinstall remit")


def check_git(folder: Path) -> DoctorCheck:
    """Check that git is installed and recent enough."""
    try:
        version = Git(folder).text("--version").removeprefix("git version ").split()[0]
    except (GitError, IndexError) as error:
        return DoctorCheck("fail", "git", str(error), "install git")
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < MIN_GIT_VERSION:
        return DoctorCheck("warn", "git", f"{version} is older than {'.'.join(map(str, MIN_GIT_VERSION))}")
    return DoctorCheck("ok", "git", version)


MAX_NAMED = 5


def check_leftovers(home: Path, temporary: Path) -> list[DoctorCheck]:
    """Warn about unremovable leftovers of ended commands; no result without leftovers."""
    left = [found for place in staging_folders(home, temporary) if place.is_dir() for found in remove_leftovers(place)]
    names = shlex.join(map(str, left[:MAX_NAMED]))
    about = f"{len(left)} of the folders that ended commands wrote to cannot be removed: {names}"
    return [DoctorCheck("warn", "staging", about, f"rm -rf {names}")] if left else []


def check_containment(home: Path, temporary: Path, workspace: Workspace | None = None) -> DoctorCheck:
    """Check which containment works here, and in `workspace` if given. Any but an overlay is a warning."""
    try:
        found = find_containment(home, temporary)
    except OSError as error:
        return DoctorCheck("warn", "containment", f"could not be tried: {error}")
    kind = kind_for_workspace(found, workspace) if workspace is not None else found.way
    remarks = (*found.remarks, *(("something is mounted in this workspace",) if kind != found.way else ()))
    about = "; ".join((KIND_DESCRIPTIONS[kind], *remarks))
    return DoctorCheck("ok" if kind == "overlay" else "warn", "containment", about, find_repair_command(found))


def describe_containment_warning(home: Path, temporary: Path) -> str:
    """Return a warning if agents' commands cannot be staged, with the command that helps; empty if they can."""
    found = check_containment(home, temporary)
    if found.level == "ok":
        return ""
    mend = f"; to mend it: {found.fix}" if found.fix else ""
    return f"commands of agents are not staged on this machine ({found.message}){mend}"


def check_effects(gate: Gate) -> list[DoctorCheck]:
    return [check_watching(gate), check_coverage(gate)]


def check_watching(gate: Gate) -> DoctorCheck:
    """Check for a watching daemon: comparisons then read only changed files."""
    try:
        found = read_watch_status(gate.state)
    except StateError as error:
        return DoctorCheck("fail", "watching", str(error))
    if found is None:
        return DoctorCheck("ok", "watching", "no daemon has watched here yet: each comparison looks at everything")
    if not found.why:
        return DoctorCheck("ok", "watching", f"only what changes is looked at; {found.folders} folders are watched")
    text = f"the next comparison looks at everything: {found.why}"
    return DoctorCheck("warn" if found.ended else "ok", "watching", text)


def check_coverage(gate: Gate) -> DoctorCheck:
    """Check the share of last week's changes that were decided before they happened."""
    workspace = gate.workspace
    week = parse_time("7d", datetime.fromtimestamp(gate.environment.clock(), UTC))
    try:
        with open_index(workspace.state, workspace.log_folder) as index:
            found = measure_coverage(index, since=week)
    except (LedgerError, OSError) as error:
        return DoctorCheck("fail", "coverage", str(error))
    share = found.overall
    text = f"{share.covered_files} of {share.changed} files that changed this week were judged before"
    if not found.changes:
        return DoctorCheck("ok", "coverage", text)
    newest = found.changes[0]
    likely = f", likely by {sanitise_line(newest.writers[0], 120)}" if newest.writers else ""
    return DoctorCheck(
        "warn", "coverage", f"{text}; newest not: {sanitise_line(newest.path, 80)}{likely}", "remit status --coverage"
    )
