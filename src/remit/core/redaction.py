"""Taking secrets out of what is written anywhere: the shapes that secrets are known by, and names that say so.

Every pattern has bounded repeats, so that no text takes long.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from operator import is_
from typing import Any, TypeVar, cast

from msgspec import UNSET, Struct
from msgspec.structs import astuple, replace

from remit.core.secret_places import HINT, NO_PLACE, PLACES, SPECIAL

MASK = "[redacted]"
TEXT_CHARS = 16_384
"""No longer text is written: what stands after it would have to be searched, and says little."""

CUT = " [cut]"

PATTERNS = (
    r"\b(?:sk|pk|rk)-(?:ant-|proj-|live-|test-|svcacct-|or-v1-)?[A-Za-z0-9_-]{16,256}",
    r"\b(?:sk|pk|rk|whsec)_(?:live_|test_)?[A-Za-z0-9]{16,256}",
    r"\bgh[pousr]_[A-Za-z0-9]{20,256}",
    r"\bgithub_pat_[A-Za-z0-9_]{20,256}",
    r"\bgl(?:pat|ptt|dt|rt|cbt|soat)-[A-Za-z0-9_.-]{16,256}",
    r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b",
    r"\bAIza[A-Za-z0-9_-]{30,64}",
    r"\bya29\.[A-Za-z0-9_-]{20,1024}",
    r"\bGOCSPX-[A-Za-z0-9_-]{20,64}",
    r"\bxox[abeoprs]-[A-Za-z0-9-]{10,512}",
    r"\bxapp-[A-Za-z0-9-]{10,512}",
    r"https://hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9_/-]{20,200}",
    r"\bnpm_[A-Za-z0-9]{30,64}",
    r"\bpypi-[A-Za-z0-9_-]{50,1024}",
    r"\bhf_[A-Za-z0-9]{30,64}",
    r"\bdop_v1_[a-f0-9]{60,70}",
    r"\bSG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,128}",
    r"\bAGE-SECRET-KEY-1[A-Z0-9]{50,70}",
    r"\beyJ[A-Za-z0-9_-]{10,4000}\.[A-Za-z0-9_-]{10,4000}\.[A-Za-z0-9_-]{0,4000}",
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----[\s\S]{0,16384}?"
    r"(?:-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
)
TELLING = (
    r"(?:pass(?:word|wd|phrase)|pwd(?!['\"]?\s{0,4}[=:]\s{0,4}['\"]?/)|secret|token|api[_-]?key|access[_-]?key|account[_-]?key|private[_-]?key|"
    r"auth[_-]?key|signing[_-]?key|encryption[_-]?key|credential)s?"
)
ASSIGNED = (
    rf"(?P<name>{TELLING}[A-Za-z0-9_]{{0,64}}"
    r"['\"]?\s{0,16}[=:]\s{0,16}['\"]?)(?!\[redacted\])(?P<value>[^\s'\"&;|]{6,4096})"
)
QUOTED = (
    rf"(?P<name>{TELLING}[A-Za-z0-9_]{{0,64}}['\"]?\s{{0,16}}[=:]\s{{0,16}}"
    r"(?P<quote>['\"]))(?!\[redacted\])(?P<value>[^'\"\n\\]{6,1024})(?=(?P=quote))"
)
IN_URL = r"(?P<before>\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{0,200}:)(?!\[redacted\])(?P<password>[^\s/@]{1,200})(?=@)"
BEARER = r"(?P<scheme>\b(?:Bearer|Basic|token)\s{1,16})(?P<credential>[A-Za-z0-9+/=._~-]{12,4096})"
RANDOM = (
    r"(?P<name>\b[A-Za-z_][A-Za-z0-9_.-]{1,64}['\"]?\s{0,4}[=:]\s{0,4}['\"]?)"
    r"(?P<value>[A-Za-z0-9+/_=-]{24,512})(?![A-Za-z0-9+/_=.-])"
)
"""A name, and a value that may be drawn by chance: whether it is, `looks_drawn` tells."""

SHAPES = re.compile("|".join((*PATTERNS, *SPECIAL)))
NAMED = (
    re.compile(QUOTED, re.IGNORECASE),
    re.compile(ASSIGNED, re.IGNORECASE),
    re.compile(IN_URL),
    re.compile(BEARER, re.IGNORECASE),
)
ASSIGNMENT = re.compile(RANDOM)
KEY_NAME = re.compile(rf"[A-Za-z0-9_.-]{{0,64}}{TELLING}", re.IGNORECASE)
DIGEST = re.compile(r"(?:sha(?:1|224|256|384|512)|md5|blake[23][bs]?)[-:=][A-Za-z0-9+/=_-]*", re.IGNORECASE)
NO_SECRET = re.compile(
    r"(?:sha\d*|hash|digest|integrity|checksum|etag|commit|revision|rev|base64|root|leaf)\W*\Z", re.I
)

PLAIN = re.compile(r"(?:sha256:)?[0-9a-f-]{1,80}")
"""Ids and hashes, most of the texts of a record: no shape of a secret is without a sign of another kind."""

CLEAN: set[str] = set()
"""Short texts that hold no secret: a record says the same names again and again. It may be emptied at any time."""

CLEAN_MOST = 4096
CLEAN_CHARS = 128

DRAWN_BITS = 3.7
"""Shannon entropy a character from which a value of mixed letters and digits is taken for drawn by chance: words and
identifiers of that length lie below it."""

PLAIN_VALUES = (int, float)

T = TypeVar("T", bound=Struct)


def redact(text: str, extra: Sequence[re.Pattern[str]] = ()) -> str:
    """`text` with what looks like a secret replaced by `[redacted]`; what is around it stays readable.

    `extra` are a team's own patterns, masked whole.
    """
    if PLAIN.fullmatch(text) or text in CLEAN:
        return masked(text, extra)
    clean = taken_out(text)
    if clean == text and len(text) <= CLEAN_CHARS:
        if len(CLEAN) >= CLEAN_MOST:
            CLEAN.clear()
        CLEAN.add(text)
    return masked(clean, extra)


def taken_out(text: str) -> str:
    """`text` without what looks like a secret to anybody."""
    clean = SHAPES.sub(MASK, text)
    if NO_PLACE.fullmatch(clean):
        return clean
    for pattern in (*PLACES, *NAMED) if HINT.search(clean) else NAMED:
        clean = pattern.sub(lambda found: found[1] + MASK, clean)
    return ASSIGNMENT.sub(_unless_drawn, clean)


def masked(text: str, patterns: Sequence[re.Pattern[str]]) -> str:
    """`text` without what a team's own patterns match."""
    for pattern in patterns:
        text = pattern.sub(MASK, text)
    return text


