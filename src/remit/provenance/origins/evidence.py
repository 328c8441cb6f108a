"""Grades of evidence, and the rules by which a line counts as evidence of a recorded version.

A false claim costs more than a gap: common lines (`}`, `try:`, `return None`) prove nothing, and most of a block has to
remain.
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
"""Share of a block that has to remain: a person who edits a line or two leaves more, a rewrite leaves less."""

MIN_DISTINCTIVE_LINES = 3
MIN_WORDED_LINES = 8
MIN_TELLING_LINES = 3

Grade: TypeAlias = Literal["exact", "payload", "preserved", "ledger", "moved", "normalised", "note", "likely"]
GRADES: tuple[Grade, ...] = ("exact", "payload", "preserved", "ledger", "moved", "normalised", "note", "likely")
"""Strongest first: the same blob; the position reported by the tool; kept by git's diff; a recorded version still
present; a block found elsewhere; equal but for layout; a note from another repository; the only call that can have
written the line.
"""

LIKELY: Grade = "likely"

GradeClass: TypeAlias = Literal["exact", "carried", "note", "likely"]
GRADES_BY_CLASS: dict[GradeClass, tuple[Grade, ...]] = {
    "exact": ("exact", "payload"),
    "carried": ("preserved", "ledger", "moved", "normalised"),
    "note": ("note",),
    "likely": ("likely",),
}
"""Grades by the words that people see. For *exact* and *carried* Remit promises that no line of a person is called
an agent's.
"""


def parse_grades(text: str) -> frozenset[str]:
    """Parse a comma-separated list of grades; a class stands for its grades. Raises ValueError for unknown words."""
    grades: set[str] = set()
    for name in text.split(","):
        members = next((grades for word, grades in GRADES_BY_CLASS.items() if word == name.strip()), None)
        if members is None and name.strip() not in GRADES:
            raise ValueError(f"there is no grade {name.strip()!r}; there are {', '.join([*GRADES_BY_CLASS, *GRADES])}")
        grades.update(members or [name.strip()])
    return frozenset(grades)


class Attribution(Struct, frozen=True):
    """The record that put a line into the file, and the strength of the evidence."""

    record: str
    grade: Grade
    proved: bool = True
    """True if the record's call wrote the line; False if the call only ran at the time."""
    likely: bool = False
    """For a line that is not proved: True if no other writer was seen."""


Attributions: TypeAlias = Sequence[Attribution | None]
AttributionList: TypeAlias = list[Attribution | None]


def limit_grade(attribution: Attribution, grade: Grade) -> Attribution:
    return attribution if GRADES.index(attribution.grade) >= GRADES.index(grade) else replace(attribution, grade=grade)


def attribution_at(attributions: Sequence[Attribution | None], number: int) -> Attribution | None:
    """Return the attribution of a line, counted from 1."""
    return attributions[number - 1] if 0 < number <= len(attributions) else None


@lru_cache(CACHE_SIZE)
def strip_whitespace(line: bytes) -> bytes:
    return b"".join(line.split())


class SurvivingBlock(Struct, frozen=True):
    """Lines of one recorded block, and the lines of the block in the version asked about."""

    lines: tuple[bytes, ...]
    kept_lines: tuple[bytes, ...]


def is_distinctive(lines: Iterable[bytes]) -> bool:
    """Return whether a block can be told from other blocks."""
    texts = list(lines)
    return any(map(is_distinctive_line, texts)) or sum(map(has_distinctive_word, texts)) >= MIN_TELLING_LINES


def is_evidence(survivors: SurvivingBlock, *, strict: bool, part: bool = False, observed: bool = True) -> bool:
    """Return whether the remaining lines of a block came from the block.

    `strict`: a later content was seen without the lines. `part`: no other lines came, as in a partial commit.
    `observed`: both contents followed each other under observation; otherwise a distinctive line has to remain, if the
    block had any.
    """
    lines_before = [line for line in survivors.lines if line.strip()]
    kept = [line for line in survivors.kept_lines if line.strip()]
    if not kept or not any(map(has_distinctive_word, kept)):
        return False
    if not observed and any(map(is_distinctive_line, lines_before)) and not any(map(is_distinctive_line, kept)):
        return False
    is_enough = len(kept) >= MIN_KEPT_SHARE * len(lines_before)
    if is_enough and not strict:
        return True
    distinctive_count = len({line.strip() for line in kept if is_distinctive_line(line)})
    if strict:
        return is_enough and (
            distinctive_count >= MIN_DISTINCTIVE_LINES or (distinctive_count > 0 and len(kept) == len(lines_before))
        )
    has_many = len({line.strip() for line in kept if has_distinctive_word(line)}) >= MIN_WORDED_LINES
    return distinctive_count >= MIN_DISTINCTIVE_LINES or has_many or (part and distinctive_count > 0)


