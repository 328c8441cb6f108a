"""Path patterns: git's wildmatch, and the scopes of intents.

A pattern is parsed once into components (the text between slashes), and regular expressions and automata are built from
those. Matching never backtracks beyond a component: of the text after a star, the leftmost match leaves most to the
rest, and is the only match tried (`_first_match`).
Source: git's wildmatch.c and t/t3070-wildmatch.sh, read 2026-11. Characters are code points, not bytes.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import count, pairwise
from typing import Literal, TypeAlias

from msgspec import Struct

from remit.core.scope import repopath

MAX_LENGTH = 1024
"""Characters of a pattern."""
MAX_EXPANSIONS = 256
"""Patterns from the braces of a pattern."""
MAX_EXPANDED = 16_384
"""Characters of those patterns together."""
MAX_SETS = 256
"""`[` in those patterns together: a set of many characters takes milliseconds to compile."""


class GlobError(ValueError):
    """Error for text that is not a pattern. `why` is a clause, such as `it is empty`."""

    def __init__(self, pattern: str, why: str) -> None:
        super().__init__(f"{pattern[:200]!r} is not a pattern: {why}")
        self.pattern = pattern
        self.why = why


# --- reading a pattern -------------------------------------------------------------------------------------

_Ranges: TypeAlias = tuple[tuple[str, str], ...]
_Case: TypeAlias = Literal["exact", "git", "folded"]


class CharSet(Struct, frozen=True):
    """A character within one of `ranges` (ends included), or, `negated`, within none."""

    ranges: _Ranges
    negated: bool = False

    @property
    def literal(self) -> str | None:
        """Return the only matching character, or None for a set."""
        if self.negated or len(self.ranges) != 1:
            return None
        low, high = self.ranges[0]
        return low if low == high else None

    def contains(self, char: str) -> bool:
        return any(low <= char <= high for low, high in self.ranges) != self.negated


Token: TypeAlias = CharSet | Literal["*", "**"]
Component: TypeAlias = tuple[Token, ...]
Components: TypeAlias = tuple[Component, ...]

SLASH = CharSet((("/", "/"),))
ANY_NAME_CHAR = CharSet((("/", "/"),), negated=True)
ANY_CHAR = CharSet((), negated=True)
_DOT: Component = (CharSet(((".", "."),)),)
ANY_DEPTH: Component = ("**",)

_PIECE = re.compile(r"\*+|\\.|[?\[/]|[^\\*?\[/]+", re.DOTALL)
_ELEMENT = re.compile(r"\[:(?P<name>[^\]]*):\]|(?P<low>\\.|[^\\])(?:-(?!\])(?P<high>\\.|[^\\]))?", re.DOTALL)
_LOWER = {ord(upper): upper.lower() for upper in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
_POSIX: dict[str, _Ranges] = {
    "alnum": (("0", "9"), ("A", "Z"), ("a", "z")),
    "alpha": (("A", "Z"), ("a", "z")),
    "blank": ((" ", " "), ("\t", "\t")),
    "cntrl": (("\0", "\x1f"), ("\x7f", "\x7f")),
    "digit": (("0", "9"),),
    "graph": (("!", "~"),),
    "lower": (("a", "z"),),
    "print": ((" ", "~"),),
    "punct": (("!", "/"), (":", "@"), ("[", "`"), ("{", "~")),
    # git's own table leaves out vertical tab and form feed.
    "space": ((" ", " "), ("\t", "\n"), ("\r", "\r")),
    "upper": (("A", "Z"),),
    "xdigit": (("0", "9"), ("A", "F"), ("a", "f")),
}
_MAX_FOLDED_RANGE = 1024


def _element_ranges(pattern: str, element: re.Match[str], case: _Case) -> _Ranges:
    name, low, high = element["name"], element["low"], element["high"]
    if name is not None:
        if name not in _POSIX:
            raise GlobError(pattern, f"there is no character class {name!r}")
        return _add_cases(_POSIX[name], case)
    first = (low[-1], low[-1])
    # git has read the first character before it sees the dash: in a range that runs backwards it counts.
    # And it folds the text, but not a single character in brackets: [A] then matches neither a nor A.
    single = (first,) if case == "git" else _add_cases((first,), case)
    return single if high is None else single + _add_cases(((low[-1], high[-1]),), case)


def _add_cases(ranges: _Ranges, case: _Case) -> _Ranges:
    if case == "exact":
        return ranges
    added = _lower_range if case == "git" else _fold_range
    return ranges + tuple(also for low, high in ranges for also in added(low, high))


def _lower_range(low: str, high: str) -> Iterator[tuple[str, str]]:
    first, last = max(low, "A"), min(high, "Z")
    if first <= last:
        yield first.lower(), last.lower()


def _fold_range(low: str, high: str) -> Iterator[tuple[str, str]]:
    # A wide range holds both cases of nearly all it holds; folding each would make compiling slow.
    if ord(high) - ord(low) > _MAX_FOLDED_RANGE:
        yield from _lower_range(low, high)
        return
    for code in range(ord(low), ord(high) + 1):
        folded = repopath.fold_case(chr(code))
        if len(folded) == 1 and folded != chr(code):
            yield folded, folded


def _without_slash(ranges: _Ranges) -> _Ranges:
    pieces: list[tuple[str, str]] = []
    for low, high in ranges:
        pieces += [(low, "."), ("0", high)] if low <= "/" <= high else [(low, high)]
    return tuple(piece for piece in pieces if piece[0] <= piece[1])


def _parse_bracket(pattern: str, at: int, case: _Case = "exact") -> tuple[CharSet, int]:
    """Parse the set whose `[` stands before `at`; return the set and its end. Raises GlobError."""
    negated = pattern.startswith(("!", "^"), at)
    start = at = at + negated
    ranges: _Ranges = ()
    while at == start or not pattern.startswith("]", at):
        element = _ELEMENT.match(pattern, at)
        if element is None:
            raise GlobError(pattern, "a [ is never closed")
        ranges += _element_ranges(pattern, element, case)
        at = element.end()
    return CharSet(ranges, negated), at + 1


def _exclude_slash(characters: CharSet) -> CharSet:
    if characters.negated:
        return CharSet((*characters.ranges, ("/", "/")), negated=True)
    return CharSet(_without_slash(characters.ranges))


def _crosses_folders(pattern: str, stars: re.Match[str]) -> bool:
    """Return whether these stars form a whole component: git's condition for `**` to cross folders."""
    start, end = stars.span()
    opens = start == 0 or pattern[start - 1] == "/"
    closes = end == len(pattern) or pattern.startswith(("/", "\\/"), end)
    return end - start > 1 and opens and closes


