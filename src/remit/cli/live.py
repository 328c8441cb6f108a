"""`remit doctor --live`: a real agent, a scripted model, and a write that has to be refused.

It runs in a HOME and a repository of its own, wired by the real `remit init`; nothing leaves this machine.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from remit.host.scripted import Say, ScriptedModel, Use
from remit.host.wire.anthropic import AnthropicWire
from remit.wiring.agents import Found
from remit.wiring.checkup import Check

RUN_S = 120
KEPT = ("PATH", "LANG", "LC_ALL", "TERM", "SSL_CERT_FILE")
EXPECTED = "MISSING_OR_INVALID_INTENT"
TOLD = "live"

Run: TypeAlias = Callable[[str, Path, dict[str, str]], list[str]]
"""Runs the agent once, in a repository and an environment; what the model was told of its one call."""


def probe(found: Found) -> Check:
    """Run the agent; ok where its write was refused, and by us."""
    run = RUNS.get(found.row.agent)
    if run is None or found.binary is None:
        return Check("warn", found.row.agent, f"{TOLD}: no scripted model speaks its protocol yet")
    with tempfile.TemporaryDirectory(prefix="remit-live-") as scratch:
        home, repository = Path(scratch) / "home", Path(scratch) / "repo"
        environment = prepared(home, repository, found.row.agent)
        try:
            told = run(found.binary, repository, environment)
        except (OSError, subprocess.SubprocessError) as error:
            return Check("fail", found.row.agent, f"{TOLD}: it could not be run: {str(error)[:300]}")
        return verdict(found.row.agent, told, (repository / "probe.txt").exists())


def verdict(agent: str, told: list[str], written: bool) -> Check:
    """What the run shows."""
    if written:
        return Check("fail", agent, f"{TOLD}: its write went through; the hooks do not reach it")
    if any(EXPECTED in text for text in told):
        return Check("ok", agent, f"{TOLD}: its write without an intent was refused, and it was told why")
    return Check("fail", agent, f"{TOLD}: nothing was written, but it was not told why: {' '.join(told)[:300]!r}")


def prepared(home: Path, repository: Path, agent: str) -> dict[str, str]:
    """A HOME and an enforcing repository, and the environment that goes with them."""
    for folder in (home / "tmp", repository):
        folder.mkdir(parents=True)
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    environment = {**kept, "HOME": str(home), "TMPDIR": str(home / "tmp"), "GIT_CONFIG_NOSYSTEM": "1"}
    remit = [sys.executable, "-I", "-c", "from remit.cli import main; main()"]
    for command in (["git", "init", "-q"], [*remit, "init", "--yes", "--mode", "enforce", "--agent", agent]):
        subprocess.run(command, cwd=repository, env=environment, check=True, capture_output=True, timeout=RUN_S)
    return environment


def run_claude(binary: str, repository: Path, environment: dict[str, str]) -> list[str]:
    """One headless run of Claude Code. Raises OSError, SubprocessError."""
    write = Use("Write", {"file_path": str(repository / "probe.txt"), "content": "probe\n"})
    words = [binary, "-p", "do the work", "--model", "claude-sonnet-5", "--allowedTools", "Write"]
    with AnthropicWire(ScriptedModel([write, Say("done")])).serve() as wire:
        subprocess.run(
            words,
            cwd=repository,
            env={**environment, **CLAUDE_SWITCHES, "ANTHROPIC_BASE_URL": wire.url},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=RUN_S,
            check=False,
        )
        return wire.tool_result_texts()


CLAUDE_SWITCHES = {
    "ANTHROPIC_API_KEY": "scripted",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
}

RUNS: dict[str, Run] = {"claude-code": run_claude}
