"""Edits of notebook cells, and notebooks in the layout of the tool that wrote them."""

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Literal, cast

from msgspec import Struct

from remit.core.diff.contents import encode_text


class UnclearEdit(ValueError):
    """Error for an edit without a result derivable from the arguments."""


class CellEdit(Struct, frozen=True, tag=True):
    """An edit of a notebook cell. `cell` is a cell id, or `cell-N` for an index; insertions follow the named cell."""

    source: str
    cell: str | None = None
    kind: str | None = None
    mode: Literal["replace", "insert", "delete"] = "replace"


NOTEBOOK_ERRORS = (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError)
"""Errors of a notebook that has another structure."""

NEW_CELL_ID = "new"
"""Stand-in for the random id that tools give to an inserted cell."""


def apply_cell_edit(content: bytes | None, edit: CellEdit) -> bytes:
    """Return the notebook after the edit, formatted like Claude Code 2.1.330. Raises UnclearEdit."""
    try:
        notebook: Any = json.loads(content or b"")
        cells = cast("list[dict[str, Any]]", notebook["cells"])
        edit_cell(cells, find_cell_index(cells, edit), edit)
    except NOTEBOOK_ERRORS as error:
        raise UnclearEdit(f"the notebook cannot be read ({type(error).__name__})") from error
    return encode_text(json.dumps(notebook, indent=1, ensure_ascii=False))


def find_cell_index(cells: list[dict[str, Any]], edit: CellEdit) -> int:
    """Return the index of the cell; -1 to insert at the top. Raises ValueError."""
    if edit.cell is None:
        if edit.mode == "insert":
            return -1
        raise ValueError("no cell is named")
    ids = [cell.get("id") for cell in cells]
    number = ids.index(edit.cell) if edit.cell in ids else int(edit.cell.removeprefix("cell-"))
    if not 0 <= number < len(cells):
        raise ValueError("there is no such cell")
    return number


def edit_cell(cells: list[dict[str, Any]], index: int, edit: CellEdit) -> None:
    match edit.mode:
        case "delete":
            del cells[index]
        case "insert":
            kind = edit.kind or "code"
            new_cell: dict[str, Any] = {"cell_type": kind, "id": NEW_CELL_ID, "source": edit.source, "metadata": {}}
            code_fields: dict[str, Any] = {"execution_count": None, "outputs": []} if kind == "code" else {}
            cells.insert(index + 1, {**new_cell, **code_fields})
        case "replace":
            cell = cells[index]
            cell["source"] = edit.source
            cell["cell_type"] = edit.kind or cell["cell_type"]
            if cell["cell_type"] == "code":
                cell["outputs"], cell["execution_count"] = [], None


INDENT = re.compile(rb"\n([ \t]+)\S")


def lay_out_notebook(predicted: bytes, actual: bytes) -> bytes:
    """Return a predicted notebook in the form of the actual notebook; unchanged if either content is no notebook.

    Tools choose the indentation, the escapes, the order of keys, the ids of new cells, and whether a source is one text
    or a list of lines.
    """
    indent = INDENT.search(actual)
    with suppress(*NOTEBOOK_ERRORS):
        ours, theirs = json.loads(predicted), json.loads(actual)
        ours["cells"] = lay_out_cells(ours["cells"], theirs["cells"])
        text = json.dumps(
            order_keys(ours, theirs), indent=indent[1].decode() if indent else None, ensure_ascii=actual.isascii()
        )
        return encode_text(text) + actual[len(actual.rstrip()) :]
    return predicted


def lay_out_cells(ours: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    by_id = {cell.get("id"): cell for cell in theirs}
    by_text = {source_text(cell): cell for cell in theirs}
    cells: list[dict[str, Any]] = []
    for place, cell in enumerate(ours):
        text, name = source_text(cell), cell.get("id")
        same = by_id.get(name) if name else by_text.get(text)
        if name == NEW_CELL_ID:
            same = by_text.get(text)
            name = same.get("id") if same else name
        form = same or theirs[min(place, len(theirs) - 1)]
        source = text if isinstance(form["source"], str) else text.splitlines(keepends=True)
        changed = {"source": source, "id": name} if "id" in cell else {"source": source}
        cells.append(order_keys({**cell, **changed}, form))
    return cells


def order_keys(ours: Mapping[str, Any], theirs: Iterable[str]) -> dict[str, Any]:
    return {key: ours[key] for key in (*theirs, *ours) if key in ours}


def source_text(cell: Mapping[str, Any]) -> str:
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)
