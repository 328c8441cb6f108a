"""One call, all checks, one decision.

Every check runs and every finding is kept; the strictest effect wins; a check that breaks denies. The order of
the table decides only which finding leads.

Which commands should run contained: those whose text does not tell all that they write.

What is held back even where nothing is enforced: a call that nothing brings back.

In observe and warn every call passes, since what it changes is kept and can be put back. A branch that others have, a
published package, a database or a disk is kept nowhere: there a person is asked, whatever the mode.

A call that every rule allows may still need a person's yes: where its risk reaches `approvals.threshold`.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.decision import Decision, Finding, Mode, Verdict, find_strictest
from remit.core.display_text import sanitise_line
from remit.core.facts import Facts, Waiver
from remit.core.grant import HIGH_RISK
from remit.policy.approval.grants import covers_finding, target_paths
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
from remit.policy.commands import analyse

CONTAIN_RULE = "contain"


def explain_unknown(call: ToolCall) -> str | None:
    """Why the text does not tell what the command writes where it runs; None where it does, or there is none."""
    if call.command is None:
        return None
    analysis = analyse(call.command)
    if analysis.outcome == "unknown":
        return "; ".join(analysis.reasons)
    return None if analysis.outcome == "dangerous" else call.unproved


def explain_possible_writes(facts: Facts) -> str:
    """The same of one that may write, or leave alone, what it should not."""
    names = ", ".join(sanitise_line(t.path or t.resolved, 80) for t in facts.perhaps[:5])
    return f"it may write what it should not: {names}"


def contain_finding(reason: str) -> Finding:
    """The finding: nothing is wrong with the command, and its effects have to be judged before they count."""
    return Finding(rule=CONTAIN_RULE, code="COMMAND_BLOCKED", message=reason, verdict="contain")


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
    found = run_checks(checks, call, facts) if call_class == "destructive" else ()
    found, grants = split_waived(found, call, facts)
    if call_class == "destructive" and facts.containable:
        found = (*found, *find_unclear(checks, call, facts))
    verdict = find_strictest(tuple(f.verdict for f in found))
    return Decision(
        effect=apply_mode("deny" if verdict == "ask" else verdict, facts.mode),
        verdict=verdict,
        call_class=call_class,
        mode=facts.mode,
        findings=found,
        intent_id=facts.session.intent_id,
        grants=grants,
    )


def waiver_for(finding: Finding, facts: Facts) -> Waiver:
    """What a person who waives this finding waives: the rule, the files that it is about, and what is in them now."""
    return (finding.code, target_contents(facts))


def target_contents(facts: Facts) -> tuple[tuple[str, str | None], ...]:
    """The files that a call names, and what is in them now."""
    return tuple(sorted({str(t.path or t.resolved): t.sha256 for t in facts.targets}.items()))


def split_waived(
    found: tuple[Finding, ...], call: ToolCall, facts: Facts
) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    """The findings that no person's yes covers, and the yeses that covered the others."""
    left: list[Finding] = []
    used: list[str] = []
    for finding in found:
        grant = next((g for g in facts.grants if covers_finding(g, finding, call, facts)), None)
        if grant is not None:
            used.append(grant.id)
        elif waiver_for(finding, facts) in facts.waived:
            used.append("once")
        else:
            left.append(finding)
    return tuple(left), tuple(used)


def run_checks(checks: Mapping[str, Check], call: ToolCall, facts: Facts) -> tuple[Finding, ...]:
    """The findings of all checks, in the order of the table."""
    answers = (run_check(rule, check, call, facts) for rule, check in checks.items())
    return tuple(detour.mark_repeated_denial(finding, call, facts) for finding in answers if finding is not None)


