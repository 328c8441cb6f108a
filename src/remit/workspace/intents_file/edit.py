"""Edits of a list of intents, or of the file of one: text in, text out, with each byte outside the change kept.

New text is spliced in at the positions of YAML nodes, so the file keeps its comments, order, quotes, indentation and
line ends; a round trip through a YAML emitter would lay out parts of the file anew. The result is parsed again before
it is returned: an edit has exactly the requested effect, or is refused.

Texts keep their line ends: read them with `path.read_bytes().decode()`.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from remit.core.intent import FINAL_STATUSES, Constraint, Criterion, Intent, is_intent_id, make_slug
from remit.core.intents.validation import describe_constraint, parse_time
from remit.workspace.intents_file import yaml_nodes
from remit.workspace.intents_file.parse import IntentNode, Value, is_single_intent, list_intent_nodes, parse_intents
from remit.workspace.intents_file.storage import EditRefused

FieldValue: TypeAlias = (
    str | bool | None | dict[str, str] | tuple[str, ...] | tuple[Constraint, ...] | tuple[Criterion, ...]
)
"""A field's value in an Intent."""

Splice: TypeAlias = tuple[int, int, str]  # A replacement for the characters from the first offset to the second
BLANK_INTENT = Intent(id="", owned_scope=())
_PLAIN_TEXT = re.compile(r"[^\W\d_](?:[\w ./@*()+-]*[\w./@*()+-])?")
_YAML_WORDS = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null"])
_ESCAPE_CHARACTERS = re.compile("[\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]")
_NOT_LITERAL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]|^[ ]|\n[ ]|^\n|\n\n$")


def add_intent(text: str, intent: Intent, *, now: str) -> str:
    """Append `intent` to the file's text, created (unless stated) and updated `now`. An empty text becomes a complete
    file. Raises EditRefused.
    """
    if not is_intent_id(intent.id):
        raise EditRefused(f"{intent.id!r} is not an intent id; expected one like INT-001")
    added = replace(intent, created_at=intent.created_at or now, updated_at=now)
    source = IntentsSource(text)
    if source.list_entries(intent.id):
        raise EditRefused(f"{intent.id} exists already; without an id it gets a free one")
    return source.apply(_build_addition(source, added), (*source.document.intents, added), intent.id)


def set_fields(text: str, intent_id: str, changes: Mapping[str, FieldValue], *, now: str | None) -> str:
    """Change fields of an intent, and set its `updated_at` to `now`, if given. None resets a field to its default. A
    value stays in its place and its quotes; unchanged items at the start of a list stay; a new field goes last. Raises
    EditRefused.
    """
    unknown = [name for name in changes if name == "id" or name not in Intent.__struct_fields__]
    if unknown:
        raise EditRefused(f"{unknown[0]!r} is no field that can be set; expected one of an intent's, not its id")
    source = IntentsSource(text)
    mapping = source.find_entry(intent_id).node
    if not isinstance(mapping, yaml_nodes.YamlMapping) or mapping.aliased:
        raise EditRefused(f"{intent_id} is not written out as a mapping; edit the file by hand")
    old = next((i for i in source.document.intents if i.id == intent_id), None)
    wanted = changes if now is None else {**changes, "updated_at": now}
    keys = {key.text: (key, value) for key, value in mapping.pairs if isinstance(key, yaml_nodes.YamlScalar)}
    splices: list[Splice] = []
    new: list[tuple[str, Value]] = []
    for name, value in wanted.items():
        before: FieldValue = getattr(old, name) if old else None
        if old is not None and value == before:
            continue
        if name in keys:
            splices.append(_change_value(source, *keys[name], before, value))
        elif value is not None:
            new.append((name, plain_value(value)))
    if new and mapping.flow:
        splices.append(_append_to_flow(mapping, source.flow_text(dict(new))[1:-1]))
    elif source.is_single:
        splices += [_insert_block(source, mapping, field) for field in new]
    elif new:
        splices.append(source.insert_lines(_line_after(source.text, mapping), field_lines(new, mapping.column - 1)))
    values = {name: getattr(BLANK_INTENT, name) if value is None else value for name, value in wanted.items()}
    expected = [replace(i, **values) if i is old else i for i in source.document.intents]
    return source.apply(splices, expected, None if old else intent_id)