class InferredStep(Struct, frozen=True, dict=True):
    """An unrecorded transition from `old` to the next content; decides which lines of blocks keep their attribution.
    `strict` and `observed` are as in `is_evidence`.
    """

    old: Sequence[bytes]
    hunks: Sequence[Hunk]
    strict: bool
    observed: bool
    find_common_lines: Callable[[], frozenset[int]]

    @cached_property
    def only_removes(self) -> bool:
        return not any(hunk.new_lines for hunk in self.hunks)

    @cached_property
    def insertion_points(self) -> list[int]:
        """Old line numbers behind which lines were inserted."""
        return [hunk.old for hunk in self.hunks if hunk.new_lines and not hunk.old_lines]

    def lines_keeping_attribution(self, block: Sequence[int], kept_lines: Container[int]) -> Sequence[int]:
        """Return the lines of a block that keep their attribution if `kept_lines` remain."""
        survivors = SurvivingBlock(
            tuple(self.old[i] for i in block), tuple(self.old[i] for i in block if i in kept_lines)
        )
        part = self.only_removes
        if not is_evidence(survivors, strict=self.strict, part=part, observed=self.observed) and (
            not self.observed or self.strict or not is_block_untouched(block, self.hunks)
        ):
            return ()
        if part:
            return block
        if not self.strict:
            return self.drop_weak_paragraphs(block, kept_lines)
        return distinctive_lines(block, self.old, kept_lines, self.insertion_points)

    def drop_weak_paragraphs(self, block: Sequence[int], kept_lines: Container[int]) -> Sequence[int]:
        """Drop paragraphs of a block of which only a few common lines remain: such a paragraph was replaced by
        another with an equal end.
        """
        if all(i in kept_lines for i in block):
            return block
        return [i for part in split_paragraphs(block, self.old) if self.is_mostly_kept(part, kept_lines) for i in part]

    def is_mostly_kept(self, part: Sequence[int], kept_lines: Container[int]) -> bool:
        texts = [self.old[i] for i in part if self.old[i].strip()]
        remaining = [self.old[i] for i in part if i in kept_lines and self.old[i].strip()]
        return len(remaining) >= MIN_KEPT_SHARE * len(texts) or is_distinctive(remaining)

    @cached_property
    def isolated_lines(self) -> frozenset[int]:
        """Lines that lose their attribution in place, because the diff only found equal lines."""
        return frozenset() if self.strict or self.only_removes else self.find_common_lines()


def split_paragraphs(block: Sequence[int], lines: Sequence[bytes]) -> list[list[int]]:
    """Split the lines of a block behind its empty lines."""
    parts: list[list[int]] = [[]]
    for i in block:
        if lines[i].strip() and parts[-1] and not lines[parts[-1][-1]].strip():
            parts.append([])
        parts[-1].append(i)
    return parts


def is_block_untouched(block: Sequence[int], hunks: Iterable[Hunk]) -> bool:
    """Return whether a block kept its lines and its neighbours."""
    for hunk in hunks:
        start = hunk.old - 1 if hunk.old_lines else hunk.old
        end = start + hunk.old_lines
        if start <= block[-1] + 1 and (end >= block[0] if hunk.old_lines else start >= block[0]):
            return False
    return True


def distinctive_lines(
    block: Sequence[int], old: Sequence[bytes], kept_lines: Container[int], cuts: Iterable[int]
) -> Sequence[int]:
    """Return the lines of a block that keep their attribution against contrary evidence.

    Of a damaged block (lines removed, or inserted before the lines of `cuts`) these are the distinctive lines and the
    lines between them: a rewrite also contains `pass` and `}`.
    """
    inside = [i for i in cuts if block[0] < i <= block[-1]]
    if not inside and all(i in kept_lines or not old[i].strip() for i in block):
        return [i for i in block if old[i].strip()]
    result: list[int] = []
    for first, last in make_spans(i for i in block if i in kept_lines):
        for start, end in pairwise([first, *(i for i in inside if first < i <= last), last + 1]):
            distinctive = [i for i in range(start, end) if is_distinctive_line(old[i])]
            result += range(distinctive[0], distinctive[-1] + 1) if distinctive else ()
    return result
