"""The table of agents: a file each. Everything that depends on the agent reads its row, and nothing else names it.

Sources: the clients themselves, run with dumping hooks; versions at the rows.
"""

from remit.core.agents.claude_code import CLAUDE_CODE
from remit.core.agents.codex import CODEX
from remit.core.agents.gemini import GEMINI
from remit.core.agents.qwen import QWEN
from remit.core.agents.remit import REMIT
from remit.core.agents.row import Agent, AgentRow

__all__ = ["AGENTS", "AGENT_BINARIES", "ROWS", "Agent", "AgentRow"]

AGENTS: dict[str, Agent] = {row.agent: row for row in (CLAUDE_CODE, CODEX, GEMINI, QWEN, REMIT)}
ROWS = {name: row for name, row in AGENTS.items() if isinstance(row, AgentRow)}
"""Agents with hooks."""

AGENT_BINARIES = frozenset(row.binary for row in ROWS.values())  # Programs that write files by themselves