def _literal_tokens(text: str, case: _Case) -> list[Token]:
    if case == "folded":
        text = repopath.fold_case(text)
    elif case == "git" and not text.startswith("\\"):
        # An escaped capital stays one, and so matches no folded text. That is git's doing.
        text = text.translate(_LOWER)
    return [_literal_char(char) for char in text.removeprefix("\\")]


@lru_cache(maxsize=1024)
def _literal_char(char: str) -> CharSet:
    return CharSet(((char, char),))


def _tokenize(pattern: str, case: _Case, *, pathname: bool) -> Iterator[Token | Literal["/"]]:
    at = 0
    while at < len(pattern):
        piece = _PIECE.match(pattern, at)
        if piece is None:
            raise GlobError(pattern, "it ends in a backslash")
        text, at = piece[0], piece.end()
        if text == "[":
            characters, at = _parse_bracket(pattern, at, case)
            yield _exclude_slash(characters) if pathname else characters
        elif text == "?":
            yield ANY_NAME_CHAR if pathname else ANY_CHAR
        elif text in ("/", "\\/") and pathname:
            yield "/"
        elif text.startswith("*"):
            yield from _star_tokens(pattern, piece, pathname=pathname)
        else:
            yield from _literal_tokens(text, case)


def _star_tokens(pattern: str, stars: re.Match[str], *, pathname: bool) -> tuple[Token | Literal["/"], ...]:
    if not pathname or not _crosses_folders(pattern, stars):
        return ("*",)
    # Before a slash that is escaped, `**` is one folder or more; else it is none or more.
    return ("*", "/", "**") if pattern.startswith("\\", stars.end()) else ("**",)


