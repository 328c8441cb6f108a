"""Rules on contents: RMT016 (a content differs from its recorded hash), RMT011 (a secret in a record or note), RMT008
and RMT017 (commit messages and notes).

Records are redacted before they are written. RMT011 finds secrets of patterns that were added later. The secret is
never shown.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

from msgspec import Struct

from remit.core.diff.contents import hash_line_range, sha256
from remit.core.formats.commit_trailers import TrailerFinding
from remit.core.redaction import redact, redact_value
from remit.core.untrusted_input import sanitise_line
from remit.provenance.blame.blamed_line import body_of
from remit.provenance.notes.audit import audit_notes
from remit.provenance.verify.rules import Document, RuleFinding, make_finding
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.git.command import Git
from remit.workspace.sharing.shared_refs import NotesRef

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


def first_difference(one: Any, other: Any) -> str | None:
    """Return the first difference of two JSON values as dotted keys; None if equal."""
    if one == other:
        return None
    pairs: Iterable[tuple[Any, Any, Any]] = ()
    if isinstance(one, dict) and isinstance(other, dict):
        left, right = cast("dict[str, Any]", one), cast("dict[str, Any]", other)
        if left.keys() != right.keys():
            return "(a name)"
        pairs = ((key, value, right[key]) for key, value in left.items())
    elif isinstance(one, list) and isinstance(other, list):
        both = zip(cast("list[Any]", one), cast("list[Any]", other), strict=True)
        pairs = ((n, a, b) for n, (a, b) in enumerate(both))
    first = next(((key, found) for key, a, b in pairs if (found := first_difference(a, b)) is not None), None)
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
    about = {"record": str(document["id"]), "path": str(file["path"])}
    recorded, actual = file[side].get("sha256"), sha256(content)
    if recorded and recorded != actual:
        message = f"the content {side} the change hashes to {actual[:12]}…, not {recorded[:12]}…"
        yield make_finding("RMT016", message, **about)
        return
    traces = (trace for trace in document.get("files", []) if side == "after" and trace.get("path") == about["path"])
    ranges = (entry for trace in traces for talk in trace.get("conversations", []) for entry in talk.get("ranges", []))
    for entry in ranges:
        if not entry.get("content_hash"):
            continue
        start, end = int(entry["start_line"]), int(entry["end_line"])
        if str(entry["content_hash"]) != hash_line_range(content, start, end):
            yield make_finding("RMT016", f"lines {start}-{end} are not those that were recorded", line=start, **about)


def check_messages(
    git: Git, commits: Sequence[str], judge: Callable[[str], Sequence[TrailerFinding]]
) -> Iterator[RuleFinding]:
    """Yield RMT008 for the commits' messages. Raises GitError."""
    for commit, message in read_commit_messages(git, commits):
        for found in judge(message):
            text = f"{found.code}: {sanitise_line(found.text, 120)!r}: {found.message}"
            yield make_finding("RMT008", text, commit=commit)


def read_commit_messages(git: Git, commits: Iterable[str]) -> list[tuple[str, str]]:
    names = "".join(f"{name}\n" for name in commits).encode()
    output = git.run("log", "--no-walk=unsorted", "--stdin", "-z", "--format=%H%n%B", stdin=names) if names else b""
    texts = [text.decode("utf-8", "replace").partition("\n") for text in output.split(b"\0") if text]
    return [(commit, message) for commit, _, message in texts]


def check_notes(
    notes: NotesRef, commits: Sequence[str] | None, patterns: Sequence[re.Pattern[str]]
) -> Iterator[RuleFinding]:
    """Yield RMT017 for the notes, and RMT011 for those with a line that would be masked today. Raises GitError."""
    if not notes.may_have_notes():
        return
    for found in audit_notes(notes, commits).findings:
        yield make_finding("RMT017", found.message, path=found.path, commit=found.commit)
    noted = notes.list_notes(notes.read_tip())
    wanted = [commit for commit in (noted if commits is None else commits) if commit in noted]
    for commit, text in notes.read_notes(wanted).items():
        lines = text.decode("utf-8", "replace").splitlines()
        number = next((n for n, line in enumerate(lines, 1) if redact(line, patterns) != line), None)
        if number is not None:
            message = f"{SECRET_FOUND} in line {number} of the note of {commit[:12]}: {SECRET_FIX}"
            yield make_finding("RMT011", message, commit=commit)