def drop_fields(text: str, intent_id: str, names: Sequence[str]) -> str:
    """Take the lines of fields out of an intent. Raises EditRefused, also where a field has no lines of its own."""
    source = IntentsSource(text)
    mapping = source.find_entry(intent_id).node
    if not isinstance(mapping, yaml_nodes.YamlMapping) or mapping.aliased or mapping.flow:
        raise EditRefused(f"{intent_id} is not written out as a mapping; edit the file by hand")
    splices: list[Splice] = []
    for key, value in mapping.pairs:
        if isinstance(key, yaml_nodes.YamlScalar) and key.text in names:
            start = _line_start(source.text, key.start)
            if source.text[start : key.start].strip(" "):
                raise EditRefused(f"{key.text} has no lines of its own; edit the file by hand")
            splices.append((start, _line_after(source.text, value), ""))
    blank = {name: getattr(BLANK_INTENT, name) for name in names}
    expected = [replace(i, **blank) if i.id == intent_id else i for i in source.document.intents]
    return source.apply(splices, expected, None)


FILE_BLOCKS = (
    ("id", "name", "description"),
    ("owned_scope",),
    ("constraints",),
    ("acceptance_criteria",),
    ("dependencies", "parent_intent", "references", "priority", "owner", "companions", "network"),
    ("source", "created_at", "uid", "formerly"),
)
"""Fields of a new file of one intent: a blank line between two blocks keeps edits of both branches from touching."""


def render_intent_file(intent: Intent) -> str:
    """Return the text of a new file of one intent. Raises EditRefused."""
    word = ("blocked_reason", "status") if intent.status in (*FINAL_STATUSES, "BLOCKED") else ()
    shown = ([(name, getattr(intent, name)) for name in names] for names in (*FILE_BLOCKS, word))
    blocks = ([(n, plain_value(v)) for n, v in block if v != getattr(BLANK_INTENT, n)] for block in shown)
    text = "\n".join("".join(f"{line}\n" for line in field_lines(block, 0)) for block in blocks if block)
    kept = (*FINAL_STATUSES, "BLOCKED")
    wanted = replace(intent, updated_at=None, status=intent.status if intent.status in kept else "DRAFT")
    return IntentsSource(text).apply([], [wanted], None)


def _insert_block(source: "IntentsSource", mapping: yaml_nodes.YamlMapping, field: tuple[str, Value]) -> Splice:
    order = [name for names in FILE_BLOCKS for name in names]
    before = order[: order.index(field[0])] if field[0] in order else order
    above = [value for key, value in mapping.pairs if isinstance(key, yaml_nodes.YamlScalar) and key.text in before]
    lines = field_lines([field], mapping.column - 1)
    if field[0] not in order or not above:
        return source.insert_lines(_line_after(source.text, mapping), lines)
    return source.insert_lines(_line_after(source.text, max(above, key=lambda value: value.start)), ["", *lines])


def name_intent_file(intent: Intent) -> str:
    """Return the name of a new file of one intent, which it keeps whatever the intent is called later."""
    slug = make_slug(intent.name)
    return f"{intent.id}-{slug}.yaml" if slug else f"{intent.id}.yaml"


def remove_intent(text: str, intent_id: str) -> str:
    """Remove an intent and the comments indented below. Raises EditRefused."""
    source = IntentsSource(text)
    splice = _build_removal(source, source.find_entry(intent_id))
    return source.apply([splice], [i for i in source.document.intents if i.id != intent_id], intent_id)


