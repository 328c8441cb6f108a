"""The decision about one tool call: (call, facts) -> decision. Pure.

1. Safe calls (reading), meta calls (Remit's own) and unproved calls meet no check; of the arguments of safe calls only
   the form is checked. An unproved call is compared, and what it changed is judged then.
2. For a destructive call every check runs, and every finding is kept. The order of CHECKS only decides which leads.
3. A check that raises denies.
4. Findings waived by a person, once or by a grant, do not count.
5. A command with effects beyond its text runs contained: the effects are judged before they count.
6. The strictest verdict wins: allow < contain < ask < deny.
7. `observe` and `warn` enforce nothing, except against irreversible effects (`hold_irreversible`), and, of Remit's own
   agent, what its floor holds in every mode (`floor.py`).
8. An allowed call still needs a person if its risk reaches `approvals.threshold` (`apply_threshold`).
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from msgspec.structs import replace

from remit.core.call import CallClass, ToolCall
from remit.core.decision import (
    ASSIGNMENT_RULE,
    HIGH_RISK,
    Decision,
    Facts,
    Finding,
    Mode,
    Verdict,
    Waiver,
    find_strictest,
)
from remit.core.untrusted_input import sanitise_line
from remit.policy.checks import call as call_checks
from remit.policy.checks import intent, paths
from remit.policy.commands import analyse
from remit.policy.commands.background_and_input import may_wait_for_input
from remit.policy.commands.dangers import is_for_agents
from remit.policy.floor import FLOOR, find_floor, find_secrets, lay_floor
from remit.policy.grants import covers_finding, target_paths

Check: TypeAlias = Callable[[ToolCall, Facts], Finding | None]

CHECKS: Mapping[str, Check] = {
    check.__name__.removeprefix("check_"): check
    for check in (
        call_checks.check_arguments,
        call_checks.check_circuit,
        intent.check_intents_file,
        paths.check_protected,
        intent.check_assignment,
        paths.check_outside,
        intent.check_active_intent,
        intent.check_mismatch,
        call_checks.check_detour,
        paths.check_ignored,
        paths.check_scope,
        paths.check_lease,
        paths.check_stale,
        intent.check_constraints,
        call_checks.check_unwatched,
        call_checks.check_lingering,
        call_checks.check_command,
        call_checks.check_blinding,
    )
}


def decide(call: ToolCall, facts: Facts, checks: Mapping[str, Check] = CHECKS) -> Decision:
    """Return the decision. An unasked question is a denial: agents run the tool if a question is all they get."""
    call_class = classify(call)
    findings = run_checks(checks, call, facts) if call_class == "destructive" else ()
    if call_class in ("safe", "unproved") and call.malformed is not None:
        findings = run_checks({"arguments": call_checks.check_arguments}, call, facts)
    findings = (*find_secrets(call, facts), *findings) if facts.has_floor else findings
    findings = (facts.tool_finding, *findings) if facts.tool_finding is not None else findings
    findings, grants = split_waived(findings, call, facts)
    if call_class == "destructive" and (facts.containable or facts.uncontained):
        unclear = find_unclear(checks, call, facts)
        if facts.uncontained:
            unclear, more = split_waived(ask_about_unclear(unclear, facts.uncontained), call, facts)
            grants = (*grants, *more)
        findings = (*findings, *unclear)
    findings = lay_floor(findings) if facts.has_floor and facts.mode != "enforce" else findings
    verdict = find_strictest(tuple(finding.verdict for finding in findings))
    return Decision(
        effect=apply_mode(verdict, facts.mode, find_floor(findings) if facts.has_floor else "allow"),
        verdict=verdict,
        call_class=call_class,
        mode=facts.mode,
        findings=findings,
        intent_id=facts.session.intent_id,
        grants=grants,
    )


# 1. Classes


def classify(call: ToolCall) -> CallClass:
    """Return the class of a call; in doubt, destructive. Only a destructive call has to pass the checks.

    `network` means fetching without a body: tools that send something have the effect `execute`.
    """
    if call.effect == "meta":
        return "meta"
    if call.effect == "unproved":
        return "unproved"
    if call.effect in ("read", "none", "network"):
        return "safe"
    command_class = classify_command(call.command) if call.effect == "execute" and call.command is not None else None
    if command_class == "safe" and (call.unproved is not None or may_wait_for_input(call)):
        return "destructive"
    return command_class or "destructive"


def classify_command(command: str) -> CallClass:
    analysis = analyse(command)
    # Plain `remit`, and no path: an agent may have put a file of that name anywhere.
    if analysis.remit_words and is_for_agents(analysis.remit_words) and command.split(maxsplit=1)[:1] == ["remit"]:
        return "meta"
    return "safe" if analysis.outcome == "read_only" else "destructive"


# 2, 3. Checks


def run_checks(checks: Mapping[str, Check], call: ToolCall, facts: Facts) -> tuple[Finding, ...]:
    findings: list[Finding] = []
    for rule, check in checks.items():
        finding = run_check(rule, check, call, facts)
        if finding is not None:
            findings.append(call_checks.mark_repeated_denial(finding, call, facts))
    return tuple(findings)


def run_check(rule: str, check: Check, call: ToolCall, facts: Facts) -> Finding | None:
    """Return the check's finding; if the check breaks, a finding that denies."""
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