def _parse(pattern: str, case: _Case = "exact", *, pathname: bool = True) -> Components:
    """Return the components of `pattern`; a single component without `pathname`. Raises GlobError."""
    if len(pattern) > MAX_LENGTH:
        raise GlobError(pattern, f"it is longer than {MAX_LENGTH} characters")
    components: list[list[Token]] = [[]]
    for part in _tokenize(pattern, case, pathname=pathname):
        if part == "/":
            components.append([])
        else:
            components[-1].append(part)
    return tuple(map(tuple, components))


# --- from components to a regular expression ---------------------------------------------------------------

_FOLDERS = "(?:.*/)?"
"""Any number of folders; `.` matches a slash here."""
_FEWEST_FOLDERS = "(?:.*?/)??"
_MATCHES_NOTHING = re.compile(r"(?!)")


def _char_regex(characters: CharSet) -> str:
    if characters.literal is not None:
        return re.escape(characters.literal)
    body = "".join(f"\\U{ord(low):08x}-\\U{ord(high):08x}" for low, high in characters.ranges if low <= high)
    if characters.negated:
        return f"[^{body}]" if body else "."
    return f"[{body}]" if body else "(?!)"


def _first_match(regex: str, groups: Iterator[int]) -> str:
    """Return a regular expression that tries only the first match of `regex`.

    The engine does not backtrack into a lookahead, and the named group then consumes the match. Atomic groups would say
    the same, but match too much in Python 3.11.0 to 3.11.4 (CPython issue 106052).
    """
    name = f"g{next(groups)}"
    return f"(?=(?P<{name}>{regex}))(?P={name})"


def _component_regex(component: Component, filler: str, groups: Iterator[int]) -> str:
    pieces = [""]
    for token in component:
        if isinstance(token, CharSet):
            pieces[-1] += _char_regex(token)
        else:
            pieces.append("")
    first, *rest = pieces
    if not rest:
        return first
    *middle, last = rest
    between = "".join(_first_match(f"{filler}*?{piece}", groups) for piece in middle if piece)
    return f"{first}{between}{filler}*{last}"


def _path_regex(components: Components, groups: Iterator[int]) -> str:
    blocks: list[list[str]] = [[]]
    for component in components:
        if component == ANY_DEPTH:
            blocks.append([])
        else:
            blocks[-1].append(_component_regex(component, "[^/]", groups))
    first, *rest = blocks
    if not rest:
        return "/".join(first)
    *middle, last = rest
    between = "".join(_first_match(f"{_FEWEST_FOLDERS}{_join_folders(block)}", groups) for block in middle if block)
    return _join_folders(first) + between + (f"{_FOLDERS}{'/'.join(last)}" if last else ".*")


def _join_folders(block: list[str]) -> str:
    return "".join(f"{component}/" for component in block)


def _compile_paths(paths: Iterable[Components]) -> re.Pattern[str]:
    groups = count()
    return re.compile("|".join(f"(?:{_path_regex(path, groups)})" for path in paths), re.DOTALL)


@lru_cache(maxsize=1024)
def _wildmatch_regex(pattern: str, *, pathname: bool, fold_case: bool) -> re.Pattern[str]:
    try:
        components = _parse(pattern, "git" if fold_case else "exact", pathname=pathname)
    except GlobError:
        return _MATCHES_NOTHING
    if pathname:
        return _compile_paths([components])
    return re.compile(_component_regex(components[0], ".", count()), re.DOTALL)


def wildmatch(pattern: str, text: str, *, pathname: bool = True, fold_case: bool = False) -> bool:
    """Return whether git's wildmatch matches; `pathname` is WM_PATHNAME, `fold_case` is WM_CASEFOLD (ASCII).

    A malformed pattern, or a pattern over MAX_LENGTH, matches nothing.
    """
    regex = _wildmatch_regex(pattern, pathname=pathname, fold_case=fold_case)
    return regex.fullmatch(text.translate(_LOWER) if fold_case else text) is not None


