"""Checks of Remit's own parts on this machine: the hook client, the daemon's log, the hooks in settings files."""

import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from remit.adapters import ROWS, AgentRow
from remit.core.json_guards import as_object
from remit.core.machine_paths import STATE_FOLDER
from remit.wiring.agents import SettingsPlace, build_hook_settings
from remit.wiring.doctor_checks import PROBE_TIMEOUT_S, DoctorCheck
from remit.wiring.hook_client import NoClient, client_path, client_words, is_client_altered, is_client_current
from remit.wiring.insertions import JsonObject, contains_settings
from remit.wiring.json_text import NotJson, decode_node, parse_root
from remit.wiring.manifest import Manifest
from remit.wiring.plan import display_path
from remit.workspace.agents.settings_files import read_settings

DAEMON_LOG_PATH = f"{STATE_FOLDER}/daemon.log"
"""Relative to HOME."""

DROPPED_CALL = b"a call was dropped"
"""Text that `servers.daemon` logs for a call that it could not answer."""

TAIL_BYTES = 64 * 1024
LATENCY_RUNS = 10


class Latency(Struct, frozen=True):
    """Measured latency of the client in milliseconds, and the error of the first failed run."""

    p50_ms: float
    p99_ms: float
    runs: int
    failure: str = ""


def check_client(home: Path, noted: str) -> DoctorCheck:
    """Check that the client exists, is current and unaltered; `noted` is the hash at installation."""
    try:
        current, altered = is_client_current(home), is_client_altered(home, noted)
    except (NoClient, OSError) as error:
        return DoctorCheck("fail", "client", str(error))
    path = display_path(client_path(home), home)
    if not current:
        return DoctorCheck("fail", "client", f"{path} is missing, or of another version", "remit doctor --fix")
    if altered:
        return DoctorCheck("fail", "client", f"{path} is not the one that Remit installed", "remit doctor --fix")
    if not noted:
        return DoctorCheck("warn", "client", f"{path}; what was installed was not noted", "remit doctor --fix")
    return DoctorCheck("ok", "client", path)


def check_daemon(home: Path) -> DoctorCheck:
    """Check whether the daemon dropped calls; a fresh process answered each of them, only later."""
    try:
        with (home / DAEMON_LOG_PATH).open("rb") as file:
            file.seek(max(0, (home / DAEMON_LOG_PATH).stat().st_size - TAIL_BYTES))
            dropped = [line for line in file.read().splitlines() if DROPPED_CALL in line]
    except OSError:
        dropped = []
    if not dropped:
        return DoctorCheck("ok", "daemon", "no call was dropped")
    newest = dropped[-1].decode("utf-8", "replace")[:200]
    text = f"{len(dropped)} calls were dropped, and answered by fresh processes; the newest: {newest}"
    return DoctorCheck("warn", "daemon", text, f"read {display_path(home / DAEMON_LOG_PATH, home)}")


def find_unhooked_files(places: list[SettingsPlace], manifest: Manifest) -> dict[Path, str]:
    """Return the files with changed or missing hooks of `init`, with the agents. Raises NoClient."""
    found = {place.hooks_file(row): (row, client_words(place.home)) for place in places for row in ROWS.values()}
    wired = {path: row for path, (row, _) in found.items() if has_agent_hooks(manifest, path, row.agent)}
    return {
        p: row.agent
        for p, row in wired.items()
        if not contains_settings(read_settings_document(p), build_hook_settings(row, found[p][1]))
    }


def has_agent_hooks(manifest: Manifest, path: Path, agent: str) -> bool:
    file = manifest.find_file(path)
    return file is not None and agent in file.agents


def read_settings_document(path: Path) -> JsonObject:
    """Decode a settings file; empty if it is missing or unreadable."""
    try:
        root = parse_root(read_settings(path) or b"")
    except (NotJson, OSError):
        return {}
    return as_object(decode_node(root)) if root else {}


def build_harmless_payload(row: AgentRow, folder: str) -> bytes:
    """Return the payload of a harmless call, in the agent's form."""
    event = next(name for name, kind in row.events.items() if kind == "before")
    tool = next((name for name, item in row.tools.items() if item.effect == "none"), "unknown")
    return msgspec.json.encode(
        {
            "session_id": "remit-doctor",
            "hook_event_name": event,
            "cwd": folder,
            "tool_name": tool,
            "tool_input": {},
            "transcript_path": None,
        }
    )


def measure_latency(row: AgentRow, home: Path, environment: Mapping[str, str], runs: int) -> Latency:
    """Measure the client with harmless calls in a temporary folder. Raises NoClient, OSError."""
    command = f"{client_words(home)} {row.agent} pre"
    times: list[float] = []
    failure = ""
    with tempfile.TemporaryDirectory(prefix="remit-doctor-") as folder:
        payload = build_harmless_payload(row, folder)
        for _ in range(runs):
            began = time.perf_counter()
            failure = failure or run_client(command, payload, folder, environment)
            times.append((time.perf_counter() - began) * 1000)
    times.sort()
    return Latency(round(statistics.median(times), 1), round(times[-1], 1), runs, failure)


def run_client(command: str, payload: bytes, folder: str, environment: Mapping[str, str]) -> str:
    """Run the client as an agent would. Returns the error, or an empty text."""
    try:
        completed = subprocess.run(
            ["/bin/sh", "-c", command],
            input=payload,
            cwd=folder,
            env=dict(environment),
            capture_output=True,
            timeout=PROBE_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it gave no answer within {PROBE_TIMEOUT_S:.0f} s"
    if completed.returncode == 0 and not completed.stderr:
        return ""
    return f"exit {completed.returncode}: {completed.stderr.decode('utf-8', 'replace').strip()[:300]}"


def check_latency(measured: Latency) -> DoctorCheck:
    if measured.failure:
        return DoctorCheck("fail", "hook", f"the client does not answer: {measured.failure}", "remit doctor --fix")
    return DoctorCheck(
        "ok", "hook", f"p50 {measured.p50_ms:.0f} ms  p99 {measured.p99_ms:.0f} ms  ({measured.runs} runs)"
    )
