"""Untrusted input: text sanitised, truncated and escaped for terminals, logs and JSON; JSON of the expected type."""

import re
import unicodedata
from typing import Any, cast

COLOURS = "\x1b\\[(?:[0-2]|[39][0-7])(?:;(?:[0-2]|[39][0-7]))*m|"
CONTROL_CHARS = (
    "([\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\U000e0000-\U000e007f])"
)
"""Characters that move the cursor, control the terminal, reverse text or are invisible. Colour sequences, where they
may stay, match first.

Compiled on use, like INVISIBLE_CHARS: few commands need the pattern.
"""
INVISIBLE_CHARS = "[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
"""Invisible characters that JSON does not escape by itself."""


def sanitise_text(text: str, *, keeps_colours: bool = True) -> str:
    """Escape control characters in multi-line text for a terminal, keeping colours unless none are Remit's own.

    Applied last before printing. Untrusted parts pass through `sanitise_line` earlier, to keep each on its line.
    """
    pattern = COLOURS + CONTROL_CHARS if keeps_colours else CONTROL_CHARS
    return re.sub(pattern, lambda match: f"\\x{ord(match[1]):02x}" if match[1] else match[0], text)


def escape_json(text: str) -> str:
    """Escape characters in JSON that a terminal would obey or hide."""

    def escape(match: re.Match[str]) -> str:
        raw = match[0].encode("utf-16-be").hex()  # without `json`, which makes commands start slower
        return "".join(f"\\u{raw[at : at + 4]}" for at in range(0, len(raw), 4))

    return re.sub(INVISIBLE_CHARS, escape, text)


def encode_json(value: object) -> str:
    """Return a value as JSON that a terminal neither obeys nor hides. Bytes of names that are no text are escapes."""
    import msgspec  # commands that print no JSON start without it

    try:
        encoded = msgspec.json.encode(value)
    except UnicodeEncodeError:
        encoded = msgspec.json.encode(escape_all_surrogates(msgspec.to_builtins(value)))
    return escape_json(encoded.decode())


def escape_all_surrogates(value: object) -> object:
    if isinstance(value, str):
        return escape_surrogates(value)
    if isinstance(value, dict):
        pairs = cast("dict[object, object]", value).items()
        return {escape_surrogates(str(key)): escape_all_surrogates(inner) for key, inner in pairs}
    if isinstance(value, list):
        return [escape_all_surrogates(inner) for inner in cast("list[object]", value)]
    return value


def sanitise_line(text: str, limit: int = 300) -> str:
    """Return `text` on a single line without control or invisible characters, truncated at `limit`."""
    if len(text) <= limit and text.isprintable():
        return text
    clean = "".join(
        c if unicodedata.category(c)[0] != "C" and c not in "\u2028\u2029" else f"\\x{ord(c):02x}"
        for c in text[: limit + 1]
    )
    return clean if len(clean) <= limit else clean[:limit] + "…"


def quote_text(text: str, limit: int, max_lines: int = 200) -> str:
    """Return text of somebody else as quoted lines, with control characters as codes, cut at a number of characters."""
    lines = text[: limit + 1].splitlines()
    shown = [f"> {sanitise_line(line, limit)}".rstrip() for line in lines[:max_lines]]
    return "\n".join([*shown, "> …"] if len(text) > limit or len(lines) > max_lines else shown)


def sanitise_full_line(text: str) -> str:
    return sanitise_line(text, 10 * len(text))


def quote_path(path: str) -> str:
    """Return `path` as encodable text; paths outside UTF-8 are quoted as git does.

    Bytes outside UTF-8 arrive as lone surrogates, which neither JSON nor databases accept.
    """
    if path.isascii() or escape_surrogates(path) == path:
        return path
    return quote_bytes(path.encode("utf-8", "surrogateescape")).decode()


def quote_bytes(raw: bytes) -> bytes:
    """Return bytes in git's C-style quoting, each beyond printable ASCII as three octal digits."""
    return b'"' + re.sub(rb'[^ -~]|["\\]', lambda match: b"\\%03o" % match[0][0], raw) + b'"'


def unquote_path(name: bytes) -> str:
    """Return a path from git's C-style quoting: three octal digits, a letter, or the character itself."""
    letters = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}

    def unescape(found: re.Match[bytes]) -> bytes:
        char = found[1]
        return bytes([int(char, 8) & 255]) if len(char) == 3 else letters.get(char, char)

    if name.startswith(b'"') and name.endswith(b'"') and len(name) > 1:
        name = re.sub(rb"(?s)\\([0-7]{3}|.)", unescape, name[1:-1])
    return name.decode("utf-8", "surrogateescape")


def escape_surrogates(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def as_object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def as_array(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def as_objects(value: object) -> list[dict[str, Any]]:
    return [as_object(item) for item in as_array(value)]
