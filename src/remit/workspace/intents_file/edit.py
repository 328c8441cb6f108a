"""Changing `active_intents.yaml`: text in, text out, and every byte outside the change as it was.

A change is spliced in at the places where the nodes stand, so the file keeps its comments, order, quotes,
indentation and line ends. A round trip through an emitter would rewrite whatever that emitter spells
otherwise. The result is read back before it is given out: an edit either does what was asked, and nothing
else, or is refused.

Texts are as in the file: read them with `path.read_bytes().decode()`, which leaves line ends alone.

Where a new intent goes, and how its file spells it: a list or a mapping, in lines or in brackets.

A field of an intent set anew: in the place, the quotes and the layout that the old value had.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from remit.core.intent import Intent, IntentsDocument, LintFinding, is_intent_id
from remit.workspace.intents_file.edit_source import (
    IntentsSource,
    TextSplice,
    append_to_flow,
    content_end,
    find_entry,
    intent_id_of,
    is_block,
    is_block_scalar,
    line_after,
    line_start,
    list_entries,
    open_source,
    parse_document,
    require_mapping,
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


def build_addition(source: IntentsSource, intent: Intent) -> list[TextSplice]:
    """What has to be put in so that `intent` is the file's last. Raises EditRefused."""
    active, root = source.active, source.root
    if root is None:
        header = ['version: "1.0"', "active_intents:", *item_lines(intent, 2, 2), "metadata: {}"]
        return [source.insert_lines(len(source.text), header)]
    if root.flow:
        return [_flow_addition(root, active, intent)]
    if active is None:
        lines = ["active_intents:", *item_lines(intent, 2, 2)]
        margin = " " * (root.column - 1)
        return [source.insert_lines(line_after(source.text, root), [margin + line for line in lines])]
    if active.aliased:
        raise EditRefused("active_intents is an alias; edit the file by hand")
    if _is_empty(source.text, active):
        start = len(source.text[: active.start].rstrip(" "))
        lines = source.insert_lines(line_after(source.text, active), item_lines(intent, root.column + 1, 2))
        return [TextSplice(start, active.end, ""), lines]
    if isinstance(active, YamlSequence) and not active.flow:
        return [_block_item(source, active, intent)]
    if isinstance(active, YamlMapping) and not active.flow:
        return [_block_pair(source, active, intent)]
    return [_flow_addition(root, active, intent)]


def _is_empty(text: str, active: YamlNode) -> bool:
    """Whether there is no intent yet, and the value takes part of one line, or nothing."""
    hollow = (isinstance(active, YamlSequence) and not active.items) or (
        isinstance(active, YamlMapping) and not active.pairs
    )
    return is_null(active) or (hollow and "\n" not in text[active.start : active.end])


def _block_item(source: IntentsSource, active: YamlSequence, intent: Intent) -> TextSplice:
    text, last = source.text, active.items[-1]
    dash = active.column - 1
    at = skip_comments(text, line_after(text, last), dash)
    spaced = len(active.items) > 1 and _has_blank_line_between(text, active.items[-2], last)
    return source.insert_lines(at, [""] * spaced + item_lines(intent, dash, max(last.column - active.column, 2)))


def _block_pair(source: IntentsSource, active: YamlMapping, intent: Intent) -> TextSplice:
    margin = active.column - 1
    last = active.pairs[-1][1]
    inner = last.column - 1 if isinstance(last, YamlMapping) and not last.flow else margin + 2
    at = skip_comments(source.text, line_after(source.text, last), margin)
    spaced = len(active.pairs) > 1 and _has_blank_line_between(source.text, active.pairs[-2][1], active.pairs[-1][0])
    lines = [" " * margin + f"{intent.id}:", *field_lines(shown_fields(intent)[1:], inner)]
    return source.insert_lines(at, [""] * spaced + lines)


def _has_blank_line_between(text: str, one: YamlNode, following: YamlNode) -> bool:
    """Whether the file keeps a blank line between these neighbours."""
    between = text[content_end(text, one) : following.start].split("\n")[1:-1]
    return any(not line.strip() for line in between)


def _flow_addition(root: YamlMapping, active: YamlNode | None, intent: Intent) -> TextSplice:
    """Into a file in braces and brackets, as JSON spells it."""
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


