"""Edits of `active_intents.yaml`: text in, text out, with each byte outside the change kept.

New text is spliced in at the positions of YAML nodes, so the file keeps its comments, order, quotes, indentation and
line ends; a round trip through a YAML emitter would lay out parts of the file anew. The result is parsed again before
it is returned: an edit has exactly the requested effect, or is refused.

Texts keep their line ends: read them with `path.read_bytes().decode()`.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from remit.core.intent import Intent, IntentsDocument, LintFinding, is_intent_id
from remit.workspace.intents_file.edit_source import (
    IntentsSource,
    TextSplice,
    append_to_flow,
    content_end,
    is_block,
    is_block_scalar,
    line_after,
    line_start,
    open_source,
    parse_document,
    skip_comments,
    starts_line,
)
from remit.workspace.intents_file.parse import IntentNode, Value
from remit.workspace.intents_file.storage import EditRefused
from remit.workspace.intents_file.yaml_nodes import YamlMapping, YamlNode, YamlScalar, YamlSequence, is_null
from remit.workspace.intents_file.yaml_text import (
    BLANK_INTENT,
    FieldValue,
    field_lines,
    flow_text,
    is_literal,
    item_lines,
    literal_lines,
    plain_item,
    plain_value,
    scalar_text,
    shown_fields,
)


def add_intent(text: str, intent: Intent, *, now: str) -> str:
    """Append `intent` to the file's text, created (unless stated) and updated `now`.

    An empty text becomes a complete file. Raises EditRefused.
    """
    if not is_intent_id(intent.id):
        raise EditRefused(f"{intent.id!r} is not an intent id; expected one like INT-001")
    added = replace(intent, created_at=intent.created_at or now, updated_at=now)
    source = open_source(text)
    before = parse_document(text)
    if source.entries_of(intent.id):
        raise EditRefused(f"{intent.id} exists already; `next_id` gives a free one")
    after = source.apply_splices(_build_addition(source, added))
    return _check_result(after, before, (*before.intents, added), intent.id)


def set_fields(text: str, intent_id: str, changes: Mapping[str, FieldValue], *, now: str) -> str:
    """Change fields of an intent, and set its `updated_at` to `now`.

    None resets a field to its default. A value stays in its place and its quotes; unchanged items at the start of a
    list stay; a new field goes last. Raises EditRefused.
    """
    unknown = [name for name in changes if name == "id" or name not in Intent.__struct_fields__]
    if unknown:
        raise EditRefused(f"{unknown[0]!r} is no field that can be set; expected one of an intent's, not its id")
    source = open_source(text)
    mapping = source.find_entry(intent_id).node
    if not isinstance(mapping, YamlMapping) or mapping.aliased:
        raise EditRefused(f"{intent_id} is not written out as a mapping; edit the file by hand")
    before = parse_document(text)
    old = next((i for i in before.intents if i.id == intent_id), None)
    wanted = {**changes, "updated_at": now}
    after = source.apply_splices(_build_changes(source, mapping, old, wanted))
    values = {name: getattr(BLANK_INTENT, name) if value is None else value for name, value in wanted.items()}
    expected = tuple(replace(i, **values) if i is old else i for i in before.intents)
    return _check_result(after, before, expected, None if old else intent_id)


def remove_intent(text: str, intent_id: str) -> str:
    """Remove an intent and the comments indented below. Raises EditRefused."""
    source = open_source(text)
    entry = source.find_entry(intent_id)
    before = parse_document(text)
    after = source.apply_splices([_build_removal(source, entry)])
    return _check_result(after, before, tuple(i for i in before.intents if i.id != intent_id), intent_id)


def next_id(document: IntentsDocument, prefix: str = "INT") -> str:
    """Return the first id after the highest in use, broken intents included. Raises ValueError for a bad prefix."""
    if not is_intent_id(f"{prefix}-001"):
        raise ValueError(f"{prefix!r} cannot begin an intent id; expected 2 to 8 letters A-Z")
    used = [i.id for i in document.intents] + [f.intent_id or "" for f in document.findings]
    parts = (name.rpartition("-") for name in used if is_intent_id(name))
    return f"{prefix}-{max((int(number) for start, _, number in parts if start == prefix), default=0) + 1:03d}"


# -- adding --------------------------------------------------------------------------------------------------


def _build_addition(source: IntentsSource, intent: Intent) -> list[TextSplice]:
    """Return the splices that make `intent` the last in the file. Raises EditRefused."""
    active, root, text = source.active, source.root, source.text
    if root is None:
        header = ['version: "1.0"', "active_intents:", *item_lines(intent, 2, 2), "metadata: {}"]
        return [source.insert_lines(len(text), header)]
    if root.flow:
        return [_add_to_flow(root, active, intent)]
    if active is None:
        margin = " " * (root.column - 1)
        lines = ["active_intents:", *item_lines(intent, 2, 2)]
        return [source.insert_lines(line_after(text, root), [margin + line for line in lines])]
    if active.aliased:
        raise EditRefused("active_intents is an alias; edit the file by hand")
    is_empty = (isinstance(active, YamlSequence) and not active.items) or (
        isinstance(active, YamlMapping) and not active.pairs
    )
    if is_null(active) or (is_empty and "\n" not in text[active.start : active.end]):
        # An empty value on the line of its key: the value goes, the intent comes below.
        start = len(text[: active.start].rstrip(" "))
        lines = source.insert_lines(line_after(text, active), item_lines(intent, root.column + 1, 2))
        return [TextSplice(start, active.end, ""), lines]
    margin = active.column - 1
    if isinstance(active, YamlSequence) and not active.flow:
        last = active.items[-1]
        neighbours = active.items[-2:]
        lines = item_lines(intent, margin, max(last.column - active.column, 2))
    elif isinstance(active, YamlMapping) and not active.flow:
        last = active.pairs[-1][1]
        neighbours = (active.pairs[-2][1], active.pairs[-1][0]) if len(active.pairs) > 1 else ()
        inner = last.column - 1 if isinstance(last, YamlMapping) and not last.flow else margin + 2
        lines = [" " * margin + f"{intent.id}:", *field_lines(shown_fields(intent)[1:], inner)]
    else:
        return [_add_to_flow(root, active, intent)]
    blank = [""] * (len(neighbours) == 2 and _has_blank_line_between(text, *neighbours))
    return [source.insert_lines(skip_comments(text, line_after(text, last), margin), blank + lines)]


def _has_blank_line_between(text: str, node: YamlNode, following: YamlNode) -> bool:
    between = text[content_end(text, node) : following.start].split("\n")[1:-1]
    return any(not line.strip() for line in between)


def _add_to_flow(root: YamlMapping, active: YamlNode | None, intent: Intent) -> TextSplice:
    """Add the intent to a collection in braces or brackets, spelled as JSON."""
    fields = dict(shown_fields(intent))
    if isinstance(active, YamlMapping):
        fields.pop("id")
        return append_to_flow(active, f"{scalar_text(intent.id, strict=True)}: {flow_text(fields, strict=True)}")
    item = flow_text(fields, strict=True)
    if isinstance(active, YamlSequence):
        return append_to_flow(active, item)
    if active is None:
        return append_to_flow(root, f'"active_intents": [{item}]')
    return TextSplice(active.start, active.end, f" [{item}]" if active.start == active.end else f"[{item}]")


# -- changing ------------------------------------------------------------------------------------------------


def _build_changes(
    source: IntentsSource, mapping: YamlMapping, old: Intent | None, wanted: Mapping[str, FieldValue]
) -> list[TextSplice]:
    """Return the splices that give the intent in `mapping` the `wanted` values; `old` is the intent if readable."""
    keys = {key.text: (key, value) for key, value in mapping.pairs if isinstance(key, YamlScalar)}
    splices: list[TextSplice] = []
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
        strict = source.is_json
        pairs = (f"{scalar_text(name, strict=strict)}: {flow_text(value, strict=strict)}" for name, value in new)
        splices.append(append_to_flow(mapping, ", ".join(pairs)))
    elif new:
        splices.append(source.insert_lines(line_after(source.text, mapping), field_lines(new, mapping.column - 1)))
    return splices


def _change_value(
    source: IntentsSource, key: YamlScalar, node: YamlNode, before: FieldValue, value: FieldValue
) -> TextSplice:
    text = source.text
    if isinstance(value, tuple) and isinstance(node, YamlSequence) and not node.aliased:
        splice = _change_items(source, node, before, value)
        if splice is not None:
            return splice
    end = content_end(text, node)
    if isinstance(value, str) and isinstance(node, YamlScalar):
        if is_block_scalar(node) and is_literal(value):
            literal = source.newline.join(literal_lines(value, key.column + 1))
            return TextSplice(node.start, end, literal + source.newline if end == len(text) else literal)
        new = _quote_alike(value, node.style)
    else:
        new = flow_text(plain_value(value), strict=source.is_json)
        if is_block(node):
            return TextSplice(text.index(":", key.end) + 1, end, f" {new}")
    is_glued = node.start > 0 and text[node.start - 1] not in " \n"
    return TextSplice(node.start, end, f" {new}" if is_glued else new)


def _change_items(
    source: IntentsSource, node: YamlSequence, before: FieldValue, value: tuple[object, ...]
) -> TextSplice | None:
    """Replace the items after the unchanged ones; None if the list has to be written anew."""
    old = before if isinstance(before, tuple) and len(before) == len(node.items) else ()
    same = 0
    while same < min(len(old), len(value)) and old[same] == value[same]:
        same += 1
    texts = [flow_text(plain_item(item), strict=source.is_json) for item in value[same:]]
    if node.flow:
        last = node.items[same - 1].end if same else 0
        return TextSplice(last, node.items[-1].end, "".join(f", {text}" for text in texts)) if same else None
    if same:
        dash = " " * (node.column - 1) + "-" + " " * max(node.items[-1].column - node.column - 1, 1)
        start = line_after(source.text, node.items[same - 1])
        return source.insert_lines(start, [dash + text for text in texts], end=line_after(source.text, node))
    if not texts or not starts_line(source.text, node.start):
        return None
    between = source.newline + " " * (node.column - 1)
    return TextSplice(node.start, content_end(source.text, node), between.join(f"- {text}" for text in texts))


def _quote_alike(value: str, style: str) -> str:
    if style == "'" and value.isascii() and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    return scalar_text(value, strict=style == '"')


# -- removing ------------------------------------------------------------------------------------------------


def _build_removal(source: IntentsSource, entry: IntentNode) -> TextSplice:
    active, text = source.active, source.text
    if active is None or active.aliased or not isinstance(active, YamlSequence | YamlMapping):
        raise EditRefused("active_intents is an alias; edit the file by hand")
    parts = [(i, i) for i in active.items] if isinstance(active, YamlSequence) else list(active.pairs)
    index = next(n for n, (_, value) in enumerate(parts) if value is entry.node)
    first, last = parts[index]
    if active.flow:
        # With the comma before, or for the first part the comma after.
        if index:
            return TextSplice(parts[index - 1][1].end, last.end, "")
        return TextSplice(first.start, parts[1][0].start if len(parts) > 1 else last.end, "")
    start = line_start(text, first.start)
    if isinstance(active, YamlSequence):
        # The dash may stand on a line of its own, with comments between the dash and the mapping.
        at = line_after(text, active.items[index - 1]) if index else line_start(text, active.start)
        dash = re.compile(rf"^ {{{active.column - 1}}}-(?=\s)", re.MULTILINE).search(text, at)
        start = dash.start() if dash else first.start
    return TextSplice(start, skip_comments(text, line_after(text, last), active.column - 1), "")


# -- checking ------------------------------------------------------------------------------------------------


def _check_result(text: str, before: IntentsDocument, expected: Sequence[Intent], edited: str | None) -> str:
    """Return `text` if it reads as `expected` without a new error; raise EditRefused otherwise.

    `edited` names an intent that was unreadable before, and may read as anything now.
    """
    after = parse_document(text)
    new = _find_new_error(before, after)
    if new is not None:
        raise EditRefused(f"the file would then be wrong: line {new.line}: {new.code}: {new.message}")
    known = {i.id for i in expected}
    if [i for i in after.intents if i.id in known or i.id != edited] != list(expected):
        raise EditRefused("the file would not read back as asked: its layout or a value is in the way; edit it by hand")
    return text


def _find_new_error(before: IntentsDocument, after: IntentsDocument) -> LintFinding | None:
    left = Counter((f.code, f.intent_id, f.field) for f in before.errors)
    for finding in after.errors:
        kind = (finding.code, finding.intent_id, finding.field)
        left[kind] -= 1
        if left[kind] < 0:
            return finding
    return None
