"""Merging what is wanted into a JSON settings file, and taking it out again: pure, text to text."""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from msgspec import Struct
from tree_sitter import Node

from remit.wiring.insertions import (
    Edit,
    Entry,
    Insertions,
    Object,
    apply,
    as_list,
    as_object,
    covers,
    digest,
    same,
    undone,
)
from remit.wiring.json_text import (
    addition,
    at_path,
    children,
    conflict,
    decoded,
    key_of,
    newline_of,
    pair_of,
    replaced,
    root_of,
    text_of,
    value_node,
    without,
    written,
)

OWN_NAME = "remit"
"""A member of this name is ours altogether, wherever we want one."""

Path: TypeAlias = tuple[str | int, ...]
Ours: TypeAlias = Callable[[object], bool]


class _Missing(Struct, frozen=True):
    """One step towards what is wanted: into `node` (a container, or for a switch the value itself)."""

    entry: Entry
    node: Node
    key: str | None = None


def nothing_is_ours(_: object) -> bool:
    """For settings in which nothing is known by its looks."""
    return False


def merge_json(text: str, wanted: Mapping[str, object], is_ours: Ours = nothing_is_ours) -> tuple[str, Insertions]:
    """The text with everything in it that is wanted, and what was added.

    Objects are merged, lists get the items they lack, and a number, true, false or null is switched. What is ours
    and outdated goes first: members called `remit`, and list items that `is_ours` knows.
    Raises NotJson, and SettingsConflict where something of another kind stands in the way.
    """
    source = without_outdated(text.encode(), wanted, is_ours)
    before, edits, entries = digest(source), list[Edit](), list[Entry]()
    root = root_of(source)
    if root is None:
        edit = whole_document(source, wanted)
        entries = [Entry("member", (), {key: value}) for key, value in wanted.items()]
        source = apply(source, edit)
        return source.decode(), Insertions(before, digest(source), (edit,), tuple(entries), root=True)
    while (step := first_missing(root, wanted, ())) is not None:
        source, made = taken(source, root, step)
        edits += made
        entries.append(step.entry)
        root = root_of(source)
        assert root is not None  # additions leave the document a document
    return source.decode(), Insertions(before, digest(source), tuple(edits), tuple(entries))


def whole_document(source: bytes, wanted: Mapping[str, object]) -> Edit:
    """The edit that makes a document where there is none."""
    newline = newline_of(source)
    led = "" if not source.strip() or source.endswith(b"\n") else newline
    return Edit(len(source), led + written(None, wanted, "  ", newline) + newline)


def taken(source: bytes, root: Node, step: _Missing) -> tuple[bytes, list[Edit]]:
    """The text after one step."""
    if step.entry.kind == "switch":
        source, edit = replaced(source, step.node, written(None, step.entry.value, None))
        return source, [edit]
    members = as_object(step.entry.value)
    value = step.entry.value if step.key is None or members is None else members[step.key]
    edits = addition(source, root, step.node, step.key, value)
    for edit in edits:
        source = apply(source, edit)
    return source, edits


def first_missing(node: Node, wanted: Mapping[str, object], path: tuple[str, ...]) -> _Missing | None:
    """The first thing wanted that is not there."""
    for key, value in wanted.items():
        pair = pair_of(node, key)
        if pair is None:
            return _Missing(Entry("member", path, {key: value}), node, key)
        step = missing_in(value_node(pair), value, (*path, key))
        if step is not None:
            return step
    return None


def missing_in(present: Node, wanted: object, path: tuple[str, ...]) -> _Missing | None:
    """The first thing wanted that is not in this value."""
    members, items = as_object(wanted), as_list(wanted)
    if members is not None:
        if present.type != "object":
            raise conflict(path, present, "an object")
        return first_missing(present, members, path)
    if items is not None:
        if present.type != "array":
            raise conflict(path, present, "a list")
        have = [decoded(child) for child in children(present)]
        lacking = next((item for item in items if not any(covers(one, item) for one in have)), None)
        return None if lacking is None else _Missing(Entry("item", path, lacking), present)
    stands = decoded(present)
    if same(stands, wanted):
        return None
    if present.type in ("object", "array", "string"):
        raise conflict(path, present, f"{wanted!r}")
    return _Missing(Entry("switch", path, wanted, stands), present)


# --- what is outdated --------------------------------------------------------------------------------------


def without_outdated(source: bytes, wanted: Mapping[str, object], is_ours: Ours) -> bytes:
    """The text without those things of ours that are not what is wanted now."""
    root = root_of(source)
    if root is None:
        return source
    return delete(source, list(outdated(root, wanted, (), is_ours)))


def outdated(node: Node, wanted: Mapping[str, object], path: Path, is_ours: Ours) -> Iterator[Path]:
    """Where things of ours stand that are not wanted like that, below the members that are wanted."""
    for key, value in wanted.items():
        pair, asked = pair_of(node, key), as_object(value)
        if pair is None or asked is None or value_node(pair).type != "object":
            continue
        there = value_node(pair)
        own = pair_of(there, OWN_NAME) if OWN_NAME in asked else None
        if own is not None and not covers(decoded(value_node(own)), asked[OWN_NAME]):
            yield (*path, key, OWN_NAME)
        elif own is None:
            yield from outdated(there, asked, (*path, key), is_ours)
            yield from stale_items(decoded_lists(there), asked, (*path, key), is_ours)


def decoded_lists(node: Node) -> Object:
    """Those members of an object that are lists."""
    pairs = [(pair, value_node(pair)) for pair in children(node)]
    return {key_of(pair): decoded(value) for pair, value in pairs if value.type == "array"}


