"""Lines of a recorded call that came back into a file: by `git stash pop`, by a cherry-pick, or found by a later
comparison.

Whoever reapplies lines wrote nothing. The evidence rules are those of an unrecorded step that something speaks against:
most of the call's block has to be present, with at least one distinctive line that the file did not hold before.
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
from remit.provenance.origins.recorded_steps import FileHistory, HistoryStep, Route, line_before, possible_routes
from remit.provenance.origins.token_index import ExpectedLines

MAX_STEPS = 8
"""Observations of one file that are searched."""


class ArrivedLines(Struct, frozen=True):
    """Lines that one step brought: their numbers after the step, from 1, by their numbers in the file asked about.
    `seq` is the first record at or after the step.
    """

    version: FileVersion
    step: HistoryStep
    seq: int
    numbers: dict[int, int]


class ReappliedLines:
    """Search for lines among the earlier recorded contents of their file."""

    def __init__(self, attributor: LineAttributor) -> None:
        self.attributor = attributor

    def attribute_lines(self, lines: Sequence[GitLine]) -> dict[int, Attribution]:
        """Return attributions by line number of the file asked about, for lines known only by their arrival."""
        result: dict[int, Attribution] = {}
        texts = {line.line: line.content for line in lines}
        for arrival in self.find_arrivals(lines)[:MAX_STEPS]:
            distinctive = [texts[n] for n in arrival.numbers if is_distinctive_line(texts[n])]
            expected = (
                self.attributor.token_index.expected_lines(quote_path(arrival.version.path), distinctive)
                if distinctive
                else None
            )
            if expected and (expected := self.drop_observed_records(expected)).records:
                result |= self.attribute_arrival(arrival, expected, texts)
        return result

    def drop_observed_records(self, expected: ExpectedLines) -> ExpectedLines:
        return replace(expected, records=expected.records - self.attributor.observed)

    def find_arrivals(self, lines: Sequence[GitLine]) -> list[ArrivedLines]:
        """Return the steps that brought the lines, if the records tell them for certain and not the author."""
        arrivals: dict[tuple[FileVersion, int], ArrivedLines] = {}
        routes = {position: self.attributor.certain_routes(position) for position in {line.version for line in lines}}
        for line in lines:
            route = routes[line.version][0] if routes[line.version] else ()
            position, number = self.find_arrival_step(route, line.number)
            if position is not None and (route[position].inferred or route[position].unproved):
                arrival = ArrivedLines(
                    line.version, route[position], self.first_record_number(line.version, route[position:]), {}
                )
                arrivals.setdefault((line.version, position), arrival).numbers[line.line] = number
        return list(arrivals.values())

    def find_arrival_step(self, route: Route, number: int) -> tuple[int | None, int]:
        """Return the index of the step that brought a line, and the line's number after that step."""
        for position in reversed(range(len(route))):
            step = route[position]
            hunks = (
                step.hunks if step.hunks is not None else self.attributor.hunks_by_pair.get((step.before, step.after))
            )
            number_before = None if hunks is None else line_before(hunks, number)
            if number_before is None:
                return (None if hunks is None else position), number
            number = number_before
        return None, number

    def first_record_number(self, version: FileVersion, steps: Iterable[HistoryStep]) -> int:
        records = {entry.record: entry.seq for entry in self.attributor.history_at_version(version).recorded}
        return next((records[step.record] for step in steps if step.record in records), 0)

    def attribute_arrival(
        self, arrival: ArrivedLines, expected: ExpectedLines, texts: Mapping[int, bytes]
    ) -> dict[int, Attribution]:
        """Return the attributions of the lines of one arrival, for runs with a new distinctive line."""
        attributions = self.carry_to_arrival(arrival, expected)
        self.attributor.load_contents({arrival.step.before} if arrival.step.before else set())
        lines_before = {strip_whitespace(text) for text in self.attributor.lines_of(arrival.step.before) or ()}
        result: dict[int, Attribution] = {}
        for _, run in groupby(
            enumerate(sorted(attributions)), key=lambda pair: (pair[1] - pair[0], attributions[pair[1]].record)
        ):
            numbers = [number for _, number in run]
            distinctive = {strip_whitespace(texts[number]) for number in numbers if is_distinctive_line(texts[number])}
            if distinctive - lines_before:
                result |= {number: attributions[number] for number in numbers}
        return result

    def carry_to_arrival(self, arrival: ArrivedLines, expected: ExpectedLines) -> dict[int, Attribution]:
        """Carry the attributions of earlier calls to the arrived content."""
        routes = [route for route in self.routes_to_arrival(arrival) if includes_expected_record(route, expected)]
        self.attributor.load_routes(routes)
        result: dict[int, Attribution] = {}
        for route in routes:
            attributions = carry_attributions(route, self.attributor.content_pairs, self.attributor.carried)
            for line, number in arrival.numbers.items():
                attribution = attribution_at(attributions, number)
                if line not in result and attribution and not self.attributor.is_found_by_comparison(attribution):
                    result[line] = attribution
        return result

    def routes_to_arrival(self, arrival: ArrivedLines) -> Sequence[Route]:
        entries = self.attributor.history_at_version(arrival.version).recorded
        earlier = FileHistory([result for result in entries if result.seq < arrival.seq])
        return [
            make_last_step_strict(route) for route in possible_routes(arrival.step.after, arrival.step.before, earlier)
        ]


def make_last_step_strict(route: Route) -> Route:
    return (*route[:-1], replace(route[-1], strict=True)) if route[-1].record is None else route
