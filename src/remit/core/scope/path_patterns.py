"""Paths inside a workspace, and patterns of them: git's wildmatch, braces, and the scopes of intents.

A pattern is parsed once into components (the text between slashes), and regular expressions and automata are built from
those. Matching never backtracks beyond a component: of the text after a star, the leftmost match leaves most to the
rest, and is the only match tried (`_first_match`).
Source: git's wildmatch.c and t/t3070-wildmatch.sh, read 2026-11. Characters are code points, not bytes.
"""

import posixpath
import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import count, pairwise
from typing import Literal, TypeAlias

from msgspec import Struct

from remit.core.bounds import NAME_BYTES, ODD_CHARACTERS, PATH_BYTES, PATH_DEPTH, WHOLE_PATH_BYTES, Bound

# --- paths ------------------------------------------------------------------------------------------------


class InvalidPath(ValueError):
    """Error for text that cannot name a file: empty, with a NUL, or not encodable."""

    def __init__(self, raw: str, why: str) -> None:
        super().__init__(f"{raw[:200]!r} cannot name a file: {why}")
        self.raw, self.why = raw, why


class OutsideWorkspace(ValueError):
    """Error for a path that is not below the workspace root."""

    def __init__(self, raw: str, root: str) -> None:
        super().__init__(f"{raw[:200]!r} is outside the workspace {root!r}")
        self.raw, self.root = raw, root


class RepoPath(str):
    """A normalised path relative to a workspace root: `/` separated, no `..`, no leading `/`. The root is `"."`.

    Only `RepoPath.parse` makes instances, after callers resolved symbolic links: a write to `/w/src/../db/secret.sql`
    once passed a scope of `src/**`, because five places compared strings.
    """

    __slots__ = ()

    @classmethod
    def parse(cls, raw: str, root: str, cwd: str | None = None) -> "RepoPath":
        """Return `raw` (absolute, or relative to `cwd`, by default the root) as a path below `root`.

        Raises InvalidPath, OutsideWorkspace. `root` and `cwd` are absolute.
        """
        clean, base = normalise_path(posixpath.join(cwd or root, check_path_text(raw))), normalise_path(root)
        if clean == base:
            return str.__new__(cls, ".")
        prefix = base if base.endswith("/") else base + "/"
        if not clean.startswith(prefix):
            raise OutsideWorkspace(raw, root)
        return str.__new__(cls, clean[len(prefix) :])


def normalise_path(path: str) -> str:
    clean = posixpath.normpath(path)
    return clean[1:] if clean.startswith("//") else clean


def check_path_text(raw: str) -> str:
    if not raw:
        raise InvalidPath(raw, "it is empty")
    check_bound(raw, WHOLE_PATH_BYTES, len(raw))
    if "\0" in raw:
        raise InvalidPath(raw, "it holds a NUL")
    try:
        raw.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise InvalidPath(raw, "it is not encodable") from error
    return raw


def check_bound(raw: str, bound: Bound, value: int) -> None:
    """Raise InvalidPath if the value is beyond the bound."""
    if value > bound.value:
        raise InvalidPath(raw, f"it has {value} {bound.unit}, and at most {bound.value} are taken")


ODD = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def check_path_bounds(path: str, *, is_new: bool) -> None:
    """Raise InvalidPath for a path refused at every door. An existing file may have any name."""
    raw = path.encode("utf-8", "surrogateescape")
    check_bound(path, PATH_DEPTH, path.count("/"))
    check_bound(path, PATH_BYTES, len(raw))
    if is_new:
        check_bound(path, ODD_CHARACTERS, len(ODD.findall(path)))
        check_bound(path, NAME_BYTES, max(map(len, raw.split(b"/"))))


def is_beyond_bounds(path: str) -> bool:
    """Return whether a folder lies too deep to be looked into."""
    return path.count("/") >= PATH_DEPTH.value or len(path.encode("utf-8", "surrogateescape")) > PATH_BYTES.value


