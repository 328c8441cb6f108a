"""Grades of evidence, and the rules by which a line counts as evidence of a recorded version.

A false claim costs more than a gap: common lines (`}`, `try:`, `return None`) prove nothing, and most of a block has to
remain.
"""

from collections.abc import Container, Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.core.diff.contents import CACHE_SIZE, Hunk, has_distinctive_word, is_distinctive_line, make_spans

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


Attributions: TypeAlias = list[Attribution | None]


def limit_grade(attribution: Attribution, grade: Grade) -> Attribution:
    return attribution if GRADES.index(attribution.grade) >= GRADES.index(grade) else replace(attribution, grade=grade)


def attribution_at(attributions: Sequence[Attribution | None], number: int) -> Attribution | None:
    """Return the attribution of a line, counted from 1."""
    return attributions[number - 1] if 0 < number <= len(attributions) else None


@lru_cache(CACHE_SIZE)
def strip_whitespace(line: bytes) -> bytes:
    return b"".join(line.split())


def is_distinctive(lines: Iterable[bytes]) -> bool:
    texts = list(lines)
    return any(map(is_distinctive_line, texts)) or sum(map(has_distinctive_word, texts)) >= MIN_TELLING_LINES


class SurvivalTest(Struct, frozen=True):
    """Test of the lines of `old` that keep their attribution through an inferred step. `attributed` are the lines with
    an attribution. `strict`: a later content was seen without the lines. `observed`: both contents followed each other
    under observation; otherwise a distinctive line of a block has to remain, if the block had any.
    """

    old: Sequence[bytes]
    hunks: Sequence[Hunk]
    attributed: Sequence[int]
    strict: bool
    observed: bool

    @property
    def only_removes(self) -> bool:
        """True if no line came, as in a partial commit."""
        return not any(hunk.new_lines for hunk in self.hunks)

    def lines_keeping_attribution(self, block: Sequence[int], kept_lines: Container[int]) -> Sequence[int]:
        """Return the lines of a block (indices from 0) that keep their attribution if `kept_lines` remain."""
        if not self.is_evidence(block, kept_lines):
            is_untouched = not self.strict and is_block_untouched(block, self.hunks)
            return block if is_untouched and (self.observed or self.are_lines_kept(kept_lines)) else ()
        if self.only_removes or (not self.strict and all(i in kept_lines for i in block)):
            return block
        if self.strict:
            return self.distinctive_lines(block, kept_lines)
        # Of a paragraph only a few common lines may remain: it was replaced by another with an equal end.
        parts: list[list[int]] = [[]]
        for i in block:
            if self.old[i].strip() and parts[-1] and not self.old[parts[-1][-1]].strip():
                parts.append([])
            parts[-1].append(i)
        return [i for part in parts if self.is_mostly_kept(part, kept_lines) for i in part]

    def are_lines_kept(self, kept_lines: Container[int]) -> bool:
        return all(i in kept_lines for i in self.attributed) or self.is_evidence(self.attributed, kept_lines)

    def is_evidence(self, block: Iterable[int], kept_lines: Container[int]) -> bool:
        worded = [i for i in block if self.old[i].strip()]
        kept = [self.old[i] for i in worded if i in kept_lines]
        if not any(map(has_distinctive_word, kept)):
            return False
        distinctive = {line.strip() for line in kept if is_distinctive_line(line)}
        if not self.observed and not distinctive and any(is_distinctive_line(self.old[i]) for i in worded):
            return False
        is_enough = len(kept) >= MIN_KEPT_SHARE * len(worded)
        has_several = len(distinctive) >= MIN_DISTINCTIVE_LINES
        if self.strict:
            return is_enough and (has_several or (bool(distinctive) and len(kept) == len(worded)))
        if is_enough or has_several or (self.only_removes and distinctive):
            return True
        return len({line.strip() for line in kept if has_distinctive_word(line)}) >= MIN_WORDED_LINES

    def is_mostly_kept(self, part: Sequence[int], kept_lines: Container[int]) -> bool:
        texts = [i for i in part if self.old[i].strip()]
        remaining = [self.old[i] for i in texts if i in kept_lines]
        return len(remaining) >= MIN_KEPT_SHARE * len(texts) or is_distinctive(remaining)

    def distinctive_lines(self, block: Sequence[int], kept_lines: Container[int]) -> Sequence[int]:
        cuts = [h.old for h in self.hunks if h.new_lines and not h.old_lines and block[0] < h.old <= block[-1]]
        if not cuts and all(i in kept_lines or not self.old[i].strip() for i in block):
            return [i for i in block if self.old[i].strip()]
        result: list[int] = []
        for first, last in make_spans(i for i in block if i in kept_lines):
            for start, end in pairwise([first, *(i for i in cuts if first < i <= last), last + 1]):
                distinctive = [i for i in range(start, end) if is_distinctive_line(self.old[i])]
                result += range(distinctive[0], distinctive[-1] + 1) if distinctive else ()
        return result


def is_block_untouched(block: Sequence[int], hunks: Iterable[Hunk]) -> bool:
    for hunk in hunks:
        start = hunk.old_range.start - 1
        end = start + hunk.old_lines
        if start <= block[-1] + 1 and (end >= block[0] if hunk.old_lines else start >= block[0]):
            return False
    return True
