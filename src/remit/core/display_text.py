"""Untrusted text for terminals, logs and JSON: sanitised, truncated, escaped."""

import re
import unicodedata

CONTROL_CHARS = (
    "\x1b\\[(?:[0-2]|[39][0-7])(?:;(?:[0-2]|[39][0-7]))*m|([\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\U000e0000-\U000e007f])"
)
"""Characters that move the cursor, control the terminal, reverse text or are invisible; colour sequences match first
and stay.

Compiled on use, like INVISIBLE_CHARS: few commands need the pattern.
"""

INVISIBLE_CHARS = "[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
"""Invisible characters that JSON does not escape by itself."""


def sanitise_text(text: str) -> str:
    """Escape control characters in multi-line text for a terminal, keeping colours.

    Applied last before printing. Untrusted parts pass through `sanitise_line` earlier, to keep each on its line.
    """
    return re.sub(CONTROL_CHARS, lambda match: f"\\x{ord(match[1]):02x}" if match[1] else match[0], text)


def escape_json(text: str) -> str:
    """Escape characters in JSON that a terminal would obey or hide."""
    return re.sub(INVISIBLE_CHARS, lambda match: escape_json_char(match[0]), text)


def escape_json_char(character: str) -> str:
    """Return a JSON escape, or a surrogate pair, without importing `json`: commands start faster."""
    raw = character.encode("utf-16-be")
    return "".join(f"\\u{high:02x}{low:02x}" for high, low in zip(raw[::2], raw[1::2], strict=True))


def sanitise_line(text: str, limit: int = 300) -> str:
    """Return `text` on a single line without control or invisible characters, truncated at `limit`."""
    if len(text) <= limit and text.isprintable():
        return text
    clean = "".join(
        c if unicodedata.category(c)[0] != "C" and c not in "\u2028\u2029" else f"\\x{ord(c):02x}"
        for c in text[: limit + 1]
    )
    return clean if len(clean) <= limit else clean[:limit] + "…"


def sanitise_full_line(text: str) -> str:
    """Return the whole text on a single line, for approvals. An escape is longer than its character."""
    return sanitise_line(text, 10 * len(text))


def quote_path(path: str) -> str:
    """Return `path` as encodable text; paths outside UTF-8 are quoted as git does.

    Bytes outside UTF-8 arrive as lone surrogates, which neither JSON nor databases accept.
    """
    if path.isascii() or escape_surrogates(path) == path:
        return path
    raw = path.encode("utf-8", "surrogateescape")
    return '"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:03o}" for b in raw) + '"'


def escape_surrogates(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
