"""Lines that no record of this machine explains, as others tell of them: notes, and what was imported.

Reading notes: who wrote the lines of versions that no record explains. A note is somebody's word, and no more.
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
    """The notes that came with one repository."""

    def __init__(self, workspace: Workspace) -> None:
        self.notes = NotesRef(workspace)

    def find_authors(self, lines: Sequence[GitLine]) -> dict[int, Author]:
        """Who wrote those lines, by their number in the file asked about: one batch for all commits. Raises GitError.

        Lines count as they did in the commit that git blames, so a note that claims more is heard for nothing else.
        """
        if not lines or not self.notes.may_have_notes():
            return {}
        committed = [line for line in lines if line.version.has_commit]
        notes = parse_notes(self.notes.read_notes(line.version.commit for line in committed))
        found: dict[int, Author] = {}
        for place in dict.fromkeys(line.version for line in committed if line.version.commit in notes):
            own = [line for line in committed if line.version == place]
            note = notes[place.commit]
            keys = find_line_keys(note, place.path_in_tree, [line.number for line in own])
            known = {key: who for key in set(keys.values()) if (who := find_author(note, key))}
            found |= {line.line: known[keys[line.number]] for line in own if keys.get(line.number) in known}
            likely = find_likely_authors(
                note, place.path_in_tree, [line.number for line in own if line.line not in found]
            )
            found |= {line.line: likely[line.number] for line in own if line.number in likely}
        return found


def find_likely_authors(note: Note, path: str, numbers: Sequence[int]) -> dict[int, Author]:
    """Who likely wrote lines of a file, as far as the note says so. The work grows with the lines asked about."""
    found: dict[int, Author] = {}
    for key, lines in read_likely_lines(note).items() if numbers else ():
        spans = merge_spans(lines.get(path, ()))
        who = find_author(note, key) if spans else None
        if who is not None:
            who = replace(who, attributes={**who.attributes, GRADE_ATTRIBUTE: LIKELY})
            found |= {n: who for n in numbers if any(first <= n <= last for first, last in spans)}
    return found


def parse_notes(texts: dict[str, bytes]) -> dict[str, Note]:
    """Those that are authorship notes; `remit notes audit` names the others."""
    found: dict[str, Note] = {}
    for commit, text in texts.items():
        try:
            found[commit] = parse_note(text.decode())
        except (InvalidNote, UnicodeError):
            continue
    return found


def find_external_authors(
    attributor: LineAttributor, lines: Sequence[GitLine], *, imported: bool
) -> dict[int, BlamedLine]:
    """Those of the lines that others tell of, by their number in the file asked about: by notes, else, where anything
    was `imported`, by that. Raises GitError.
    """
    found = NotedLines(attributor.workspace).find_authors(lines)
    if imported:
        from remit.provenance.blame.imported_lines import ImportedLines  # what reads signatures loads slowly

        found = {**ImportedLines(attributor).find_authors([n for n in lines if n.line not in found]), **found}
    return {line.line: blame_external_author(line, found[line.line]) for line in lines if line.line in found}


def blame_external_author(line: GitLine, author: Author) -> BlamedLine:
    """A line that only others explain. What they say may be anybody's: it is shown as text, and graded lowest."""
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
    """The grade of what others tell: a note may say itself that it is only likely."""
    return LIKELY if author.attributes.get(GRADE_ATTRIBUTE) == LIKELY else "note"


def shown_or_none(text: str | None) -> str | None:
    """A word of theirs; None for none."""
    return sanitise_line(text) if text and text != UNKNOWN_NAME else None
