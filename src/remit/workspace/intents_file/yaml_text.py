"""Spelling of intents as YAML lines, as a person would write them."""

import json
import re
from collections.abc import Iterable
from typing import TypeAlias

from remit.core.intent import Constraint, Criterion, Intent
from remit.core.intents.validation import describe_constraint, parse_time
from remit.workspace.intents_file.parse import Value
from remit.workspace.intents_file.storage import EditRefused

FieldValue: TypeAlias = str | bool | None | tuple[str, ...] | tuple[Constraint, ...] | tuple[Criterion, ...]
"""A field's value in an Intent."""

BLANK_INTENT = Intent(id="", owned_scope=())
_REQUIRED_FIELDS = frozenset({"status", "priority"})
_PLAIN_TEXT = re.compile(r"[^\W\d_](?:[\w ./@*()+-]*[\w./@*()+-])?")
_YAML_WORDS = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null"])
_ESCAPE_CHARACTERS = re.compile("[\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]")
_NOT_LITERAL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\xa0\u2028\u2029\ufeff\ufffe\uffff]|^[ ]|\n[ ]|^\n|\n\n$")


def shown_fields(intent: Intent) -> list[tuple[str, Value]]:
    """Return the fields that are not at their default, id first."""
    shown = ((name, getattr(intent, name)) for name in Intent.__struct_fields__)
    return [
        (name, plain_value(value))
        for name, value in shown
        if name in _REQUIRED_FIELDS or value != getattr(BLANK_INTENT, name)
    ]


def plain_value(value: FieldValue) -> Value:
    return [plain_item(item) for item in value] if isinstance(value, tuple) else value


def plain_item(item: object) -> Value:
    """Return a list item as written in the file. A constraint's text is left out if reading
    would derive the same text.
    """
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


def item_lines(intent: Intent, dash: int, offset: int) -> list[str]:
    """Return the intent as lines of a list item: the dash in column `dash` (0-based), its keys `offset` further."""
    first, *rest = field_lines(shown_fields(intent), dash + offset)
    return [" " * dash + "-" + first[dash + 1 :], *rest]


def field_lines(fields: Iterable[tuple[str, Value]], margin: int) -> list[str]:
    """Return the fields as lines of a mapping, indented by `margin` spaces."""
    return [line for name, value in fields for line in _lines(name, value, margin)]


def _lines(name: str, value: Value, margin: int) -> list[str]:
    lead = " " * margin
    if isinstance(value, list) and value:
        return [f"{lead}{name}:", *(f"{lead}  - {flow_text(item)}" for item in value)]
    if isinstance(value, str) and is_literal(value):
        first, *rest = literal_lines(value, margin + 2)
        return [f"{lead}{name}: {first}", *rest]
    return [f"{lead}{name}: {flow_text(value)}"]


def is_literal(text: str) -> bool:
    """Return whether `text` has several lines that a literal block would keep unchanged."""
    return "\n" in text and text != "\n" and _NOT_LITERAL.search(text) is None


def literal_lines(text: str, margin: int) -> list[str]:
    """Return the text as a literal block, header first, indented by `margin` spaces."""
    lines = text.removesuffix("\n").split("\n")
    return ["|" if text.endswith("\n") else "|-", *(" " * margin + line if line else "" for line in lines)]


def flow_text(value: Value, *, strict: bool = False) -> str:
    """Return the value on a single line; `strict` spells as JSON does."""
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
