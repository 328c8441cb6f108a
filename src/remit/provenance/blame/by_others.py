"""Lines that no record of this machine explains, as others tell of them: notes, and what was imported."""

from collections.abc import Sequence

from remit.core.authorship import GRADE, NOT_KNOWN, Author
from remit.core.text import shown
from remit.provenance.blame.blamed_line import BlamedLine
from remit.provenance.blame.noted import Noted
from remit.provenance.origins.attribution import Attribution
from remit.provenance.origins.evidence import LIKELY, Grade
from remit.provenance.origins.porcelain import GitLine


def told_by_others(attribution: Attribution, lines: Sequence[GitLine], *, imported: bool) -> dict[int, BlamedLine]:
    """Those of the lines that others tell of, by their number in the file asked about: by notes, else, where anything
    was `imported`, by that. Raises GitError.
    """
    found = Noted(attribution.workspace).authors(lines)
    if imported:
        from remit.provenance.blame.foreign_lines import ForeignLines  # what reads signatures loads slowly

        found = {**ForeignLines(attribution).authors([n for n in lines if n.line not in found]), **found}
    return {line.line: by_others(line, found[line.line]) for line in lines if line.line in found}


def by_others(line: GitLine, who: Author) -> BlamedLine:
    """A line that only others explain. What they say may be anybody's: it is shown as text, and graded lowest."""
    content = line.content.decode("utf-8", "replace")
    if who.kind == "human":
        return BlamedLine(line.line, content, line.place.commit, "human", grade="note")
    return BlamedLine(
        line=line.line,
        content=content,
        commit=line.place.commit,
        origin="ai",
        agent=said(who.tool),
        model=said(who.attributes.get("remit.model") or who.model),
        session_id=said(who.session),
        intent_id=said(who.attributes.get("remit.intent")),
        mutation_class=said(who.attributes.get("remit.class")),
        grade=graded(who),
        declared=said(who.attributes.get("remit.declared")),
    )


def graded(who: Author) -> Grade:
    """The grade of what others tell: a note may say itself that it is only likely."""
    return LIKELY if who.attributes.get(GRADE) == LIKELY else "note"


def said(text: str | None) -> str | None:
    """A word of theirs; None for none."""
    return shown(text) if text and text != NOT_KNOWN else None
