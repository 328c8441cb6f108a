"""The `<intent_context>` block: an agent's rights and duties under its intent (contracts §4).

Texts of people and agents are data: they are escaped, truncated, and stripped of invisible characters, to keep every
field inside its element.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

from remit.core.intent import Constraint, Criterion, Intent, Priority

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
    return "".join(c for c in _INVISIBLE.sub("", text) if c in _KEPT_CONTROLS or not _is_hidden_char(c))


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
    shown_intents = [other for other in other_intents if other.id != intent.id]
    parent = [intent.parent_intent] if intent.parent_intent else []
    parts = (
        _render_heading(intent),
        _render_list("owned_scope", _render_pattern, intent.owned_scope),
        _render_list("constraints", _render_constraint, intent.constraints),
        _render_list("acceptance_criteria", _render_criterion, intent.acceptance_criteria),
        _render_list("dependencies", lambda name: _render_status("dependency", name, statuses), intent.dependencies),
        "".join(_render_status("parent", name, statuses) for name in parent),
        _render_list("references", _render_reference, intent.references),
        _render_list("recent_changes", _render_change, recent_changes[:MAX_CHANGES]),
        _render_list(
            "lessons", lambda lesson: _render_element("lesson", lesson.text, kind=lesson.kind), lessons[:MAX_LESSONS]
        ),
        _render_list("other_intents", _render_other_intent, shown_intents, MAX_OTHER_INTENTS),
    )
    body = "".join(f"  {part}\n" for part in parts if part)
    return f"<intent_context{_render_attributes(intent_id=intent.id)}>\n{body}</intent_context>"


def _render_heading(intent: Intent) -> str:
    """Render the intent's own fields, leaving out the default priority."""
    return "".join(
        (
            _render_element("name", intent.title),
            _render_element("status", intent.status),
            _render_element("priority", intent.priority) if intent.priority != DEFAULT_PRIORITY else "",
            _render_element("owner", intent.owner, MAX_ATTRIBUTE_CHARS) if intent.owner else "",
            _render_element("description", intent.description) if intent.description else "",
        )
    )


def _render_pattern(pattern: str) -> str:
    return _render_element("pattern", pattern, MAX_ITEM_CHARS)


def _render_constraint(constraint: Constraint) -> str:
    enforced = "false" if constraint.kind is None else "true"
    return _render_element("constraint", constraint.text or constraint.kind or "", MAX_ITEM_CHARS, enforced=enforced)


def _render_criterion(criterion: Criterion) -> str:
    return _render_element("criterion", criterion.text, MAX_ITEM_CHARS, verify=criterion.verify)


def _render_status(tag: str, name: str, statuses: Mapping[str, str]) -> str:
    return f"<{tag}{_render_attributes(id=name, status=statuses.get(name, 'UNKNOWN'))}/>"


def _render_reference(reference: str) -> str:
    return _render_element("reference", reference, MAX_ITEM_CHARS)


def _render_change(change: RecentChange) -> str:
    attributes = {"path": change.path, "at": change.at, "class": change.mutation_class, "session": change.session}
    return f"<change{_render_attributes(**attributes)}/>"


def _render_other_intent(intent: Intent) -> str:
    patterns = "".join(map(_render_pattern, intent.owned_scope[:MAX_OTHER_PATTERNS]))
    omitted = _render_omitted_count(len(intent.owned_scope) - MAX_OTHER_PATTERNS)
    return f"<intent{_render_attributes(id=intent.id, name=intent.title)}>{patterns}{omitted}</intent>"


def _render_list(tag: str, render: Callable[[T], str], items: Sequence[T], limit: int = MAX_ITEMS) -> str:
    if not items:
        return ""
    return f"<{tag}>{''.join(map(render, items[:limit]))}{_render_omitted_count(len(items) - limit)}</{tag}>"


def _render_omitted_count(count: int) -> str:
    return f"<!-- and {count} more -->" if count > 0 else ""


def _render_element(tag: str, text: str, max_chars: int = MAX_TEXT_CHARS, **attributes: str | None) -> str:
    return f"<{tag}{_render_attributes(**attributes)}>{_escape(_truncate(text, max_chars))}</{tag}>"


def _render_attributes(**attributes: str | None) -> str:
    """Render non-empty attributes, each led by a space. White space is escaped: XML would fold it."""
    return "".join(f' {name}="{_quote_attribute(value)}"' for name, value in attributes.items() if value)


def _quote_attribute(value: str) -> str:
    escaped = _escape(_truncate(value, MAX_ATTRIBUTE_CHARS))
    return escaped.replace('"', "&quot;").replace("\n", "&#10;").replace("\t", "&#9;")


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _truncate(text: str, max_chars: int) -> str:
    """Return at most `max_chars` visible characters, ending in an ellipsis if truncated."""
    visible = remove_invisible(text[: max_chars * 8])
    fits = len(visible) <= max_chars and len(text) <= max_chars * 8
    return visible if fits else visible[: max_chars - 1] + "…"


def _is_hidden_char(character: str) -> bool:
    return unicodedata.category(character) in _HIDDEN_CATEGORIES or character in _NOT_XML