def fold_case(path: str) -> str:
    """Return `path` as seen by a file system that ignores case and Unicode form."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


# --- reading a pattern ------------------------------------------------------------------------------------

MAX_LENGTH = 1024
"""Characters of a pattern."""
MAX_EXPANSIONS = 256
"""Patterns from the braces of a pattern."""
MAX_EXPANDED = 16_384
"""Characters of those patterns together."""
MAX_SETS = 256
"""`[` in those patterns together: a set of many characters takes milliseconds to compile."""
MAX_FOLDED_RANGE = 1024
_Ranges: TypeAlias = tuple[tuple[str, str], ...]


class GlobError(ValueError):
    """Error for text that is not a pattern. `why` is a clause, such as `it is empty`."""

    def __init__(self, pattern: str, why: str) -> None:
        super().__init__(f"{pattern[:200]!r} is not a pattern: {why}")
        self.pattern, self.why = pattern, why


class CharSet(Struct, frozen=True):
    """A character within one of `ranges` (ends included), or, `negated`, within none."""

    ranges: _Ranges
    negated: bool = False

    @property
    def literal(self) -> str | None:
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
ANY_DEPTH: Component = ("**",)
_DOT: Component = (CharSet(((".", "."),)),)
_PIECE = re.compile(r"\*+|\\.|[?\[/]|[^\\*?\[/]+", re.DOTALL)
_ELEMENT = re.compile(r"\[:(?P<name>[^\]]*):\]|(?P<low>\\.|[^\\])(?:-(?!\])(?P<high>\\.|[^\\]))?", re.DOTALL)
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


@lru_cache(maxsize=1024)
def make_literal(char: str) -> CharSet:
    return CharSet(((char, char),))


def _parse_bracket(pattern: str, at: int, *, fold: bool = False) -> tuple[CharSet, int]:
    """Parse the set whose `[` stands before `at`; return the set and its end. Raises GlobError."""
    negated = pattern.startswith(("!", "^"), at)
    start = at = at + negated
    ranges: list[tuple[str, str]] = []
    while at == start or not pattern.startswith("]", at):
        element = _ELEMENT.match(pattern, at)
        if element is None:
            raise GlobError(pattern, "a [ is never closed")
        name, low, high = element["name"], element["low"], element["high"]
        if name is None:
            # git has read the first character before it sees the dash: in a range that runs backwards it counts.
            ranges += [(low[-1], low[-1]), *([(low[-1], high[-1])] if high is not None else [])]
        elif name in _POSIX:
            ranges += _POSIX[name]
        else:
            raise GlobError(pattern, f"there is no character class {name!r}")
        at = element.end()
    if fold:
        ranges += [folded for low, high in ranges for folded in _fold_range(low, high)]
    return CharSet(tuple(ranges), negated), at + 1


def _fold_range(low: str, high: str) -> Iterator[tuple[str, str]]:
    # A wide range holds both cases of nearly all it holds; folding each would make compiling slow.
    if ord(high) - ord(low) > MAX_FOLDED_RANGE:
        if (first := max(low, "A")) <= (last := min(high, "Z")):
            yield first.lower(), last.lower()
        return
    for char in map(chr, range(ord(low), ord(high) + 1)):
        folded = fold_case(char)
        if len(folded) == 1 and folded != char:
            yield folded, folded


def _exclude_slash(characters: CharSet) -> CharSet:
    if characters.negated:
        return CharSet((*characters.ranges, ("/", "/")), negated=True)
    pieces: list[tuple[str, str]] = []
    for low, high in characters.ranges:
        pieces += [(low, "."), ("0", high)] if low <= "/" <= high else [(low, high)]
    return CharSet(tuple(piece for piece in pieces if piece[0] <= piece[1]))


def parse_glob(pattern: str, *, fold: bool = False) -> Components:
    """Return the components of a pattern without braces, as git's wildmatch reads it; `fold` folds their case.

    Raises GlobError.
    """
    if len(pattern) > MAX_LENGTH:
        raise GlobError(pattern, f"it is longer than {MAX_LENGTH} characters")
    components: list[list[Token]] = [[]]
    at = 0
    while at < len(pattern):
        piece = _PIECE.match(pattern, at)
        if piece is None:
            raise GlobError(pattern, "it ends in a backslash")
        text, start, at = piece[0], at, piece.end()
        if text == "[":
            characters, at = _parse_bracket(pattern, at, fold=fold)
            components[-1].append(_exclude_slash(characters))
        elif text == "?":
            components[-1].append(ANY_NAME_CHAR)
        elif text in ("/", "\\/"):
            components.append([])
        elif not text.startswith("*"):
            folded = fold_case(text) if fold else text
            components[-1] += [make_literal(char) for char in folded.removeprefix("\\")]
        else:
            # Stars cross folders only as a whole component.
            opens = start == 0 or pattern[start - 1] == "/"
            closes = at == len(pattern) or pattern.startswith(("/", "\\/"), at)
            if len(text) < 2 or not opens or not closes:
                components[-1].append("*")
            elif pattern.startswith("\\", at):  # before an escaped slash, `**` is one folder or more
                components[-1].append("*")
                components.append(["**"])
            else:
                components[-1].append("**")
    return tuple(map(tuple, components))


# --- from components to a regular expression --------------------------------------------------------------

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


def _component_regex(component: Component, groups: Iterator[int]) -> str:
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
    return f"{first}{''.join(_first_match(f'[^/]*?{piece}', groups) for piece in middle if piece)}[^/]*{last}"


def _path_regex(components: Components, groups: Iterator[int]) -> str:
    blocks: list[list[str]] = [[]]
    for component in components:
        if component == ANY_DEPTH:
            blocks.append([])
        else:
            blocks[-1].append(_component_regex(component, groups))
    first, *rest = blocks
    if not rest:
        return "/".join(first)
    *middle, last = rest
    folders = ("".join(f"{folder}/" for folder in block) for block in middle if block)
    between = "".join(_first_match(f"{_FEWEST_FOLDERS}{block}", groups) for block in folders)
    return "".join(f"{folder}/" for folder in first) + between + (f"{_FOLDERS}{'/'.join(last)}" if last else ".*")


def compile_globs(paths: Iterable[Components]) -> re.Pattern[str]:
    groups = count()
    return re.compile("|".join(f"(?:{_path_regex(path, groups)})" for path in paths), re.DOTALL)


# --- braces -----------------------------------------------------------------------------------------------

_BRACE = re.compile(r"\\.|[\[{},]", re.DOTALL)


def _find_brace_group(pattern: str) -> list[int] | None:
    """Return positions of the first brace group with a comma: its `{`, commas and `}`. Raises GlobError."""
    unclosed: list[list[int]] = []
    first_group: list[int] | None = None
    at = 0
    while mark := _BRACE.search(pattern, at):
        at = mark.end()
        if mark[0] == "[":
            try:
                at = _parse_bracket(pattern, at)[1]
            except GlobError:
                continue
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


# --- what a scope may say ---------------------------------------------------------------------------------

_ABSOLUTE = re.compile(r"[/~]|[A-Za-z]:(?:[/\\]|\Z)")
_WILDCARD = re.compile(r"[*?\[{\\]")


def glob_error(pattern: str) -> str | None:
    """Return the fault of a scope's line as a clause (`it is empty`), or None for a valid pattern."""
    body = pattern.removeprefix("!")
    if not body:
        return "nothing follows the !" if pattern else "it is empty"
    if "\0" in body:
        return "it holds a NUL"
    try:
        expansions = expand_braces(body)
        if sum(expanded.count("[") for expanded in expansions) > MAX_SETS:
            return f"it has more than {MAX_SETS} sets in [...]"
        for expanded in expansions:
            if not expanded:
                return "one of its alternatives is empty"
            if ".." in expanded.split("/"):
                return "it has a .. in it; write the path from the workspace root"
            parse_glob(expanded)
    except GlobError as error:
        return error.why
    return None


