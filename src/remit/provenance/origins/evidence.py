"""How sure it is who put a line there, and when lines that look like a recorded version's are evidence of it.

A false claim costs more than a gap: lines that anybody would write (`}`, `try:`, `return None`) prove nothing, and of
a block enough has to be left.
"""

from collections.abc import Callable, Container, Iterable, Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.core.diff.contents import Hunk
from remit.core.diff.distinctive_lines import CACHE_SIZE, has_distinctive_word, is_distinctive_line
from remit.core.diff.line_spans import make_spans

MIN_KEPT_SHARE = 0.75
"""Of a block that stands: a person who changes a line or two of it leaves more, one who writes anew leaves less."""

MIN_DISTINCTIVE_LINES = 3
MIN_WORDED_LINES = 8
MIN_TELLING_LINES = 3

Grade: TypeAlias = Literal["exact", "payload", "preserved", "ledger", "moved", "normalised", "note", "likely"]
GRADES: tuple[Grade, ...] = ("exact", "payload", "preserved", "ledger", "moved", "normalised", "note", "likely")
"""Strongest first: the same blob; the position that the tool's own call told; what git's diff keeps; a recorded
version that still stands; a block found elsewhere; the same but for layout; a note that came with the repository; what
a call left that nobody else can be seen to have written."""

LIKELY: Grade = "likely"

GradeClass: TypeAlias = Literal["exact", "carried", "note", "likely"]
GRADES_BY_CLASS: dict[GradeClass, tuple[Grade, ...]] = {
    "exact": ("exact", "payload"),
    "carried": ("preserved", "ledger", "moved", "normalised"),
    "note": ("note",),
    "likely": ("likely",),
}
"""The grades in the words that people see. Of the first two it is promised that no line of a person's is an agent's."""


def parse_grades(text: str) -> frozenset[str]:
    """The grades of a list with commas, where a class stands for all its grades. Raises ValueError for other words."""
    found: set[str] = set()
    for name in text.split(","):
        classed = next((grades for word, grades in GRADES_BY_CLASS.items() if word == name.strip()), None)
        if classed is None and name.strip() not in GRADES:
            raise ValueError(f"there is no grade {name.strip()!r}; there are {', '.join([*GRADES_BY_CLASS, *GRADES])}")
        found.update(classed or [name.strip()])
    return frozenset(found)


class Attribution(Struct, frozen=True):
    """The record that put a line there, and how sure that is."""

    record: str
    grade: Grade
    proved: bool = True
    """Whether it was that record's call; else it was under way then, and nothing tells who wrote the line."""
    likely: bool = False
    """Of a line that is not proved: whether nothing but that call can be seen to have written it."""


Attributions: TypeAlias = Sequence[Attribution | None]
AttributionList: TypeAlias = list[Attribution | None]


def limit_grade(attribution: Attribution, grade: Grade) -> Attribution:
    """The label, no surer than `grade`."""
    return attribution if GRADES.index(attribution.grade) >= GRADES.index(grade) else replace(attribution, grade=grade)


def attribution_at(attributions: Sequence[Attribution | None], number: int) -> Attribution | None:
    """The label of a line, from 1."""
    return attributions[number - 1] if 0 < number <= len(attributions) else None


@lru_cache(CACHE_SIZE)
def strip_whitespace(line: bytes) -> bytes:
    """A line without its white space: what it is compared by where its layout does not matter."""
    return b"".join(line.split())


class SurvivingBlock(Struct, frozen=True):
    """The lines of one recorded block, and those of them that stand in the version asked about."""

    lines: tuple[bytes, ...]
    kept_lines: tuple[bytes, ...]


def is_distinctive(lines: Iterable[bytes]) -> bool:
    """Whether a block tells itself from another's."""
    texts = list(lines)
    return any(map(is_distinctive_line, texts)) or sum(map(has_distinctive_word, texts)) >= MIN_TELLING_LINES


def is_evidence(found: SurvivingBlock, *, strict: bool, part: bool = False, observed: bool = True) -> bool:
    """Whether what is left of a block came from it. `strict` where later contents were seen without it; `part` where
    nothing else came: a commit of some of the lines, or a person who only takes lines out. `seen` where both contents
    followed each other under our eyes; else what is left has to hold one of the lines that nobody else would write, if
    the block had any.
    """
    telling = [line for line in found.lines if line.strip()]
    kept = [line for line in found.kept_lines if line.strip()]
    if not kept or not any(map(has_distinctive_word, kept)):
        return False
    if not observed and any(map(is_distinctive_line, telling)) and not any(map(is_distinctive_line, kept)):
        return False
    enough = len(kept) >= MIN_KEPT_SHARE * len(telling)
    if enough and not strict:
        return True
    strong = len({line.strip() for line in kept if is_distinctive_line(line)})
    if strict:
        return enough and (strong >= MIN_DISTINCTIVE_LINES or (strong > 0 and len(kept) == len(telling)))
    many = len({line.strip() for line in kept if has_distinctive_word(line)}) >= MIN_WORDED_LINES
    return strong >= MIN_DISTINCTIVE_LINES or many or (part and strong > 0)


