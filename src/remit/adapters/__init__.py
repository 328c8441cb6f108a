"""TRANSLATE: agents' payloads into Remit's values and decisions into agents' answers, by dialect and row. No I/O."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from remit.adapters import claude, gemini
from remit.adapters.hook_entries import compute_hook_trust
from remit.adapters.payload import AdapterError, HookReply, JsonObject, apply_arguments
from remit.core.agents import ROWS
from remit.core.call import HookEvent, ToolCall
from remit.core.decision import Decision
from remit.core.untrusted_input import escape_surrogates

__all__ = [
    "DIALECTS", "AdapterError", "HookReply", "can_ask", "can_rewrite", "compute_hook_trust",
    "has_sandbox", "hides_folder", "parse", "render", "render_notice", "replace_arguments", "replace_command",
    "server_settings", "settings",
]  # fmt: skip

MODULES = {module.__name__.rpartition(".")[2]: module for module in (claude, gemini)}
DIALECTS = {agent: MODULES[row.dialect] for agent, row in ROWS.items()}


def parse(agent: str, payload: bytes) -> HookEvent:
    """Parse a hook payload. Raises AdapterError for any bytes that are not a payload of the agent, and no other
    exception.
    """
    row = ROWS[agent]
    return DIALECTS[agent].parse(row, payload)


def render(
    agent: str,
    event: HookEvent,
    decision: Decision | None,
    reason: str = "",
    context: str = "",
    arguments: JsonObject | None = None,
    permission: Literal["", "allow", "ask"] = "",
) -> HookReply:
    """Return the answer in the agent's own form, minimal and never looser than the decision.

    `arguments` replace the tool's arguments, only for calls for which `can_rewrite` is true. `permission` is the
    verdict of the person's own rules on the replaced command; `reason` then names the rule.
    """
    row = ROWS[agent]
    return DIALECTS[agent].render(
        row, event, decision, escape_surrogates(reason), escape_surrogates(context), arguments, permission
    )


def can_rewrite(call: ToolCall) -> bool:
    """Return True if the agent accepts other arguments for this call: proved for its own tools, not for MCP tools."""
    row = ROWS.get(call.agent)
    return row is not None and row.rewrites != "" and call.tool in row.tools


def render_notice(agent: str, words: str) -> bytes:
    if not words or not ROWS[agent].shows_turn_end:
        return b""
    return msgspec.json.encode({"systemMessage": escape_surrogates(words)})


def can_ask(agent: str) -> bool:
    """Return True if the agent passes a hook's question on to a person; without a person present, the agent refuses."""
    return agent in ROWS and ROWS[agent].can_ask


def replace_arguments(call: ToolCall, arguments: JsonObject) -> ToolCall:
    """Return the call with other arguments, parsed as if the agent had sent them. Raises KeyError for an agent without
    a row.
    """
    return apply_arguments(ROWS[call.agent], call, arguments)


def replace_command(call: ToolCall, command: str) -> JsonObject | None:
    """Return the arguments of a shell call with another command; None if the tool is not a known shell tool."""
    row = ROWS.get(call.agent)
    tool = row.tools.get(call.tool) if row is not None else None
    return None if tool is None or tool.command is None else {**call.arguments, tool.command: command}


def has_sandbox(agent: str) -> bool:
    return agent in ROWS and ROWS[agent].has_sandbox


def hides_folder(agent: str) -> bool:
    return agent in ROWS and ROWS[agent].hides_folder


def settings(agent: str, client: str) -> dict[str, object]:
    row = ROWS[agent]
    return DIALECTS[agent].settings(row, client)


def server_settings(agent: str, command: Sequence[str]) -> dict[str, object]:
    row = ROWS[agent]
    program, *arguments = command
    return {row.servers_key: {"remit": {"command": program, "args": arguments, **row.server_settings}}}
