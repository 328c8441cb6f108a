"""Edits of file tools: the contents they would leave, and the lines they keep.

An adapter builds the `Edit`; nothing here touches a file. Ambiguous edits (text missing, or present several times)
raise UnclearEdit instead of guessing: such a call is judged by its effects.
"""

import json
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, TypeAlias, cast

from msgspec import Struct

from remit.core.diff.contents import Hunk, count_common_prefix, split_lines
from remit.core.diff.patch import Patch, PatchMismatch, apply_patch, trace_patch_origins


class UnclearEdit(ValueError):
    """Error for an edit whose result cannot be derived from its arguments."""


class WholeFile(Struct, frozen=True, tag=True):
    """A replacement of the whole file."""

    content: str


class Replacement(Struct, frozen=True):
    """A text exchange: of the only occurrence, or of `every` one. An empty `old` means a missing or empty file."""

    old: str
    new: str
    every: bool = False


class Replacements(Struct, frozen=True, tag=True):
    """Exchanges in one file, in order."""

    steps: tuple[Replacement, ...]


class CellEdit(Struct, frozen=True, tag=True):
    """An edit of a notebook cell. `cell` is a cell id, or `cell-N` for an index; insertions follow the named cell."""

    source: str
    cell: str | None = None
    kind: str | None = None
    mode: Literal["replace", "insert", "delete"] = "replace"


class Patching(Struct, frozen=True, tag=True):
    """A patch of one or several files; paths as the call names them."""

    patch: Patch


Edit: TypeAlias = WholeFile | Replacements | CellEdit | Patching


class ProposedFile(Struct, frozen=True):
    """A file that a call writes, before and after. None means a missing file.

    `known` is False if the call does not determine the result; `after` is then meaningless.
    """

    path: str
    before: bytes | None
    after: bytes | None
    known: bool = True


ContentReader: TypeAlias = Callable[[str], bytes | None]


def apply_edit(edit: Edit, path: str, read_content: ContentReader) -> Mapping[str, bytes | None]:
    """Return the resulting content of each file by its path in the call; `path` is the call's single file.

    Raises UnclearEdit.
    """
    match edit:
        case WholeFile(content):
            return {path: encode_text(content)}
        case Replacements(steps):
            content = read_content(path)
            for step in steps:
                content = apply_replacement(content, step)
            return {path: content}
        case CellEdit():
            return {path: apply_cell_edit(read_content(path), edit)}
        case Patching(patch):
            try:
                return apply_patch(patch, read_content)
            except ValueError as error:
                raise UnclearEdit(str(error)) from error


def predict_contents(edit: Edit | None, paths: Sequence[str], read_content: ContentReader) -> dict[str, bytes | None]:
    """Return the contents that an edit makes, by path as its call spells it; none if its arguments do not tell."""
    if edit is None:
        return {}
    try:
        return dict(apply_edit(edit, paths[0] if paths else "", read_content))
    except UnclearEdit:
        return {}


def encode_text(text: str) -> bytes:
    """Encode text as tools write it; a lone surrogate, which no file can hold, becomes a question mark."""
    return text.encode("utf-8", "replace")


