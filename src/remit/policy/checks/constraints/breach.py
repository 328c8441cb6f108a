"""What a kind of constraint is given, and what it answers."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from msgspec import Struct

from remit.core.constraint_shapes import texts_of
from remit.core.edits import Proposed
from remit.core.globs import Scope
from remit.core.intent import Constraint
from remit.core.source_text import Uncheckable

NAMED_MOST = 20
"""Lines that a breach names."""


class Situation(Struct, frozen=True):
    """A change, as constraints see it.

    `named` are all paths that it writes, those of which the content is not known too; `changed` what the intent
    changed before. `final`: it is judged as a whole, when the intent is completed.
    """

    files: tuple[Proposed, ...] = ()
    named: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    final: bool = False


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
    remark: bool = False


Kind: TypeAlias = Callable[[Constraint, Situation], Iterable[Breach]]
Measure: TypeAlias = Callable[[Constraint, str, bytes], Breach | None]
"""What is wrong with one content of one file."""


def covers(constraint: Constraint, path: str) -> bool:
    """Whether the constraint is about that file; without `paths` about every one."""
    patterns = texts_of(constraint.options.get("paths"))
    return not patterns or Scope(patterns).matches(path)


def each_file(constraint: Constraint, situation: Situation, measure: Measure) -> Iterator[Breach]:
    """What is wrong with the files that the change leaves. What was as bad before is not the change's doing."""
    for file in situation.files:
        if not file.known or file.after is None or file.after == file.before or not covers(constraint, file.path):
            continue
        found = measured(constraint, file.path, file.after, measure)
        if found is not None and not was_so(constraint, file, found, measure):
            yield found


def measured(constraint: Constraint, path: str, content: bytes, measure: Measure) -> Breach | None:
    """What is wrong with one content; one that cannot be looked into is."""
    try:
        return measure(constraint, path, content)
    except Uncheckable as error:
        return Breach(f"not checked, because {error}", "a check", path, weight=0)


def was_so(constraint: Constraint, file: Proposed, found: Breach, measure: Measure) -> bool:
    """Whether the file was as bad, or worse, before. What cannot be checked is refused each time."""
    if file.before is None or not found.weight:
        return False
    old = measured(constraint, file.path, file.before, measure)
    return old is not None and old.weight >= found.weight and not Counter(found.items) - Counter(old.items)
