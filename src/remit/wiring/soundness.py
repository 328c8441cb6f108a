"""Whether Remit's own parts on this machine are sound: the hook client, the daemon's log, the hooks in the settings."""

import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from remit.adapters import ROWS, AgentRow
from remit.wiring.agents import Place, wanted_hooks
from remit.wiring.checkup import PROBE_S, Check
from remit.wiring.client import NoClient, client_path, client_words, is_altered, is_current
from remit.wiring.insertions import Object, as_object, covers
from remit.wiring.json_text import NotJson, decoded, root_of
from remit.wiring.manifest import Manifest
from remit.wiring.plan import shown_path
from remit.workspace.settings_file import read_settings

DAEMON_LOG = ".local/state/remit/daemon.log"
"""Below HOME."""

DROPPED = b"a call was dropped"
"""What `servers.daemon` writes there of a call that it could not answer."""

TAIL_BYTES = 64 * 1024
RUNS = 10


class Latency(Struct, frozen=True):
    """How long the client took, in milliseconds, and what went wrong in the first run that failed."""

    p50_ms: float
    p99_ms: float
    runs: int
    failure: str = ""


def client_check(home: Path, noted: str) -> Check:
    """Whether the client is there, current, and the one that was installed: `noted` is what its SHA-256 was then."""
    try:
        current, altered = is_current(home), is_altered(home, noted)
    except (NoClient, OSError) as error:
        return Check("fail", "client", str(error))
    path = shown_path(client_path(home), home)
    if not current:
        return Check("fail", "client", f"{path} is missing, or of another version", "remit doctor --fix")
    if altered:
        return Check("fail", "client", f"{path} is not the one that Remit installed", "remit doctor --fix")
    if not noted:
        return Check("warn", "client", f"{path}; what was installed was not noted", "remit doctor --fix")
    return Check("ok", "client", path)


def daemon_check(home: Path) -> Check:
    """Whether the daemon had to drop calls; each of them was answered by a fresh process, only later."""
    try:
        with (home / DAEMON_LOG).open("rb") as file:
            file.seek(max(0, (home / DAEMON_LOG).stat().st_size - TAIL_BYTES))
            dropped = [line for line in file.read().splitlines() if DROPPED in line]
    except OSError:
        dropped = []
    if not dropped:
        return Check("ok", "daemon", "no call was dropped")
    newest = dropped[-1].decode("utf-8", "replace")[:200]
    said = f"{len(dropped)} calls were dropped, and answered by fresh processes; the newest: {newest}"
    return Check("warn", "daemon", said, f"read {shown_path(home / DAEMON_LOG, home)}")


def unhooked(places: list[Place], manifest: Manifest) -> dict[Path, str]:
    """The files whose hooks `init` wrote and that are gone or changed since, with their agents. Raises NoClient."""
    found = {place.hooks(row): (row, client_words(place.home)) for place in places for row in ROWS.values()}
    wired = {path: row for path, (row, _) in found.items() if is_wired(manifest, path, row.agent)}
    return {p: row.agent for p, row in wired.items() if not covers(document(p), wanted_hooks(row, found[p][1]))}


def is_wired(manifest: Manifest, path: Path, agent: str) -> bool:
    """Whether `init` put that agent's hooks into this file."""
    file = manifest.file(path)
    return file is not None and agent in file.agents


def document(path: Path) -> Object:
    """What a settings file says; nothing where it is gone or cannot be read."""
    try:
        root = root_of(read_settings(path) or b"")
    except (NotJson, OSError):
        return {}
    return (as_object(decoded(root)) or {}) if root else {}


def harmless_payload(row: AgentRow, folder: str) -> bytes:
    """A call that asks for nothing, as this agent would ask before it."""
    event = next(name for name, kind in row.events.items() if kind == "before")
    tool = next((name for name, each in row.tools.items() if each.effect == "none"), "unknown")
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


def latency(row: AgentRow, home: Path, environment: Mapping[str, str], runs: int) -> Latency:
    """How long the client takes for a harmless call in a folder of its own. Raises NoClient, OSError."""
    command = f"{client_words(home)} {row.agent} pre"
    times: list[float] = []
    failure = ""
    with tempfile.TemporaryDirectory(prefix="remit-doctor-") as folder:
        payload = harmless_payload(row, folder)
        for _ in range(runs):
            began = time.perf_counter()
            failure = failure or run_client(command, payload, folder, environment)
            times.append((time.perf_counter() - began) * 1000)
    times.sort()
    return Latency(round(statistics.median(times), 1), round(times[-1], 1), runs, failure)


def run_client(command: str, payload: bytes, folder: str, environment: Mapping[str, str]) -> str:
    """Run the client as an agent would; what went wrong, or nothing."""
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            input=payload,
            cwd=folder,
            env=dict(environment),
            capture_output=True,
            timeout=PROBE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it gave no answer within {PROBE_S:.0f} s"
    if done.returncode == 0 and not done.stderr:
        return ""
    return f"exit {done.returncode}: {done.stderr.decode('utf-8', 'replace').strip()[:300]}"


def latency_check(measured: Latency) -> Check:
    """Whether the client answers."""
    if measured.failure:
        return Check("fail", "hook", f"the client does not answer: {measured.failure}", "remit doctor --fix")
    return Check("ok", "hook", f"p50 {measured.p50_ms:.0f} ms  p99 {measured.p99_ms:.0f} ms  ({measured.runs} runs)")
