"""What a kind of constraint is given, and what it answers."""

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
"""Lines that a breach names."""


class ProposedChange(Struct, frozen=True):
    """A change, as constraints see it.

    `named` are all paths that it writes, those of which the content is not known too; `changed` what the intent
    changed before. `final`: it is judged as a whole, when the intent is completed.
    """

    files: tuple[ProposedFile, ...] = ()
    written_paths: tuple[str, ...] = ()
    changed_before: tuple[str, ...] = ()
    is_final: bool = False


class Breach(Struct, frozen=True):
    """One constraint, broken in one place. `measured` is what is found, `bound` what is asked, as clauses.

    `weight` is how badly, `items` what is wrong, one by one: to tell what was so before. A `remark` objects to nothing.
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
"""What is wrong with one content of one file."""


def covers_path(constraint: Constraint, path: str) -> bool:
    """Whether the constraint is about that file; without `paths` about every one."""
    patterns = as_texts(constraint.options.get("paths"))
    return not patterns or Scope(patterns).matches(path)


def find_file_breaches(constraint: Constraint, change: ProposedChange, measure: MeasureContent) -> Iterator[Breach]:
    """What is wrong with the files that the change leaves. What was as bad before is not the change's doing."""
    for file in change.files:
        if not file.known or file.after is None or file.after == file.before or not covers_path(constraint, file.path):
            continue
        found = measure_content(constraint, file.path, file.after, measure)
        if found is not None and not was_as_bad_before(constraint, file, found, measure):
            yield found


def measure_content(constraint: Constraint, path: str, content: bytes, measure: MeasureContent) -> Breach | None:
    """What is wrong with one content; one that cannot be looked into is."""
    try:
        return measure(constraint, path, content)
    except UncheckableContent as error:
        return Breach(f"not checked, because {error}", "a check", path, weight=0)


def was_as_bad_before(constraint: Constraint, file: ProposedFile, breach: Breach, measure: MeasureContent) -> bool:
    """Whether the file was as bad, or worse, before. What cannot be checked is refused each time."""
    if file.before is None or not breach.weight:
        return False
    old = measure_content(constraint, file.path, file.before, measure)
    return old is not None and old.weight >= breach.weight and not Counter(breach.items) - Counter(old.items)
