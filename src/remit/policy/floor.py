"""The floor under Remit's own agent: rules for every mode, since no second guard stands between agent and machine.

| place | read | write, create | delete | command of unknown effect |
|---|---|---|---|---|
| workspace | yes | by the mode; a stale file never | as write, after a snapshot | contained |
| git's folder, `.orchestration/`, agents' settings | yes | refused | refused | read-only |
| temporary folder, caches | yes | yes | yes | real; caches in a layer |
| secret places | asked once | refused | refused | not there |
| the rest of HOME and of the machine | yes | asked | asked | read-only |

The checks know the place of each file: a row of the table is the verdict of a check's objection in observe and warn. A
question is a refusal if no person can answer. `enforce` is stricter, and needs no floor.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.decision import Decision, Facts, Finding, Verdict, find_strictest
from remit.core.untrusted_input import sanitise_line

HELD: Mapping[str, Verdict] = {
    "arguments": "deny",
    "protected": "deny",
    "assignment": "deny",
    "narrow": "deny",
    "stale": "deny",
    "secret": "deny",
    "outside": "ask",
    "contain": "contain",
}
"""By rule, the verdict in observe and warn. Objections of other rules hold in enforce only."""

TOLD = frozenset({"protected", "stale"})
"""Rules of which the objection to a file tool is told to every agent where the mode lets the call pass."""

FLOOR = "floor"
"""Key in the context of a finding that holds in every mode."""


def find_secrets(call: ToolCall, facts: Facts) -> tuple[Finding, ...]:
    """Return the objection to a file in a secret place: a person may allow a read, and never a change."""
    target = next((t for t in facts.targets if t.secret), None)
    if target is None:
        return ()
    shown = sanitise_line(target.resolved)
    if call.effect != "read":
        message = f"{shown} holds secrets of the person. No agent changes it: say in your answer what should change."
        return (Finding("secret", "PROTECTED_PATH", message, path=target.raw),)
    message = (
        f"{shown} may hold secrets of the person: keys, logins, histories. Reading it needs a person's yes: say in "
        "your answer what you need and why."
    )
    return (Finding("secret", "OUTSIDE_WORKSPACE", message, verdict="ask", path=target.raw),)


def lay_floor(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Return the findings, with a mark on findings that hold although the mode does not enforce."""
    return tuple(hold_finding(finding) if finding.rule in HELD else finding for finding in findings)


def hold_finding(finding: Finding) -> Finding:
    if finding.verdict == "allow":
        return finding
    verdict = HELD[finding.rule] if finding.verdict == "deny" else finding.verdict
    return replace(finding, verdict=verdict, context={**finding.context, FLOOR: True})


def find_floor(findings: tuple[Finding, ...]) -> Verdict:
    """Return the strictest verdict that holds in every mode."""
    return find_strictest(tuple(f.verdict for f in findings if f.context.get(FLOOR)))


def describe_told(call: ToolCall, decision: Decision) -> str:
    """Return the words about a file tool's call allowed only because the mode does not enforce; "" for any different
    call.
    """
    if decision.effect != "allow" or call.command is not None:
        return ""
    found = [finding for finding in decision.findings if finding.rule in TOLD and finding.verdict != "allow"]
    lines = [f"Remit ({decision.mode}): this went through, but {finding.message}" for finding in found]
    lines += [
        f"Changed since you read it:\n{finding.context['diff']}" for finding in found if "diff" in finding.context
    ]
    return "\n".join(lines)
