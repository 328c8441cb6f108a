"""Writes that the sandbox refused while a command ran: told to the model as Remit's doing, and recorded.

They fail inside the sandbox, so that only the command's own output tells of them.
"""

from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.decision import Decision, Finding
from remit.core.intent import Intent
from remit.gate.contained_calls import ContainedCalls
from remit.gate.judging import Judging
from remit.gate.site import Site
from remit.policy.contain import RULE
from remit.workspace.sandbox.choosing import mending_command

MAX_PATTERNS = 5
"""Patterns of a scope that one message names."""

REFUSED_BY_OVERLAY = (
    "this command ran contained, and `Read-only file system` in its output is Remit's doing: it can write to the "
    "workspace, the temporary folder and caches; the rest of the machine, and what governs agents, is read-only. Write "
    "to one of those, or ask the person."
)


def record_refused_writes(site: Site, call: ToolCall) -> str:
    """Record that the sandbox kept a command from writing, and return the words for the model.

    Raises what CannotRecord names.
    """
    calls, judging = ContainedCalls(site), Judging(site)
    facts = judging.gathered(replace(call, command=None, effect="write"), site.governing).facts
    words = REFUSED_BY_OVERLAY if calls.staged else refused_by_bind(facts.active, mending_command(calls.how))
    finding = Finding(rule=RULE, code="COMMAND_BLOCKED", message=words)
    judging.denied(call, facts, Decision("deny", "deny", "destructive", facts.mode, (finding,)))
    return f"Remit [COMMAND_BLOCKED]: {words}"


def refused_by_bind(intent: Intent | None, mend: str) -> str:
    """Tell that only the scope can be written to, and what a person can do about it."""
    scope = ", ".join(intent.owned_scope[:MAX_PATTERNS]) if intent is not None else "nothing, without an intent"
    person = f" The person can run `{mend}`: then each write is judged by itself." if mend else ""
    return (
        "this command ran contained, and `Read-only file system` in its output is Remit's doing: on this machine such "
        f"a command can write only to the folders of the scope ({scope}), the temporary folder and git's. Write there, "
        f"or ask the person to widen the scope.{person}"
    )
