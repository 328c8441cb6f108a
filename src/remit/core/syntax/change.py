"""Whether a change only moved, renamed and reformatted: the computed class of contracts, from contents alone.

`AST_REFACTOR` is said only where it is certain that nothing outside the changed files can tell the difference. That is
stricter than equal trees: a call of another function has an equal tree, and so has a method that moved to another
class. Exported names and parameters that callers may name are seen from outside, so renaming them is no refactoring.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Literal, TypeAlias

from msgspec import Struct

from remit.core.syntax.comments import LONE, placed
from remit.core.syntax.items import WORD, Item, Source
from remit.core.syntax.locals import Names
from remit.core.syntax.nodes import source_of
from remit.core.syntax.rows import row_of
from remit.core.syntax.twigs import TooDeep, Twig, flatten

Computed: TypeAlias = Literal["AST_REFACTOR", "INTENT_EVOLUTION"]


class FileChange(Struct, frozen=True):
    """One file of an action. A side is None where the file was not there."""

    path: str
    before: bytes | None
    after: bytes | None


def classify_change(files: Sequence[FileChange]) -> Computed | None:
    """The class of an action, over all its files; None where that cannot be known.

    One file that surely changed what it does settles it, whatever else changed beside it.
    """
    told = [of_file(file, files) for file in files if file.before != file.after]
    if "INTENT_EVOLUTION" in told:
        return "INTENT_EVOLUTION"
    return None if None in told or not told else "AST_REFACTOR"


def of_file(file: FileChange, action: Sequence[FileChange]) -> Computed | None:
    """The class of a change of one file: what comes or goes changes what is there."""
    row = row_of(file.path)
    if row is None:
        return None
    if file.before is None or file.after is None:
        sides = [content for content in (file.before, file.after) if content is not None]
        return "INTENT_EVOLUTION" if all(source_of(file.path, content) for content in sides) else None
    old, new = source_of(file.path, file.before), source_of(file.path, file.after)
    if old is None or new is None:
        return None
    try:
        kept = not row.layout and stands(old, new) and same(old, new, file.path, [f for f in action if f is not file])
        return "AST_REFACTOR" if kept else "INTENT_EVOLUTION"
    except TooDeep:
        return None


def stands(old: Source, new: Source) -> bool:
    """Whether what means something by its place stands where it did."""
    if old.row.returns and old.content.count(b"\r") != new.content.count(b"\r"):
        return False
    if old.row.restricted and LONE.findall(old.content) != LONE.findall(new.content):
        return False
    return placed(old.content) == placed(new.content) and old.spelt == new.spelt


def same(old: Source, new: Source, path: str, others: Sequence[FileChange]) -> bool:
    """Whether two versions of a file do the same, `others` being changed with it. Raises TooDeep."""
    renames = private_renames(old, new, path)
    texts = [text for other in others for text in (other.before, other.after) if text is not None]
    if any(name.encode() in text for pair in renames.items() for name in pair for text in texts):
        return False
    if renames:
        old = Source(old.content, old.row, old.root)
        old.renames = renames
    return equal(old.items, new.items)


def equal(old: Sequence[Item], new: Sequence[Item]) -> bool:
    """Whether two containers hold the same, in an order that means the same. Raises TooDeep."""
    pairs = paired(*(sorted_imports(side) for side in without_ends(old, new)))
    return pairs is not None and all(equal_items(a, b) for a, b in pairs)


def equal_items(a: Item, b: Item) -> bool:
    """Whether two parts are the same. Raises TooDeep."""
    if untouched(a, b):
        return True
    return a.form == b.form and (a.body is None) == (b.body is None) and equal(a.members, b.members)


def untouched(a: Item, b: Item) -> bool:
    """Whether two parts are the same, byte for byte."""
    return a.text == b.text and not a.source.renames and a.source.hidden == b.source.hidden


def without_ends(old: Sequence[Item], new: Sequence[Item]) -> tuple[Sequence[Item], Sequence[Item]]:
    """Both without what is untouched at the beginning and at the end: mostly that is nearly all."""
    shorter = min(len(old), len(new))
    start = next((n for n in range(shorter) if not untouched(old[n], new[n])), shorter)
    while start and old[start - 1].is_said_of_next:
        start -= 1
    left = shorter - start
    end = next((n for n in range(left) if not untouched(old[-1 - n], new[-1 - n])), left)
    return old[start : len(old) - end], new[start : len(new) - end]


def sorted_imports(items: Sequence[Item]) -> Sequence[Item]:
    """The same, the imports that stand side by side in an order of their own."""
    found: list[Item] = []
    for is_import, together in groupby(items, key=lambda item: item.is_import):
        run = list(together)
        found += sorted(run, key=lambda item: item.form) if is_import else run
    return found


def paired(old: Sequence[Item], new: Sequence[Item]) -> list[tuple[Item, Item]] | None:
    """Which part became which; None where one came or went, or moved to where it could mean something else."""
    if len(old) != len(new):
        return None
    before, after = [i.key for i in old], [i.key for i in new]
    if before == after:
        return list(zip(old, new, strict=True))
    if sorted(before) != sorted(after) or not may_move(old, new):
        return None
    places = {item.key: item for item in new}
    still = [i for i in new if not i.movable]
    kept = iter(still)
    return [(item, places[item.key] if item.movable else next(kept)) for item in old]


def may_move(old: Sequence[Item], new: Sequence[Item]) -> bool:
    """Whether only functions changed places, and only to where the language does not mind."""
    order = old[0].source.row.order
    moving = [i.key for i in old if i.movable]
    if order == "fixed" or len(set(moving)) < len(moving) or set(moving) != {i.key for i in new if i.movable}:
        return False
    if [i.key for i in old if not i.movable] != [i.key for i in new if not i.movable]:
        return False
    if [i.key for i in old if i.movable and i.is_ordered] != [i.key for i in new if i.movable and i.is_ordered]:
        return False
    return slots(old) == slots(new) and (order == "free" or uses(old) == uses(new))


def slots(items: Sequence[Item]) -> dict[tuple[str, str], tuple[int, bool]]:
    """How many parts that must not be crossed stand before each function, and whether the last is about it."""
    row, passed = items[0].source.row, 0
    found: dict[tuple[str, str], tuple[int, bool]] = {}
    for n, item in enumerate(items):
        if item.movable:
            found[item.key] = passed, n > 0 and items[n - 1].is_said_of_next
        elif row.order == "runs" or item.is_barrier or (row.order == "executed" and not item.inert):
            passed += 1
    return found


def uses(items: Sequence[Item]) -> set[tuple[object, ...]]:
    """Which part stands before which, of those where one mentions a name that the other binds."""
    named: dict[str, list[int]] = {}
    for n, item in enumerate(items):
        for word in item.binds:
            named.setdefault(word, []).append(n)
    found: set[tuple[object, ...]] = set()
    for n, item in enumerate(items):
        for other in (other for word in item.mentions & named.keys() for other in named[word] if other != n):
            found.add((item.key, items[other].key, n < other))
    return found


# --- functions that only their file can name ------------------------------------------------------------------


def private_renames(old: Source, new: Source, path: str) -> dict[str, str]:
    """New names of private functions, where each place that says the old name now could say the new one."""
    gone, come = fresh(old, new, path), fresh(new, old, path)
    if not gone or len(gone) != len(come):
        return {}
    pairs = dict(zip(gone, come, strict=True))
    mentions_old, mentions_new = Words(old), Words(new)
    certain = not mentions_old.revealing and all(
        mentions_old.places[a] > 1
        and mentions_old.only_variable(a)
        and not mentions_old.any(b)
        and mentions_new.only_variable(b)
        and not mentions_new.any(a)
        for a, b in pairs.items()
    )
    return pairs if certain else {}


def fresh(source: Source, other: Source, path: str) -> list[str]:
    """The private functions that the other version does not have, in order."""
    is_private = PRIVATE[source.row.naming.private]
    theirs = {item.name for item in other.items}
    names = [i.name for i in source.items if i.movable and i.name not in theirs and is_private(i, path)]
    return list(dict.fromkeys(names))


TOLD = frozenset({"__name__", "__qualname__"})
"""Attributes by which a function's name comes out, whatever it was given to before."""


