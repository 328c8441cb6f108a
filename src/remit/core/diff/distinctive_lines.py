"""Distinctive words and lines, specific enough to match authors; `}`, `try:` and `return None` are common lines."""

import re
from collections.abc import Container
from functools import lru_cache
from zlib import crc32

WORD = re.compile(r"[^\W\d_]\w*|\d+")

CACHE_SIZE = 65_536
"""Cached lines: a long history asks about the same lines again and again."""

MIN_DISTINCTIVE_CHARS = 12

COMMON_WORDS = frozenset(
    """
    abstract and any args array as assert async await begin bool boolean break byte case catch char class cls cmd const
    continue data debug def default del delete do done double elif else elseif end enum err error except exception exit
    export extends extern false final finally float fmt for foreach from fn func function get global go goto id if impl
    implements import in include index info init instanceof int integer interface is item items key kwargs lambda len
    let list log logger logging long main map match mod module msg mut name namespace new next nil none not null number
    object of ok or os out package pass path print private protected pub public raise range rc re ref request require
    response result ret return self set short should size static std str string struct super switch sys test then this
    throw throws to trait true try tuple type typedef typeof undefined union unless unsigned until use using val value
    values var vec virtual void volatile when where while with yield
    """.split()  # noqa: SIM905  ninety quoted words are harder to read
)
"""Keywords and frequent words of many languages."""

COMMON_WORD_BYTES = frozenset(word.encode() for word in COMMON_WORDS)
LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
SEPARATOR_BYTES = bytes(set(range(256)) - {*LETTERS, *b"0123456789_"})
SEPARATORS_TO_SPACES = bytes.maketrans(SEPARATOR_BYTES, b" " * len(SEPARATOR_BYTES))


@lru_cache(CACHE_SIZE)
def is_distinctive_word(word: str) -> bool:
    return word.lower() not in COMMON_WORDS


@lru_cache(CACHE_SIZE)
def find_distinctive_words(line: bytes) -> tuple[str, ...]:
    return tuple(filter(is_distinctive_word, WORD.findall(line.decode("utf-8", "replace"))))


def has_unknown_word(line: bytes, checksums: Container[int]) -> bool:
    """Return whether a quick look finds a distinctive word without its CRC-32 in `checksums`.

    Quick: only ASCII lines, and words beginning with a letter.
    """
    if not line.isascii():
        return False
    for word in line.translate(SEPARATORS_TO_SPACES).split():
        if crc32(word) not in checksums and word[0] in LETTERS and word.lower() not in COMMON_WORD_BYTES:
            return True
    return False


def has_distinctive_word(line: bytes) -> bool:
    return has_unknown_word(line, ()) or bool(find_distinctive_words(line))  # a glance is enough for most


@lru_cache(CACHE_SIZE)
def is_distinctive_line(line: bytes) -> bool:
    """Return whether the distinctive words of a line make coincidence unlikely.

    Characters outside ASCII count as their UTF-8 bytes.
    """
    return sum(len(word.encode("utf-8", "replace")) for word in find_distinctive_words(line)) >= MIN_DISTINCTIVE_CHARS
