"""The intents of one file, ready to be asked: a decision costs the same at one intent and at a thousand."""

from collections.abc import Iterable, Iterator

from remit.core.intent import Intent
from remit.core.lazy_property import LazyProperty
from remit.core.scope.globs import Scope, expand_braces

SELECTABLE_STATUSES = ("DRAFT", "IN_PROGRESS")
MAX_LISTED_IDS = 20
"""How many ids a finding names: a model that is told a thousand reads none of them."""

WILDCARDS = frozenset("*?[\\")


class FolderNode:
    """One folder of the tree of literal beginnings, and the intents whose patterns begin there."""

    __slots__ = ("children", "intents")

    def __init__(self) -> None:
        self.children: dict[str, FolderNode] = {}
        self.intents: list[Intent] = []


class IntentSet:
    """Intents by id, and by the folders that their scopes begin with. Made once for each content of the file."""

    def __init__(self, intents: Iterable[Intent] = ()) -> None:
        self.intents = tuple(intents)
        self.ids = {intent.id: intent for intent in self.intents}
        self.selectable_ids = tuple(i.id for i in self.intents if i.status in SELECTABLE_STATUSES)

    @LazyProperty
    def folder_tree(self) -> FolderNode:
        """The tree, planted when a path's owners are asked for: most calls ask for none."""
        root = FolderNode()
        for intent in self.intents:
            if intent.status == "IN_PROGRESS":
                insert_intent(root, intent)
        return root

    def get(self, intent_id: str | None) -> Intent | None:
        """The intent of that id, if there is one."""
        return self.ids.get(intent_id) if intent_id is not None else None

    def list_open_ids(self, ignored: frozenset[str] = frozenset()) -> list[str]:
        """The first ids that one may select."""
        return [i for i in self.selectable_ids[: MAX_LISTED_IDS + len(ignored)] if i not in ignored][:MAX_LISTED_IDS]

    def find_owners(self, path: str, *, fold: bool = False) -> tuple[str, ...]:
        """The intents in progress that own `path`, in the order of their ids."""
        found = {i.id for i in self.find_candidates(path, fold) if Scope(i.owned_scope).matches(path, fold=fold)}
        return tuple(sorted(found))

    def find_candidates(self, path: str, fold: bool) -> Iterator[Intent]:
        """Those whose patterns may match. Where spellings fold, all of them: their folders are spelled as written."""
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
    """Put an intent where its patterns' literal folders lead."""
    for parts in {
        literal_folders(p) for pattern in intent.owned_scope if pattern[:1] != "!" for p in expand_pattern(pattern)
    }:
        branch = root
        for part in parts:
            branch = branch.children.setdefault(part, FolderNode())
        branch.intents.append(intent)


def expand_pattern(pattern: str) -> tuple[str, ...]:
    """The pattern with its braces expanded; none of one that cannot be used."""
    try:
        return expand_braces(pattern.removeprefix("./"))
    except ValueError:
        return ()


def literal_folders(pattern: str) -> tuple[str, ...]:
    """The folders that a pattern begins with, before anything that could stand for another."""
    parts: list[str] = []
    for part in pattern.strip("/").split("/"):
        if WILDCARDS & set(part) or part in ("", "."):
            break
        parts.append(part)
    return tuple(parts)
