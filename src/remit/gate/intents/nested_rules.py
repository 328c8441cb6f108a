"""Rules in folders below the workspace's root, such as `pkg/.orchestration/`: they hold only where a person began to
govern that folder by itself.
"""

import re
import shlex
from contextlib import suppress

from msgspec import Struct

from remit.core.intent import INTENTS_FOLDER, LIST_FILE, LintFinding
from remit.core.untrusted_input import sanitise_line
from remit.gate.intents.owned_files import list_present_files
from remit.workspace.git.command import GitError
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER, Workspace, locate_workspace

RULES_FILE = re.compile(
    rf"(.+)/{re.escape(ORCHESTRATION_FOLDER)}/"
    rf"(?:remit\.toml|{re.escape(LIST_FILE)}|{INTENTS_FOLDER}/.+\.yaml)",
    re.DOTALL,
)


class NestedRules(Struct, frozen=True):
    """A folder with rules of its own that do not hold; `holding` is the root whose rules do, empty for nobody's."""

    folder: str
    holding: str

    def describe(self) -> str:
        name = sanitise_line(f"{self.folder}/{ORCHESTRATION_FOLDER}/", 200)
        holds = f"the rules of {sanitise_line(self.holding, 200)} hold there" if self.holding else "no rules hold there"
        cure = sanitise_line(f"remit init --repo {shlex.quote(self.folder)}", 250)
        return f"{name} does not count, and {holds}. Move its intents here and remove it; or let it govern: {cure}"


def find_nested_rules(workspace: Workspace) -> list[NestedRules]:
    """Return the folders below the root with rules that do not hold; those that git ignores are not looked for."""
    folders: dict[str, None] = {}
    with suppress(GitError, OSError):
        for path in list_present_files(workspace):
            if ORCHESTRATION_FOLDER in path and (found := RULES_FILE.fullmatch(path)):
                folders[found[1]] = None
    nested: list[NestedRules] = []
    for folder in folders:
        own = locate_workspace(workspace.root / folder)
        if own is None or not own.is_governed:
            nested.append(NestedRules(folder, ""))
        elif own.root != workspace.root / folder:
            nested.append(NestedRules(folder, str(own.root)))
    return nested


def describe_nested_rules(workspace: Workspace) -> str:
    """Return a line about the first such folder, with the number of others; empty for none."""
    first, *others = find_nested_rules(workspace) or [None]
    more = f" (and {len(others)} more: `remit intent lint` names them)" if others else ""
    return f"{first.describe()}{more}" if first else ""


def lint_nested_rules(workspace: Workspace) -> list[LintFinding]:
    return [LintFinding("NESTED_RULES", "warning", one.describe(), file="") for one in find_nested_rules(workspace)]
