"""Events reported by agents' hooks, independent of the agent."""

from typing import Literal, TypeAlias

from msgspec import Struct

from remit.core.call import Outcome, SessionKey, ToolCall

StartSource: TypeAlias = Literal["startup", "resume", "clear", "compact", "other"]


class BeforeCall(Struct, frozen=True):
    """A tool is about to run. Only this event can refuse."""

    call: ToolCall


class AfterCall(Struct, frozen=True):
    """A tool has run."""

    call: ToolCall
    outcome: Outcome
    failed: bool = False
    """The agent sent its separate event for failed tools."""


class SessionStarted(Struct, frozen=True):
    """A conversation began, was resumed, or lost its context to compaction."""

    session: SessionKey
    cwd: str
    source: StartSource = "startup"
    model: str | None = None
    agent_version: str | None = None


class PromptGiven(Struct, frozen=True):
    """A person wrote to the agent. A repeated `prompt_id` is no new prompt; empty for agents that send none."""

    session: SessionKey
    cwd: str
    prompt_id: str = ""


class TurnEnded(Struct, frozen=True):
    """The agent finished its turn."""

    session: SessionKey
    cwd: str


class SessionEnded(Struct, frozen=True):
    """The conversation ended."""

    session: SessionKey
    cwd: str
    reason: str = ""


class IgnoredEvent(Struct, frozen=True):
    """An event without meaning for Remit."""

    name: str
    cwd: str = ""


HookEvent: TypeAlias = BeforeCall | AfterCall | SessionStarted | PromptGiven | TurnEnded | SessionEnded | IgnoredEvent
