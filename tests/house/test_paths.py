"""What has to be touched to add a thing: the table in CONTRIBUTING.md equals the tables that the code has."""

import inspect
import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatch
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

import pytest

from remit.cli.root import COMMANDS
from remit.console.pages.navigation import NAVIGATION
from remit.console.pages.page import Page
from remit.console.routes import PAGES
from remit.core import agents
from remit.core.decision import ErrorType
from remit.core.intents.constraints import CONSTRAINT_KINDS
from remit.extensions import find_extensions
from remit.policy.decide import CHECKS
from sources import ROOT, list_modules

SEARCHED = [*list_modules(), ROOT / "docs" / "generate.py", ROOT / "tests" / "cli" / "test_hostile_text.py"]
TEXTS = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in SEARCHED}
ROW = re.compile(r"^\| (an? [\w ]+) \|(.*)\|(.*)\| (\d) \|$", re.MULTILINE)
ROWS = {
    name: (write, enter, int(count))
    for name, write, enter, count in ROW.findall((ROOT / "CONTRIBUTING.md").read_text())
}

Entry = tuple[str, Sequence[str]]
"""A pattern by which files name the entry, and the files that are its own."""


def find_file(code: Callable[..., Any]) -> str:
    return Path(inspect.getfile(code)).relative_to(ROOT).as_posix()


def list_pages(own: bool) -> list[Entry]:
    """List the pages that have an entry on the left, of Remit or of the packages."""
    entries = {entry[0] for group in NAVIGATION for entry in group}
    pages = [page for page in PAGES if page.nav in entries and (page.read.__module__.startswith("remit.") == own)]
    return [(rf'\b{page.read.__name__}\b|"{page.nav}"', (find_file(page.read), find_template(page))) for page in pages]


def find_template(page: Page) -> str:
    folder = Path(inspect.getfile(page.read)).parent
    found = [path for path in (folder / "templates", folder.parent / "templates") if (path / page.template).is_file()]
    return (found[0] / page.template).relative_to(ROOT).as_posix()


def list_commands(entries: dict[str, tuple[str, str]], prefix: str = "") -> list[Entry]:
    specs = {name: find_spec(prefix + where.partition(":")[0]) for name, (where, _) in entries.items()}
    files = {name: Path(spec.origin or "") for name, spec in specs.items() if spec is not None}
    return [(f'"{name}"', (file.relative_to(ROOT).as_posix(),)) for name, file in files.items()]


def list_entries() -> dict[str, list[Entry]]:
    rows = {name for name, value in vars(agents).items() if isinstance(value, agents.Agent)}
    added = {
        name: entry for each in find_extensions() for group in each.commands.values() for name, entry in group.items()
    }
    return {
        "a check": [(rf"\bcheck_{name}\b", (find_file(check),)) for name, check in CHECKS.items()],
        "a code of refusals": [(f'"{code}"', ()) for code in get_args(ErrorType)],
        "a kind of constraint": [(f'"{kind}"', ()) for kind in CONSTRAINT_KINDS],
        "an agent": [(rf"\b{name}\b", ()) for name in rows],
        "a page of the console": list_pages(own=True),
        "a command": list_commands(COMMANDS, "remit.cli."),
        "a page of a package": list_pages(own=False),
        "a command of a package": list_commands(added),
    }


ENTRIES = list_entries()


def find_files(entries: Sequence[Entry], patterns: Sequence[str]) -> set[str]:
    """Return the files that each entry is in; a file that fits one of the patterns counts as the pattern."""
    nearest_first = sorted(patterns, key=len, reverse=True)
    counted = {path: next((p for p in nearest_first if fnmatch(path, p)), path) for path in TEXTS}
    found: set[str] | None = None
    for names, own in entries:
        # A file that an earlier entry is not in is not searched again.
        searched = [path for path, name in counted.items() if found is None or name in found]
        named = {*own, *(path for path in searched if re.search(names, TEXTS[path]))}
        each = {counted.get(path) or next((p for p in nearest_first if fnmatch(path, p)), path) for path in named}
        found = each if found is None else found & each
    return found or set()


def test_the_table_has_each_kind_once() -> None:
    assert [*ROWS] == [*ENTRIES]
    assert all(len(entries) > 1 for entries in ENTRIES.values())


@pytest.mark.parametrize("kind", ENTRIES)
def test_what_is_added_is_entered_where_the_table_says_and_nowhere_else(kind: str) -> None:
    write, enter, count = ROWS[kind]
    patterns = re.findall(r"`([^`]+)`", f"{write} {enter}")
    assert find_files(ENTRIES[kind], patterns) == set(patterns)
    assert len(patterns) == count


def test_a_table_that_is_not_named_is_found() -> None:
    assert find_files(ENTRIES["a check"], ()) == {"src/remit/policy/decide.py"}
