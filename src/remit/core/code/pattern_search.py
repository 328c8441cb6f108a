"""Searches for constraints: regular expressions by line, and ast-grep patterns of syntax.

Expressions and texts are untrusted, so only expressions of bounded cost are accepted (`redaction.compile_bounded`: no
nested repeats, no back references, at most 256 characters per open repeat), and texts that could take too long are
refused. Source: ast-grep-py 0.51.0, read 2026-11.
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
from remit.core.secrets.bounded_regex import PatternRefused, compile_bounded

if TYPE_CHECKING:
    import ast_grep_py

MAX_WAYS = 257**3
"""Ways in which an expression may match from a position: three open repeats."""

MAX_STEPS = 300_000_000
"""Ways to match, times start positions: some seconds at worst, for a hostile text."""

VARIABLE_PART = re.compile(r"\\[A-Za-z0-9]|\[\^?\]?(?:\\.|[^\]\\])*\]|(?:\\.|[^\\])(?:[*?]|\{[^}]*\})")
"""Parts of an expression without fixed text."""

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
"""Languages of ast-grep without a language in `code.languages`."""

LANGUAGES = (
    *("bash", "c", "cpp", "csharp", "css", "go", "html", "java", "javascript", "json", "kotlin", "lua", "markdown"),
    *("php", "python", "ruby", "rust", "scala", "swift", "tsx", "typescript", "yaml"),
)
RELATED_LANGUAGES = {"typescript": frozenset({"typescript", "tsx"}), "javascript": frozenset({"javascript"})}
EXPANDO = "\u00b5"
"""Character that ast-grep substitutes for `$` in languages without `$` in names."""

CALL_CONTEXTS = {"go": "func t() { %s }", "c": "void t() { %s; }", "cpp": "void t() { %s; }"}
"""Wrapping code for languages in which `f(x)` alone parses as a conversion or a declaration."""

JOINED_LINES = re.compile(r"(?:\A|(?<=[\n\r]))(?:[^\n\r]*\\(?:\r\n|\n|\r))+[^\n\r]*")
"""Python lines continued by backslashes. Matched at line starts only, to keep long lines cheap."""

LINE_CONTINUATION = re.compile(r"\\(?:\r\n|\n|\r)")
QUOTED_TEXT = re.compile(r"'[^'\\]*'|\"[^\"\\]*\"")

MISSING_AST_GREP = "ast-grep is not installed, which this constraint needs: run `pip install 'remit[code]'`"


class InvalidPattern(ValueError):
    """Error for a pattern that cannot be used. The message is a clause."""


def detect_language(path: str) -> str | None:
    """Return the language of a file name, or None if ast-grep does not know the language."""
    known = find_language(path)
    suffix = path[path.rfind(".") :].casefold() if "." in path else ""
    language = known.name if known else EXTRA_SUFFIXES.get(suffix)
    return language if language in LANGUAGES else None


def find_related_languages(language: str) -> frozenset[str]:
    return RELATED_LANGUAGES.get(language, frozenset({language}))


def check_regex(pattern: str) -> None:
    """Check an expression. Raises InvalidPattern."""
    compile_regex(pattern)


def compile_regex(pattern: str) -> tuple[re.Pattern[str], int]:
    """Return the compiled expression and its number of ways to match. Raises InvalidPattern."""
    try:
        return compile_bounded(pattern, MAX_WAYS)
    except PatternRefused as error:
        raise InvalidPattern(error.why) from error


def find_regex_lines(pattern: str, text: str) -> list[int]:
    """Return the 1-based lines with a match. Raises InvalidPattern, UncheckableContent."""
    expression, ways = compile_regex(pattern)
    always = find_required_text(pattern)
    lines = [(number, line) for number, line in enumerate(split_text_lines(text), 1) if always in line]
    if sum(estimate_steps(ways, len(line)) for _, line in lines) > MAX_STEPS:
        raise UncheckableContent(
            f"looking for {pattern[:80]!r} in {len(text)} characters could take too long: split the file"
        )
    return [number for number, line in lines if expression.search(line)]


def estimate_steps(ways: int, characters: int) -> int:
    """Return the maximum steps of a search in a line: no repeat covers more than the line."""
    repeats = math.ceil(math.log(ways, 257)) if ways > 1 else 0
    return characters * min(ways, max(characters, 1) ** repeats)


@lru_cache(64)
def find_required_text(pattern: str) -> str:
    """Return the longest text known to be in every match; empty if unknown."""
    if re.search(r"[|(]|\\[xuUN0-9]", pattern):
        return ""
    plain = re.sub(r"(.)\+", "\\1\0", VARIABLE_PART.sub("\0", pattern))
    runs = re.split(r"[\0.^$*+?{}]", re.sub(r"\\(.)", lambda m: m[1] if m[1] not in ".^$*+?{}" else "\0", plain))
    return max(runs, key=len)


def check_syntax(pattern: str, language: str) -> None:
    """Check a syntax pattern; without ast-grep the check is skipped. Raises InvalidPattern."""
    try:
        search_syntax(pattern, "", language)
    except UncheckableContent:
        return


def find_syntax_lines(pattern: str, text: str, language: str) -> list[int]:
    """Return the 1-based line of each match's start. Raises InvalidPattern, UncheckableContent."""
    lines: list[int] = []
    for reading in read_variants(text, language):
        starts = {
            node.range().start.index: node.range().start.line for node in search_syntax(pattern, reading, language)
        }
        new_lines = sorted(line + 1 for line in starts.values())
        lines += (Counter(new_lines) - Counter(lines)).elements()
    return sorted(lines)


