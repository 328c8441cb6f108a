"""Rules on the contents of records: RMT016 (a content differs from its recorded hash) and RMT011 (a secret in a record
or note).

Records are redacted before they are written. RMT011 finds secrets of patterns that were added later. The secret is
never shown.
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
    """Yield RMT011 for records with a text that would be masked today."""
    for document in documents:
        body = {key: value for key, value in body_of(document).items() if key != "chain"}
        field = first_difference(body, redact_value(body, patterns))
        if field is not None:
            original = body_of(document)
            message = f"{SECRET_FOUND} in `{field}` of a record of {original.get('event')}: {SECRET_FIX}"
            yield make_finding("RMT011", message, record=str(document["id"]), intent_id=original.get("intent_id"))


def find_leaked_notes(texts: Iterable[tuple[str, bytes]], patterns: Sequence[re.Pattern[str]]) -> Iterator[RuleFinding]:
    """Yield RMT011 for notes, by commit, with a line that would be masked today."""
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
    """Return the first difference of two JSON values as dotted keys; None if equal."""
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
    first = next(((key, difference) for key, a, b in pairs if (difference := first_difference(a, b)) is not None), None)
    return f"{first[0]}.{first[1]}".rstrip(".") if first else ""


class ComparedContents(Struct, frozen=True):
    """Number of available and of lost contents, and the findings."""

    contents: int
    lost: int
    findings: tuple[RuleFinding, ...]


def compare_contents(documents: Sequence[Document], store: ContentStore) -> ComparedContents:
    """Compare the recorded hashes of files and lines with the available contents."""
    sides = [(d, f, s) for d in documents for f in body_of(d).get("files", []) for s in ("before", "after") if f.get(s)]
    named = [(d, f, s, str(f[s]["git_blob"])) for d, f, s in sides if f[s].get("git_blob")]
    available = store.load_many(dict.fromkeys(blob for *_, blob in named))
    findings: list[RuleFinding] = []
    for document, file, side, blob in named:
        content = available.get(blob)
        if content is not None:
            findings += find_mismatches(document, file, side, content)
    present = sum(blob in available for *_, blob in named)
    return ComparedContents(present, len(named) - present, tuple(findings))


def find_mismatches(document: Document, file: Document, side: str, content: bytes) -> Iterator[RuleFinding]:
    """Yield the recorded hashes that this content does not match."""
    path, about = str(file["path"]), {"record": str(document["id"]), "path": str(file["path"])}
    recorded_hash = file[side].get("sha256")
    if recorded_hash and recorded_hash != sha256(content):
        yield make_finding(
            "RMT016",
            f"the content {side} the change hashes to {sha256(content)[:12]}…, not {recorded_hash[:12]}…",
            **about,
        )
        return
    if side != "after":
        return
    for start, end, recorded_range_hash in recorded_ranges(document, path):
        if recorded_range_hash != hash_line_range(content, start, end):
            yield make_finding("RMT016", f"lines {start}-{end} are not those that were recorded", line=start, **about)


def recorded_ranges(document: Document, path: str) -> Iterator[tuple[int, int, str]]:
    for file in document.get("files", []):
        for conversation in file.get("conversations", []) if file.get("path") == path else ():
            for entry in conversation.get("ranges", []):
                if entry.get("content_hash"):
                    yield int(entry["start_line"]), int(entry["end_line"]), str(entry["content_hash"])
