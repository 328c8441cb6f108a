"""Three-way merge of one intent, field by field: what git cannot merge by lines often merges by meaning."""

from collections.abc import Sequence
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from remit.core.intent import Intent, Status

LIFE_RANKS: dict[Status, int] = {"DRAFT": 0, "IN_PROGRESS": 1, "BLOCKED": 2, "ABORTED": 3, "DONE": 4}
"""Which word of life stays where both sides wrote one: DONE beats all."""


class MergedIntent(Struct, frozen=True):
    """A merged intent. `kept_ours` names the fields that both sides changed in different ways: ours was kept."""

    intent: Intent
    kept_ours: tuple[str, ...] = ()


def merge_intents(base: Intent | None, ours: Intent, theirs: Intent) -> MergedIntent:
    """Merge two versions of one intent, whose last common version is `base`; None if both sides added it.

    Lists merge as ordered sets: what either side added is there, and what either side took away is not.
    """
    values: dict[str, Any] = {}
    kept: list[str] = []
    for name in Intent.__struct_fields__:
        mine, other = getattr(ours, name), getattr(theirs, name)
        old = getattr(base, name) if base is not None else None
        if mine == other or other == old:
            values[name] = mine
        elif base is not None and mine == old:
            values[name] = other
        elif isinstance(mine, tuple):
            values[name] = merge_lists(old or (), cast("tuple[Any, ...]", mine), other)
        elif name == "status":
            values[name] = max(mine, other, key=LIFE_RANKS.__getitem__)
        elif name == "updated_at":
            values[name] = max(mine or "", other or "")
        else:
            values[name] = mine or other
            kept += [name] if mine and other else []
    if values["status"] != "BLOCKED":
        values["blocked_reason"] = None
    return MergedIntent(replace(ours, **values), tuple(kept))


def merge_lists(base: Sequence[Any], ours: Sequence[Any], theirs: Sequence[Any]) -> tuple[Any, ...]:
    # Compared by value: a constraint has options and no hash.
    stayed = [item for item in ours if item in theirs or item not in base]
    return (*stayed, *(item for item in theirs if item not in ours and item not in base))
