"""Settings that are sound to us and not to the agent: it ignores the whole file then, and our hooks with it."""

from pathlib import Path

from remit.adapters import ROWS
from remit.wiring.json_text import unusual
from remit.wiring.plan import FilePlan, shown_path

NAMES = {"bom": "a byte order mark", "comment": "a comment", "comma": "a comma before a closing bracket"}


def unread(file: FilePlan) -> list[tuple[str, str]]:
    """The agents that will not read this file of hooks as it would stand, each with what in it keeps them from it."""
    if "hooks" not in file.parts or file.path.suffix != ".json":
        return []
    there = unusual(file.after)
    found = [(ROWS[agent], sorted(there - ROWS[agent].json_with)) for agent in file.agents]
    return [(row.title, " and ".join(NAMES[form] for form in forms)) for row, forms in found if forms]


def unread_line(file: FilePlan, home: Path) -> str:
    """The same in words; empty where all is well."""
    return "\n".join(
        f"  {title} does not read {shown_path(file.path, home)} while there is {what} in it: "
        "none of its hooks run. Take it out by hand"
        for title, what in unread(file)
    )
