"""Recognition of refactorings: changes that only move, rename or reformat, judged from contents.

`AST_REFACTOR` requires certainty that nothing outside the changed files can notice. Equal trees are not enough: a call
of a different function has an equal tree, and so has a method moved to a different class. Exported names, and
parameters that callers may name, are visible outside: renaming them is no refactoring.
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
    """A changed file. A side is None if the file did not exist."""

    path: str
    before: bytes | None
    after: bytes | None


def classify_change(files: Sequence[FileChange]) -> ComputedClass | None:
    """Return the class of an action over its files; None if unknown.

    A single file with changed behaviour decides, whatever else changed.
    """
    classes = [classify_file(file, files) for file in files if file.before != file.after]
    if "INTENT_EVOLUTION" in classes:
        return "INTENT_EVOLUTION"
    return None if None in classes or not classes else "AST_REFACTOR"


def classify_file(file: FileChange, action: Sequence[FileChange]) -> ComputedClass | None:
    """Classify a change of a file. A created or deleted file is no refactoring."""
    language = find_language(file.path)
    if language is None:
        return None
    if file.before is None or file.after is None:
        sides = [content for content in (file.before, file.after) if content is not None]
        return "INTENT_EVOLUTION" if all(parse_source(file.path, content) for content in sides) else None
    old, new = parse_source(file.path, file.before), parse_source(file.path, file.after)
    if old is None or new is None:
        return None
    try:
        is_refactoring = (
            not language.layout_matters
            and keeps_positions(old, new)
            and is_equivalent(old, new, file.path, [f for f in action if f is not file])
        )
        return "AST_REFACTOR" if is_refactoring else "INTENT_EVOLUTION"
    except TreeTooDeep:
        return None


def keeps_positions(old: SourceFile, new: SourceFile) -> bool:
    """Return whether positional marks (first bytes, encoding, numbered lines) are unchanged."""
    if old.language.carriage_returns_matter and old.content.count(b"\r") != new.content.count(b"\r"):
        return False
    if old.language.line_sensitive_words and LONE_MODIFIER.findall(old.content) != LONE_MODIFIER.findall(new.content):
        return False
    return (
        find_positional_marks(old.content) == find_positional_marks(new.content)
        and old.stringified_calls == new.stringified_calls
    )


def is_equivalent(old: SourceFile, new: SourceFile, path: str, others: Sequence[FileChange]) -> bool:
    """Return whether two versions behave alike, with `others` changed alongside. Raises TreeTooDeep."""
    renames = find_private_renames(old, new, path)
    texts = [text for change in others for text in (change.before, change.after) if text is not None]
    if any(name.encode() in text for pair in renames.items() for name in pair for text in texts):
        return False
    if renames:
        old = SourceFile(old.content, old.language, old.root)
        old.renames = renames
    return match_items(old.items, new.items)


def match_items(old: Sequence[Item], new: Sequence[Item]) -> bool:
    """Return whether two containers hold equivalent items in an equivalent order. Raises TreeTooDeep."""
    pairs = pair_items(*(sort_imports(side) for side in trim_unchanged(old, new)))
    return pairs is not None and all(match_item(a, b) for a, b in pairs)


def match_item(a: Item, b: Item) -> bool:
    if has_same_text(a, b):
        return True
    return a.normal_form == b.normal_form and (a.body is None) == (b.body is None) and match_items(a.members, b.members)


def has_same_text(a: Item, b: Item) -> bool:
    return a.text == b.text and not a.source.renames and a.source.macro_words == b.source.macro_words


def trim_unchanged(old: Sequence[Item], new: Sequence[Item]) -> tuple[Sequence[Item], Sequence[Item]]:
    """Remove identical items at both ends, usually nearly all of a file."""
    shorter = min(len(old), len(new))
    start = next((n for n in range(shorter) if not has_same_text(old[n], new[n])), shorter)
    while start and old[start - 1].describes_next:
        start -= 1
    remaining = shorter - start
    end = next((n for n in range(remaining) if not has_same_text(old[-1 - n], new[-1 - n])), remaining)
    return old[start : len(old) - end], new[start : len(new) - end]


def sort_imports(items: Sequence[Item]) -> Sequence[Item]:
    """Sort each run of adjacent imports."""
    sorted_items: list[Item] = []
    for is_import, group in groupby(items, key=lambda item: item.is_import):
        run = list(group)
        sorted_items += sorted(run, key=lambda item: item.normal_form) if is_import else run
    return sorted_items


def pair_items(old: Sequence[Item], new: Sequence[Item]) -> list[tuple[Item, Item]] | None:
    """Match old with new items; None if an item came, went, or moved to a place with different meaning."""
    if len(old) != len(new):
        return None
    old_keys, new_keys = [i.key for i in old], [i.key for i in new]
    if old_keys == new_keys:
        return list(zip(old, new, strict=True))
    if sorted(old_keys) != sorted(new_keys) or not may_reorder(old, new):
        return None
    new_by_key = {item.key: item for item in new}
    fixed_items = [i for i in new if not i.is_movable]
    fixed_iterator = iter(fixed_items)
    return [(item, new_by_key[item.key] if item.is_movable else next(fixed_iterator)) for item in old]


def may_reorder(old: Sequence[Item], new: Sequence[Item]) -> bool:
    """Return whether only functions moved, and only within the language's freedom."""
    order = old[0].source.language.order
    moving = [i.key for i in old if i.is_movable]
    if order == "fixed" or len(set(moving)) < len(moving) or set(moving) != {i.key for i in new if i.is_movable}:
        return False
    if [i.key for i in old if not i.is_movable] != [i.key for i in new if not i.is_movable]:
        return False
    ordered_old, ordered_new = ([i.key for i in side if i.is_movable and i.order_matters] for side in (old, new))
    if ordered_old != ordered_new or count_barriers(old) != count_barriers(new):
        return False
    return order == "free" or list_dependencies(old) == list_dependencies(new)


