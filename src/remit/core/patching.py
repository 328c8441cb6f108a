"""What a V4A patch leaves: its operations, carried out on contents.

Lines are looked for as Codex does: as they are, then without white space at their ends, then without any around them.
Source: openai/codex, codex-rs/apply-patch/src/lib.rs and seek_sequence.rs, read 2026-11.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import TypeAlias

from remit.core.patch import FileOperation, Patch, PatchHunk


class DoesNotApply(ValueError):
    """The patch does not fit the files. The message says where."""


Origin: TypeAlias = int | None
"""The line, from 0, that one was before; None for one that the patch puts there."""

LOOKS: tuple[Callable[[str], str], ...] = (str, str.rstrip, str.strip)


def patched(patch: Patch, current: Callable[[str], bytes | None]) -> dict[str, bytes | None]:
    """What each file that the patch names holds then; None for one that is gone. Raises DoesNotApply."""
    after: dict[str, bytes | None] = {}
    for operation in patch.operations:
        path = operation.path
        before = after[path] if path in after else current(path)
        content = None if operation.kind == "delete" else result(operation, before)
        if operation.moved_to is not None:
            after[path] = None
            path = operation.moved_to
        after[path] = content
    return {f"./{path}" if path.startswith("~") else path: content for path, content in after.items()}


def result(operation: FileOperation, before: bytes | None) -> bytes:
    """The content that an addition or an update leaves."""
    if operation.kind == "add":
        lines = [line[1:] for hunk in operation.hunks for line in hunk.lines]
        return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
    if before is None:
        raise DoesNotApply(f"{operation.path[:80]!r} is to be updated, and is not there")
    changed = updated(lines_in(before), operation.hunks)
    return "".join(f"{line}\n" for line, _ in changed).encode("utf-8", "surrogateescape")


def origins(patch: Patch, path: str, before: bytes) -> list[Origin] | None:
    """For each line that the patch leaves in a file, the line that it was, by the signs of the patch's own lines. None
    where it does not update that file once. Raises DoesNotApply.
    """
    own = [o for o in patch.operations if path in (o.path, o.moved_to)]
    if len(own) != 1 or own[0].kind != "update" or own[0].moved_to is not None:
        return None
    return [origin for _, origin in updated(lines_in(before), own[0].hunks)]


def lines_in(content: bytes) -> list[str]:
    """The lines of a file."""
    lines = content.decode("utf-8", "surrogateescape").split("\n")
    return lines if lines[-1] else lines[:-1]


def updated(lines: list[str], hunks: Sequence[PatchHunk]) -> list[tuple[str, Origin]]:
    """The lines after all hunks, which come in the order of the file."""
    out: list[tuple[str, Origin]] = []
    done = 0
    for hunk in hunks:
        at = done
        if hunk.context:
            at = place(lines, [hunk.context], at, end=False) + 1
        old = [line[1:] for line in hunk.lines if line[0] != "+"]
        new = [line[1:] for line in hunk.lines if line[0] != "-"]
        signs = [line[0] for line in hunk.lines]
        full = len(old)
        start, old, new = located(lines, old, new, at, hunk)
        out += [(lines[n], n) for n in range(done, start)]
        out += zip(new, places(signs, start) if len(old) == full else repeat(None), strict=False)
        done = start + len(old)
    return out + [(lines[n], n) for n in range(done, len(lines))]


def places(signs: Iterable[str], start: int) -> Iterator[Origin]:
    """For each line that a hunk leaves, the old line that it is: the hunk's old lines begin at `start`."""
    for sign in signs:
        if sign != "-":
            yield start if sign == " " else None
        start += sign != "+"


def located(
    lines: list[str], old: list[str], new: list[str], at: int, hunk: PatchHunk
) -> tuple[int, list[str], list[str]]:
    """Where the old lines stand, and both sides; a last empty line that is not there is left out of them."""
    if not old:
        return len(lines), old, new
    try:
        return place(lines, old, at, end=hunk.end_of_file), old, new
    except DoesNotApply:
        if old[-1]:
            raise
    shorter = new[:-1] if new and not new[-1] else new
    return place(lines, old[:-1], at, end=hunk.end_of_file), old[:-1], shorter


def place(lines: list[str], wanted: list[str], at: int, *, end: bool) -> int:
    """Where `wanted` stands, from `at` on; at the end of the file first, where that is meant. Raises DoesNotApply."""
    last = len(lines) - len(wanted)
    starts = [last, *range(at, last + 1)] if end and last >= at else range(at, last + 1)
    for look in LOOKS:
        sought = [look(line) for line in wanted]
        seen = [look(line) for line in lines]
        for start in starts:
            if seen[start : start + len(wanted)] == sought:
                return start
    raise DoesNotApply(f"the line {wanted[0][:80]!r} is not there" if wanted else "an empty place is not there")
