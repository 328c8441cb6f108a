"""What is held back even where nothing is enforced: a call that nothing brings back.

In observe and warn every call passes, since what it changes is kept and can be put back. A branch that others have, a
published package, a database or a disk is kept nowhere: there a person is asked, whatever the mode.
"""

from msgspec.structs import replace

from remit.core.decision import Decision, Finding

TOLD = (
    "Remit enforces nothing here; it holds this back because nothing would bring back what it does. People answer "
    "where `remit approvals watch` runs in a terminal."
)


def holding(decision: Decision) -> tuple[Finding, ...]:
    """The findings that keep the call from running: in enforce all, elsewhere those of what nothing brings back."""
    objections = tuple(f for f in decision.findings if f.verdict not in ("allow", "contain"))
    return objections if decision.mode == "enforce" else tuple(f for f in objections if f.context.get("lasting"))


def held_back(decision: Decision) -> Decision:
    """The decision; in observe and warn a refusal where nothing brings back what the call does, and that leads."""
    held = holding(decision)
    if decision.mode == "enforce" or not held:
        return decision
    leading = tuple(replace(f, verdict="deny", message=f"{f.message} {TOLD}") for f in held)
    others = tuple(f for f in decision.findings if f not in held)
    return replace(decision, effect="deny", verdict="deny", findings=(*leading, *others))


def may_be_passed_on(decision: Decision) -> bool:
    """Whether the agent may put it to its person itself, where it can: what is held back in observe and warn."""
    return decision.mode != "enforce" and decision.effect == "deny" and bool(holding(decision))


def destroys(decision: Decision) -> bool:
    """Whether a command is among the dangerous ones: what it destroys in the working tree a snapshot brings back."""
    return any("lasting" in f.context for f in decision.findings)