# --- braces ------------------------------------------------------------------------------------------------

_BRACE = re.compile(r"\\.|[\[{},]", re.DOTALL)


def _skip_bracket(pattern: str, at: int) -> int:
    try:
        return _parse_bracket(pattern, at)[1]
    except GlobError:
        return at


def _find_brace_group(pattern: str) -> list[int] | None:
    """Return positions of the first brace group with a comma: its `{`, commas and `}`. Raises GlobError."""
    unclosed: list[list[int]] = []
    first_group: list[int] | None = None
    at = 0
    while mark := _BRACE.search(pattern, at):
        at = mark.end()
        if mark[0] == "[":
            at = _skip_bracket(pattern, at)
        elif mark[0] == "{":
            unclosed.append([mark.start()])
        elif mark[0] == "," and unclosed:
            unclosed[-1].append(mark.start())
        elif mark[0] == "}":
            if not unclosed:
                raise GlobError(pattern, "a } was never opened")
            group = [*unclosed.pop(), mark.start()]
            first_group = group if len(group) > 2 and (first_group is None or group < first_group) else first_group
    if unclosed:
        raise GlobError(pattern, "a { is never closed")
    return first_group


@lru_cache(maxsize=4096)
def expand_braces(pattern: str) -> tuple[str, ...]:
    """Expand `{a,b}` as a shell does, in order.

    A group without a comma stays literal; an escaped brace, or a brace in `[...]`, opens no group. Raises GlobError for
    unpaired braces, or past MAX_LENGTH, MAX_EXPANSIONS or MAX_EXPANDED.
    """
    if len(pattern) > MAX_LENGTH:
        raise GlobError(pattern, f"it is longer than {MAX_LENGTH} characters")
    expanded: list[str] = []
    pending = [pattern]
    while pending:
        current = pending.pop()
        group = _find_brace_group(current)
        if group is None:
            expanded.append(current)
            continue
        head, tail = current[: group[0]], current[group[-1] + 1 :]
        ends = list(pairwise(group))
        if len(expanded) + len(pending) + len(ends) > MAX_EXPANSIONS:
            raise GlobError(pattern, f"its braces stand for more than {MAX_EXPANSIONS} patterns")
        pending += [head + current[start + 1 : end] + tail for start, end in reversed(ends)]
    if sum(map(len, expanded)) > MAX_EXPANDED:
        raise GlobError(pattern, f"without its braces it is longer than {MAX_EXPANDED} characters")
    return tuple(expanded)


# --- what a scope may say ----------------------------------------------------------------------------------

_ABSOLUTE = re.compile(r"[/~]|[A-Za-z]:(?:[/\\]|\Z)")


def glob_error(pattern: str) -> str | None:
    """Return the fault of a scope's line as a clause (`it is empty`), or None for a valid pattern."""
    try:
        _check_pattern(pattern)
    except GlobError as error:
        return error.why
    return None


def _check_pattern(pattern: str) -> None:
    body = pattern.removeprefix("!")
    if not body:
        raise GlobError(pattern, "nothing follows the !" if pattern else "it is empty")
    if "\0" in body:
        raise GlobError(pattern, "it holds a NUL")
    expansions = expand_braces(body)
    if sum(expanded.count("[") for expanded in expansions) > MAX_SETS:
        raise GlobError(pattern, f"it has more than {MAX_SETS} sets in [...]")
    for expanded in expansions:
        if not expanded:
            raise GlobError(pattern, "one of its alternatives is empty")
        if ".." in expanded.split("/"):
            raise GlobError(pattern, "it has a .. in it; write the path from the workspace root")
        _parse(expanded)


def relative_glob_error(pattern: str) -> str | None:
    """Return the fault of a pattern that must start at the workspace root, as a clause; None for a valid pattern."""
    if is_absolute_pattern(pattern):
        return "it is absolute; patterns start at the workspace root"
    return glob_error(pattern)


