"""Whether the wiring works: each check looks at one thing and says what it found, and what to do about it.

Which containment commands have on this machine, and what they left behind, as checks of `remit doctor`.

How well the effects of calls are seen here: what is looked at, and what had no verdict before it changed.
"""

import shlex
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from remit.core.code.grammars import GRAMMARS, list_missing_grammars
from remit.core.display_text import sanitise_line
from remit.core.tree_head import InvalidPublicKey
from remit.gate.approvals.agent_permissions import describe_rules
from remit.gate.gate import Gate
from remit.gate.log_sharing.check_file import find_tracked_log_faults
from remit.gate.log_sharing.check_logs import check_ledger
from remit.gate.rules.generated_files import find_tracked_matches
from remit.gate.rules.load import load_rules
from remit.gate.rules.trust import describe_untrusted
from remit.gate.state.database import StateError
from remit.gate.state.watch_status import read_watch_status
from remit.ledger.index.index import Index
from remit.ledger.integrity.verify_log import check_log_health
from remit.ledger.parse_time import parse_time
from remit.ledger.segments import LedgerError
from remit.provenance.verify.coverage import measure_coverage
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
    """What one check found. `fix` is the next step, where one is needed."""

    level: Level
    name: str
    message: str
    fix: str = ""


def check_agent(
    found: DetectedAgent, place: SettingsPlace, manifest: Manifest, environment: Mapping[str, str], seen: str | None
) -> list[DoctorCheck]:
    """Everything about one agent: `seen` is the time of its newest call in this ledger."""
    agent = found.row.agent
    if found.binary is None:
        installed = DoctorCheck("warn", agent, f"not on PATH, though ~/{found.row.config_folder} is there")
    else:
        said = read_agent_version(found.binary, environment)
        installed = (
            DoctorCheck("ok", agent, f"installed: {said}")
            if said
            else DoctorCheck("warn", agent, "it tells no version")
        )
    return [installed, check_wiring(found, place, manifest), check_last_call(agent, seen)]


def check_own_rules(gate: Gate, found: DetectedAgent) -> DoctorCheck:
    """What was found of the person's own permission rules, and what becomes of them."""
    return DoctorCheck(
        "ok", f"{found.row.agent} rules", describe_rules(found.row, gate.workspace.root, gate.environment)
    )


