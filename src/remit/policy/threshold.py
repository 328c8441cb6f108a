"""A call that every rule allows may still need a person's yes: where its risk reaches `approvals.threshold`."""

from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.decision import Decision, Finding
from remit.core.facts import Facts
from remit.core.grant import HIGH_RISK
from remit.policy.engine import about, enforced, waived
from remit.policy.grants import touched

RULE = "threshold"


def weighed(
    decision: Decision, call: ToolCall, facts: Facts, threshold: int, risk: tuple[int, tuple[str, ...]]
) -> Decision:
    """The decision, where it allows: with the need for a yes, unless a person has given it.

    Where it is asked of nobody it denies: agents run the tool when a question is all they get.
    """
    if decision.verdict not in ("allow", "contain") or decision.call_class != "destructive" or risk[0] < threshold:
        return decision
    if any(contents == about(facts) for _, contents in facts.waived):
        return replace(decision, grants=(*decision.grants, "once"))
    needed = finding(facts, threshold, *risk)
    left, used = waived((needed,), call, facts) if risk[0] <= HIGH_RISK else ((needed,), ())
    if not left:
        return replace(decision, grants=(*decision.grants, *used))
    return replace(decision, verdict="ask", effect=enforced("deny", facts.mode), findings=(*decision.findings, needed))


def finding(facts: Facts, threshold: int, weight: int, reasons: tuple[str, ...]) -> Finding:
    """What the agent, and a person, are told."""
    paths = touched(facts)
    why = f" ({'; '.join(reasons)})" if reasons else ""
    return Finding(
        rule=RULE,
        code="USER_REJECTED",
        message=f"This call needs a person's yes: its risk is {weight} of 100{why}, and this repository asks from "
        f"{threshold} on. People answer where `remit approvals watch` runs in a terminal; ask for it, then call again.",
        verdict="ask",
        path=paths[0] if paths else None,
        context={"risk": weight, "reasons": list(reasons), **({"paths": list(paths)} if len(paths) > 1 else {})},
    )
