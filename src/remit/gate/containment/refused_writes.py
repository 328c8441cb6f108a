"""Writes refused by the sandbox during a command: explained to the model and recorded.

Such writes fail inside the sandbox; only the command's own output shows them.
"""

from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.decision import Decision, Finding
from remit.core.intent import Intent
from remit.gate.containment.rewrite_call import CommandRewriter
from remit.gate.context import WorkspaceContext
from remit.gate.gather import gather_facts
from remit.gate.records.call_records import record_denial
from remit.policy.decide import CONTAIN_RULE
from remit.workspace.sandbox.containment import find_repair_command

MAX_PATTERNS = 5
"""Scope patterns in one message."""

OVERLAY_REFUSAL = (
    "this command ran contained, and `Read-only file system` in its output is Remit's doing: it can write to the "
    "workspace, the temporary folder and caches; the rest of the machine, and what governs agents, is read-only. Write "
    "to one of those, or ask the person."
)


def record_refused_writes(context: WorkspaceContext, call: ToolCall) -> str:
    """Record that the sandbox refused writes of a command, and return the message for the model.

    Raises the errors in RECORDING_ERRORS.
    """
    rewriter = CommandRewriter(context)
    facts = gather_facts(context, replace(call, command=None, effect="write"), context.rules).facts
    words = OVERLAY_REFUSAL
    if not rewriter.has_overlay:
        words = describe_bind_refusal(facts.active, find_repair_command(rewriter.containment))
    finding = Finding(rule=CONTAIN_RULE, code="COMMAND_BLOCKED", message=words)
    decision = Decision("deny", "deny", "destructive", facts.mode, (finding,))
    record_denial(context.recorder, call, facts, decision)
    return f"Remit [COMMAND_BLOCKED]: {words}"


def describe_bind_refusal(intent: Intent | None, mend: str) -> str:
    scope = ", ".join(intent.owned_scope[:MAX_PATTERNS]) if intent is not None else "nothing, without an intent"
    person = f" The person can run `{mend}`: then each write is judged by itself." if mend else ""
    return (
        "this command ran contained, and `Read-only file system` in its output is Remit's doing: on this machine such "
        f"a command can write only to the folders of the scope ({scope}), the temporary folder and git's. Write there, "
        f"or ask the person to widen the scope.{person}"
    )
