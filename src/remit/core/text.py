"""Showing text that somebody else wrote."""

import unicodedata


def shown(text: str, limit: int = 300) -> str:
    """`text` on one line, without characters that move the cursor or hide others, cut at `limit`."""
    if len(text) <= limit and text.isprintable():
        return text
    clean = "".join(c if unicodedata.category(c)[0] != "C" else f"\\x{ord(c):02x}" for c in text[: limit + 1])
    return clean if len(clean) <= limit else clean[:limit] + "…"


def quoted_path(path: str) -> str:
    """`path` as text that any file can hold: one that is not UTF-8 is written the way git quotes it.

    Bytes that are not UTF-8 come in as lone surrogates; no JSON and no database takes those.
    """
    if path.isascii() or encodable(path) == path:
        return path
    raw = path.encode("utf-8", "surrogateescape")
    return '"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:03o}" for b in raw) + '"'


def encodable(text: str) -> str:
    """`text` with each lone surrogate as a visible escape, so that it can be encoded."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
