"""Authors of lines by git notes and by records of foreign machines and tools: claims without proof.

Files change, hence a position alone is no proof. A range of a record counts if its hash matches distinctive lines at
the position, or if the whole file is the recorded file.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from remit.core.diff.contents import hash_line_range, merge_spans, sha256
from remit.core.formats import authorship_notes
from remit.core.record import KEY
from remit.core.untrusted_input import as_array, as_object, as_text, sanitise_line
from remit.ledger.foreign_logs import read_foreign_records
from remit.provenance.blame.blamed_line import BlamedLine, body_of
from remit.provenance.origins.attributor import LineAttributor
from remit.provenance.origins.blame_porcelain import FileVersion, GitLine
from remit.provenance.origins.evidence_grades import LIKELY, Grade, is_distinctive
from remit.workspace.place.workspace import Workspace
from remit.workspace.sharing.shared_refs import NotesRef
from remit.workspace.sharing.tracked_logs import list_other_logs


class NoteClaim(Struct, frozen=True):
    """What a note says of a line: the author and the author's key; `likely` if the note does not attest the line."""

    note: authorship_notes.Note
    key: str
    author: authorship_notes.Author
    likely: bool = False


class NotedLines:
    """Authorship notes of one repository."""

    def __init__(self, workspace: Workspace) -> None:
        self.notes = NotesRef(workspace)
        self.notes_by_commit: dict[str, authorship_notes.Note | None] = {}

    def find_authors(self, lines: Sequence[GitLine]) -> dict[int, authorship_notes.Author]:
        """Return the authors by line number of the file asked about. Raises GitError."""
        return {line: claim.author for line, claim in self.find_claims(lines).items()}

    def find_claims(self, lines: Sequence[GitLine]) -> dict[int, NoteClaim]:
        """Return the claims by line number of the file asked about, with a single batch for the commits. Raises
        GitError. Line numbers count as in the blamed commit, hence a note with too many lines has no effect on
        other lines. The work grows with the lines asked about. `remit verify` names the texts that are no notes.
        """
        if not lines or not self.notes.may_have_notes():
            return {}
        lines_by_version: dict[FileVersion, dict[int, list[int]]] = {}
        for line in lines:
            if line.version.has_commit:
                lines_by_version.setdefault(line.version, {}).setdefault(line.number, []).append(line.line)
        commits = {version.commit for version in lines_by_version} - self.notes_by_commit.keys()
        self.notes_by_commit |= dict.fromkeys(commits)
        for commit, text in self.notes.read_notes(commits).items() if commits else ():
            with suppress(authorship_notes.InvalidNote, UnicodeError):
                self.notes_by_commit[commit] = authorship_notes.parse_note(text.decode())
        result: dict[int, NoteClaim] = {}
        for version, numbers in lines_by_version.items():
            if (note := self.notes_by_commit[version.commit]) is not None:
                found = find_claims_of_note(note, version.path_in_tree, list(numbers))
                result |= {line: claim for n, claim in found.items() for line in numbers[n]}
        return result


def find_claims_of_note(note: authorship_notes.Note, path: str, numbers: Sequence[int]) -> dict[int, NoteClaim]:
    """Return the claims of a note for the lines of a file: attested claims come before likely claims."""
    keys = authorship_notes.find_line_keys(note, path, numbers)
    attested = {
        key: NoteClaim(note, key, author)
        for key in set(keys.values())
        if (author := authorship_notes.find_author(note, key))
    }
    claims = {n: attested[key] for n, key in keys.items() if key in attested}
    remaining = [n for n in numbers if n not in claims]
    for key, spans_by_path in authorship_notes.read_likely_lines(note).items() if remaining else ():
        spans = merge_spans(spans_by_path.get(path, ()))
        if author := authorship_notes.find_author(note, key) if spans else None:
            author = replace(author, attributes={**author.attributes, authorship_notes.GRADE_ATTRIBUTE: LIKELY})
            claim = NoteClaim(note, key, author, likely=True)
            claims |= {n: claim for n in remaining if any(first <= n <= last for first, last in spans)}
    return claims


class ExternalAuthors:
    """Notes and imported records of one workspace, as they are when a question begins."""

    def __init__(self, attributor: LineAttributor) -> None:
        self.noted, self.imported = NotedLines(attributor.workspace), ImportedLines(attributor)

    def describe_lines(self, lines: Sequence[GitLine]) -> dict[int, BlamedLine]:
        """Return blamed lines by notes and by imported records. Raises GitError."""
        authors = self.noted.find_authors(lines)
        authors = {**self.imported.find_authors([n for n in lines if n.line not in authors]), **authors}
        return {line.line: blame_external_author(line, authors[line.line]) for line in lines if line.line in authors}


