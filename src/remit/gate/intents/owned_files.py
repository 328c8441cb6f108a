"""Files of the workspace and the scopes that own them; patterns that own nothing any more because their files moved or
went; and rules in folders below the root, such as `pkg/.orchestration/`, which hold only where a person began to govern
that folder by itself.
"""

import os
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress

from msgspec import Struct

from remit.core.intent import FINAL_STATUSES, INTENTS_FOLDER, LIST_FILE, Intent, IntentsDocument, LintFinding
from remit.core.scope.path_patterns import Scope, find_literal_prefix
from remit.core.untrusted_input import sanitise_line
from remit.workspace.git.command import Git, GitError
from remit.workspace.observe.observation import walk_paths
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER, Workspace, locate_workspace


def list_present_files(workspace: Workspace) -> list[str]:
    """Return the files of the workspace that git does not ignore; all files without git. Raises GitError."""
    if workspace.common_dir is None:
        return list(walk_paths(workspace.root))
    out = Git(workspace.root).run("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return list(dict.fromkeys(filter(None, os.fsdecode(out).split("\0"))))


def match_files(patterns: Sequence[str], files: Sequence[str]) -> list[str]:
    """Return the files that the patterns own. Files outside the patterns' literal folders are not compared."""
    prefixes = tuple(find_literal_prefix(pattern) for pattern in patterns if not pattern.startswith("!"))
    near = files if "" in prefixes else [path for path in files if f"{path}/".startswith(prefixes)]
    return list(filter(Scope(tuple(patterns)).matches, near))


MOVED_SHARE = 0.6
"""Share of a pattern's files that have to lie below one folder now, for it to be proposed."""


class DeadPattern(Struct, frozen=True):
    """Pattern that owned `files` before `commit` (day: `date`), and owns none now. `moved` of them lie below the
    `target` pattern.
    """

    pattern: str
    commit: str
    date: str
    files: int
    moved: int = 0
    target: str = ""

    def describe(self) -> str:
        lead = f"{self.pattern} owns nothing since {self.commit[:7]} ({self.date}): "
        if self.target:
            return lead + f"{self.moved} of its {self.files} files moved to {self.target.removesuffix('**')}"
        return lead + f"its {self.files} files are gone"


def find_dead_patterns(workspace: Workspace, intents: Sequence[Intent]) -> dict[str, list[DeadPattern]]:
    """Return the dead patterns of open intents by intent. A pattern that never owned a file is new, and not dead.

    Raises GitError.
    """
    if workspace.common_dir is None:
        return {}
    files = list_present_files(workspace)
    found: dict[str, list[DeadPattern]] = {}
    for intent in intents:
        if intent.status in FINAL_STATUSES:
            continue
        for pattern in intent.owned_scope:
            if pattern.startswith("!") or match_files((pattern,), files):
                continue
            if dead := trace_pattern(workspace, pattern, files):
                found.setdefault(intent.id, []).append(dead)
    return found


def trace_pattern(workspace: Workspace, pattern: str, files: Sequence[str]) -> DeadPattern | None:
    """Return when the files of a pattern went, and where to; None if HEAD's history never held one."""
    git, prefix = Git(workspace.root), find_literal_prefix(pattern)
    last = git.text(
        *("log", "-1", "--diff-filter=D", "--format=%H %cs", "--end-of-options", "HEAD", "--"),
        *([f":(literal){prefix}"] if prefix else ["."]),
        ok=(0, 128),
    )
    commit, _, date = last.partition(" ")
    if not commit:
        return None
    # Without a path: of a rename, git shows a single path only the half that it names.
    out = git.run("show", "-M", "-m", "--first-parent", "--relative", "--format=", "--name-status", "-z", commit)
    scope, gone, folders = Scope((pattern,)), 0, Counter[str]()
    for status, old, new in read_name_status(os.fsdecode(out).split("\0")):
        if status in "DR" and scope.matches(old):
            gone += 1
            if status == "R" and new in files:
                # The folder in the place of the pattern's own, where the path below it is the same.
                tail = old.removeprefix(prefix)
                folders[new.removesuffix(tail) if new.endswith(f"/{tail}") else new.rpartition("/")[0] + "/"] += 1
    if not gone:
        return None
    target, moved = folders.most_common(1)[0] if folders else ("", 0)
    is_move = target not in ("", "/") and moved >= MOVED_SHARE * gone
    return DeadPattern(pattern, commit, date, gone, moved, f"{target}**" if is_move else "")


def read_name_status(words: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield the letter, the old and the new path of each change; the new one is empty unless it was renamed."""
    parts = iter(words)
    for status in parts:
        letter = status.lstrip("\n")[:1]
        if letter:
            yield letter, next(parts, ""), next(parts, "") if letter in "RC" else ""


def lint_dead_scopes(workspace: Workspace, document: IntentsDocument) -> list[LintFinding]:
    """Return a warning for each dead pattern, with its cure."""
    try:
        dead = find_dead_patterns(workspace, document.intents)
    except GitError:
        return []
    findings: list[LintFinding] = []
    for intent_id, patterns in dead.items():
        for each in patterns:
            to = f" {shlex.quote(each.target)}" if each.target else " GLOB"
            cure = f"remit intent edit {intent_id} --replace-scope {shlex.quote(each.pattern)}{to}"
            message = f"{sanitise_line(each.describe())}. Run: {sanitise_line(cure)}"
            file = document.files.get(intent_id, LIST_FILE)
            findings.append(LintFinding("DEAD_SCOPE", "warning", message, intent_id, "owned_scope", file=file))
    return findings


def warn_about_dead_scope(workspace: Workspace, intent: Intent) -> list[str]:
    """Return a warning for each dead pattern of an intent that is selected: a person replaces it, not an agent."""
    try:
        dead = find_dead_patterns(workspace, [intent]).get(intent.id, [])
    except GitError:
        return []
    return [sanitise_line(f"{each.describe()}. A person can replace the pattern of {intent.id}.") for each in dead]


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
