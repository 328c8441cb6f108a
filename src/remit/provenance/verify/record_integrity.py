"""Whether a record, or a note, holds what looks like a secret: RMT011.

Records are redacted before they are written; this finds what came later: patterns of the team's own, or better ones of
Remit's. The secret itself is never shown.

Whether the contents that records name are those that were recorded: RMT016.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast

from msgspec import Struct

from remit.core.diff.contents import hash_line_range, sha256
from remit.core.secrets.redaction import redact, redact_value
from remit.provenance.verify.rules import Document, RuleFinding, body_of, make_finding
from remit.workspace.contents.content_store import ContentStore

SECRET_FOUND = "what looks like a secret stands"  # noqa: S105  no password
SECRET_FIX = "take it out of use; what was shared has to be taken back by hand"  # noqa: S105  no password


def find_leaked_records(documents: Iterable[Document], patterns: Sequence[re.Pattern[str]]) -> Iterator[RuleFinding]:
    """The records with a text in them that would be masked today."""
    for document in documents:
        body = {key: value for key, value in body_of(document).items() if key != "chain"}
        place = first_difference(body, redact_value(body, patterns))
        if place is not None:
            told = body_of(document)
            message = f"{SECRET_FOUND} in `{place}` of a record of {told.get('event')}: {SECRET_FIX}"
            yield make_finding("RMT011", message, record=str(document["id"]), intent_id=told.get("intent_id"))


def find_leaked_notes(texts: Iterable[tuple[str, bytes]], patterns: Sequence[re.Pattern[str]]) -> Iterator[RuleFinding]:
    """The notes, by their commits, with a line in them that would be masked today."""
    for commit, text in texts:
        lines = text.decode("utf-8", "replace").splitlines()
        number = next((n for n, line in enumerate(lines, 1) if redact(line, patterns) != line), None)
        if number is not None:
            yield make_finding(
                "RMT011",
                f"{SECRET_FOUND} in line {number} of the note of {commit[:12]}: {SECRET_FIX}",
                commit=commit,
            )


def first_difference(one: Any, other: Any) -> str | None:
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
    below = next(((key, found) for key, a, b in pairs if (found := first_difference(a, b)) is not None), None)
    return f"{below[0]}.{below[1]}".rstrip(".") if below else ""


class ComparedContents(Struct, frozen=True):
    """How many contents were at hand, how many were not, and what was found in the former."""

    contents: int
    lost: int
    findings: tuple[RuleFinding, ...]


def compare_contents(documents: Sequence[Document], store: ContentStore) -> ComparedContents:
    """Hold the recorded hashes of files and of lines against the contents that are at hand."""
    sides = [(d, f, s) for d in documents for f in body_of(d).get("files", []) for s in ("before", "after") if f.get(s)]
    named = [(d, f, s, str(f[s]["git_blob"])) for d, f, s in sides if f[s].get("git_blob")]
    at_hand = store.load_many(dict.fromkeys(blob for *_, blob in named))
    found: list[RuleFinding] = []
    for document, file, side, blob in named:
        content = at_hand.get(blob)
        if content is not None:
            found += find_mismatches(document, file, side, content)
    present = sum(blob in at_hand for *_, blob in named)
    return ComparedContents(present, len(named) - present, tuple(found))


def find_mismatches(document: Document, file: Document, side: str, content: bytes) -> Iterator[RuleFinding]:
    """What of the record is not so of this content."""
    path, about = str(file["path"]), {"record": str(document["id"]), "path": str(file["path"])}
    told = file[side].get("sha256")
    if told and told != sha256(content):
        yield make_finding(
            "RMT016", f"the content {side} the change hashes to {sha256(content)[:12]}…, not {told[:12]}…", **about
        )
        return
    if side != "after":
        return
    for start, end, hashed in recorded_ranges(document, path):
        if hashed != hash_line_range(content, start, end):
            yield make_finding("RMT016", f"lines {start}-{end} are not those that were recorded", line=start, **about)


def recorded_ranges(document: Document, path: str) -> Iterator[tuple[int, int, str]]:
    """The lines that a record says were written to that file, with their hash."""
    for file in document.get("files", []):
        for conversation in file.get("conversations", []) if file.get("path") == path else ():
            for one in conversation.get("ranges", []):
                if one.get("content_hash"):
                    yield int(one["start_line"]), int(one["end_line"]), str(one["content_hash"])
