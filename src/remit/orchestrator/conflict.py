"""Conflicts: evidence of two tasks that met → what is done about it; and lines that a merge lost. Pure."""

from collections import Counter
from collections.abc import Sequence
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
    STALE = "stale"
    """A file changed between an agent's reading and its writing."""
    TEXT = "text"
    """The merge at landing has conflict markers."""
    MEANING = "meaning"
    """A train fails though each of its members passed alone."""
    TARGET_MOVED = "target_moved"
    """The target is not what the landing was built on."""
    REFUSED = "refused"
    """Landing refuses the change, or cannot judge it here: it lands once a person has mended what is in the way."""


class SettlementKind(StrEnum):
    """What is done about a conflict."""

    WAIT = "wait"
    """The later task goes on once the earlier one has landed."""
    MERGE = "merge"
    """The three-way merge is taken: it is clean, and the criteria of both pass on it."""
    REASSIGN = "reassign"
    """One task does its part again on top of the other."""
    SPLIT = "split"
    """The shared part becomes an intent that both need; a person accepts it."""
    ASK = "ask"


class Party(Struct, frozen=True):
    """One side of a conflict."""

    intent: str
    paths: int = 0
    """Paths that it has written so far."""
    lines: int = 0
    """Lines that it has added."""
    left_s: float = 0.0
    """Estimate of what it still has to do."""
    is_green: bool = True
    """Whether its criteria pass on the merge of both."""
    waits_for_other: bool = False


class Evidence(Struct, frozen=True):
    """All that a settlement depends on. `earlier` owns the path, or has landed, or is first in order."""

    kind: ConflictKind
    earlier: Party
    later: Party
    paths: tuple[str, ...] = ()
    """Paths that both want."""
    rounds: int = 0
    """Settlements of this pair so far."""
    is_clean: bool = False
    """Whether the three-way merge has no markers."""
    repeated: bool = False
    """Whether the same happened before in this turn."""
    why: str = ""
    """What was found, in words: the end of a failing check, the server's answer."""


class Settlement(Struct, frozen=True):
    """Decision about a conflict. `redo` is the intent that does its part again, or waits; empty: neither."""

    kind: SettlementKind
    redo: str = ""
    why: str = ""


def decide(evidence: Evidence) -> Settlement:
    """Return what is done about a conflict. Where no rule settles it, a person is asked."""
    earlier, later = evidence.earlier, evidence.later
    if evidence.kind is ConflictKind.TARGET_MOVED:
        return Settlement(SettlementKind.WAIT, "", "the train is gathered again")
    if evidence.kind is ConflictKind.REFUSED:
        return Settlement(SettlementKind.ASK, later.intent, evidence.why)
    if evidence.rounds >= MAX_ROUNDS:
        return Settlement(SettlementKind.ASK, later.intent, f"settled {MAX_ROUNDS} times already")
    match evidence.kind:
        case ConflictKind.STALE if not evidence.repeated:
            return Settlement(SettlementKind.WAIT, later.intent, "its agent reads the file again")
        # Two tasks that each want what the other holds would wait for ever.
        case ConflictKind.GROW if earlier.waits_for_other and is_small_part(evidence):
            return Settlement(SettlementKind.SPLIT, "", "both need a small part of each other's files")
        case ConflictKind.GROW if earlier.waits_for_other:
            smaller = earlier if earlier.lines < later.lines else later
            return Settlement(SettlementKind.REASSIGN, smaller.intent, "each needs what the other holds")
        case ConflictKind.GROW:
            return Settlement(SettlementKind.WAIT, later.intent, "the owner finishes first")
        case ConflictKind.TEXT if evidence.is_clean and earlier.is_green and later.is_green:
            return Settlement(SettlementKind.MERGE, "", "the merge is clean, and the criteria of both pass")
        case ConflictKind.TEXT:
            return Settlement(SettlementKind.REASSIGN, later.intent, evidence.why or "what has landed stays")
        case ConflictKind.MEANING:
            return Settlement(SettlementKind.REASSIGN, later.intent, evidence.why or "a check of its train fails")
        case _:
            return Settlement(SettlementKind.ASK, later.intent, "no rule settles it")


def is_small_part(evidence: Evidence) -> bool:
    """Whether what both want is little beside what each of them has written."""
    smaller = min(evidence.earlier.paths, evidence.later.paths)
    return 0 < len(evidence.paths) <= SMALL_SHARE * smaller


def find_dropped_lines(
    base: Sequence[str], earlier: Sequence[str], later: Sequence[str], merged: Sequence[str]
) -> list[str]:
    """Return the lines that one of two sides added to the base and that their merge does not hold, sorted.

    A line that both sides added may stand in the merge once.
    """
    added = (Counter(earlier) - Counter(base)) | (Counter(later) - Counter(base))
    kept = Counter(merged)
    kept.subtract(Counter(base) & Counter(earlier) & Counter(later))
    return sorted((added - kept).elements())
