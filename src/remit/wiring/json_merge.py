"""Merging settings into a JSON file and removing them again: pure, text to text."""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from msgspec import Struct
from tree_sitter import Node

from remit.core.json_guards import as_array, as_object
from remit.wiring.insertions import (
    InsertedEntry,
    Insertions,
    JsonObject,
    TextEdit,
    apply_edit,
    contains_settings,
    digest,
    is_same_value,
    list_or_none,
    object_or_none,
    undo_exactly,
)
from remit.wiring.json_text import (
    build_addition,
    build_conflict,
    decode_node,
    find_at_path,
    find_newline,
    find_pair,
    format_member,
    list_children,
    node_text,
    pair_key,
    pair_value,
    parse_root,
    remove_at_path,
    replace_node,
)

OWN_NAME = "remit"
"""Members with this name belong to Remit, wherever Remit wants one."""

JsonPath: TypeAlias = tuple[str | int, ...]
OwnPredicate: TypeAlias = Callable[[object], bool]


class _MissingStep(Struct, frozen=True):
    """One missing element, to be added to `node`: a container, or for a switch the value itself."""

    entry: InsertedEntry
    node: Node
    key: str | None = None


def matches_no_handler(_: object) -> bool:
    return False


def merge_json(
    text: str, wanted: Mapping[str, object], is_ours: OwnPredicate = matches_no_handler
) -> tuple[str, Insertions]:
    """Return the text with all wanted settings, and the additions.

    Objects are merged, lists receive missing items, and numbers, booleans and null are switched. Outdated settings of
    Remit's are removed first: members named `remit`, and list items that `is_ours` recognises.
    Raises NotJson, and SettingsConflict if an element of another kind is in the way.
    """
    source = remove_outdated(text.encode(), wanted, is_ours)
    before, edits, entries = digest(source), list[TextEdit](), list[InsertedEntry]()
    root = parse_root(source)
    if root is None:
        edit = build_document_edit(source, wanted)
        entries = [InsertedEntry("member", (), {key: value}) for key, value in wanted.items()]
        source = apply_edit(source, edit)
        return source.decode(), Insertions(before, digest(source), (edit,), tuple(entries), root=True)
    while (step := find_first_missing(root, wanted, ())) is not None:
        source, created = add_step(source, root, step)
        edits += created
        entries.append(step.entry)
        root = parse_root(source)
        assert root is not None  # additions leave the document a document
    return source.decode(), Insertions(before, digest(source), tuple(edits), tuple(entries))


def build_document_edit(source: bytes, wanted: Mapping[str, object]) -> TextEdit:
    newline = find_newline(source)
    lead = "" if not source.strip() or source.endswith(b"\n") else newline
    return TextEdit(len(source), lead + format_member(None, wanted, "  ", newline) + newline)


def add_step(source: bytes, root: Node, step: _MissingStep) -> tuple[bytes, list[TextEdit]]:
    if step.entry.kind == "switch":
        source, edit = replace_node(source, step.node, format_member(None, step.entry.value, None))
        return source, [edit]
    members = object_or_none(step.entry.value)
    value = step.entry.value if step.key is None or members is None else members[step.key]
    edits = build_addition(source, root, step.node, step.key, value)
    for edit in edits:
        source = apply_edit(source, edit)
    return source, edits


def find_first_missing(node: Node, wanted: Mapping[str, object], path: tuple[str, ...]) -> _MissingStep | None:
    """Return the first missing element of an object."""
    for key, value in wanted.items():
        pair = find_pair(node, key)
        if pair is None:
            return _MissingStep(InsertedEntry("member", path, {key: value}), node, key)
        step = find_missing_in(pair_value(pair), value, (*path, key))
        if step is not None:
            return step
    return None


