"""JSON as written by people (comments, trailing commas, any indentation), with the position of each node.

Documents are never rewritten: edits apply at node positions, and the remaining text stays. Source for positions:
tree-sitter-json 0.24. The grammar knows comments, but neither a trailing comma nor a byte order mark: both are
blanked before parsing; offsets stay valid.
"""

import json
import re
from collections.abc import Callable
from functools import cache

import tree_sitter_json
from tree_sitter import Language, Node, Parser

from remit.adapters.agent_row import JsonForm
from remit.wiring.insertions import SettingsConflict, TextEdit, apply_edit

BOM = b"\xef\xbb\xbf"
# Each comment has one end only: a search that goes back into one would find a bracket in it.
_COMMENT = rb"(?://[^\n]*(?![^\n])|/\*(?:[^*]|\*(?!/))*\*/)"
_SPACE_AND_COMMENTS = rb"(?:\s|" + _COMMENT + rb")*"
_TRAILING_COMMA = re.compile(
    rb'"(?:\\.|[^"\\])*"|' + _COMMENT + rb"|(,)(?=" + _SPACE_AND_COMMENTS + rb"[}\]])", re.DOTALL
)
_COMMENT_OR_COMMA = re.compile(rb"//[^\n]*|/\*.*?\*/|(,)", re.DOTALL)
_COMMENTS_ON_LINE = re.compile(rb"(?:[ \t]*(?://[^\r\n]*|/\*(?:[^*\r\n]|\*(?!/))*\*/))*")


class NotJson(ValueError):
    """A text that is not a JSON object, even with comments and trailing commas."""


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
        raise NotJson(f"it is no JSON: something is wrong at {locate_error(document)}")
    roots = list_children(document)
    if not roots:
        return None
    if len(roots) > 1 or roots[0].type != "object":
        raise NotJson("it holds something else than one JSON object")
    return roots[0]


def find_unusual_forms(source: bytes) -> set[JsonForm]:
    """Return the deviations of the text from strict JSON."""
    found: set[JsonForm] = {"bom"} if source.startswith(BOM) else set()
    for item in _TRAILING_COMMA.finditer(source):
        if item[1]:
            found.add("comma")
        elif item[0].startswith(b"/"):
            found.add("comment")
    return found


def locate_error(document: Node) -> str:
    """Return line and column of the first error."""
    node = document
    while (deeper := next((c for c in node.children if c.has_error or c.is_missing), None)) is not None:
        node = deeper
    return f"line {node.start_point.row + 1}, column {node.start_point.column + 1}"


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
    return str(decode_scalar(key)) if key else ""


def find_pair(container: Node, key: str) -> Node | None:
    """Return the pair with the key: of repeated keys the last takes effect."""
    return next((pair for pair in reversed(list_children(container)) if pair_key(pair) == key), None)


def decode_node(node: Node) -> object:
    if node.type == "object":
        return {pair_key(pair): decode_node(pair_value(pair)) for pair in list_children(node)}
    if node.type == "array":
        return [decode_node(item) for item in list_children(node)]
    return decode_scalar(node)


def decode_scalar(node: Node) -> object:
    """Decode a scalar. Raises NotJson: the grammar accepts some that JSON does not allow."""
    try:
        return json.loads(node_text(node), strict=False)
    except ValueError as error:
        raise NotJson(f"it is no JSON: something is wrong at line {node.start_point.row + 1} ({error})") from error


def find_at_path(root: Node | None, path: tuple[str | int, ...]) -> Node | None:
    """Return the value at a path of keys and indexes; None if there is none."""
    node = root
    for step in path:
        if node is None:
            return None
        node = find_child(node, step)
    return node


def find_child(node: Node, step: str | int) -> Node | None:
    if isinstance(step, int):
        items = list_children(node) if node.type == "array" else []
        return items[step] if step < len(items) else None
    pair = find_pair(node, step) if node.type == "object" else None
    return pair_value(pair) if pair else None


# --- putting in --------------------------------------------------------------------------------------------


def find_newline(source: bytes) -> str:
    first = source.find(b"\n")
    return "\r\n" if first > 0 and source[first - 1 : first] == b"\r" else "\n"


def find_indent(source: bytes, position: int) -> str:
    """Return the white space at the beginning of the line of `position`."""
    line = source[source.rfind(b"\n", 0, position) + 1 : position].removeprefix(BOM)
    return line[: len(line) - len(line.lstrip(b" \t"))].decode()


def find_indent_unit(source: bytes, root: Node) -> str:
    """Return one step of indentation, as used by the first member of the root."""
    first = next(iter(list_children(root)), None)
    if first is None or b"\n" not in source[root.start_byte : first.start_byte]:
        return "  "
    return find_indent(source, first.start_byte).removeprefix(find_indent(source, root.start_byte))


def format_member(key: str | None, value: object, unit: str | None, line_start: str = "") -> str:
    """Return a member or an item as text: a single line if `unit` is None, or lines led by `line_start`."""
    body = json.dumps(value, indent=unit, ensure_ascii=False)
    head = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
    return (head + body).replace("\n", line_start)


