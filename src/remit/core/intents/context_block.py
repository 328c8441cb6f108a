"""The `<intent_context>` block: an agent's rights and duties under its intent (contracts §4).

Texts of people and agents are data: they are escaped, truncated, and stripped of invisible characters, to keep every
field inside its element.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import TypeVar

from msgspec import Struct

from remit.core.intent import Intent, Priority

MAX_TEXT_CHARS = 2_000
"""Characters of a description or a lesson."""
MAX_ITEM_CHARS = 1_000
MAX_ATTRIBUTE_CHARS = 500
MAX_ITEMS = 100
MAX_CHANGES = 10
MAX_LESSONS = 5
MAX_OTHER_INTENTS = 20
MAX_OTHER_PATTERNS = 10
DEFAULT_PRIORITY: Priority = "MEDIUM"
T = TypeVar("T")

# Characters of no hidden-by-nature category that are drawn as nothing all the same: fillers, joiners and
# variation selectors. Source: Unicode 15 DerivedCoreProperties.txt, Default_Ignorable_Code_Point.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff]"
)
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_NOT_XML = frozenset("\ufffe\uffff")
_KEPT_CONTROLS = frozenset("\n\t")


class RecentChange(Struct, frozen=True):
    """A change made under the intent. `at` is ISO 8601; `mutation_class` is None if unknown."""

    path: str
    at: str
    mutation_class: str | None
    session: str


class LessonEntry(Struct, frozen=True):
    """An entry of the shared lessons file. `kind` is lesson, decision or constraint."""

    kind: str
    text: str


def remove_invisible(text: str) -> str:
    """Remove characters that XML forbids or that hide text: controls, bidi marks, fillers.

    Newline and tab stay; a carriage return is dropped, since XML would turn it into a newline.
    """
    if text.isascii() and text.isprintable():
        return text
    hidden, kept = _HIDDEN_CATEGORIES, _KEPT_CONTROLS
    visible = (c for c in _INVISIBLE.sub("", text) if c in kept or unicodedata.category(c) not in hidden)
    return "".join(c for c in visible if c not in _NOT_XML)


def render_context_block(
    intent: Intent,
    *,
    intents: Iterable[Intent] = (),
    recent_changes: Sequence[RecentChange] = (),
    lessons: Sequence[LessonEntry] = (),
    other_intents: Sequence[Intent] = (),
) -> str:
    """Return the `<intent_context>` block, well-formed XML for any input, without empty elements.

    `intents` resolves dependencies. `recent_changes` and `lessons` are newest first; `other_intents` are in progress
    elsewhere. Entries over a limit are counted in an XML comment.
    """
    statuses = {other.id: other.status for other in intents}
    parent = intent.parent_intent or ""
    heading = (
        _element("name", intent.title),
        _element("status", intent.status),
        _element("priority", intent.priority) if intent.priority != DEFAULT_PRIORITY else "",
        _element("owner", intent.owner, MAX_ATTRIBUTE_CHARS) if intent.owner else "",
        _element("description", intent.description) if intent.description else "",
    )
    constraints = [
        _element("constraint", c.text or c.kind or "", MAX_ITEM_CHARS, enforced="false" if c.kind is None else "true")
        for c in intent.constraints[:MAX_ITEMS]
    ]
    criteria = intent.acceptance_criteria[:MAX_ITEMS]
    dependencies = [(name, statuses.get(name, "UNKNOWN")) for name in intent.dependencies[:MAX_ITEMS]]
    changes = [
        f"<change{_attributes(**{'path': c.path, 'at': c.at, 'class': c.mutation_class, 'session': c.session})}/>"
        for c in recent_changes[:MAX_CHANGES]
    ]
    others = [other for other in other_intents if other.id != intent.id]
    other_elements = [
        f"<intent{_attributes(id=other.id, name=other.title)}>"
        f"{_items('pattern', other.owned_scope, MAX_OTHER_PATTERNS)}</intent>"
        for other in others[:MAX_OTHER_INTENTS]
    ]
    parts = (
        "".join(heading),
        _list("owned_scope", [_items("pattern", intent.owned_scope)]),
        _list("constraints", constraints, len(intent.constraints)),
        _list(
            "acceptance_criteria",
            [_element("criterion", c.text, MAX_ITEM_CHARS, verify=c.verify) for c in criteria],
            len(intent.acceptance_criteria),
        ),
        _list(
            "dependencies",
            [f"<dependency{_attributes(id=name, status=status)}/>" for name, status in dependencies],
            len(intent.dependencies),
        ),
        f"<parent{_attributes(id=parent, status=statuses.get(parent, 'UNKNOWN'))}/>" if parent else "",
        _list("references", [_items("reference", intent.references)]),
        _list("recent_changes", changes),
        _list("lessons", [_element("lesson", entry.text, kind=entry.kind) for entry in lessons[:MAX_LESSONS]]),
        _list("other_intents", other_elements, len(others)),
    )
    body = "".join(f"  {part}\n" for part in parts if part)
    return f"<intent_context{_attributes(intent_id=intent.id)}>\n{body}</intent_context>"


def _items(tag: str, texts: Sequence[str], limit: int = MAX_ITEMS) -> str:
    return "".join(_element(tag, text, MAX_ITEM_CHARS) for text in texts[:limit]) + _omitted(len(texts) - limit)


def _list(tag: str, elements: Sequence[str], count: int = 0) -> str:
    inner = "".join(elements)
    return f"<{tag}>{inner}{_omitted(count - len(elements))}</{tag}>" if inner else ""


def _omitted(count: int) -> str:
    return f"<!-- and {count} more -->" if count > 0 else ""


def _element(tag: str, text: str, max_chars: int = MAX_TEXT_CHARS, **attributes: str | None) -> str:
    return f"<{tag}{_attributes(**attributes)}>{_escape(text, max_chars)}</{tag}>"


def _attributes(**attributes: str | None) -> str:
    values = {name: _escape(value, MAX_ATTRIBUTE_CHARS) for name, value in attributes.items() if value}
    quoted = {n: v.replace('"', "&quot;").replace("\n", "&#10;").replace("\t", "&#9;") for n, v in values.items()}
    return "".join(f' {name}="{value}"' for name, value in quoted.items())


def _escape(text: str, max_chars: int) -> str:
    visible = remove_invisible(text[: max_chars * 8])
    fits = len(visible) <= max_chars and len(text) <= max_chars * 8
    shown = visible if fits else visible[: max_chars - 1] + "…"
    return shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