def is_absolute_pattern(pattern: str) -> bool:
    """Return whether an expansion of `pattern`, after its `!`, starts at a root, a home or a drive."""
    body = pattern.removeprefix("!")
    try:
        return any(_ABSOLUTE.match(expanded) for expanded in expand_braces(body))
    except GlobError:
        return _ABSOLUTE.match(body) is not None


# --- scopes ------------------------------------------------------------------------------------------------

# Folded spelling. Neither the root, nor what is no normalised path, nor git's and Remit's own folders.
_OUT_OF_SCOPE = re.compile(r"(?:\A|/)(?:\.{0,2}|\.git|\.orchestration)(?:/|\Z)")


class _PatternRun(Struct, frozen=True):
    """Consecutive patterns that include, or exclude. `folded` matches case-folded paths."""

    included: bool
    exact: re.Pattern[str]
    folded: re.Pattern[str]


@lru_cache(maxsize=2048)
def _expand_line(pattern: str, case: _Case) -> tuple[Components, ...]:
    """Return the component lists covered by a scope's line without its `!`. Raises GlobError."""
    return tuple(
        covered for expanded in expand_braces(pattern) for covered in _anchor_components(_parse(expanded, case))
    )


def _anchor_components(components: Components) -> tuple[Components, ...]:
    named = tuple(component for component in components if component not in ((), _DOT))
    contents = (*named, ANY_DEPTH)
    if all(isinstance(token, CharSet) and token.literal for component in named for token in component):
        return (named, contents) if named else (contents,)
    return (named,) if components[-1] else (contents,)


def _is_usable(pattern: str) -> bool:
    return glob_error(pattern) is None and not is_absolute_pattern(pattern)


def _compile_alternation(patterns: list[str], case: _Case) -> re.Pattern[str]:
    return _compile_paths(dict.fromkeys(path for pattern in patterns for path in _expand_line(pattern, case)))


@lru_cache(maxsize=1024)
def _compile_runs(patterns: tuple[str, ...], *, fold: bool = False) -> tuple[_PatternRun, ...]:
    """Return the runs of a scope, last first; empty if an exclusion is invalid, to fail closed."""
    runs: list[tuple[bool, list[str]]] = []
    for pattern in patterns:
        included = not pattern.startswith("!")
        if not _is_usable(pattern):
            if included:
                continue
            return ()
        if not runs or runs[-1][0] != included:
            runs.append((included, []))
        runs[-1][1].append(pattern.removeprefix("!"))
    return tuple(
        _PatternRun(
            included,
            _compile_alternation(lines, "exact"),
            _compile_alternation(lines, "folded") if fold else _MATCHES_NOTHING,
        )
        for included, lines in reversed(runs)
    )


class Scope(Struct, frozen=True):
    """The `owned_scope` of an intent: patterns from the workspace root, the last match deciding.

    `*` and `?` stay in a folder and `**` crosses; `{a,b}` expands; a plain name covers a path and its contents; a
    wildcard pattern ending in `/` covers the contents; `!` excludes. An invalid pattern matches nothing; an invalid
    exclusion makes the whole scope match nothing.
    """

    patterns: tuple[str, ...]

    def matches(self, path: str, *, fold: bool = False) -> bool:
        """Return whether a RepoPath is in scope.

        With `fold`, a pattern may match the path as written or case-folded. The root, and paths in a `.git` or
        `.orchestration` folder of any case, are in no scope.
        """
        folded = repopath.fold_case(path)
        if _OUT_OF_SCOPE.search(folded):
            return False
        for run in _compile_runs(self.patterns, fold=fold):
            if run.exact.fullmatch(path) or run.folded.fullmatch(folded):
                return run.included
        return False


def expand_inclusions(patterns: tuple[str, ...]) -> tuple[Components, ...]:
    """Return the component lists of a scope's inclusions; empty if an exclusion is invalid."""
    if not _compile_runs(patterns):
        return ()
    usable = [line for line in patterns if not line.startswith("!") and _is_usable(line)]
    return tuple(path for line in usable for path in _expand_line(line, "exact"))
