"""Patterns that constraints look for: regular expressions, line by line, and patterns of syntax.

A regular expression may come from anybody who can propose an intent, and the text from anybody at all. So only those
are taken of which the work is known (`redaction.compile_bounded`: no repeat within a repeat, no way back, an open
repeat covers at most 256 characters), and a text that could take them too long is not looked into. Patterns of syntax
are ast-grep's. Source: ast-grep-py 0.51.0, read 2026-11.
"""

import math
import re
import unicodedata
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING

from remit.core.code.grammars import can_crash_parser
from remit.core.code.languages import find_language
from remit.core.code.source_text import MAX_BYTES, UncheckableContent, split_text_lines
from remit.core.secrets.redaction import PatternRefused, compile_bounded

if TYPE_CHECKING:
    import ast_grep_py

MAX_WAYS = 257**3
"""Ways in which a regular expression may match from one place: three open repeats."""

MAX_STEPS = 300_000_000
"""Ways to match, times the places to begin at: some seconds at the very worst, for a text made for it."""

VARIABLE_PART = re.compile(r"\\[A-Za-z0-9]|\[\^?\]?(?:\\.|[^\]\\])*\]|(?:\\.|[^\\])(?:[*?]|\{[^}]*\})")
"""What stands for no text in particular."""

EXTRA_SUFFIXES = {
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
RELATED_LANGUAGES = {"typescript": frozenset({"typescript", "tsx"}), "javascript": frozenset({"javascript"})}
EXPANDO = "\u00b5"
"""What ast-grep puts in place of `$` where a language does not take it in a name."""

CALL_CONTEXTS = {"go": "func t() { %s }", "c": "void t() { %s; }", "cpp": "void t() { %s; }"}
"""Where `f(x)` alone is a conversion or a declaration, what makes a call of it."""

JOINED_LINES = re.compile(r"(?:\A|(?<=[\n\r]))(?:[^\n\r]*\\(?:\r\n|\n|\r))+[^\n\r]*")
"""Lines of Python that go on after a backslash. Sought at the beginnings of lines only: a long line costs no more."""

LINE_CONTINUATION = re.compile(r"\\(?:\r\n|\n|\r)")
QUOTED_TEXT = re.compile(r"'[^'\\]*'|\"[^\"\\]*\"")

MISSING_AST_GREP = "ast-grep is not installed, which this constraint needs: run `pip install 'remit[code]'`"


class InvalidPattern(ValueError):
    """The pattern cannot be used. The message is a clause about it."""


def detect_language(path: str) -> str | None:
    """The language that a file's name tells; None where patterns of syntax cannot be looked for in it."""
    row = find_language(path)
    found = row.name if row else EXTRA_SUFFIXES.get(path[path.rfind(".") :].casefold() if "." in path else "")
    return found if found in LANGUAGES else None


def find_related_languages(language: str) -> frozenset[str]:
    """The languages of files that a pattern in `language` is for."""
    return RELATED_LANGUAGES.get(language, frozenset({language}))


def check_regex(pattern: str) -> None:
    """Raises BadPattern for one that cannot be used."""
    compile_regex(pattern)


def compile_regex(pattern: str) -> tuple[re.Pattern[str], int]:
    """The regular expression, and the ways in which it can match. Raises BadPattern."""
    try:
        return compile_bounded(pattern, MAX_WAYS)
    except PatternRefused as error:
        raise InvalidPattern(error.why) from error


def find_regex_lines(pattern: str, text: str) -> list[int]:
    """The lines, 1-based, that hold a match. Raises BadPattern, Uncheckable."""
    expression, ways = compile_regex(pattern)
    always = find_required_text(pattern)
    lines = [(number, line) for number, line in enumerate(split_text_lines(text), 1) if always in line]
    if sum(estimate_steps(ways, len(line)) for _, line in lines) > MAX_STEPS:
        raise UncheckableContent(
            f"looking for {pattern[:80]!r} in {len(text)} characters could take too long: split the file"
        )
    return [number for number, line in lines if expression.search(line)]


def estimate_steps(ways: int, characters: int) -> int:
    """The most steps that a search of one line takes: no repeat covers more than the line."""
    repeats = math.ceil(math.log(ways, 257)) if ways > 1 else 0
    return characters * min(ways, max(characters, 1) ** repeats)


@lru_cache(64)
def find_required_text(pattern: str) -> str:
    """The longest text that every match holds, as far as that is plain to see; empty where it is not."""
    if re.search(r"[|(]|\\[xuUN0-9]", pattern):
        return ""
    plain = re.sub(r"(.)\+", "\\1\0", VARIABLE_PART.sub("\0", pattern))
    runs = re.split(r"[\0.^$*+?{}]", re.sub(r"\\(.)", lambda m: m[1] if m[1] not in ".^$*+?{}" else "\0", plain))
    return max(runs, key=len)


def check_syntax(pattern: str, language: str) -> None:
    """Raises BadPattern for one that cannot be read; where ast-grep is not installed, that is found out later."""
    try:
        search_syntax(pattern, "", language)
    except UncheckableContent:
        return


def find_syntax_lines(pattern: str, text: str, language: str) -> list[int]:
    """The lines, 1-based, on which a match begins, once for each match. Raises BadPattern, Uncheckable."""
    found: list[int] = []
    for reading in read_variants(text, language):
        starts = {
            node.range().start.index: node.range().start.line for node in search_syntax(pattern, reading, language)
        }
        lines = sorted(line + 1 for line in starts.values())
        found += (Counter(lines) - Counter(found)).elements()
    return sorted(found)


def read_variants(text: str, language: str) -> tuple[str, ...]:
    """The text as the language reads it: Python takes other forms of a letter for the letter, and joins lines.

    What a backslash joins is read in three ways, since at the end of a comment, which begins with a `#` that may also
    stand in a text, it joins nothing. Lines keep their numbers. Raises Uncheckable.
    """
    if language != "python":
        return (text,)
    plain = unicodedata.normalize("NFKC", text)
    if len(plain) > MAX_BYTES:  # one letter can stand for eighteen
        raise UncheckableContent(f"its letters stand for {len(plain)} others: split the file")
    if not JOINED_LINES.search(plain):
        return (plain,)
    return tuple(
        dict.fromkeys((plain, JOINED_LINES.sub(join_lines, plain), JOINED_LINES.sub(join_uncommented_lines, plain)))
    )


def join_lines(lines: re.Match[str]) -> str:
    """A line with those that it goes on in, and as many empty ones behind it."""
    parts = LINE_CONTINUATION.split(lines[0])
    return "".join(parts) + "\n" * (len(parts) - 1)


def join_uncommented_lines(lines: re.Match[str]) -> str:
    """The same, but a line with a comment does not go on."""
    first, *rest = LINE_CONTINUATION.split(lines[0])
    found, owed, comment = [first], 0, has_comment(first)
    for part in rest:
        found += ["\n" * (owed + 1), part] if comment else [part]
        owed, comment = 0 if comment else owed + 1, has_comment(part)
    return "".join(found) + "\n" * owed


def has_comment(line: str) -> bool:
    """Whether a `#` stands in it that is in no text."""
    return "#" in line and "#" in QUOTED_TEXT.sub("", line)


def search_syntax(pattern: str, text: str, language: str) -> "list[ast_grep_py.SgNode]":
    """The matches. Raises BadPattern, Uncheckable."""
    try:
        import ast_grep_py  # a shared library of 15 MB, for intents that have such a pattern
    except ImportError as error:
        raise UncheckableContent(MISSING_AST_GREP) from error
    if not is_complete_pattern(pattern, language):
        raise InvalidPattern(f"is no whole piece of {language}")
    if can_crash_parser(language, text.encode("utf-8", "replace")):
        raise UncheckableContent(f"no parser of {language} gets through it: nest less deeply, or use plain characters")
    root = ast_grep_py.SgRoot(text.encode("utf-8", "replace").decode(), language).root()
    try:
        return [*root.find_all(pattern=pattern), *find_calls(root, pattern, language)]
    except RuntimeError as error:
        why = next((line for line in reversed(str(error).split("Stack backtrace")[0].splitlines()) if line.strip()), "")
        raise InvalidPattern(f"cannot be read as {language}: {why.strip()[:200]}") from error
    except BaseException as error:  # a panic of Rust is no Exception: no guard further up would make it a denial
        if type(error).__name__ != "PanicException":
            raise
        raise UncheckableContent("ast-grep broke on it") from error


def find_calls(root: "ast_grep_py.SgNode", pattern: str, language: str) -> "list[ast_grep_py.SgNode]":
    """The calls that match, where the language reads a call that stands by itself as something else."""
    around = CALL_CONTEXTS.get(language)
    if around is None:
        return []
    try:
        return root.find_all(
            pattern={"context": around % pattern, "selector": "call_expression", "strictness": "smart"}
        )
    except RuntimeError:  # it is no call
        return []


@lru_cache(64)
def is_complete_pattern(pattern: str, language: str) -> bool:
    """Whether the pattern reads without an error: one that does not would match nothing, in silence."""
    import ast_grep_py

    roots = (ast_grep_py.SgRoot(text, language).root() for text in (pattern, pattern.replace("$", EXPANDO)))
    return bool(pattern.strip()) and any(root.find(kind="ERROR") is None for root in roots)
