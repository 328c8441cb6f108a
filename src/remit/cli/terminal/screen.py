"""The screen of a view: width, colours, clock."""

import os
import shutil
import sys
from datetime import UTC, datetime

from msgspec import Struct

from remit.cli.terminal.colour import has_colour
from remit.core.display_text import sanitise_line

MIN_WIDTH = 40
"""Narrower terminals wrap lines themselves."""
MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400
MAX_RELATIVE_S = 30 * DAY_S
"""Older times are shown as dates."""


class Screen(Struct, frozen=True):
    """A terminal; or a file or pipe, with `width` None and no cutting or wrapping."""

    now: float
    width: int | None = None
    is_coloured: bool = False
    has_glyphs: bool = True
    has_relative_times: bool = False

    def format_time(self, at: str | float) -> str:
        seconds = parse_seconds(at) if isinstance(at, str) else at
        if seconds is None:
            return sanitise_line(str(at), 20)
        return relative_time(seconds, self.now) if self.has_relative_times else iso_time(seconds)


def parse_seconds(at: str) -> float | None:
    """Return an ISO 8601 time as seconds since 1970; None for invalid text."""
    try:
        found = datetime.fromisoformat(at)
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def iso_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def relative_time(seconds: float, now: float) -> str:
    """Return the age of a time in one unit; a local date beyond 30 days."""
    age = now - seconds
    if age > MAX_RELATIVE_S:
        return datetime.fromtimestamp(seconds, UTC).astimezone().strftime("%Y-%m-%d")
    size = abs(age)
    if size < 1:
        return "now"
    unit, name = next(((u, n) for u, n in ((DAY_S, "d"), (HOUR_S, "h"), (MINUTE_S, "min")) if size >= u), (1, "s"))
    amount = f"{int(size // unit)} {name}"
    return f"{amount} ago" if age > 0 else f"in {amount}"


def has_glyphs() -> bool:
    return "utf" in (sys.stdout.encoding or "").lower()


def open_screen(colour: str, times: str, now: float) -> Screen:
    """Return the screen of standard output, adjusted by the user's options."""
    is_terminal = sys.stdout.isatty()
    return Screen(
        now=now,
        width=max(MIN_WIDTH, shutil.get_terminal_size().columns) if is_terminal else None,
        is_coloured=has_colour(colour, os.environ, is_terminal=is_terminal),
        has_glyphs=has_glyphs(),
        has_relative_times=is_terminal if times == "auto" else times == "relative",
    )
