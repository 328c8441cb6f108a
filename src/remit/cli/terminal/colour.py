"""Whether text is coloured, by the user's option and environment. Imports nothing: `remit --help` needs this module.

Precedence, strongest first: `--color`, NO_COLOR, CLICOLOR_FORCE or FORCE_COLOR, CLICOLOR=0, the terminal. Source:
https://no-color.org and https://bixense.com/clicolors, read 2026-11.
"""

from collections.abc import Mapping

DIFF_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
"""Git's colours of diff lines, by first character."""


def forced_colour(choice: str, environment: Mapping[str, str]) -> bool | None:
    """Return the user's choice; None to let the terminal decide."""
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
