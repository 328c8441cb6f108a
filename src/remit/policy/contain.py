"""Whether a command that no rule objects to should run contained: where its text does not tell all that it writes."""

from collections.abc import Mapping

from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.decision import Decision
from remit.core.facts import Facts
from remit.policy.commands import analyse
from remit.policy.engine import CHECKS, Check, run, waived


def why_contained(call: ToolCall, facts: Facts, decision: Decision, checks: Mapping[str, Check] = CHECKS) -> str | None:
    """Why the effects of a command have to be looked at; None where its text tells them, or it does not run at all."""
    if call.command is None or decision.call_class != "destructive" or decision.verdict in ("ask", "deny"):
        return None
    analysis = analyse(call.command)
    if analysis.outcome == "unknown":
        return "; ".join(analysis.reasons)
    if call.unproved is not None:
        return call.unproved
    if not facts.perhaps:
        return None
    found, _ = waived(run(checks, call, replace(facts, targets=(*facts.targets, *facts.perhaps))), call, facts)
    finding = next((f for f in found if f.verdict != "allow"), None)
    return None if finding is None else f"it may write what it should not: {finding.message}"
