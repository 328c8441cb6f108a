"""What the rules would decide about a call that nobody makes: `remit policy test` and the console ask through here."""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from remit.core.call import SessionKey, ToolCall
from remit.core.decision import SessionFacts
from remit.gate.gate import Gate
from remit.gate.gather import gather_facts
from remit.policy.commands import analyse
from remit.policy.decide import CONTAIN_RULE, apply_mode, can_agent_ask, decide, hold_irreversible


class PolicyQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """One call to judge: a command, or a path to write."""

    id: str | int | None = None
    command: str | None = None
    write: str | None = None
    cwd: str | None = None


def judge_query(gate: Gate, query: PolicyQuery, session: SessionKey, intent_id: str | None) -> dict[str, Any]:
    """Return the decision on one call: `effect` in the current mode, `verdict` in enforce mode."""
    cwd = str(gate.workspace.root / (query.cwd or ""))
    if query.command is not None:
        call = ToolCall("", session, "shell", "execute", cwd, command=query.command, whole_workspace=True)
    else:
        call = ToolCall("", session, "write", "write", cwd, paths=(query.write or "",))
    rules = gate.rules
    gathered = gather_facts(gate, call, rules)
    facts = replace(gathered.facts, grants=gate.active_grants(rules), containable=True)
    if intent_id is not None:
        facts = replace(facts, session=SessionFacts(intent_id, "selected"))
    decision = decide(gathered.call, facts)
    analysis = analyse(query.command) if query.command is not None else None
    # Facts of this workspace may leave unproved what the text alone shows.
    is_unproved = analysis is not None and gathered.call.unproved is not None
    outcome = "literal_writes"
    if analysis is not None:
        outcome = "unknown" if is_unproved and analysis.outcome != "dangerous" else analysis.outcome
    writes: list[str] | None = None
    if analysis is None or (analysis.writes is not None and not is_unproved):
        paths = (str(target.path or target.resolved) for target in (*facts.targets, *facts.perhaps))
        writes = sorted({path.removesuffix("*") if path.endswith("/*") else path for path in paths})
    reasons = [f"{f.code}: {f.message}" for f in decision.findings if f.rule != CONTAIN_RULE]
    unclear = [f.message for f in decision.findings if f.rule == CONTAIN_RULE] if decision.verdict == "contain" else []
    return {
        "id": query.id,
        "effect": "ask" if can_agent_ask(hold_irreversible(decision)) else apply_mode(decision.verdict, facts.mode),
        "verdict": decision.verdict,
        "outcome": outcome,
        "writes": writes,
        "reasons": [*reasons, *(unclear or (analysis.reasons if analysis else ()))],
    }
