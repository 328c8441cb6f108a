"""Checks of `remit doctor`: agents' wiring, the hook client, the daemon, the repository, the machine.

Each check examines a single aspect and returns the result and, if needed, the next step.
"""

import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Literal, ParamSpec, TypeAlias

import msgspec
from msgspec import Struct

from remit.adapters import settings as hook_settings
from remit.core.agents import ROWS, AgentRow
from remit.core.code.grammars import GRAMMARS, list_missing_grammars
from remit.core.machine_paths import KEY_PATH, STATE_FOLDER
from remit.core.tree_head import InvalidPublicKey
from remit.core.untrusted_input import as_object, sanitise_line
from remit.gate.facts.scope_exempt_files import find_tracked_matches
from remit.gate.gate import Gate
from remit.gate.governing.lives import LOST_FILE, collect_lives, life_path, read_life
from remit.gate.governing.rules import load_rules
from remit.gate.intents.owned_files import describe_nested_rules
from remit.gate.people.trust import describe_untrusted
from remit.gate.records.check_logs import check_ledger, find_tracked_log_faults
from remit.gate.state.database import StateError
from remit.gate.state.workspace_state import read_watch_status
from remit.ledger.index.index import open_index
from remit.ledger.log_files import LedgerError
from remit.ledger.parse_time import parse_time
from remit.ledger.verify_log import check_log_health
from remit.provenance.verify.call_gaps import find_call_gaps
from remit.provenance.verify.verdict_coverage import measure_coverage
from remit.wiring import hook_client
from remit.wiring.agents import DetectedAgent, SettingsPlace
from remit.wiring.json_merge import NotJson, decode_document
from remit.wiring.manifest import InsertedEntry, Manifest, contains_settings
from remit.wiring.wire import WiringProblem, describe_unread, display_path, plan_settings
from remit.workspace.agents.read_write_settings import read_settings
from remit.workspace.git.command import Git, GitError
from remit.workspace.place.workspace import ENFORCE_MARKER, Workspace
from remit.workspace.processes.peer_identity import read_control_group
from remit.workspace.sandbox.containment import (
    KIND_DESCRIPTIONS,
    find_containment,
    find_repair_command,
    kind_for_workspace,
)
from remit.workspace.sandbox.staging import remove_leftovers, staging_folders

P = ParamSpec("P")
Level: TypeAlias = Literal["ok", "warn", "fail"]
Result: TypeAlias = tuple[Level, str] | tuple[Level, str, str] | None
"""Level, message, and next step if any; None if there is nothing to tell."""

CHECK_ERRORS = (StateError, LedgerError, GitError, WiringProblem, hook_client.NoClient, OSError, InvalidPublicKey)
FIX, VERIFY, BY_HAND = "remit doctor --fix", "remit ledger verify", "repair the file by hand"
MIN_GIT_VERSION = (2, 31)
PROBE_TIMEOUT_S = 30.0
MAX_VERIFIED_BYTES = 32 * 1024 * 1024
MAX_NAMED = 5
GAP_DAYS_S = 3 * 86_400.0  # time in which calls are looked for that have no record
UNDER_WAY_S = 60.0  # a call of the last minute may be under way
MAX_GAP_SEARCH_S = 3.0
LATENCY_RUNS = 10
DAEMON_LOG_PATH = f"{STATE_FOLDER}/daemon.log"  # relative to HOME
DROPPED_CALL = b"a call was dropped"  # text that `servers.daemon` logs for a call that it could not answer.
TAIL_BYTES = 64 * 1024


class DoctorCheck(Struct, frozen=True, omit_defaults=True):
    """The result of one check. `fix` is the next step, if needed."""

    level: Level
    name: str
    message: str
    fix: str = ""


def check(name: str, error_fix: str = "") -> Callable[[Callable[P, Result]], Callable[P, list[DoctorCheck]]]:
    """Decorate a check: the result gets the name; an error of what it examines is a failure, with `error_fix`."""

    def decorate(examine: Callable[P, Result]) -> Callable[P, list[DoctorCheck]]:
        @wraps(examine)
        def run(*args: P.args, **kwargs: P.kwargs) -> list[DoctorCheck]:
            try:
                found = examine(*args, **kwargs)
            except CHECK_ERRORS as error:
                found = ("fail", str(error), error_fix)
            return [DoctorCheck(found[0], name, *found[1:])] if found else []

        return run

    return decorate