def build_changes(
    source: IntentsSource, table: YamlMapping, old: Intent | None, wanted: Mapping[str, FieldValue]
) -> list[TextSplice]:
    """What to put in so that the intent in `table` says what is `wanted`; `old` is as it reads now, if it does."""
    keys = {key.text: (key, value) for key, value in table.pairs if isinstance(key, YamlScalar)}
    splices: list[TextSplice] = []
    fresh: list[tuple[str, Value]] = []
    for name, value in wanted.items():
        before: FieldValue = getattr(old, name) if old else None
        if old is not None and value == before:
            continue
        if name in keys:
            key, node = keys[name]
            splices.append(_change(source, key, node, before, value))
        elif value is not None:
            fresh.append((name, plain_value(value)))
    if fresh and table.flow:
        strict = source.root is not None and source.root.flow
        pairs = (f"{scalar_text(name, strict=strict)}: {flow_text(value, strict=strict)}" for name, value in fresh)
        splices.append(append_to_flow(table, ", ".join(pairs)))
    elif fresh:
        at = line_after(source.text, table)
        splices.append(source.insert_lines(at, field_lines(fresh, table.column - 1)))
    return splices


def _change(
    source: IntentsSource, key: YamlScalar, node: YamlNode, before: FieldValue, value: FieldValue
) -> TextSplice:
    if isinstance(value, tuple) and isinstance(node, YamlSequence) and not node.aliased:
        grown = _added_items(before, value)
        if grown and len(node.items) == len(value) - len(grown) > 0:
            return _append_items(source, node, grown)
        if value and not node.flow and starts_line(source.text, node.start):
            return _replace_items(source, node, value)
    if isinstance(value, str) and isinstance(node, YamlScalar) and is_block_scalar(node) and is_literal(value):
        return _replace_literal(source, key, node, value)
    if isinstance(value, str) and isinstance(node, YamlScalar):
        return _replace(source, node, _in_style(value, node.style))
    strict = source.root is not None and source.root.flow
    text = flow_text(plain_value(value), strict=strict)
    if is_block(node):
        colon = source.text.index(":", key.end) + 1
        return TextSplice(colon, content_end(source.text, node), f" {text}")
    return _replace(source, node, text)


def _added_items(before: FieldValue, value: tuple[object, ...]) -> tuple[object, ...]:
    """What was put behind the old items; nothing where the old ones are not all there, in order."""
    kept = isinstance(before, tuple) and value[: len(before)] == before
    return value[len(before) :] if kept and isinstance(before, tuple) else ()


def _append_items(source: IntentsSource, node: YamlSequence, items: Sequence[object]) -> TextSplice:
    texts = [flow_text(plain_item(item)) for item in items]
    if node.flow:
        return append_to_flow(node, ", ".join(texts))
    dash = " " * (node.column - 1) + "-" + " " * max(node.items[-1].column - node.column - 1, 1)
    return source.insert_lines(line_after(source.text, node), [dash + text for text in texts])


def _replace_items(source: IntentsSource, node: YamlSequence, items: Sequence[object]) -> TextSplice:
    between = source.newline + " " * (node.column - 1)
    text = between.join(f"- {flow_text(plain_item(item))}" for item in items)
    return TextSplice(node.start, content_end(source.text, node), text)


def _replace_literal(source: IntentsSource, key: YamlScalar, node: YamlScalar, value: str) -> TextSplice:
    end = content_end(source.text, node)
    text = source.newline.join(literal_lines(value, key.column + 1))
    return TextSplice(node.start, end, text + source.newline if end == len(source.text) else text)


def _replace(source: IntentsSource, node: YamlNode, value: str) -> TextSplice:
    end = content_end(source.text, node)
    glued = node.start > 0 and source.text[node.start - 1] not in " \n"
    return TextSplice(node.start, end, f" {value}" if glued else value)


def _in_style(value: str, style: str) -> str:
    """The text in the quotes that the old one had."""
    if style == "'" and value.isascii() and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    return scalar_text(value, strict=style == '"')


def add_intent(text: str, intent: Intent, *, now: str) -> str:
    """`text` with `intent` as its last one, created (unless it says when) and updated `now`.

    An empty text becomes a whole file. Raises EditRefused.
    """
    if not is_intent_id(intent.id):
        raise EditRefused(f"{intent.id!r} is not an intent id; expected one like INT-001")
    fresh = msgspec.structs.replace(intent, created_at=intent.created_at or now, updated_at=now)
    source = open_source(text)
    before = parse_document(text)
    if any(intent_id_of(entry) == intent.id for entry in list_entries(source)):
        raise EditRefused(f"{intent.id} exists already; `next_id` gives a free one")
    after = source.apply_splices(build_addition(source, fresh))
    return _check_result(after, before, (*before.intents, fresh), intent.id)


