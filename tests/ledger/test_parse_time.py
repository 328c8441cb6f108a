"""Times in a person's words."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remit.ledger.parse_time import NotATime, parse_time

NOW = datetime(2026, 11, 22, 14, 30, tzinfo=UTC)
"""A Sunday."""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("now", "2026-11-22T14:30"),
        ("today", "2026-11-22T00:00"),
        ("yesterday", "2026-11-21T00:00"),
        ("Last Week", "2026-11-15T14:30"),
        ("last month", "2026-10-23T14:30"),
        ("2 days ago", "2026-11-20T14:30"),
        ("2.days.ago", "2026-11-20T14:30"),
        ("an hour ago", "2026-11-22T13:30"),
        ("two weeks ago", "2026-11-08T14:30"),
        ("last 3 days", "2026-11-19T14:30"),
        ("past twelve hours", "2026-11-22T02:30"),
        ("0 days ago", "2026-11-22T14:30"),
        ("30m", "2026-11-22T14:00"),
        ("2w", "2026-11-08T14:30"),
        ("saturday", "2026-11-21T00:00"),
        ("last sunday", "2026-11-15T00:00"),
        ("2026", "2026-01-01T00:00"),
        ("2026-02", "2026-02-01T00:00"),
        ("2026-02-21", "2026-02-21T00:00"),
        ("2026-02-21 12:05", "2026-02-21T12:05"),
        ("2026-02-21t12:05:00z", "2026-02-21T12:05"),
        ("2026-02-21T12:05+02:00", "2026-02-21T10:05"),
    ],
)
def test_a_time_is_read(text: str, expected: str) -> None:
    assert parse_time(text, NOW) == f"{expected}:00.000000Z"


def test_days_begin_where_records_count_them() -> None:
    there = NOW.astimezone(timezone(timedelta(hours=11)))
    assert parse_time("today", there) == parse_time("today", NOW)


@pytest.mark.parametrize("text", ["", "garbage", "2026-13-45", "99999 years ago", "0001-01-01T00:00+23:00", "7", "d"])
def test_what_is_no_time_is_named(text: str) -> None:
    with pytest.raises(NotATime, match="is no time; expected"):
        parse_time(text, NOW)


@given(st.text(max_size=30))
def test_any_text_is_a_time_or_said_to_be_none(text: str) -> None:
    with suppress(NotATime):
        assert parse_time(text, NOW).endswith("Z")