# --- agents ------------------------------------------------------------------------------------------------


def check_agent(
    found: DetectedAgent, place: SettingsPlace, manifest: Manifest, environment: Mapping[str, str], seen: str | None
) -> list[DoctorCheck]:
    """Check an agent: version, wiring, and `seen`, the time of its newest call in the ledger."""
    agent = found.row.agent

    @check(agent)
    def check_version() -> Result:
        if found.binary is None:
            return "warn", f"not on PATH, though ~/{found.row.config_folder} is there"
        version, why = read_agent_version(found.binary, environment)
        return ("ok", f"installed: {version}") if version else ("warn", f"`{found.row.binary} --version` {why}")

    @check(agent)
    def check_last_call() -> Result:
        if seen is None:
            return "warn", "no call of it in this ledger yet", "start one session of it here"
        return "ok", f"last call {seen[:19].replace('T', ' ')} UTC"

    check_settings = check(agent, BY_HAND)(check_wiring)
    return [*check_version(), *check_settings(found, place, manifest), *check_last_call()]


def check_wiring(found: DetectedAgent, place: SettingsPlace, manifest: Manifest) -> Result:
    """Check that hooks, server and approval in the agent's settings match the installed version."""
    agent, fix = found.row.agent, f"remit init --agent {found.row.agent}"
    plans = plan_settings(
        [found], place, hook_client.client_words(place.home), hook_client.server_command(place.home), manifest, set()
    )
    outdated = [file for file in plans if file.has_changes]
    files = ", ".join(display_path(file.path, place.home) for file in outdated or plans)
    blind = [text for file in plans if (text := describe_unread(file, place.home).strip())]
    if blind and not outdated:
        return "fail", blind[0], BY_HAND
    if not outdated and (not found.row.trusts_by_hash or any("trust" in file.parts for file in plans)):
        return "ok", f"wired: {files}; Remit's tools approved"
    if not outdated:
        return "warn", f"wired: {files}; whether it trusts the hooks is not known", f"{fix} --trust-{agent}"
    if any(manifest.find_file(file.path) for file in outdated):
        return "fail", f"wired, and out of date or incomplete: {files}", FIX
    return "warn", f"not wired: {files}", fix


def read_agent_version(binary: str, environment: Mapping[str, str]) -> tuple[str, str]:
    """Return an agent's version, or why there is none."""
    words, variables = [binary, "--version"], dict(environment)
    try:
        completed = subprocess.run(words, capture_output=True, timeout=PROBE_TIMEOUT_S, env=variables, check=False)
    except subprocess.TimeoutExpired:
        return "", f"gave no answer within {PROBE_TIMEOUT_S:.0f} s: a slow start alone is no fault"
    except OSError as error:
        return "", f"cannot be run ({error.strerror})"
    version = completed.stdout.decode("utf-8", "replace").strip().partition("\n")[0][:80]
    return version, f"printed nothing, and ended with exit code {completed.returncode}"


def find_unhooked_files(places: list[SettingsPlace], manifest: Manifest) -> dict[Path, str]:
    """Return the files with changed or missing hooks of `init`, with the agents. Raises NoClient."""
    unhooked: dict[Path, str] = {}
    for place in places:
        for row in ROWS.values():
            path = place.hooks_file(row)
            wired = manifest.find_file(path)
            if wired is None or row.agent not in wired.agents:
                continue
            try:
                present = decode_document(read_settings(path) or b"")
            except (NotJson, OSError):
                present = {}
            if not contains_settings(present, hook_settings(row.agent, hook_client.client_words(place.home))):
                unhooked[path] = row.agent
    return unhooked


def has_own_hooks(path: Path, manifest: Manifest) -> bool:
    """Return whether all hooks that an earlier version wrote are still there: an upgrade asks for others, and the old
    ones go on judging.
    """
    wired = manifest.find_file(path)
    try:
        present = decode_document(read_settings(path) or b"")
    except (NotJson, OSError):
        return False
    written = (
        [entry for entry in wired.insertions.entries if "hooks" in (*entry.path, *as_object(entry.value))]
        if wired
        else []
    )
    return bool(written) and all(contains_settings(present, nest_entry(entry)) for entry in written)


def nest_entry(entry: InsertedEntry) -> object:
    value: object = [entry.value] if entry.kind == "item" else entry.value
    for key in reversed(entry.path):
        value = {key: value}
    return value


# --- the hook client and the daemon ------------------------------------------------------------------------


