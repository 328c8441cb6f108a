"""The difference between two versions of an intent, as its record holds it."""

from typing import Any, cast

from msgspec import json
from msgspec.structs import fields

from remit.core.intent import Intent
from remit.core.redaction import redact
from remit.core.text import shown

NOT_SAID = frozenset({"id", "created_at", "updated_at"})
MAX_CHARS = 500
MAX_ITEMS = 50


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
    changed = {field: field_change(old, new) for field, old, new in pairs if old != new and field not in NOT_SAID}
    return {"name": name, "change": "edited", "changed": changed}


def field_change(old: Any, new: Any) -> dict[str, Any]:
    """Return how one field changed."""
    if isinstance(old, tuple) and isinstance(new, tuple):
        left, right = (tuple(map(as_text, side)) for side in cast("tuple[tuple[Any, ...], ...]", (old, new)))
        return {
            "added": [text for text in right if text not in left][:MAX_ITEMS],
            "removed": [text for text in left if text not in right][:MAX_ITEMS],
        }
    return {"from": as_text(old), "to": as_text(new)}


def as_text(value: Any) -> str:
    """Return a field's value as text without secrets: of a constraint or criterion its words."""
    text = getattr(value, "text", value)
    return shown(redact(text if isinstance(text, str) else json.encode(text).decode()), MAX_CHARS)
