"""Changing `active_intents.yaml`: text in, text out, and every byte outside the change as it was.

A change is spliced in at the places where the nodes stand, so the file keeps its comments, order, quotes,
indentation and line ends. A round trip through an emitter would rewrite whatever that emitter spells
otherwise. The result is read back before it is given out: an edit either does what was asked, and nothing
else, or is refused.

Texts are as in the file: read them with `path.read_bytes().decode()`, which leaves line ends alone.
"""

import fcntl
import json
import os
import re
import time
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import msgspec
from msgspec import Struct

from remit.core.contents import Sha256, sha256
from remit.core.intent import Constraint, Criterion, Intent, IntentsDocument, LintFinding, is_intent_id
from remit.core.validation import describe_rule, parse_time
from remit.workspace.beneath import write_below
from remit.workspace.intents_file import (
    LIMIT,
    Entry,
    Node,
    Scalar,
    Series,
    Table,
    Unreadable,
    Value,
    compose,
    decode,
    entries,
    is_null,
    parse_intents,
    read_regular,
)

FieldValue: TypeAlias = str | bool | None | tuple[str, ...] | tuple[Constraint, ...] | tuple[Criterion, ...]
"""What a field of an Intent can hold."""

LOCK_TIMEOUT_S = 10.0

_BLANK = Intent(id="", owned_scope=())
_ALWAYS = frozenset({"status", "priority"})
_PLAIN = re.compile(r"[^\W\d_](?:[\w ./@*()+-]*[\w./@*()+-])?")
_WORDS = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null"])
_ESCAPED = re.compile("[\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]")
_NOT_LITERAL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]|^[ ]|\n[ ]|^\n|\n\n$")


class EditRefused(ValueError):
    """The change cannot be made without harm; the file is as it was."""


class IntentsFileChanged(RuntimeError):
    """The file on disk is not the version that was edited. None stands for no file."""

    def __init__(self, path: Path, expected: Sha256 | None, found: Sha256 | None) -> None:
        self.path = path
        self.expected = expected
        self.found = found
        was, now = (digest[:12] if digest else "absent" for digest in (expected, found))
        super().__init__(f"{str(path)!r} changed meanwhile: edited was {was}, found {now}; read it again")


class IntentsFileLocked(TimeoutError):
    """Somebody else held the lock for the whole time."""


class _Splice(Struct, frozen=True):
    start: int
    end: int
    text: str


class _Source(Struct, frozen=True):
    """A file under change. `text` is without byte order mark; `mark` is that mark, or empty."""

    text: str
    mark: str
    newline: str
    root: Table | None

    @property
    def active(self) -> Node | None:
        """The value of `active_intents`, null included."""
        return None if self.root is None else _value_of(self.root, "active_intents")

    def spliced(self, splices: Iterable[_Splice]) -> str:
        """The text with all changes made; of two at one place the first comes first."""
        pieces: list[str] = [self.mark]
        at = 0
        for splice in sorted(splices, key=lambda s: s.start):
            pieces += [self.text[at : splice.start], splice.text]
            at = splice.end
        return "".join([*pieces, self.text[at:]])

    def lines_at(self, at: int, lines: Sequence[str]) -> _Splice:
        """Whole lines put in at `at`, a line's start or the end of a file without a last newline."""
        whole = "".join(line + self.newline for line in lines)
        broken = at > 0 and self.text[at - 1] != "\n"
        return _Splice(at, at, self.newline + whole if broken else whole)


def add_intent(text: str, intent: Intent, *, now: str) -> str:
    """`text` with `intent` as its last one, created (unless it says when) and updated `now`.

    An empty text becomes a whole file. Raises EditRefused.
    """
    if not is_intent_id(intent.id):
        raise EditRefused(f"{intent.id!r} is not an intent id; expected one like INT-001")
    fresh = msgspec.structs.replace(intent, created_at=intent.created_at or now, updated_at=now)
    source = _opened(text)
    before = _read(text)
    if any(_id_of(entry) == intent.id for entry in _entries(source)):
        raise EditRefused(f"{intent.id} exists already; `next_id` gives a free one")
    after = source.spliced(_addition(source, fresh))
    return _verified(after, before, (*before.intents, fresh), intent.id)