def relative_glob_error(pattern: str) -> str | None:
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


def find_literal_prefix(pattern: str) -> str:
    """Return the literal folder, with a final slash, above the paths of `pattern`; without wildcards the path."""
    plain, *wild = _WILDCARD.split(pattern, maxsplit=1)
    parts = plain.split("/")[:-1] if wild else plain.split("/")
    return "".join(f"{part}/" for part in parts if part not in ("", "."))


# --- scopes -----------------------------------------------------------------------------------------------

# Folded spelling. Neither the root, nor what is no normalised path, nor git's and Remit's own folders.
_OUT_OF_SCOPE = re.compile(r"(?:\A|/)(?:\.{0,2}|\.git|\.orchestration)(?:/|\Z)")


class _PatternRun(Struct, frozen=True):
    """Consecutive patterns that include, or exclude. `folded` matches case-folded paths."""

    included: bool
    exact: re.Pattern[str]
    folded: re.Pattern[str]


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
        folded = fold_case(path)
        if _OUT_OF_SCOPE.search(folded):
            return False
        for run in _compile_runs(self.patterns, fold=fold):
            if run.exact.fullmatch(path) or run.folded.fullmatch(folded):
                return run.included
        return False


@lru_cache(maxsize=2048)
def expand_line(pattern: str, *, fold: bool = False) -> tuple[Components, ...]:
    """Return the component lists covered by a scope's line without its `!`. Raises GlobError."""
    covered: list[Components] = []
    for components in (parse_glob(expanded, fold=fold) for expanded in expand_braces(pattern)):
        named = tuple(component for component in components if component not in ((), _DOT))
        contents = (*named, ANY_DEPTH)
        if all(isinstance(token, CharSet) and token.literal for component in named for token in component):
            covered += [named, contents] if named else [contents]
        else:
            covered.append(named if components[-1] else contents)
    return tuple(covered)


@lru_cache(maxsize=1024)
def _compile_runs(patterns: tuple[str, ...], *, fold: bool = False) -> tuple[_PatternRun, ...]:
    runs: list[tuple[bool, list[str]]] = []
    for included, line in list_signed_lines(patterns):
        if not runs or runs[-1][0] != included:
            runs.append((included, []))
        runs[-1][1].append(line)

    def compile_lines(lines: list[str], *, fold: bool) -> re.Pattern[str]:
        return compile_globs(dict.fromkeys(path for line in lines for path in expand_line(line, fold=fold)))

    return tuple(
        _PatternRun(
            included, compile_lines(lines, fold=False), compile_lines(lines, fold=True) if fold else _MATCHES_NOTHING
        )
        for included, lines in reversed(runs)
    )


def list_signed_lines(patterns: tuple[str, ...]) -> tuple[tuple[bool, str], ...]:
    """Return the valid lines of a scope without their `!`, each with whether it includes; none if an exclusion is
    invalid.
    """
    valid = [relative_glob_error(line) is None for line in patterns]
    if not all(is_valid or not line.startswith("!") for line, is_valid in zip(patterns, valid, strict=True)):
        return ()
    lines = (line for line, is_valid in zip(patterns, valid, strict=True) if is_valid)
    return tuple((not line.startswith("!"), line.removeprefix("!")) for line in lines)