def read_agent_version(binary: str, environment: Mapping[str, str]) -> str:
    """What the agent says its version is; empty where it says nothing within the time."""
    try:
        done = subprocess.run(
            [binary, "--version"], capture_output=True, timeout=PROBE_TIMEOUT_S, env=dict(environment), check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace").strip().partition("\n")[0][:80]


def check_wiring(found: DetectedAgent, place: SettingsPlace, manifest: Manifest) -> DoctorCheck:
    """Whether hooks, server and approval stand in its settings as this version wants them."""
    agent, fix = found.row.agent, f"remit init --agent {found.row.agent}"
    try:
        plans = plan_settings([found], place, client_words(place.home), server_command(), manifest, set())
    except (WiringProblem, NoClient, OSError) as error:
        return DoctorCheck("fail", agent, str(error), "repair the file by hand")
    wanting = [file for file in plans if file.has_changes]
    files = ", ".join(display_path(file.path, place.home) for file in wanting or plans)
    blind = [said for file in plans if (said := describe_unread(file, place.home).strip())]
    if blind and not wanting:
        return DoctorCheck("fail", agent, blind[0], "repair the file by hand")
    if not wanting:
        trusted = agent not in TRUST_FUNCTIONS or any("trust" in file.parts for file in plans)
        if trusted:
            return DoctorCheck("ok", agent, f"wired: {files}; Remit's tools approved")
        return DoctorCheck(
            "warn", agent, f"wired: {files}; whether it trusts the hooks is not known", f"{fix} --trust-codex"
        )
    if any(manifest.find_file(file.path) for file in wanting):
        return DoctorCheck("fail", agent, f"wired, and out of date or incomplete: {files}", "remit doctor --fix")
    return DoctorCheck("warn", agent, f"not wired: {files}", fix)


def check_last_call(agent: str, seen: str | None) -> DoctorCheck:
    """Whether this agent ever asked us here."""
    if seen is None:
        return DoctorCheck("warn", agent, "no call of it in this ledger yet", "start one session of it here")
    return DoctorCheck("ok", agent, f"last call {seen[:19].replace('T', ' ')} UTC")


def find_newest_calls(gate: Gate) -> dict[str, str]:
    """By agent, when it last asked; of the newest records only. Raises LedgerError, OSError."""
    workspace = gate.workspace
    with Index.open(workspace.state / "index.db", workspace.log_folder) as index:
        found = index.find(event="tool_use", limit=MAX_RECORDS)
    newest: dict[str, str] = {}
    for record in found:
        tool: dict[str, Any] = record.get("tool") or {}
        newest.setdefault(str(tool.get("name")), str(record["timestamp"]))
    return newest


# --- the repository ----------------------------------------------------------------------------------------


def check_repository(gate: Gate) -> list[DoctorCheck]:
    """Everything about the repository, where it is governed."""
    return [
        *(check_mode(gate), check_log_end(gate), check_chain(gate), check_spool(gate)),
        *(check_state(gate), check_trust(gate), *check_generated(gate), *check_tracked_logs(gate)),
    ]


def check_tracked_logs(gate: Gate) -> list[DoctorCheck]:
    """Whether the logs that are tracked files are what their machines wrote; nothing where there is none."""
    try:
        found = find_tracked_log_faults(gate)
    except (LedgerError, GitError, OSError) as error:
        return [DoctorCheck("fail", "shared logs", str(error))]
    messages = (finding.message.rpartition("; ") for finding in found)
    return [DoctorCheck("warn", "shared logs", what, step) for what, _, step in messages]


def check_trust(gate: Gate) -> DoctorCheck:
    """Whether the commands that the repository brings may run."""
    try:
        said = describe_untrusted(gate.untrusted_commands)
    except (GitError, OSError) as error:
        return DoctorCheck("fail", "trust", str(error))
    return (
        DoctorCheck("warn", "trust", said, "remit trust")
        if said
        else DoctorCheck("ok", "trust", "nothing waits for a yes")
    )


def check_generated(gate: Gate) -> list[DoctorCheck]:
    """Whether patterns of generated files match tracked ones, which they do not cover; nothing where all is well."""
    patterns = gate.rules.config.containment.generated
    try:
        tracked = find_tracked_matches(gate.workspace, patterns)
    except GitError as error:
        return [DoctorCheck("fail", "generated", str(error))]
    if not tracked:
        return []
    first = sanitise_line(tracked[0], 80)
    said = f"[containment] generated matches {len(tracked)} tracked files, which it does not cover: {first}"
    return [DoctorCheck("warn", "generated", said, "narrow the patterns in .orchestration/remit.toml")]


def check_mode(gate: Gate) -> DoctorCheck:
    """Whether the marker that a failing hook looks at says what the mode is."""
    rules = load_rules(gate.workspace)
    if rules.config_error:
        return DoctorCheck("fail", "mode", rules.config_error, "repair it by hand")
    marked = (gate.workspace.state / ENFORCE_MARKER).exists()
    if marked != (rules.mode == "enforce"):
        return DoctorCheck("fail", "mode", f"{rules.mode}, but the marker says otherwise", "remit doctor --fix")
    return DoctorCheck("ok", "mode", rules.mode)


def check_chain(gate: Gate) -> DoctorCheck:
    """Whether the log is whole. A large one is left to `remit ledger verify`."""
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
    said = f"; {others} other machines have logs here, see `remit ledger verify`" if others else ""
    return DoctorCheck("ok", "ledger", f"the chain is whole{said}")


def check_log_end(gate: Gate) -> DoctorCheck:
    """A quick look at the end of the log, however large it is."""
    try:
        health = check_log_health(gate.recorder.log.folder)
    except (LedgerError, OSError) as error:
        return DoctorCheck("fail", "log", str(error), "remit ledger verify")
    if not health.ok:
        return DoctorCheck("fail", "log", health.why, "remit ledger verify")
    return DoctorCheck("ok", "log", f"nothing is missing or altered among its newest {health.records_checked} records")


def check_spool(gate: Gate) -> DoctorCheck:
    """Whether records wait that could not be written."""
    waiting = gate.recorder.spool.count_pending()
    if waiting:
        return DoctorCheck("fail", "spool", f"{waiting} records wait to be written", "remit doctor --fix")
    return DoctorCheck("ok", "spool", "empty")


def check_state(gate: Gate) -> DoctorCheck:
    """Whether the state database can be used."""
    try:
        gate.state.list_recent_sessions(1)
    except StateError as error:
        return DoctorCheck("fail", "state", str(error), "move it away; it is made anew")
    return DoctorCheck("ok", "state", "state.db can be used")


def check_key(home: Path) -> DoctorCheck:
    """Whether the signing key is there and nobody else's to read."""
    key = home / ".local/state/remit/key"
    if not key.is_file():
        return DoctorCheck("warn", "key", "there is none yet; it is made with the first record")
    if key.stat().st_mode & 0o077:
        return DoctorCheck("fail", "key", f"{display_path(key, home)} can be read by others", f"chmod 600 {key}")
    return DoctorCheck("ok", "key", display_path(key, home))


def check_grammars() -> DoctorCheck:
    """Whether the languages of files can be read: of the others Remit tells neither functions nor classes."""
    unknown = list_missing_grammars()
    if not unknown:
        return DoctorCheck("ok", "languages", f"{len(GRAMMARS)} can be read")
    about = f"without {', '.join(unknown)}: their functions have no names"
    return DoctorCheck("warn", "languages", about, "pip install --force-reinstall remit")


def check_git(folder: Path) -> DoctorCheck:
    """Whether git is there and new enough."""
    try:
        said = Git(folder).text("--version").removeprefix("git version ").split()[0]
    except (GitError, IndexError) as error:
        return DoctorCheck("fail", "git", str(error), "install git")
    numbers = tuple(int(part) for part in said.split(".")[:2] if part.isdigit())
    if numbers < MIN_GIT_VERSION:
        return DoctorCheck("warn", "git", f"{said} is older than {'.'.join(map(str, MIN_GIT_VERSION))}")
    return DoctorCheck("ok", "git", said)


MAX_NAMED = 5


def check_leftovers(home: Path, temporary: Path) -> list[DoctorCheck]:
    """Warn of what ended commands left in the staging area and Remit cannot remove; nothing where it is tidy."""
    left = [found for place in staging_folders(home, temporary) if place.is_dir() for found in remove_leftovers(place)]
    names = shlex.join(map(str, left[:MAX_NAMED]))
    about = f"{len(left)} of the folders that ended commands wrote to cannot be removed: {names}"
    return [DoctorCheck("warn", "staging", about, f"rm -rf {names}")] if left else []


def check_containment(home: Path, temporary: Path, workspace: Workspace | None = None) -> DoctorCheck:
    """Say which containment works here, in `workspace` where one is given. Any but an overlay is a warning."""
    try:
        found = find_containment(home, temporary)
    except OSError as error:
        return DoctorCheck("warn", "containment", f"could not be tried: {error}")
    way = kind_for_workspace(found, workspace) if workspace is not None else found.way
    remarks = (*found.remarks, *(("something is mounted in this workspace",) if way != found.way else ()))
    about = "; ".join((KIND_DESCRIPTIONS[way], *remarks))
    return DoctorCheck("ok" if way == "overlay" else "warn", "containment", about, find_repair_command(found))


def describe_containment_warning(home: Path, temporary: Path) -> str:
    """Warn where commands of agents cannot be staged, with the command that mends it; empty where they can."""
    found = check_containment(home, temporary)
    if found.level == "ok":
        return ""
    mend = f"; to mend it: {found.fix}" if found.fix else ""
    return f"commands of agents are not staged on this machine ({found.message}){mend}"


def check_effects(gate: Gate) -> list[DoctorCheck]:
    """Both, for a repository that is governed."""
    return [check_watching(gate), check_coverage(gate)]


def check_watching(gate: Gate) -> DoctorCheck:
    """Whether a comparison costs what changed, or what there is."""
    try:
        found = read_watch_status(gate.state)
    except StateError as error:
        return DoctorCheck("fail", "watching", str(error))
    if found is None:
        return DoctorCheck("ok", "watching", "no daemon has watched here yet: each comparison looks at everything")
    if not found.why:
        return DoctorCheck("ok", "watching", f"only what changes is looked at; {found.folders} folders are watched")
    said = f"the next comparison looks at everything: {found.why}"
    return DoctorCheck("warn" if found.ended else "ok", "watching", said)


def check_coverage(gate: Gate) -> DoctorCheck:
    """How much of what changed in the last week was judged before it changed."""
    workspace = gate.workspace
    week = parse_time("7d", datetime.fromtimestamp(gate.environment.clock(), UTC))
    try:
        with Index.open(workspace.state / "index.db", workspace.log_folder) as index:
            index.catch_up()
            found = measure_coverage(index, since=week)
    except (LedgerError, OSError) as error:
        return DoctorCheck("fail", "coverage", str(error))
    share = found.overall
    said = f"{share.covered_files} of {share.changed} files that changed this week were judged before"
    if not found.changes:
        return DoctorCheck("ok", "coverage", said)
    newest = found.changes[0]
    likely = f", likely by {sanitise_line(newest.writers[0], 120)}" if newest.writers else ""
    return DoctorCheck(
        "warn", "coverage", f"{said}; newest not: {sanitise_line(newest.path, 80)}{likely}", "remit status --coverage"
    )
