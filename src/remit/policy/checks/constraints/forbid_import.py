"""`forbid_import`: a module, and what is below it, is brought in nowhere."""

from collections.abc import Iterable, Iterator

from remit.core.constraint_shapes import texts_of
from remit.core.imports import READERS, SEPARATORS, Import, imports, mentions
from remit.core.intent import Constraint
from remit.core.source_text import Piece, pieces
from remit.core.syntax.rows import row_of
from remit.core.text import shown
from remit.policy.checks.constraints.breach import NAMED_MOST, Breach, Situation, each_file


def broken(constraint: Constraint, situation: Situation) -> Iterable[Breach]:
    """The files that bring it in."""
    return each_file(constraint, situation, measure)


def measure(constraint: Constraint, path: str, content: bytes) -> Breach | None:
    """One content."""
    wanted = texts_of(constraint.options["module"])
    found = [one for piece in pieces(path, content) for one in brought_in(path, piece, wanted)]
    if not found:
        return None
    said = ", ".join(dict.fromkeys(f"`{shown(name, 80)}` ({place}line {line})" for place, name, line in found[:5]))
    lines = tuple(dict.fromkeys(line for _, _, line in found[:NAMED_MOST]))
    items = tuple(dict.fromkeys(name for _, name, _ in found))
    return Breach(f"import of {said}", "none of it", path, lines, len(found), items=items)


def brought_in(path: str, piece: Piece, wanted: tuple[str, ...]) -> Iterator[tuple[str, str, int]]:
    """The cell, the module and the line of each import that is not wanted; nothing in a language that has none."""
    row = row_of(path)
    language = piece.language or (row.name if row else None)
    if language not in READERS:
        return
    at = f"{piece.where} " if piece.where else ""
    found, whole = imports(language, piece.text)
    separator = SEPARATORS.get(language, "/")
    for one in found:
        if any(names(one, module.removeprefix("node:"), separator, path) for module in wanted):
            yield at, one.module, one.line
    if not whole:
        known = {one.line for one in found}
        lines = {line for module in wanted for line in mentions(piece.text, module)} - known
        yield from ((at, "something like it", line) for line in sorted(lines))


def names(one: Import, module: str, separator: str, path: str) -> bool:
    """Whether an import brings in the module, something below it, or all that stands beside it."""
    said = absolute(one.module, path) if separator == "." else one.module
    inner = f"{separator}{said}{separator}"
    if said == module or said.startswith(f"{module}{separator}"):
        return True
    if one.whole and module.startswith(f"{said}{separator}"):
        return True
    return one.module.startswith(".") and f"{separator}{module}{separator}" in inner


def absolute(name: str, path: str) -> str:
    """A relative import of Python by the folders that it stands in; any other name as it is."""
    stem = name.lstrip(".")
    level = len(name) - len(stem)
    if not level:
        return name
    folders = path.split("/")[:-level]
    return ".".join([*folders, *([stem] if stem else [])])
