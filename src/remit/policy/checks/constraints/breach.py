"""The input and the result of a kind of constraint."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from msgspec import Struct

from remit.core.code.source_text import UncheckableContent
from remit.core.diff.edits import ProposedFile
from remit.core.intent import Constraint
from remit.core.intents.constraints import as_texts
from remit.core.scope.globs import Scope

MAX_NAMED = 20
"""Lines that a breach lists."""


class ProposedChange(Struct, frozen=True):
    """A change, as constraints see it.

    `written_paths` include files with unknown content; `changed_before` are the files that the intent changed before.
    `is_final`: the intent is to be completed, and its changes are judged as a whole.
    """

    files: tuple[ProposedFile, ...] = ()
    written_paths: tuple[str, ...] = ()
    changed_before: tuple[str, ...] = ()
    is_final: bool = False


class Breach(Struct, frozen=True):
    """A constraint broken in one place: what was `measured`, and the `bound`, as clauses.

    `weight` and `items` (the single faults) are compared with the state before. `is_remark`: the breach is no refusal.
    """

    measured: str
    bound: str
    path: str | None = None
    lines: tuple[int, ...] = ()
    weight: int = 1
    items: tuple[str, ...] = ()
    is_remark: bool = False


FindBreaches: TypeAlias = Callable[[Constraint, ProposedChange], Iterable[Breach]]
MeasureContent: TypeAlias = Callable[[Constraint, str, bytes], Breach | None]
"""The breach in one content of a file."""


def covers_path(constraint: Constraint, path: str) -> bool:
    patterns = as_texts(constraint.options.get("paths"))
    return not patterns or Scope(patterns).matches(path)


def find_file_breaches(constraint: Constraint, change: ProposedChange, measure: MeasureContent) -> Iterator[Breach]:
    """Yield the breaches in the changed files, except in files that were as bad before."""
    for file in change.files:
        if not file.known or file.after is None or file.after == file.before or not covers_path(constraint, file.path):
            continue
        found = measure_content(constraint, file.path, file.after, measure)
        if found is not None and not was_as_bad_before(constraint, file, found, measure):
            yield found


def measure_content(constraint: Constraint, path: str, content: bytes, measure: MeasureContent) -> Breach | None:
    """Return the breach in one content; a content that cannot be checked is a breach."""
    try:
        return measure(constraint, path, content)
    except UncheckableContent as error:
        return Breach(f"not checked, because {error}", "a check", path, weight=0)


def was_as_bad_before(constraint: Constraint, file: ProposedFile, breach: Breach, measure: MeasureContent) -> bool:
    """Return True if the file was as bad, or worse, before. Contents that cannot be checked are refused each time."""
    if file.before is None or not breach.weight:
        return False
    old = measure_content(constraint, file.path, file.before, measure)
    return old is not None and old.weight >= breach.weight and not Counter(breach.items) - Counter(old.items)
