"""Lines that somebody unknown brought into a file, and that a call had put there before: a stash that was taken back
onto other work, a commit that was picked, what was seen only afterwards.

Who brings back wrote nothing. The evidence is that of a version that nobody recorded, where something speaks against
it: enough of the call's block has to stand in what came, and a line of it that was not there before.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from msgspec import Struct
from msgspec.structs import replace

from remit.core.own_words import is_strong
from remit.core.text import quoted_path
from remit.provenance.origins.attribution import Attribution, goes_by
from remit.provenance.origins.evidence import Label, at, unspaced
from remit.provenance.origins.labels import walk
from remit.provenance.origins.porcelain import GitLine, Place
from remit.provenance.origins.put_words import Hope
from remit.provenance.origins.ways import History, Step, before, chains

MOST_STEPS = 8
"""Observations of one file that are looked behind."""


class Came(Struct, frozen=True):
    """Lines of the file asked about that one step brought: by their numbers there, those after the step, from 1.
    `seq` is the record with which, or after which, the step was seen.
    """

    place: Place
    step: Step
    seq: int
    numbers: dict[int, int]


class BroughtBack:
    """Looks for lines in what was recorded of their file before they came."""

    def __init__(self, attribution: Attribution) -> None:
        self.attribution = attribution

    def labels(self, lines: Sequence[GitLine]) -> dict[int, Label]:
        """Labels by line of the file asked about. `lines` are git's, of which nothing tells but when they came."""
        found: dict[int, Label] = {}
        texts = {line.line: line.content for line in lines}
        for came in self.came(lines)[:MOST_STEPS]:
            strong = [texts[n] for n in came.numbers if is_strong(texts[n])]
            hope = self.attribution.put.hope(quoted_path(came.place.path), strong) if strong else None
            if hope and (hope := self.by_calls(hope)).records:
                found |= self.known(came, hope, texts)
        return found

    def by_calls(self, hope: Hope) -> Hope:
        """The hope without what was found by comparing."""
        return replace(hope, records=hope.records - self.attribution.observed)

    def came(self, lines: Sequence[GitLine]) -> list[Came]:
        """The steps that brought those lines, where records tell them for certain, and not who took them."""
        found: dict[tuple[Place, int], Came] = {}
        ways = {place: self.attribution.sure_ways(place) for place in {line.place for line in lines}}
        for line in lines:
            way = ways[line.place][0] if ways[line.place] else ()
            place, number = self.brought(way, line.number)
            if place is not None and (way[place].loose or way[place].unproved):
                fresh = Came(line.place, way[place], self.seen(line.place, way[place:]), {})
                found.setdefault((line.place, place), fresh).numbers[line.line] = number
        return list(found.values())

    def brought(self, way: Sequence[Step], number: int) -> tuple[int | None, int]:
        """Which step of a way brought a line that has this number at the end; and its number after that step."""
        for place in reversed(range(len(way))):
            step = way[place]
            hunks = step.hunks if step.hunks is not None else self.attribution.diffs.get((step.before, step.after))
            stood = None if hunks is None else before(hunks, number)
            if stood is None:
                return (None if hunks is None else place), number
            number = stood
        return None, number

    def seen(self, place: Place, steps: Iterable[Step]) -> int:
        """The record of the first of the steps that has one."""
        records = {found.record: found.seq for found in self.attribution.history_then(place).recorded}
        return next((records[step.record] for step in steps if step.record in records), 0)

    def known(self, came: Came, hope: Hope, texts: Mapping[int, bytes]) -> dict[int, Label]:
        """The labels of what one step brought."""
        labels = self.labelled(came, hope)
        self.attribution.load({came.step.before} if came.step.before else set())
        there = {unspaced(text) for text in self.attribution.lines(came.step.before) or ()}
        found: dict[int, Label] = {}
        for _, run in groupby(enumerate(sorted(labels)), key=lambda pair: (pair[1] - pair[0], labels[pair[1]].record)):
            numbers = [number for _, number in run]
            strong = {unspaced(texts[number]) for number in numbers if is_strong(texts[number])}
            if strong - there:
                found |= {number: labels[number] for number in numbers}
        return found

    def labelled(self, came: Came, hope: Hope) -> dict[int, Label]:
        """What calls before the step left with those lines in them, as far as that is evidence."""
        ways = [way for way in self.ways(came) if goes_by(way, hope)]
        self.attribution.fetch(ways)
        found: dict[int, Label] = {}
        for way in ways:
            labels = walk(way, self.attribution.pairs, self.attribution.walked)
            for line, number in came.numbers.items():
                label = at(labels, number)
                if line not in found and label and not self.attribution.was_observed(label):
                    found[line] = label
        return found

    def ways(self, came: Came) -> Sequence[Sequence[Step]]:
        """How that content may have come about from those that were recorded before the step; what was there last did
        not have the lines.
        """
        known = self.attribution.history_then(came.place).recorded
        earlier = History([found for found in known if found.seq < came.seq])
        return [strictly(way) for way in chains(came.step.after, came.step.before, earlier)]


def strictly(way: Sequence[Step]) -> Sequence[Step]:
    """The way, whose last step has something speak against it."""
    return (*way[:-1], replace(way[-1], strict=True)) if way[-1].record is None else way