# 4. Waivers and grants


def split_waived(
    findings: tuple[Finding, ...], call: ToolCall, facts: Facts
) -> tuple[tuple[Finding, ...], tuple[str, ...]]:
    """Return the findings without a waiver, and the ids of the grants for the rest. No person's yes widens what was
    assigned: two attempts may write only what was proved apart.
    """
    left: list[Finding] = []
    used: list[str] = []
    for finding in findings:
        if finding.rule == ASSIGNMENT_RULE:
            left.append(finding)
            continue
        grant = next((g for g in facts.grants if covers_finding(g, finding, call, facts)), None)
        if grant is not None:
            used.append(grant.id)
        elif waiver_for(finding, facts) in facts.waived:
            used.append("once")
        else:
            left.append(finding)
    return tuple(left), tuple(used)


def waiver_for(finding: Finding, facts: Facts) -> Waiver:
    """Return the extent of a waiver: the rule, and the named files with their present contents."""
    return finding.code, target_contents(facts)


def target_contents(facts: Facts) -> tuple[tuple[str, str | None], ...]:
    return tuple(sorted({str(t.path or t.resolved): t.sha256 for t in facts.targets}.items()))


# 5. Containment

CONTAIN_RULE = "contain"
RECOMMENDED = "recommended"


def find_unclear(checks: Mapping[str, Check], call: ToolCall, facts: Facts) -> tuple[Finding, ...]:
    """Return the finding to contain a command with effects beyond its text, or none.

    The finding is no objection. For a command with optional writes the finding is given only if the checks refuse the
    writes. A command that names the files but not the written content runs contained where possible, to prove the
    lines; the finding has the key RECOMMENDED in the context.
    """
    if call.command is None:
        return ()
    analysis = analyse(call.command)
    if analysis.outcome == "unknown" or facts.restorable:
        why = "; ".join(analysis.reasons)
    else:
        why = None if analysis.outcome == "dangerous" else call.unproved
    if why is None and facts.perhaps:
        with_possible = replace(facts, targets=(*facts.targets, *facts.perhaps))
        left, _ = split_waived(run_checks(checks, call, with_possible), call, facts)
        if any(finding.verdict != "allow" for finding in left):
            names = ", ".join(sanitise_line(t.path or t.resolved, 80) for t in facts.perhaps[:5])
            why = f"it may write what it should not: {names}"
    context: Mapping[str, object] = {}
    if why is None and analysis.stores_rewritten and any(t.path for t in (*facts.targets, *facts.perhaps)):
        why, context = "what it puts into files is not in its text", {RECOMMENDED: True}
    if why is None:
        return ()
    return (Finding(rule=CONTAIN_RULE, code="COMMAND_BLOCKED", message=why, verdict="contain", context=context),)


def ask_about_unclear(unclear: tuple[Finding, ...], why_not: str) -> tuple[Finding, ...]:
    """Return the question to a person about a command that had to run contained, and cannot."""
    return tuple(
        replace(
            finding,
            verdict="ask",
            message=f"This command had to run contained ({finding.message}), and cannot here: {why_not}. It needs a "
            "person's yes. Run it in the workspace, or write what it writes with a file tool.",
        )
        for finding in unclear
        if not finding.context.get(RECOMMENDED)
    )


