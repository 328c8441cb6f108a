"""Answers to agents' hooks, and what decides their form."""

from msgspec import Struct

from remit.core.agents.row import AgentRow, RowEvent
from remit.core.call import AfterCall, BeforeCall, HookEvent, PromptGiven, SessionStarted
from remit.core.decision import Decision

DEFAULT_DENIAL = "Remit refused this call."
"""Reason for a denial without one: some agents run a tool if the denial has no reason."""


class HookReply(Struct, frozen=True):
    """The answer to the agent's hook process."""

    stdout: bytes = b""
    stderr: bytes = b""
    exit_code: int = 0


def can_continue(row: AgentRow, decision: Decision, arguments: dict[str, object] | None) -> bool:
    """Return True if the call may proceed; a contained call only with the arguments that contain it."""
    return decision.effect == "allow" or (decision.effect == "contain" and bool(arguments) and row.rewrites != "")


def find_row_event(event: HookEvent) -> RowEvent | None:
    """Return the kind of an event whose answer may say something; None for other events."""
    match event:
        case BeforeCall():
            return "before"
        case AfterCall(failed=failed):
            return "failed" if failed else "after"
        case SessionStarted():
            return "session_start"
        case PromptGiven():
            return "prompt"
        case _:
            return None