def blame_external_author(line: GitLine, author: authorship_notes.Author) -> BlamedLine:
    content = line.content.decode("utf-8", "replace")
    if author.kind == "human":
        return BlamedLine(line.line, content, line.version.commit, "human", grade="note")
    return BlamedLine(
        line=line.line,
        content=content,
        commit=line.version.commit,
        origin="ai",
        agent=shown_or_none(author.tool),
        model=shown_or_none(author.attributes.get("remit.model") or author.model),
        session_id=shown_or_none(author.session),
        intent_id=shown_or_none(author.attributes.get("remit.intent")),
        mutation_class=shown_or_none(author.attributes.get("remit.class")),
        grade=grade_of_author(author),
        declared=shown_or_none(author.attributes.get("remit.declared")),
    )


def grade_of_author(author: authorship_notes.Author) -> Grade:
    """Return the grade of an external claim: a note may declare its lines only likely."""
    return LIKELY if author.attributes.get(authorship_notes.GRADE_ATTRIBUTE) == LIKELY else "note"


def shown_or_none(text: str | None) -> str | None:
    return sanitise_line(text) if text and text != authorship_notes.UNKNOWN_NAME else None


NO_VIEW = Path(os.devnull)


class ImportedRange(Struct, frozen=True):
    """A range of a file by a foreign record. `content_hash` covers the range; `after` are hashes of the whole file."""

    path: str
    start: int
    end: int
    content_hash: str | None
    after: frozenset[str]
    author: authorship_notes.Author


class ImportedLines:
    """Foreign records imported into a workspace. With `keys`, only records covered by a tree head signed with a key in
    `keys` count.
    """

    def __init__(self, attributor: LineAttributor, keys: Sequence[bytes] | None = None) -> None:
        self.attributor, self.keys = attributor, keys
        self.ranges: dict[str, list[ImportedRange]] | None = None

    def find_authors(self, lines: Sequence[GitLine]) -> dict[int, authorship_notes.Author]:
        """Return the authors by line number of the file asked about; the newest record wins."""
        attributor = self.attributor
        if not lines:
            return {}
        ranges = self.read_ranges()
        versions = dict.fromkeys(line.version for line in lines if line.version.path in ranges)
        attributor.load_named(version.name for version in versions)
        authors: dict[int, authorship_notes.Author] = {}
        for version in versions:
            blob = attributor.version_blob(version) or ""
            if (content := attributor.contents_by_blob.get(blob)) is None:
                continue
            hashes, texts = frozenset({blob, sha256(content)}), content.split(b"\n")
            for found in ranges[version.path]:
                start, end = found.start, found.end
                is_equal = found.content_hash and hash_line_range(content, start, end) == found.content_hash
                if hashes & found.after or (is_equal and is_distinctive(texts[start - 1 : end])):
                    here = (n.line for n in lines if n.version == version and start <= n.number <= end)
                    authors |= dict.fromkeys(here, found.author)
        return authors

    def read_ranges(self) -> dict[str, list[ImportedRange]]:
        if self.ranges is None:
            workspace = self.attributor.workspace
            tracked = list_other_logs(workspace.tracked_logs, workspace.state)
            records = read_foreign_records(NO_VIEW, workspace.log_folder, (), self.keys or (), tracked)
            if self.keys is not None:
                records = [document for document in records if not body_of(document).get("unproved")]
            self.ranges = {}
            for found in (found for document in records for found in ranges_of_record(document)):
                self.ranges.setdefault(found.path, []).append(found)
        return self.ranges


def ranges_of_record(document: dict[str, Any]) -> Iterator[ImportedRange]:
    body = as_object(document["metadata"].get(KEY))
    if body.get("event") != "mutation":
        return
    sides = {str(f.get("path")): as_object(f.get("after")) for f in map(as_object, as_array(body.get("files")))}
    for file in map(as_object, as_array(document.get("files"))):
        path = str(file.get("path"))
        after = frozenset(str(v) for k, v in sides.get(path, {}).items() if k in ("sha256", "git_blob"))
        for conversation in map(as_object, as_array(file.get("conversations"))):
            author = author_of_contributor(document, body, as_object(conversation.get("contributor")))
            for found in map(as_object, as_array(conversation.get("ranges"))) if author else ():
                start, end, content_hash = (found.get(name) for name in ("start_line", "end_line", "content_hash"))
                if author and isinstance(start, int) and isinstance(end, int) and 0 < start <= end:
                    yield ImportedRange(path, start, end, as_text(content_hash), after, author)


def author_of_contributor(
    document: dict[str, Any], body: dict[str, Any], contributor: dict[str, Any]
) -> authorship_notes.Author | None:
    """Return the author named by a contributor entry; None for a type that is neither person nor agent."""
    kind = contributor.get("type", "ai")
    if kind != "ai":
        return authorship_notes.Author("human") if kind == "human" else None
    classes = as_object(body.get("mutation_class"))
    known = {"remit.intent": body.get("intent_id"), "remit.class": classes.get("computed")}
    attributes = {name: value for name, value in known.items() if isinstance(value, str)}
    tool, model = as_object(document.get("tool")).get("name"), contributor.get("model_id")
    return authorship_notes.Author(
        "ai", None, as_text(body.get("session_id")), as_text(tool), as_text(model), attributes
    )
