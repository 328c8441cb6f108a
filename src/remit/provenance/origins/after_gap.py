"""Labels of which each is worked out when it is asked for: of the lines of old versions few are asked about."""

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TypeAlias, overload

from remit.provenance.origins.alike import Runs
from remit.provenance.origins.evidence import Grade, Label, Labels, Passage, Told, weaker
from remit.provenance.origins.shifted import staying
from remit.provenance.origins.ways import before

Bounds: TypeAlias = tuple[frozenset[int], frozenset[int]]
"""The lines that keep their labels for certain, and with them those that may."""

NONE_STAND: Bounds = (frozenset(), frozenset())


class AfterGap(Sequence[Label | None]):
    """The labels after a step that nobody recorded. Of all the lines only few are asked about: of those it is looked
    what a diff kept, and for all others' sake nothing is compared. `whole` works out all of them.
    """

    def __init__(self, labels: Labels, passing: Passage, new: Sequence[bytes], grade: Grade, whole: Callable[[], Told]):
        self.labels, self.passing, self.whole = labels, passing, whole
        self.grade: Grade = grade
        self.runs = Runs(passing.old, new, passing.hunks)
        self.length = len(labels) + sum(hunk.new_lines - hunk.old_lines for hunk in passing.hunks)
        self.found: dict[int, Label | None] = {}
        self.standing: dict[int, Bounds] = {}

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, index: int) -> Label | None: ...
    @overload
    def __getitem__(self, index: slice) -> Told: ...
    def __getitem__(self, index: int | slice) -> Label | None | Told:
        if isinstance(index, slice) or "all" in self.__dict__:
            return self.all[index]
        if index not in self.found:
            self.found[index] = self.one(index)
        return self.found[index]

    def __iter__(self) -> Iterator[Label | None]:
        return iter(self.all)

    @cached_property
    def stays(self) -> set[int]:
        """The lines that the hunks leave where they are."""
        return staying(len(self.labels), self.passing.hunks)

    @cached_property
    def all(self) -> Told:
        """The labels of all lines."""
        return self.whole()

    def one(self, index: int) -> Label | None:
        """The label of one line; all are worked out where it hangs on which lines went to another place."""
        number = before(self.passing.hunks, index + 1)
        origin = None if number is None else number - 1
        if origin is None or origin in self.passing.stranded:
            return self.all[index] if self.may_arrive(index) else None
        label = self.labels[origin]
        if label is None:
            return None
        least, most = self.bounds(origin)
        if origin not in most:
            return None
        return weaker(label, self.grade) if origin in least else self.all[index]

    def may_arrive(self, index: int) -> bool:
        """Whether a line that a hunk put in may be one with a label, in another layout or from another place."""
        if self.runs.in_layout(index):
            return True
        return any(self.labels[i] and self.bounds(i)[1] for i in self.runs.origins(index))

    def bounds(self, origin: int) -> Bounds:
        """The lines of the block of `origin` that keep their labels, whatever went elsewhere; and those that may."""
        if origin not in self.standing:
            block = around(self.labels, origin)
            self.standing |= dict.fromkeys(block, self.bounded(block))
        return self.standing[origin]

    def bounded(self, block: range) -> Bounds:
        """The bounds of one block. What stays of it may keep a blank line that all of it would not."""
        if not self.passing.kept(block, block):
            return NONE_STAND
        least = frozenset(self.passing.kept(block, self.stays))
        back = [i for i in block if i not in self.stays and self.runs.may_return(i)]
        if not back:
            return least, least
        most = self.passing.kept(block, {*back, *self.stays.intersection(block)})
        blank = frozenset(i for i in block if most and not self.passing.old[i].strip())
        return least - blank, blank.union(most)


def around(labels: Labels, number: int) -> range:
    """The block of lines that one record put there, of which a line is one; from 0."""
    label = labels[number]
    record = label.record if label else ""
    start, end = number, number + 1
    while start and (other := labels[start - 1]) and other.record == record:
        start -= 1
    while end < len(labels) and (other := labels[end]) and other.record == record:
        end += 1
    return range(start, end)


class FirstOf(Sequence[Label | None]):
    """For each line the first label that one of several has."""

    def __init__(self, several: Sequence[Labels]) -> None:
        self.several = several
        self.length = max(map(len, several), default=0)

    def __len__(self) -> int:
        return self.length

    @overload
    def __getitem__(self, index: int) -> Label | None: ...
    @overload
    def __getitem__(self, index: slice) -> Told: ...
    def __getitem__(self, index: int | slice) -> Label | None | Told:
        if isinstance(index, slice):
            return [*self][index]
        if index >= self.length:
            raise IndexError(index)
        return next((found for one in self.several if index < len(one) and (found := one[index])), None)

    def __iter__(self) -> Iterator[Label | None]:
        several = [list(one) for one in self.several]
        return (next((one[i] for one in several if i < len(one) and one[i]), None) for i in range(len(self)))
