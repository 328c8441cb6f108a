"""One call, all checks, one decision.

Every check runs and every finding is kept; the strictest effect wins; a check that breaks denies. The order of
the table decides only which finding leads.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.decision import Decision, Finding, Mode, Verdict, strictest
from remit.core.facts import Facts, Waiver
from remit.policy.checks import (
    active_intent,
    arguments,
    blinding,
    circuit,
    command,
    constraints,
    detour,
    ignored,
    intents_file,
    lease,
    lingering,
    mismatch,
    outside,
    protected,
    scope,
    stale,
    unwatched,
)
from remit.policy.classify import classify
from remit.policy.contain import contained, may_write, why_unclear
from remit.policy.grants import covers

Check: TypeAlias = Callable[[ToolCall, Facts], Finding | None]

CHECKS: Mapping[str, Check] = {
    "arguments": arguments.check,
    "circuit": circuit.check,
    "intents_file": intents_file.check,
    "protected": protected.check,
    "outside": outside.check,
    "active_intent": active_intent.check,
    "mismatch": mismatch.check,
    "detour": detour.check,
    "ignored": ignored.check,
    "scope": scope.check,
    "lease": lease.check,
    "stale": stale.check,
    "constraints": constraints.check,
    "unwatched": unwatched.check,
    "lingering": lingering.check,
    "command": command.check,
    "blinding": blinding.check,
}


def decide(call: ToolCall, facts: Facts, checks: Mapping[str, Check] = CHECKS) -> Decision:
    """What to do about `call`. Safe and meta calls meet no check: nothing they do needs an intent.

    What is asked of nobody is denied: agents run the tool when a question is all they get.
    """
    call_class = classify(call)
    found = run(checks, call, facts) if call_class == "destructive" else ()
    found, grants = waived(found, call, facts)
    if call_class == "destructive" and facts.containable:
        found = (*found, *unclear(checks, call, facts))
    verdict = strictest(tuple(f.verdict for f in found))
    return Decision(
        effect=enforced("deny" if verdict == "ask" else verdict, facts.mode),
        verdict=verdict,
        call_class=call_class,
        mode=facts.mode,
        findings=found,
        intent_id=facts.session.intent_id,
        grants=grants,
    )


def waiver(finding: Finding, facts: Facts) -> Waiver:
    """What a person who waives this finding waives: the rule, the files that it is about, and what is in them now."""
    return (finding.code, about(facts))


def about(facts: Facts) -> tuple[tuple[str, str | None], ...]:
    """The files that a call names, and what is in them now."""
    return tuple(sorted({str(t.path or t.resolved): t.sha256 for t in facts.targets}.items()))


def waived(found: tuple[Finding, ...], call: ToolCall, facts: Facts) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    """The findings that no person's yes covers, and the yeses that covered the others."""
    left: list[Finding] = []
    used: list[str] = []
    for finding in found:
        grant = next((g for g in facts.grants if covers(g, finding, call, facts)), None)
        if grant is not None:
            used.append(grant.id)
        elif waiver(finding, facts) in facts.waived:
            used.append("once")
        else:
            left.append(finding)
    return tuple(left), tuple(used)


def run(checks: Mapping[str, Check], call: ToolCall, facts: Facts) -> tuple[Finding, ...]:
    """The findings of all checks, in the order of the table."""
    answers = (guarded(rule, check, call, facts) for rule, check in checks.items())
    return tuple(detour.marked(finding, call, facts) for finding in answers if finding is not None)


def unclear(checks: Mapping[str, Check], call: ToolCall, facts: Facts) -> tuple[Finding, ...]:
    """The finding of a command whose effects have to be looked at; none where its text tells them."""
    why = why_unclear(call)
    if why is None and call.command is not None and facts.perhaps:
        named = replace(facts, targets=(*facts.targets, *facts.perhaps))
        left, _ = waived(run(checks, call, named), call, facts)
        why = may_write(facts) if any(f.verdict != "allow" for f in left) else None
    return () if why is None else (contained(why),)


def guarded(rule: str, check: Check, call: ToolCall, facts: Facts) -> Finding | None:
    """The check's answer; where it breaks, a finding that denies. Guards that open when they break guard nothing."""
    try:
        return check(call, facts)
    except (Exception, SystemExit) as error:  # noqa: BLE001  any failure, and an exit with 0, must become a denial
        return Finding(
            rule=rule,
            code="HOOK_BLOCKED",
            message=f"Remit's own check {rule!r} broke ({type(error).__name__}), so it denies. "
            "Tell the person; `remit log --event check_failed` has the details.",
            context={"check": rule, "exception": f"{type(error).__name__}: {error}"[:500]},
        )


def enforced(verdict: Verdict, mode: Mode) -> Verdict:
    """What is done about a verdict: `observe` and `warn` let everything pass."""
    return verdict if mode == "enforce" else "allow"
