"""Where the pattern of a constraint stands in a file."""

from msgspec import Struct

from remit.core.intent import Constraint
from remit.core.patterns import BadPattern, language_of, regex_lines, related, syntax_lines
from remit.core.source_text import Piece, lines_of, pieces
from remit.core.text import shown


class Match(Struct, frozen=True):
    """One place: the cell it stands in (empty for a plain file), the line, 1-based, and what stands there."""

    cell: str
    line: int
    text: str


def found_in(constraint: Constraint, path: str, content: bytes) -> list[Match] | None:
    """Each match. None where the pattern is not for it.

    Raises BadPattern, Uncheckable.
    """
    regex = constraint.options.get("regex")
    found: list[Match] = []
    fitting = False
    for piece in pieces(path, content):
        at = f"{piece.where} " if piece.where else ""
        if regex is not None:
            lines = regex_lines(str(regex), piece.text)
        else:
            language = language_for(constraint, path, piece)
            if language is None:
                continue
            lines = in_syntax(constraint, piece.text, language)
            if lines is None:
                continue
        fitting = True
        texts = lines_of(piece.text)
        found += (Match(at, line, texts[line - 1].strip() if line <= len(texts) else "") for line in lines)
    return found if fitting else None


def in_syntax(constraint: Constraint, text: str, language: str) -> list[int] | None:
    """The lines of the matches; None where the pattern is none of a language that the constraint does not name."""
    try:
        return syntax_lines(str(constraint.options["pattern"]), text, language)
    except BadPattern:
        if constraint.options.get("language") is None:
            return None
        raise


def language_for(constraint: Constraint, path: str, piece: Piece) -> str | None:
    """The language to read the text in; None where the pattern is for another, or there is none.

    A file whose name tells no language is read in the constraint's where its `paths` name the file.
    """
    asked, told = constraint.options.get("language"), piece.language or language_of(path)
    if asked is None:
        return told
    if told is None:
        return str(asked) if constraint.options.get("paths") is not None else None
    return told if told in related(str(asked)) else None


def pattern_words(constraint: Constraint) -> str:
    """The pattern, as it is told."""
    return f"`{shown(str(constraint.options.get('regex') or constraint.options.get('pattern')), 120)}`"
