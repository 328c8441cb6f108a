"""Merging what is wanted into a JSON settings file, and taking it out again: pure, text to text."""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from msgspec import Struct
from tree_sitter import Node

from remit.wiring.insertions import (
    InsertedEntry,
    Insertions,
    JsonObject,
    TextEdit,
    apply_edit,
    as_list,
    as_object,
    contains_settings,
    digest,
    is_same_value,
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
"""A member of this name is ours altogether, wherever we want one."""

JsonPath: TypeAlias = tuple[str | int, ...]
OwnPredicate: TypeAlias = Callable[[object], bool]


class _MissingStep(Struct, frozen=True):
    """One step towards what is wanted: into `node` (a container, or for a switch the value itself)."""

    entry: InsertedEntry
    node: Node
    key: str | None = None


def matches_no_handler(_: object) -> bool:
    """For settings in which nothing is known by its looks."""
    return False


def merge_json(
    text: str, wanted: Mapping[str, object], is_ours: OwnPredicate = matches_no_handler
) -> tuple[str, Insertions]:
    """The text with everything in it that is wanted, and what was added.

    Objects are merged, lists get the items they lack, and a number, true, false or null is switched. What is ours
    and outdated goes first: members called `remit`, and list items that `is_ours` knows.
    Raises NotJson, and SettingsConflict where something of another kind stands in the way.
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
        source, made = add_step(source, root, step)
        edits += made
        entries.append(step.entry)
        root = parse_root(source)
        assert root is not None  # additions leave the document a document
    return source.decode(), Insertions(before, digest(source), tuple(edits), tuple(entries))


def build_document_edit(source: bytes, wanted: Mapping[str, object]) -> TextEdit:
    """The edit that makes a document where there is none."""
    newline = find_newline(source)
    led = "" if not source.strip() or source.endswith(b"\n") else newline
    return TextEdit(len(source), led + format_member(None, wanted, "  ", newline) + newline)


def add_step(source: bytes, root: Node, step: _MissingStep) -> tuple[bytes, list[TextEdit]]:
    """The text after one step."""
    if step.entry.kind == "switch":
        source, edit = replace_node(source, step.node, format_member(None, step.entry.value, None))
        return source, [edit]
    members = as_object(step.entry.value)
    value = step.entry.value if step.key is None or members is None else members[step.key]
    edits = build_addition(source, root, step.node, step.key, value)
    for edit in edits:
        source = apply_edit(source, edit)
    return source, edits


def find_first_missing(node: Node, wanted: Mapping[str, object], path: tuple[str, ...]) -> _MissingStep | None:
    """The first thing wanted that is not there."""
    for key, value in wanted.items():
        pair = find_pair(node, key)
        if pair is None:
            return _MissingStep(InsertedEntry("member", path, {key: value}), node, key)
        step = find_missing_in(pair_value(pair), value, (*path, key))
        if step is not None:
            return step
    return None


def find_missing_in(present: Node, wanted: object, path: tuple[str, ...]) -> _MissingStep | None:
    """The first thing wanted that is not in this value."""
    members, items = as_object(wanted), as_list(wanted)
    if members is not None:
        if present.type != "object":
            raise build_conflict(path, present, "an object")
        return find_first_missing(present, members, path)
    if items is not None:
        if present.type != "array":
            raise build_conflict(path, present, "a list")
        have = [decode_node(child) for child in list_children(present)]
        lacking = next((item for item in items if not any(contains_settings(one, item) for one in have)), None)
        return None if lacking is None else _MissingStep(InsertedEntry("item", path, lacking), present)
    stands = decode_node(present)
    if is_same_value(stands, wanted):
        return None
    if present.type in ("object", "array", "string"):
        raise build_conflict(path, present, f"{wanted!r}")
    return _MissingStep(InsertedEntry("switch", path, wanted, stands), present)


# --- what is outdated --------------------------------------------------------------------------------------


def remove_outdated(source: bytes, wanted: Mapping[str, object], is_ours: OwnPredicate) -> bytes:
    """The text without those things of ours that are not what is wanted now."""
    root = parse_root(source)
    if root is None:
        return source
    return remove_paths(source, list(find_outdated(root, wanted, (), is_ours)))


def find_outdated(
    node: Node, wanted: Mapping[str, object], path: JsonPath, is_ours: OwnPredicate
) -> Iterator[JsonPath]:
    """Where things of ours stand that are not wanted like that, below the members that are wanted."""
    for key, value in wanted.items():
        pair, asked = find_pair(node, key), as_object(value)
        if pair is None or asked is None or pair_value(pair).type != "object":
            continue
        there = pair_value(pair)
        own = find_pair(there, OWN_NAME) if OWN_NAME in asked else None
        if own is not None and not contains_settings(decode_node(pair_value(own)), asked[OWN_NAME]):
            yield (*path, key, OWN_NAME)
        elif own is None:
            yield from find_outdated(there, asked, (*path, key), is_ours)
            yield from find_stale_items(decode_lists(there), asked, (*path, key), is_ours)


def decode_lists(node: Node) -> JsonObject:
    """Those members of an object that are lists."""
    pairs = [(pair, pair_value(pair)) for pair in list_children(node)]
    return {pair_key(pair): decode_node(value) for pair, value in pairs if value.type == "array"}


def find_stale_items(
    lists: JsonObject, wanted: Mapping[str, object], path: JsonPath, is_ours: OwnPredicate
) -> Iterator[JsonPath]:
    """Items of ours, in lists or one list deeper, that no wanted item covers."""
    for key, found in lists.items():
        asked = as_list(wanted.get(key)) or []
        for number, group in enumerate(as_list(found) or []):
            mine = [
                spot
                for spot in find_own_items(group, is_ours)
                if not any(is_item_current(group, spot, one) for one in asked)
            ]
            yield from collapse_to_group(group, mine, (*path, key, number))


def find_own_items(group: object, is_ours: OwnPredicate) -> list[JsonPath]:
    """Where in a list item things of ours stand: at () where it is one itself."""
    if is_ours(group):
        return [()]
    members = as_object(group) or {}
    listed = [(key, as_list(value) or []) for key, value in members.items()]
    return [(key, number) for key, items in listed for number, one in enumerate(items) if is_ours(one)]


def is_item_current(group: object, spot: JsonPath, wanted: object) -> bool:
    """Whether the thing of ours at this spot of a group is as a wanted group has it."""
    have, asked = as_object(group), as_object(wanted)
    if not spot or have is None or asked is None:
        return is_same_value(group, wanted)
    key, number = str(spot[0]), int(spot[1])
    mine = (as_list(have[key]) or [])[number]
    return any(is_same_value(mine, one) for one in as_list(asked.get(key)) or []) and contains_settings(group, wanted)


def collapse_to_group(group: object, spots: list[JsonPath], path: JsonPath) -> list[JsonPath]:
    """Paths to these spots; to the group itself where its lists hold nothing else."""
    members = as_object(group)
    listed = sum(len(as_list(value) or []) for value in (members or {}).values())
    if spots and (spots == [()] or len(spots) == listed):
        return [path]
    return [(*path, *spot) for spot in spots]


def remove_paths(source: bytes, paths: list[JsonPath]) -> bytes:
    """The text without what stands at these paths, the last of them first: places before it stay true."""
    for path in reversed(paths):
        source = remove_at_path(source, path)
    return source


# --- taking out again --------------------------------------------------------------------------------------


def unmerge_json(text: str, insertions: Insertions) -> str:
    """The text without what was inserted: the bytes from before where nobody else wrote meanwhile; else by
    structure, and all that others wrote stays. Raises NotJson.
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
    """Whether the text holds nothing, or an object with nothing in it, not even a comment. Raises NotJson."""
    root = parse_root(text.encode())
    return "".join((text if root is None else node_text(root)).split()).removeprefix("\ufeff") in ("", "{}")


def remove_entry(source: bytes, entry: InsertedEntry) -> bytes:
    """The text without one thing that was added."""
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
    spots = find_inserted(decode_part(node, wanted), wanted)
    return remove_paths(source, sorted_paths([(*entry.path, *spot) for spot in spots]))


def has_value(node: Node, value: object) -> bool:
    """Whether the node says this value."""
    return is_same_value(decode_node(node), value)


def decode_part(node: Node, wanted: object) -> object:
    """As much of a node as what is wanted speaks of: other members of a large file are not looked at."""
    asked = as_object(wanted)
    if asked is None or node.type != "object":
        return decode_node(node)
    pairs = {key: find_pair(node, key) for key in asked}
    return {key: decode_node(pair_value(pair)) for key, pair in pairs.items() if pair is not None}


def sorted_paths(paths: list[JsonPath]) -> list[JsonPath]:
    """Paths so that those in one list come in its order."""
    return sorted(paths, key=lambda path: [(isinstance(step, int), step) for step in path])


def find_inserted(have: object, inserted: object) -> list[JsonPath]:
    """Where in `have` stands what was inserted, the parts of `have` and not `have` itself."""
    there, put = as_object(have), as_object(inserted)
    if there is not None and put is not None:
        return [path for key in put if key in there for path in find_inserted_member(key, there[key], put[key])]
    stands, listed = as_list(have), as_list(inserted)
    if stands is None or listed is None:
        return []
    found: list[JsonPath] = []
    for item in listed:
        taken_places = {path[0] for path in found if len(path) == 1}
        free = {number: one for number, one in enumerate(stands) if number not in taken_places}
        found += find_inserted_item(free, item)
    return found


def find_inserted_member(key: str, have: object, put: object) -> list[JsonPath]:
    """What of a member that was inserted is to go: all of it, or the parts that are still as we put them."""
    if key == OWN_NAME or is_same_value(have, put):
        return [(key,)]
    spots = find_inserted(have, put)
    return [(key,)] if spots and leaves_container_empty(have, spots) else [(key, *spot) for spot in spots]


def leaves_container_empty(have: object, spots: list[JsonPath]) -> bool:
    """Whether a container holds nothing beside these spots."""
    container = as_object(have) or as_list(have) or ()
    return len(container) == sum(len(spot) == 1 for spot in spots)


def find_inserted_item(stands: dict[int, object], put: object) -> list[JsonPath]:
    """Where a list holds an item that was put there; where others wrote into it, the parts of it that are ours."""
    for number, one in stands.items():
        if is_same_value(one, put):
            return [(number,)]
    lists = {key: value for key, value in (as_object(put) or {}).items() if as_list(value)}
    for number, one in stands.items():
        spots = find_inserted(one, lists) if lists else []
        if spots:
            inner = [(key, n) for key, *rest in spots for n in (rest or list_indexes(one, key))]
            return collapse_to_group(one, inner, (number,))
    return []


def list_indexes(group: object, key: str | int) -> range:
    """All places of the list under this key."""
    return range(len(as_list((as_object(group) or {}).get(str(key))) or []))