def apply_replacement(content: bytes | None, step: Replacement) -> bytes:
    """Return the content after a text exchange, also if only line ends differ. Raises UnclearEdit."""
    old, new = encode_text(step.old), encode_text(step.new)
    if not old:
        if content:
            raise UnclearEdit("it replaces an empty text in a file that is not empty")
        return new
    if content is None:
        raise UnclearEdit("the file is not there")
    plain = content.replace(b"\r\n", b"\n")
    for text, added in ((content, new), (plain, new.replace(b"\r\n", b"\n"))):
        count = text.count(old)
        if count == 1 or (step.every and count):
            result = text.replace(old, added)
            return result if text is content else result.replace(b"\n", b"\r\n")
        if plain == content:
            break
    raise UnclearEdit("the text to replace is not there exactly once")


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
    """Return a predicted notebook in the form of the actual one; unchanged if one of them is no notebook.

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
    """Return cells in the form of the actual cell with the same id, else with the same text, else at the same place."""
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


LineOrigins: TypeAlias = Mapping[int, int]
"""Old line index by new line index; both from 0."""
MAX_SLIDE = 50
"""Positions of an insertion that are compared."""


def find_kept_lines(edit: Edit, path: str, before: bytes, *, guess: bool = True) -> LineOrigins | None:
    """Return the lines of `path` that an edit keeps, or None if its arguments do not tell.

    A diff of both contents may confuse a copy with its original; the edit itself does not. With `guess`, common first
    and last lines of a replaced text count as kept. Without `guess` only if their number of occurrences is equal on
    both sides.
    """
    match edit:
        case Patching(patch):
            try:
                origins = trace_patch_origins(patch, path, before)
            except PatchMismatch:
                return None
            return None if origins is None else {to: at for to, at in enumerate(origins) if at is not None}
        case Replacements(steps):
            content = before
            kept: dict[int, int] = {n: n for n in range(len(split_lines(before)))}
            for step in steps:
                old, new = encode_text(step.old), encode_text(step.new)
                if not old or content.count(old) != 1:
                    return None
                after = content.replace(old, new)
                step_origins = trace_replacement(content, after, content.index(old), (len(old), len(new)), guess=guess)
                kept = {to: kept[origin] for to, origin in step_origins.items() if origin in kept}
                content = after
            return kept
        case _:
            return None


def trace_replacement(content: bytes, after: bytes, at: int, sizes: tuple[int, int], *, guess: bool) -> dict[int, int]:
    """Return the lines kept around a replaced text at byte `at`; `sizes` are its old and new length in bytes.

    Common first and last lines of both texts are included if certain, or with `guess`.
    """
    (old_size, new_size), a, b = sizes, split_lines(content), split_lines(after)
    head = content.count(b"\n", 0, at)
    tail_content = content[at + old_size :]
    if not (is_line_start(content, at + old_size) and is_line_start(after, at + new_size)):
        tail_content = tail_content.partition(b"\n")[2]
    tail = len(split_lines(tail_content)) if tail_content else 0
    old_middle, new_middle = a[head : len(a) - tail], b[head : len(b) - tail]
    start, end = count_common_ends(old_middle, new_middle)
    kept = {n: n for n in range(head + start)} | {len(b) - n: len(a) - n for n in range(1, tail + end + 1)}
    if guess or start == end == 0:
        return kept
    old_counts, new_counts = Counter(old_middle), Counter(new_middle)
    outside = {*range(head), *range(len(b) - tail, len(b))}
    return {to: origin for to, origin in kept.items() if to in outside or old_counts[b[to]] == new_counts[b[to]]}


def combine_origins(certain: LineOrigins, hunks: Iterable[Hunk], count: int) -> LineOrigins:
    """Add to certain line origins those from hunks that do not cross them; `count` is the new line count."""
    numbers = sorted(certain)
    combined = dict(certain)
    for to, origin in trace_hunks(hunks, count):
        at = bisect_left(numbers, to)
        following, preceding = numbers[at : at + 1], numbers[max(0, at - 1) : at]
        if all(to < n and origin < certain[n] for n in following) and all(origin > certain[n] for n in preceding):
            combined[to] = origin
    return combined


def trace_hunks(hunks: Iterable[Hunk], count: int) -> Iterator[tuple[int, int]]:
    """Yield (new, old) indices of lines outside the hunks, from 0."""
    at = shift = 0
    for hunk in hunks:
        yield from ((to, to - shift) for to in range(at, hunk.new_range.start - 1))
        at, shift = hunk.new_range.stop - 1, shift + hunk.new_lines - hunk.old_lines
    yield from ((to, to - shift) for to in range(at, count))


def is_line_start(content: bytes, at: int) -> bool:
    return at == 0 or content[at - 1 : at] == b"\n"


def count_common_ends(old: Sequence[bytes], new: Sequence[bytes]) -> tuple[int, int]:
    """Return how many leading lines, and how many more trailing lines, both sides share.

    If the shared ends overlap, choose the split that leaves the inserted lines least indented: an edit that inserts a
    function repeats the next function's head to find its place.
    """
    start, end = count_common_prefix(old, new), count_common_prefix(old[::-1], new[::-1])
    shorter = min(len(old), len(new))
    if start + end <= shorter:
        return start, end

    def measure_indent(at: int) -> int:
        inserted = new[at : at + len(new) - shorter]
        return next((len(line) - len(line.lstrip()) for line in inserted if line.strip()), 0)

    choices = range(max(shorter - end, start - MAX_SLIDE), start + 1)
    best = min(choices, key=lambda at: (measure_indent(at), -at))
    return best, shorter - best
