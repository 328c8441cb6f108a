"""Recognition of refactorings from contents: changes that only move, rename or reformat.

`AST_REFACTOR` requires certainty: code outside the changed files cannot notice. Equal trees are not enough: a call of a
different function has an equal tree, and a method moved to a different class too. Exported names, and parameters named
by callers, are visible outside: renaming them is no refactoring.
"""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import groupby
from typing import Literal, TypeAlias

from msgspec import Struct

from remit.core.code.comments import LONE_MODIFIER, find_positional_marks
from remit.core.code.definitions import parse_source
from remit.core.code.flat_tree import TreeTooDeep, flatten_tree
from remit.core.code.items import WORD_PATTERN, Item, SourceFile, find_declared_name
from remit.core.code.languages import find_language

ComputedClass: TypeAlias = Literal["AST_REFACTOR", "INTENT_EVOLUTION"]
CALLS = frozenset({"call", "call_expression"})
NAME_REVEALERS = re.compile(
    rb"""(?x) \.__(?:qual)?name__\b | \b(?: [gs]etattr | hasattr | modules | import_module | __import__ | __dict__
    | getmembers | type_name | type_name_of_val | __func__ | __FUNCTION__ | __PRETTY_FUNCTION__ | dlsym
    | source_location | eval | exec | globals | locals | vars | dir | Function )\b"""
)
"""Code that finds functions by name, or reveals names."""


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
    language = find_language(file.path)
    if language is None:
        return None
    sides = [parse_source(file.path, content) for content in (file.before, file.after) if content is not None]
    if None in sides:
        return None
    if len(sides) < 2:
        return "INTENT_EVOLUTION"
    old, new = (side for side in sides if side is not None)
    try:
        keeps_meaning = not language.layout_matters and keeps_positions(old, new)
        others = [f for f in action if f is not file]
        is_refactoring = keeps_meaning and is_equivalent(old, new, file.path, others)
    except TreeTooDeep:
        return None
    return "AST_REFACTOR" if is_refactoring else "INTENT_EVOLUTION"


def keeps_positions(old: SourceFile, new: SourceFile) -> bool:
    """Return whether positional marks (first bytes, encoding, numbered lines) are unchanged."""
    if old.language.carriage_returns_matter and old.content.count(b"\r") != new.content.count(b"\r"):
        return False
    if old.language.line_sensitive_words and LONE_MODIFIER.findall(old.content) != LONE_MODIFIER.findall(new.content):
        return False
    same_marks = find_positional_marks(old.content) == find_positional_marks(new.content)
    return same_marks and old.stringified_calls == new.stringified_calls


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


# --- items, and their order -------------------------------------------------------------------------------


def match_items(old: Sequence[Item], new: Sequence[Item]) -> bool:
    """Return whether two containers hold equivalent items in an equivalent order. Raises TreeTooDeep."""
    # Identical items at both ends are usually nearly all of a file.
    shorter = min(len(old), len(new))
    start = next((n for n in range(shorter) if not has_same_text(old[n], new[n])), shorter)
    while start and old[start - 1].describes_next:
        start -= 1
    rest = shorter - start
    end = next((n for n in range(rest) if not has_same_text(old[-1 - n], new[-1 - n])), rest)
    if len(old) != len(new):
        return False
    pairs = pair_items(sort_imports(old[start : len(old) - end]), sort_imports(new[start : len(new) - end]))
    return pairs is not None and all(
        has_same_text(a, b)
        or (
            a.normal_form == b.normal_form
            and (a.body is None) == (b.body is None)
            and match_items(a.members, b.members)
        )
        for a, b in pairs
    )


def has_same_text(a: Item, b: Item) -> bool:
    return a.text == b.text and not a.source.renames and a.source.macro_words == b.source.macro_words


def sort_imports(items: Sequence[Item]) -> Sequence[Item]:
    sorted_items: list[Item] = []
    for is_import, group in groupby(items, key=lambda item: item.is_import):
        run = list(group)
        sorted_items += sorted(run, key=lambda item: item.normal_form) if is_import else run
    return sorted_items