def stale_items(lists: Object, wanted: Mapping[str, object], path: Path, is_ours: Ours) -> Iterator[Path]:
    """Items of ours, in lists or one list deeper, that no wanted item covers."""
    for key, found in lists.items():
        asked = as_list(wanted.get(key)) or []
        for number, group in enumerate(as_list(found) or []):
            mine = [spot for spot in own_items(group, is_ours) if not any(is_part(group, spot, one) for one in asked)]
            yield from whole_if_all(group, mine, (*path, key, number))


def own_items(group: object, is_ours: Ours) -> list[Path]:
    """Where in a list item things of ours stand: at () where it is one itself."""
    if is_ours(group):
        return [()]
    members = as_object(group) or {}
    listed = [(key, as_list(value) or []) for key, value in members.items()]
    return [(key, number) for key, items in listed for number, one in enumerate(items) if is_ours(one)]


def is_part(group: object, spot: Path, wanted: object) -> bool:
    """Whether the thing of ours at this spot of a group is as a wanted group has it."""
    have, asked = as_object(group), as_object(wanted)
    if not spot or have is None or asked is None:
        return same(group, wanted)
    key, number = str(spot[0]), int(spot[1])
    mine = (as_list(have[key]) or [])[number]
    return any(same(mine, one) for one in as_list(asked.get(key)) or []) and covers(group, wanted)


def whole_if_all(group: object, spots: list[Path], path: Path) -> list[Path]:
    """Paths to these spots; to the group itself where its lists hold nothing else."""
    members = as_object(group)
    listed = sum(len(as_list(value) or []) for value in (members or {}).values())
    if spots and (spots == [()] or len(spots) == listed):
        return [path]
    return [(*path, *spot) for spot in spots]


def delete(source: bytes, paths: list[Path]) -> bytes:
    """The text without what stands at these paths, the last of them first: places before it stay true."""
    for path in reversed(paths):
        source = without(source, path)
    return source


# --- taking out again --------------------------------------------------------------------------------------


def unmerge_json(text: str, insertions: Insertions) -> str:
    """The text without what was inserted: the bytes from before where nobody else wrote meanwhile; else by
    structure, and all that others wrote stays. Raises NotJson.
    """
    source = text.encode()
    exact = undone(source, insertions)
    if exact is not None:
        return exact.decode()
    for entry in reversed(insertions.entries):
        source = without_entry(source, entry)
    if insertions.root and is_empty(source.decode()):
        return ""
    return source.decode()


def is_empty(text: str) -> bool:
    """Whether the text holds nothing, or an object with nothing in it, not even a comment. Raises NotJson."""
    root = root_of(text.encode())
    return "".join((text if root is None else text_of(root)).split()).removeprefix("\ufeff") in ("", "{}")


def without_entry(source: bytes, entry: Entry) -> bytes:
    """The text without one thing that was added."""
    root = root_of(source)
    node = at_path(root, entry.path)
    if node is None:
        return source
    if entry.kind == "switch":
        return replaced(source, node, written(None, entry.before, None))[0] if now(node, entry.value) else source
    wanted = [entry.value] if entry.kind == "item" else entry.value
    spots = leftovers(decoded_part(node, wanted), wanted)
    return delete(source, sorted_paths([(*entry.path, *spot) for spot in spots]))


def now(node: Node, value: object) -> bool:
    """Whether the node says this value."""
    return same(decoded(node), value)


def decoded_part(node: Node, wanted: object) -> object:
    """As much of a node as what is wanted speaks of: other members of a large file are not looked at."""
    asked = as_object(wanted)
    if asked is None or node.type != "object":
        return decoded(node)
    pairs = {key: pair_of(node, key) for key in asked}
    return {key: decoded(value_node(pair)) for key, pair in pairs.items() if pair is not None}


def sorted_paths(paths: list[Path]) -> list[Path]:
    """Paths so that those in one list come in its order."""
    return sorted(paths, key=lambda path: [(isinstance(step, int), step) for step in path])


def leftovers(have: object, inserted: object) -> list[Path]:
    """Where in `have` stands what was inserted, the parts of `have` and not `have` itself."""
    there, put = as_object(have), as_object(inserted)
    if there is not None and put is not None:
        return [path for key in put if key in there for path in member_spots(key, there[key], put[key])]
    stands, listed = as_list(have), as_list(inserted)
    if stands is None or listed is None:
        return []
    found: list[Path] = []
    for item in listed:
        taken_places = {path[0] for path in found if len(path) == 1}
        free = {number: one for number, one in enumerate(stands) if number not in taken_places}
        found += item_spots(free, item)
    return found


def member_spots(key: str, have: object, put: object) -> list[Path]:
    """What of a member that was inserted is to go: all of it, or the parts that are still as we put them."""
    if key == OWN_NAME or same(have, put):
        return [(key,)]
    spots = leftovers(have, put)
    return [(key,)] if spots and remains_nothing(have, spots) else [(key, *spot) for spot in spots]


def remains_nothing(have: object, spots: list[Path]) -> bool:
    """Whether a container holds nothing beside these spots."""
    container = as_object(have) or as_list(have) or ()
    return len(container) == sum(len(spot) == 1 for spot in spots)


def item_spots(stands: dict[int, object], put: object) -> list[Path]:
    """Where a list holds an item that was put there; where others wrote into it, the parts of it that are ours."""
    for number, one in stands.items():
        if same(one, put):
            return [(number,)]
    lists = {key: value for key, value in (as_object(put) or {}).items() if as_list(value)}
    for number, one in stands.items():
        spots = leftovers(one, lists) if lists else []
        if spots:
            inner = [(key, n) for key, *rest in spots for n in (rest or every_place(one, key))]
            return whole_if_all(one, inner, (number,))
    return []


def every_place(group: object, key: str | int) -> range:
    """All places of the list under this key."""
    return range(len(as_list((as_object(group) or {}).get(str(key))) or []))