@check("client")
def check_client(home: Path, noted: str) -> Result:
    """Check that the client exists, is current and unaltered; `noted` is the hash at installation."""
    current, altered = hook_client.is_client_current(home), hook_client.is_client_altered(home, noted)
    path = display_path(hook_client.client_path(home), home)
    if not current:
        return "fail", f"{path} is missing, or of another version", FIX
    if altered:
        return "fail", f"{path} is not the one that Remit installed", FIX
    return ("ok", path) if noted else ("warn", f"{path}; what was installed was not noted", FIX)


@check("hook")
def check_latency(row: AgentRow, home: Path, environment: Mapping[str, str], runs: int) -> Result:
    """Run the client with harmless calls in a temporary folder, as the agent would, and measure it."""
    call: dict[str, object] = {
        "session_id": "remit-doctor",
        "hook_event_name": next(name for name, kind in row.events.items() if kind == "before"),
        "tool_name": next((name for name, item in row.tools.items() if item.effect == "none"), "unknown"),
        "tool_input": {},
        "transcript_path": None,
    }
    words = ["/bin/sh", "-c", f"{hook_client.client_words(home)} {row.agent} pre"]
    times: list[float] = []
    failure = ""
    with tempfile.TemporaryDirectory(prefix="remit-doctor-") as folder:
        payload, variables = msgspec.json.encode({**call, "cwd": folder}), dict(environment)
        for _ in range(runs):
            began = time.perf_counter()
            try:
                ended = subprocess.run(
                    words, input=payload, cwd=folder, env=variables, capture_output=True, timeout=PROBE_TIMEOUT_S
                )
                if ended.returncode or ended.stderr:
                    said = ended.stderr.decode("utf-8", "replace").strip()[:300]
                    failure = failure or f"exit {ended.returncode}: {said}"
            except subprocess.TimeoutExpired:
                failure = failure or f"it gave no answer within {PROBE_TIMEOUT_S:.0f} s"
            times.append((time.perf_counter() - began) * 1000)
    if failure:
        return "fail", f"the client does not answer: {failure}", FIX
    return "ok", f"p50 {statistics.median(times):.0f} ms  p99 {max(times):.0f} ms  ({runs} runs)"


@check("daemon")
def check_daemon(home: Path) -> Result:
    """Check whether the daemon dropped calls; a fresh process answered each of them, only later."""
    log = home / DAEMON_LOG_PATH
    tail = b""
    if log.is_file():
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            tail = file.read()
    dropped = [line for line in tail.splitlines() if DROPPED_CALL in line]
    if not dropped:
        return "ok", "no call was dropped"
    newest = dropped[-1].decode("utf-8", "replace")[:200]
    text = f"{len(dropped)} calls were dropped, and answered by fresh processes; the newest: {newest}"
    return "warn", text, f"read {display_path(log, home)}"


# --- the repository ----------------------------------------------------------------------------------------


def check_repository(gate: Gate) -> list[DoctorCheck]:
    return [
        *(*check_mode(gate), *check_log_end(gate), *check_chain(gate), *check_spool(gate), *check_state(gate)),
        *(*check_lives(gate), *check_trust(gate), *check_generated(gate), *check_nested_rules(gate)),
        *check_tracked_logs(gate),
        *(*check_watching(gate), *check_coverage(gate), *check_calls(gate)),
    ]


@check("mode")
def check_mode(gate: Gate) -> Result:
    rules = load_rules(gate.workspace)
    if rules.config_error:
        return "fail", rules.config_error, "repair it by hand"
    if (gate.workspace.state / ENFORCE_MARKER).exists() != (rules.mode == "enforce"):
        return "fail", f"{rules.mode}, but the marker says otherwise", FIX
    if rules.loosened:
        return "warn", f"{rules.mode}; git brought looser rules, which do not hold", "remit rules diff"
    return "ok", rules.mode


@check("log", VERIFY)
def check_log_end(gate: Gate) -> Result:
    health = check_log_health(gate.recorder.log.folder)
    if not health.ok:
        return "fail", health.why, VERIFY
    return "ok", f"nothing is missing or altered among its newest {health.records_checked} records"


