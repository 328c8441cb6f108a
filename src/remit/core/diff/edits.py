"""What a file tool would leave in a file, told from its arguments and what is there now.

An adapter makes the `Edit`; nothing here touches a file. Where the arguments do not tell (the text to replace is not
there, or several times), that is said, never guessed: such a call is judged by what it did.

Which lines of a file an edit leaves where they are, as far as its own arguments tell.

A diff of the two contents may take a copy for the original, or one `pass` for another; what an edit does not touch, it
leaves.
"""

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast

from msgspec import Struct

from remit.core.diff.contents import Hunk
from remit.core.diff.edit_script import count_common_prefix, split_lines
from remit.core.diff.patch import Patch, PatchMismatch, apply_patch, trace_patch_origins


class UnclearEdit(ValueError):
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


class ProposedFile(Struct, frozen=True):
    """One file that a call writes: what it holds, and what it would. None is: no such file.

    `known` is False where the call does not tell; `after` means nothing then.
    """

    path: str
    before: bytes | None
    after: bytes | None
    known: bool = True


ContentReader: TypeAlias = Callable[[str], bytes | None]


def apply_edit(edit: Edit, path: str, read_content: ContentReader) -> Mapping[str, bytes | None]:
    """What each file would hold, by its path as the call names it; `path` is that of a call about one file.

    Raises Unclear.
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


def encode_text(text: str) -> bytes:
    """The text as a tool writes it; half a character, which no file can hold, becomes a question mark."""
    return text.encode("utf-8", "replace")


def apply_replacement(content: bytes | None, step: Replacement) -> bytes:
    """The content after one step. Raises Unclear."""
    old, new = encode_text(step.old), encode_text(step.new)
    if not old:
        if content:
            raise UnclearEdit("it replaces an empty text in a file that is not empty")
        return new
    if content is None:
        raise UnclearEdit("the file is not there")
    found = replace_text(content, old, new, every=step.every)
    if found is None and b"\r\n" in content:
        lines = replace_text(content.replace(b"\r\n", b"\n"), old, new.replace(b"\r\n", b"\n"), every=step.every)
        found = None if lines is None else lines.replace(b"\n", b"\r\n")
    if found is None:
        raise UnclearEdit("the text to replace is not there exactly once")
    return found


def replace_text(content: bytes, old: bytes, new: bytes, *, every: bool) -> bytes | None:
    """The content with `new` for `old`; None where it is not there, or not only once and only one is meant."""
    count = content.count(old)
    return content.replace(old, new) if count == 1 or (every and count) else None


def apply_cell_edit(content: bytes | None, edit: CellEdit) -> bytes:
    """The notebook after the edit. Raises Unclear. Layout as Claude Code 2.1.330 writes it."""
    try:
        notebook: Any = json.loads(content or b"")
        cells = cast("list[dict[str, Any]]", notebook["cells"])
        place = find_cell_index(cells, edit)
        edit_cells(cells, place, edit)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise UnclearEdit(f"the notebook cannot be read ({type(error).__name__})") from error
    return encode_text(json.dumps(notebook, indent=1, ensure_ascii=False))


def find_cell_index(cells: list[dict[str, Any]], edit: CellEdit) -> int:
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


def edit_cells(cells: list[dict[str, Any]], place: int, edit: CellEdit) -> None:
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


LineOrigins: TypeAlias = Mapping[int, int]
"""For lines after the edit, the line that they were; indices from 0."""

MAX_SLIDE = 50
"""Places of one insertion that are compared."""


def find_kept_lines(edit: Edit, path: str, before: bytes, *, guess: bool = True) -> LineOrigins | None:
    """The lines of the file at `path` that the edit leaves; None where its arguments do not tell.

    Of a text that is replaced, those that it and the new one begin and end with are a guess, though a good one; and no
    guess where the one has them as often as the other.
    """
    match edit:
        case Patching(patch):
            try:
                found = trace_patch_origins(patch, path, before)
            except PatchMismatch:
                return None
            return None if found is None else {to: origin for to, origin in enumerate(found) if origin is not None}
        case Replacements(steps):
            return trace_replacements(steps, before, guess=guess)
        case _:
            return None


def trace_replacements(steps: Sequence[Replacement], before: bytes, *, guess: bool) -> LineOrigins | None:
    """The lines that stay through all replacements."""
    content = before
    known: dict[int, int] = {n: n for n in range(len(split_lines(before)))}
    for step in steps:
        old, new = encode_text(step.old), encode_text(step.new)
        if not old or content.count(old) != 1:
            return None
        after = content.replace(old, new)
        stay = trace_replacement(content, after, content.index(old), (len(old), len(new)), guess=guess)
        known = {to: known[origin] for to, origin in stay.items() if origin in known}
        content = after
    return known


def trace_replacement(content: bytes, after: bytes, at: int, sizes: tuple[int, int], *, guess: bool) -> dict[int, int]:
    """The lines before and after the place where one text became another, by their sizes in bytes; and those that both
    begin or end with, where they are no guess, or may be one.
    """
    (gone, came), a, b = sizes, split_lines(content), split_lines(after)
    head = content.count(b"\n", 0, at)
    rest = content[at + gone :]
    if not (is_line_start(content, at + gone) and is_line_start(after, at + came)):
        rest = rest.partition(b"\n")[2]
    tail = len(split_lines(rest)) if rest else 0
    gone_there, came_there = a[head : len(a) - tail], b[head : len(b) - tail]
    start, end = count_common_ends(gone_there, came_there)
    found = {n: n for n in range(head + start)} | {len(b) - n: len(a) - n for n in range(1, tail + end + 1)}
    if guess or start == end == 0:
        return found
    were, are = Counter(gone_there), Counter(came_there)
    outside = {*range(head), *range(len(b) - tail, len(b))}
    return {to: origin for to, origin in found.items() if to in outside or were[b[to]] == are[b[to]]}


def combine_origins(sure: LineOrigins, hunks: Iterable[Hunk], count: int) -> LineOrigins:
    """What stays for sure, and of what the hunks leave of a content of `count` lines that which fits between."""
    numbers = sorted(sure)
    found = dict(sure)
    for to, origin in trace_hunks(hunks, count):
        at = bisect_left(numbers, to)
        after, before = numbers[at : at + 1], numbers[max(0, at - 1) : at]
        if all(to < n and origin < sure[n] for n in after) and all(origin > sure[n] for n in before):
            found[to] = origin
    return found


def trace_hunks(hunks: Iterable[Hunk], count: int) -> Iterator[tuple[int, int]]:
    """The lines that the hunks leave, with the lines that they were; indices from 0."""
    at = shift = 0
    for hunk in hunks:
        yield from ((to, to - shift) for to in range(at, hunk.new_range.start - 1))
        at, shift = hunk.new_range.stop - 1, shift + hunk.new_lines - hunk.old_lines
    yield from ((to, to - shift) for to in range(at, count))


def is_line_start(content: bytes, at: int) -> bool:
    """Whether a line begins there."""
    return at == 0 or content[at - 1 : at] == b"\n"


def count_common_ends(old: Sequence[bytes], new: Sequence[bytes]) -> tuple[int, int]:
    """How many lines both begin with, and how many more they end with.

    Of a text that its replacement both begins and ends with, the lines stay that leave what came between them least
    indented: who puts a function above another names the next one's head to find the place.
    """
    start, end = count_common_prefix(old, new), count_common_prefix(old[::-1], new[::-1])
    shorter = min(len(old), len(new))
    if start + end <= shorter:
        return start, end
    choices = range(max(shorter - end, start - MAX_SLIDE), start + 1)
    best = min(choices, key=lambda n: (measure_indent(new[n : n + len(new) - shorter]), -n))
    return best, shorter - best


def measure_indent(lines: Iterable[bytes]) -> int:
    """How far the first of those lines that is not empty is indented."""
    return next((len(line) - len(line.lstrip()) for line in lines if line.strip()), 0)
