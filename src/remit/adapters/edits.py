"""What a file tool's arguments say that it would do to its file."""

from typing import Literal, TypeAlias, cast

from remit.adapters.row import ToolRow
from remit.core.edits import CellEdit, Edit, Replacement, Replacements, WholeFile

Given: TypeAlias = dict[str, object]
Mode: TypeAlias = Literal["replace", "insert", "delete"]
MODES: dict[object, Mode] = {"replace": "replace", "insert": "insert", "delete": "delete"}


def edit_of(row: ToolRow, given: Given) -> Edit | None:
    """The edit; None where the row or the arguments do not tell."""
    if row.content is not None:
        content = given.get(row.content)
        return WholeFile(content) if isinstance(content, str) else None
    if row.notebook:
        return cell_edit(given)
    if row.old is None:
        return None
    listed = given.get(row.edits) if row.edits else [given]
    ones = cast("list[object]", listed) if isinstance(listed, list) else []
    steps = [step_of(row, row.old, cast("Given", one)) if isinstance(one, dict) else None for one in ones]
    whole = tuple(step for step in steps if step is not None)
    return Replacements(whole) if whole and len(whole) == len(steps) else None


def step_of(row: ToolRow, key: str, one: Given) -> Replacement | None:
    """One step of a search/replace edit; `key` is the argument that holds what goes."""
    old, new = one.get(key), one.get(row.new or "")
    if not isinstance(old, str) or not isinstance(new, str):
        return None
    return Replacement(old, new, every=row.every is not None and one.get(row.every) is True)


def cell_edit(given: Given) -> CellEdit | None:
    """One cell of a notebook."""
    source, cell, kind = given.get("new_source", ""), given.get("cell_id"), given.get("cell_type")
    mode = MODES.get(str(given.get("edit_mode") or "replace"))
    if not isinstance(source, str) or mode is None:
        return None
    return CellEdit(source, cell if isinstance(cell, str) else None, kind if isinstance(kind, str) else None, mode)
