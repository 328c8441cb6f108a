"""The text of a file as constraints look at it: decoded, in lines however they end, a notebook as its cells."""

import json
import re
from typing import Any, cast

from msgspec import Struct

LARGEST = 4 * 1024 * 1024
"""Bytes. The text of a larger file is not looked into."""

LINE_END = re.compile(r"\r\n|\n|\r")
MARKS: tuple[tuple[bytes, str], ...] = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe\0\0", "utf-32"),
    (b"\0\0\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
"""Byte order marks, and the encodings that they announce."""

ODD_COOKIE = re.compile(rb"\A(?:[^\r\n]*[\r\n]+)?[ \t\f]*#[^\r\n]{0,200}?coding[:=][ \t]*utf[-_]?7", re.IGNORECASE)
"""A declaration of an encoding in which plain words are not written plainly."""


class Uncheckable(ValueError):
    """A constraint cannot be held against this content. The message says why, and what would help."""


class Piece(Struct, frozen=True):
    """Some text of a file: all of it, or a notebook's cell. `where` names the cell, `language` is then the cell's."""

    text: str
    where: str = ""
    language: str | None = None


def decoded(content: bytes) -> str:
    """The text. What is not UTF-8 is read byte by byte, so that words in ASCII are found all the same.

    Raises Uncheckable.
    """
    if len(content) > LARGEST:
        raise Uncheckable(f"it has {len(content)} bytes, and no more than {LARGEST} are looked into: split the file")
    if ODD_COOKIE.match(content):
        raise Uncheckable("it declares UTF-7, which hides its words: write it in UTF-8")
    encoding = next((name for mark, name in MARKS if content.startswith(mark)), "utf-8")
    try:
        return content.decode(encoding)
    except UnicodeDecodeError:
        return content.decode("latin-1")


def lines_of(text: str) -> list[str]:
    """The lines, whichever way they end; a last line that does not end is one."""
    found = LINE_END.split(text)
    return found[:-1] if found[-1] == "" else found


def pieces(path: str, content: bytes) -> tuple[Piece, ...]:
    """What there is to look into: of a notebook its code cells, in its language. Raises Uncheckable."""
    text = decoded(content)
    return notebook_pieces(text) if path.casefold().endswith(".ipynb") else (Piece(text),)


def notebook_pieces(text: str) -> tuple[Piece, ...]:
    """The code cells. Raises Uncheckable where it is no notebook."""
    try:
        notebook: dict[str, Any] = json.loads(text)
        about: dict[str, Any] = notebook.get("metadata", {})
        named = about.get("language_info", {}).get("name") or about.get("kernelspec", {}).get("language")
        cells = cast("list[dict[str, Any]]", notebook["cells"])
        code = [(n, cell.get("source", "")) for n, cell in enumerate(cells) if cell.get("cell_type") == "code"]
        language = str(named or "python").casefold()
        return tuple(
            Piece(without_magic(source if isinstance(source, str) else "".join(source)), f"cell {number}", language)
            for number, source in code
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Uncheckable("it is no notebook that can be read") from error


def without_magic(source: str) -> str:
    """A cell without the marks of its shell lines and magics, what they run left standing."""
    return re.sub(r"(?m)^([ \t]*)[%!]+", r"\1", source)
