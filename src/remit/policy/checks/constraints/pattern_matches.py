"""Matches of a constraint's pattern in a file."""

from msgspec import Struct

from remit.core.code.pattern_search import (
    InvalidPattern,
    detect_language,
    find_regex_lines,
    find_related_languages,
    find_syntax_lines,
)
from remit.core.code.source_text import TextPiece, split_pieces, split_text_lines
from remit.core.display_text import sanitise_line
from remit.core.intent import Constraint


class PatternMatch(Struct, frozen=True):
    """A match: its notebook cell (empty for a plain file), its line, 1-based, and the text of the line."""

    cell: str
    line: int
    text: str


def find_matches(constraint: Constraint, path: str, content: bytes) -> list[PatternMatch] | None:
    """Return all matches; None if the pattern is not for this file. Raises BadPattern, Uncheckable."""
    regex = constraint.options.get("regex")
    found: list[PatternMatch] = []
    fitting = False
    for piece in split_pieces(path, content):
        at = f"{piece.where} " if piece.where else ""
        if regex is not None:
            lines = find_regex_lines(str(regex), piece.text)
        else:
            language = choose_language(constraint, path, piece)
            if language is None:
                continue
            lines = match_syntax(constraint, piece.text, language)
            if lines is None:
                continue
        fitting = True
        texts = split_text_lines(piece.text)
        found += (PatternMatch(at, line, texts[line - 1].strip() if line <= len(texts) else "") for line in lines)
    return found if fitting else None


def match_syntax(constraint: Constraint, text: str, language: str) -> list[int] | None:
    """Return the lines of the matches; None if the pattern does not fit a language that no constraint names."""
    try:
        return find_syntax_lines(str(constraint.options["pattern"]), text, language)
    except InvalidPattern:
        if constraint.options.get("language") is None:
            return None
        raise


def choose_language(constraint: Constraint, path: str, piece: TextPiece) -> str | None:
    """Return the language of a text; None if the pattern is for another language, or the language is unknown.

    A file whose name shows no language has the constraint's language if the constraint's `paths` name the file.
    """
    wanted, detected = constraint.options.get("language"), piece.language or detect_language(path)
    if wanted is None:
        return detected
    if detected is None:
        return str(wanted) if constraint.options.get("paths") is not None else None
    return detected if detected in find_related_languages(str(wanted)) else None


def describe_pattern(constraint: Constraint) -> str:
    return f"`{sanitise_line(str(constraint.options.get('regex') or constraint.options.get('pattern')), 120)}`"
