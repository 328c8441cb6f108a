"""Life cycle of intents from DRAFT to their end, and descriptions of their changes. Pure: callers write files and
records.
"""

from collections.abc import Iterable
from typing import Any, cast

from msgspec import json
from msgspec.structs import fields

from remit.core.display_text import sanitise_line
from remit.core.intent import FINAL_STATUSES, STATUSES, TRANSITIONS, Intent, Status
from remit.core.secrets.redaction import redact


class IllegalTransition(ValueError):
    """Error for a step outside the life cycle. `allowed` lists the legal steps in the order of STATUSES."""

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
    """Check that `intent` may become `to`. Raises IllegalTransition, also for the current status."""
    if to not in TRANSITIONS[intent.status]:
        raise IllegalTransition(intent.id, intent.status, to)


def find_completion_obstacles(intent: Intent, intents: Iterable[Intent]) -> tuple[str, ...]:
    """Return a sentence for each child that is not yet DONE or ABORTED."""
    return tuple(
        f"{child.id} is {child.status}: a parent completes after its children"
        for child in intents
        if child.parent_intent == intent.id and child.id != intent.id and child.status not in FINAL_STATUSES
    )


def find_unfinished_dependencies(intent: Intent, intents: Iterable[Intent]) -> tuple[str, ...]:
    """Return ids in the intent's dependencies that are not DONE; unknown ids count as unfinished."""
    finished = {other.id for other in intents if other.status == "DONE"}
    return tuple(name for name in intent.dependencies if name not in finished)


UNRECORDED_FIELDS = frozenset({"id", "created_at", "updated_at"})
MAX_VALUE_CHARS = 500
MAX_VALUE_ITEMS = 50


def describe_intent_change(before: Intent | None, after: Intent | None) -> dict[str, Any]:
    """Return `name`, `change` (created, edited or deleted), and for an edit its `changed` fields.

    List fields hold `added` and `removed`, scalar fields `from` and `to`.
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
    if isinstance(old, tuple) and isinstance(new, tuple):
        before, after = (tuple(map(format_value, side)) for side in cast("tuple[tuple[Any, ...], ...]", (old, new)))
        return {
            "added": [text for text in after if text not in before][:MAX_VALUE_ITEMS],
            "removed": [text for text in before if text not in after][:MAX_VALUE_ITEMS],
        }
    return {"from": format_value(old), "to": format_value(new)}


def format_value(value: Any) -> str:
    """Return a field's value as text without secrets; constraints and criteria by their text."""
    text = getattr(value, "text", value)
    return sanitise_line(redact(text if isinstance(text, str) else json.encode(text).decode()), MAX_VALUE_CHARS)