def find_missing_in(present: Node, wanted: object, path: tuple[str, ...]) -> _MissingStep | None:
    """Return the first missing element of a value. Raises SettingsConflict."""
    members, items = object_or_none(wanted), list_or_none(wanted)
    if members is not None:
        if present.type != "object":
            raise build_conflict(path, present, "an object")
        return find_first_missing(present, members, path)
    if items is not None:
        if present.type != "array":
            raise build_conflict(path, present, "a list")
        have = [decode_node(child) for child in list_children(present)]
        missing = next((item for item in items if not any(contains_settings(entry, item) for entry in have)), None)
        return None if missing is None else _MissingStep(InsertedEntry("item", path, missing), present)
    current = decode_node(present)
    if is_same_value(current, wanted):
        return None
    if present.type in ("object", "array", "string"):
        raise build_conflict(path, present, f"{wanted!r}")
    return _MissingStep(InsertedEntry("switch", path, wanted, current), present)


# --- what is outdated --------------------------------------------------------------------------------------


def remove_outdated(source: bytes, wanted: Mapping[str, object], is_ours: OwnPredicate) -> bytes:
    """Return the text without Remit's outdated settings."""
    root = parse_root(source)
    if root is None:
        return source
    return remove_paths(source, list(find_outdated(root, wanted, (), is_ours)))


def find_outdated(
    node: Node, wanted: Mapping[str, object], path: JsonPath, is_ours: OwnPredicate
) -> Iterator[JsonPath]:
    """Yield the paths of Remit's outdated settings below the wanted members."""
    for key, value in wanted.items():
        pair, requested = find_pair(node, key), object_or_none(value)
        if pair is None or requested is None or pair_value(pair).type != "object":
            continue
        present = pair_value(pair)
        own = find_pair(present, OWN_NAME) if OWN_NAME in requested else None
        if own is not None and not contains_settings(decode_node(pair_value(own)), requested[OWN_NAME]):
            yield (*path, key, OWN_NAME)
        elif own is None:
            yield from find_outdated(present, requested, (*path, key), is_ours)
            yield from find_stale_items(decode_lists(present), requested, (*path, key), is_ours)


def decode_lists(node: Node) -> JsonObject:
    pairs = [(pair, pair_value(pair)) for pair in list_children(node)]
    return {pair_key(pair): decode_node(value) for pair, value in pairs if value.type == "array"}


def find_stale_items(
    lists: JsonObject, wanted: Mapping[str, object], path: JsonPath, is_ours: OwnPredicate
) -> Iterator[JsonPath]:
    """Yield the paths of Remit's items, in lists or a list deeper, missing in every wanted item."""
    for key, found in lists.items():
        requested = as_array(wanted.get(key))
        for number, group in enumerate(as_array(found)):
            stale = [
                place
                for place in find_own_items(group, is_ours)
                if not any(is_item_current(group, place, item) for item in requested)
            ]
            yield from collapse_to_group(group, stale, (*path, key, number))


def find_own_items(group: object, is_ours: OwnPredicate) -> list[JsonPath]:
    """Return the paths of Remit's elements in a list item; () if the item itself is item."""
    if is_ours(group):
        return [()]
    members = as_object(group)
    listed = [(key, as_array(value)) for key, value in members.items()]
    return [(key, number) for key, items in listed for number, item in enumerate(items) if is_ours(item)]


def is_item_current(group: object, place: JsonPath, wanted: object) -> bool:
    """Return True if Remit's element at the path of a group equals the element of a wanted group."""
    members, wanted_members = object_or_none(group), object_or_none(wanted)
    if not place or members is None or wanted_members is None:
        return is_same_value(group, wanted)
    key, number = str(place[0]), int(place[1])
    element = as_array(members[key])[number]
    return any(is_same_value(element, other) for other in as_array(wanted_members.get(key))) and contains_settings(
        group, wanted
    )


def collapse_to_group(group: object, places: list[JsonPath], path: JsonPath) -> list[JsonPath]:
    """Return the full paths of the elements, or of the group if its lists would be empty."""
    members = object_or_none(group)
    listed = sum(len(as_array(value)) for value in (members or {}).values())
    if places and (places == [()] or len(places) == listed):
        return [path]
    return [(*path, *place) for place in places]


def remove_paths(source: bytes, paths: list[JsonPath]) -> bytes:
    """Remove the elements at the paths, the last first: earlier paths stay valid."""
    for path in reversed(paths):
        source = remove_at_path(source, path)
    return source


