"""Where a new intent goes, and how its file spells it: a list or a mapping, in lines or in brackets."""

from remit.core.intent import Intent
from remit.workspace.intents_source import Source, Splice, content_end, into_flow, line_after, past_comments
from remit.workspace.intents_spelling import field_lines, flow_text, item_lines, scalar_text, shown_fields
from remit.workspace.intents_writing import EditRefused
from remit.workspace.yaml_nodes import Node, Series, Table, is_null


def addition(source: Source, intent: Intent) -> list[Splice]:
    """What has to be put in so that `intent` is the file's last. Raises EditRefused."""
    active, root = source.active, source.root
    if root is None:
        header = ['version: "1.0"', "active_intents:", *item_lines(intent, 2, 2), "metadata: {}"]
        return [source.lines_at(len(source.text), header)]
    if root.flow:
        return [_flow_addition(root, active, intent)]
    if active is None:
        lines = ["active_intents:", *item_lines(intent, 2, 2)]
        margin = " " * (root.column - 1)
        return [source.lines_at(line_after(source.text, root), [margin + line for line in lines])]
    if active.aliased:
        raise EditRefused("active_intents is an alias; edit the file by hand")
    if _is_empty(source.text, active):
        start = len(source.text[: active.start].rstrip(" "))
        lines = source.lines_at(line_after(source.text, active), item_lines(intent, root.column + 1, 2))
        return [Splice(start, active.end, ""), lines]
    if isinstance(active, Series) and not active.flow:
        return [_block_item(source, active, intent)]
    if isinstance(active, Table) and not active.flow:
        return [_block_pair(source, active, intent)]
    return [_flow_addition(root, active, intent)]


def _is_empty(text: str, active: Node) -> bool:
    """Whether there is no intent yet, and the value takes part of one line, or nothing."""
    hollow = (isinstance(active, Series) and not active.items) or (isinstance(active, Table) and not active.pairs)
    return is_null(active) or (hollow and "\n" not in text[active.start : active.end])


def _block_item(source: Source, active: Series, intent: Intent) -> Splice:
    text, last = source.text, active.items[-1]
    dash = active.column - 1
    at = past_comments(text, line_after(text, last), dash)
    spaced = len(active.items) > 1 and _spaced(text, active.items[-2], last)
    return source.lines_at(at, [""] * spaced + item_lines(intent, dash, max(last.column - active.column, 2)))


def _block_pair(source: Source, active: Table, intent: Intent) -> Splice:
    margin = active.column - 1
    last = active.pairs[-1][1]
    inner = last.column - 1 if isinstance(last, Table) and not last.flow else margin + 2
    at = past_comments(source.text, line_after(source.text, last), margin)
    spaced = len(active.pairs) > 1 and _spaced(source.text, active.pairs[-2][1], active.pairs[-1][0])
    lines = [" " * margin + f"{intent.id}:", *field_lines(shown_fields(intent)[1:], inner)]
    return source.lines_at(at, [""] * spaced + lines)


def _spaced(text: str, one: Node, following: Node) -> bool:
    """Whether the file keeps a blank line between these neighbours."""
    between = text[content_end(text, one) : following.start].split("\n")[1:-1]
    return any(not line.strip() for line in between)


def _flow_addition(root: Table, active: Node | None, intent: Intent) -> Splice:
    """Into a file in braces and brackets, as JSON spells it."""
    fields = dict(shown_fields(intent))
    if isinstance(active, Table):
        fields.pop("id")
        return into_flow(active, f"{scalar_text(intent.id, strict=True)}: {flow_text(fields, strict=True)}")
    item = flow_text(fields, strict=True)
    if isinstance(active, Series):
        return into_flow(active, item)
    if active is None:
        return into_flow(root, f'"active_intents": [{item}]')
    return Splice(active.start, active.end, f" [{item}]" if active.start == active.end else f"[{item}]")
