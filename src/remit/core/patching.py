"""What a V4A patch leaves: its operations, carried out on contents.

Lines are looked for as Codex does: as they are, then without white space at their ends, then without any around them.
Source: openai/codex, codex-rs/apply-patch/src/lib.rs and seek_sequence.rs, read 2026-11.
"""

from collections.abc import Callable, Sequence

from remit.core.patch import FileOperation, Patch, PatchHunk


class DoesNotApply(ValueError):
    """The patch does not fit the files. The message says where."""


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
    lines = before.decode("utf-8", "surrogateescape").split("\n")
    if lines[-1] == "":
        lines.pop()
    changed = updated(lines, operation.hunks) if operation.hunks else lines
    return "".join(f"{line}\n" for line in changed).encode("utf-8", "surrogateescape")


def updated(lines: list[str], hunks: Sequence[PatchHunk]) -> list[str]:
    """The lines after all hunks, which come in the order of the file."""
    out: list[str] = []
    done = 0
    for hunk in hunks:
        at = done
        if hunk.context:
            at = place(lines, [hunk.context], at, end=False) + 1
        old = [line[1:] for line in hunk.lines if line[0] != "+"]
        new = [line[1:] for line in hunk.lines if line[0] != "-"]
        start, old, new = located(lines, old, new, at, hunk)
        out += lines[done:start]
        out += new
        done = start + len(old)
    return out + lines[done:]


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