class InferredStep(Struct, frozen=True, dict=True):
    """Past which lines of blocks have to come to keep their labels: a step from `old` of which nothing tells that it
    was one. `strict` and `seen` are as in `is_evidence`; `anybodys` works out lines that prove nothing.
    """

    old: Sequence[bytes]
    hunks: Sequence[Hunk]
    strict: bool
    observed: bool
    find_common_lines: Callable[[], frozenset[int]]

    @cached_property
    def only_removes(self) -> bool:
        """Whether lines only went."""
        return not any(hunk.new_lines for hunk in self.hunks)

    @cached_property
    def insertion_points(self) -> list[int]:
        """Before which lines others were put."""
        return [hunk.old for hunk in self.hunks if hunk.new_lines and not hunk.old_lines]

    def lines_keeping_attribution(self, block: Sequence[int], kept_lines: Container[int]) -> Sequence[int]:
        """The lines of a block that keep its label, where so many of all stay."""
        found = SurvivingBlock(tuple(self.old[i] for i in block), tuple(self.old[i] for i in block if i in kept_lines))
        part = self.only_removes
        if not is_evidence(found, strict=self.strict, part=part, observed=self.observed) and (
            not self.observed or self.strict or not is_block_untouched(block, self.hunks)
        ):
            return ()
        if part:
            return block
        if not self.strict:
            return self.drop_weak_paragraphs(block, kept_lines)
        return distinctive_lines(block, self.old, kept_lines, self.insertion_points)

    def drop_weak_paragraphs(self, block: Sequence[int], kept_lines: Container[int]) -> Sequence[int]:
        """The lines of a block without those parts of it, between empty lines, of which only what anybody would write
        was left, and not much: somebody put something else there that ends alike.
        """
        if all(i in kept_lines for i in block):
            return block
        return [i for part in split_paragraphs(block, self.old) if self.is_mostly_kept(part, kept_lines) for i in part]

    def is_mostly_kept(self, part: Sequence[int], kept_lines: Container[int]) -> bool:
        """Whether enough of a part stays, or a line of it that tells."""
        texts = [self.old[i] for i in part if self.old[i].strip()]
        left = [self.old[i] for i in part if i in kept_lines and self.old[i].strip()]
        return len(left) >= MIN_KEPT_SHARE * len(texts) or is_distinctive(left)

    @cached_property
    def isolated_lines(self) -> frozenset[int]:
        """The lines that lose their label where they stand: a diff only found them alike."""
        return frozenset() if self.strict or self.only_removes else self.find_common_lines()


def split_paragraphs(block: Sequence[int], lines: Sequence[bytes]) -> list[list[int]]:
    """The lines of a block, parted behind its empty ones."""
    found: list[list[int]] = [[]]
    for i in block:
        if lines[i].strip() and found[-1] and not lines[found[-1][-1]].strip():
            found.append([])
        found[-1].append(i)
    return found


def is_block_untouched(block: Sequence[int], hunks: Iterable[Hunk]) -> bool:
    """Whether a block stands as it stood, between the lines that it stood between."""
    for hunk in hunks:
        start = hunk.old - 1 if hunk.old_lines else hunk.old
        end = start + hunk.old_lines
        if start <= block[-1] + 1 and (end >= block[0] if hunk.old_lines else start >= block[0]):
            return False
    return True


def distinctive_lines(
    block: Sequence[int], old: Sequence[bytes], kept_lines: Container[int], cuts: Iterable[int]
) -> Sequence[int]:
    """The lines of a block that keep its label where something even speaks against it. Of one that something was taken
    out of, or put into (before the lines of `cuts`), those that are nobody else's and what stayed between them: who
    writes anew writes `pass` and `}`, too.
    """
    inside = [i for i in cuts if block[0] < i <= block[-1]]
    if not inside and all(i in kept_lines or not old[i].strip() for i in block):
        return [i for i in block if old[i].strip()]
    found: list[int] = []
    for first, last in make_spans(i for i in block if i in kept_lines):
        for start, end in pairwise([first, *(i for i in inside if first < i <= last), last + 1]):
            own = [i for i in range(start, end) if is_distinctive_line(old[i])]
            found += range(own[0], own[-1] + 1) if own else ()
    return found
