"""The hooks that have to stand in an agent's settings."""

from typing import Literal, TypeAlias

from remit.adapters.fallback import FALLBACK
from remit.adapters.row import AgentRow, Event

Kind: TypeAlias = Literal["pre", "post", "note"]

KINDS: dict[Event, Kind] = {"before": "pre", "after": "post", "failed": "post"}


def hooks(row: AgentRow, client: str, **extra: str) -> dict[str, object]:
    """By the agent's name of each event, the one command of Remit's. `extra` goes into each handler.

    `client` is the shell words that start the hook client. A client that is missing or crashes refuses where Remit
    enforces, and only before a tool: an exit code on any other event would do harm.
    """
    return {name: [group(row, client, KINDS.get(event, "note"), extra)] for name, event in row.events.items()}


def group(row: AgentRow, client: str, kind: Kind, extra: dict[str, str]) -> dict[str, object]:
    """One entry of an event: all tools, one handler."""
    handler = {
        "type": "command",
        **extra,
        "command": command_line(row.agent, client, kind),
        "timeout": row.max_timeout,
    }
    return {**({} if kind == "note" else {"matcher": "*"}), "hooks": [handler]}


def command_line(agent: str, client: str, kind: Kind) -> str:
    """The shell command of one hook."""
    return f"{client} {agent} {kind} || {FALLBACK if kind == 'pre' else 'true'}"
