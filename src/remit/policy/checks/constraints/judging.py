"""All constraints of an intent, held against one change."""

from collections.abc import Iterator
from typing import Any

from remit.core.decision import Finding
from remit.core.facts import Facts
from remit.core.intent import Constraint, Intent
from remit.core.text import shown
from remit.policy.checks.constraints.breach import Breach, Situation
from remit.policy.checks.constraints.kinds import KINDS

SAID = 3
"""Breaches that the message tells."""

MOST = 20
"""Breaches that a finding names."""


def judged(intent: Intent, facts: Facts) -> Finding | None:
    """The finding of a call; None where every constraint holds, or only remarks are to be made."""
    named = tuple(str(target.path) for target in facts.targets if target.path is not None)
    found = [one for one in breaches(intent, Situation(facts.proposed, named, facts.changed)) if not one[1].remark]
    return finding(intent, found) if found else None


def breaches(intent: Intent, situation: Situation) -> Iterator[tuple[Constraint, Breach]]:
    """Every constraint that is broken, and where. Raises what a check that breaks raises."""
    for constraint in intent.rules:
        for breach in KINDS[str(constraint.kind)](constraint, situation):
            yield constraint, breach


def finding(intent: Intent, found: list[tuple[Constraint, Breach]]) -> Finding:
    """The objection: the first breaches in words, all of them in the context."""
    more = f" And {len(found) - SAID} more." if len(found) > SAID else ""
    return Finding(
        rule="constraints",
        code="CONSTRAINT_VIOLATION",
        message=" ".join(sentence(intent.id, *one) for one in found[:SAID]) + more,
        path=found[0][1].path,
        context={"broken": [document(*one) for one in found[:MOST]]},
    )


def sentence(intent_id: str, constraint: Constraint, breach: Breach) -> str:
    """One breach: the constraint, what was measured, and the bound."""
    where = f"{shown(breach.path)}: " if breach.path else ""
    return f"{shown(constraint.text, 160)}: {where}{breach.measured}; {intent_id} asks for {breach.bound}."


def document(constraint: Constraint, breach: Breach) -> dict[str, Any]:
    """One breach, for those who read data."""
    return {
        "type": constraint.kind,
        "constraint": shown(constraint.text, 300),
        "measured": breach.measured,
        "bound": breach.bound,
        **({"path": breach.path} if breach.path else {}),
        **({"lines": list(breach.lines)} if breach.lines else {}),
    }