def _unless_drawn(found: re.Match[str]) -> str:
    if NO_SECRET.search(found["name"]) or not looks_drawn(found["value"]):
        return found[0]
    return found["name"] + MASK


def looks_drawn(value: str) -> bool:
    """Whether a value mixes capitals, small letters and digits as chance does; hashes in hex and paths do not."""
    mixed = any(map(str.isupper, value)) and any(map(str.islower, value)) and sum(map(str.isdigit, value)) > 1
    if not mixed or DIGEST.match(value) or _is_path(value):
        return False
    counts = Counter(value).values()
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts) >= DRAWN_BITS


def _is_path(value: str) -> bool:
    """Whether there are as many separators as words have: base64 has one slash in 64 characters."""
    return len(re.findall(r"[/_-]", value)) * 10 >= len(value)


def redact_value(value: Any, extra: Sequence[re.Pattern[str]] = ()) -> Any:
    """A JSON value without secrets, in its keys too; a text under a name such as `password` goes whole.

    Texts are cut at TEXT_CHARS, and what UTF-8 cannot hold is replaced.
    """
    match value:
        case str():
            return _text(value, extra)
        case Struct():
            return redact_struct(value, extra)
        case tuple():
            return _all(cast("tuple[Any, ...]", value), extra)
        case dict():
            return {_text(str(k), extra): _under(str(k), v, extra) for k, v in cast("dict[object, Any]", value).items()}
        case list():
            return [redact_value(found, extra) for found in cast("list[Any]", value)]
        case _:
            return value


def _text(text: str, extra: Sequence[re.Pattern[str]]) -> str:
    if not extra and text.isascii() and (text in CLEAN or PLAIN.fullmatch(text)):
        return text
    cut = text[:TEXT_CHARS] + CUT if len(text) > TEXT_CHARS + len(CUT) else text
    clean = redact(cut, extra)
    return clean if clean.isascii() else clean.encode("utf-8", "replace").decode()


def _all(values: tuple[Any, ...], extra: Sequence[re.Pattern[str]]) -> tuple[Any, ...]:
    clean = [redact_value(found, extra) for found in values]
    return values if all(map(is_, clean, values)) else tuple(clean)


