"""Searches for constraints: regular expressions by line, and ast-grep patterns of syntax.

Expressions and texts are untrusted, so only expressions of bounded cost are accepted (`redaction.compile_bounded`: no
nested repeats, no back references, at most 256 characters per open repeat), and texts that could take too long are
refused. Source: ast-grep-py 0.51.0, read 2026-11.
"""

import math
import re
import unicodedata
from collections import Counter
from contextlib import suppress
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from remit.core.code.grammars import can_crash_parser
from remit.core.code.languages import find_language
from remit.core.code.source_text import MAX_BYTES, UncheckableContent, split_text_lines
from remit.core.extras import describe_installation
from remit.core.redaction import PatternRefused, compile_bounded

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
EXPANDO = "\u00b5"
"""Character that ast-grep substitutes for `$` in languages without `$` in names."""
CALL_CONTEXTS = {"go": "func t() { %s }", "c": "void t() { %s; }", "cpp": "void t() { %s; }"}
"""Wrapping code for languages in which `f(x)` alone parses as a conversion or a declaration."""
JOINED_LINES = re.compile(r"(?:\A|(?<=[\n\r]))(?:[^\n\r]*\\(?:\r\n|\n|\r))+[^\n\r]*")
"""Python lines continued by backslashes. Matched at line starts only, to keep long lines cheap."""
LINE_CONTINUATION = re.compile(r"\\(?:\r\n|\n|\r)")
QUOTED_TEXT = re.compile(r"'[^'\\]*'|\"[^\"\\]*\"")
MISSING_AST_GREP = f"ast-grep is not installed, which this constraint needs; {describe_installation('code')}"


class InvalidPattern(ValueError):
    """Error for a pattern that cannot be used. The message is a clause."""


def detect_language(path: str) -> str | None:
    known = find_language(path)
    suffix = path[path.rfind(".") :].casefold() if "." in path else ""
    language = known.name if known else EXTRA_SUFFIXES.get(suffix)
    return language if language in LANGUAGES else None


def find_related_languages(language: str) -> frozenset[str]:
    return frozenset({"typescript", "tsx"} if language == "typescript" else {language})


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
    repeats = math.ceil(math.log(ways, 257)) if ways > 1 else 0
    # No repeat covers more than its line.
    if sum(len(line) * min(ways, max(len(line), 1) ** repeats) for _, line in lines) > MAX_STEPS:
        raise UncheckableContent(
            f"looking for {pattern[:80]!r} in {len(text)} characters could take too long: split the file"
        )
    return [number for number, line in lines if expression.search(line)]


@lru_cache(64)
def find_required_text(pattern: str) -> str:
    if re.search(r"[|(]|\\[xuUN0-9]", pattern):
        return ""
    plain = re.sub(r"(.)\+", "\\1\0", VARIABLE_PART.sub("\0", pattern))
    runs = re.split(r"[\0.^$*+?{}]", re.sub(r"\\(.)", lambda m: m[1] if m[1] not in ".^$*+?{}" else "\0", plain))
    return max(runs, key=len)


def check_syntax(pattern: str, language: str) -> None:
    """Check a syntax pattern; without ast-grep the check is skipped. Raises InvalidPattern."""
    with suppress(UncheckableContent):
        search_syntax(pattern, "", language)


def find_syntax_lines(pattern: str, text: str, language: str) -> list[int]:
    """Return the 1-based line of each match's start. Raises InvalidPattern, UncheckableContent."""
    lines: list[int] = []
    for variant in read_variants(text, language):
        starts = [node.range().start for node in search_syntax(pattern, variant, language)]
        new_lines = sorted(line + 1 for line in {start.index: start.line for start in starts}.values())
        lines += (Counter(new_lines) - Counter(lines)).elements()
    return sorted(lines)


def read_variants(text: str, language: str) -> tuple[str, ...]:
    """Return the text as its language may read it: Python normalises letters and joins continued lines.

    A backslash at the end of a comment joins no lines, and a string may contain `#`, hence three variants. Line numbers
    stay. Raises UncheckableContent.
    """
    if language != "python":
        return (text,)
    plain = unicodedata.normalize("NFKC", text)
    if len(plain) > MAX_BYTES:  # one letter can stand for eighteen
        raise UncheckableContent(f"it has {len(plain)} characters once normalised: split the file")
    joined = (JOINED_LINES.sub(partial(join_lines, after_comments=after), plain) for after in (True, False))
    return tuple(dict.fromkeys((plain, *joined)))


def join_lines(lines: re.Match[str], *, after_comments: bool) -> str:
    """Join a continued line, followed by as many empty lines as were joined."""
    pieces, empty_lines, ends = list[str](), 0, True
    for part in LINE_CONTINUATION.split(lines[0]):
        pieces += [*(["\n" * (empty_lines + 1)] if ends and pieces else []), part]
        empty_lines = 0 if ends else empty_lines + 1
        ends = not after_comments and "#" in part and "#" in QUOTED_TEXT.sub("", part)
    return "".join(pieces) + "\n" * empty_lines


def search_syntax(pattern: str, text: str, language: str) -> "list[ast_grep_py.SgNode]":
    """Return the matches of a syntax pattern. Raises InvalidPattern, UncheckableContent."""
    try:
        import ast_grep_py  # a shared library of 15 MB, for intents that have such a pattern
    except ImportError as error:
        raise UncheckableContent(MISSING_AST_GREP) from error
    if not is_complete_pattern(pattern, language):
        raise InvalidPattern(f"is not complete {language} code")
    content = text.encode("utf-8", "replace")
    if can_crash_parser(language, content):
        raise UncheckableContent(
            f"the file could crash the {language} parser: nest less deeply, or use plain characters"
        )
    root = ast_grep_py.SgRoot(content.decode(), language).root()
    try:
        nodes = root.find_all(pattern=pattern)
        if wrapper := CALL_CONTEXTS.get(language):
            with suppress(RuntimeError):  # it is no call
                nodes += root.find_all(
                    pattern={"context": wrapper % pattern, "selector": "call_expression", "strictness": "smart"}
                )
        return nodes
    except RuntimeError as error:
        lines = [line for line in str(error).split("Stack backtrace")[0].splitlines() if line.strip()]
        reason = lines[-1].strip()[:200] if lines else ""
        raise InvalidPattern(f"cannot be read as {language}: {reason}") from error
    except BaseException as error:  # a panic of Rust is no Exception: no guard further up would make it a denial
        if type(error).__name__ != "PanicException":
            raise
        raise UncheckableContent("ast-grep crashed on this file") from error


@lru_cache(64)
def is_complete_pattern(pattern: str, language: str) -> bool:
    import ast_grep_py

    roots = (ast_grep_py.SgRoot(text, language).root() for text in (pattern, pattern.replace("$", EXPANDO)))
    return bool(pattern.strip()) and any(root.find(kind="ERROR") is None for root in roots)
