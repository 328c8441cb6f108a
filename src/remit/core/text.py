"""Showing text that somebody else wrote."""

import unicodedata


def shown(text: str, limit: int = 300) -> str:
    """`text` on one line, without characters that move the cursor or hide others, cut at `limit`."""
    clean = "".join(c if unicodedata.category(c)[0] != "C" else f"\\x{ord(c):02x}" for c in text[: limit + 1])
    return clean if len(clean) <= limit else clean[:limit] + "…"
