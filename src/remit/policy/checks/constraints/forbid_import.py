"""`forbid_import`: a module and its submodules are imported nowhere."""

from collections.abc import Iterable, Iterator

from remit.core.code.imports import READERS, SEPARATORS, Import, find_import_mentions, find_imports
from remit.core.code.languages import find_language
from remit.core.code.source_text import TextPiece, split_pieces
from remit.core.display_text import sanitise_line
from remit.core.intent import Constraint
from remit.core.intents.constraints import as_texts
from remit.policy.checks.constraints.breach import MAX_NAMED, Breach, ProposedChange, find_file_breaches


def find_breaches(constraint: Constraint, change: ProposedChange) -> Iterable[Breach]:
    return find_file_breaches(constraint, change, measure_imports)


def measure_imports(constraint: Constraint, path: str, content: bytes) -> Breach | None:
    wanted = as_texts(constraint.options["module"])
    found = [one for piece in split_pieces(path, content) for one in find_unwanted_imports(path, piece, wanted)]
    if not found:
        return None
    named = ", ".join(
        dict.fromkeys(f"`{sanitise_line(name, 80)}` ({place}line {line})" for place, name, line in found[:5])
    )
    lines = tuple(dict.fromkeys(line for _, _, line in found[:MAX_NAMED]))
    items = tuple(dict.fromkeys(name for _, name, _ in found))
    return Breach(f"import of {named}", "none of it", path, lines, len(found), items=items)


def find_unwanted_imports(path: str, piece: TextPiece, forbidden: tuple[str, ...]) -> Iterator[tuple[str, str, int]]:
    """Yield the cell, the module and the line of each forbidden import."""
    row = find_language(path)
    language = piece.language or (row.name if row else None)
    if language not in READERS:
        return
    at = f"{piece.where} " if piece.where else ""
    found, whole = find_imports(language, piece.text)
    separator = SEPARATORS.get(language, "/")
    for one in found:
        if any(imports_module(one, module.removeprefix("node:"), separator, path) for module in forbidden):
            yield at, one.module, one.line
    if not whole:
        known = {one.line for one in found}
        lines = {line for module in forbidden for line in find_import_mentions(piece.text, module)} - known
        yield from ((at, "something like it", line) for line in sorted(lines))


def imports_module(imported: Import, module: str, separator: str, path: str) -> bool:
    """Return True if an import brings in the module, a submodule, or all modules of its package."""
    imported_module = absolute_module(imported.module, path) if separator == "." else imported.module
    inner = f"{separator}{imported_module}{separator}"
    if imported_module == module or imported_module.startswith(f"{module}{separator}"):
        return True
    if imported.is_wildcard and module.startswith(f"{imported_module}{separator}"):
        return True
    return imported.module.startswith(".") and f"{separator}{module}{separator}" in inner


def absolute_module(name: str, path: str) -> str:
    """Return a relative import of Python by the folders of its file; other names unchanged."""
    stem = name.lstrip(".")
    level = len(name) - len(stem)
    if not level:
        return name
    folders = path.split("/")[:-level]
    return ".".join([*folders, *([stem] if stem else [])])
