"""How much an action could cost, and the two strongest reasons why: what a person sees beside a question."""

from remit.core.call import ToolCall
from remit.core.decision import Decision
from remit.core.facts import Facts
from remit.core.text import shown

SENSITIVE = (".github/", "ci/", "deploy", "secret", ".env", "migration", "lock", "auth", "security")
RULES = {
    "STALE_FILE": (35, "it would overwrite a change that this session has not seen"),
    "MISSING_OR_INVALID_INTENT": (25, "it works under no intent"),
    "INTENT_CLOSED": (20, "its intent is closed"),
    "INTENTIGNORE_PATH_BLOCKED": (30, "the path is barred by .intentignore"),
    "SCOPE_VIOLATION": (15, "the path is outside the intent's scope"),
}


def risk(call: ToolCall, decision: Decision, facts: Facts) -> tuple[int, tuple[str, ...]]:
    """0 to 100, and the reasons that weigh most; the heaviest two."""
    found = [RULES[f.code] for f in decision.findings if f.code in RULES]
    found += [
        (20, f"{shown(str(t.path), 80)} is security- or release-relevant") for t in facts.targets if sensitive(t.path)
    ]
    if call.effect == "delete":
        found.append((30, "it deletes"))
    if call.whole_workspace:
        found.append((30, "what a command changes cannot be told from its text"))
    if any(t.sha256 is None for t in facts.targets):
        found.append((0, "it creates a new file"))
    found.sort(key=lambda one: -one[0])
    return min(100, sum(weight for weight, _ in found)), tuple(reason for _, reason in found[:2])


def sensitive(path: str | None) -> bool:
    """Whether a path is one that people look at twice."""
    return path is not None and any(word in path.lower() for word in SENSITIVE)
