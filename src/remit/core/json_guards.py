"""Guards for untrusted JSON: a value of the expected type, or an empty value."""

from typing import Any, cast


def as_object(value: object) -> dict[str, Any]:
    """Return an object, or an empty object for any different value."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_array(value: object) -> list[Any]:
    """Return an array, or an empty array for any different value."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_text(value: object) -> str | None:
    """Return a non-empty text, or None."""
    return value if isinstance(value, str) and value else None


def as_objects(value: object) -> list[dict[str, Any]]:
    return [as_object(item) for item in as_array(value)]
