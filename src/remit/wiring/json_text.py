"""JSON as people write it (comments, trailing commas, any indentation), with the place of every node.

Nothing here writes a document anew: text goes in and comes out at node positions, all else stays as it stands.
Source for positions: tree-sitter-json 0.24. It knows comments, but no comma before a closing bracket, so those are
blanked, and a byte order mark too, before it looks; every offset stays true.
"""

import json
import re
from collections.abc import Callable
from functools import cache

import tree_sitter_json
from tree_sitter import Language, Node, Parser

from remit.adapters.row import JsonForm
from remit.wiring.insertions import Edit, SettingsConflict, apply

BOM = b"\xef\xbb\xbf"
# Each comment has one end only: a search that goes back into one would find a bracket in it.
_COMMENT = rb"(?://[^\n]*(?![^\n])|/\*(?:[^*]|\*(?!/))*\*/)"
_SKIPPED = rb"(?:\s|" + _COMMENT + rb")*"
_TRAILING = re.compile(rb'"(?:\\.|[^"\\])*"|' + _COMMENT + rb"|(,)(?=" + _SKIPPED + rb"[}\]])", re.DOTALL)
_GAP = re.compile(rb"//[^\n]*|/\*.*?\*/|(,)", re.DOTALL)
_COMMENTS_ON_LINE = re.compile(rb"(?:[ \t]*(?://[^\r\n]*|/\*(?:[^*\r\n]|\*(?!/))*\*/))*")


class NotJson(ValueError):
    """The text is no JSON object, even with comments and trailing commas."""


@cache
def parser() -> Parser:
    """The parser."""
    return Parser(Language(tree_sitter_json.language()))


def root_of(source: bytes) -> Node | None:
    """The object that the text holds; None where it holds nothing but white space and comments. Raises NotJson."""
    text = source.replace(BOM, b"   ", 1) if source.startswith(BOM) else source
    document = parser().parse(text).root_node
    if document.has_error:
        document = parser().parse(_TRAILING.sub(lambda m: b" " if m[1] else m[0], text)).root_node
    if document.has_error:
        raise NotJson(f"it is no JSON: something is wrong at {place_of_error(document)}")
    roots = children(document)
    if not roots:
        return None
    if len(roots) > 1 or roots[0].type != "object":
        raise NotJson("it holds something else than one JSON object")
    return roots[0]


def unusual(source: bytes) -> set[JsonForm]:
    """What the text has that strict JSON has not."""
    found: set[JsonForm] = {"bom"} if source.startswith(BOM) else set()
    for each in _TRAILING.finditer(source):
        if each[1]:
            found.add("comma")
        elif each[0].startswith(b"/"):
            found.add("comment")
    return found


def place_of_error(document: Node) -> str:
    """Line and column of the first thing that does not fit."""
    node = document
    while (deeper := next((c for c in node.children if c.has_error or c.is_missing), None)) is not None:
        node = deeper
    return f"line {node.start_point.row + 1}, column {node.start_point.column + 1}"


def children(container: Node) -> list[Node]:
    """The pairs of an object, or the items of an array."""
    return [child for child in container.named_children if not child.is_extra]


def text_of(node: Node) -> str:
    """The node as it is written."""
    return (node.text or b"").decode()


def value_node(pair: Node) -> Node:
    """The value of a pair."""
    found = pair.child_by_field_name("value")
    assert found is not None  # a pair without one is a syntax error, refused before
    return found


def key_of(pair: Node) -> str:
    """The key of a pair, decoded."""
    key = pair.child_by_field_name("key")
    return str(plain(key)) if key else ""


def pair_of(container: Node, key: str) -> Node | None:
    """The pair with this key: of several the last, which is the one that counts."""
    return next((pair for pair in reversed(children(container)) if key_of(pair) == key), None)


def decoded(node: Node) -> object:
    """The node as a value."""
    if node.type == "object":
        return {key_of(pair): decoded(value_node(pair)) for pair in children(node)}
    if node.type == "array":
        return [decoded(item) for item in children(node)]
    return plain(node)


def plain(node: Node) -> object:
    """A string, a number or a word as a value. Raises NotJson: the grammar takes some that JSON does not know."""
    try:
        return json.loads(text_of(node), strict=False)
    except ValueError as error:
        raise NotJson(f"it is no JSON: something is wrong at line {node.start_point.row + 1} ({error})") from error


def at_path(root: Node | None, path: tuple[str | int, ...]) -> Node | None:
    """The value at a path of keys and places; None where there is none."""
    node = root
    for step in path:
        if node is None:
            return None
        node = child_at(node, step)
    return node


def child_at(node: Node, step: str | int) -> Node | None:
    """The value at one key or place."""
    if isinstance(step, int):
        items = children(node) if node.type == "array" else []
        return items[step] if step < len(items) else None
    pair = pair_of(node, step) if node.type == "object" else None
    return value_node(pair) if pair else None


# --- putting in --------------------------------------------------------------------------------------------


def newline_of(source: bytes) -> str:
    """How its lines end."""
    first = source.find(b"\n")
    return "\r\n" if first > 0 and source[first - 1 : first] == b"\r" else "\n"


def indent_at(source: bytes, position: int) -> str:
    """The white space that begins the line of `position`."""
    line = source[source.rfind(b"\n", 0, position) + 1 : position].removeprefix(BOM)
    return line[: len(line) - len(line.lstrip(b" \t"))].decode()


