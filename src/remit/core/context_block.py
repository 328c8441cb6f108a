"""The text that tells an agent what it may do under its intent: contracts §4.

Whatever people or agents wrote is data here. It is escaped, bounded, and rid of characters that a
reader would not see, so that no field can close the block or hide an instruction in it.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

from remit.core.intent import Constraint, Criterion, Intent, Priority

LONGEST_TEXT = 2_000
"""Characters of a description or a lesson."""
LONGEST_ITEM = 1_000
LONGEST_ATTRIBUTE = 500
MOST_ITEMS = 100
MOST_CHANGES = 10
MOST_LESSONS = 5
MOST_OTHERS = 20
MOST_PATTERNS_OF_OTHERS = 10
USUAL_PRIORITY: Priority = "MEDIUM"

T = TypeVar("T")

# Characters of no hidden-by-nature category that are drawn as nothing all the same: fillers, joiners and
# variation selectors. Source: Unicode 15 DerivedCoreProperties.txt, Default_Ignorable_Code_Point.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff]"
)
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_NOT_XML = frozenset("\ufffe\uffff")
_KEPT = frozenset("\n\t")


class RecentChange(Struct, frozen=True):
    """One change made under the intent. `at` is ISO 8601; `mutation_class` is None where not known."""

    path: str
    at: str
    mutation_class: str | None
    session: str


class Lesson(Struct, frozen=True):
    """One entry of the shared brain. `kind` is lesson, decision or constraint."""

    kind: str
    text: str


def visible(text: str) -> str:
    """`text` without characters that XML forbids or that hide: controls, bidi marks, fillers and their kin.

    Newline and tab stay; a carriage return goes, since XML would turn it into a newline.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(c for c in _INVISIBLE.sub("", text) if c in _KEPT or not _hidden(c))


def context_block(
    intent: Intent,
    *,
    intents: Iterable[Intent] = (),
    recent_changes: Sequence[RecentChange] = (),
    lessons: Sequence[Lesson] = (),
    others: Sequence[Intent] = (),
) -> str:
    """The `<intent_context>` block, well-formed XML for any input, empty parts left out.

    `intents` is where dependencies are looked up. `recent_changes` and `lessons` are newest first; `others`
    are the intents in progress elsewhere. What is over a limit is counted in an XML comment.
    """
    statuses = {other.id: other.status for other in intents}
    near = [other for other in others if other.id != intent.id]
    parent = [intent.parent_intent] if intent.parent_intent else []
    parts = (
        _heading(intent),
        _list("owned_scope", _pattern, intent.owned_scope),
        _list("constraints", _constraint, intent.constraints),
        _list("acceptance_criteria", _criterion, intent.acceptance_criteria),
        _list("dependencies", lambda name: _other_status("dependency", name, statuses), intent.dependencies),
        "".join(_other_status("parent", name, statuses) for name in parent),
        _list("references", _reference, intent.references),
        _list("recent_changes", _change, recent_changes[:MOST_CHANGES]),
        _list("lessons", lambda lesson: _element("lesson", lesson.text, kind=lesson.kind), lessons[:MOST_LESSONS]),
        _list("other_intents", _other, near, MOST_OTHERS),
    )
    body = "".join(f"  {part}\n" for part in parts if part)
    return f"<intent_context{_attributes(intent_id=intent.id)}>\n{body}</intent_context>"


def _heading(intent: Intent) -> str:
    """The intent's own words. The usual priority says nothing, and is left out."""
    return "".join(
        (
            _element("name", intent.title),
            _element("status", intent.status),
            _element("priority", intent.priority) if intent.priority != USUAL_PRIORITY else "",
            _element("owner", intent.owner, LONGEST_ATTRIBUTE) if intent.owner else "",
            _element("description", intent.description) if intent.description else "",
        )
    )


def _pattern(pattern: str) -> str:
    return _element("pattern", pattern, LONGEST_ITEM)


def _constraint(constraint: Constraint) -> str:
    enforced = "false" if constraint.kind is None else "true"
    return _element("constraint", constraint.text or constraint.kind or "", LONGEST_ITEM, enforced=enforced)


def _criterion(criterion: Criterion) -> str:
    return _element("criterion", criterion.text, LONGEST_ITEM, verify=criterion.verify)


def _other_status(tag: str, name: str, statuses: Mapping[str, str]) -> str:
    return f"<{tag}{_attributes(id=name, status=statuses.get(name, 'UNKNOWN'))}/>"


def _reference(reference: str) -> str:
    return _element("reference", reference, LONGEST_ITEM)


def _change(change: RecentChange) -> str:
    named = {"path": change.path, "at": change.at, "class": change.mutation_class, "session": change.session}
    return f"<change{_attributes(**named)}/>"


def _other(intent: Intent) -> str:
    patterns = "".join(map(_pattern, intent.owned_scope[:MOST_PATTERNS_OF_OTHERS]))
    more = _more(len(intent.owned_scope) - MOST_PATTERNS_OF_OTHERS)
    return f"<intent{_attributes(id=intent.id, name=intent.title)}>{patterns}{more}</intent>"


def _list(tag: str, render: Callable[[T], str], items: Sequence[T], limit: int = MOST_ITEMS) -> str:
    if not items:
        return ""
    return f"<{tag}>{''.join(map(render, items[:limit]))}{_more(len(items) - limit)}</{tag}>"


def _more(count: int) -> str:
    return f"<!-- and {count} more -->" if count > 0 else ""


def _element(tag: str, text: str, most: int = LONGEST_TEXT, **attributes: str | None) -> str:
    return f"<{tag}{_attributes(**attributes)}>{_escape(_cut(text, most))}</{tag}>"


def _attributes(**attributes: str | None) -> str:
    """The attributes that have a value, each led by a space. White space is escaped: XML would fold it."""
    return "".join(f' {name}="{_quoted(value)}"' for name, value in attributes.items() if value)


def _quoted(value: str) -> str:
    escaped = _escape(_cut(value, LONGEST_ATTRIBUTE))
    return escaped.replace('"', "&quot;").replace("\n", "&#10;").replace("\t", "&#9;")


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _cut(text: str, most: int) -> str:
    """At most `most` visible characters, the last an ellipsis where something is missing."""
    clean = visible(text[: most * 8])
    whole = len(clean) <= most and len(text) <= most * 8
    return clean if whole else clean[: most - 1] + "…"


def _hidden(character: str) -> bool:
    return unicodedata.category(character) in _HIDDEN_CATEGORIES or character in _NOT_XML
