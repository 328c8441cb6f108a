"""Intents of a file, indexed by id and by scope folder: lookups cost the same for one intent as for a thousand."""

from collections.abc import Iterable, Iterator

from remit.core.intent import Intent
from remit.core.lazy_property import LazyProperty
from remit.core.scope.globs import Scope, expand_braces

SELECTABLE_STATUSES = ("DRAFT", "IN_PROGRESS")
MAX_LISTED_IDS = 20
"""Ids named by a finding: a model reads no list of a thousand."""

WILDCARDS = frozenset("*?[\\")


class FolderNode:
    """A folder in the tree of literal scope prefixes, with the intents whose patterns begin here."""

    __slots__ = ("children", "intents")

    def __init__(self) -> None:
        self.children: dict[str, FolderNode] = {}
        self.intents: list[Intent] = []


class IntentSet:
    """Intents indexed by id and by scope folder. Built once per content of the file."""

    def __init__(self, intents: Iterable[Intent] = ()) -> None:
        self.intents = tuple(intents)
        self.ids = {intent.id: intent for intent in self.intents}
        self.selectable_ids = tuple(i.id for i in self.intents if i.status in SELECTABLE_STATUSES)

    @LazyProperty
    def folder_tree(self) -> FolderNode:
        """Build the folder tree on first use: most calls never look up a path's owners."""
        root = FolderNode()
        for intent in self.intents:
            if intent.status == "IN_PROGRESS":
                insert_intent(root, intent)
        return root

    def get(self, intent_id: str | None) -> Intent | None:
        return self.ids.get(intent_id) if intent_id is not None else None

    def list_open_ids(self, ignored: frozenset[str] = frozenset()) -> list[str]:
        return [i for i in self.selectable_ids[: MAX_LISTED_IDS + len(ignored)] if i not in ignored][:MAX_LISTED_IDS]

    def find_owners(self, path: str, *, fold: bool = False) -> tuple[str, ...]:
        owners = {i.id for i in self.find_candidates(path, fold) if Scope(i.owned_scope).matches(path, fold=fold)}
        return tuple(sorted(owners))

    def find_candidates(self, path: str, fold: bool) -> Iterator[Intent]:
        """Yield intents whose patterns may match. With `fold`, yield each: folders are indexed as written."""
        if fold:
            yield from (i for i in self.intents if i.status == "IN_PROGRESS")
            return
        branch: FolderNode | None = self.folder_tree
        yield from self.folder_tree.intents
        for part in path.split("/"):
            branch = branch.children.get(part) if branch else None
            if branch is None:
                return
            yield from branch.intents


def insert_intent(root: FolderNode, intent: Intent) -> None:
    """Insert an intent at the literal folders of its patterns."""
    for parts in {
        literal_folders(p) for pattern in intent.owned_scope if pattern[:1] != "!" for p in expand_pattern(pattern)
    }:
        branch = root
        for part in parts:
            branch = branch.children.setdefault(part, FolderNode())
        branch.intents.append(intent)


def expand_pattern(pattern: str) -> tuple[str, ...]:
    """Return the pattern with braces expanded; empty for an invalid pattern."""
    try:
        return expand_braces(pattern.removeprefix("./"))
    except ValueError:
        return ()


def literal_folders(pattern: str) -> tuple[str, ...]:
    """Return the folders before the pattern's first wildcard."""
    parts: list[str] = []
    for part in pattern.strip("/").split("/"):
        if WILDCARDS & set(part) or part in ("", "."):
            break
        parts.append(part)
    return tuple(parts)
