"""What an agent's hook tells us, whichever agent it is."""

from typing import Literal, TypeAlias

from msgspec import Struct

from remit.core.call import Outcome, SessionKey, ToolCall

StartSource: TypeAlias = Literal["startup", "resume", "clear", "compact", "other"]


class BeforeCall(Struct, frozen=True):
    """A tool is about to run: the only event that can refuse."""

    call: ToolCall


class AfterCall(Struct, frozen=True):
    """A tool has run."""

    call: ToolCall
    outcome: Outcome
    failed: bool = False
    """The agent has an event of its own for a tool that failed, and this is it."""


class SessionStarted(Struct, frozen=True):
    """A conversation began, was resumed, or lost its context to compaction."""

    session: SessionKey
    cwd: str
    source: StartSource = "startup"
    model: str | None = None
    agent_version: str | None = None


class PromptGiven(Struct, frozen=True):
    """A person wrote to the agent. The same `prompt_id` again is no new prompt; empty where the agent gives none."""

    session: SessionKey
    cwd: str
    prompt_id: str = ""


class TurnEnded(Struct, frozen=True):
    """The agent stopped, for now."""

    session: SessionKey
    cwd: str


class SessionEnded(Struct, frozen=True):
    """The conversation is over."""

    session: SessionKey
    cwd: str
    reason: str = ""


class IgnoredEvent(Struct, frozen=True):
    """An event that Remit has no use for."""

    name: str
    cwd: str = ""


HookEvent: TypeAlias = BeforeCall | AfterCall | SessionStarted | PromptGiven | TurnEnded | SessionEnded | IgnoredEvent
