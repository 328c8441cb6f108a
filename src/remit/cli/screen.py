"""The screen of a view: width, colours, clock; and paging of long answers.

Imports little: `remit --help` needs this module.
"""

import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple

DIFF_COLOURS = {"+": "green", "-": "red", "@": "cyan"}  # Git's colours of diff lines, by first character
MIN_WIDTH = 40  # narrower terminals wrap lines themselves
MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400
MAX_RELATIVE_S = 30 * DAY_S  # older times are shown as dates
PAGER_ENVIRONMENT = {"LESS": "FRX", "LV": "-c"}
"""Git's defaults for pagers. Source: git-config(1), core.pager, read 2026-11."""
FALSE_WORDS, TRUE_WORDS = ("false", "no", "off", "0"), ("true", "yes", "on", "1")
"""Git's boolean words. Source: git-config(1), read 2026-11."""


class Screen(NamedTuple):
    """A terminal; or a file or pipe, with `width` None and no cutting or wrapping."""

    now: float
    width: int | None = None
    is_coloured: bool = False
    has_glyphs: bool = True
    has_relative_times: bool = False

    def format_time(self, at: str | float) -> str:
        seconds = parse_seconds(at) if isinstance(at, str) else at
        if seconds is None:
            from remit.core.untrusted_input import sanitise_line  # only for what is no time

            return sanitise_line(str(at), 20)
        if self.has_relative_times:
            return relative_time(seconds, self.now)
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def open_screen(colour: str, times: str, now: float) -> Screen:
    """Return the screen of standard output, adjusted by the user's options."""
    from shutil import get_terminal_size

    is_terminal = sys.stdout.isatty()
    return Screen(
        now=now,
        width=max(MIN_WIDTH, get_terminal_size().columns) if is_terminal else None,
        is_coloured=has_colour(colour, os.environ, is_terminal=is_terminal),
        has_glyphs="utf" in (sys.stdout.encoding or "").lower(),
        has_relative_times=is_terminal if times == "auto" else times == "relative",
    )


def parse_seconds(at: str) -> float | None:
    try:
        found = datetime.fromisoformat(at)
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


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


def forced_colour(choice: str, environment: Mapping[str, str]) -> bool | None:
    """Return the user's choice; None to let the terminal decide. Strongest first: `--color`, NO_COLOR, CLICOLOR_FORCE
    or FORCE_COLOR, CLICOLOR=0, the terminal. Source: https://no-color.org and https://bixense.com/clicolors, read
    2026-11.
    """
    if choice != "auto":
        return choice == "always"
    if environment.get("NO_COLOR"):
        return False
    if any(environment.get(name, "0") not in ("", "0") for name in ("CLICOLOR_FORCE", "FORCE_COLOR")):
        return True
    return False if environment.get("CLICOLOR") == "0" else None


def has_colour(choice: str, environment: Mapping[str, str], *, is_terminal: bool) -> bool:
    forced = forced_colour(choice, environment)
    return is_terminal and environment.get("TERM", "dumb") != "dumb" if forced is None else forced


def choose_pager(own: Mapping[str, str], around: Mapping[str, str]) -> str:
    """Return the pager, empty for none: GIT_PAGER, `pager.blame`, `core.pager`, PAGER, less. `own` are git settings of
    the user and the machine: a repository's may name any program, and are ignored. `pager.blame` may also be a boolean.
    """
    wanted = own.get("pager.blame", "")
    if wanted.lower() in FALSE_WORDS:
        return ""
    named = None if wanted.lower() in ("", *TRUE_WORDS) else wanted
    less = "" if around.get("TERM", "dumb") == "dumb" else "less"
    choices = (around.get("GIT_PAGER"), named, own.get("core.pager"), around.get("PAGER"), less)
    chosen = next(word for word in choices if word is not None)
    return "" if chosen == "cat" else chosen


def show_in_pager(answer: bytes, pager: str) -> None:
    """Run the pager with the answer as input, and wait for its end."""
    from subprocess import PIPE, Popen  # few answers need a pager

    try:
        child = Popen(["/bin/sh", "-c", pager], stdin=PIPE, env={**PAGER_ENVIRONMENT, **os.environ})
    except OSError:
        sys.stdout.buffer.write(answer)
        return
    try:
        child.communicate(answer)
    except (BrokenPipeError, KeyboardInterrupt):
        child.wait()
