"""Merges of intents by meaning: of two versions of an intent, beyond git's merge by lines, and of several intents into
a single intent.
"""

from collections.abc import Iterable, Sequence
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from remit.core.intent import REASONED_STATUSES, Intent, Status
from remit.core.intents.strictness import is_within

LIFE_RANKS: dict[Status, int] = {"DRAFT": 0, "IN_PROGRESS": 1, "BLOCKED": 2, "ABORTED": 3, "DONE": 4}
"""Which word of life stays where both sides wrote one: DONE beats all."""


class MergedIntent(Struct, frozen=True):
    """A merged intent. `kept_ours` names the fields that both sides changed in different ways: ours was kept."""

    intent: Intent
    kept_ours: tuple[str, ...] = ()


def merge_intents(base: Intent | None, ours: Intent, theirs: Intent) -> MergedIntent:
    """Merge two versions of an intent with the last common version `base`; None if both sides added the intent.

    Lists merge as ordered sets: additions and removals of both sides count.
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
    if values["status"] not in REASONED_STATUSES:
        values["blocked_reason"] = None
    return MergedIntent(replace(ours, **values), tuple(kept))


def merge_lists(base: Sequence[Any], ours: Sequence[Any], theirs: Sequence[Any]) -> tuple[Any, ...]:
    # Compared by value: a constraint has options and no hash.
    stayed = [item for item in ours if item in theirs or item not in base]
    return (*stayed, *(item for item in theirs if item not in ours and item not in base))


# Several intents into one


def absorb_intents(kept: Intent, others: Sequence[Intent], intents: Iterable[Intent]) -> dict[str, dict[str, Any]]:
    """Return the changed fields by intent when an intent absorbs some more: the absorbing intent gets their lists, and
    references move to the absorbing intent. The reason and the end of the absorbed intents are not included.
    """
    gone = {other.id: other for other in others}
    united: dict[str, Any] = {"owned_scope": unite_scopes(kept.owned_scope, *(other.owned_scope for other in others))}
    for name in ("constraints", "acceptance_criteria", "dependencies", "references"):
        items = getattr(kept, name)
        for other in others:
            items = merge_lists((), items, getattr(other, name))
        united[name] = items
    united["dependencies"] = tuple(name for name in united["dependencies"] if name not in gone and name != kept.id)
    united["references"] = tuple(dict.fromkeys(name for name in (*united["references"], *gone) if name != kept.id))
    parent = kept.parent_intent
    for _ in others:
        parent = gone[parent].parent_intent if parent in gone else parent
    united["parent_intent"] = None if parent == kept.id or parent in gone else parent
    # A promise that commands reach no network stays for all of the work.
    united["network"] = "none" if any(one.network == "none" for one in (kept, *others)) else "allow"
    changes = {kept.id: united}
    for intent in intents:
        if intent.id not in gone and intent.id != kept.id:
            names = tuple(dict.fromkeys(kept.id if name in gone else name for name in intent.dependencies))
            up = kept.id if intent.parent_intent in gone else intent.parent_intent
            changes[intent.id] = {"dependencies": names, "parent_intent": up}
    before = {intent.id: intent for intent in (kept, *intents)}
    changed = {i: {n: v for n, v in fields.items() if v != getattr(before[i], n)} for i, fields in changes.items()}
    return {intent_id: fields for intent_id, fields in changed.items() if fields}


def unite_scopes(*scopes: Sequence[str]) -> tuple[str, ...]:
    lines = [line for scope in scopes for line in scope]
    if any(line.startswith("!") for line in lines):
        return tuple(dict.fromkeys(reversed(lines)))[::-1]
    return tuple(dict.fromkeys(lines))


def find_narrowed(scope: Sequence[str], intents: Iterable[Intent]) -> tuple[str, ...]:
    """Return the ids of intents with a path possibly lost in this scope by an exclusion of a different intent."""
    has_exclusion = any(line.startswith("!") for line in scope)
    return tuple(i.id for i in intents if has_exclusion and not is_within(i.owned_scope, scope))
