"""All constraints of an intent, held against one change.

The kinds of constraints and who judges them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from remit.core.decision import Finding
from remit.core.display_text import sanitise_line
from remit.core.facts import Facts
from remit.core.intent import Constraint, Intent
from remit.policy.checks.constraints import (
    dependency,
    forbid_import,
    forbid_path,
    forbid_pattern,
    max_files,
    max_lines,
    require_pattern,
    require_test_change,
)
from remit.policy.checks.constraints.breach import Breach, FindBreaches, ProposedChange

KINDS: Mapping[str, FindBreaches] = {
    "max_lines": max_lines.find_breaches,
    "forbid_pattern": forbid_pattern.find_breaches,
    "require_pattern": require_pattern.find_breaches,
    "forbid_import": forbid_import.find_breaches,
    "forbid_path": forbid_path.find_breaches,
    "dependency": dependency.find_breaches,
    "require_test_change": require_test_change.find_breaches,
    "max_files": max_files.find_breaches,
}
"""One file each. What options a kind takes stands in `core.constraint_shapes`."""


MAX_SENTENCES = 3
"""Breaches in the message."""

MAX_BREACHES = 20
"""Breaches in the context of a finding."""


def evaluate_constraints(intent: Intent, facts: Facts) -> Finding | None:
    """Return the finding of a call; None if every constraint holds, or is only remarked on."""
    named = tuple(str(target.path) for target in facts.targets if target.path is not None)
    found = [
        one
        for one in find_all_breaches(intent, ProposedChange(facts.proposed, named, facts.changed))
        if not one[1].is_remark
    ]
    return make_finding(intent, found) if found else None


def find_all_breaches(intent: Intent, change: ProposedChange) -> Iterator[tuple[Constraint, Breach]]:
    """Yield each breach with its constraint. An error of a kind is not caught: it denies."""
    for constraint in intent.rules:
        for breach in KINDS[str(constraint.kind)](constraint, change):
            yield constraint, breach


def make_finding(intent: Intent, broken: list[tuple[Constraint, Breach]]) -> Finding:
    """Return the finding: the first breaches in words, all of them in the context."""
    more = f" And {len(broken) - MAX_SENTENCES} more." if len(broken) > MAX_SENTENCES else ""
    return Finding(
        rule="constraints",
        code="CONSTRAINT_VIOLATION",
        message=" ".join(describe_breach(intent.id, *one) for one in broken[:MAX_SENTENCES]) + more,
        path=broken[0][1].path,
        context={"broken": [breach_as_json(*one) for one in broken[:MAX_BREACHES]]},
    )


def describe_breach(intent_id: str, constraint: Constraint, breach: Breach) -> str:
    where = f"{sanitise_line(breach.path)}: " if breach.path else ""
    return f"{sanitise_line(constraint.text, 160)}: {where}{breach.measured}; {intent_id} asks for {breach.bound}."


def breach_as_json(constraint: Constraint, breach: Breach) -> dict[str, Any]:
    return {
        "type": constraint.kind,
        "constraint": sanitise_line(constraint.text, 300),
        "measured": breach.measured,
        "bound": breach.bound,
        **({"path": breach.path} if breach.path else {}),
        **({"lines": list(breach.lines)} if breach.lines else {}),
    }
