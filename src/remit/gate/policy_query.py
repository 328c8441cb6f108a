"""What the gate would do about a call that nobody makes: `remit policy test` and the console ask through here."""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from remit.adapters import can_ask
from remit.core.agents import ROWS
from remit.core.call import OWN_AGENT, SessionKey, ToolCall
from remit.core.decision import SessionFacts
from remit.gate.enforce import judge
from remit.gate.gate import Gate
from remit.gate.hooks.registered_checks import HookReplies
from remit.policy.commands import analyse
from remit.policy.decide import CONTAIN_RULE, can_agent_ask

AGENTS = (OWN_AGENT, *ROWS)


class PolicyQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """One call to judge: a command, or a path to write. Without an agent, one that lets its commands be contained."""

    id: str | int | None = None
    command: str | None = None
    write: str | None = None
    cwd: str | None = None
    agent: str = ""


def make_call(gate: Gate, query: PolicyQuery, session: SessionKey) -> ToolCall:
    root = gate.workspace.root
    cwd, agent = str(root / (query.cwd or "")), query.agent or gate.state.active_session(session).agent
    if query.command is None:
        return ToolCall(agent, session, "write", "write", cwd, paths=(query.write or "",), governing_root=str(root))
    tools = ROWS[agent].tools.items() if agent in ROWS else ()
    tool, key = next(((name, tool.command) for name, tool in tools if tool.command is not None), ("shell", "command"))
    call = ToolCall(agent, session, tool, "execute", cwd, command=query.command, whole_workspace=True)
    return replace(call, arguments={key: query.command}, governing_root=str(root))


def judge_query(gate: Gate, query: PolicyQuery, session: SessionKey, intent_id: str | None) -> dict[str, Any]:
    """Return the gate's decision on one call: `effect` in the current mode, `verdict` in enforce mode."""
    made, rules = make_call(gate, query, session), gate.rules
    in_process = made.agent in ("", OWN_AGENT)
    bound = SessionFacts(intent_id, "selected") if intent_id is not None else None
    call, facts, plan = judge(
        gate, HookReplies(made), rules, gate.hooks, frozenset(), in_process=in_process, session=bound
    )
    enforced = decision = plan.decision
    if rules.mode != "enforce":
        strict = replace(rules, mode="enforce")
        _, _, above = judge(
            gate, HookReplies(made), strict, gate.hooks, frozenset(), in_process=in_process, session=bound
        )
        enforced = above.decision
    analysis = analyse(query.command) if query.command is not None else None
    # Facts of this workspace may leave unproved what the text alone shows.
    is_unproved = analysis is not None and call.unproved is not None
    outcome = "literal_writes"
    if analysis is not None:
        outcome = "unknown" if is_unproved and analysis.outcome != "dangerous" else analysis.outcome
    writes: list[str] | None = None
    if analysis is None or (analysis.writes is not None and not is_unproved):
        paths = (str(target.path or target.resolved) for target in (*facts.targets, *facts.perhaps))
        writes = sorted({path.removesuffix("*") if path.endswith("/*") else path for path in paths})
    reasons = [f"{f.code}: {f.message}" for f in enforced.findings if f.verdict != "contain"]
    unclear = [f.message for f in enforced.findings if f.rule == CONTAIN_RULE and f.verdict == "contain"]
    why = unclear if enforced.verdict == "contain" else []
    bare = [f"not contained: {plan.uncontained}"] if plan.uncontained else []
    asks = can_agent_ask(decision) and (in_process or can_ask(made.agent))
    return {
        "id": query.id,
        "effect": "ask" if asks else decision.effect,
        "verdict": enforced.verdict,
        "outcome": outcome,
        "writes": writes,
        "reasons": [*reasons, *bare, *(why or (analysis.reasons if analysis else ()))],
    }
