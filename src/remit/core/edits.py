"""What a file tool would leave in a file, told from its arguments and what is there now.

An adapter makes the `Edit`; nothing here touches a file. Where the arguments do not tell (the text to replace is not
there, or several times), that is said, never guessed: such a call is judged by what it did.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, cast

from msgspec import Struct

from remit.core.patch import Patch
from remit.core.patching import patched


class Unclear(ValueError):
    """What the call would leave cannot be told from its arguments. The message says why."""


class WholeFile(Struct, frozen=True, tag=True):
    """The file becomes this text."""

    content: str


class Replacement(Struct, frozen=True):
    """One text for another: the only one, or `every` one. An empty `old` is a file that is not there, or is empty."""

    old: str
    new: str
    every: bool = False


class Replacements(Struct, frozen=True, tag=True):
    """One after the other, in one file."""

    steps: tuple[Replacement, ...]


class CellEdit(Struct, frozen=True, tag=True):
    """One cell of a notebook. `cell` is its id, or `cell-N` for the one at that place; new ones come after it."""

    source: str
    cell: str | None = None
    kind: str | None = None
    mode: Literal["replace", "insert", "delete"] = "replace"


class Patching(Struct, frozen=True, tag=True):
    """A patch, of one file or several; paths as the call names them."""

    patch: Patch


Edit: TypeAlias = WholeFile | Replacements | CellEdit | Patching


class Proposed(Struct, frozen=True):
    """One file that a call writes: what it holds, and what it would. None is: no such file.

    `known` is False where the call does not tell; `after` means nothing then.
    """

    path: str
    before: bytes | None
    after: bytes | None
    known: bool = True


Current: TypeAlias = Callable[[str], bytes | None]


def proposed(edit: Edit, path: str, current: Current) -> Mapping[str, bytes | None]:
    """What each file would hold, by its path as the call names it; `path` is that of a call about one file.

    Raises Unclear.
    """
    match edit:
        case WholeFile(content):
            return {path: encoded(content)}
        case Replacements(steps):
            content = current(path)
            for step in steps:
                content = replaced(content, step)
            return {path: content}
        case CellEdit():
            return {path: with_cell(current(path), edit)}
        case Patching(patch):
            try:
                return patched(patch, current)
            except ValueError as error:
                raise Unclear(str(error)) from error


def encoded(text: str) -> bytes:
    """The text as a tool writes it; half a character, which no file can hold, becomes a question mark."""
    return text.encode("utf-8", "replace")


def replaced(content: bytes | None, step: Replacement) -> bytes:
    """The content after one step. Raises Unclear."""
    old, new = encoded(step.old), encoded(step.new)
    if not old:
        if content:
            raise Unclear("it replaces an empty text in a file that is not empty")
        return new
    if content is None:
        raise Unclear("the file is not there")
    found = swapped(content, old, new, every=step.every)
    if found is None and b"\r\n" in content:
        lines = swapped(content.replace(b"\r\n", b"\n"), old, new.replace(b"\r\n", b"\n"), every=step.every)
        found = None if lines is None else lines.replace(b"\n", b"\r\n")
    if found is None:
        raise Unclear("the text to replace is not there exactly once")
    return found


def swapped(content: bytes, old: bytes, new: bytes, *, every: bool) -> bytes | None:
    """The content with `new` for `old`; None where it is not there, or not only once and only one is meant."""
    count = content.count(old)
    return content.replace(old, new) if count == 1 or (every and count) else None


def with_cell(content: bytes | None, edit: CellEdit) -> bytes:
    """The notebook after the edit. Raises Unclear. Layout as Claude Code 2.1.330 writes it."""
    try:
        notebook: Any = json.loads(content or b"")
        cells = cast("list[dict[str, Any]]", notebook["cells"])
        place = place_of(cells, edit)
        change_cells(cells, place, edit)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise Unclear(f"the notebook cannot be read ({type(error).__name__})") from error
    return encoded(json.dumps(notebook, indent=1, ensure_ascii=False))


def place_of(cells: list[dict[str, Any]], edit: CellEdit) -> int:
    """The number of the cell that is meant; -1 before all, for an insertion. Raises ValueError."""
    if edit.cell is None:
        if edit.mode == "insert":
            return -1
        raise ValueError("no cell is named")
    ids = [cell.get("id") for cell in cells]
    if edit.cell in ids:
        return ids.index(edit.cell)
    number = int(edit.cell.removeprefix("cell-"))
    if not 0 <= number < len(cells):
        raise ValueError("there is no such cell")
    return number


def change_cells(cells: list[dict[str, Any]], place: int, edit: CellEdit) -> None:
    """Put the edit into the cells."""
    if edit.mode == "delete":
        del cells[place]
        return
    if edit.mode == "insert":
        kind = edit.kind or "code"
        fresh: dict[str, Any] = {"cell_type": kind, "id": "new", "source": edit.source, "metadata": {}}
        cells.insert(place + 1, {**fresh, "execution_count": None, "outputs": []} if kind == "code" else fresh)
        return
    cell = cells[place]
    cell["source"] = edit.source
    cell["cell_type"] = edit.kind or cell["cell_type"]
    if cell["cell_type"] == "code":
        cell["outputs"], cell["execution_count"] = [], None
