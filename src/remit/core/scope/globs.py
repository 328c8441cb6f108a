"""Which paths a pattern means: git's wildmatch, and the scopes that intents are written in.

A pattern is read once into components (what stands between two slashes), and a regular expression or a
search for shared paths is made of those. Nothing here backtracks beyond one component: of the text after a
star, the leftmost match leaves the most to what follows, so it is never tried twice (`_first_match`).

Source: git's wildmatch.c and t/t3070-wildmatch.sh, read 2026-11. Characters are code points, not bytes.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import count, pairwise, product, takewhile
from typing import Literal, TypeAlias

from msgspec import Struct

from remit.core.scope import repopath

MAX_LENGTH = 1024
"""Characters in one pattern."""
MAX_EXPANSIONS = 256
"""Patterns that the braces of one pattern may stand for."""
MAX_EXPANDED = 16_384
"""Characters in all of those together."""
MAX_SETS = 256
"""`[` in all of those together: a set of many characters takes milliseconds to compile."""


class GlobError(ValueError):
    """The text is no pattern. `why` is a clause about it, such as `it is empty`."""

    def __init__(self, pattern: str, why: str) -> None:
        super().__init__(f"{pattern[:200]!r} is not a pattern: {why}")
        self.pattern = pattern
        self.why = why


# --- reading a pattern -------------------------------------------------------------------------------------

_Ranges: TypeAlias = tuple[tuple[str, str], ...]
_Case: TypeAlias = Literal["exact", "git", "folded"]


class _CharSet(Struct, frozen=True):
    """One character: within one of `ranges` (ends included) or, `negated`, within none."""

    ranges: _Ranges
    negated: bool = False

    @property
    def literal(self) -> str | None:
        """The only character it can be."""
        if self.negated or len(self.ranges) != 1:
            return None
        low, high = self.ranges[0]
        return low if low == high else None

    def contains(self, char: str) -> bool:
        return any(low <= char <= high for low, high in self.ranges) != self.negated


_Token: TypeAlias = _CharSet | Literal["*", "**"]
_Component: TypeAlias = tuple[_Token, ...]
_Components: TypeAlias = tuple[_Component, ...]

_SLASH = _CharSet((("/", "/"),))
_ANY_NAME_CHAR = _CharSet((("/", "/"),), negated=True)
_ANY_CHAR = _CharSet((), negated=True)
_DOT: _Component = (_CharSet(((".", "."),)),)
_ANY_DEPTH: _Component = ("**",)

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


def _parse_bracket(pattern: str, at: int, case: _Case = "exact") -> tuple[_CharSet, int]:
    """The set whose `[` stands before `at`, and where it ends. Raises GlobError."""
    negated = pattern.startswith(("!", "^"), at)
    start = at = at + negated
    ranges: _Ranges = ()
    while at == start or not pattern.startswith("]", at):
        element = _ELEMENT.match(pattern, at)
        if element is None:
            raise GlobError(pattern, "a [ is never closed")
        ranges += _element_ranges(pattern, element, case)
        at = element.end()
    return _CharSet(ranges, negated), at + 1


def _exclude_slash(one: _CharSet) -> _CharSet:
    """`one`, kept from matching a slash."""
    if one.negated:
        return _CharSet((*one.ranges, ("/", "/")), negated=True)
    return _CharSet(_without_slash(one.ranges))


def _crosses_folders(pattern: str, stars: re.Match[str]) -> bool:
    """Whether these stars are a whole component: git's condition for `**` to cross folders."""
    start, end = stars.span()
    opens = start == 0 or pattern[start - 1] == "/"
    closes = end == len(pattern) or pattern.startswith(("/", "\\/"), end)
    return end - start > 1 and opens and closes


def _literal_tokens(text: str, case: _Case) -> list[_Token]:
    if case == "folded":
        text = repopath.fold_case(text)
    elif case == "git" and not text.startswith("\\"):
        # An escaped capital stays one, and so matches no folded text. That is git's doing.
        text = text.translate(_LOWER)
    return [_literal_char(char) for char in text.removeprefix("\\")]


@lru_cache(maxsize=1024)
def _literal_char(char: str) -> _CharSet:
    return _CharSet(((char, char),))


