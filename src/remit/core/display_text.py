"""Showing text that somebody else wrote."""

import re
import unicodedata

CONTROL_CHARS = (
    "\x1b\\[(?:[0-2]|[39][0-7])(?:;(?:[0-2]|[39][0-7]))*m|([\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\U000e0000-\U000e007f])"
)
"""What moves the cursor, speaks to the terminal, turns text round or cannot be seen; before it, colours as they are.
This and the next are compiled when they are needed: few commands come to it.
"""

INVISIBLE_CHARS = "[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
"""The same, as far as JSON does not write it as an escape anyhow."""


def sanitise_text(text: str) -> str:
    """`text` of several lines for a terminal: what would do something there stands as an escape, but for colours.

    The last thing before text is printed. What others wrote goes through `shown` before, which keeps it on its line.
    """
    return re.sub(CONTROL_CHARS, lambda found: f"\\x{ord(found[1]):02x}" if found[1] else found[0], text)


def escape_json(text: str) -> str:
    """The same JSON, with what a terminal would obey, or nobody sees, as escapes."""
    return re.sub(INVISIBLE_CHARS, lambda found: escape_json_char(found[0]), text)


def escape_json_char(character: str) -> str:
    """As `json.dumps` writes it, which the start of a command has no time to load: one escape, or a surrogate pair."""
    raw = character.encode("utf-16-be")
    return "".join(f"\\u{high:02x}{low:02x}" for high, low in zip(raw[::2], raw[1::2], strict=True))


def sanitise_line(text: str, limit: int = 300) -> str:
    """`text` on one line, without characters that move the cursor or hide others, cut at `limit`."""
    if len(text) <= limit and text.isprintable():
        return text
    clean = "".join(
        c if unicodedata.category(c)[0] != "C" and c not in "\u2028\u2029" else f"\\x{ord(c):02x}"
        for c in text[: limit + 1]
    )
    return clean if len(clean) <= limit else clean[:limit] + "…"


def sanitise_full_line(text: str) -> str:
    """All of `text` on one line: for what somebody says yes to. An escape is longer than what it stands for."""
    return sanitise_line(text, 10 * len(text))


def quote_path(path: str) -> str:
    """`path` as text that any file can hold: one that is not UTF-8 is written the way git quotes it.

    Bytes that are not UTF-8 come in as lone surrogates; no JSON and no database takes those.
    """
    if path.isascii() or escape_surrogates(path) == path:
        return path
    raw = path.encode("utf-8", "surrogateescape")
    return '"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\' else f"\\{b:03o}" for b in raw) + '"'


def escape_surrogates(text: str) -> str:
    """`text` with each lone surrogate as a visible escape, so that it can be encoded."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
