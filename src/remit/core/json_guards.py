"""Taking apart what somebody else wrote as JSON: the part where it has the shape, nothing where it has not."""

from typing import Any, cast


def as_object(value: object) -> dict[str, Any]:
    """The object; empty for anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_array(value: object) -> list[Any]:
    """The array; empty for anything else."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_text(value: object) -> str | None:
    """The text; None for anything else, and where it is empty."""
    return value if isinstance(value, str) and value else None
