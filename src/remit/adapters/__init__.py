"""TRANSLATE: an agent's words to ours and ours to its, by dialect and row. No I/O."""

from collections.abc import Sequence

from remit.adapters import claude, gemini
from remit.adapters.codex import codex_trust
from remit.adapters.reading import Object, with_arguments
from remit.adapters.row import AdapterError, AgentRow, HookReply
from remit.adapters.rows import ROWS
from remit.core.call import ToolCall
from remit.core.decision import Decision
from remit.core.events import HookEvent
from remit.core.text import encodable

__all__ = [
    "DIALECTS",
    "ROWS",
    "AdapterError",
    "AgentRow",
    "HookReply",
    "can_rewrite",
    "codex_trust",
    "parse",
    "render",
    "rewritten",
    "servers",
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
    arguments: Object | None = None,
) -> HookReply:
    """The agent's own minimal form of the answer, never looser than the decision.

    `arguments` are what the tool is to run with in place of its own; only for a call of which `can_rewrite` is true.
    """
    row = ROWS[agent]
    return DIALECTS[row.dialect].render(row, event, decision, encodable(reason), encodable(context), arguments)


def can_rewrite(call: ToolCall) -> bool:
    """Whether the agent takes other arguments for this call from its hook: proved of its own tools, not of MCP's."""
    row = ROWS.get(call.agent)
    return row is not None and row.rewrites != "" and call.tool in row.tools


def rewritten(call: ToolCall, arguments: Object) -> ToolCall:
    """The call with other arguments, read as if the agent had sent them. Raises KeyError for an agent without a row."""
    return with_arguments(ROWS[call.agent], call, arguments)


def settings(agent: str, client: str) -> dict[str, object]:
    """What has to stand in the agent's `hooks_file`, as that file would hold it."""
    row = ROWS[agent]
    return DIALECTS[row.dialect].settings(row, client)


def servers(agent: str, command: Sequence[str]) -> dict[str, object]:
    """What has to stand in the agent's `mcp_file` for it to start `command` as Remit's server, and ask nobody."""
    row = ROWS[agent]
    program, *arguments = command
    return {row.servers_key: {"remit": {"command": program, "args": arguments, **row.server_approval}}}
