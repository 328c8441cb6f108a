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

from remit.core.code.comments import LONE_MODIFIER, find_positional_marks
from remit.core.code.definitions import parse_source
from remit.core.code.flat_tree import FlatNode, TreeTooDeep, flatten_tree
from remit.core.code.items import WORD_PATTERN, Item, SourceFile
from remit.core.code.languages import find_language
from remit.core.code.local_names import NameScopes

ComputedClass: TypeAlias = Literal["AST_REFACTOR", "INTENT_EVOLUTION"]


class FileChange(Struct, frozen=True):
    """One file of an action. A side is None where the file was not there."""

    path: str
    before: bytes | None
    after: bytes | None


def classify_change(files: Sequence[FileChange]) -> ComputedClass | None:
    """The class of an action, over all its files; None where that cannot be known.

    One file that surely changed what it does settles it, whatever else changed beside it.
    """
    told = [classify_file(file, files) for file in files if file.before != file.after]
    if "INTENT_EVOLUTION" in told:
        return "INTENT_EVOLUTION"
    return None if None in told or not told else "AST_REFACTOR"


def classify_file(file: FileChange, action: Sequence[FileChange]) -> ComputedClass | None:
    """The class of a change of one file: what comes or goes changes what is there."""
    row = find_language(file.path)
    if row is None:
        return None
    if file.before is None or file.after is None:
        sides = [content for content in (file.before, file.after) if content is not None]
        return "INTENT_EVOLUTION" if all(parse_source(file.path, content) for content in sides) else None
    old, new = parse_source(file.path, file.before), parse_source(file.path, file.after)
    if old is None or new is None:
        return None
    try:
        kept = (
            not row.layout
            and keeps_positions(old, new)
            and is_equivalent(old, new, file.path, [f for f in action if f is not file])
        )
        return "AST_REFACTOR" if kept else "INTENT_EVOLUTION"
    except TreeTooDeep:
        return None


def keeps_positions(old: SourceFile, new: SourceFile) -> bool:
    """Whether what means something by its place stands where it did."""
    if old.row.returns and old.content.count(b"\r") != new.content.count(b"\r"):
        return False
    if old.row.restricted and LONE_MODIFIER.findall(old.content) != LONE_MODIFIER.findall(new.content):
        return False
    return (
        find_positional_marks(old.content) == find_positional_marks(new.content)
        and old.stringified_calls == new.stringified_calls
    )


def is_equivalent(old: SourceFile, new: SourceFile, path: str, others: Sequence[FileChange]) -> bool:
    """Whether two versions of a file do the same, `others` being changed with it. Raises TooDeep."""
    renames = find_private_renames(old, new, path)
    texts = [text for other in others for text in (other.before, other.after) if text is not None]
    if any(name.encode() in text for pair in renames.items() for name in pair for text in texts):
        return False
    if renames:
        old = SourceFile(old.content, old.row, old.root)
        old.renames = renames
    return match_items(old.items, new.items)


def match_items(old: Sequence[Item], new: Sequence[Item]) -> bool:
    """Whether two containers hold the same, in an order that means the same. Raises TooDeep."""
    pairs = pair_items(*(sort_imports(side) for side in trim_unchanged(old, new)))
    return pairs is not None and all(match_item(a, b) for a, b in pairs)


def match_item(a: Item, b: Item) -> bool:
    """Whether two parts are the same. Raises TooDeep."""
    if has_same_text(a, b):
        return True
    return a.normal_form == b.normal_form and (a.body is None) == (b.body is None) and match_items(a.members, b.members)


def has_same_text(a: Item, b: Item) -> bool:
    """Whether two parts are the same, byte for byte."""
    return a.text == b.text and not a.source.renames and a.source.macro_words == b.source.macro_words