def set_fields(text: str, intent_id: str, changes: Mapping[str, FieldValue], *, now: str) -> str:
    """`text` with those fields of one intent changed, and its `updated_at` set to `now`.

    None puts a field back to its default. Values of one line stay where they are, new items of a list are
    put after the old ones, and a new field goes last. Raises EditRefused.
    """
    unknown = [name for name in changes if name == "id" or name not in Intent.__struct_fields__]
    if unknown:
        raise EditRefused(f"{unknown[0]!r} is no field that can be set; expected one of an intent's, not its id")
    source = _opened(text)
    table = _table_of(_entry(source, intent_id), intent_id)
    before = _read(text)
    old = next((i for i in before.intents if i.id == intent_id), None)
    wanted = {**changes, "updated_at": now}
    after = source.spliced(_changes(source, table, old, wanted))
    values = {name: getattr(_BLANK, name) if value is None else value for name, value in wanted.items()}
    expected = tuple(msgspec.structs.replace(i, **values) if i is old else i for i in before.intents)
    return _verified(after, before, expected, None if old else intent_id)


def remove_intent(text: str, intent_id: str) -> str:
    """`text` without that intent and the comments indented below it. Raises EditRefused."""
    source = _opened(text)
    entry = _entry(source, intent_id)
    before = _read(text)
    after = source.spliced([_removal(source, entry)])
    return _verified(after, before, tuple(i for i in before.intents if i.id != intent_id), intent_id)


def next_id(document: IntentsDocument, prefix: str = "INT") -> str:
    """The first id after the highest in use, broken intents counted. Raises ValueError on a bad prefix."""
    if not is_intent_id(f"{prefix}-001"):
        raise ValueError(f"{prefix!r} cannot begin an intent id; expected 2 to 8 letters A-Z")
    named = [i.id for i in document.intents] + [f.intent_id or "" for f in document.findings]
    parts = (name.rpartition("-") for name in named if is_intent_id(name))
    return f"{prefix}-{max((int(number) for start, _, number in parts if start == prefix), default=0) + 1:03d}"


def write_intents(path: Path, text: str, *, expected_sha256: Sha256 | None, lock: Path) -> Sha256:
    """Put `text` at `path`, whole or not at all; the SHA-256 of what stands there then.

    `expected_sha256` names the content that was edited, None that there was no file. `lock` is a file in
    Remit's state folder. Raises IntentsFileChanged, IntentsFileLocked, OSError.
    """
    content = text.encode("utf-8")
    with _locked(lock):
        found, mode = _on_disk(path)
        if found != expected_sha256:
            raise IntentsFileChanged(path, expected_sha256, found)
        write_below(path.parent.parent, path, content, mode)
    return sha256(content)


# -- finding the place ---------------------------------------------------------------------------------


def _opened(text: str) -> _Source:
    bare = text.removeprefix("\ufeff")
    first = bare.find("\n")
    newline = "\r\n" if first > 0 and bare[first - 1] == "\r" else "\n"
    try:
        root = compose(decode(_encoded(text)))
    except Unreadable as error:
        raise EditRefused(f"line {error.line}, column {error.column}: {error}; mend the file first") from error
    if root is not None and not isinstance(root, Table) and not is_null(root):
        raise EditRefused("the file is no mapping; mend it first")
    return _Source(bare, text[: len(text) - len(bare)], newline, root if isinstance(root, Table) else None)


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise EditRefused(f"{text[error.start]!r} cannot be written as UTF-8") from error


def _read(text: str) -> IntentsDocument:
    return parse_intents(_encoded(text))


def _entries(source: _Source) -> tuple[Entry, ...]:
    return () if source.active is None else entries(source.active)


def _value_of(table: Table, name: str) -> Node | None:
    return next((v for k, v in table.pairs if isinstance(k, Scalar) and k.text == name), None)


