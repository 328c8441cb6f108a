"""TRANSLATE: an agent's words to ours and ours to its, by dialect and row. No I/O."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from remit.adapters import claude, gemini
from remit.adapters.agent_row import AdapterError, AgentRow, HookReply
from remit.adapters.agents import ROWS
from remit.adapters.codex_trust import compute_codex_trust
from remit.adapters.payload import JsonObject, apply_arguments
from remit.core.call import ToolCall
from remit.core.decision import Decision
from remit.core.display_text import escape_surrogates
from remit.core.events import HookEvent

__all__ = [
    "DIALECTS",
    "ROWS",
    "AdapterError",
    "AgentRow",
    "HookReply",
    "can_ask",
    "can_rewrite",
    "compute_codex_trust",
    "has_sandbox",
    "parse",
    "render",
    "render_notice",
    "replace_arguments",
    "replace_command",
    "server_settings",
    "settings",
]

DIALECTS = {"claude": claude, "gemini": gemini}


def parse(agent: str, payload: bytes) -> HookEvent:
    """What the payload says. Raises AdapterError, and nothing else, for any bytes."""
    row = ROWS[agent]
    return DIALECTS[row.dialect].parse(row, payload)


def render(
    agent: str,
    event: HookEvent,
    decision: Decision | None,
    reason: str = "",
    context: str = "",
    arguments: JsonObject | None = None,
    permission: Literal["", "allow", "ask"] = "",
) -> HookReply:
    """The agent's own minimal form of the answer, never looser than the decision.

    `arguments` are what the tool is to run with in place of its own; only for a call of which `can_rewrite` is true.
    `permission` is what the person's own rules said of the command that they replace; `reason` then says which.
    """
    row = ROWS[agent]
    return DIALECTS[row.dialect].render(
        row, event, decision, escape_surrogates(reason), escape_surrogates(context), arguments, permission
    )


def can_rewrite(call: ToolCall) -> bool:
    """Whether the agent takes other arguments for this call from its hook: proved of its own tools, not of MCP's."""
    row = ROWS.get(call.agent)
    return row is not None and row.rewrites != "" and call.tool in row.tools


def render_notice(agent: str, words: str) -> bytes:
    """The answer to a turn's end that shows these words to the person; empty where the agent shows none."""
    if not words or not ROWS[agent].shows_turn_end:
        return b""
    return msgspec.json.encode({"systemMessage": escape_surrogates(words)})


def can_ask(agent: str) -> bool:
    """Whether a question that the hook hands on reaches a person; with nobody there, the agent refuses by itself."""
    return agent in ROWS and ROWS[agent].can_ask


def replace_arguments(call: ToolCall, arguments: JsonObject) -> ToolCall:
    """The call with other arguments, read as if the agent had sent them. Raises KeyError for an agent without a row."""
    return apply_arguments(ROWS[call.agent], call, arguments)


def replace_command(call: ToolCall, command: str) -> JsonObject | None:
    """The arguments of a shell call with another command, all else as it was; None for what is no known shell tool."""
    row = ROWS.get(call.agent)
    tool = row.tools.get(call.tool) if row is not None else None
    return None if tool is None or tool.command is None else {**call.arguments, tool.command: command}


def has_sandbox(agent: str) -> bool:
    """Whether the agent may run commands in a sandbox of its own."""
    return agent in ROWS and ROWS[agent].has_sandbox


def settings(agent: str, client: str) -> dict[str, object]:
    """What has to stand in the agent's `hooks_file`, as that file would hold it."""
    row = ROWS[agent]
    return DIALECTS[row.dialect].settings(row, client)


def server_settings(agent: str, command: Sequence[str]) -> dict[str, object]:
    """What has to stand in the agent's `mcp_file` for it to start `command` as Remit's server, and ask nobody."""
    row = ROWS[agent]
    program, *arguments = command
    return {row.servers_key: {"remit": {"command": program, "args": arguments, **row.server_approval}}}
