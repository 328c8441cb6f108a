"""Whether a record, or a note, holds what looks like a secret: RMT011.

Records are redacted before they are written; this finds what came later: patterns of the team's own, or better ones of
Remit's. The secret itself is never shown.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

from remit.core.redaction import redact, redact_value
from remit.provenance.verify.rules import Document, Finding, body_of, finding

FOUND = "what looks like a secret stands"
FIX = "take it out of use; what was shared has to be taken back by hand"


def leaked(documents: Iterable[Document], patterns: Sequence[re.Pattern[str]]) -> Iterator[Finding]:
    """The records with a text in them that would be masked today."""
    for document in documents:
        body = {key: value for key, value in body_of(document).items() if key != "chain"}
        place = differing(body, redact_value(body, patterns))
        if place is not None:
            told = body_of(document)
            message = f"{FOUND} in `{place}` of a record of {told.get('event')}: {FIX}"
            yield finding("RMT011", message, record=str(document["id"]), intent_id=told.get("intent_id"))


def leaked_notes(texts: Iterable[tuple[str, bytes]], patterns: Sequence[re.Pattern[str]]) -> Iterator[Finding]:
    """The notes, by their commits, with a line in them that would be masked today."""
    for commit, text in texts:
        lines = text.decode("utf-8", "replace").splitlines()
        number = next((n for n, line in enumerate(lines, 1) if redact(line, patterns) != line), None)
        if number is not None:
            yield finding(
                "RMT011",
                f"{FOUND} in line {number} of the note of {commit[:12]}: {FIX}",
                commit=commit,
            )


def differing(one: Any, other: Any) -> str | None:
    """Where two JSON values differ first, as keys joined by dots; None where they are equal."""
    if one == other:
        return None
    pairs: list[tuple[str, Any, Any]] = []
    if isinstance(one, dict) and isinstance(other, dict):
        left, right = cast("dict[str, Any]", one), cast("dict[str, Any]", other)
        if left.keys() != right.keys():
            return "(a name)"
        pairs = [(key, left[key], right[key]) for key in left]
    elif isinstance(one, list) and isinstance(other, list):
        pairs = [
            (str(n), a, b)
            for n, (a, b) in enumerate(zip(cast("list[Any]", one), cast("list[Any]", other), strict=True))
        ]
    below = next(((key, found) for key, a, b in pairs if (found := differing(a, b)) is not None), None)
    return f"{below[0]}.{below[1]}".rstrip(".") if below else ""
