"""One agent is one row: what it calls things, and what it can be told."""

from typing import Literal, TypeAlias

from msgspec import Struct

from remit.core.call import Effect

Event: TypeAlias = Literal["before", "after", "failed", "session_start", "prompt", "turn_end", "session_end"]


class ToolRow(Struct, frozen=True):
    """One tool of an agent: what it does, and under which keys its arguments stand.

    `paths` name files (the first one present counts as required for a write); `command` names the shell command.
    """

    effect: Effect
    paths: tuple[str, ...] = ()
    command: str | None = None
    checks_itself: bool = False
    whole_workspace: bool = False


class AgentRow(Struct, frozen=True):
    """One agent, as its dialect needs it. `settings` are files that steer it: protected from agents.

    `mcp_name` is a regular expression with the groups `server` and `tool`. `asks` tells whether its hook can
    hand a question on to a person; where it cannot, `ask` becomes `deny`.
    """

    agent: str
    title: str
    dialect: str
    events: dict[str, Event]
    tools: dict[str, ToolRow]
    mcp_name: str
    settings: tuple[str, ...] = ()
    own_folders: tuple[str, ...] = ()
    """Folders below HOME where the agent keeps plans and notes of its own: writing there is allowed, and recorded."""
    asks: bool = False


class HookReply(Struct, frozen=True):
    """What goes back to the agent's hook process."""

    stdout: bytes = b""
    stderr: bytes = b""
    exit_code: int = 0


class AdapterError(ValueError):
    """The payload cannot be read as this agent's. `event` is what could be told of it."""

    def __init__(self, agent: str, why: str) -> None:
        super().__init__(f"this is no hook payload of {agent}: {why}")
        self.agent = agent
        self.why = why