class IntentsSource:
    """A file under edit: its text without byte order mark, its nodes, and the document as others read it. Raises
    EditRefused for invalid YAML, or a file without a mapping.
    """

    def __init__(self, text: str) -> None:
        self.text = text.removeprefix("\ufeff")
        self.mark = text[: len(text) - len(self.text)]
        first = self.text.find("\n")
        self.newline = "\r\n" if first > 0 and self.text[first - 1] == "\r" else "\n"
        content = _encode(text)
        try:
            root = yaml_nodes.compose_nodes(yaml_nodes.decode_yaml(content))
        except yaml_nodes.UnreadableYaml as error:
            raise EditRefused(f"line {error.line}, column {error.column}: {error}; mend the file first") from error
        if root is not None and not isinstance(root, yaml_nodes.YamlMapping) and not yaml_nodes.is_null(root):
            raise EditRefused("the file is no mapping; mend it first")
        self.root = root if isinstance(root, yaml_nodes.YamlMapping) else None
        self.is_single = is_single_intent(root)
        self.active = None if self.root is None else find_value(self.root, "active_intents")
        """The value of `active_intents`, null included."""
        self.document = parse_intents(content)

    def list_entries(self, intent_id: str) -> list[IntentNode]:
        def read_id(entry: IntentNode) -> str | None:
            if entry.key is not None:
                return entry.key.text
            node = find_value(entry.node, "id") if isinstance(entry.node, yaml_nodes.YamlMapping) else None
            return node.text if isinstance(node, yaml_nodes.YamlScalar) else None

        entries = () if self.active is None else list_intent_nodes(self.active)
        entries = (IntentNode(self.root),) if self.is_single and self.root is not None else entries
        return [entry for entry in entries if read_id(entry) == intent_id]

    def find_entry(self, intent_id: str) -> IntentNode:
        """Return the only intent with the id. Raises EditRefused."""
        found = self.list_entries(intent_id)
        if len(found) == 1:
            return found[0]
        raise EditRefused(f"{intent_id!r} stands {len(found)} times in the file; expected once")

    def flow_text(self, value: Value) -> str:
        return flow_text(value, strict=self.root is not None and self.root.flow)

    def insert_lines(self, at: int, lines: Sequence[str], end: int | None = None) -> Splice:
        whole = "".join(line + self.newline for line in lines)
        is_broken = at > 0 and self.text[at - 1] != "\n"
        return at, at if end is None else end, self.newline + whole if is_broken else whole

    def apply(self, splices: Iterable[Splice], expected: Sequence[Intent], edited: str | None) -> str:
        """Return the text with the changes; of several at a position, the first comes first. Raises EditRefused unless
        the text reads as `expected` without a new error. `edited` names an intent that was unreadable before, and may
        read as anything now.
        """
        pieces: list[str] = [self.mark]
        at = 0
        for start, end, new in sorted(splices, key=lambda splice: splice[0]):
            pieces += [self.text[at:start], new]
            at = end
        text = "".join([*pieces, self.text[at:]])
        after = parse_intents(_encode(text))
        left = Counter((f.code, f.intent_id, f.field) for f in self.document.errors)
        for f in after.errors:
            left[f.code, f.intent_id, f.field] -= 1
            if left[f.code, f.intent_id, f.field] < 0:
                raise EditRefused(f"the file would then be wrong: line {f.line}: {f.code}: {f.message}")
        known = {i.id for i in expected}
        if [i for i in after.intents if i.id in known or i.id != edited] != list(expected):
            why = "the file would not read back as asked: its layout or a value is in the way; edit it by hand"
            raise EditRefused(why)
        return text