def _tokenize(pattern: str, case: _Case, *, pathname: bool) -> Iterator[_Token | Literal["/"]]:
    at = 0
    while at < len(pattern):
        piece = _PIECE.match(pattern, at)
        if piece is None:
            raise GlobError(pattern, "it ends in a backslash")
        text, at = piece[0], piece.end()
        if text == "[":
            one, at = _parse_bracket(pattern, at, case)
            yield _exclude_slash(one) if pathname else one
        elif text == "?":
            yield _ANY_NAME_CHAR if pathname else _ANY_CHAR
        elif text in ("/", "\\/") and pathname:
            yield "/"
        elif text.startswith("*"):
            yield from _star_tokens(pattern, piece, pathname=pathname)
        else:
            yield from _literal_tokens(text, case)


def _star_tokens(pattern: str, stars: re.Match[str], *, pathname: bool) -> tuple[_Token | Literal["/"], ...]:
    if not pathname or not _crosses_folders(pattern, stars):
        return ("*",)
    # Before a slash that is escaped, `**` is one folder or more; else it is none or more.
    return ("*", "/", "**") if pattern.startswith("\\", stars.end()) else ("**",)


def _parse(pattern: str, case: _Case = "exact", *, pathname: bool = True) -> _Components:
    """The components of `pattern`; a single one without `pathname`. Raises GlobError."""
    if len(pattern) > MAX_LENGTH:
        raise GlobError(pattern, f"it is longer than {MAX_LENGTH} characters")
    components: list[list[_Token]] = [[]]
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


def _char_regex(one: _CharSet) -> str:
    if one.literal is not None:
        return re.escape(one.literal)
    body = "".join(f"\\U{ord(low):08x}-\\U{ord(high):08x}" for low, high in one.ranges if low <= high)
    if one.negated:
        return f"[^{body}]" if body else "."
    return f"[{body}]" if body else "(?!)"


def _first_match(regex: str, groups: Iterator[int]) -> str:
    """`regex`, of whose matches only the first is tried.

    The engine does not go back into a lookahead, and the name then takes just what was found there. This is written
    out because atomic groups, made for it, match too much in Python 3.11.0 to 3.11.4 (CPython issue 106052).
    """
    name = f"g{next(groups)}"
    return f"(?=(?P<{name}>{regex}))(?P={name})"


def _component_regex(component: _Component, filler: str, groups: Iterator[int]) -> str:
    pieces = [""]
    for token in component:
        if isinstance(token, _CharSet):
            pieces[-1] += _char_regex(token)
        else:
            pieces.append("")
    first, *rest = pieces
    if not rest:
        return first
    *middle, last = rest
    between = "".join(_first_match(f"{filler}*?{piece}", groups) for piece in middle if piece)
    return f"{first}{between}{filler}*{last}"


def _path_regex(components: _Components, groups: Iterator[int]) -> str:
    blocks: list[list[str]] = [[]]
    for component in components:
        if component == _ANY_DEPTH:
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


