"""Reading notes: who wrote the lines of versions that no record explains. A note is somebody's word, and no more."""

from collections.abc import Sequence

from msgspec.structs import replace

from remit.core.authorship import GRADE, Author, NotANote, Note, author, claims, likely_lines, parse_note
from remit.core.spans import joined
from remit.provenance.origins.evidence import LIKELY
from remit.provenance.origins.porcelain import GitLine
from remit.workspace.notes import Notes
from remit.workspace.place import Workspace


class Noted:
    """The notes that came with one repository."""

    def __init__(self, workspace: Workspace) -> None:
        self.notes = Notes(workspace)

    def authors(self, lines: Sequence[GitLine]) -> dict[int, Author]:
        """Who wrote those lines, by their number in the file asked about: one batch for all commits. Raises GitError.

        Lines count as they did in the commit that git blames, so a note that claims more is heard for nothing else.
        """
        if not lines or not self.notes.there():
            return {}
        committed = [line for line in lines if line.place.committed]
        notes = read_notes(self.notes.read(line.place.commit for line in committed))
        found: dict[int, Author] = {}
        for place in dict.fromkeys(line.place for line in committed if line.place.commit in notes):
            own = [line for line in committed if line.place == place]
            note = notes[place.commit]
            keys = claims(note, place.in_tree, [line.number for line in own])
            known = {key: who for key in set(keys.values()) if (who := author(note, key))}
            found |= {line.line: known[keys[line.number]] for line in own if keys.get(line.number) in known}
            likely = likely_authors(note, place.in_tree, [line.number for line in own if line.line not in found])
            found |= {line.line: likely[line.number] for line in own if line.number in likely}
        return found


def likely_authors(note: Note, path: str, numbers: Sequence[int]) -> dict[int, Author]:
    """Who likely wrote lines of a file, as far as the note says so. The work grows with the lines asked about."""
    found: dict[int, Author] = {}
    for key, lines in likely_lines(note).items() if numbers else ():
        spans = joined(lines.get(path, ()))
        who = author(note, key) if spans else None
        if who is not None:
            who = replace(who, attributes={**who.attributes, GRADE: LIKELY})
            found |= {n: who for n in numbers if any(first <= n <= last for first, last in spans)}
    return found


def read_notes(texts: dict[str, bytes]) -> dict[str, Note]:
    """Those that are authorship notes; `remit notes audit` names the others."""
    found: dict[str, Note] = {}
    for commit, text in texts.items():
        try:
            found[commit] = parse_note(text.decode())
        except (NotANote, UnicodeError):
            continue
    return found