@check("ledger")
def check_chain(gate: Gate) -> Result:
    """Verify the log; a large one is left to `remit ledger verify`."""
    folder = gate.recorder.log.folder
    size = sum(file.stat().st_size for file in folder.iterdir() if file.is_file()) if folder.is_dir() else 0
    if size > MAX_VERIFIED_BYTES:
        return "ok", f"{size >> 20} MiB, not verified here", VERIFY
    report = check_ledger(gate.recorder, gate.rules.config)
    if bad := report.errors:
        return "fail", f"{len(bad)} errors, the first: {bad[0].message}", VERIFY
    others = sum(finding.code in ("unproved", "unreadable") and bool(finding.log) for finding in report.findings)
    text = f"; {others} other machines have logs here, see `remit ledger verify`" if others else ""
    return "ok", f"the chain is whole{text}"


@check("spool")
def check_spool(gate: Gate) -> Result:
    spool = gate.recorder.spool
    if waiting := spool.count_pending():
        return "fail", f"{waiting} records wait to be written", FIX
    if spool.unreadable_path.exists():
        path = display_path(spool.unreadable_path, gate.environment.home)
        return "warn", f"lines that are no records, or too long, stand in {path}", "look at them, and delete the file"
    return "ok", "empty"


@check("state", "move it away; it is made anew")
def check_state(gate: Gate) -> Result:
    gate.state.list_recent_sessions(1)
    return "ok", "state.db can be used"


@check("lives", VERIFY)
def check_lives(gate: Gate) -> Result:
    path = life_path(gate.workspace)
    known, found = read_life(gate.workspace), collect_lives(gate.workspace)
    if older := [record.intent_id for uid, record in found.items() if known.get(uid) != record]:
        text = f"{path.name} does not say what the ledger does about {sanitise_line(', '.join(older), 200)}"
        return "fail", text, FIX
    lost = path.with_name(LOST_FILE)
    if not lost.exists():
        return "ok", f"what became of {len(known)} intents is known"
    how = "damaged" if lost.stat().st_size else "missing or empty"
    shown = display_path(lost, gate.environment.home)
    return "warn", f"the intents' {path.name} was {how}; it was made anew from the ledger", f"rm {shlex.quote(shown)}"


@check("trust")
def check_trust(gate: Gate) -> Result:
    untrusted = describe_untrusted(gate.untrusted_commands)
    return ("warn", untrusted, "remit trust") if untrusted else ("ok", "nothing waits for a yes")


@check("generated")
def check_generated(gate: Gate) -> Result:
    tracked = find_tracked_matches(gate.workspace, gate.rules.config.containment.generated)
    if not tracked:
        return None
    text = f"[containment] generated matches {len(tracked)} tracked files, which it does not cover: "
    return "warn", text + sanitise_line(tracked[0], 80), "narrow the patterns in .orchestration/remit.toml"


def check_tracked_logs(gate: Gate) -> list[DoctorCheck]:
    try:
        found = [finding.message.rpartition("; ") for finding in find_tracked_log_faults(gate.recorder)]
    except (LedgerError, GitError, OSError) as error:
        return [DoctorCheck("fail", "shared logs", str(error))]
    return [DoctorCheck("warn", "shared logs", what, step) for what, _, step in found]


@check("nested rules")
def check_nested_rules(gate: Gate) -> Result:
    nested = describe_nested_rules(gate.workspace)
    return ("warn", nested) if nested else None


@check("watching")
def check_watching(gate: Gate) -> Result:
    found = read_watch_status(gate.state)
    if found is None:
        return "ok", "no daemon has watched here yet: each comparison looks at everything"
    if not found.why:
        return "ok", f"only what changes is looked at; {found.folders} folders are watched"
    return "warn" if found.ended else "ok", f"the next comparison looks at everything: {found.why}"


@check("coverage")
def check_coverage(gate: Gate) -> Result:
    """Check the share of last week's changes that were decided before they happened."""
    week = parse_time("7d", datetime.fromtimestamp(gate.environment.clock.now(), UTC))
    with open_index(gate.workspace.state, gate.workspace.log_folder) as index:
        found = measure_coverage(index, since=week)
    text = f"{found.overall.covered_files} of {found.overall.changed} files that changed this week were judged before"
    if not found.changes:
        return "ok", text
    newest = found.changes[0]
    likely = f", likely by {sanitise_line(newest.writers[0], 120)}" if newest.writers else ""
    return "warn", f"{text}; newest not: {sanitise_line(newest.path, 80)}{likely}", "remit status --coverage"


