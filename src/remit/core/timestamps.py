"""Timestamps of records and messages: ISO 8601 in UTC with a final `Z`, comparable as text."""

from datetime import UTC, datetime


def format_utc(moment: datetime, timespec: str = "microseconds") -> str:
    """Return a moment with time zone in UTC; `timespec` as in `datetime.isoformat`."""
    return moment.astimezone(UTC).isoformat(timespec=timespec).replace("+00:00", "Z")


def normalise_timestamp(timestamp: object) -> str:
    """Return a foreign timestamp in the format of records; text that is no timestamp stays unchanged."""
    try:
        moment = datetime.fromisoformat(str(timestamp).strip())
        return format_utc(moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment)
    except (ValueError, OverflowError):
        return "" if timestamp is None else str(timestamp)
