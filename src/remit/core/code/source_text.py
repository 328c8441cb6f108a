"""Text of files for constraints: decoded, split at any line end, notebooks as cells."""

import json
import re
from typing import Any

from msgspec import Struct

MAX_BYTES = 4 * 1024 * 1024
"""Bytes of a checked file. Larger files are refused."""
LINE_END = re.compile(r"\r\n|\n|\r")
BYTE_ORDER_MARKS: tuple[tuple[bytes, str], ...] = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe\0\0", "utf-32"),
    (b"\0\0\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
UTF7_DECLARATION = re.compile(
    rb"\A(?:[^\r\n]*[\r\n]+)?[ \t\f]*#[^\r\n]{0,200}?coding[:=][ \t]*utf[-_]?7", re.IGNORECASE
)
"""Declaration of UTF-7, an encoding that hides plain words."""


class UncheckableContent(ValueError):
    """Error for content that a constraint cannot be checked against, with the remedy."""


class TextPiece(Struct, frozen=True):
    """Text of a file: the whole, or a notebook cell. `where` names the cell, `language` is the cell's."""

    text: str
    where: str = ""
    language: str | None = None


def decode_text(content: bytes) -> str:
    """Decode a content; bytes outside UTF-8 are read as Latin-1, which keeps ASCII words searchable.

    Raises UncheckableContent.
    """
    if len(content) > MAX_BYTES:
        raise UncheckableContent(
            f"it has {len(content)} bytes, and no more than {MAX_BYTES} are looked into: split the file"
        )
    if UTF7_DECLARATION.match(content):
        raise UncheckableContent("it declares UTF-7, which hides its words: write it in UTF-8")
    encoding = next((name for mark, name in BYTE_ORDER_MARKS if content.startswith(mark)), "utf-8")
    try:
        return content.decode(encoding)
    except UnicodeDecodeError:
        return content.decode("latin-1")


def split_text_lines(text: str) -> list[str]:
    """Split at any line end; a last line without line end counts."""
    lines = LINE_END.split(text)
    return lines[:-1] if lines[-1] == "" else lines


def split_pieces(path: str, content: bytes) -> tuple[TextPiece, ...]:
    """Return the texts to check: code cells of a notebook, otherwise the whole file. Raises UncheckableContent."""
    text = decode_text(content)
    if not path.casefold().endswith(".ipynb"):
        return (TextPiece(text),)
    try:
        notebook: dict[str, Any] = json.loads(text)
        metadata: dict[str, Any] = notebook.get("metadata", {})
        named = metadata.get("language_info", {}).get("name") or metadata.get("kernelspec", {}).get("language")
        language = str(named or "python").casefold()
        cells: list[dict[str, Any]] = notebook["cells"]
        code = [(n, cell.get("source", "")) for n, cell in enumerate(cells) if cell.get("cell_type") == "code"]
        texts = ((n, source if isinstance(source, str) else "".join(source)) for n, source in code)
        # Without the sign of a cell's magic commands, `%` or `!`.
        return tuple(TextPiece(re.sub(r"(?m)^([ \t]*)[%!]+", r"\1", s), f"cell {n}", language) for n, s in texts)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UncheckableContent("the notebook cannot be parsed") from error
