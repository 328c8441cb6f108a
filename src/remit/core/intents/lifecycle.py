"""How an intent moves from DRAFT to its end. Pure: the caller writes the file and the record.

The difference between two versions of an intent, as its record holds it.
"""

from collections.abc import Iterable
from typing import Any, cast

from msgspec import json
from msgspec.structs import fields

from remit.core.display_text import sanitise_line
from remit.core.intent import FINAL_STATUSES, STATUSES, TRANSITIONS, Intent, Status
from remit.core.secrets.redaction import redact


class IllegalTransition(ValueError):
    """The life cycle has no such step. `allowed` are the steps it has, in the order of STATUSES."""

    def __init__(self, intent_id: str, current: Status, wanted: Status) -> None:
        self.intent_id = intent_id
        self.current: Status = current
        self.wanted: Status = wanted
        self.allowed: tuple[Status, ...] = tuple(s for s in STATUSES if s in TRANSITIONS[current])
        super().__init__(f"{intent_id} is {current} and cannot become {wanted}; {self._next_step()}")

    def _next_step(self) -> str:
        if self.allowed:
            return f"expected {' or '.join(self.allowed)}"
        return f"{self.current} is final; `remit intent fork {self.intent_id}` starts a new one from it"


def check_transition(intent: Intent, to: Status) -> None:
    """Return when `intent` may become `to`; raise IllegalTransition when not, also for what it already is."""
    if to not in TRANSITIONS[intent.status]:
        raise IllegalTransition(intent.id, intent.status, to)


def find_completion_obstacles(intent: Intent, intents: Iterable[Intent]) -> tuple[str, ...]:
    """What keeps `intent` from DONE, one sentence each: the children that are not yet DONE or ABORTED."""
    return tuple(
        f"{child.id} is {child.status}: a parent completes after its children"
        for child in intents
        if child.parent_intent == intent.id and child.id != intent.id and child.status not in FINAL_STATUSES
    )


def find_unfinished_dependencies(intent: Intent, intents: Iterable[Intent]) -> tuple[str, ...]:
    """The ids that `intent` depends on and that are not DONE. An unknown one counts as not done."""
    done = {other.id for other in intents if other.status == "DONE"}
    return tuple(name for name in intent.dependencies if name not in done)


UNRECORDED_FIELDS = frozenset({"id", "created_at", "updated_at"})
MAX_VALUE_CHARS = 500
MAX_VALUE_ITEMS = 50


def describe_intent_change(before: Intent | None, after: Intent | None) -> dict[str, Any]:
    """Return `name`, `change` (created, edited or deleted), and for an edit `changed`: its fields.

    A field that is a list has `added` and `removed`, any other `from` and `to`.
    """
    intent = after or before
    name = intent.title if intent else ""
    if before is None:
        return {"name": name, "change": "created"}
    if after is None:
        return {"name": name, "change": "deleted", "removed": True}
    pairs = ((f.name, getattr(before, f.name), getattr(after, f.name)) for f in fields(Intent))
    changed = {
        field: describe_field_change(old, new)
        for field, old, new in pairs
        if old != new and field not in UNRECORDED_FIELDS
    }
    return {"name": name, "change": "edited", "changed": changed}


def describe_field_change(old: Any, new: Any) -> dict[str, Any]:
    """Return how one field changed."""
    if isinstance(old, tuple) and isinstance(new, tuple):
        left, right = (tuple(map(format_value, side)) for side in cast("tuple[tuple[Any, ...], ...]", (old, new)))
        return {
            "added": [text for text in right if text not in left][:MAX_VALUE_ITEMS],
            "removed": [text for text in left if text not in right][:MAX_VALUE_ITEMS],
        }
    return {"from": format_value(old), "to": format_value(new)}


def format_value(value: Any) -> str:
    """Return a field's value as text without secrets: of a constraint or criterion its words."""
    text = getattr(value, "text", value)
    return sanitise_line(redact(text if isinstance(text, str) else json.encode(text).decode()), MAX_VALUE_CHARS)