def trim_unchanged(old: Sequence[Item], new: Sequence[Item]) -> tuple[Sequence[Item], Sequence[Item]]:
    """Both without what is untouched at the beginning and at the end: mostly that is nearly all."""
    shorter = min(len(old), len(new))
    start = next((n for n in range(shorter) if not has_same_text(old[n], new[n])), shorter)
    while start and old[start - 1].describes_next:
        start -= 1
    left = shorter - start
    end = next((n for n in range(left) if not has_same_text(old[-1 - n], new[-1 - n])), left)
    return old[start : len(old) - end], new[start : len(new) - end]


def sort_imports(items: Sequence[Item]) -> Sequence[Item]:
    """The same, the imports that stand side by side in an order of their own."""
    found: list[Item] = []
    for is_import, together in groupby(items, key=lambda item: item.is_import):
        run = list(together)
        found += sorted(run, key=lambda item: item.normal_form) if is_import else run
    return found


def pair_items(old: Sequence[Item], new: Sequence[Item]) -> list[tuple[Item, Item]] | None:
    """Which part became which; None where one came or went, or moved to where it could mean something else."""
    if len(old) != len(new):
        return None
    before, after = [i.key for i in old], [i.key for i in new]
    if before == after:
        return list(zip(old, new, strict=True))
    if sorted(before) != sorted(after) or not may_reorder(old, new):
        return None
    places = {item.key: item for item in new}
    still = [i for i in new if not i.is_movable]
    kept = iter(still)
    return [(item, places[item.key] if item.is_movable else next(kept)) for item in old]


def may_reorder(old: Sequence[Item], new: Sequence[Item]) -> bool:
    """Whether only functions changed places, and only to where the language does not mind."""
    order = old[0].source.row.order
    moving = [i.key for i in old if i.is_movable]
    if order == "fixed" or len(set(moving)) < len(moving) or set(moving) != {i.key for i in new if i.is_movable}:
        return False
    if [i.key for i in old if not i.is_movable] != [i.key for i in new if not i.is_movable]:
        return False
    if [i.key for i in old if i.is_movable and i.order_matters] != [
        i.key for i in new if i.is_movable and i.order_matters
    ]:
        return False
    return count_barriers(old) == count_barriers(new) and (
        order == "free" or list_dependencies(old) == list_dependencies(new)
    )


def count_barriers(items: Sequence[Item]) -> dict[tuple[str, str], tuple[int, bool]]:
    """How many parts that must not be crossed stand before each function, and whether the last is about it."""
    row, passed = items[0].source.row, 0
    found: dict[tuple[str, str], tuple[int, bool]] = {}
    for n, item in enumerate(items):
        if item.is_movable:
            found[item.key] = passed, n > 0 and items[n - 1].describes_next
        elif row.order == "runs" or item.is_barrier or (row.order == "executed" and not item.is_inert):
            passed += 1
    return found


def list_dependencies(items: Sequence[Item]) -> set[tuple[object, ...]]:
    """Which part stands before which, of those where one mentions a name that the other binds."""
    named: dict[str, list[int]] = {}
    for n, item in enumerate(items):
        for word in item.bound_names:
            named.setdefault(word, []).append(n)
    found: set[tuple[object, ...]] = set()
    for n, item in enumerate(items):
        for other in (other for word in item.mentioned_words & named.keys() for other in named[word] if other != n):
            found.add((item.key, items[other].key, n < other))
    return found


# --- functions that only their file can name ------------------------------------------------------------------


def find_private_renames(old: SourceFile, new: SourceFile, path: str) -> dict[str, str]:
    """New names of private functions, where each place that says the old name now could say the new one."""
    gone, come = list_new_private_functions(old, new, path), list_new_private_functions(new, old, path)
    if not gone or len(gone) != len(come):
        return {}
    pairs = dict(zip(gone, come, strict=True))
    mentions_old, mentions_new = WordUses(old), WordUses(new)
    certain = not mentions_old.revealing and all(
        mentions_old.places[a] > 1
        and mentions_old.is_only_variable(a)
        and not mentions_old.occurs(b)
        and mentions_new.is_only_variable(b)
        and not mentions_new.occurs(a)
        for a, b in pairs.items()
    )
    return pairs if certain else {}