def _id_of(entry: Entry) -> str | None:
    if entry.key is not None:
        return entry.key.text
    node = _value_of(entry.node, "id") if isinstance(entry.node, Table) else None
    return node.text if isinstance(node, Scalar) else None


def _entry(source: _Source, intent_id: str) -> Entry:
    found = [entry for entry in _entries(source) if _id_of(entry) == intent_id]
    if len(found) == 1:
        return found[0]
    raise EditRefused(f"{intent_id!r} stands {len(found)} times in the file; expected once")


def _table_of(entry: Entry, intent_id: str) -> Table:
    if isinstance(entry.node, Table) and not entry.node.aliased:
        return entry.node
    raise EditRefused(f"{intent_id} is not written out as a mapping; edit the file by hand")


def _last_leaf(node: Node) -> Node:
    """The node whose text ends where a block collection's does."""
    while not node.aliased:
        if isinstance(node, Table) and node.pairs and not node.flow:
            node = node.pairs[-1][1]
        elif isinstance(node, Series) and node.items and not node.flow:
            node = node.items[-1]
        else:
            break
    return node


def _is_block_scalar(node: Node) -> bool:
    return isinstance(node, Scalar) and node.style in ("|", ">")


def _is_block(node: Node) -> bool:
    return isinstance(node, (Series, Table)) and not node.flow and not node.aliased


def _content_end(text: str, node: Node) -> int:
    """The offset behind the last character of the value, without line ends that only follow it."""
    leaf = _last_leaf(node)
    return len(text[: leaf.end].rstrip()) if _is_block_scalar(leaf) else leaf.end


def _line_after(text: str, node: Node) -> int:
    """The start of the first line behind the value; the end of the text where there is none."""
    leaf = _last_leaf(node)
    if _is_block_scalar(leaf) and "+" in text[leaf.start :].split("\n", 1)[0]:
        return leaf.end
    newline = text.find("\n", _content_end(text, node))
    return len(text) if newline < 0 else newline + 1


def _past_comments(text: str, at: int, column: int) -> int:
    """`at`, a line's start, moved behind the comments that follow it indented deeper than `column` spaces."""
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


def _starts_line(text: str, at: int) -> bool:
    return not text[text.rfind("\n", 0, at) + 1 : at].strip(" ")


# -- adding --------------------------------------------------------------------------------------------


def _addition(source: _Source, intent: Intent) -> list[_Splice]:
    active, root = source.active, source.root
    if root is None:
        header = ['version: "1.0"', "active_intents:", *_item(intent, 2, 2), "metadata: {}"]
        return [source.lines_at(len(source.text), header)]
    if root.flow:
        return [_flow_addition(root, active, intent)]
    if active is None:
        lines = ["active_intents:", *_item(intent, 2, 2)]
        margin = " " * (root.column - 1)
        return [source.lines_at(_line_after(source.text, root), [margin + line for line in lines])]
    if active.aliased:
        raise EditRefused("active_intents is an alias; edit the file by hand")
    if _is_empty(source.text, active):
        start = len(source.text[: active.start].rstrip(" "))
        lines = source.lines_at(_line_after(source.text, active), _item(intent, root.column + 1, 2))
        return [_Splice(start, active.end, ""), lines]
    if isinstance(active, Series) and not active.flow:
        return [_block_item(source, active, intent)]
    if isinstance(active, Table) and not active.flow:
        return [_block_pair(source, active, intent)]
    return [_flow_addition(root, active, intent)]


def _is_empty(text: str, active: Node) -> bool:
    """Whether there is no intent yet, and the value takes part of one line, or nothing."""
    hollow = (isinstance(active, Series) and not active.items) or (isinstance(active, Table) and not active.pairs)
    return is_null(active) or (hollow and "\n" not in text[active.start : active.end])


def _block_item(source: _Source, active: Series, intent: Intent) -> _Splice:
    text, last = source.text, active.items[-1]
    dash = active.column - 1
    at = _past_comments(text, _line_after(text, last), dash)
    spaced = len(active.items) > 1 and _spaced(text, active.items[-2], last)
    return source.lines_at(at, [""] * spaced + _item(intent, dash, max(last.column - active.column, 2)))


