"""Random scopes, and the answer of brute force: every path of a small alphabet, up to a length."""

import random
from itertools import product

from remit.core.scope.path_patterns import Scope, fold_case

WORDS = ["a", "b", "ab", "ba", "A", ".a", "c"]
NAMES = [
    *WORDS,
    *["*", "*", "a*", "*b", "*.a", "?", "a?", "?b", "[ab]", "[!a]", "[a-b]c", "[A-Z]", "[^.]*", "{a,b}", "{a,bc}*"],
    *["a{,b}", "\\a", "[[:alpha:]]", "[[:upper:]]b", "[]a]", "**"],
]
FULL_ALPHABET = "abc./"
FOLDING_ALPHABET = "abAB/"


def make_scope(draw: random.Random) -> Scope:
    """Return a scope of one to four lines, a third of which exclude."""
    lines = [make_pattern(draw) for _ in range(draw.choice([1, 1, 2, 2, 3, 4]))]
    return Scope((lines[0], *(("!" if draw.random() < 0.33 else "") + line for line in lines[1:])))


def make_pattern(draw: random.Random) -> str:
    names = [draw.choice(NAMES) for _ in range(draw.choice([1, 1, 2, 2, 3]))]
    if draw.random() < 0.25:
        names.insert(draw.randrange(len(names) + 1), "**")
    return "/".join(names) + ("/" if draw.random() < 0.08 else "")


def list_paths(alphabet: str, length: int) -> list[str]:
    """Return every path of at most `length` characters, shortest first, also those in no scope."""
    return ["".join(chars) for size in range(1, length + 1) for chars in product(alphabet, repeat=size)]


def select_matches(scope: Scope, paths: list[str], *, fold: bool) -> set[str]:
    """Return the paths in a scope; with `fold` in their folded spelling, by which files are the same."""
    matched = (path for path in paths if scope.matches(path, fold=fold))
    return {fold_case(path) for path in matched} if fold else set(matched)