def pair_items(old: Sequence[Item], new: Sequence[Item]) -> list[tuple[Item, Item]] | None:
    """Match old with new items; None if an item came, went, or moved to a place with different meaning."""
    old_keys, new_keys = [i.key for i in old], [i.key for i in new]
    if old_keys == new_keys:
        return list(zip(old, new, strict=True))
    if sorted(old_keys) != sorted(new_keys) or not may_reorder(old, new):
        return None
    new_by_key = {item.key: item for item in new}
    fixed_items = iter([i for i in new if not i.is_movable])
    return [(item, new_by_key[item.key] if item.is_movable else next(fixed_items)) for item in old]


def may_reorder(old: Sequence[Item], new: Sequence[Item]) -> bool:
    order = old[0].language.order
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
    order, barriers = items[0].language.order, 0
    slots: dict[tuple[str, str], tuple[int, bool]] = {}
    for index, item in enumerate(items):
        if item.is_movable:
            slots[item.key] = barriers, index > 0 and items[index - 1].describes_next
        elif order == "runs" or item.is_barrier or (order == "executed" and not item.is_inert):
            barriers += 1
    return slots


def list_dependencies(items: Sequence[Item]) -> set[tuple[object, ...]]:
    binders: dict[str, list[int]] = {}
    for index, item in enumerate(items):
        for name in item.bound_names:
            binders.setdefault(name, []).append(index)
    return {
        (item.key, items[binder].key, index < binder)
        for index, item in enumerate(items)
        for name in item.mentioned_words & binders.keys()
        for binder in binders[name]
        if binder != index
    }


# --- functions that only their file can name --------------------------------------------------------------


def find_private_renames(old: SourceFile, new: SourceFile, path: str) -> dict[str, str]:
    removed, added = list_new_private_functions(old, new, path), list_new_private_functions(new, old, path)
    if not removed or len(removed) != len(added):
        return {}
    pairs = dict(zip(removed, added, strict=True))
    (old_calls, old_words), (new_calls, new_words) = count_words(old, removed), count_words(new, added)
    is_certain = (
        not NAME_REVEALERS.search(old.content)
        and not old.pasting_macros
        and all(old_calls[a] == new_calls[b] > 0 for a, b in pairs.items())
        and (old_words | new_words).isdisjoint([*removed, *added])
    )
    return pairs if is_certain else {}


def count_words(source: SourceFile, functions: Collection[str]) -> tuple[Counter[str], set[str]]:
    calls: Counter[str] = Counter()
    others = set(source.macro_words)
    definitions = [item.definition for item in source.items if item.definition is not None and item.name in functions]
    names = [each.child_by_field_name("name") or find_declared_name(each) for each in definitions]
    own_names = {name.start_byte for name in names if name is not None}
    nodes = flatten_tree(source.root, source.content, source.language)
    for node in nodes:
        if node.text in functions and node.field == "function" and nodes[node.parent].kind in CALLS:
            calls[node.text] += 1
        elif node.leaf and node.start not in own_names:
            others.update(WORD_PATTERN.findall(node.text))
    return calls, others


def list_new_private_functions(source: SourceFile, other_version: SourceFile, path: str) -> list[str]:
    other_names = {item.name for item in other_version.items}
    names = [i.name for i in source.items if i.is_movable and i.name not in other_names and is_private(i, path)]
    return list(dict.fromkeys(names))


def is_private(item: Item, path: str) -> bool:
    """Return whether no other file can name the function, by the language's rule."""
    top, parts = item.source.root.children, item.node.children
    match item.language.private:
        case "underscore":
            return item.name.startswith("_") and not item.name.startswith("__")
        case "module":
            is_module = any(node.type in ("import_statement", "export_statement") for node in top)
            return is_module and item.node.type != "export_statement"
        case "static":
            marks = [item.source.text(c) for c in parts if c.type == "storage_class_specifier"]
            return "static" in marks and not path.lower().endswith((".h", ".hpp", ".hh"))
        case "unmarked":
            has_files = any(n.type == "mod_item" and n.child_by_field_name("body") is None for n in top)
            is_marked = len(item.nodes) > 1 or any(c.type == "visibility_modifier" for c in parts)
            return not is_marked and item.name != "main" and not has_files
        case "none":
            return False