def _block_pair(source: _Source, active: Table, intent: Intent) -> _Splice:
    margin = active.column - 1
    last = active.pairs[-1][1]
    inner = last.column - 1 if isinstance(last, Table) and not last.flow else margin + 2
    at = _past_comments(source.text, _line_after(source.text, last), margin)
    spaced = len(active.pairs) > 1 and _spaced(source.text, active.pairs[-2][1], active.pairs[-1][0])
    lines = [" " * margin + f"{intent.id}:", *_field_lines(_shown_fields(intent)[1:], inner)]
    return source.lines_at(at, [""] * spaced + lines)


def _spaced(text: str, one: Node, following: Node) -> bool:
    """Whether the file keeps a blank line between these neighbours."""
    between = text[_content_end(text, one) : following.start].split("\n")[1:-1]
    return any(not line.strip() for line in between)


def _flow_addition(root: Table, active: Node | None, intent: Intent) -> _Splice:
    """Into a file in braces and brackets, as JSON spells it."""
    fields = dict(_shown_fields(intent))
    if isinstance(active, Table):
        fields.pop("id")
        return _into_flow(active, f"{_text(intent.id, strict=True)}: {_flow(fields, strict=True)}")
    item = _flow(fields, strict=True)
    if isinstance(active, Series):
        return _into_flow(active, item)
    if active is None:
        return _into_flow(root, f'"active_intents": [{item}]')
    return _Splice(active.start, active.end, f" [{item}]" if active.start == active.end else f"[{item}]")


def _into_flow(node: Table | Series, text: str) -> _Splice:
    """`text` as the last part of a collection in brackets or braces."""
    parts = node.items if isinstance(node, Series) else [value for _, value in node.pairs]
    if not parts:
        return _Splice(node.end - 1, node.end - 1, text)
    return _Splice(parts[-1].end, parts[-1].end, f", {text}")


# -- changing ------------------------------------------------------------------------------------------


def _changes(source: _Source, table: Table, old: Intent | None, wanted: Mapping[str, FieldValue]) -> list[_Splice]:
    keys = {key.text: (key, value) for key, value in table.pairs if isinstance(key, Scalar)}
    splices: list[_Splice] = []
    fresh: list[tuple[str, Value]] = []
    for name, value in wanted.items():
        before: FieldValue = getattr(old, name) if old else None
        if old is not None and value == before:
            continue
        if name in keys:
            key, node = keys[name]
            splices.append(_change(source, key, node, before, value))
        elif value is not None:
            fresh.append((name, _plain_value(value)))
    if fresh and table.flow:
        strict = source.root is not None and source.root.flow
        text = ", ".join(f"{_text(name, strict=strict)}: {_flow(value, strict=strict)}" for name, value in fresh)
        splices.append(_into_flow(table, text))
    elif fresh:
        at = _line_after(source.text, table)
        splices.append(source.lines_at(at, _field_lines(fresh, table.column - 1)))
    return splices


def _change(source: _Source, key: Scalar, node: Node, before: FieldValue, value: FieldValue) -> _Splice:
    if isinstance(value, tuple) and isinstance(node, Series) and not node.aliased:
        grown = _growth(before, value)
        if grown and len(node.items) == len(value) - len(grown) > 0:
            return _more_items(source, node, grown)
        if value and not node.flow and _starts_line(source.text, node.start):
            return _other_items(source, node, value)
    if isinstance(value, str) and isinstance(node, Scalar) and _is_block_scalar(node) and _is_literal(value):
        return _literal(source, key, node, value)
    if isinstance(value, str) and isinstance(node, Scalar):
        return _replace(source, node, _in_style(value, node.style))
    strict = source.root is not None and source.root.flow
    text = _flow(_plain_value(value), strict=strict)
    if _is_block(node):
        colon = source.text.index(":", key.end) + 1
        return _Splice(colon, _content_end(source.text, node), f" {text}")
    return _replace(source, node, text)