def set_fields(text: str, intent_id: str, changes: Mapping[str, FieldValue], *, now: str) -> str:
    """`text` with those fields of one intent changed, and its `updated_at` set to `now`.

    None puts a field back to its default. Values of one line stay where they are, new items of a list are
    put after the old ones, and a new field goes last. Raises EditRefused.
    """
    unknown = [name for name in changes if name == "id" or name not in Intent.__struct_fields__]
    if unknown:
        raise EditRefused(f"{unknown[0]!r} is no field that can be set; expected one of an intent's, not its id")
    source = open_source(text)
    table = require_mapping(find_entry(source, intent_id), intent_id)
    before = parse_document(text)
    old = next((i for i in before.intents if i.id == intent_id), None)
    wanted = {**changes, "updated_at": now}
    after = source.apply_splices(build_changes(source, table, old, wanted))
    values = {name: getattr(BLANK_INTENT, name) if value is None else value for name, value in wanted.items()}
    expected = tuple(msgspec.structs.replace(i, **values) if i is old else i for i in before.intents)
    return _check_result(after, before, expected, None if old else intent_id)


def remove_intent(text: str, intent_id: str) -> str:
    """`text` without that intent and the comments indented below it. Raises EditRefused."""
    source = open_source(text)
    entry = find_entry(source, intent_id)
    before = parse_document(text)
    after = source.apply_splices([_removal(source, entry)])
    return _check_result(after, before, tuple(i for i in before.intents if i.id != intent_id), intent_id)


def next_id(document: IntentsDocument, prefix: str = "INT") -> str:
    """The first id after the highest in use, broken intents counted. Raises ValueError on a bad prefix."""
    if not is_intent_id(f"{prefix}-001"):
        raise ValueError(f"{prefix!r} cannot begin an intent id; expected 2 to 8 letters A-Z")
    named = [i.id for i in document.intents] + [f.intent_id or "" for f in document.findings]
    parts = (name.rpartition("-") for name in named if is_intent_id(name))
    return f"{prefix}-{max((int(number) for start, _, number in parts if start == prefix), default=0) + 1:03d}"


def _removal(source: IntentsSource, entry: IntentNode) -> TextSplice:
    active, text = source.active, source.text
    if isinstance(active, YamlSequence) and not active.aliased:
        index = next(n for n, item in enumerate(active.items) if item is entry.node)
        if active.flow:
            return _out_of_flow([(item, item) for item in active.items], index)
        before = line_after(text, active.items[index - 1]) if index else line_start(text, active.start)
        dash = re.compile(rf"^ {{{active.column - 1}}}-(?=\s)", re.MULTILINE).search(text, before)
        return _lines_out(text, dash.start() if dash else entry.node.start, entry.node, active.column - 1)
    if isinstance(active, YamlMapping) and not active.aliased and entry.key is not None:
        if active.flow:
            index = next(n for n, (key, _) in enumerate(active.pairs) if key is entry.key)
            return _out_of_flow(active.pairs, index)
        return _lines_out(text, line_start(text, entry.key.start), entry.node, active.column - 1)
    raise EditRefused("active_intents is an alias; edit the file by hand")


def _lines_out(text: str, start: int, node: YamlNode, column: int) -> TextSplice:
    return TextSplice(start, skip_comments(text, line_after(text, node), column), "")


def _out_of_flow(parts: Sequence[tuple[YamlNode, YamlNode]], index: int) -> TextSplice:
    """One part and the comma that parted it from its neighbour."""
    first, last = parts[index]
    if index:
        return TextSplice(parts[index - 1][1].end, last.end, "")
    return TextSplice(first.start, parts[1][0].start if len(parts) > 1 else last.end, "")


def _check_result(text: str, before: IntentsDocument, expected: Sequence[Intent], edited: str | None) -> str:
    """`text`, when it reads as `expected` and has no error that was not there before.

    `edited` names an intent that could not be read before: it may read as anything now.
    """
    after = parse_document(text)
    new = _new_error(before, after)
    if new is not None:
        raise EditRefused(f"the file would then be wrong: line {new.line}: {new.code}: {new.message}")
    known = {i.id for i in expected}
    read = [i for i in after.intents if i.id in known or i.id != edited]
    if read != list(expected):
        raise EditRefused("the file would not read back as asked: its layout or a value is in the way; edit it by hand")
    return text


def _new_error(before: IntentsDocument, after: IntentsDocument) -> LintFinding | None:
    left = Counter((f.code, f.intent_id, f.field) for f in before.errors)
    for finding in after.errors:
        kind = (finding.code, finding.intent_id, finding.field)
        left[kind] -= 1
        if left[kind] < 0:
            return finding
    return None
