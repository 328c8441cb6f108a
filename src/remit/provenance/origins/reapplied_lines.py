"""Lines that somebody unknown brought into a file, and that a call had put there before: a stash that was taken back
onto other work, a commit that was picked, what was seen only afterwards.

Who brings back wrote nothing. The evidence is that of a version that nobody recorded, where something speaks against
it: enough of the call's block has to stand in what came, and a line of it that was not there before.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from msgspec import Struct
from msgspec.structs import replace

from remit.core.diff.distinctive_lines import is_distinctive_line
from remit.core.display_text import quote_path
from remit.provenance.origins.attributor import LineAttributor, includes_expected_record
from remit.provenance.origins.blame_porcelain import FileVersion, GitLine
from remit.provenance.origins.carried_attributions import carry_attributions
from remit.provenance.origins.evidence import Attribution, attribution_at, strip_whitespace
from remit.provenance.origins.recorded_steps import FileHistory, HistoryStep, line_before, possible_routes
from remit.provenance.origins.token_index import ExpectedLines

MAX_STEPS = 8
"""Observations of one file that are looked behind."""


class ArrivedLines(Struct, frozen=True):
    """Lines of the file asked about that one step brought: by their numbers there, those after the step, from 1.
    `seq` is the record with which, or after which, the step was seen.
    """

    place: FileVersion
    step: HistoryStep
    seq: int
    numbers: dict[int, int]


class ReappliedLines:
    """Looks for lines in what was recorded of their file before they came."""

    def __init__(self, attributor: LineAttributor) -> None:
        self.attributor = attributor

    def attribute_lines(self, lines: Sequence[GitLine]) -> dict[int, Attribution]:
        """Labels by line of the file asked about. `lines` are git's, of which nothing tells but when they came."""
        found: dict[int, Attribution] = {}
        texts = {line.line: line.content for line in lines}
        for came in self.find_arrivals(lines)[:MAX_STEPS]:
            strong = [texts[n] for n in came.numbers if is_distinctive_line(texts[n])]
            expected = (
                self.attributor.token_index.expected_lines(quote_path(came.place.path), strong) if strong else None
            )
            if expected and (expected := self.drop_observed_records(expected)).records:
                found |= self.attribute_arrival(came, expected, texts)
        return found

    def drop_observed_records(self, expected: ExpectedLines) -> ExpectedLines:
        """The hope without what was found by comparing."""
        return replace(expected, records=expected.records - self.attributor.observed)

    def find_arrivals(self, lines: Sequence[GitLine]) -> list[ArrivedLines]:
        """The steps that brought those lines, where records tell them for certain, and not who took them."""
        found: dict[tuple[FileVersion, int], ArrivedLines] = {}
        routes = {place: self.attributor.certain_routes(place) for place in {line.version for line in lines}}
        for line in lines:
            route = routes[line.version][0] if routes[line.version] else ()
            version, number = self.find_arrival_step(route, line.number)
            if version is not None and (route[version].inferred or route[version].unproved):
                fresh = ArrivedLines(
                    line.version, route[version], self.first_record_number(line.version, route[version:]), {}
                )
                found.setdefault((line.version, version), fresh).numbers[line.line] = number
        return list(found.values())

    def find_arrival_step(self, route: Sequence[HistoryStep], number: int) -> tuple[int | None, int]:
        """Which step of a way brought a line that has this number at the end; and its number after that step."""
        for place in reversed(range(len(route))):
            step = route[place]
            hunks = (
                step.hunks if step.hunks is not None else self.attributor.hunks_by_pair.get((step.before, step.after))
            )
            stood = None if hunks is None else line_before(hunks, number)
            if stood is None:
                return (None if hunks is None else place), number
            number = stood
        return None, number

    def first_record_number(self, version: FileVersion, steps: Iterable[HistoryStep]) -> int:
        """The record of the first of the steps that has one."""
        records = {found.record: found.seq for found in self.attributor.history_at_version(version).recorded}
        return next((records[step.record] for step in steps if step.record in records), 0)

    def attribute_arrival(
        self, came: ArrivedLines, expected: ExpectedLines, texts: Mapping[int, bytes]
    ) -> dict[int, Attribution]:
        """The labels of what one step brought."""
        attributions = self.carry_to_arrival(came, expected)
        self.attributor.load_contents({came.step.before} if came.step.before else set())
        there = {strip_whitespace(text) for text in self.attributor.lines_of(came.step.before) or ()}
        found: dict[int, Attribution] = {}
        for _, run in groupby(
            enumerate(sorted(attributions)), key=lambda pair: (pair[1] - pair[0], attributions[pair[1]].record)
        ):
            numbers = [number for _, number in run]
            strong = {strip_whitespace(texts[number]) for number in numbers if is_distinctive_line(texts[number])}
            if strong - there:
                found |= {number: attributions[number] for number in numbers}
        return found

    def carry_to_arrival(self, came: ArrivedLines, expected: ExpectedLines) -> dict[int, Attribution]:
        """What calls before the step left with those lines in them, as far as that is evidence."""
        routes = [way for way in self.routes_to_arrival(came) if includes_expected_record(way, expected)]
        self.attributor.load_routes(routes)
        found: dict[int, Attribution] = {}
        for way in routes:
            attributions = carry_attributions(way, self.attributor.content_pairs, self.attributor.carried)
            for line, number in came.numbers.items():
                attribution = attribution_at(attributions, number)
                if line not in found and attribution and not self.attributor.is_found_by_comparison(attribution):
                    found[line] = attribution
        return found

    def routes_to_arrival(self, came: ArrivedLines) -> Sequence[Sequence[HistoryStep]]:
        """How that content may have come about from those that were recorded before the step; what was there last did
        not have the lines.
        """
        known = self.attributor.history_at_version(came.place).recorded
        earlier = FileHistory([found for found in known if found.seq < came.seq])
        return [make_last_step_strict(way) for way in possible_routes(came.step.after, came.step.before, earlier)]


def make_last_step_strict(route: Sequence[HistoryStep]) -> Sequence[HistoryStep]:
    """The way, whose last step has something speak against it."""
    return (*route[:-1], replace(route[-1], strict=True)) if route[-1].record is None else route