# --- taking out again --------------------------------------------------------------------------------------


def unmerge_json(text: str, insertions: Insertions) -> str:
    """Return the text without the insertions: the original bytes if the text did not change since.

    Otherwise the insertions are removed by structure, and all later changes stay. Raises NotJson.
    """
    source = text.encode()
    exact = undo_exactly(source, insertions)
    if exact is not None:
        return exact.decode()
    for entry in reversed(insertions.entries):
        source = remove_entry(source, entry)
    if insertions.root and is_empty(source.decode()):
        return ""
    return source.decode()


def is_empty(text: str) -> bool:
    """Return True if the text is blank or an object without members and comments. Raises NotJson."""
    root = parse_root(text.encode())
    return "".join((text if root is None else node_text(root)).split()).removeprefix("\ufeff") in ("", "{}")


def remove_entry(source: bytes, entry: InsertedEntry) -> bytes:
    """Return the text without an added element."""
    root = parse_root(source)
    node = find_at_path(root, entry.path)
    if node is None:
        return source
    if entry.kind == "switch":
        return (
            replace_node(source, node, format_member(None, entry.before, None))[0]
            if has_value(node, entry.value)
            else source
        )
    wanted = [entry.value] if entry.kind == "item" else entry.value
    places = find_inserted(decode_part(node, wanted), wanted)
    return remove_paths(source, sorted_paths([(*entry.path, *place) for place in places]))


def has_value(node: Node, value: object) -> bool:
    return is_same_value(decode_node(node), value)


def decode_part(node: Node, wanted: object) -> object:
    """Decode only the wanted members of a node: other members of a large file are not read."""
    requested = object_or_none(wanted)
    if requested is None or node.type != "object":
        return decode_node(node)
    pairs = {key: find_pair(node, key) for key in requested}
    return {key: decode_node(pair_value(pair)) for key, pair in pairs.items() if pair is not None}


def sorted_paths(paths: list[JsonPath]) -> list[JsonPath]:
    return sorted(paths, key=lambda path: [(isinstance(step, int), step) for step in path])


def find_inserted(have: object, inserted: object) -> list[JsonPath]:
    """Return the paths in `have` of inserted elements, never of `have` itself."""
    present, wanted = object_or_none(have), object_or_none(inserted)
    if present is not None and wanted is not None:
        return [
            path for key in wanted if key in present for path in find_inserted_member(key, present[key], wanted[key])
        ]
    items, listed = list_or_none(have), list_or_none(inserted)
    if items is None or listed is None:
        return []
    found: list[JsonPath] = []
    for item in listed:
        taken_places = {path[0] for path in found if len(path) == 1}
        free = {number: candidate for number, candidate in enumerate(items) if number not in taken_places}
        found += find_inserted_item(free, item)
    return found


def find_inserted_member(key: str, have: object, put: object) -> list[JsonPath]:
    """Return the paths to remove for an inserted member: all of it, or the unchanged parts."""
    if key == OWN_NAME or is_same_value(have, put):
        return [(key,)]
    places = find_inserted(have, put)
    return [(key,)] if places and leaves_container_empty(have, places) else [(key, *place) for place in places]


def leaves_container_empty(have: object, places: list[JsonPath]) -> bool:
    """Return True if a container has no further elements."""
    container = object_or_none(have) or list_or_none(have) or ()
    return len(container) == sum(len(place) == 1 for place in places)


def find_inserted_item(items: dict[int, object], put: object) -> list[JsonPath]:
    """Return the path of an inserted item; for an item changed by others, the paths of Remit's parts."""
    for number, candidate in items.items():
        if is_same_value(candidate, put):
            return [(number,)]
    lists = {key: value for key, value in as_object(put).items() if list_or_none(value)}
    for number, candidate in items.items():
        places = find_inserted(candidate, lists) if lists else []
        if places:
            inner = [(key, n) for key, *rest in places for n in (rest or list_indexes(candidate, key))]
            return collapse_to_group(candidate, inner, (number,))
    return []


def list_indexes(group: object, key: str | int) -> range:
    return range(len(as_array(as_object(group).get(str(key)))))