def unit_of(source: bytes, root: Node) -> str:
    """One step of indentation, as the first member of the root shows it."""
    first = next(iter(children(root)), None)
    if first is None or b"\n" not in source[root.start_byte : first.start_byte]:
        return "  "
    return indent_at(source, first.start_byte).removeprefix(indent_at(source, root.start_byte))


def written(key: str | None, value: object, unit: str | None, line_start: str = "") -> str:
    """A member or an item as text: on one line without a unit, else on lines that begin with `line_start`."""
    body = json.dumps(value, indent=unit, ensure_ascii=False)
    head = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
    return (head + body).replace("\n", line_start)


def addition(source: bytes, root: Node, container: Node, key: str | None, value: object) -> list[Edit]:
    """The edits that add a member (or, without a key, an item) at the end of a container, in its own style."""
    present = children(container)
    unit, newline = unit_of(source, root), newline_of(source)
    if not present:

        def write(line: str | None) -> str:
            return written(key, value, None if line is None else unit, line or "")

        return [filling(source, root, container, write)]
    first, last = present[0], present[-1]
    comma = comma_in(source, last.end_byte, container.end_byte - 1)
    spot = last.end_byte if comma is None else comma + 1
    skipped = _COMMENTS_ON_LINE.match(source, spot)
    anchor = skipped.end() if skipped else spot
    several = b"\n" in source[container.start_byte : first.start_byte]
    line = newline + indent_at(source, (first if several else container).start_byte)
    if several or b"//" in source[spot:anchor]:
        text = line + written(key, value, unit, line)
    else:
        text = " " + written(key, value, None)
    if comma is not None:
        return [Edit(anchor, text)]
    return [Edit(spot, ","), Edit(anchor + 1, text)]


def filling(source: bytes, root: Node, container: Node, write: Callable[[str | None], str]) -> Edit:
    """The edit that puts the first thing into an empty container."""
    close = container.end_byte - 1
    inside = source[container.start_byte + 1 : close]
    anchor = container.start_byte + 1 + len(inside.rstrip())
    if container != root and b"\n" not in source[root.start_byte : root.end_byte]:
        return Edit(anchor, write(None))
    line = newline_of(source) + indent_at(source, container.start_byte)
    inner = line + unit_of(source, root)
    tail = "" if b"\n" in source[anchor:close] else line
    return Edit(anchor, inner + write(inner) + tail)


def comma_in(source: bytes, start: int, end: int) -> int | None:
    """Where the first comma outside of comments stands."""
    return next((m.start() for m in _GAP.finditer(source, start, end) if m[1]), None)


# --- taking out --------------------------------------------------------------------------------------------


def without(source: bytes, path: tuple[str | int, ...]) -> bytes:
    """The text without the member or item at `path`, its comma included. What is not there changes nothing."""
    container = at_path(root_of(source), path[:-1])
    if container is None:
        return source
    step = path[-1]
    child = pair_of(container, step) if isinstance(step, str) and container.type == "object" else None
    if isinstance(step, int) and container.type == "array":
        child = child_at(container, step)
    if child is None:
        return source
    return taken_out(source, container, child)


def taken_out(source: bytes, container: Node, child: Node) -> bytes:
    """The text without this child of this container."""
    present = children(container)
    number = present.index(child)
    close = container.end_byte - 1
    if len(present) == 1:
        return emptied(source, container, child)
    if number < len(present) - 1:
        return taken_before_another(source, child, present[number + 1])
    start = space_before(source, present[number - 1].end_byte, child.start_byte)
    trailing = comma_in(source, child.end_byte, close)
    if trailing is not None:
        return source[:start] + source[trailing + 1 :]
    comma = comma_in(source, present[number - 1].end_byte, child.start_byte)
    assert comma is not None  # between two children there is one, or it would be a syntax error
    return source[:comma] + source[comma + 1 : max(start, comma + 1)] + source[child.end_byte :]


def taken_before_another(source: bytes, child: Node, following: Node) -> bytes:
    """The text without a child that another one follows: that one moves up, or the comments before it do."""
    comma = comma_in(source, child.end_byte, following.start_byte)
    assert comma is not None  # as above
    gap = source[comma + 1 : following.start_byte]
    end = following.start_byte if not gap.strip() else comma + 1 + len(gap) - len(gap.lstrip(b" \t"))
    return source[: child.start_byte] + source[end:]


def emptied(source: bytes, container: Node, child: Node) -> bytes:
    """The text without an only child; where nothing else stands in the container, its brackets close up."""
    close = container.end_byte - 1
    trailing = comma_in(source, child.end_byte, close)
    after = source[child.end_byte if trailing is None else trailing + 1 : close]
    before = source[container.start_byte + 1 : child.start_byte]
    rest = before + after
    return source[: container.start_byte + 1] + (rest if rest.strip() else b"") + source[close:]


def space_before(source: bytes, floor: int, position: int) -> int:
    """Where the white space before `position` begins. A line comment keeps the end of its line."""
    gap = source[floor:position]
    start = floor + len(gap.rstrip())
    comments = [m for m in _GAP.finditer(source, floor, position) if m[0].startswith(b"//")]
    if comments and comments[-1].end() >= start:
        return position if b"\n" not in source[start:position] else source.index(b"\n", start) + 1
    return start


def replaced(source: bytes, node: Node, text: str) -> tuple[bytes, Edit]:
    """The text with another value in the node's place."""
    edit = Edit(node.start_byte, text, text_of(node))
    return apply(source, edit), edit


def conflict(path: tuple[str, ...], node: Node, expected: str) -> SettingsConflict:
    """What stands there is of another kind than what has to."""
    return SettingsConflict(f"{'.'.join(path)!r} is {node.type}, expected {expected}")