def is_containment_needed(decision: Decision) -> bool:
    """Return True if a command must not run uncontained; False if containing it only proves who wrote the lines."""
    return not all(f.context.get(RECOMMENDED) for f in decision.findings if f.verdict == "contain")


# 7. Modes


def apply_mode(verdict: Verdict, mode: Mode, floor: Verdict = "allow") -> Verdict:
    """Return the effect of a verdict: `observe` and `warn` allow everything above the floor; asked is denied so far."""
    effect = verdict if mode == "enforce" else floor
    return "deny" if effect == "ask" else effect


HELD_WITHOUT_ENFORCEMENT = (
    "Remit enforces nothing here; it holds this back because nothing would bring back what it does. People answer "
    "where `remit approvals watch` runs in a terminal."
)


def hold_irreversible(decision: Decision) -> Decision:
    """Return a denial, also in observe and warn, for irreversible effects; the finding about them leads.

    Remit keeps other changes and can restore them. A shared branch, a published package, a database or a disk is kept
    nowhere: a person is asked, whatever the mode.
    """
    blocking = blocking_findings(decision)
    if decision.mode == "enforce" or not blocking:
        return decision
    leading = tuple(
        replace(f, verdict="deny", message=f"{f.message} {HELD_WITHOUT_ENFORCEMENT}") if f.context.get("lasting") else f
        for f in blocking
    )
    others = tuple(f for f in decision.findings if f not in blocking)
    verdict = find_strictest(tuple(f.verdict for f in leading))
    return replace(decision, effect="deny", verdict=verdict, findings=(*leading, *others))


def blocking_findings(decision: Decision) -> tuple[Finding, ...]:
    """Return the findings against the call: in observe and warn only those of the floor and about irreversible effects.

    Of the floor's, a person is asked only if none denies.
    """
    objections = tuple(f for f in decision.findings if f.verdict not in ("allow", "contain"))
    if decision.mode == "enforce":
        return objections
    held = tuple(f for f in objections if f.context.get("lasting") or f.context.get(FLOOR))
    return tuple(sorted(held, key=lambda f: f.verdict != find_strictest(tuple(g.verdict for g in held))))


def can_agent_ask(decision: Decision) -> bool:
    """Return True if the agent itself may ask its person: the call is held back in observe or warn."""
    return decision.mode != "enforce" and decision.effect == "deny" and bool(blocking_findings(decision))


def is_destructive_command(decision: Decision) -> bool:
    return any("lasting" in f.context for f in decision.findings)


# 8. Threshold

THRESHOLD_RULE = "threshold"


def apply_threshold(
    decision: Decision, call: ToolCall, facts: Facts, threshold: int, risk: tuple[int, tuple[str, ...]]
) -> Decision:
    """Return the decision with a question if the risk reaches the threshold and no person has approved the call."""
    weight, reasons = risk
    if decision.verdict not in ("allow", "contain") or decision.call_class != "destructive" or weight < threshold:
        return decision
    if any(contents == target_contents(facts) for _, contents in facts.waived):
        return replace(decision, grants=(*decision.grants, "once"))
    asked = target_paths(facts)
    why = f" ({'; '.join(reasons)})" if reasons else ""
    question = Finding(
        rule=THRESHOLD_RULE,
        code="USER_REJECTED",
        message=f"This call needs a person's yes: its risk is {weight} of 100{why}, and this repository asks from "
        f"{threshold} on. People answer where `remit approvals watch` runs in a terminal; ask for it, then call again.",
        verdict="ask",
        path=asked[0] if asked else None,
        context={"risk": weight, "reasons": list(reasons), **({"paths": list(asked)} if len(asked) > 1 else {})},
    )
    # Above HIGH_RISK each call is approved by itself: no grant covers the question.
    left, used = split_waived((question,), call, facts) if weight <= HIGH_RISK else ((question,), ())
    if not left:
        return replace(decision, grants=(*decision.grants, *used))
    effect = apply_mode("deny", facts.mode)
    return replace(decision, verdict="ask", effect=effect, findings=(*decision.findings, question))
