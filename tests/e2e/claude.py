"""Runs the real Claude Code against a scripted model: where the client comes from, and what it may see."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from e2e import npm
from e2e.npm import RUN_TIMEOUT_S, Result, TooSlow

__all__ = [
    "CLAUDE_CODE",
    "Result",
    "TooSlow",
    "claude_binary",
    "clean_environment",
    "hooks",
    "run_claude",
]

CLAUDE_CODE = "2.1.330"
MODEL = "claude-sonnet-5"
ALLOWED = (
    "Agent",
    "Bash",
    "Edit",
    "Glob",
    "Grep",
    "NotebookEdit",
    "Read",
    "Skill",
    "ToolSearch",
    "Write",
    "mcp__remit",
)
SWITCHES = {
    "ANTHROPIC_API_KEY": "dummy",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
    # A busy machine: the first turn waits for servers of tools, and no reminder names those that still connect.
    "MCP_CONNECTION_NONBLOCKING": "0",
    "MCP_CONNECT_TIMEOUT_MS": "120000",
}


@cache
def claude_binary() -> Path:
    """The pinned client, from the cache folder, or else from npm. Skips the test when npm is out of reach.

    Raises NotInstalled.
    """
    package = f"@anthropic-ai/claude-code-{npm.platform_of('claude-code')}"
    binary = npm.installed("claude-code", CLAUDE_CODE, f"{package}@{CLAUDE_CODE}", f"{package}/claude")
    npm.check_version([str(binary)], CLAUDE_CODE)
    return binary


def clean_environment(home: Path, wire_url: str, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """All that the client may see; see `npm.clean_environment`."""
    return npm.clean_environment(home, {"ANTHROPIC_BASE_URL": wire_url, **SWITCHES, **(extra or {})})


def run_claude(
    workspace: Path,
    home: Path,
    wire_url: str,
    prompt: str,
    *,
    settings: Mapping[str, Any] | None = None,
    mcp_config: Mapping[str, Any] | None = None,
    arguments: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    allowed: Sequence[str] = ALLOWED,
    timeout_s: float = RUN_TIMEOUT_S,
) -> Result:
    """One headless run, `claude -p`, with `workspace` as its folder. Raises TooSlow.

    `settings` and `mcp_config` come on top of what the workspace and `home` hold. `allowed` are the tools
    that need no permission; root may not skip permissions altogether.
    """
    command = [str(claude_binary()), "-p", prompt, "--model", MODEL, "--allowedTools", ",".join(allowed)]
    if settings:
        command += ["--settings", json.dumps(settings)]
    if mcp_config:
        command += ["--mcp-config", json.dumps(mcp_config)]
    return npm.run([*command, *arguments], workspace, clean_environment(home, wire_url, environment), timeout_s)


def hooks(command: str, *events: str, matcher: str = "*", timeout_s: int = 60) -> dict[str, Any]:
    """Settings that run one command on each of these events."""
    handler = {"type": "command", "command": command, "timeout": timeout_s}
    return {"hooks": {event: [{"matcher": matcher, "hooks": [handler]}] for event in events}}
