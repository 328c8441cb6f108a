"""Checks that an embedding program or an installed package brings. They can tighten a decision, never loosen it."""

from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeVar

from msgspec.structs import replace

from remit.core.call import Outcome, ToolCall
from remit.core.decision import Decision, ErrorType, Finding, Verdict, strictest
from remit.core.facts import Facts
from remit.policy.engine import Check, enforced, run, waived

Listener: TypeAlias = Callable[[ToolCall, Outcome], str | None]
"""Hears of a call that came back; what it returns is told to the model."""

T = TypeVar("T")


class UserHooks:
    """The registered hooks of one gate, by name, in the order in which they came."""

    def __init__(self) -> None:
        self.checks: dict[str, Check] = {}
        self.listeners: dict[str, Listener] = {}

    def add(self, name: str, check: Check) -> Callable[[], None]:
        """Register `check`; what is returned takes it out again. Raises ValueError for a name that is taken."""
        return added(self.checks, name, check)

    def add_after(self, name: str, listener: Listener) -> Callable[[], None]:
        """Register `listener`, likewise."""
        return added(self.listeners, name, listener)


def added(known: dict[str, T], name: str, hook: T) -> Callable[[], None]:
    """Put the hook under its name; what is returned takes it out again. Raises ValueError for a name that is taken."""
    if name in known:
        raise ValueError(f"there is a hook named {name!r} already: take it out first, or choose another name")
    known[name] = hook

    def remove() -> None:
        if known.get(name) is hook:
            del known[name]

    return remove


def joined(decision: Decision, found: tuple[Finding, ...], call: ToolCall, facts: Facts) -> Decision:
    """The decision with what hooks say of the call, safe calls included. A person's yes goes for what only asks.

    What is asked of nobody is denied: agents run the tool when a question is all they get.
    """
    if not found:
        return decision
    asking = tuple(f for f in found if f.verdict == "ask")
    left, grants = waived(asking, call, facts)
    every = (*decision.findings, *(f for f in found if f.verdict != "ask" or f in left))
    verdict = strictest(tuple(f.verdict for f in every))
    return replace(
        decision,
        effect=enforced("deny" if verdict == "ask" else verdict, facts.mode),
        verdict=verdict,
        findings=every,
        grants=(*decision.grants, *grants),
    )


def code_of(verdict: Verdict) -> ErrorType:
    """The code of an objection: one that only asks is a person's to answer, like every other question to them."""
    return "USER_REJECTED" if verdict == "ask" else "HOOK_BLOCKED"


def findings(checks: Mapping[str, Check], call: ToolCall, facts: Facts) -> tuple[Finding, ...]:
    """The objections, under the hooks' own names: no hook can speak as one of Remit's rules, which may be waived."""
    return tuple(
        replace(found, rule=name, code=code_of(found.verdict))
        for name, check in checks.items()
        for found in run({name: check}, call, facts)
        if found.verdict != "allow"
    )