def find_unclear(checks: Mapping[str, Check], call: ToolCall, facts: Facts) -> tuple[Finding, ...]:
    """The finding of a command whose effects have to be looked at; none where its text tells them."""
    why = explain_unknown(call)
    if why is None and call.command is not None and facts.perhaps:
        named = replace(facts, targets=(*facts.targets, *facts.perhaps))
        left, _ = split_waived(run_checks(checks, call, named), call, facts)
        why = explain_possible_writes(facts) if any(f.verdict != "allow" for f in left) else None
    return () if why is None else (contain_finding(why),)


def run_check(rule: str, check: Check, call: ToolCall, facts: Facts) -> Finding | None:
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


def apply_mode(verdict: Verdict, mode: Mode) -> Verdict:
    """What is done about a verdict: `observe` and `warn` let everything pass."""
    return verdict if mode == "enforce" else "allow"


HELD_WITHOUT_ENFORCEMENT = (
    "Remit enforces nothing here; it holds this back because nothing would bring back what it does. People answer "
    "where `remit approvals watch` runs in a terminal."
)


def blocking_findings(decision: Decision) -> tuple[Finding, ...]:
    """The findings that keep the call from running: in enforce all, elsewhere those of what nothing brings back."""
    objections = tuple(f for f in decision.findings if f.verdict not in ("allow", "contain"))
    return objections if decision.mode == "enforce" else tuple(f for f in objections if f.context.get("lasting"))


def hold_irreversible(decision: Decision) -> Decision:
    """The decision; in observe and warn a refusal where nothing brings back what the call does, and that leads."""
    held = blocking_findings(decision)
    if decision.mode == "enforce" or not held:
        return decision
    leading = tuple(replace(f, verdict="deny", message=f"{f.message} {HELD_WITHOUT_ENFORCEMENT}") for f in held)
    others = tuple(f for f in decision.findings if f not in held)
    return replace(decision, effect="deny", verdict="deny", findings=(*leading, *others))


def can_agent_ask(decision: Decision) -> bool:
    """Whether the agent may put it to its person itself, where it can: what is held back in observe and warn."""
    return decision.mode != "enforce" and decision.effect == "deny" and bool(blocking_findings(decision))


def is_destructive_command(decision: Decision) -> bool:
    """Whether a command is among the dangerous ones: what it destroys in the working tree a snapshot brings back."""
    return any("lasting" in f.context for f in decision.findings)


THRESHOLD_RULE = "threshold"


def apply_threshold(
    decision: Decision, call: ToolCall, facts: Facts, threshold: int, risk: tuple[int, tuple[str, ...]]
) -> Decision:
    """The decision, where it allows: with the need for a yes, unless a person has given it.

    Where it is asked of nobody it denies: agents run the tool when a question is all they get.
    """
    if decision.verdict not in ("allow", "contain") or decision.call_class != "destructive" or risk[0] < threshold:
        return decision
    if any(contents == target_contents(facts) for _, contents in facts.waived):
        return replace(decision, grants=(*decision.grants, "once"))
    needed = threshold_finding(facts, threshold, *risk)
    left, used = split_waived((needed,), call, facts) if risk[0] <= HIGH_RISK else ((needed,), ())
    if not left:
        return replace(decision, grants=(*decision.grants, *used))
    return replace(
        decision, verdict="ask", effect=apply_mode("deny", facts.mode), findings=(*decision.findings, needed)
    )


def threshold_finding(facts: Facts, threshold: int, weight: int, reasons: tuple[str, ...]) -> Finding:
    """What the agent, and a person, are told."""
    paths = target_paths(facts)
    why = f" ({'; '.join(reasons)})" if reasons else ""
    return Finding(
        rule=THRESHOLD_RULE,
        code="USER_REJECTED",
        message=f"This call needs a person's yes: its risk is {weight} of 100{why}, and this repository asks from "
        f"{threshold} on. People answer where `remit approvals watch` runs in a terminal; ask for it, then call again.",
        verdict="ask",
        path=paths[0] if paths else None,
        context={"risk": weight, "reasons": list(reasons), **({"paths": list(paths)} if len(paths) > 1 else {})},
    )