def _encode(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise EditRefused(f"{text[error.start]!r} cannot be written as UTF-8") from error


def find_value(mapping: yaml_nodes.YamlMapping, name: str) -> yaml_nodes.YamlNode | None:
    return next((v for k, v in mapping.pairs if isinstance(k, yaml_nodes.YamlScalar) and k.text == name), None)


# -- the three changes ---------------------------------------------------------------------------------------


def _build_addition(source: IntentsSource, intent: Intent) -> list[Splice]:
    """Return the splices that make `intent` the last in the file. Raises EditRefused."""
    active, root, text = source.active, source.root, source.text
    fields = shown_fields(intent)
    if root is None:
        header = ['version: "1.0"', "active_intents:", *item_lines(fields, 2, 2), "metadata: {}"]
        return [source.insert_lines(len(text), header)]
    if active is None and not root.flow:
        lines = ["active_intents:", *item_lines(fields, 2, 2)]
        return [source.insert_lines(_line_after(text, root), [" " * (root.column - 1) + line for line in lines])]
    if active is not None and active.aliased and not root.flow:
        raise EditRefused("active_intents is an alias; edit the file by hand")
    is_empty = (isinstance(active, yaml_nodes.YamlSequence) and not active.items) or (
        isinstance(active, yaml_nodes.YamlMapping) and not active.pairs
    )
    if (
        active is not None
        and not root.flow
        and (yaml_nodes.is_null(active) or (is_empty and "\n" not in text[active.start : active.end]))
    ):
        # An empty value on the line of its key: the value goes, the intent comes below.
        start = len(text[: active.start].rstrip(" "))
        lines = source.insert_lines(_line_after(text, active), item_lines(fields, root.column + 1, 2))
        return [(start, active.end, ""), lines]
    if root.flow or not isinstance(active, yaml_nodes.YamlSequence | yaml_nodes.YamlMapping) or active.flow:
        # In braces or brackets, spelled as JSON.
        if isinstance(active, yaml_nodes.YamlMapping):
            own = flow_text(dict(fields[1:]), strict=True)
            return [_append_to_flow(active, f"{scalar_text(intent.id, strict=True)}: {own}")]
        item = flow_text(dict(fields), strict=True)
        if isinstance(active, yaml_nodes.YamlSequence):
            return [_append_to_flow(active, item)]
        if active is None:
            return [_append_to_flow(root, f'"active_intents": [{item}]')]
        return [(active.start, active.end, f" [{item}]" if active.start == active.end else f"[{item}]")]
    margin = active.column - 1
    if isinstance(active, yaml_nodes.YamlSequence):
        last, neighbours = active.items[-1], active.items[-2:]
        lines = item_lines(fields, margin, max(last.column - active.column, 2))
    else:
        last = active.pairs[-1][1]
        neighbours = (active.pairs[-2][1], active.pairs[-1][0]) if len(active.pairs) > 1 else ()
        inner = last.column - 1 if isinstance(last, yaml_nodes.YamlMapping) and not last.flow else margin + 2
        lines = [" " * margin + f"{intent.id}:", *field_lines(fields[1:], inner)]
    if len(neighbours) == 2:
        between = text[_content_end(text, neighbours[0]) : neighbours[1].start].split("\n")[1:-1]
        lines = ["", *lines] if any(not line.strip() for line in between) else lines
    return [source.insert_lines(_skip_comments(text, _line_after(text, last), margin), lines)]


def _change_value(
    source: IntentsSource, key: yaml_nodes.YamlScalar, node: yaml_nodes.YamlNode, before: FieldValue, value: FieldValue
) -> Splice:
    text = source.text
    if isinstance(value, tuple) and isinstance(node, yaml_nodes.YamlSequence) and not node.aliased:
        splice = _change_items(source, node, before, value)
        if splice is not None:
            return splice
    end = _content_end(text, node)
    if isinstance(value, str) and isinstance(node, yaml_nodes.YamlScalar):
        if _is_block_scalar(node) and _is_literal(value):
            literal = source.newline.join(_literal_lines(value, key.column + 1))
            return node.start, end, literal + source.newline if end == len(text) else literal
        if node.style == "'" and value.isascii() and value.isprintable():
            new = "'" + value.replace("'", "''") + "'"
        else:
            new = scalar_text(value, strict=node.style == '"')
    else:
        new = source.flow_text(plain_value(value))
        if isinstance(node, yaml_nodes.YamlSequence | yaml_nodes.YamlMapping) and not node.flow and not node.aliased:
            return text.index(":", key.end) + 1, end, f" {new}"
    is_glued = node.start > 0 and text[node.start - 1] not in " \n"
    return node.start, end, f" {new}" if is_glued else new


def _change_items(
    source: IntentsSource, node: yaml_nodes.YamlSequence, before: FieldValue, value: tuple[object, ...]
) -> Splice | None:
    """Replace the items after the unchanged ones; None if the list has to be written anew."""
    old = before if isinstance(before, tuple) and len(before) == len(node.items) else ()
    same = 0
    while same < min(len(old), len(value)) and old[same] == value[same]:
        same += 1
    texts = [source.flow_text(plain_item(item)) for item in value[same:]]
    if node.flow:
        last = node.items[same - 1].end if same else 0
        return (last, node.items[-1].end, "".join(f", {text}" for text in texts)) if same else None
    margin = " " * (node.column - 1)
    if same:
        dash = margin + "-" + " " * max(node.items[-1].column - node.column - 1, 1)
        start = _line_after(source.text, node.items[same - 1])
        return source.insert_lines(start, [dash + text for text in texts], end=_line_after(source.text, node))
    if not texts or source.text[_line_start(source.text, node.start) : node.start].strip(" "):
        return None
    return node.start, _content_end(source.text, node), f"{source.newline}{margin}".join(f"- {text}" for text in texts)


def _build_removal(source: IntentsSource, entry: IntentNode) -> Splice:
    active, text = source.active, source.text
    if active is None or active.aliased or not isinstance(active, yaml_nodes.YamlSequence | yaml_nodes.YamlMapping):
        raise EditRefused("active_intents is an alias; edit the file by hand")
    parts = [(i, i) for i in active.items] if isinstance(active, yaml_nodes.YamlSequence) else list(active.pairs)
    index = next(n for n, (_, value) in enumerate(parts) if value is entry.node)
    first, last = parts[index]
    if active.flow:
        # With the comma before, or for the first part the comma after.
        if index:
            return parts[index - 1][1].end, last.end, ""
        return first.start, parts[1][0].start if len(parts) > 1 else last.end, ""
    start = _line_start(text, first.start)
    if isinstance(active, yaml_nodes.YamlSequence):
        # The dash may stand on a line of its own, with comments between the dash and the mapping.
        at = _line_after(text, active.items[index - 1]) if index else _line_start(text, active.start)
        dash = re.compile(rf"^ {{{active.column - 1}}}-(?=\s)", re.MULTILINE).search(text, at)
        start = dash.start() if dash else first.start
    return start, _skip_comments(text, _line_after(text, last), active.column - 1), ""


# -- positions -----------------------------------------------------------------------------------------------


def _is_block_scalar(node: yaml_nodes.YamlNode) -> bool:
    return isinstance(node, yaml_nodes.YamlScalar) and node.style in ("|", ">")


def _last_leaf(node: yaml_nodes.YamlNode) -> yaml_nodes.YamlNode:
    while not node.aliased:
        if isinstance(node, yaml_nodes.YamlMapping) and node.pairs and not node.flow:
            node = node.pairs[-1][1]
        elif isinstance(node, yaml_nodes.YamlSequence) and node.items and not node.flow:
            node = node.items[-1]
        else:
            break
    return node


def _content_end(text: str, node: yaml_nodes.YamlNode) -> int:
    leaf = _last_leaf(node)
    return len(text[: leaf.end].rstrip()) if _is_block_scalar(leaf) else leaf.end


def _line_after(text: str, node: yaml_nodes.YamlNode) -> int:
    leaf = _last_leaf(node)
    if _is_block_scalar(leaf) and "+" in text[leaf.start :].split("\n", 1)[0]:
        return leaf.end  # `|+` keeps the blank lines after the text
    newline = text.find("\n", _content_end(text, node))
    return len(text) if newline < 0 else newline + 1


def _skip_comments(text: str, at: int, column: int) -> int:
    end = at
    for line in text[at:].splitlines(keepends=True):
        bare = line.strip()
        at += len(line)
        if not bare:
            continue
        if not bare.startswith("#") or len(line) - len(line.lstrip(" ")) <= column:
            break
        end = at
    return end


def _line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


def _append_to_flow(node: yaml_nodes.YamlMapping | yaml_nodes.YamlSequence, text: str) -> Splice:
    parts = node.items if isinstance(node, yaml_nodes.YamlSequence) else [value for _, value in node.pairs]
    at = parts[-1].end if parts else node.end - 1
    return at, at, f", {text}" if parts else text


# -- spelling, as a person would write -----------------------------------------------------------------------


def shown_fields(intent: Intent) -> list[tuple[str, Value]]:
    """Return the fields that are not at their default, id first."""
    shown = ((name, getattr(intent, name)) for name in Intent.__struct_fields__)
    always = ("status", "priority")
    return [(name, plain_value(v)) for name, v in shown if name in always or v != getattr(BLANK_INTENT, name)]


def plain_value(value: FieldValue) -> Value:
    if isinstance(value, dict):
        return dict(value)
    return [plain_item(item) for item in value] if isinstance(value, tuple) else value


def plain_item(item: object) -> Value:
    match item:
        case Constraint(text=text, kind=str(kind), options=options):
            said = {} if text == describe_constraint(kind, options) else {"text": text}
            return {"type": kind, **options, **said}
        case Constraint(text=text) | Criterion(text=text, verify=None) | str(text):
            return text
        case Criterion(text=text, verify=verify):
            return {"text": text, "verify": verify}
        case _:
            raise EditRefused(f"{item!r} is no item of an intent's list")


def item_lines(fields: Sequence[tuple[str, Value]], dash: int, offset: int) -> list[str]:
    """Return the fields as lines of a list item: the dash in column `dash` (0-based), its keys `offset` further."""
    first, *rest = field_lines(fields, dash + offset)
    return [" " * dash + "-" + first[dash + 1 :], *rest]


def field_lines(fields: Iterable[tuple[str, Value]], margin: int) -> list[str]:
    """Return the fields as lines of a mapping, indented by `margin` spaces."""
    lead = " " * margin
    lines: list[str] = []
    for name, value in fields:
        if isinstance(value, list) and value:
            lines += [f"{lead}{name}:", *(f"{lead}  - {flow_text(item)}" for item in value)]
        elif isinstance(value, str) and _is_literal(value):
            first, *rest = _literal_lines(value, margin + 2)
            lines += [f"{lead}{name}: {first}", *rest]
        else:
            lines.append(f"{lead}{name}: {flow_text(value)}")
    return lines


def _is_literal(text: str) -> bool:
    return "\n" in text and text != "\n" and _NOT_LITERAL.search(text) is None


def _literal_lines(text: str, margin: int) -> list[str]:
    lines = text.removesuffix("\n").split("\n")
    return ["|" if text.endswith("\n") else "|-", *(" " * margin + line if line else "" for line in lines)]


def flow_text(value: Value, *, strict: bool = False) -> str:
    match value:
        case str():
            return scalar_text(value, strict=strict)
        case list():
            return "[" + ", ".join(flow_text(item, strict=strict) for item in value) + "]"
        case dict():
            pairs = (f"{scalar_text(k, strict=strict)}: {flow_text(v, strict=strict)}" for k, v in value.items())
            return "{" + ", ".join(pairs) + "}"
        case _:
            return json.dumps(value)


def scalar_text(text: str, *, strict: bool) -> str:
    """Return the text plain if YAML 1.1 and 1.2 both read exactly the same text, else in double quotes."""
    plain = _PLAIN_TEXT.fullmatch(text) is not None and text.lower() not in _YAML_WORDS
    if not strict and (plain or parse_time(text) is not None):
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return _ESCAPE_CHARACTERS.sub(lambda bad: f"\\u{ord(bad.group()):04x}", quoted)
