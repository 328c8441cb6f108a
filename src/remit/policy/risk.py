"""How much an action could cost, 0 to 100, and the two strongest reasons: what a person sees beside a question.

Five parts, each with a most: can it be undone (40), how far it reaches (25), how far from the scope it lies (15),
whether the path matters for security or release (15), and whether the intent has been there before (5).
"""

import re

from msgspec import Struct

from remit.core.call import ToolCall
from remit.core.decision import Decision
from remit.core.facts import Facts, Target
from remit.core.text import shown
from remit.policy.deeds import NOTHING, Part, command_weight, heaviest

KEPT = 15
"""What it takes off that the content before is kept."""

SENSITIVE = re.compile(
    r"(?:^|[/._-])(?:o?auth(?:n|z|entication|ori[sz]ation)?|security|secrets?|credentials?|passwords?|tokens?|crypto|"
    r"keys?|certs?|permissions?|"
    r"deploy\w{0,6}|release|infra|terraform|migrations?|workflows|ci|\.?env|dockerfile|makefile|codeowners|"
    r"(?:package-lock|yarn|uv|poetry|cargo|go|pnpm-lock|gemfile)\.(?:lock|sum|json|yaml))(?:$|[/._-])",
    re.IGNORECASE,
)
"""Names of files and folders that people look at twice: whole words of a path, so that `author.py` is none."""


class Around(Struct, frozen=True):
    """What else weighs. `kept`: what the files hold now is kept before the call runs, and can be brought back.

    `familiar` are the folders that the intent has changed before; None where that is not known.
    """

    kept: bool = False
    familiar: frozenset[str] | None = None


UNKNOWN = Around()


def risk(call: ToolCall, decision: Decision, facts: Facts, around: Around = UNKNOWN) -> tuple[int, tuple[str, ...]]:
    """0 to 100, and the reasons that weigh most; the heaviest two."""
    undone, reach = deed(call, decision, facts)
    if around.kept and undone.weight:
        undone = Part(max(0, undone.weight - KEPT), f"{undone.reason} (what was there is kept)")
    parts = (undone, reach, distance(decision, facts), importance(decision, facts), novelty(facts, around))
    told = sorted((p for p in parts if p.weight), key=lambda p: -p.weight)
    return sum(p.weight for p in parts), tuple(dict.fromkeys(p.reason for p in told))[:2]


def deed(call: ToolCall, decision: Decision, facts: Facts) -> tuple[Part, Part]:
    """What cannot be undone (0 to 40), and how far it reaches (0 to 25)."""
    undone, reach = command_weight(call.command) if call.command is not None else (NOTHING, NOTHING)
    return heaviest([undone, *losses(call, decision, facts)]), heaviest([reach, *reaches(call, facts)])


def losses(call: ToolCall, decision: Decision, facts: Facts) -> list[Part]:
    """What a call of a file tool, or of one that nobody knows, may lose."""
    found = [NOTHING]
    if any(f.code == "STALE_FILE" for f in decision.findings):
        found.append(Part(35, "it would overwrite a change that this session has not seen"))
    if call.effect == "delete":
        found.append(Part(30, "it deletes"))
    if call.command is None and (call.whole_workspace or call.effect == "execute"):
        found.append(Part(25, "what it changes cannot be told from its text"))
    if any(t.sha256 is not None for t in facts.targets):
        found.append(Part(15, "it changes what is there"))
    return found


def reaches(call: ToolCall, facts: Facts) -> list[Part]:
    """How far a call goes beyond the workspace."""
    found = [NOTHING]
    if any(t.path is None and not t.tolerated for t in facts.targets):
        found.append(Part(25, "it reaches files outside the workspace"))
    if call.effect == "network" or (call.effect == "execute" and call.command is None):
        found.append(Part(15, "it may reach beyond this machine"))
    return found


def distance(decision: Decision, facts: Facts) -> Part:
    """How far from the scope it lies: 0 to 15."""
    codes = {f.code for f in decision.findings if f.verdict != "allow"}
    if "MISSING_OR_INVALID_INTENT" in codes:
        return Part(15, "it works under no intent")
    if codes & {"INTENT_CLOSED", "INTENT_NOT_FOUND", "INTENT_BLOCKED", "INTENT_IGNORED"}:
        return Part(12, "its intent is not open")
    if "SCOPE_VIOLATION" not in codes:
        return NOTHING
    owned = facts.active.owned_scope if facts.active else ()
    first = {pattern.partition("/")[0] for pattern in owned if not pattern.startswith("!")}
    near = all(str(t.path).partition("/")[0] in first for t in facts.targets if t.path is not None)
    return Part(8, "it lies beside the scope") if near else Part(12, "it lies outside the intent's scope")


def importance(decision: Decision, facts: Facts) -> Part:
    """Whether the path is one that people look at twice: 0 to 15."""
    if any(f.code in ("PROTECTED_PATH", "INTENTIGNORE_PATH_BLOCKED") for f in decision.findings):
        return Part(15, "the path is protected or barred by .intentignore")
    named = next((t for t in facts.targets if sensitive(named_path(t))), None)
    if named is None:
        return NOTHING
    return Part(15, f"{shown(named_path(named), 80)} is security- or release-relevant")


def novelty(facts: Facts, around: Around) -> Part:
    """Whether the intent changed anything there before: 0 to 5."""
    if around.familiar is None:
        return NOTHING
    new = next((t for t in facts.targets if folder(named_path(t)) not in around.familiar), None)
    return NOTHING if new is None else Part(5, "the intent has changed nothing there before")


def named_path(target: Target) -> str:
    """The target as people name it."""
    return str(target.path if target.path is not None else target.resolved)


def folder(path: str) -> str:
    """The folder of a path; empty at the top."""
    return path.rpartition("/")[0]


def sensitive(path: str) -> bool:
    """Whether a path, or a pattern of paths, is one that people look at twice."""
    return SENSITIVE.search(path) is not None