def build_addition(source: bytes, root: Node, container: Node, key: str | None, value: object) -> list[TextEdit]:
    """Return the edits that add a member (or, without a key, an item) at the end of a container, in the container's
    style.
    """
    present = list_children(container)
    unit, newline = find_indent_unit(source, root), find_newline(source)
    if not present:

        def write(line: str | None) -> str:
            return format_member(key, value, None if line is None else unit, line or "")

        return [build_first_child(source, root, container, write)]
    first, last = present[0], present[-1]
    comma = find_comma(source, last.end_byte, container.end_byte - 1)
    spot = last.end_byte if comma is None else comma + 1
    skipped = _COMMENTS_ON_LINE.match(source, spot)
    anchor = skipped.end() if skipped else spot
    several = b"\n" in source[container.start_byte : first.start_byte]
    line = newline + find_indent(source, (first if several else container).start_byte)
    if several or b"//" in source[spot:anchor]:
        text = line + format_member(key, value, unit, line)
    else:
        text = " " + format_member(key, value, None)
    if comma is not None:
        return [TextEdit(anchor, text)]
    return [TextEdit(spot, ","), TextEdit(anchor + 1, text)]


def build_first_child(source: bytes, root: Node, container: Node, write: Callable[[str | None], str]) -> TextEdit:
    """Return the edit that adds the first element of an empty container."""
    close = container.end_byte - 1
    inside = source[container.start_byte + 1 : close]
    anchor = container.start_byte + 1 + len(inside.rstrip())
    if container != root and b"\n" not in source[root.start_byte : root.end_byte]:
        return TextEdit(anchor, write(None))
    line = find_newline(source) + find_indent(source, container.start_byte)
    inner = line + find_indent_unit(source, root)
    tail = "" if b"\n" in source[anchor:close] else line
    return TextEdit(anchor, inner + write(inner) + tail)


def find_comma(source: bytes, start: int, end: int) -> int | None:
    """Return the position of the first comma outside comments."""
    return next((m.start() for m in _COMMENT_OR_COMMA.finditer(source, start, end) if m[1]), None)


# --- taking out --------------------------------------------------------------------------------------------


def remove_at_path(source: bytes, path: tuple[str | int, ...]) -> bytes:
    """Return the text without the member or item at `path` and the comma; unchanged if absent."""
    container = find_at_path(parse_root(source), path[:-1])
    if container is None:
        return source
    step = path[-1]
    child = find_pair(container, step) if isinstance(step, str) and container.type == "object" else None
    if isinstance(step, int) and container.type == "array":
        child = find_child(container, step)
    if child is None:
        return source
    return remove_child(source, container, child)


def remove_child(source: bytes, container: Node, child: Node) -> bytes:
    present = list_children(container)
    number = present.index(child)
    close = container.end_byte - 1
    if len(present) == 1:
        return remove_only_child(source, container, child)
    if number < len(present) - 1:
        return remove_child_before(source, child, present[number + 1])
    start = find_space_start(source, present[number - 1].end_byte, child.start_byte)
    trailing = find_comma(source, child.end_byte, close)
    if trailing is not None:
        return source[:start] + source[trailing + 1 :]
    comma = find_comma(source, present[number - 1].end_byte, child.start_byte)
    assert comma is not None  # between two children there is one, or it would be a syntax error
    return source[:comma] + source[comma + 1 : max(start, comma + 1)] + source[child.end_byte :]


def remove_child_before(source: bytes, child: Node, following: Node) -> bytes:
    """Remove a child with a successor: the successor, or the comments before it, move up."""
    comma = find_comma(source, child.end_byte, following.start_byte)
    assert comma is not None  # as above
    gap = source[comma + 1 : following.start_byte]
    end = following.start_byte if not gap.strip() else comma + 1 + len(gap) - len(gap.lstrip(b" \t"))
    return source[: child.start_byte] + source[end:]


def remove_only_child(source: bytes, container: Node, child: Node) -> bytes:
    """Remove an only child; the brackets close up if the container is then blank."""
    close = container.end_byte - 1
    trailing = find_comma(source, child.end_byte, close)
    after = source[child.end_byte if trailing is None else trailing + 1 : close]
    before = source[container.start_byte + 1 : child.start_byte]
    rest = before + after
    return source[: container.start_byte + 1] + (rest if rest.strip() else b"") + source[close:]


def find_space_start(source: bytes, floor: int, position: int) -> int:
    """Return the start of the white space before `position`. A line comment keeps its newline."""
    gap = source[floor:position]
    start = floor + len(gap.rstrip())
    comments = [m for m in _COMMENT_OR_COMMA.finditer(source, floor, position) if m[0].startswith(b"//")]
    if comments and comments[-1].end() >= start:
        return position if b"\n" not in source[start:position] else source.index(b"\n", start) + 1
    return start


def replace_node(source: bytes, node: Node, text: str) -> tuple[bytes, TextEdit]:
    edit = TextEdit(node.start_byte, text, node_text(node))
    return apply_edit(source, edit), edit


def build_conflict(path: tuple[str, ...], node: Node, expected: str) -> SettingsConflict:
    return SettingsConflict(f"{'.'.join(path)!r} is {node.type}, expected {expected}")