def read_variants(text: str, language: str) -> tuple[str, ...]:
    """Return the text as its language may read it: Python normalises letters and joins continued lines.

    A backslash at the end of a comment joins nothing, and `#` may stand in a string, so three variants are returned.
    Line numbers stay. Raises UncheckableContent.
    """
    if language != "python":
        return (text,)
    plain = unicodedata.normalize("NFKC", text)
    if len(plain) > MAX_BYTES:  # one letter can stand for eighteen
        raise UncheckableContent(f"it has {len(plain)} characters once normalised: split the file")
    if not JOINED_LINES.search(plain):
        return (plain,)
    return tuple(
        dict.fromkeys((plain, JOINED_LINES.sub(join_lines, plain), JOINED_LINES.sub(join_uncommented_lines, plain)))
    )


def join_lines(lines: re.Match[str]) -> str:
    """Join a continued line, followed by as many empty lines as were joined."""
    parts = LINE_CONTINUATION.split(lines[0])
    return "".join(parts) + "\n" * (len(parts) - 1)


def join_uncommented_lines(lines: re.Match[str]) -> str:
    """Join a continued line, except after a comment."""
    first, *rest = LINE_CONTINUATION.split(lines[0])
    pieces, empty_lines, in_comment = [first], 0, has_comment(first)
    for part in rest:
        pieces += ["\n" * (empty_lines + 1), part] if in_comment else [part]
        empty_lines, in_comment = 0 if in_comment else empty_lines + 1, has_comment(part)
    return "".join(pieces) + "\n" * empty_lines


def has_comment(line: str) -> bool:
    return "#" in line and "#" in QUOTED_TEXT.sub("", line)


def search_syntax(pattern: str, text: str, language: str) -> "list[ast_grep_py.SgNode]":
    """Return the matches of a syntax pattern. Raises InvalidPattern, UncheckableContent."""
    try:
        import ast_grep_py  # a shared library of 15 MB, for intents that have such a pattern
    except ImportError as error:
        raise UncheckableContent(MISSING_AST_GREP) from error
    if not is_complete_pattern(pattern, language):
        raise InvalidPattern(f"is not complete {language} code")
    if can_crash_parser(language, text.encode("utf-8", "replace")):
        raise UncheckableContent(
            f"the file could crash the {language} parser: nest less deeply, or use plain characters"
        )
    root = ast_grep_py.SgRoot(text.encode("utf-8", "replace").decode(), language).root()
    try:
        return [*root.find_all(pattern=pattern), *find_calls(root, pattern, language)]
    except RuntimeError as error:
        reason = next(
            (line for line in reversed(str(error).split("Stack backtrace")[0].splitlines()) if line.strip()), ""
        )
        raise InvalidPattern(f"cannot be read as {language}: {reason.strip()[:200]}") from error
    except BaseException as error:  # a panic of Rust is no Exception: no guard further up would make it a denial
        if type(error).__name__ != "PanicException":
            raise
        raise UncheckableContent("ast-grep crashed on this file") from error


def find_calls(root: "ast_grep_py.SgNode", pattern: str, language: str) -> "list[ast_grep_py.SgNode]":
    """Return matching calls in languages that parse a lone call differently."""
    wrapper = CALL_CONTEXTS.get(language)
    if wrapper is None:
        return []
    try:
        return root.find_all(
            pattern={"context": wrapper % pattern, "selector": "call_expression", "strictness": "smart"}
        )
    except RuntimeError:  # it is no call
        return []


@lru_cache(64)
def is_complete_pattern(pattern: str, language: str) -> bool:
    """Return whether the pattern parses without errors: a broken pattern would silently match nothing."""
    import ast_grep_py

    roots = (ast_grep_py.SgRoot(text, language).root() for text in (pattern, pattern.replace("$", EXPANDO)))
    return bool(pattern.strip()) and any(root.find(kind="ERROR") is None for root in roots)
