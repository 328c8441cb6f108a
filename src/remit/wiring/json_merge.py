"""Merging settings into a JSON file and removing them again: pure, text to text.

Documents are never rewritten: edits apply at node positions, and all other text stays as people wrote it (comments,
trailing commas, any indentation). Source for positions: tree-sitter-json 0.24. The grammar knows comments, but neither
a trailing comma nor a byte order mark: both are blanked before parsing; offsets stay valid.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import NamedTuple, TypeAlias

import tree_sitter_json
from tree_sitter import Language, Node, Parser

from remit.core.agents.row import JsonForm
from remit.core.diff.contents import sha256
from remit.core.untrusted_input import as_array, as_object
from remit.wiring.manifest import (
    InsertedEntry,
    Insertions,
    JsonObject,
    SettingsConflict,
    TextEdit,
    apply_edit,
    contains_settings,
    is_same_value,
    list_or_none,
    object_or_none,
    undo_exactly,
)

OWN_NAME = "remit"  # members with this name belong to Remit, wherever Remit wants one
BOM = b"\xef\xbb\xbf"
# Each comment has one end only: a search that goes back into one would find a bracket in it.
_COMMENT = rb"(?://[^\n]*(?![^\n])|/\*(?:[^*]|\*(?!/))*\*/)"
_SPACE_AND_COMMENTS = rb"(?:\s|" + _COMMENT + rb")*"
_TRAILING_COMMA = re.compile(
    rb'"(?:\\.|[^"\\])*"|' + _COMMENT + rb"|(,)(?=" + _SPACE_AND_COMMENTS + rb"[}\]])", re.DOTALL
)
_COMMENT_OR_COMMA = re.compile(rb"//[^\n]*|/\*.*?\*/|(,)", re.DOTALL)
_COMMENTS_ON_LINE = re.compile(rb"(?:[ \t]*(?://[^\r\n]*|/\*(?:[^*\r\n]|\*(?!/))*\*/))*")
JsonPath: TypeAlias = tuple[str | int, ...]
OwnPredicate: TypeAlias = Callable[[object], bool]


class NotJson(ValueError):
    """A text that is not a JSON object, even with comments and trailing commas."""


class _MissingStep(NamedTuple):
    """One missing element, to be added to `node`: a container, or for a switch the value itself."""

    entry: InsertedEntry
    node: Node
    key: str | None = None
    value: object = None


# --- merging -----------------------------------------------------------------------------------------------


def merge_json(
    text: str, wanted: Mapping[str, object], is_ours: OwnPredicate = lambda _: False
) -> tuple[str, Insertions]:
    """Return the text with all wanted settings, and the additions. Objects are merged, lists receive missing items, and
    numbers, booleans and null are switched. Outdated settings of Remit's are removed first: members named `remit`, and
    list items that `is_ours` recognises. Raises NotJson, and SettingsConflict if an element of another kind is in the
    way.
    """
    source = text.encode()
    if (root := parse_root(source)) is not None:
        source = remove_paths(source, list(find_outdated(root, wanted, (), is_ours)))
    before, edits, entries = sha256(source), list[TextEdit](), list[InsertedEntry]()
    root = parse_root(source)
    if root is None:
        newline = find_newline(source)
        lead = "" if not source.strip() or source.endswith(b"\n") else newline
        edit = TextEdit(len(source), lead + format_member(None, wanted, "  ", newline) + newline)
        source = apply_edit(source, edit)
        added = tuple(InsertedEntry("member", (), {key: value}) for key, value in wanted.items())
        return source.decode(), Insertions(before, sha256(source), (edit,), added, root=True)
    while (step := find_first_missing(root, wanted, ())) is not None:
        if step.entry.kind == "switch":
            created = [replacement(step.node, step.entry.value)]
        else:
            created = build_addition(source, root, step.node, step.key, step.value)
        for edit in created:
            source = apply_edit(source, edit)
        edits += created
        entries.append(step.entry)
        root = parse_root(source)
        assert root is not None  # additions leave the document a document
    return source.decode(), Insertions(before, sha256(source), tuple(edits), tuple(entries))


def find_first_missing(node: Node, wanted: Mapping[str, object], path: tuple[str, ...]) -> _MissingStep | None:
    """Return the first missing element of an object. Raises SettingsConflict."""
    for key, value in wanted.items():
        pair = find_pair(node, key)
        if pair is None:
            return _MissingStep(InsertedEntry("member", path, {key: value}), node, key, value)
        if (step := find_missing_in(pair_value(pair), value, (*path, key))) is not None:
            return step
    return None


def find_missing_in(present: Node, wanted: object, path: tuple[str, ...]) -> _MissingStep | None:
    """Return the first missing element of a value. Raises SettingsConflict."""

    def conflict(expected: str) -> SettingsConflict:
        return SettingsConflict(f"{'.'.join(path)!r} is {present.type}, expected {expected}")

    members, items = object_or_none(wanted), list_or_none(wanted)
    if members is not None:
        if present.type != "object":
            raise conflict("an object")
        return find_first_missing(present, members, path)
    if items is not None:
        if present.type != "array":
            raise conflict("a list")
        have = [decode_node(child) for child in list_children(present)]
        missing = next((item for item in items if not any(contains_settings(entry, item) for entry in have)), None)
        return None if missing is None else _MissingStep(InsertedEntry("item", path, missing), present, None, missing)
    current = decode_node(present)
    if is_same_value(current, wanted):
        return None
    if present.type in ("object", "array", "string"):
        raise conflict(f"{wanted!r}")
    return _MissingStep(InsertedEntry("switch", path, wanted, current), present)


def find_outdated(
    node: Node, wanted: Mapping[str, object], path: JsonPath, is_ours: OwnPredicate
) -> Iterator[JsonPath]:
    for key, value in wanted.items():
        pair, requested = find_pair(node, key), object_or_none(value)
        if pair is None or requested is None or pair_value(pair).type != "object":
            continue
        present = pair_value(pair)
        own = find_pair(present, OWN_NAME) if OWN_NAME in requested else None
        if own is not None:
            if not contains_settings(decode_node(pair_value(own)), requested[OWN_NAME]):
                yield (*path, key, OWN_NAME)
            continue
        yield from find_outdated(present, requested, (*path, key), is_ours)
        for name, groups in decode_lists(present).items():
            for number, group in enumerate(groups):
                stale = [
                    place
                    for place in find_own_items(group, is_ours)
                    if not any(is_item_current(group, place, item) for item in as_array(requested.get(name)))
                ]
                yield from collapse_to_group(group, stale, (*path, key, name, number))


def decode_lists(node: Node) -> dict[str, list[object]]:
    pairs = [(pair, pair_value(pair)) for pair in list_children(node)]
    return {pair_key(pair): as_array(decode_node(value)) for pair, value in pairs if value.type == "array"}


def find_own_items(group: object, is_ours: OwnPredicate) -> list[JsonPath]:
    """Return the paths of Remit's elements in the lists of a list item; () if the item itself is Remit's."""
    if is_ours(group):
        return [()]
    listed = [(key, as_array(value)) for key, value in as_object(group).items()]
    return [(key, number) for key, items in listed for number, item in enumerate(items) if is_ours(item)]


def is_item_current(group: object, place: JsonPath, wanted: object) -> bool:
    members, wanted_members = object_or_none(group), object_or_none(wanted)
    if not place or members is None or wanted_members is None:
        return is_same_value(group, wanted)
    key, number = str(place[0]), int(place[1])
    element = as_array(members[key])[number]
    has_equal = any(is_same_value(element, other) for other in as_array(wanted_members.get(key)))
    return has_equal and contains_settings(group, wanted)


def collapse_to_group(group: object, places: list[JsonPath], path: JsonPath) -> list[JsonPath]:
    """Return the full paths of the elements, or of the group if its lists would be empty."""
    listed = sum(len(as_array(value)) for value in as_object(group).values())
    if places and (places == [()] or len(places) == listed):
        return [path]
    return [(*path, *place) for place in places]


# --- taking out again --------------------------------------------------------------------------------------


def unmerge_json(text: str, insertions: Insertions) -> str:
    """Return the text without the insertions: the original bytes if the text did not change since. Otherwise the
    insertions are removed by structure, and all later changes stay. Raises NotJson.
    """
    source = text.encode()
    if (exact := undo_exactly(source, insertions)) is not None:
        return exact.decode()
    for entry in reversed(insertions.entries):
        source = remove_entry(source, entry)
    return "" if insertions.root and is_empty(source.decode()) else source.decode()


def is_empty(text: str) -> bool:
    root = parse_root(text.encode())
    return "".join((text if root is None else node_text(root)).split()).removeprefix("\ufeff") in ("", "{}")


def remove_entry(source: bytes, entry: InsertedEntry) -> bytes:
    node = find_at_path(parse_root(source), entry.path)
    if node is None:
        return source
    if entry.kind == "switch":
        is_ours = is_same_value(decode_node(node), entry.value)
        return apply_edit(source, replacement(node, entry.before)) if is_ours else source
    if entry.kind == "item":
        places = find_inserted(decode_node(node), [entry.value])
    elif node.type == "object":
        # Only the wanted members are decoded: other members of a large file are not read.
        wanted = as_object(entry.value)
        pairs = {key: find_pair(node, key) for key in wanted}
        have = {key: decode_node(pair_value(pair)) for key, pair in pairs.items() if pair is not None}
        places = find_inserted(have, wanted)
    else:
        places = []
    paths = [(*entry.path, *place) for place in places]
    return remove_paths(source, sorted(paths, key=lambda path: [(isinstance(step, int), step) for step in path]))


def find_inserted(have: object, inserted: object) -> list[JsonPath]:
    """Return the paths in `have` of inserted elements, never of `have` itself."""
    present, wanted = object_or_none(have), object_or_none(inserted)
    if present is not None and wanted is not None:
        return [
            path for key in wanted if key in present for path in find_inserted_member(key, present[key], wanted[key])
        ]
    found: list[JsonPath] = []
    for item in list_or_none(inserted) or ():
        taken_places = {path[0] for path in found if len(path) == 1}
        free = {number: other for number, other in enumerate(list_or_none(have) or ()) if number not in taken_places}
        found += find_inserted_item(free, item)
    return found


def find_inserted_member(key: str, have: object, put: object) -> list[JsonPath]:
    if key == OWN_NAME or is_same_value(have, put):
        return [(key,)]
    places = find_inserted(have, put)
    container = object_or_none(have) or list_or_none(have) or ()
    leaves_nothing = bool(places) and len(container) == sum(len(place) == 1 for place in places)
    return [(key,)] if leaves_nothing else [(key, *place) for place in places]


def find_inserted_item(items: dict[int, object], put: object) -> list[JsonPath]:
    for number, candidate in items.items():
        if is_same_value(candidate, put):
            return [(number,)]
    lists = {key: value for key, value in as_object(put).items() if list_or_none(value)}
    for number, candidate in items.items():
        if places := find_inserted(candidate, lists):
            members = as_object(candidate)
            inner: list[JsonPath] = [
                (key, n) for key, *rest in places for n in (rest or range(len(as_array(members.get(str(key))))))
            ]
            return collapse_to_group(candidate, inner, (number,))
    return []


def remove_paths(source: bytes, paths: list[JsonPath]) -> bytes:
    """Remove the elements at the paths, the last first: earlier paths stay valid. Absent elements are skipped."""
    for *above, step in reversed(paths):
        container = find_at_path(parse_root(source), tuple(above))
        child = find_child(container, step) if container is not None else None
        if container is not None and child is not None:
            source = remove_child(source, container, child)
    return source


def remove_child(source: bytes, container: Node, child: Node) -> bytes:
    present = list_children(container)
    number, close = present.index(child), container.end_byte - 1
    trailing = find_comma(source, child.end_byte, close)
    if len(present) == 1:  # the brackets close up if the container is then blank
        after = source[child.end_byte if trailing is None else trailing + 1 : close]
        rest = source[container.start_byte + 1 : child.start_byte] + after
        return source[: container.start_byte + 1] + (rest if rest.strip() else b"") + source[close:]
    if number < len(present) - 1:  # the successor, or the comments before it, move up
        assert trailing is not None  # between two children there is one, or it would be a syntax error
        following = present[number + 1].start_byte
        gap = source[trailing + 1 : following]
        end = following if not gap.strip() else trailing + 1 + len(gap) - len(gap.lstrip(b" \t"))
        return source[: child.start_byte] + source[end:]
    previous = present[number - 1].end_byte
    start = previous + len(source[previous : child.start_byte].rstrip())
    comments = [m for m in _COMMENT_OR_COMMA.finditer(source, previous, child.start_byte) if m[0].startswith(b"//")]
    if comments and comments[-1].end() >= start:  # a line comment keeps its newline
        has_line = b"\n" in source[start : child.start_byte]
        start = source.index(b"\n", start) + 1 if has_line else child.start_byte
    if trailing is not None:
        return source[:start] + source[trailing + 1 :]
    comma = find_comma(source, previous, child.start_byte)
    assert comma is not None  # as above
    return source[:comma] + source[comma + 1 : max(start, comma + 1)] + source[child.end_byte :]


# --- adding ------------------------------------------------------------------------------------------------


def build_addition(source: bytes, root: Node, container: Node, key: str | None, value: object) -> list[TextEdit]:
    present = list_children(container)
    newline, unit = find_newline(source), find_indent_unit(source, root)
    if not present:
        close = container.end_byte - 1
        inside = source[container.start_byte + 1 : close]
        anchor = container.start_byte + 1 + len(inside.rstrip())
        if container != root and b"\n" not in source[root.start_byte : root.end_byte]:
            return [TextEdit(anchor, format_member(key, value, None))]
        line = newline + find_indent(source, container.start_byte)
        tail = "" if b"\n" in source[anchor:close] else line
        return [TextEdit(anchor, line + unit + format_member(key, value, unit, line + unit) + tail)]
    first, last = present[0], present[-1]
    comma = find_comma(source, last.end_byte, container.end_byte - 1)
    spot = last.end_byte if comma is None else comma + 1
    skipped = _COMMENTS_ON_LINE.match(source, spot)
    anchor = skipped.end() if skipped else spot
    several = b"\n" in source[container.start_byte : first.start_byte]
    if several or b"//" in source[spot:anchor]:
        line = newline + find_indent(source, (first if several else container).start_byte)
        text = line + format_member(key, value, unit, line)
    else:
        text = " " + format_member(key, value, None)
    return [TextEdit(anchor, text)] if comma is not None else [TextEdit(spot, ","), TextEdit(anchor + 1, text)]


def format_member(key: str | None, value: object, unit: str | None, line_start: str = "") -> str:
    """Return a member or an item as text: a single line if `unit` is None, or lines led by `line_start`."""
    body = json.dumps(value, indent=unit, ensure_ascii=False)
    head = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
    return (head + body).replace("\n", line_start)


def replacement(node: Node, value: object) -> TextEdit:
    return TextEdit(node.start_byte, format_member(None, value, None), node_text(node))


def find_newline(source: bytes) -> str:
    first = source.find(b"\n")
    return "\r\n" if first > 0 and source[first - 1 : first] == b"\r" else "\n"


def find_indent(source: bytes, position: int) -> str:
    line = source[source.rfind(b"\n", 0, position) + 1 : position].removeprefix(BOM)
    return line[: len(line) - len(line.lstrip(b" \t"))].decode()


def find_indent_unit(source: bytes, root: Node) -> str:
    first = next(iter(list_children(root)), None)
    if first is None or b"\n" not in source[root.start_byte : first.start_byte]:
        return "  "
    return find_indent(source, first.start_byte).removeprefix(find_indent(source, root.start_byte))


def find_comma(source: bytes, start: int, end: int) -> int | None:
    return next((m.start() for m in _COMMENT_OR_COMMA.finditer(source, start, end) if m[1]), None)


# --- the document ------------------------------------------------------------------------------------------


@cache
def json_parser() -> Parser:
    return Parser(Language(tree_sitter_json.language()))


def parse_root(source: bytes) -> Node | None:
    """Return the object in the text; None if there is only white space and comments. Raises NotJson."""
    text = source.replace(BOM, b"   ", 1) if source.startswith(BOM) else source
    document = json_parser().parse(text).root_node
    if document.has_error:
        document = json_parser().parse(_TRAILING_COMMA.sub(lambda m: b" " if m[1] else m[0], text)).root_node
    if document.has_error:
        node = document
        while (deeper := next((c for c in node.children if c.has_error or c.is_missing), None)) is not None:
            node = deeper
        place = f"line {node.start_point.row + 1}, column {node.start_point.column + 1}"
        raise NotJson(f"it is no JSON: something is wrong at {place}")
    roots = list_children(document)
    if len(roots) > 1 or (roots and roots[0].type != "object"):
        raise NotJson("it holds something else than one JSON object")
    return roots[0] if roots else None


def decode_document(source: bytes) -> JsonObject:
    root = parse_root(source)
    return as_object(decode_node(root)) if root else {}


def find_unusual_forms(source: bytes) -> set[JsonForm]:
    found: set[JsonForm] = {"bom"} if source.startswith(BOM) else set()
    for item in _TRAILING_COMMA.finditer(source):
        if item[1]:
            found.add("comma")
        elif item[0].startswith(b"/"):
            found.add("comment")
    return found


def list_children(container: Node) -> list[Node]:
    return [child for child in container.named_children if not child.is_extra]


def node_text(node: Node) -> str:
    return (node.text or b"").decode()


def pair_value(pair: Node) -> Node:
    found = pair.child_by_field_name("value")
    assert found is not None  # a pair without one is a syntax error, refused before
    return found


def pair_key(pair: Node) -> str:
    key = pair.child_by_field_name("key")
    return str(decode_node(key)) if key else ""


def find_pair(container: Node, key: str) -> Node | None:
    """Return the pair with the key: of repeated keys the last takes effect."""
    return next((pair for pair in reversed(list_children(container)) if pair_key(pair) == key), None)


def decode_node(node: Node) -> object:
    """Return the value of a node. Raises NotJson: the grammar accepts some scalars that JSON does not allow."""
    if node.type == "object":
        return {pair_key(pair): decode_node(pair_value(pair)) for pair in list_children(node)}
    if node.type == "array":
        return [decode_node(item) for item in list_children(node)]
    try:
        return json.loads(node_text(node), strict=False)
    except ValueError as error:
        raise NotJson(f"it is no JSON: something is wrong at line {node.start_point.row + 1} ({error})") from error


def find_at_path(root: Node | None, path: JsonPath) -> Node | None:
    for step in path:
        child = find_child(root, step) if root is not None else None
        root = pair_value(child) if child is not None and child.type == "pair" else child
    return root


def find_child(container: Node, step: str | int) -> Node | None:
    if isinstance(step, int):
        return dict(enumerate(list_children(container))).get(step) if container.type == "array" else None
    return find_pair(container, step) if container.type == "object" else None
