"""Parsing a time as a person writes it, into the records' format: UTC, microseconds, `Z`."""

import re
from datetime import UTC, datetime, timedelta

from remit.core.record import format_utc

UNIT_DAYS = {"second": 1 / 86400, "minute": 1 / 1440, "hour": 1 / 24, "day": 1, "week": 7, "month": 30, "year": 365}
UNITS = {unit: timedelta(days=days) for unit, days in UNIT_DAYS.items()}
UNIT_LETTERS = {"s": "second", "m": "minute", "h": "hour", "d": "day", "w": "week", "y": "year"}
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

NUMBER_WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
WORD_NUMBERS = {"a": 1, "an": 1, **{word: n for n, word in enumerate(NUMBER_WORDS, 1)}}

_COUNT = rf"([0-9]{{1,5}}|{'|'.join(WORD_NUMBERS)})"
_AGO_PATTERN = re.compile(rf"{_COUNT}[ _.-]*({'|'.join(UNITS)})s?[ _.-]+ago")
_SHORT_PATTERN = re.compile(rf"([0-9]{{1,5}}) ?([{''.join(UNIT_LETTERS)}])")
_LAST_PATTERN = re.compile(rf"(?:last|past) (?:{_COUNT} )?({'|'.join(UNITS)})s?")
_WEEKDAY_PATTERN = re.compile(rf"(?:last )?({'|'.join(WEEKDAYS)})")
_MONTH_PATTERN = re.compile(r"\d{4}(?:-\d\d)?")


class NotATime(ValueError):
    """A text that does not name a time."""

    def __init__(self, text: str) -> None:
        super().__init__(
            f"{text[:60]!r} is no time; expected 2026-02-21, 2026-02-21T12:00:00Z, 7d, '2 days ago', yesterday, "
            "monday or 'last week'"
        )


def parse_time(text: str, now: datetime) -> str:
    """Return the time that `text` names, relative to the zone-aware `now`. Raises NotATime. Dates without a zone are in
    UTC, days begin at midnight UTC, a month has 30 days and a year 365.
    """
    requested = " ".join(text.lower().split())
    try:
        found = _parse_relative(requested, now.astimezone(UTC)) or _parse_iso(requested)
    except (ValueError, OverflowError):
        found = None
    if found is None:
        raise NotATime(text)
    return format_utc(found)


def _parse_relative(asked: str, now: datetime) -> datetime | None:
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if asked in ("now", "today", "yesterday"):
        return {"now": now, "today": today, "yesterday": today - UNITS["day"]}[asked]
    if ago := _AGO_PATTERN.fullmatch(asked):
        return now - parse_number(ago[1]) * UNITS[ago[2]]
    if short := _SHORT_PATTERN.fullmatch(asked):
        return now - int(short[1]) * UNITS[UNIT_LETTERS[short[2]]]
    if last := _LAST_PATTERN.fullmatch(asked):
        return now - parse_number(last[1] or "a") * UNITS[last[2]]
    if day := _WEEKDAY_PATTERN.fullmatch(asked):
        return today - timedelta(days=(today.weekday() - WEEKDAYS.index(day[1]) - 1) % 7 + 1)
    return None


def parse_number(word: str) -> int:
    return WORD_NUMBERS.get(word) or int(word)


def _parse_iso(asked: str) -> datetime | None:
    if not asked.isascii() or not asked[:4].isdigit():
        return None
    if _MONTH_PATTERN.fullmatch(asked):
        asked = f"{asked}-01-01"[:10]
    found = datetime.fromisoformat(asked.upper())
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
