"""Changing `active_intents.yaml`: text in, text out, and every byte outside the change as it was.

A change is spliced in at the places where the nodes stand, so the file keeps its comments, order, quotes,
indentation and line ends. A round trip through an emitter would rewrite whatever that emitter spells
otherwise. The result is read back before it is given out: an edit either does what was asked, and nothing
else, or is refused.

Texts are as in the file: read them with `path.read_bytes().decode()`, which leaves line ends alone.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from remit.core.intent import Intent, IntentsDocument, LintFinding, is_intent_id
from remit.workspace.intents_adding import addition
from remit.workspace.intents_changing import changes_of
from remit.workspace.intents_file import Entry
from remit.workspace.intents_source import (
    Source,
    Splice,
    document_of,
    entries_of,
    entry_of,
    id_of,
    line_after,
    line_start,
    opened,
    past_comments,
    table_of,
)
from remit.workspace.intents_spelling import BLANK, FieldValue
from remit.workspace.intents_writing import EditRefused
from remit.workspace.yaml_nodes import Node, Series, Table


def add_intent(text: str, intent: Intent, *, now: str) -> str:
    """`text` with `intent` as its last one, created (unless it says when) and updated `now`.

    An empty text becomes a whole file. Raises EditRefused.
    """
    if not is_intent_id(intent.id):
        raise EditRefused(f"{intent.id!r} is not an intent id; expected one like INT-001")
    fresh = msgspec.structs.replace(intent, created_at=intent.created_at or now, updated_at=now)
    source = opened(text)
    before = document_of(text)
    if any(id_of(entry) == intent.id for entry in entries_of(source)):
        raise EditRefused(f"{intent.id} exists already; `next_id` gives a free one")
    after = source.spliced(addition(source, fresh))
    return _verified(after, before, (*before.intents, fresh), intent.id)


def set_fields(text: str, intent_id: str, changes: Mapping[str, FieldValue], *, now: str) -> str:
    """`text` with those fields of one intent changed, and its `updated_at` set to `now`.

    None puts a field back to its default. Values of one line stay where they are, new items of a list are
    put after the old ones, and a new field goes last. Raises EditRefused.
    """
    unknown = [name for name in changes if name == "id" or name not in Intent.__struct_fields__]
    if unknown:
        raise EditRefused(f"{unknown[0]!r} is no field that can be set; expected one of an intent's, not its id")
    source = opened(text)
    table = table_of(entry_of(source, intent_id), intent_id)
    before = document_of(text)
    old = next((i for i in before.intents if i.id == intent_id), None)
    wanted = {**changes, "updated_at": now}
    after = source.spliced(changes_of(source, table, old, wanted))
    values = {name: getattr(BLANK, name) if value is None else value for name, value in wanted.items()}
    expected = tuple(msgspec.structs.replace(i, **values) if i is old else i for i in before.intents)
    return _verified(after, before, expected, None if old else intent_id)


def remove_intent(text: str, intent_id: str) -> str:
    """`text` without that intent and the comments indented below it. Raises EditRefused."""
    source = opened(text)
    entry = entry_of(source, intent_id)
    before = document_of(text)
    after = source.spliced([_removal(source, entry)])
    return _verified(after, before, tuple(i for i in before.intents if i.id != intent_id), intent_id)


def next_id(document: IntentsDocument, prefix: str = "INT") -> str:
    """The first id after the highest in use, broken intents counted. Raises ValueError on a bad prefix."""
    if not is_intent_id(f"{prefix}-001"):
        raise ValueError(f"{prefix!r} cannot begin an intent id; expected 2 to 8 letters A-Z")
    named = [i.id for i in document.intents] + [f.intent_id or "" for f in document.findings]
    parts = (name.rpartition("-") for name in named if is_intent_id(name))
    return f"{prefix}-{max((int(number) for start, _, number in parts if start == prefix), default=0) + 1:03d}"


def _removal(source: Source, entry: Entry) -> Splice:
    active, text = source.active, source.text
    if isinstance(active, Series) and not active.aliased:
        index = next(n for n, item in enumerate(active.items) if item is entry.node)
        if active.flow:
            return _out_of_flow([(item, item) for item in active.items], index)
        before = line_after(text, active.items[index - 1]) if index else line_start(text, active.start)
        dash = re.compile(rf"^ {{{active.column - 1}}}-(?=\s)", re.MULTILINE).search(text, before)
        return _lines_out(text, dash.start() if dash else entry.node.start, entry.node, active.column - 1)
    if isinstance(active, Table) and not active.aliased and entry.key is not None:
        if active.flow:
            index = next(n for n, (key, _) in enumerate(active.pairs) if key is entry.key)
            return _out_of_flow(active.pairs, index)
        return _lines_out(text, line_start(text, entry.key.start), entry.node, active.column - 1)
    raise EditRefused("active_intents is an alias; edit the file by hand")


def _lines_out(text: str, start: int, node: Node, column: int) -> Splice:
    return Splice(start, past_comments(text, line_after(text, node), column), "")


def _out_of_flow(parts: Sequence[tuple[Node, Node]], index: int) -> Splice:
    """One part and the comma that parted it from its neighbour."""
    first, last = parts[index]
    if index:
        return Splice(parts[index - 1][1].end, last.end, "")
    return Splice(first.start, parts[1][0].start if len(parts) > 1 else last.end, "")


def _verified(text: str, before: IntentsDocument, expected: Sequence[Intent], edited: str | None) -> str:
    """`text`, when it reads as `expected` and has no error that was not there before.

    `edited` names an intent that could not be read before: it may read as anything now.
    """
    after = document_of(text)
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