def _compile_paths(paths: Iterable[_Components]) -> re.Pattern[str]:
    """The regular expression for paths that match one of these."""
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
    """Whether git's wildmatch says so; `pathname` is its WM_PATHNAME, `fold_case` its WM_CASEFOLD (ASCII).

    A malformed pattern, or one over MAX_LENGTH, matches nothing.
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
    """Where the first group with a comma has its `{`, its commas and its `}`. Raises GlobError."""
    unclosed: list[list[int]] = []
    found: list[int] | None = None
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
            found = group if len(group) > 2 and (found is None or group < found) else found
    if unclosed:
        raise GlobError(pattern, "a { is never closed")
    return found


@lru_cache(maxsize=4096)
def expand_braces(pattern: str) -> tuple[str, ...]:
    """The patterns that `{a,b}` in this one stands for, in order, as a shell gives them.

    A group without a comma is itself. An escaped brace, or one in `[...]`, opens nothing. Raises GlobError
    where braces do not pair up, or past MAX_LENGTH, MAX_EXPANSIONS or MAX_EXPANDED.
    """
    if len(pattern) > MAX_LENGTH:
        raise GlobError(pattern, f"it is longer than {MAX_LENGTH} characters")
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        current = waiting.pop()
        group = _find_brace_group(current)
        if group is None:
            done.append(current)
            continue
        head, tail = current[: group[0]], current[group[-1] + 1 :]
        ends = list(pairwise(group))
        if len(done) + len(waiting) + len(ends) > MAX_EXPANSIONS:
            raise GlobError(pattern, f"its braces stand for more than {MAX_EXPANSIONS} patterns")
        waiting += [head + current[start + 1 : end] + tail for start, end in reversed(ends)]
    if sum(map(len, done)) > MAX_EXPANDED:
        raise GlobError(pattern, f"without its braces it is longer than {MAX_EXPANDED} characters")
    return tuple(done)


# --- what a scope may say ----------------------------------------------------------------------------------

_ABSOLUTE = re.compile(r"[/~]|[A-Za-z]:(?:[/\\]|\Z)")


def glob_error(pattern: str) -> str | None:
    """Why a line of a scope is no pattern, as a clause (`it is empty`); None when it is one."""
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


def is_absolute_pattern(pattern: str) -> bool:
    """Whether `pattern`, after its `!` and with braces expanded, starts at a root, a home or a drive."""
    body = pattern.removeprefix("!")
    try:
        return any(_ABSOLUTE.match(expanded) for expanded in expand_braces(body))
    except GlobError:
        return _ABSOLUTE.match(body) is not None


# --- scopes ------------------------------------------------------------------------------------------------

# Folded spelling. Neither the root, nor what is no normalised path, nor git's and Remit's own folders.
_OUT_OF_SCOPE = re.compile(r"(?:\A|/)(?:\.{0,2}|\.git|\.orchestration)(?:/|\Z)")


class _PatternRun(Struct, frozen=True):
    """Neighbouring patterns that all include, or all exclude. `folded` is for the folded path, if asked."""

    included: bool
    exact: re.Pattern[str]
    folded: re.Pattern[str]


@lru_cache(maxsize=2048)
def _expand_line(pattern: str, case: _Case) -> tuple[_Components, ...]:
    """What one line of a scope, without its `!`, covers. Raises GlobError."""
    return tuple(
        covered for expanded in expand_braces(pattern) for covered in _anchor_components(_parse(expanded, case))
    )


def _anchor_components(components: _Components) -> tuple[_Components, ...]:
    kept = tuple(component for component in components if component not in ((), _DOT))
    below = (*kept, _ANY_DEPTH)
    if all(isinstance(token, _CharSet) and token.literal for component in kept for token in component):
        return (kept, below) if kept else (below,)
    return (kept,) if components[-1] else (below,)


def _is_usable(pattern: str) -> bool:
    return glob_error(pattern) is None and not is_absolute_pattern(pattern)


def _compile_alternation(patterns: list[str], case: _Case) -> re.Pattern[str]:
    return _compile_paths(dict.fromkeys(path for pattern in patterns for path in _expand_line(pattern, case)))


@lru_cache(maxsize=1024)
def _compile_runs(patterns: tuple[str, ...], *, fold: bool = False) -> tuple[_PatternRun, ...]:
    """The runs of a scope, last first; none where an exclusion is unusable, so that it fails closed."""
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
    """The `owned_scope` of an intent: patterns from the workspace root, of which the last match wins.

    `*` and `?` stay in a folder and `**` crosses; `{a,b}` expands; a plain name covers that path and all
    below it, and a pattern with wildcards that ends in `/` all below; `!` excludes. An unusable pattern
    matches nothing; with an unusable exclusion the whole scope matches nothing.
    """

    patterns: tuple[str, ...]

    def matches(self, path: str, *, fold: bool = False) -> bool:
        """Whether a RepoPath is in scope.

        With `fold` a pattern matches that matches either spelling, as written or folded. The root, and all
        in a `.git` or `.orchestration` of any case, is in no scope.
        """
        folded = repopath.fold_case(path)
        if _OUT_OF_SCOPE.search(folded):
            return False
        for run in _compile_runs(self.patterns, fold=fold):
            if run.exact.fullmatch(path) or run.folded.fullmatch(folded):
                return run.included
        return False


# --- what two scopes share ---------------------------------------------------------------------------------

_Symbol: TypeAlias = _CharSet | Literal["*", "**", "folders", "in folder"]
_Moves: TypeAlias = list[tuple[_CharSet, int]]
_Automaton: TypeAlias = list[tuple[_Moves, bool]]

_FILLERS = "xyzwvq0"
_MAX_STEPS = 200_000
_SPELLINGS = 6


def find_overlap(a: Scope, b: Scope) -> str | None:
    """A path that is in both scopes, or None where none was found.

    What is returned is in both. None is proof only where neither scope excludes anything and neither is
    huge: the search is bounded.
    """
    excluded = "".join(line for line in a.patterns + b.patterns if line.startswith("!"))
    filler = next((letter for letter in _FILLERS if letter not in excluded), "x")
    budget = iter(range(_MAX_STEPS))
    pairs = [pair for pair in product(_inclusions(a.patterns), _inclusions(b.patterns)) if _may_overlap(*pair)]
    # First with stars that stand for something: `src/x.py` explains more than `src/.py`.
    for at_least in (1, 0):
        for mine, theirs in pairs:
            automata = _automaton(mine.components, at_least), _automaton(theirs.components, at_least)
            for path in _shared_paths(*automata, filler, budget):
                if a.matches(path) and b.matches(path):
                    return path
    return None


class _Inclusion(Struct, frozen=True):
    """One pattern of a scope; `prefix` is what it starts with before any wildcard."""

    components: _Components
    prefix: str


@lru_cache(maxsize=1024)
def _inclusions(patterns: tuple[str, ...]) -> tuple[_Inclusion, ...]:
    if not _compile_runs(patterns):
        return ()
    usable = [line for line in patterns if not line.startswith("!") and _is_usable(line)]
    return tuple(_Inclusion(path, _prefix(path)) for line in usable for path in _expand_line(line, "exact"))


def _prefix(components: _Components) -> str:
    literals = ((s.literal or "") if isinstance(s, _CharSet) else "" for s in _symbols(components, 0))
    return "".join(takewhile(bool, literals))


def _may_overlap(a: _Inclusion, b: _Inclusion) -> bool:
    return a.prefix.startswith(b.prefix) or b.prefix.startswith(a.prefix)


def _symbols(components: _Components, at_least: int) -> Iterator[_Symbol]:
    for index, component in enumerate(components):
        last = index == len(components) - 1
        if component == _ANY_DEPTH:
            yield from ("**",) if last else ("folders", "in folder")
            continue
        for part in component:
            if part == "*":
                yield from [_ANY_NAME_CHAR] * at_least
            yield part
        if not last:
            yield _SLASH


@lru_cache(maxsize=2048)
def _automaton(components: _Components, at_least: int) -> _Automaton:
    """For each place in a pattern: what may come next and lead where, and whether the path may end."""
    symbols = list(_symbols(components, at_least))
    return [_automaton_state(symbols, at) for at in range(len(symbols) + 1)]


def _automaton_state(symbols: list[_Symbol], at: int) -> tuple[_Moves, bool]:
    moves: _Moves = []
    while at < len(symbols):
        symbol = symbols[at]
        if isinstance(symbol, _CharSet):
            return [*moves, (symbol, at + 1)], False
        if symbol == "in folder":
            return [*moves, (_ANY_NAME_CHAR, at), (_SLASH, at - 1)], False
        if symbol == "folders":
            moves.append((_ANY_NAME_CHAR, at + 1))
            at += 2
            continue
        moves.append((_ANY_NAME_CHAR if symbol == "*" else _ANY_CHAR, at))
        at += 1
    return moves, True


def _shared_paths(a: _Automaton, b: _Automaton, filler: str, budget: Iterator[int]) -> Iterator[str]:
    """Paths that both patterns match, shortest first, a few spellings for each pair of places."""
    queue = [(0, 0, "")]
    spellings: dict[tuple[int, int, bool], set[str]] = {}
    for at_a, at_b, text in queue:
        (moves_a, ends_a), (moves_b, ends_b) = a[at_a], b[at_b]
        starts = not text or text.endswith("/")
        if ends_a and ends_b and not starts:
            yield text
        for next_a, next_b, char in _shared_moves(moves_a, moves_b, filler, budget):
            known = spellings.setdefault((next_a, next_b, char == "/"), set())
            if (starts and char == "/") or text + char in known or len(known) >= _SPELLINGS:
                continue
            known.add(text + char)
            queue.append((next_a, next_b, text + char))


def _shared_moves(a: _Moves, b: _Moves, filler: str, budget: Iterator[int]) -> Iterator[tuple[int, int, str]]:
    for one, next_a in a:
        for other, next_b in b:
            if next(budget, None) is None:
                return
            for char in _shared_characters(one, other, filler):
                yield next_a, next_b, char


def _shared_characters(a: _CharSet, b: _CharSet, filler: str) -> list[str]:
    """A character that is in both sets, and the slash if that is too."""
    for one, other in ((a, b), (b, a)):
        if one.literal is not None:
            return [one.literal] if other.contains(one.literal) else []
    edges = {ord(edge) for one in (a, b) for pair in one.ranges for edge in pair}
    codes = sorted({code + step for code in edges for step in (-1, 0, 1)})
    near = [chr(code) for code in codes if 0 < code < 0xD800 or 0xDFFF < code < 0x110000]
    shared = [char for char in (filler, *near, "/") if a.contains(char) and b.contains(char)]
    name = next((char for char in shared if char != "/"), None)
    return ([name] if name else []) + (["/"] if "/" in shared else [])