@check("calls")
def check_calls(gate: Gate) -> Result:
    """Look for calls of the last days without a record, and for records that are there twice."""
    now, home = gate.environment.clock.now(), gate.environment.home
    since, until = (
        f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%S}" for at in (now - GAP_DAYS_S, now - UNDER_WAY_S)
    )
    reported: dict[str, list[Path]] = {}
    for session, (_, path) in gate.state.list_transcripts().items():
        reported.setdefault(session.session_id, []).append(Path(path))
    end = time.monotonic() + MAX_GAP_SEARCH_S
    with open_index(gate.workspace.state, gate.workspace.log_folder) as index:
        found = find_call_gaps(index, reported, home, since, until, lambda: time.monotonic() > end)
    kinds = (
        ("without a decision before", found.undecided),
        ("only in a transcript", found.unrecorded),
        ("recorded twice", found.doubled),
    )
    texts = [f"{len(calls)} {kind} ({sanitise_line(calls[0], 80)})" for kind, calls in kinds if calls]
    cut = "; not all transcripts were read" if found.is_cut else ""
    if texts:
        return "warn", f"calls of the last days: {', '.join(texts)}{cut}", "remit log --json"
    return "ok", f"each of the last days' calls has its records; {found.call_count} are in transcripts{cut}"


# --- the machine -------------------------------------------------------------------------------------------


@check("key")
def check_key(home: Path) -> Result:
    key = home / KEY_PATH
    if not key.is_file():
        return "warn", "there is none yet; it is made with the first record"
    if key.stat().st_mode & 0o077:
        return "fail", f"{display_path(key, home)} can be read by others", f"chmod 600 {key}"
    return "ok", display_path(key, home)


@check("person")
def check_door() -> Result:
    """Check what tells a person from an agent on this machine."""
    missing: list[str] = []
    if sys.platform != "linux":
        missing.append("no process namespaces: contained and left-behind processes are told by their parents alone")
    else:
        if not hasattr(os, "pidfd_open"):
            missing.append("no process descriptors: an id may be another process by the time it is looked at")
        if not Path("/proc/1/stat").exists():
            missing.append("/proc hides other processes (hidepid): who asks is unclear")
        if not read_control_group(os.getpid()):
            missing.append("no control groups (v2): what began while an agent works is unclear")
    if missing:
        return "warn", "; ".join(missing), "remit pin set"
    return "ok", "the kernel names who asks"


@check("languages")
def check_grammars() -> Result:
    if unknown := list_missing_grammars():
        text = f"without {', '.join(unknown)}: their functions have no names"
        return "warn", text, "pip install --force-reinstall remit"
    return "ok", f"{len(GRAMMARS)} can be read"


@check("git", "install git")
def check_git(folder: Path) -> Result:
    version = Git(folder).text("--version").removeprefix("git version ").partition(" ")[0].strip()
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < MIN_GIT_VERSION:
        return "warn", f"{version} is older than {'.'.join(map(str, MIN_GIT_VERSION))}"
    return "ok", version


@check("staging")
def check_leftovers(home: Path, temporary: Path) -> Result:
    left = [found for place in staging_folders(home, temporary) if place.is_dir() for found in remove_leftovers(place)]
    names = shlex.join(map(str, left[:MAX_NAMED]))
    text = f"{len(left)} of the folders that ended commands wrote to cannot be removed: {names}"
    return ("warn", text, f"rm -rf {names}") if left else None


def check_containment(home: Path, temporary: Path, workspace: Workspace | None = None) -> DoctorCheck:
    """Check which containment works here, and in `workspace` if given. Any but an overlay is a warning."""
    try:
        found = find_containment(home, temporary)
    except OSError as error:
        return DoctorCheck("warn", "containment", f"could not be tried: {error}")
    kind = kind_for_workspace(found, workspace) if workspace is not None else found.way
    remarks = (*found.remarks, *(("something is mounted in this workspace",) if kind != found.way else ()))
    hides = kind in ("overlay", "bind")
    secrets = (
        "your secrets are out of commands' sight" if hides else "commands see your secrets: nothing hides them here"
    )
    about = "; ".join((KIND_DESCRIPTIONS[kind], secrets, *remarks))
    return DoctorCheck("ok" if kind == "overlay" else "warn", "containment", about, find_repair_command(found))


def describe_containment_warning(home: Path, temporary: Path) -> str:
    found = check_containment(home, temporary)
    if found.level == "ok":
        return ""
    mend = f"; to mend it: {found.fix}" if found.fix else ""
    return f"commands of agents are not staged on this machine ({found.message}){mend}"