def list_new_private_functions(source: SourceFile, other: SourceFile, path: str) -> list[str]:
    """The private functions that the other version does not have, in order."""
    is_private = PRIVATE[source.row.naming.private]
    theirs = {item.name for item in other.items}
    names = [i.name for i in source.items if i.is_movable and i.name not in theirs and is_private(i, path)]
    return list(dict.fromkeys(names))


NAME_ATTRIBUTES = frozenset({"__name__", "__qualname__"})
"""Attributes by which a function's name comes out, whatever it was given to before."""


class WordUses:
    """The words of one version, by whether they name variables."""

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self.variables: set[str] = set()
        self.places: Counter[str] = Counter()
        self.others: set[str] = set(source.macro_words | source.row.naming.reserved)
        self.revealing = source.pastes_tokens
        for item in source.items:
            name = item.definition.child_by_field_name("name") if item.definition is not None else None
            for node in item.nodes:
                self.collect(
                    flatten_tree(node, source.content, source.row), name.start_byte if name is not None else -1
                )

    def collect(self, twigs: Sequence[FlatNode], defined: int) -> None:
        """Take in one part, whose own name stands at `defined`."""
        naming = self.source.row.naming
        names = NameScopes(twigs, naming)
        self.revealing |= any(t.leaf and (t.text in naming.revealing or names.is_dynamic(t)) for t in twigs)
        self.revealing |= any(
            t.text in NAME_ATTRIBUTES and t.parent >= 0 and twigs[t.parent].kind == "attribute" for t in twigs
        )
        for at, twig in enumerate(twigs):
            if twig.leaf:
                plain = names.is_variable(at) and not names.is_member(at) and not names.has_other_meaning(at)
                plain = (
                    plain
                    and not names.uses.is_passed_to_call(at)
                    and (twig.start == defined or not self.is_definition_name(at, twigs))
                )
                if plain and (twig.start == defined or names.binding(at) is None):
                    self.variables.add(twig.text)
                    self.places[twig.text] += 1
                else:
                    self.others.update([twig.text.strip("\"'`:"), *WORD_PATTERN.findall(twig.text)])

    def is_definition_name(self, at: int, twigs: Sequence[FlatNode]) -> bool:
        """Whether this is the name of a definition."""
        twig = twigs[at]
        return twig.field == "name" and twig.parent >= 0 and twigs[twig.parent].kind in self.source.row.definitions

    def is_only_variable(self, name: str) -> bool:
        """Whether the name stands for nothing but a variable or a function."""
        return name in self.variables and name not in self.others

    def occurs(self, name: str) -> bool:
        """Whether the name stands anywhere."""
        return name in self.variables or name in self.others


def _has_underscore(item: Item, _: str) -> bool:
    return item.name.startswith("_") and not item.name.startswith("__")


def _is_module_private(item: Item, _: str) -> bool:
    if item.nodes[-1].type == "export_statement":
        return False
    kinds = {node.type for node in item.source.root.children}
    return bool(kinds & {"import_statement", "export_statement"})


def _is_static(item: Item, path: str) -> bool:
    marks = [c for c in item.nodes[-1].children if c.type == "storage_class_specifier"]
    return any(item.source.text(c) == "static" for c in marks) and not path.lower().endswith((".h", ".hpp", ".hh"))


def _lacks_visibility(item: Item, _: str) -> bool:
    files = (n for n in item.source.root.children if n.type == "mod_item" and n.child_by_field_name("body") is None)
    marked = len(item.nodes) > 1 or any(c.type == "visibility_modifier" for c in item.nodes[-1].children)
    return not marked and item.name != "main" and next(files, None) is None


def _is_public(_: Item, __: str) -> bool:
    return False


PRIVATE: dict[str, Callable[[Item, str], bool]] = {
    "underscore": _has_underscore,
    "module": _is_module_private,
    "static": _is_static,
    "unmarked": _lacks_visibility,
    "none": _is_public,
}
