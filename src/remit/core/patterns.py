"""Patterns that constraints look for: regular expressions, line by line, and patterns of syntax.

A regular expression may come from anybody who can propose an intent, and the text from anybody at all. So only those
are taken of which the work is known (`redaction.bounded_pattern`: no repeat within a repeat, no way back, an open
repeat covers at most 256 characters), and a text that could take them too long is not looked into. Patterns of syntax
are ast-grep's. Source: ast-grep-py 0.51.0, read 2026-11.
"""

import math
import re
import unicodedata
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

from remit.core.redaction import PatternRefused, bounded_pattern
from remit.core.source_text import LARGEST, Uncheckable, lines_of
from remit.core.syntax.grammars import is_trap
from remit.core.syntax.rows import row_of

if TYPE_CHECKING:
    import ast_grep_py

WAYS_MOST = 257**3
"""Ways in which a regular expression may match from one place: three open repeats."""

STEPS_MOST = 300_000_000
"""Ways to match, times the places to begin at: some seconds at the very worst, for a text made for it."""

CLASS = re.compile(r"\\[A-Za-z0-9]|\[\^?\]?(?:\\.|[^\]\\])*\]|(?:\\.|[^\\])(?:[*?]|\{[^}]*\})")
"""What stands for no text in particular."""

SUFFIXES = {
    ".html": "html",
    ".htm": "html",
    ".css": "css",
    ".kt": "kotlin",
    ".kts": "kotlin",
    ".swift": "swift",
    ".scala": "scala",
    ".lua": "lua",
}
"""Languages that ast-grep knows and `core.syntax` does not."""

LANGUAGES = (
    *("bash", "c", "cpp", "csharp", "css", "go", "html", "java", "javascript", "json", "kotlin", "lua", "markdown"),
    *("php", "python", "ruby", "rust", "scala", "swift", "tsx", "typescript", "yaml"),
)
RELATED = {"typescript": frozenset({"typescript", "tsx"}), "javascript": frozenset({"javascript"})}
EXPANDO = "\u00b5"
"""What ast-grep puts in place of `$` where a language does not take it in a name."""

AROUND_CALLS = {"go": "func t() { %s }", "c": "void t() { %s; }", "cpp": "void t() { %s; }"}
"""Where `f(x)` alone is a conversion or a declaration, what makes a call of it."""

JOINED = re.compile(r"(?:\A|(?<=[\n\r]))(?:[^\n\r]*\\(?:\r\n|\n|\r))+[^\n\r]*")
"""Lines of Python that go on after a backslash. Sought at the beginnings of lines only: a long line costs no more."""

CONTINUED = re.compile(r"\\(?:\r\n|\n|\r)")
QUOTED = re.compile(r"'[^'\\]*'|\"[^\"\\]*\"")

MISSING = "ast-grep is not installed, which this constraint needs: run `pip install 'remit[code]'`"


class BadPattern(ValueError):
    """The pattern cannot be used. The message is a clause about it."""


def language_of(path: str) -> str | None:
    """The language that a file's name tells; None where patterns of syntax cannot be looked for in it."""
    row = row_of(path)
    found = row.name if row else SUFFIXES.get(path[path.rfind(".") :].casefold() if "." in path else "")
    return found if found in LANGUAGES else None


def related(language: str) -> frozenset[str]:
    """The languages of files that a pattern in `language` is for."""
    return RELATED.get(language, frozenset({language}))


def check_regex(pattern: str) -> None:
    """Raises BadPattern for one that cannot be used."""
    compiled(pattern)


def compiled(pattern: str) -> tuple[re.Pattern[str], int]:
    """The regular expression, and the ways in which it can match. Raises BadPattern."""
    try:
        return bounded_pattern(pattern, WAYS_MOST)
    except PatternRefused as error:
        raise BadPattern(error.why) from error


def regex_lines(pattern: str, text: str) -> list[int]:
    """The lines, 1-based, that hold a match. Raises BadPattern, Uncheckable."""
    expression, ways = compiled(pattern)
    always = told_text(pattern)
    lines = [(number, line) for number, line in enumerate(lines_of(text), 1) if always in line]
    if sum(steps(ways, len(line)) for _, line in lines) > STEPS_MOST:
        raise Uncheckable(f"looking for {pattern[:80]!r} in {len(text)} characters could take too long: split the file")
    return [number for number, line in lines if expression.search(line)]


def steps(ways: int, characters: int) -> int:
    """The most steps that a search of one line takes: no repeat covers more than the line."""
    repeats = math.ceil(math.log(ways, 257)) if ways > 1 else 0
    return characters * min(ways, max(characters, 1) ** repeats)


