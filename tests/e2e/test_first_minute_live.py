"""The first minute of a real Claude Code whose MCP servers are not connected: the way that a refusal names is there."""

from pathlib import Path

import pytest

from e2e.claude import ALLOWED, Result, run_claude
from e2e.test_claude_code import governed, records, wired
from remit.rehearsal.anthropic_wire import AnthropicWire
from remit.rehearsal.scripted_model import ModelRequest, Say, ScriptedModel, Turn, Use

__all__ = ["governed"]

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("claude_code")]

ABSENT = {"mcpServers": {"remit": {"command": "sleep", "args": ["600"]}}}
"""A server that never answers."""
NEVER_WAITS = {"MCP_CONNECTION_NONBLOCKING": "1", "MCP_CONNECT_TIMEOUT_MS": "2000"}


def last_result(seen: ModelRequest) -> str:
    return next(r.text for message in reversed(seen.messages) for r in message.results)


def follow_refusal(seen: ModelRequest) -> Turn:
    """Run what the refusal says, word for word."""
    step = next(line for line in last_result(seen).splitlines() if line.startswith("Do: "))
    command = step.removeprefix("Do: run alone in your shell: ").partition("   (or ")[0]
    return (Use("Bash", {"command": command}),)


def test_without_remits_tools_the_first_refusal_ends_in_a_selection(governed: Path, home: Path) -> None:
    wired(home)
    target = governed / "src" / "new.py"
    write = Use("Write", {"file_path": str(target), "content": "x = 1\n"})
    with AnthropicWire(
        ScriptedModel([Use("WaitForMcpServers"), write, follow_refusal, write, Say("done")])
    ).serve() as wire:
        done: Result = run_claude(
            governed,
            home,
            wire.url,
            "do the work",
            mcp_config=ABSENT,
            environment=NEVER_WAITS,
            allowed=(*ALLOWED, "WaitForMcpServers"),
        )
        told = wire.tool_result_texts()
    assert done.returncode == 0, done
    offered = {tool.name for tool in wire.requests[0].tools}
    assert not any(name.startswith("mcp__remit__") for name in offered), "the server is absent"
    assert "MISSING_OR_INVALID_INTENT" not in told[0], told[0]
    assert "Do: run alone in your shell: remit intent select INT-001" in told[1]
    assert target.read_text() == "x = 1\n", told
    assert len(records(governed, "intent_selected")) == 1
