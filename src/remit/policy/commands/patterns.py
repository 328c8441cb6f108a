"""Words that may become several: braces, and globs as text."""

import re

MAX_WORDS = 64
"""Words that one may become through braces; more is not expanded."""

MAX_BRACED = 1024
"""Characters of a word whose braces are expanded."""

BRACES = re.compile(r"\{([^{}]*)\}")
SEQUENCE = re.compile(r"(0|-?[1-9]\d{0,5})\.\.(0|-?[1-9]\d{0,5})", re.ASCII)
GLOB = re.compile(r"[*?\[\]]")


def escaped(text: str) -> str:
    """The pattern that matches just this text."""
    return re.sub(r"[*?\[]", r"[\g<0>]", text)


def expanded(text: str) -> tuple[str, ...]:
    """The words that `text` becomes by its braces; none where they are too many, or of another kind."""
    if len(text) > MAX_BRACED:
        return ()
    words = [text]
    while (found := next(filter(None, map(first_braces, words)), None)) is not None:
        parts = listed(found[1])
        if not parts or sum(len(parts) if found[0] in word else 1 for word in words) > MAX_WORDS:
            return ()
        words = [word.replace(found[0], part, 1) for word in words for part in (parts if found[0] in word else ("",))]
    return () if any(re.search(r"\{[^}]*[,{]", word) for word in words) else tuple(words)


def first_braces(text: str) -> re.Match[str] | None:
    """The first braces that hold a list, or a sequence, and no other braces."""
    return next((found for found in BRACES.finditer(text) if "," in found[1] or ".." in found[1]), None)


def listed(inside: str) -> tuple[str, ...]:
    """What stands between two braces, taken apart."""
    if "," in inside:
        return tuple(inside.split(","))
    sequence = SEQUENCE.fullmatch(inside)
    if sequence is None:
        return ()
    first, last = int(sequence[1]), int(sequence[2])
    step = 1 if last >= first else -1
    return tuple(map(str, range(first, last + step, step))) if abs(last - first) < MAX_WORDS else ()


def fixed_folder(pattern: str) -> str:
    """The folder that all matches of a pattern lie in: what stands before its first glob character."""
    found = GLOB.search(pattern)
    head = pattern if found is None else pattern[: found.start()]
    return head.rpartition("/")[0]