def _growth(before: FieldValue, value: tuple[object, ...]) -> tuple[object, ...]:
    """What was put behind the old items; nothing where the old ones are not all there, in order."""
    kept = isinstance(before, tuple) and value[: len(before)] == before
    return value[len(before) :] if kept and isinstance(before, tuple) else ()


def _more_items(source: _Source, node: Series, items: Sequence[object]) -> _Splice:
    texts = [_flow(_plain_item(item)) for item in items]
    if node.flow:
        return _into_flow(node, ", ".join(texts))
    dash = " " * (node.column - 1) + "-" + " " * max(node.items[-1].column - node.column - 1, 1)
    return source.lines_at(_line_after(source.text, node), [dash + text for text in texts])


def _other_items(source: _Source, node: Series, items: Sequence[object]) -> _Splice:
    between = source.newline + " " * (node.column - 1)
    text = between.join(f"- {_flow(_plain_item(item))}" for item in items)
    return _Splice(node.start, _content_end(source.text, node), text)


def _literal(source: _Source, key: Scalar, node: Scalar, value: str) -> _Splice:
    end = _content_end(source.text, node)
    text = source.newline.join(_literal_lines(value, key.column + 1))
    return _Splice(node.start, end, text + source.newline if end == len(source.text) else text)


def _replace(source: _Source, node: Node, value: str) -> _Splice:
    end = _content_end(source.text, node)
    glued = node.start > 0 and source.text[node.start - 1] not in " \n"
    return _Splice(node.start, end, f" {value}" if glued else value)


def _in_style(value: str, style: str) -> str:
    """The text in the quotes that the old one had."""
    if style == "'" and value.isascii() and value.isprintable():
        return "'" + value.replace("'", "''") + "'"
    return _text(value, strict=style == '"')


# -- removing ------------------------------------------------------------------------------------------


def _removal(source: _Source, entry: Entry) -> _Splice:
    active, text = source.active, source.text
    if isinstance(active, Series) and not active.aliased:
        index = next(n for n, item in enumerate(active.items) if item is entry.node)
        if active.flow:
            return _out_of_flow([(item, item) for item in active.items], index)
        before = _line_after(text, active.items[index - 1]) if index else _line_start(text, active.start)
        dash = re.compile(rf"^ {{{active.column - 1}}}-(?=\s)", re.MULTILINE).search(text, before)
        return _lines_out(text, dash.start() if dash else entry.node.start, entry.node, active.column - 1)
    if isinstance(active, Table) and not active.aliased and entry.key is not None:
        if active.flow:
            index = next(n for n, (key, _) in enumerate(active.pairs) if key is entry.key)
            return _out_of_flow(active.pairs, index)
        return _lines_out(text, _line_start(text, entry.key.start), entry.node, active.column - 1)
    raise EditRefused("active_intents is an alias; edit the file by hand")


def _lines_out(text: str, start: int, node: Node, column: int) -> _Splice:
    return _Splice(start, _past_comments(text, _line_after(text, node), column), "")


def _out_of_flow(parts: Sequence[tuple[Node, Node]], index: int) -> _Splice:
    """One part and the comma that parted it from its neighbour."""
    first, last = parts[index]
    if index:
        return _Splice(parts[index - 1][1].end, last.end, "")
    return _Splice(first.start, parts[1][0].start if len(parts) > 1 else last.end, "")


def _line_start(text: str, at: int) -> int:
    return text.rfind("\n", 0, at) + 1


# -- values to text ------------------------------------------------------------------------------------


def _shown_fields(intent: Intent) -> list[tuple[str, Value]]:
    """The fields worth writing, id first."""
    shown = ((name, getattr(intent, name)) for name in Intent.__struct_fields__)
    return [(name, _plain_value(value)) for name, value in shown if name in _ALWAYS or value != getattr(_BLANK, name)]


def _plain_value(value: FieldValue) -> Value:
    return [_plain_item(item) for item in value] if isinstance(value, tuple) else value