class Words:
    """The words of one version, by whether they name variables."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.variables: set[str] = set()
        self.places: Counter[str] = Counter()
        self.others: set[str] = set(source.hidden | source.row.naming.reserved)
        self.revealing = source.pastes
        for item in source.items:
            name = item.definition.child_by_field_name("name") if item.definition is not None else None
            for node in item.nodes:
                self.read(flatten(node, source.content, source.row), name.start_byte if name is not None else -1)

    def read(self, twigs: Sequence[Twig], defined: int) -> None:
        """Take in one part, whose own name stands at `defined`."""
        naming = self.source.row.naming
        names = Names(twigs, naming)
        self.revealing |= any(t.leaf and (t.text in naming.revealing or names.is_dynamic(t)) for t in twigs)
        self.revealing |= any(t.text in TOLD and t.parent >= 0 and twigs[t.parent].kind == "attribute" for t in twigs)
        for at, twig in enumerate(twigs):
            if twig.leaf:
                plain = names.is_variable(at) and not names.is_fixed(at) and not names.is_poisoned(at)
                plain = (
                    plain and not names.uses.is_handed(at) and (twig.start == defined or not self.defines(at, twigs))
                )
                if plain and (twig.start == defined or names.binding(at) is None):
                    self.variables.add(twig.text)
                    self.places[twig.text] += 1
                else:
                    self.others.update([twig.text.strip("\"'`:"), *WORD.findall(twig.text)])

    def defines(self, at: int, twigs: Sequence[Twig]) -> bool:
        """Whether this is the name of a definition."""
        twig = twigs[at]
        return twig.field == "name" and twig.parent >= 0 and twigs[twig.parent].kind in self.source.row.definitions

    def only_variable(self, name: str) -> bool:
        """Whether the name stands for nothing but a variable or a function."""
        return name in self.variables and name not in self.others

    def any(self, name: str) -> bool:
        """Whether the name stands anywhere."""
        return name in self.variables or name in self.others


def _underscore(item: Item, _: str) -> bool:
    return item.name.startswith("_") and not item.name.startswith("__")


def _in_module(item: Item, _: str) -> bool:
    if item.nodes[-1].type == "export_statement":
        return False
    kinds = {node.type for node in item.source.root.children}
    return bool(kinds & {"import_statement", "export_statement"})


def _static(item: Item, path: str) -> bool:
    marks = [c for c in item.nodes[-1].children if c.type == "storage_class_specifier"]
    return any(item.source.text(c) == "static" for c in marks) and not path.lower().endswith((".h", ".hpp", ".hh"))


def _unmarked(item: Item, _: str) -> bool:
    files = (n for n in item.source.root.children if n.type == "mod_item" and n.child_by_field_name("body") is None)
    marked = len(item.nodes) > 1 or any(c.type == "visibility_modifier" for c in item.nodes[-1].children)
    return not marked and item.name != "main" and next(files, None) is None


def _nothing(_: Item, __: str) -> bool:
    return False


PRIVATE: dict[str, Callable[[Item, str], bool]] = {
    "underscore": _underscore,
    "module": _in_module,
    "static": _static,
    "unmarked": _unmarked,
    "none": _nothing,
}
