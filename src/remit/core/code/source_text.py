"""The text of a file as constraints look at it: decoded, in lines however they end, a notebook as its cells."""

import json
import re
from typing import Any, cast

from msgspec import Struct

MAX_BYTES = 4 * 1024 * 1024
"""Bytes. The text of a larger file is not looked into."""

LINE_END = re.compile(r"\r\n|\n|\r")
BYTE_ORDER_MARKS: tuple[tuple[bytes, str], ...] = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe\0\0", "utf-32"),
    (b"\0\0\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
"""Byte order marks, and the encodings that they announce."""

UTF7_DECLARATION = re.compile(
    rb"\A(?:[^\r\n]*[\r\n]+)?[ \t\f]*#[^\r\n]{0,200}?coding[:=][ \t]*utf[-_]?7", re.IGNORECASE
)
"""A declaration of an encoding in which plain words are not written plainly."""


class UncheckableContent(ValueError):
    """A constraint cannot be held against this content. The message says why, and what would help."""


class TextPiece(Struct, frozen=True):
    """Some text of a file: all of it, or a notebook's cell. `where` names the cell, `language` is then the cell's."""

    text: str
    where: str = ""
    language: str | None = None


def decode_text(content: bytes) -> str:
    """The text. What is not UTF-8 is read byte by byte, so that words in ASCII are found all the same.

    Raises Uncheckable.
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
    """The lines, whichever way they end; a last line that does not end is one."""
    found = LINE_END.split(text)
    return found[:-1] if found[-1] == "" else found


def split_pieces(path: str, content: bytes) -> tuple[TextPiece, ...]:
    """What there is to look into: of a notebook its code cells, in its language. Raises Uncheckable."""
    text = decode_text(content)
    return split_notebook(text) if path.casefold().endswith(".ipynb") else (TextPiece(text),)


def split_notebook(text: str) -> tuple[TextPiece, ...]:
    """The code cells. Raises Uncheckable where it is no notebook."""
    try:
        notebook: dict[str, Any] = json.loads(text)
        about: dict[str, Any] = notebook.get("metadata", {})
        named = about.get("language_info", {}).get("name") or about.get("kernelspec", {}).get("language")
        cells = cast("list[dict[str, Any]]", notebook["cells"])
        code = [(n, cell.get("source", "")) for n, cell in enumerate(cells) if cell.get("cell_type") == "code"]
        language = str(named or "python").casefold()
        return tuple(
            TextPiece(remove_magics(source if isinstance(source, str) else "".join(source)), f"cell {number}", language)
            for number, source in code
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UncheckableContent("it is no notebook that can be read") from error


def remove_magics(source: str) -> str:
    """A cell without the marks of its shell lines and magics, what they run left standing."""
    return re.sub(r"(?m)^([ \t]*)[%!]+", r"\1", source)
