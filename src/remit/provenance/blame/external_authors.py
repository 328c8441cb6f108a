"""Authors of lines by git notes and by imported records: claims of other machines.

A note is a claim and proves nothing.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from remit.core.diff.line_spans import merge_spans
from remit.core.display_text import sanitise_line
from remit.core.formats.authorship_notes import (
    GRADE_ATTRIBUTE,
    UNKNOWN_NAME,
    Author,
    InvalidNote,
    Note,
    find_author,
    find_line_keys,
    parse_note,
    read_likely_lines,
)
from remit.provenance.blame.blamed_line import BlamedLine
from remit.provenance.origins.attributor import LineAttributor
from remit.provenance.origins.blame_porcelain import GitLine
from remit.provenance.origins.evidence import LIKELY, Grade
from remit.workspace.place.workspace import Workspace
from remit.workspace.sharing.authorship_notes import NotesRef


class NotedLines:
    """Authorship notes of one repository."""

    def __init__(self, workspace: Workspace) -> None:
        self.notes = NotesRef(workspace)

    def find_authors(self, lines: Sequence[GitLine]) -> dict[int, Author]:
        """Return the authors by line number of the file asked about, with one batch for all commits. Raises GitError.

        Line numbers count as in the blamed commit, hence a note that claims more lines has no effect on others.
        """
        if not lines or not self.notes.may_have_notes():
            return {}
        committed = [line for line in lines if line.version.has_commit]
        notes = parse_notes(self.notes.read_notes(line.version.commit for line in committed))
        result: dict[int, Author] = {}
        for version in dict.fromkeys(line.version for line in committed if line.version.commit in notes):
            lines_of_version = [line for line in committed if line.version == version]
            note = notes[version.commit]
            keys = find_line_keys(note, version.path_in_tree, [line.number for line in lines_of_version])
            authors = {key: author for key in set(keys.values()) if (author := find_author(note, key))}
            result |= {
                line.line: authors[keys[line.number]] for line in lines_of_version if keys.get(line.number) in authors
            }
            likely = find_likely_authors(
                note, version.path_in_tree, [line.number for line in lines_of_version if line.line not in result]
            )
            result |= {line.line: likely[line.number] for line in lines_of_version if line.number in likely}
        return result


def find_likely_authors(note: Note, path: str, numbers: Sequence[int]) -> dict[int, Author]:
    """Return the likely authors of lines by a note. The work grows with the lines asked about."""
    authors: dict[int, Author] = {}
    for key, lines in read_likely_lines(note).items() if numbers else ():
        spans = merge_spans(lines.get(path, ()))
        author = find_author(note, key) if spans else None
        if author is not None:
            author = replace(author, attributes={**author.attributes, GRADE_ATTRIBUTE: LIKELY})
            authors |= {n: author for n in numbers if any(first <= n <= last for first, last in spans)}
    return authors


def parse_notes(texts: dict[str, bytes]) -> dict[str, Note]:
    """Return the texts that are authorship notes; `remit notes audit` names the rest."""
    notes: dict[str, Note] = {}
    for commit, text in texts.items():
        try:
            notes[commit] = parse_note(text.decode())
        except (InvalidNote, UnicodeError):
            continue
    return notes


def find_external_authors(
    attributor: LineAttributor, lines: Sequence[GitLine], *, imported: bool
) -> dict[int, BlamedLine]:
    """Return blamed lines by notes and, if any records were imported, by those. Raises GitError."""
    authors = NotedLines(attributor.workspace).find_authors(lines)
    if imported:
        # Imported here for start-up speed: signature checks load slowly.
        from remit.provenance.blame.imported_records import ImportedLines

        authors = {**ImportedLines(attributor).find_authors([n for n in lines if n.line not in authors]), **authors}
    return {line.line: blame_external_author(line, authors[line.line]) for line in lines if line.line in authors}


def blame_external_author(line: GitLine, author: Author) -> BlamedLine:
    """Return a line that only an external author explains. The claims come from anybody: they are escaped and graded
    lowest.
    """
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


def grade_of_author(author: Author) -> Grade:
    """Return the grade of an external claim: a note may declare its lines only likely."""
    return LIKELY if author.attributes.get(GRADE_ATTRIBUTE) == LIKELY else "note"


def shown_or_none(text: str | None) -> str | None:
    return sanitise_line(text) if text and text != UNKNOWN_NAME else None