@lru_cache(64)
def told_text(pattern: str) -> str:
    """The longest text that every match holds, as far as that is plain to see; empty where it is not."""
    if re.search(r"[|(]|\\[xuUN0-9]", pattern):
        return ""
    plain = re.sub(r"(.)\+", "\\1\0", CLASS.sub("\0", pattern))
    runs = re.split(r"[\0.^$*+?{}]", re.sub(r"\\(.)", lambda m: m[1] if m[1] not in ".^$*+?{}" else "\0", plain))
    return max(runs, key=len)


def check_syntax(pattern: str, language: str) -> None:
    """Raises BadPattern for one that cannot be read; where ast-grep is not installed, that is found out later."""
    try:
        searched(pattern, "", language)
    except Uncheckable:
        return


def syntax_lines(pattern: str, text: str, language: str) -> list[int]:
    """The lines, 1-based, on which a match begins, once for each match. Raises BadPattern, Uncheckable."""
    found: list[int] = []
    for reading in readings(text, language):
        starts = {node.range().start.index: node.range().start.line for node in searched(pattern, reading, language)}
        lines = sorted(line + 1 for line in starts.values())
        found += (Counter(lines) - Counter(found)).elements()
    return sorted(found)


def readings(text: str, language: str) -> tuple[str, ...]:
    """The text as the language reads it: Python takes other forms of a letter for the letter, and joins lines.

    What a backslash joins is read in three ways, since at the end of a comment, which begins with a `#` that may also
    stand in a text, it joins nothing. Lines keep their numbers. Raises Uncheckable.
    """
    if language != "python":
        return (text,)
    plain = unicodedata.normalize("NFKC", text)
    if len(plain) > LARGEST:  # one letter can stand for eighteen
        raise Uncheckable(f"its letters stand for {len(plain)} others: split the file")
    if not JOINED.search(plain):
        return (plain,)
    return tuple(dict.fromkeys((plain, JOINED.sub(joined, plain), JOINED.sub(joined_but_comments, plain))))


def joined(lines: re.Match[str]) -> str:
    """A line with those that it goes on in, and as many empty ones behind it."""
    parts = CONTINUED.split(lines[0])
    return "".join(parts) + "\n" * (len(parts) - 1)


def joined_but_comments(lines: re.Match[str]) -> str:
    """The same, but a line with a comment does not go on."""
    first, *rest = CONTINUED.split(lines[0])
    found, owed, comment = [first], 0, holds_comment(first)
    for part in rest:
        found += ["\n" * (owed + 1), part] if comment else [part]
        owed, comment = 0 if comment else owed + 1, holds_comment(part)
    return "".join(found) + "\n" * owed


def holds_comment(line: str) -> bool:
    """Whether a `#` stands in it that is in no text."""
    return "#" in line and "#" in QUOTED.sub("", line)


def searched(pattern: str, text: str, language: str) -> "list[ast_grep_py.SgNode]":
    """The matches. Raises BadPattern, Uncheckable."""
    try:
        import ast_grep_py  # a shared library of 15 MB, for intents that have such a pattern
    except ImportError as error:
        raise Uncheckable(MISSING) from error
    if not is_whole(pattern, language):
        raise BadPattern(f"is no whole piece of {language}")
    if is_trap(language, text.encode("utf-8", "replace")):
        raise Uncheckable(f"no parser of {language} gets through it: nest less deeply, or use plain characters")
    root = ast_grep_py.SgRoot(text.encode("utf-8", "replace").decode(), language).root()
    try:
        return [*root.find_all(pattern=pattern), *calls_in(root, pattern, language)]
    except RuntimeError as error:
        why = next((line for line in reversed(str(error).split("Stack backtrace")[0].splitlines()) if line.strip()), "")
        raise BadPattern(f"cannot be read as {language}: {why.strip()[:200]}") from error
    except BaseException as error:  # a panic of Rust is no Exception: no guard further up would make it a denial
        if type(error).__name__ != "PanicException":
            raise
        raise Uncheckable("ast-grep broke on it") from error


def calls_in(root: "ast_grep_py.SgNode", pattern: str, language: str) -> "list[ast_grep_py.SgNode]":
    """The calls that match, where the language reads a call that stands by itself as something else."""
    around = AROUND_CALLS.get(language)
    if around is None:
        return []
    try:
        return root.find_all(
            pattern={"context": around % pattern, "selector": "call_expression", "strictness": "smart"}
        )
    except RuntimeError:  # it is no call
        return []


@lru_cache(64)
def is_whole(pattern: str, language: str) -> bool:
    """Whether the pattern reads without an error: one that does not would match nothing, in silence."""
    import ast_grep_py

    roots = (ast_grep_py.SgRoot(text, language).root() for text in (pattern, pattern.replace("$", EXPANDO)))
    return bool(pattern.strip()) and any(root.find(kind="ERROR") is None for root in roots)
