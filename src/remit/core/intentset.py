"""The intents of one file, ready to be asked: a decision costs the same at one intent and at a thousand."""

from collections.abc import Iterable, Iterator

from remit.core.globs import Scope, expand_braces
from remit.core.intent import Intent
from remit.core.once import Once

SELECTABLE = ("DRAFT", "IN_PROGRESS")
LISTED = 20
"""How many ids a finding names: a model that is told a thousand reads none of them."""

WILD = frozenset("*?[\\")


class Branch:
    """One folder of the tree of literal beginnings, and the intents whose patterns begin there."""

    __slots__ = ("below", "intents")

    def __init__(self) -> None:
        self.below: dict[str, Branch] = {}
        self.intents: list[Intent] = []


class IntentSet:
    """Intents by id, and by the folders that their scopes begin with. Made once for each content of the file."""

    def __init__(self, intents: Iterable[Intent] = ()) -> None:
        self.all = tuple(intents)
        self.ids = {intent.id: intent for intent in self.all}
        self.selectable = tuple(i.id for i in self.all if i.status in SELECTABLE)

    @Once
    def root(self) -> Branch:
        """The tree, planted when a path's owners are asked for: most calls ask for none."""
        root = Branch()
        for intent in self.all:
            if intent.status == "IN_PROGRESS":
                plant(root, intent)
        return root

    def get(self, intent_id: str | None) -> Intent | None:
        """The intent of that id, if there is one."""
        return self.ids.get(intent_id) if intent_id is not None else None

    def open_ids(self, barred: frozenset[str] = frozenset()) -> list[str]:
        """The first ids that one may select."""
        return [i for i in self.selectable[: LISTED + len(barred)] if i not in barred][:LISTED]

    def owners(self, path: str, *, fold: bool = False) -> tuple[str, ...]:
        """The intents in progress that own `path`, in the order of their ids."""
        found = {i.id for i in self.candidates(path, fold) if Scope(i.owned_scope).matches(path, fold=fold)}
        return tuple(sorted(found))

    def candidates(self, path: str, fold: bool) -> Iterator[Intent]:
        """Those whose patterns may match. Where spellings fold, all of them: their folders are spelled as written."""
        if fold:
            yield from (i for i in self.all if i.status == "IN_PROGRESS")
            return
        branch: Branch | None = self.root
        yield from self.root.intents
        for part in path.split("/"):
            branch = branch.below.get(part) if branch else None
            if branch is None:
                return
            yield from branch.intents


def plant(root: Branch, intent: Intent) -> None:
    """Put an intent where its patterns' literal folders lead."""
    for parts in {beginning(p) for pattern in intent.owned_scope if pattern[:1] != "!" for p in spelled(pattern)}:
        branch = root
        for part in parts:
            branch = branch.below.setdefault(part, Branch())
        branch.intents.append(intent)


def spelled(pattern: str) -> tuple[str, ...]:
    """The pattern with its braces expanded; none of one that cannot be used."""
    try:
        return expand_braces(pattern.removeprefix("./"))
    except ValueError:
        return ()


def beginning(pattern: str) -> tuple[str, ...]:
    """The folders that a pattern begins with, before anything that could stand for another."""
    parts: list[str] = []
    for part in pattern.strip("/").split("/"):
        if WILD & set(part) or part in ("", "."):
            break
        parts.append(part)
    return tuple(parts)
