"""A field of an intent set anew: in the place, the quotes and the layout that the old value had."""

from collections.abc import Mapping, Sequence

from remit.core.intent import Intent
from remit.workspace.intents_rules import Value
from remit.workspace.intents_source import (
    Source,
    Splice,
    content_end,
    into_flow,
    is_block,
    is_block_scalar,
    line_after,
    starts_line,
)
from remit.workspace.intents_spelling import (
    FieldValue,
    field_lines,
    flow_text,
    is_literal,
    literal_lines,
    plain_item,
    plain_value,
    scalar_text,
)
from remit.workspace.yaml_nodes import Node, Scalar, Series, Table


def changes_of(source: Source, table: Table, old: Intent | None, wanted: Mapping[str, FieldValue]) -> list[Splice]:
    """What to put in so that the intent in `table` says what is `wanted`; `old` is as it reads now, if it does."""
    keys = {key.text: (key, value) for key, value in table.pairs if isinstance(key, Scalar)}
    splices: list[Splice] = []
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
        splices.append(into_flow(table, ", ".join(pairs)))
    elif fresh:
        at = line_after(source.text, table)
        splices.append(source.lines_at(at, field_lines(fresh, table.column - 1)))
    return splices


def _change(source: Source, key: Scalar, node: Node, before: FieldValue, value: FieldValue) -> Splice:
    if isinstance(value, tuple) and isinstance(node, Series) and not node.aliased:
        grown = _growth(before, value)
        if grown and len(node.items) == len(value) - len(grown) > 0:
            return _more_items(source, node, grown)
        if value and not node.flow and starts_line(source.text, node.start):
            return _other_items(source, node, value)
    if isinstance(value, str) and isinstance(node, Scalar) and is_block_scalar(node) and is_literal(value):
        return _literal(source, key, node, value)
    if isinstance(value, str) and isinstance(node, Scalar):
        return _replace(source, node, _in_style(value, node.style))
    strict = source.root is not None and source.root.flow
    text = flow_text(plain_value(value), strict=strict)
    if is_block(node):
        colon = source.text.index(":", key.end) + 1
        return Splice(colon, content_end(source.text, node), f" {text}")
    return _replace(source, node, text)


def _growth(before: FieldValue, value: tuple[object, ...]) -> tuple[object, ...]:
    """What was put behind the old items; nothing where the old ones are not all there, in order."""
    kept = isinstance(before, tuple) and value[: len(before)] == before
    return value[len(before) :] if kept and isinstance(before, tuple) else ()


def _more_items(source: Source, node: Series, items: Sequence[object]) -> Splice:
    texts = [flow_text(plain_item(item)) for item in items]
    if node.flow:
        return into_flow(node, ", ".join(texts))
    dash = " " * (node.column - 1) + "-" + " " * max(node.items[-1].column - node.column - 1, 1)
    return source.lines_at(line_after(source.text, node), [dash + text for text in texts])


def _other_items(source: Source, node: Series, items: Sequence[object]) -> Splice:
    between = source.newline + " " * (node.column - 1)
    text = between.join(f"- {flow_text(plain_item(item))}" for item in items)
    return Splice(node.start, content_end(source.text, node), text)


def _literal(source: Source, key: Scalar, node: Scalar, value: str) -> Splice:
    end = content_end(source.text, node)
    text = source.newline.join(literal_lines(value, key.column + 1))
    return Splice(node.start, end, text + source.newline if end == len(source.text) else text)


def _replace(source: Source, node: Node, value: str) -> Splice:
    end = content_end(source.text, node)
    glued = node.start > 0 and source.text[node.start - 1] not in " \n"
    return Splice(node.start, end, f" {value}" if glued else value)


def _in_style(value: str, style: str) -> str:
    """The text in the quotes that the old one had."""
    if style == "'" and value.isascii() and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    return scalar_text(value, strict=style == '"')