def _under(key: str, value: Any, extra: Sequence[re.Pattern[str]]) -> Any:
    if isinstance(value, str) and len(value) >= 6 and KEY_NAME.fullmatch(key):
        return MASK
    return redact_value(value, extra)


def redact_struct(value: T, extra: Sequence[re.Pattern[str]] = ()) -> T:
    """The same struct with every text in it redacted."""
    changed: dict[str, Any] = {}
    for name, found in zip(value.__struct_fields__, astuple(value), strict=True):
        if found is None or found is UNSET or isinstance(found, PLAIN_VALUES):
            continue
        clean = redact_value(found, extra)
        if clean is not found and clean != found:
            changed[name] = clean
    return replace(value, **changed) if changed else value


PATTERNS_MOST = 32
PATTERN_CHARS = 200
WAYS_MOST = 4096
UNBOUNDED = 256
"""What `*`, `+` and `{n,}` of a team's pattern may repeat at most."""

_TOKEN = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?:|[()|]|\{(?P<low>\d*)(?P<comma>,?)(?P<high>\d*)\}|[*+?]\??|.", re.S
)


_SET_WORDS = re.compile(r"(?<!\\)\[|--|&&|~~|\|\|")


class PatternRefused(ValueError):
    """A pattern of `[redact] patterns` that cannot be used."""

    def __init__(self, pattern: str, why: str) -> None:
        super().__init__(f"[redact] patterns: {pattern[:PATTERN_CHARS]!r} {why}")
        self.why = why


ANY_CASE = "(?i)"


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """A team's pattern, with its open repeats bounded. Raises PatternRefused."""
    return bounded_pattern(pattern)[0]


@lru_cache(maxsize=64)
def bounded_pattern(pattern: str, most: int = WAYS_MOST) -> tuple[re.Pattern[str], int]:
    """Likewise, and the ways in which it can match from one place, `most` of them. Raises PatternRefused.

    Allowed is what can be told to be quick: literals, classes, groups `(?:…)`, alternatives, repeats. A group that is
    repeated may hold no repeat and no alternatives; the ways to match from one place are at most `most`. A leading
    `(?i)` takes capital and small letters alike.
    """
    if not pattern or len(pattern) > PATTERN_CHARS:
        raise PatternRefused(pattern, f"has {len(pattern)} characters; expected 1 to {PATTERN_CHARS}")
    bounded, ways = _bounded(pattern.removeprefix(ANY_CASE), most)
    try:
        compiled = re.compile(bounded, re.IGNORECASE if pattern.startswith(ANY_CASE) else 0)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternRefused(pattern, f"is no regular expression: {error}") from error
    if compiled.groups or compiled.fullmatch(""):
        raise PatternRefused(pattern, "matches nothing at all, or captures: write `(?:…)` and at least one character")
    return compiled, ways


def _bounded(pattern: str, most: int) -> tuple[str, int]:
    """The pattern with its open repeats bounded, once it is known to be quick, and the ways it can match in."""
    out: list[str] = []
    ways = 1
    groups: list[bool] = []
    """Of each open group, whether it varies in itself."""
    closed: bool | None = None
    """Of the group that ended just before, whether it varied."""
    for token in _TOKEN.finditer(pattern):
        text = token[0]
        low, high = _repeat(token)
        if high is not None:
            if out[-1:] == ["("]:
                raise PatternRefused(pattern, f"has a group that is not taken: write `(?:…)`; {ANY_CASE} stands first")
            if (closed and high > 1) or not out or out[-1] in ("(?:", "|"):
                raise PatternRefused(pattern, "repeats a group that varies in itself, which can take for ever")
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
            raise PatternRefused(pattern, "refers back to a group")
        elif text == "[" or (len(text) > 1 and _SET_WORDS.search(text, 1)):
            raise PatternRefused(
                pattern, "has a class that does not end, or is read otherwise by a later Python: escape"
            )
        else:
            closed = None
        out.append(text)
    if ways > most:
        raise PatternRefused(pattern, f"can match in {ways} ways from one place; the most is {most}: bound it")
    return "".join(out), ways


def _repeat(token: re.Match[str]) -> tuple[int, int | None]:
    """How often what stands before is repeated; None for what is no repeat."""
    text = token[0]
    if text[0] in "*+?":
        return (1 if text[0] == "+" else 0, 1 if text[0] == "?" else UNBOUNDED)
    if text[0] == "{" and len(text) > 2 and token["low"]:
        low = int(token["low"])
        high = int(token["high"]) if token["high"] else low if not token["comma"] else max(low, UNBOUNDED)
        return low, high
    return 0, None
