"""Checks that a program brings which embeds the gate. They can tighten a decision, never loosen it."""

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.decision import Decision, Finding, strictest
from remit.core.facts import Facts
from remit.policy.engine import Check, enforced, run


class UserHooks:
    """The registered checks of one gate, by name, in the order in which they came."""

    def __init__(self) -> None:
        self.checks: dict[str, Check] = {}

    def add(self, name: str, check: Check) -> Callable[[], None]:
        """Register `check`; what is returned takes it out again. Raises ValueError for a name that is taken."""
        if name in self.checks:
            raise ValueError(f"there is a hook named {name!r} already: take it out first, or choose another name")
        self.checks[name] = check

        def remove() -> None:
            if self.checks.get(name) is check:
                del self.checks[name]

        return remove

    def joined(self, decision: Decision, call: ToolCall, facts: Facts) -> Decision:
        """The decision with what the hooks say of the call, safe calls included. One that breaks denies."""
        found = findings(self.checks, call, facts)
        if not found:
            return decision
        every = (*decision.findings, *found)
        verdict = strictest(tuple(f.verdict for f in every))
        return replace(decision, effect=enforced(verdict, facts.mode), verdict=verdict, findings=every)


def findings(checks: Mapping[str, Check], call: ToolCall, facts: Facts) -> tuple[Finding, ...]:
    """The objections, under the hooks' own names: no hook can speak as one of Remit's rules, which may be waived."""
    return tuple(
        replace(found, rule=name, code="HOOK_BLOCKED")
        for name, check in checks.items()
        for found in run({name: check}, call, facts)
        if found.verdict != "allow"
    )
