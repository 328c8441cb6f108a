"""Recognition of refactorings: changes that only move, rename or reformat, judged from contents.

`AST_REFACTOR` requires certainty that nothing outside the changed files can notice. Equal trees are not enough: a call
of a different function has an equal tree, and so has a method moved to a different class. Exported names, and
parameters that callers may name, are visible outside: renaming them is no refactoring.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

from remit.core.code.comments import LONE_MODIFIER, find_positional_marks
from remit.core.code.definitions import parse_source
from remit.core.code.flat_tree import MAX_DEPTH, TreeTooDeep, flatten_tree
from remit.core.code.items import WORD_PATTERN, Item, SourceFile
from remit.core.code.languages import find_language
from remit.core.code.local_names import NameScopes

if TYPE_CHECKING:
    from tree_sitter import Node

ComputedClass: TypeAlias = Literal["AST_REFACTOR", "INTENT_EVOLUTION"]
NAME_ATTRIBUTES = frozenset({"__name__", "__qualname__"})
"""Attributes that reveal a function's name."""


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
    sides = [parse_source(file.path, content) for content in (file.before, file.after) if content is not None]
    if None in sides:
        return None
    if len(sides) < 2:
        return "INTENT_EVOLUTION"
    old, new = (side for side in sides if side is not None)
    try:
        keeps_meaning = not language.layout_matters and keeps_positions(old, new)
        others = [f for f in action if f is not file]
        is_refactoring = keeps_meaning and has_same_kinds(old, new) and is_equivalent(old, new, file.path, others)
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


def has_same_kinds(old: SourceFile, new: SourceFile) -> bool:
    """Return whether both versions have as many named nodes of each kind, without comments and grouping brackets.

    Equal normal forms do. The question is cheap, and most changes answer it with no. Raises TreeTooDeep.
    """
    old_nodes, new_nodes = [old.root], [new.root]
    while len(old_nodes) == len(new_nodes) == 1 and old_nodes[0].type == new_nodes[0].type and old_nodes[0].children:
        old_nodes, new_nodes = drop_equal_ends(old, old_nodes[0].children, new, new_nodes[0].children)
    return count_kinds(old, old_nodes) == count_kinds(new, new_nodes)


def drop_equal_ends(
    old: SourceFile, old_nodes: "Sequence[Node]", new: SourceFile, new_nodes: "Sequence[Node]"
) -> "tuple[Sequence[Node], Sequence[Node]]":
    def is_equal(a: "Node", b: "Node") -> bool:
        return a.type == b.type and (old.content[a.start_byte : a.end_byte] == new.content[b.start_byte : b.end_byte])

    shorter = min(len(old_nodes), len(new_nodes))
    start = next((n for n in range(shorter) if not is_equal(old_nodes[n], new_nodes[n])), shorter)
    rest = shorter - start
    end = next((n for n in range(rest) if not is_equal(old_nodes[-1 - n], new_nodes[-1 - n])), rest)
    return old_nodes[start : len(old_nodes) - end], new_nodes[start : len(new_nodes) - end]


def count_kinds(source: SourceFile, nodes: "Sequence[Node]") -> Counter[str]:
    language = source.language
    kinds: Counter[str] = Counter()
    pending = [(node, 1) for node in nodes]
    while pending:
        node, depth = pending.pop()
        kind = node.type
        if depth > MAX_DEPTH:
            raise TreeTooDeep
        if kind in language.comments or not (node.child_count or source.text(node).strip()):
            continue
        kinds[kind] += node.is_named and kind not in language.grouping_kinds
        if kind != "string" or not language.either_quotes:
            pending += [(child, depth + 1) for child in node.children]
    return kinds


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
    """Return whether only functions moved, and only within the language's freedom."""
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
    """Count the barriers before each function, and whether the previous item describes the function."""
    order, barriers = items[0].language.order, 0
    slots: dict[tuple[str, str], tuple[int, bool]] = {}
    for index, item in enumerate(items):
        if item.is_movable:
            slots[item.key] = barriers, index > 0 and items[index - 1].describes_next
        elif order == "runs" or item.is_barrier or (order == "executed" and not item.is_inert):
            barriers += 1
    return slots


def list_dependencies(items: Sequence[Item]) -> set[tuple[object, ...]]:
    """Return the relative order of items that mention names bound by each other."""
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
    """Return new names of private functions, if every old name was replaced consistently."""
    removed, added = list_new_private_functions(old, new, path), list_new_private_functions(new, old, path)
    if not removed or len(removed) != len(added):
        return {}
    pairs = dict(zip(removed, added, strict=True))
    uses_old, uses_new = WordUses(old), WordUses(new)
    certain = not uses_old.revealing and all(
        uses_old.variables[a] > 1
        and a not in uses_old.others
        and b in uses_new.variables
        and b not in uses_new.others
        and not {b} & (uses_old.variables.keys() | uses_old.others)
        and not {a} & (uses_new.variables.keys() | uses_new.others)
        for a, b in pairs.items()
    )
    return pairs if certain else {}


def list_new_private_functions(source: SourceFile, other_version: SourceFile, path: str) -> list[str]:
    other_names = {item.name for item in other_version.items}
    names = [i.name for i in source.items if i.is_movable and i.name not in other_names and is_private(i, path)]
    return list(dict.fromkeys(names))


def is_private(item: Item, path: str) -> bool:
    """Return whether no other file can name the function, by the language's rule."""
    top, parts = item.source.root.children, item.node.children
    match item.language.naming.private:
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


class WordUses:
    """Words of a version: occurrences as variables, and words in any other place."""

    def __init__(self, source: SourceFile) -> None:
        language, naming = source.language, source.language.naming
        self.variables: Counter[str] = Counter()
        self.others: set[str] = set(source.macro_words | naming.reserved_names)
        self.revealing = bool(source.pasting_macros)
        for item, node in ((each, node) for each in source.items for node in each.nodes):
            own_name = item.definition.child_by_field_name("name") if item.definition is not None else None
            names = NameScopes(flatten_tree(node, source.content, language), naming)
            for at, leaf in enumerate(names.nodes):
                parent = names.nodes[leaf.parent].kind if leaf.parent >= 0 else ""
                self.revealing |= leaf.text in NAME_ATTRIBUTES and parent == "attribute"
                if not leaf.leaf:
                    continue
                self.revealing |= leaf.text in naming.name_revealers or names.is_dynamic(leaf)
                # A name bound or defined here again is a different function of the same name.
                is_defined = leaf.field == "name" and parent in language.definitions
                is_bound_again = (is_defined or names.binding(at) is not None) and (
                    own_name is None or leaf.start != own_name.start_byte
                )
                is_plain = names.is_variable(at) and not names.is_member(at) and not names.has_other_meaning(at)
                if is_plain and not is_bound_again and not names.is_passed_to_call(at):
                    self.variables[leaf.text] += 1
                else:
                    self.others.update([leaf.text.strip("\"'`:"), *WORD_PATTERN.findall(leaf.text)])