def _plain_item(item: object) -> Value:
    """A list item as the file holds it. A rule's text is left out where reading it would give the same."""
    match item:
        case Constraint(text=text, kind=str(kind), options=options):
            said = {} if text == describe_rule(kind, options) else {"text": text}
            return {"type": kind, **options, **said}
        case Constraint(text=text) | Criterion(text=text, verify=None) | str(text):
            return text
        case Criterion(text=text, verify=verify):
            return {"text": text, "verify": verify}
        case _:
            raise EditRefused(f"{item!r} is no item of an intent's list")


def _item(intent: Intent, dash: int, offset: int) -> list[str]:
    """The intent as lines of a list: the dash in column `dash` (0-based), its keys `offset` further."""
    first, *rest = _field_lines(_shown_fields(intent), dash + offset)
    return [" " * dash + "-" + first[dash + 1 :], *rest]


def _field_lines(fields: Iterable[tuple[str, Value]], margin: int) -> list[str]:
    return [line for name, value in fields for line in _lines(name, value, margin)]


def _lines(name: str, value: Value, margin: int) -> list[str]:
    lead = " " * margin
    if isinstance(value, list) and value:
        return [f"{lead}{name}:", *(f"{lead}  - {_flow(item)}" for item in value)]
    if isinstance(value, str) and _is_literal(value):
        first, *rest = _literal_lines(value, margin + 2)
        return [f"{lead}{name}: {first}", *rest]
    return [f"{lead}{name}: {_flow(value)}"]


def _is_literal(text: str) -> bool:
    """Whether `text` has lines, and a literal block would hold them as they are."""
    return "\n" in text and text != "\n" and _NOT_LITERAL.search(text) is None


def _literal_lines(text: str, margin: int) -> list[str]:
    lines = text.removesuffix("\n").split("\n")
    return ["|" if text.endswith("\n") else "|-", *(" " * margin + line if line else "" for line in lines)]


def _flow(value: Value, *, strict: bool = False) -> str:
    """The value on one line; `strict` spells it as JSON does."""
    match value:
        case str():
            return _text(value, strict=strict)
        case list():
            return "[" + ", ".join(_flow(item, strict=strict) for item in value) + "]"
        case dict():
            pairs = (f"{_text(k, strict=strict)}: {_flow(v, strict=strict)}" for k, v in value.items())
            return "{" + ", ".join(pairs) + "}"
        case _:
            return json.dumps(value)


def _text(text: str, *, strict: bool) -> str:
    """Plain where YAML 1.1 and 1.2 both read exactly this text, else in double quotes."""
    plain = _PLAIN.fullmatch(text) is not None and text.lower() not in _WORDS
    if not strict and (plain or parse_time(text) is not None):
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return _ESCAPED.sub(lambda bad: f"\\u{ord(bad.group()):04x}", quoted)


# -- being sure ----------------------------------------------------------------------------------------


def _verified(text: str, before: IntentsDocument, expected: Sequence[Intent], edited: str | None) -> str:
    """`text`, when it reads as `expected` and has no error that was not there before.

    `edited` names an intent that could not be read before: it may read as anything now.
    """
    after = _read(text)
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


# -- the file ------------------------------------------------------------------------------------------


def _on_disk(path: Path) -> tuple[Sha256 | None, int]:
    """The SHA-256 of what is there, None of nothing, and the mode that a new content should have."""
    try:
        content = read_regular(path, LIMIT)
        return sha256(content), path.stat().st_mode & 0o777
    except FileNotFoundError:
        return None, 0o666


@contextmanager
def _locked(lock: Path) -> Generator[None]:
    """Hold `lock`, waiting LOCK_TIMEOUT_S at most. Raises IntentsFileLocked."""
    handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        deadline = time.monotonic() + LOCK_TIMEOUT_S
        while not _taken(handle):
            if time.monotonic() > deadline:
                raise IntentsFileLocked(f"{str(lock)!r} was held by somebody else for {LOCK_TIMEOUT_S:g} s")
            time.sleep(0.01)
        yield
    finally:
        os.close(handle)


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
