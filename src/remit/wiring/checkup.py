"""Whether the wiring works: each check looks at one thing and says what it found, and what to do about it."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from remit.core.syntax.grammars import GRAMMARS, missing
from remit.core.text import shown
from remit.core.treehead import InvalidKey
from remit.gate.gate import Gate
from remit.gate.generated import covered_tracked
from remit.gate.governing import governing
from remit.gate.ledger_check import check_ledger
from remit.gate.own_rules import describe_rules
from remit.gate.state_file import StateError
from remit.gate.tracked_check import tracked_findings
from remit.gate.trusting import untrusted_line
from remit.ledger.health import log_health
from remit.ledger.index import Index
from remit.ledger.segments import LedgerError
from remit.wiring.agents import TRUST, Found, Place
from remit.wiring.client import NoClient, client_words, server_command
from remit.wiring.manifest import Manifest
from remit.wiring.plan import Problem, plan, shown_path
from remit.wiring.unread import unread_line
from remit.workspace.git import Git, GitError
from remit.workspace.place import ENFORCE

Level: TypeAlias = Literal["ok", "warn", "fail"]

OLDEST_GIT = (2, 31)
PROBE_S = 30.0
RECORDS = 2000
VERIFIED_BYTES = 32 * 1024 * 1024


class Check(Struct, frozen=True, omit_defaults=True):
    """What one check found. `fix` is the next step, where one is needed."""

    level: Level
    name: str
    message: str
    fix: str = ""


def agent_checks(
    found: Found, place: Place, manifest: Manifest, environment: Mapping[str, str], seen: str | None
) -> list[Check]:
    """Everything about one agent: `seen` is the time of its newest call in this ledger."""
    agent = found.row.agent
    if found.binary is None:
        installed = Check("warn", agent, f"not on PATH, though ~/{found.row.config_folder} is there")
    else:
        said = agent_version(found.binary, environment)
        installed = Check("ok", agent, f"installed: {said}") if said else Check("warn", agent, "it tells no version")
    return [installed, wiring(found, place, manifest), fired(agent, seen)]


def own_rules_check(gate: Gate, found: Found) -> Check:
    """What was found of the person's own permission rules, and what becomes of them."""
    return Check("ok", f"{found.row.agent} rules", describe_rules(found.row, gate.workspace.root, gate.environment))


