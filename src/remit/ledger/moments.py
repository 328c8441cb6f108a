"""A person's words for a time, as records write theirs: UTC, microseconds and a Z."""

import re
from datetime import UTC, datetime, timedelta

UNITS = {
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
    "month": timedelta(days=30),
    "year": timedelta(days=365),
}
LETTERS = {"s": "second", "m": "minute", "h": "hour", "d": "day", "w": "week", "y": "year"}
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
NUMBERS = {"a": 1, "an": 1, **{word: n for n, word in enumerate(WORDS, 1)}}

_MANY = rf"([0-9]{{1,5}}|{'|'.join(NUMBERS)})"
_AGO = re.compile(rf"{_MANY}[ _.-]*({'|'.join(UNITS)})s?[ _.-]+ago")
_SHORT = re.compile(rf"([0-9]{{1,5}}) ?([{''.join(LETTERS)}])")
_LAST = re.compile(rf"(?:last|past) (?:{_MANY} )?({'|'.join(UNITS)})s?")
_DAY = re.compile(rf"(?:last )?({'|'.join(DAYS)})")
_MONTH = re.compile(r"\d{4}(?:-\d\d)?")


class NotATime(ValueError):
    """A text that names no time."""

    def __init__(self, text: str) -> None:
        super().__init__(
            f"{text[:60]!r} is no time; expected 2026-02-21, 2026-02-21T12:00:00Z, 7d, '2 days ago', yesterday, "
            "monday or 'last week'"
        )


def moment(text: str, now: datetime) -> str:
    """The time that `text` names, seen from `now`, which has a zone. Raises NotATime.

    A date without a zone is in UTC, and days begin at midnight there; a month is 30 days, a year 365.
    """
    asked = " ".join(text.lower().split())
    try:
        found = _spoken(asked, now.astimezone(UTC)) or _written(asked)
    except (ValueError, OverflowError):
        found = None
    if found is None:
        raise NotATime(text)
    return found.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _spoken(asked: str, now: datetime) -> datetime | None:
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if asked in ("now", "today", "yesterday"):
        return {"now": now, "today": today, "yesterday": today - UNITS["day"]}[asked]
    if ago := _AGO.fullmatch(asked):
        return now - number(ago[1]) * UNITS[ago[2]]
    if short := _SHORT.fullmatch(asked):
        return now - int(short[1]) * UNITS[LETTERS[short[2]]]
    if last := _LAST.fullmatch(asked):
        return now - number(last[1] or "a") * UNITS[last[2]]
    if day := _DAY.fullmatch(asked):
        return today - timedelta(days=(today.weekday() - DAYS.index(day[1]) - 1) % 7 + 1)
    return None


def number(word: str) -> int:
    """What a word of `_MANY` stands for."""
    return NUMBERS.get(word) or int(word)


def _written(asked: str) -> datetime | None:
    """ISO 8601, also a year or a month alone. Raises ValueError."""
    if not asked.isascii() or not asked[:4].isdigit():
        return None
    if _MONTH.fullmatch(asked):
        asked = f"{asked}-01-01"[:10]
    found = datetime.fromisoformat(asked.upper())
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
