"""TRANSLATE: an agent's words to ours and ours to its, by dialect and row. No I/O."""

from remit.adapters import claude
from remit.adapters.row import AdapterError, AgentRow, HookReply
from remit.adapters.rows import ROWS
from remit.core.decision import Decision
from remit.core.events import HookEvent

__all__ = ["DIALECTS", "ROWS", "AdapterError", "AgentRow", "HookReply", "parse", "render", "settings"]

DIALECTS = {"claude": claude}


def parse(agent: str, payload: bytes) -> HookEvent:
    """What the payload says. Raises AdapterError, and nothing else, for any bytes."""
    row = ROWS[agent]
    return DIALECTS[row.dialect].parse(row, payload)


def render(agent: str, event: HookEvent, decision: Decision | None, reason: str = "", context: str = "") -> HookReply:
    """The agent's own minimal form of the answer, never looser than the decision."""
    row = ROWS[agent]
    return DIALECTS[row.dialect].render(row, event, decision, reason, context)


def settings(agent: str, client: str) -> dict[str, object]:
    """What has to stand in the agent's settings, as its settings file would hold it."""
    row = ROWS[agent]
    return DIALECTS[row.dialect].settings(row, client)
