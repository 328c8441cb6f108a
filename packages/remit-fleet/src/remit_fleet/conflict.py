"""Conflicts between two tasks: a settlement decided from evidence. Pure."""

from enum import StrEnum

from msgspec import Struct

MAX_ROUNDS = 2
"""Settlements of one pair by rules. After them a person is asked."""
SMALL_SHARE = 0.25
"""Share of the smaller task's paths up to which what both write is worth an intent of its own."""


class ConflictKind(StrEnum):
    """Way in which two tasks met."""

    GROW = "grow"
    """A task wants a path that another one holds."""
    TEXT = "text"
    """The merge at landing has conflict markers."""
    MEANING = "meaning"
    """A train fails though each of its members passed alone."""
    TARGET_MOVED = "target_moved"
    """The target is not what the landing was built on."""
    REFUSED = "refused"
    """The change may not land as it is, or not yet: a path outside its scope, an untrusted command, a remote's rule."""


class SettlementKind(StrEnum):
    """Way to settle a conflict."""

    WAIT = "wait"
    """The later task goes on once the earlier one has landed."""
    REASSIGN = "reassign"
    """One task does its part again on top of the other."""
    SPLIT = "split"
    """The shared part becomes an intent that both need; a person accepts it."""
    ASK = "ask"


class Party(Struct, frozen=True):
    """Side of a conflict."""

    intent: str
    paths: int = 0
    """Paths that it has written so far."""
    lines: int = 0
    """Lines that it has added."""
    waits_for_other: bool = False


class Evidence(Struct, frozen=True):
    """Complete input of a settlement. `earlier` owns the path, has landed, or is first in order."""

    kind: ConflictKind
    earlier: Party
    later: Party
    paths: tuple[str, ...] = ()
    """Paths that both want."""
    rounds: int = 0
    """Settlements of this pair so far."""
    why: str = ""
    """The fault in words, where a person has to know it."""


class Settlement(Struct, frozen=True):
    """Decision about a conflict. `redo` is the intent that repeats its part or waits; empty for neither."""

    kind: SettlementKind
    redo: str = ""
    why: str = ""
    keeps_work: bool = False
    """Whether what was handed in stays so, and lands once the person has answered."""


class SettledConflict(Struct, frozen=True):
    """Settled meeting of two intents, `a` the earlier. `rounds` counts those of the pair, this one among them."""

    id: int
    repository: str
    kind: ConflictKind
    a: str
    b: str
    paths: tuple[str, ...]
    evidence: Evidence
    rounds: int
    settled_as: SettlementKind
    at: float


def decide(evidence: Evidence) -> Settlement:
    """Return the settlement of a conflict. A person is asked if no rule settles the conflict."""
    earlier, later = evidence.earlier, evidence.later
    if evidence.kind is ConflictKind.TARGET_MOVED:
        return Settlement(SettlementKind.WAIT, "", "the train is gathered again")
    if evidence.kind is ConflictKind.REFUSED:
        return Settlement(SettlementKind.ASK, later.intent, evidence.why, keeps_work=True)
    if evidence.rounds >= MAX_ROUNDS:
        return Settlement(SettlementKind.ASK, later.intent, f"settled {MAX_ROUNDS} times already")
    match evidence.kind:
        # Two tasks that each want what the other holds would wait for ever.
        case ConflictKind.GROW if earlier.waits_for_other and is_small_part(evidence):
            return Settlement(SettlementKind.SPLIT, "", "both need a small part of each other's files")
        case ConflictKind.GROW if earlier.waits_for_other:
            smaller = earlier if earlier.lines < later.lines else later
            return Settlement(SettlementKind.REASSIGN, smaller.intent, "each needs what the other holds")
        case ConflictKind.GROW:
            return Settlement(SettlementKind.WAIT, later.intent, "the owner finishes first")
        case ConflictKind.TEXT:
            return Settlement(SettlementKind.REASSIGN, later.intent, evidence.why or "what has landed stays")
        case ConflictKind.MEANING:
            return Settlement(SettlementKind.REASSIGN, later.intent, evidence.why or "a check of its train fails")
        case _:
            return Settlement(SettlementKind.ASK, later.intent, "no rule settles it")


def is_small_part(evidence: Evidence) -> bool:
    smaller = min(evidence.earlier.paths, evidence.later.paths)
    return 0 < len(evidence.paths) <= SMALL_SHARE * smaller
