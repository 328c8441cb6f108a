"""Regular expressions of bounded cost, compiled from untrusted text.

Open repeats get a limit, and constructs that backtrack without bound are refused.
"""

import re
from functools import lru_cache

MAX_PATTERNS = 32
MAX_PATTERN_CHARS = 200
MAX_WAYS = 4096
OPEN_REPEAT_LIMIT = 256
"""Maximum repeats of `*`, `+` and `{n,}` in a team's pattern."""
_TOKEN = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?:|[()|]|\{(?P<low>\d*)(?P<comma>,?)(?P<high>\d*)\}|[*+?]\??|.", re.S
)
_SET_WORDS = re.compile(r"(?<!\\)\[|--|&&|~~|\|\|")


class PatternRefused(ValueError):
    """Error for an unusable pattern in `[redact] patterns`."""

    def __init__(self, pattern: str, why: str) -> None:
        super().__init__(f"[redact] patterns: {pattern[:MAX_PATTERN_CHARS]!r} {why}")
        self.why = why


CASELESS_PREFIX = "(?i)"


def compile_team_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a team's pattern with its open repeats bounded. Raises PatternRefused."""
    return compile_bounded(pattern)[0]


@lru_cache(maxsize=64)
def compile_bounded(pattern: str, max_ways: int = MAX_WAYS) -> tuple[re.Pattern[str], int]:
    """Compile a pattern and return its number of ways to match from a position. Raises PatternRefused.

    Accepted: literals, classes, groups `(?:…)`, alternatives, repeats. A repeated group may hold no repeat and no
    alternatives; at most `max_ways` ways to match from a position. A leading `(?i)` ignores case.
    """
    if not pattern or len(pattern) > MAX_PATTERN_CHARS:
        raise PatternRefused(pattern, f"has {len(pattern)} characters; expected 1 to {MAX_PATTERN_CHARS}")
    bounded, ways = _bound_repeats(pattern.removeprefix(CASELESS_PREFIX), max_ways)
    try:
        compiled = re.compile(bounded, re.IGNORECASE if pattern.startswith(CASELESS_PREFIX) else 0)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternRefused(pattern, f"is not a regular expression: {error}") from error
    if compiled.groups or compiled.fullmatch(""):
        raise PatternRefused(pattern, "matches the empty text, or captures: write `(?:…)` and at least one character")
    return compiled, ways


def _bound_repeats(pattern: str, max_ways: int) -> tuple[str, int]:
    """Bound the open repeats of a pattern of known cost; return the pattern and its ways to match."""
    pieces: list[str] = []
    ways = 1
    groups: list[bool] = []  # for each open group: may its length vary?
    closed: bool | None = None  # for the group closed by the previous token: did its length vary?
    for token in _TOKEN.finditer(pattern):
        text = token[0]
        low, high = _read_repeat(token)
        if high is not None:
            if pieces[-1:] == ["("]:
                raise PatternRefused(
                    pattern, f"has an unsupported group: write `(?:…)`; {CASELESS_PREFIX} stands first"
                )
            if (closed and high > 1) or not pieces or pieces[-1] in ("(?:", "|"):
                raise PatternRefused(pattern, "repeats a group of variable length, which can take exponential time")
            ways *= max(1, high - low + 1)
            groups[:] = [True if high > low else varies for varies in groups]
            text = f"{{{low},{high}}}" if text[0] in "*+{" else "?"
            closed = high > low if closed is not None else None
        elif text == "|":
            ways *= 2
            groups[:] = [True for _ in groups]
            closed = None
        elif text in ("(", "(?:"):
            groups.append(False)
            closed = None
        elif text == ")":
            closed = groups.pop() if groups else None
        elif re.fullmatch(r"\\[1-9gk]", text):
            raise PatternRefused(pattern, "has a back reference")
        elif text == "[" or (len(text) > 1 and _SET_WORDS.search(text, 1)):
            raise PatternRefused(
                pattern,
                "has an unclosed class, or a class with a different meaning in later Pythons: escape its characters",
            )
        else:
            closed = None
        pieces.append(text)
    if ways > max_ways:
        raise PatternRefused(
            pattern, f"can match in {ways} ways from one position; at most {max_ways} are allowed: bound its repeats"
        )
    return "".join(pieces), ways


def _read_repeat(token: re.Match[str]) -> tuple[int, int | None]:
    """Return minimum and maximum of a repeat token; None as maximum for any different token."""
    text = token[0]
    if text[0] in "*+?":
        return (1 if text[0] == "+" else 0, 1 if text[0] == "?" else OPEN_REPEAT_LIMIT)
    if text[0] == "{" and len(text) > 2 and token["low"]:
        low = int(token["low"])
        high = int(token["high"]) if token["high"] else low if not token["comma"] else max(low, OPEN_REPEAT_LIMIT)
        return low, high
    return 0, None