def count_barriers(items: Sequence[Item]) -> dict[tuple[str, str], tuple[int, bool]]:
    """Count the barriers before each function, and whether the previous item describes the function."""
    language, barriers = items[0].source.language, 0
    slots: dict[tuple[str, str], tuple[int, bool]] = {}
    for index, item in enumerate(items):
        if item.is_movable:
            slots[item.key] = barriers, index > 0 and items[index - 1].describes_next
        elif language.order == "runs" or item.is_barrier or (language.order == "executed" and not item.is_inert):
            barriers += 1
    return slots


def list_dependencies(items: Sequence[Item]) -> set[tuple[object, ...]]:
    """Return the relative order of items that mention names bound by each other."""
    binders: dict[str, list[int]] = {}
    for index, item in enumerate(items):
        for name in item.bound_names:
            binders.setdefault(name, []).append(index)
    order: set[tuple[object, ...]] = set()
    for index, item in enumerate(items):
        for name in item.mentioned_words & binders.keys():
            order |= {(item.key, items[binder].key, index < binder) for binder in binders[name] if binder != index}
    return order


# --- functions that only their file can name ------------------------------------------------------------------


def find_private_renames(old: SourceFile, new: SourceFile, path: str) -> dict[str, str]:
    """Return new names of private functions, if every old name was replaced consistently."""
    removed, added = list_new_private_functions(old, new, path), list_new_private_functions(new, old, path)
    if not removed or len(removed) != len(added):
        return {}
    pairs = dict(zip(removed, added, strict=True))
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


def list_new_private_functions(source: SourceFile, other_version: SourceFile, path: str) -> list[str]:
    is_private = PRIVATE[source.language.naming.private]
    other_names = {item.name for item in other_version.items}
    names = [i.name for i in source.items if i.is_movable and i.name not in other_names and is_private(i, path)]
    return list(dict.fromkeys(names))


NAME_ATTRIBUTES = frozenset({"__name__", "__qualname__"})
"""Attributes that reveal a function's name."""


class WordUses:
    """Words of a version, split by whether they name variables."""

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self.variables: set[str] = set()
        self.places: Counter[str] = Counter()
        self.others: set[str] = set(source.macro_words | source.language.naming.reserved_names)
        self.revealing = source.pastes_tokens
        for item in source.items:
            name = item.definition.child_by_field_name("name") if item.definition is not None else None
            for node in item.nodes:
                self.collect(
                    flatten_tree(node, source.content, source.language), name.start_byte if name is not None else -1
                )

    def collect(self, nodes: Sequence[FlatNode], defined: int) -> None:
        """Collect the words of a part; `defined` is the position of its own name."""
        naming = self.source.language.naming
        names = NameScopes(nodes, naming)
        self.revealing |= any(t.leaf and (t.text in naming.name_revealers or names.is_dynamic(t)) for t in nodes)
        self.revealing |= any(
            t.text in NAME_ATTRIBUTES and t.parent >= 0 and nodes[t.parent].kind == "attribute" for t in nodes
        )
        for at, leaf in enumerate(nodes):
            if not leaf.leaf:
                continue
            is_plain = names.is_variable(at) and not names.is_member(at) and not names.has_other_meaning(at)
            # A name bound or defined here again is a different function of the same name.
            is_bound_again = self.is_definition_name(at, nodes) or names.binding(at) is not None
            is_variable = is_plain and not names.uses.is_passed_to_call(at)
            if is_variable and (leaf.start == defined or not is_bound_again):
                self.variables.add(leaf.text)
                self.places[leaf.text] += 1
            else:
                self.others.update([leaf.text.strip("\"'`:"), *WORD_PATTERN.findall(leaf.text)])

    def is_definition_name(self, at: int, nodes: Sequence[FlatNode]) -> bool:
        leaf = nodes[at]
        is_name = leaf.field == "name" and leaf.parent >= 0
        return is_name and nodes[leaf.parent].kind in self.source.language.definitions

    def is_only_variable(self, name: str) -> bool:
        return name in self.variables and name not in self.others

    def occurs(self, name: str) -> bool:
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
"""Test for functions that no other file can name, by the language's rule."""
