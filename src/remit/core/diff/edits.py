"""Edits of file tools, and the contents they would leave.

An adapter builds the `Edit`; the functions are pure. Ambiguous edits (text missing, or present several times) raise
UnclearEdit instead of guessing: the gate judges the call by its effects.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TypeAlias

from msgspec import Struct

from remit.core.diff.contents import (
    Hunk,
    LineRange,
    decode_content,
    encode_content,
    encode_text,
    make_hunks,
    make_spans,
    split_with_ends,
)
from remit.core.diff.formats import NO_NEWLINE, Patch, PatchHunk
from remit.core.diff.notebooks import CellEdit, UnclearEdit, apply_cell_edit
from remit.core.diff.place import TextPlace, find_kept_pairs, find_loosely


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


class PatchMismatch(ValueError):
    """Error for a patch that does not fit the files. `hunk` counts from 1 in its file; 0 for the file as a whole."""

    def __init__(self, why: str, hunk: int = 0) -> None:
        super().__init__(why)
        self.hunk = hunk


EditedLine: TypeAlias = tuple[str, int | None]


class EditedText(Struct, frozen=True):
    """A file after an edit: each line with its newline, and the index of its old line; None for a written line."""

    before: str
    lines: tuple[EditedLine, ...]

    @property
    def content(self) -> str:
        return "".join(line for line, _ in self.lines)

    @property
    def positions(self) -> tuple[LineRange, ...]:
        written = (n for n, (_, origin) in enumerate(self.lines, 1) if origin is None)
        return tuple(LineRange(*span) for span in make_spans(written))

    @property
    def counts(self) -> tuple[int, int]:
        """Return how many lines were added and removed."""
        added = sum(origin is None for _, origin in self.lines)
        return added, len(split_with_ends(self.before)) - len(self.lines) + added

    @property
    def hunks(self) -> tuple[PatchHunk, ...]:
        """Return the change without context, each hunk with the line where it fits."""
        old, new = split_with_ends(self.before), [line for line, _ in self.lines]
        kept = {to: at for to, (line, at) in enumerate(self.lines) if at is not None and line == old[at]}

        def sign_lines(sign: str, lines: Iterable[str]) -> Iterator[str]:
            for line in lines:
                yield sign + line.removesuffix("\n")
                if not line.endswith("\n"):
                    yield NO_NEWLINE

        def sign_part(part: Hunk) -> Iterator[str]:
            yield from sign_lines("-", (old[n - 1] for n in part.old_range))
            yield from sign_lines("+", (new[n - 1] for n in part.new_range))

        parts = make_hunks(len(old), len(new), kept)
        return tuple(PatchHunk(tuple(sign_part(part)), line=part.old, new_line=part.new) for part in parts)


def apply_patch(patch: Patch, read_content: ContentReader) -> dict[str, bytes | None]:
    """Return the content of each named file after the patch; None for a removed file. Raises PatchMismatch."""
    after: dict[str, bytes | None] = {}
    for operation in patch.operations:
        path = operation.path
        before = after[path] if path in after else read_content(path)
        content: bytes | None = None
        if operation.kind == "add":
            content = encode_text("".join(line for hunk in operation.hunks for line in hunk.new))
        elif operation.kind == "update":
            if before is None:
                raise PatchMismatch(f"{path[:80]!r} is to be updated, but does not exist")
            content = encode_content(apply_hunks(before, operation.hunks).content)
        if operation.moved_to is not None:
            after[path] = None
            path = operation.moved_to
        after[path] = content
    return {f"./{path}" if path.startswith("~") else path: content for path, content in after.items()}


def apply_hunks(content: bytes, hunks: Sequence[PatchHunk]) -> EditedText:
    """Return the file after the hunks, which follow file order. Raises PatchMismatch.

    A hunk with a line number fits there and nowhere else. Another is found as Codex finds it, which ends each line.
    """
    text = decode_content(content)
    if text and not text.endswith("\n") and any(hunk.line is None for hunk in hunks):
        text += "\n"
    lines = split_with_ends(text)
    result: list[EditedLine] = []
    done = 0
    for number, hunk in enumerate(hunks, 1):
        signed, old = hunk.signed, hunk.old
        start = place_hunk(lines, hunk, old, done)
        drops_last = start is None and hunk.line is None and old[-1:] == ["\n"]
        if drops_last:  # Codex drops a missing last empty line from both sides
            old = old[:-1]
            start = place_hunk(lines, hunk, old, done)
        if start is None:
            raise PatchMismatch(f"the line {''.join(old[:1])[:80]!r} is not there", number)
        result += ((lines[n], n) for n in range(done, start))
        made = list(trace_signed_lines(signed, start))
        result += made[:-1] if drops_last and made and made[-1][0] == "\n" else made
        done = start + len(old)
    return EditedText(text, (*result, *((lines[n], n) for n in range(done, len(lines)))))


def place_hunk(lines: Sequence[str], hunk: PatchHunk, old: Sequence[str], at: int) -> int | None:
    """Return the index from `at` on at which a hunk with these old lines fits; None if it does not fit."""
    if hunk.line is not None:
        start = hunk.line - bool(old)
        return start if at <= start <= len(lines) and lines[start : start + len(old)] == old else None
    if hunk.context:
        above = find_loosely(lines, [f"{hunk.context}\n"], at)
        if above is None:
            return None
        at = above + 1
    return find_loosely(lines, old, at, at_end=hunk.end_of_file) if hunk.old else len(lines)


def trace_signed_lines(signed: Iterable[str], at: int) -> Iterator[EditedLine]:
    for line in signed:
        if line[0] != "-":
            yield line[1:], at if line[0] == " " else None
        at += line[0] != "+"


def replace_places(content: str, places: Sequence[TextPlace]) -> EditedText:
    """Return the file after the exchange at places that do not overlap."""
    lines = split_with_ends(content)
    starts = [0, *accumulate(map(len, lines))]
    result: list[EditedLine] = []
    todo = sorted(places, key=lambda place: (place.start, place.end))[::-1]
    done = 0
    while todo:
        # The lines touched by a place, and by further places in the same lines.
        first = bisect_right(starts, todo[-1].start) - 1
        first -= first == len(lines) and content[-1:] not in ("", "\n")
        at, stop, text = starts[first], first, ""
        while todo and (stop == first or todo[-1].start < starts[stop]):
            place = todo.pop()
            text += content[at : place.start] + place.text
            at = place.end
            stop = bisect_left(starts, at)
            if starts[stop] == at and text and not text.endswith("\n"):
                stop = min(stop + 1, len(lines))
            if stop == first and not text:
                break
        text += content[at : starts[stop]]
        result += ((lines[n], n) for n in range(done, first))
        added = split_with_ends(text)
        kept = find_kept_pairs(*([line.removesuffix("\n") for line in side] for side in (lines[first:stop], added)))
        result += ((line, first + kept[n] if n in kept else None) for n, line in enumerate(added))
        done = stop
    return EditedText(content, (*result, *((lines[n], n) for n in range(done, len(lines)))))