def agent_version(binary: str, environment: Mapping[str, str]) -> str:
    """What the agent says its version is; empty where it says nothing within the time."""
    try:
        done = subprocess.run(
            [binary, "--version"], capture_output=True, timeout=PROBE_S, env=dict(environment), check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace").strip().partition("\n")[0][:80]


def wiring(found: Found, place: Place, manifest: Manifest) -> Check:
    """Whether hooks, server and approval stand in its settings as this version wants them."""
    agent, fix = found.row.agent, f"remit init --agent {found.row.agent}"
    try:
        plans = plan([found], place, client_words(place.home), server_command(), manifest, set())
    except (Problem, NoClient, OSError) as error:
        return Check("fail", agent, str(error), "repair the file by hand")
    wanting = [file for file in plans if file.changes]
    files = ", ".join(shown_path(file.path, place.home) for file in wanting or plans)
    blind = [said for file in plans if (said := unread_line(file, place.home).strip())]
    if blind and not wanting:
        return Check("fail", agent, blind[0], "repair the file by hand")
    if not wanting:
        trusted = agent not in TRUST or any("trust" in file.parts for file in plans)
        if trusted:
            return Check("ok", agent, f"wired: {files}; Remit's tools approved")
        return Check("warn", agent, f"wired: {files}; whether it trusts the hooks is not known", f"{fix} --trust-codex")
    if any(manifest.file(file.path) for file in wanting):
        return Check("fail", agent, f"wired, and out of date or incomplete: {files}", "remit doctor --fix")
    return Check("warn", agent, f"not wired: {files}", fix)


def fired(agent: str, seen: str | None) -> Check:
    """Whether this agent ever asked us here."""
    if seen is None:
        return Check("warn", agent, "no call of it in this ledger yet", "start one session of it here")
    return Check("ok", agent, f"last call {seen[:19].replace('T', ' ')} UTC")


def newest_calls(gate: Gate) -> dict[str, str]:
    """By agent, when it last asked; of the newest records only. Raises LedgerError, OSError."""
    workspace = gate.workspace
    with Index.open(workspace.state / "index.db", workspace.log_folder) as index:
        found = index.find(event="tool_use", limit=RECORDS)
    newest: dict[str, str] = {}
    for record in found:
        tool: dict[str, Any] = record.get("tool") or {}
        newest.setdefault(str(tool.get("name")), str(record["timestamp"]))
    return newest


# --- the repository ----------------------------------------------------------------------------------------


def repository_checks(gate: Gate) -> list[Check]:
    """Everything about the repository, where it is governed."""
    return [
        *(mode_check(gate), health_check(gate), ledger_check(gate), spool_check(gate)),
        *(state_check(gate), trust_check(gate), *generated_check(gate), *tracked_checks(gate)),
    ]


def tracked_checks(gate: Gate) -> list[Check]:
    """Whether the logs that are tracked files are what their machines wrote; nothing where there is none."""
    try:
        found = tracked_findings(gate)
    except (LedgerError, GitError, OSError) as error:
        return [Check("fail", "shared logs", str(error))]
    messages = (finding.message.rpartition("; ") for finding in found)
    return [Check("warn", "shared logs", what, step) for what, _, step in messages]


def trust_check(gate: Gate) -> Check:
    """Whether the commands that the repository brings may run."""
    try:
        said = untrusted_line(gate.untrusted)
    except (GitError, OSError) as error:
        return Check("fail", "trust", str(error))
    return Check("warn", "trust", said, "remit trust") if said else Check("ok", "trust", "nothing waits for a yes")


def generated_check(gate: Gate) -> list[Check]:
    """Whether patterns of generated files match tracked ones, which they do not cover; nothing where all is well."""
    patterns = gate.governing.config.containment.generated
    try:
        tracked = covered_tracked(gate.workspace, patterns)
    except GitError as error:
        return [Check("fail", "generated", str(error))]
    if not tracked:
        return []
    first = shown(tracked[0], 80)
    said = f"[containment] generated matches {len(tracked)} tracked files, which it does not cover: {first}"
    return [Check("warn", "generated", said, "narrow the patterns in .orchestration/remit.toml")]


def mode_check(gate: Gate) -> Check:
    """Whether the marker that a failing hook looks at says what the mode is."""
    rules = governing(gate.workspace)
    if rules.config_error:
        return Check("fail", "mode", rules.config_error, "repair it by hand")
    marked = (gate.workspace.state / ENFORCE).exists()
    if marked != (rules.mode == "enforce"):
        return Check("fail", "mode", f"{rules.mode}, but the marker says otherwise", "remit doctor --fix")
    return Check("ok", "mode", rules.mode)


def ledger_check(gate: Gate) -> Check:
    """Whether the log is whole. A large one is left to `remit ledger verify`."""
    folder = gate.recorder.log.folder
    size = sum(file.stat().st_size for file in folder.iterdir() if file.is_file()) if folder.is_dir() else 0
    if size > VERIFIED_BYTES:
        return Check("ok", "ledger", f"{size >> 20} MiB, not verified here", "remit ledger verify")
    try:
        report = check_ledger(gate.recorder, gate.governing.config)
    except (LedgerError, GitError, OSError, InvalidKey) as error:
        return Check("fail", "ledger", str(error))
    if bad := report.errors:
        return Check("fail", "ledger", f"{len(bad)} errors, the first: {bad[0].message}", "remit ledger verify")
    others = sum(finding.code in ("unproved", "unreadable") and bool(finding.log) for finding in report.findings)
    said = f"; {others} other machines have logs here, see `remit ledger verify`" if others else ""
    return Check("ok", "ledger", f"the chain is whole{said}")


def health_check(gate: Gate) -> Check:
    """A quick look at the end of the log, however large it is."""
    try:
        health = log_health(gate.recorder.log.folder)
    except (LedgerError, OSError) as error:
        return Check("fail", "log", str(error), "remit ledger verify")
    if not health.ok:
        return Check("fail", "log", health.why, "remit ledger verify")
    return Check("ok", "log", f"nothing is missing or altered among its newest {health.records_checked} records")


def spool_check(gate: Gate) -> Check:
    """Whether records wait that could not be written."""
    waiting = gate.recorder.spool.pending()
    if waiting:
        return Check("fail", "spool", f"{waiting} records wait to be written", "remit doctor --fix")
    return Check("ok", "spool", "empty")


def state_check(gate: Gate) -> Check:
    """Whether the state database can be used."""
    try:
        gate.state.recent_sessions(1)
    except StateError as error:
        return Check("fail", "state", str(error), "move it away; it is made anew")
    return Check("ok", "state", "state.db can be used")


def key_check(home: Path) -> Check:
    """Whether the signing key is there and nobody else's to read."""
    key = home / ".local/state/remit/key"
    if not key.is_file():
        return Check("warn", "key", "there is none yet; it is made with the first record")
    if key.stat().st_mode & 0o077:
        return Check("fail", "key", f"{shown_path(key, home)} can be read by others", f"chmod 600 {key}")
    return Check("ok", "key", shown_path(key, home))


def grammar_check() -> Check:
    """Whether the languages of files can be read: of the others Remit tells neither functions nor classes."""
    unknown = missing()
    if not unknown:
        return Check("ok", "languages", f"{len(GRAMMARS)} can be read")
    about = f"without {', '.join(unknown)}: their functions have no names"
    return Check("warn", "languages", about, "pip install --force-reinstall remit")


def git_check(folder: Path) -> Check:
    """Whether git is there and new enough."""
    try:
        said = Git(folder).text("--version").removeprefix("git version ").split()[0]
    except (GitError, IndexError) as error:
        return Check("fail", "git", str(error), "install git")
    numbers = tuple(int(part) for part in said.split(".")[:2] if part.isdigit())
    if numbers < OLDEST_GIT:
        return Check("warn", "git", f"{said} is older than {'.'.join(map(str, OLDEST_GIT))}")
    return Check("ok", "git", said)
