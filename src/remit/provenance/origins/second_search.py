"""Second search for lines without attribution: moved, reformatted, reapplied, or exchanged by git with an equal line.

Only lines that no record explains are searched for. git starts a few times, however many lines there are.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.core.diff.contents import Hunk, is_distinctive_line, make_spans
from remit.core.untrusted_input import quote_path
from remit.ledger.file_changes import RecordedChange
from remit.provenance.origins.attributor import LineAttributor, includes_expected_record
from remit.provenance.origins.blame_porcelain import FileVersion, GitLine, path_from_workspace, read_git_lines
from remit.provenance.origins.carried_attributions import carry_from
from remit.provenance.origins.evidence_grades import Attribution, attribution_at, limit_grade, strip_whitespace
from remit.provenance.origins.line_matches import find_moved_blocks, find_reformatted_lines, is_respaced
from remit.provenance.origins.moved_blocks import MAX_RUNS, RecordedBlocks, consecutive_runs, find_moved_lines
from remit.provenance.origins.recorded_steps import FileHistory, HistoryStep, Route, line_before, possible_routes
from remit.provenance.origins.token_index import ExpectedLines
from remit.workspace.git.command import GitError

LineOrigin: TypeAlias = tuple[str, str, int]  # a line of a version: its commit, its path in git's tree, its number
MAX_FILE_VERSIONS = 4  # versions per file that are followed by records
MAX_LAYOUT_COMMITS = 8  # versions per file that are tested for a change of layout
MAX_LAYOUT_DEPTH = 3  # successive layout changes that are followed
MAX_STEPS = 8  # observations of one file that are searched for reapplied lines


class UnattributedLines:
    """Search for the lines left without attribution by the attributor, in a repository."""

    def __init__(self, attributor: LineAttributor) -> None:
        self.git = attributor.git
        self.attributor = attributor
        self.lines_by_calls: frozenset[bytes] = frozenset()
        """Lines asked about that a call may have put into some file."""
        self.swapped_lines: dict[FileVersion, frozenset[int]] = {}
        """By version: the lines asked about, of any version, whose origin the version's records or its layout tell
        otherwise than git."""
        self.disowned_lines: set[int] = set()
        """Those of them that nobody is known to have written."""

    def attribute_lines(self, path: str, arguments: Sequence[str], lines: Sequence[GitLine]) -> dict[int, Attribution]:
        """Return attributions by line of the file asked about. `lines` are git's lines without attribution."""
        recent = {v for v in {line.version for line in lines} if self.attributor.may_hold_recorded_lines(v)}
        suspects = [line for line in lines if line.version in recent]
        if not suspects:
            return {}
        # The index answers None for a common line: only its neighbours can tell.
        matches = self.attributor.token_index.match_any_record([line.content for line in suspects])
        maybe_recorded = {n.version for n in suspects if matches[n.content] is not False and n.content.strip()}
        recorded = [text for text, is_match in matches.items() if is_match]
        self.lines_by_calls = (
            frozenset(self.attributor.token_index.lines_by_calls(recorded)) if recorded else frozenset()
        )
        result: dict[int, Attribution] = {}
        if self.lines_by_calls:
            result = find_moved_lines(self.attributor, path, arguments, suspects)
        remaining = [line for line in suspects if line.line not in result and line.version in maybe_recorded]
        result = {**self.attribute_reformatted(remaining, MAX_LAYOUT_DEPTH), **result}
        remaining = [line for line in suspects if line.line not in result]
        if remaining and self.lines_by_calls:
            result = {**RecordedBlocks(self.attributor).attribute_lines(remaining), **result}
        # Records outrank the searches above: git may have exchanged a line with an equal one.
        return {**result, **self.find_swapped_copies(path, arguments, suspects)}

    # -- searched lines that are none after all ------------------------------------------------------------------

    def added_beside_existing(
        self, lines: Iterable[GitLine], attributions: Mapping[int, Attribution], searched: Mapping[int, Attribution]
    ) -> set[int]:
        """Return the lines that a call may have inserted while each equal line stayed: they did not come from there."""
        unproved = [line for line in lines if line.line in searched and not attributions[line.line].proved]

        def count_equal(line: GitLine, others: Iterable[bytes]) -> int:
            return list(map(strip_whitespace, others)).count(strip_whitespace(line.content))

        return {
            line.line
            for line, own, old_lines, new_lines in self.change_contents(unproved, attributions)
            if searched[line.line].record in own and count_equal(line, old_lines) < count_equal(line, new_lines)
        }

    def removed_by_own_record(self, lines: Iterable[GitLine], attributions: Mapping[int, Attribution]) -> set[int]:
        """Return the lines that the attributed record itself removed: whoever inserts them again undoes its work."""
        weak = [n for n in lines if n.line in attributions and attributions[n.line].grade in ("moved", "normalised")]
        return {
            line.line
            for line, _, old_lines, new_lines in self.change_contents(weak, attributions)
            if old_lines.count(line.content) > new_lines.count(line.content)
        }

    def change_contents(
        self, lines: Iterable[GitLine], attributions: Mapping[int, Attribution]
    ) -> Iterator[tuple[GitLine, Collection[str], Sequence[bytes], Sequence[bytes]]]:
        by_path: dict[str, dict[str, RecordedChange]] = {}
        changed: list[tuple[GitLine, RecordedChange]] = []
        for line in lines:
            path = line.version.path
            if path not in by_path:
                by_path[path] = {c.id: c for c in self.attributor.index.list_changes(quote_path(path))}
            if change := by_path[path].get(attributions[line.line].record):
                changed.append((line, change))
        self.attributor.load_contents(blob for _, c in changed for blob in (c.before_blob, c.after_blob))
        for line, change in changed:
            old_lines, new_lines = (self.attributor.lines_of(b) or () for b in (change.before_blob, change.after_blob))
            yield line, by_path[line.version.path], old_lines, new_lines

    # -- another layout ------------------------------------------------------------------------------------------

    def attribute_laid_out(self, suspects: Sequence[GitLine], depth: int = MAX_LAYOUT_DEPTH) -> dict[int, Attribution]:
        """Attribute lines that a call is proved to have only laid out anew, by line of the file asked about."""
        result: dict[int, Attribution] = {}
        for version in [v for v in dict.fromkeys(line.version for line in suspects) if v.previous]:
            origins = self.attributor.layout_origins(version)
            wanted = {n.line: origins[n.number] for n in suspects if n.version == version and n.number in origins}
            if wanted:
                previous = self.attribute_previous_version(version, set(wanted.values()), depth)
                known = {line: previous[n] for line, n in wanted.items() if n in previous}
                result |= {line: limit_grade(attribution, "normalised") for line, attribution in known.items()}
        return result

    def attribute_reformatted(self, suspects: Sequence[GitLine], depth: int) -> dict[int, Attribution]:
        versions = [v for v in dict.fromkeys(line.version for line in suspects) if v.previous][:MAX_LAYOUT_COMMITS]
        versions = [version for version in versions if not self.attributor.only_adds_one_block(version)]
        self.attributor.load_hunks(pair for version in versions if (pair := self.content_pair(version)))
        result: dict[int, Attribution] = {}
        for version in versions:
            lines = [line for line in suspects if line.version == version]
            origins = self.find_line_origins(version, [line.number for line in lines])
            origin_by_line = {line.line: origins[line.number] for line in lines if line.number in origins}
            if origin_by_line:
                previous = self.attribute_previous_version(version, set(origin_by_line.values()), depth)
                known = {line: previous[n] for line, n in origin_by_line.items() if n in previous}
                result |= {line: limit_grade(attribution, "normalised") for line, attribution in known.items()}
        return result

    def find_line_origins(self, version: FileVersion, numbers: Iterable[int]) -> dict[int, int]:
        """Return for reformatted, moved and unchanged lines their line in the version before, both from 1."""
        pair = self.content_pair(version)
        hunks = self.attributor.hunks_by_pair.get(pair) if pair else None
        old, new = map(self.attributor.lines_of, pair or (None, None))
        if hunks is None or old is None or new is None:
            return {}
        existing = [number for number in numbers if number <= len(new)]
        unchanged = find_unchanged_lines(old, new, hunks, [number - 1 for number in existing])
        origin_by_line = {**unchanged, **find_moved_blocks(old, new, hunks), **find_reformatted_lines(old, new, hunks)}
        return {b + 1: a + 1 for b, a in origin_by_line.items()} | self.attributor.recorded_origins(version, existing)

    def content_pair(self, version: FileVersion) -> tuple[str, str] | None:
        blob, parent = self.attributor.version_blob(version), self.attributor.parent_blob(version)
        return (parent, blob) if blob and parent else None

    def attribute_previous_version(self, version: FileVersion, numbers: set[int], depth: int) -> dict[int, Attribution]:
        commit, _, path = (version.previous or "").partition(" ")
        spans = (f"-L{low},{high}" for low, high in make_spans(numbers)[:MAX_RUNS])
        try:
            lines = self.git_blame(path_from_workspace(path, self.attributor.prefix), *spans, commit)
        except GitError:
            return {}
        attributions = self.attributor.attribute_lines(lines)
        found = {line.line: attribution_at(attributions[line.version], line.number) for line in lines}
        result = {line: attribution for line, attribution in found.items() if attribution}
        if depth > 1:
            unproved = [line for line in lines if line.line in result and not result[line.line].proved]
            result |= self.attribute_laid_out(unproved, depth - 1)
        may_hold = self.attributor.may_hold_recorded_lines
        remaining = [line for line in lines if line.line not in result and may_hold(line.version)]
        return {**(self.attribute_reformatted(remaining, depth - 1) if depth > 1 and remaining else {}), **result}

    def git_blame(self, path: str, *words: str) -> list[GitLine]:
        """Run git blame. Raises GitError."""
        prefix = self.attributor.prefix
        return read_git_lines(self.git.run("blame", "--porcelain", *words, "--", prefix.path_for_git(path)), prefix)

    # -- exchanged with an equal line ----------------------------------------------------------------------------

    def find_swapped_copies(
        self, path: str, arguments: Sequence[str], suspects: Sequence[GitLine]
    ) -> dict[int, Attribution]:
        if any(argument.startswith("-") and not argument.startswith("-L") for argument in arguments):
            return {}
        lines_by_version: dict[FileVersion, list[GitLine]] = {}
        for line in suspects:
            lines_by_version.setdefault(line.version, []).append(line)
        found: dict[int, Attribution] = {}
        versions: list[FileVersion] = []
        for version, lines in lines_by_version.items():
            origins = self.attributor.recorded_origins(version, [line.number for line in lines])
            is_moved = any(n.number in origins and is_distinctive_line(n.content) for n in lines)
            if version.previous and (is_moved or self.only_changes_spaces(version)):
                versions.append(version)
        for version in versions[:MAX_FILE_VERSIONS]:
            swapped = self.follow_by_records(version, path, arguments)
            found = {**swapped, **found}
        return found

    def follow_by_records(self, version: FileVersion, path: str, arguments: Sequence[str]) -> dict[int, Attribution]:
        attributor = self.attributor
        commit, _, old = (version.previous or "").partition(" ")
        revision = [version.commit] if version.has_commit else []
        try:
            lines_now = self.git_blame(path, *arguments)
            lines_of_version = self.git_blame(version.path, *revision)
            lines_before = self.git_blame(path_from_workspace(old, attributor.prefix), commit)
        except GitError:
            return {}
        numbers = {line_origin(line): line.line for line in lines_of_version}
        origins = self.origins_in_parent(version, list(numbers.values()))
        lines_before_by_number = {line.line: line for line in lines_before}
        attributions = attributor.attribute_lines(lines_before)
        own_attributions = attributor.attribute_versions([version])[version]
        own_records = {step.record for route in attributor.certain_routes(version) for step in route}
        is_layout, swapped = self.only_changes_spaces(version), set[int]()
        result: dict[int, Attribution] = {}
        for line in lines_now:
            number = numbers.get(line_origin(line))
            source = lines_before_by_number.get(origins.get(number or 0, 0))
            by_records = line_origin(source) if source else (version.commit, version.path_in_tree, number)
            if number is None or by_records == line_origin(line):
                continue
            is_reformatted = is_layout and line.version == version
            if source is None:
                attribution = attribution_at(own_attributions, number)
            else:
                attribution = attribution_at(attributions[source.version], source.number)
            if is_reformatted:
                result |= {line.line: limit_grade(attribution, "normalised")} if attribution else {}
                continue
            swapped.add(line.line)
            if attribution is None and is_layout:
                self.disowned_lines.add(line.line)
            elif attribution is not None and not (source and attribution.record in own_records):
                result[line.line] = attribution
        self.swapped_lines |= {version: frozenset(swapped)} if swapped else {}
        return result

    def origins_in_parent(self, version: FileVersion, numbers: Sequence[int]) -> dict[int, int]:
        """Return for lines the line in the version before, if the records show it, or if only white space changed."""
        if self.only_changes_spaces(version):
            return {number: number for number in numbers}
        return self.attributor.recorded_origins(version, numbers)

    def only_changes_spaces(self, version: FileVersion) -> bool:
        pair = self.content_pair(version)
        self.attributor.load_contents(pair or ())
        old, new = map(self.attributor.lines_of, pair or (None, None))
        return old is not None and new is not None and is_respaced(old, new)


def line_origin(line: GitLine) -> LineOrigin:
    return line.version.commit, line.version.path_in_tree, line.number


def find_unchanged_lines(
    old: Sequence[bytes], new: Sequence[bytes], hunks: Sequence[Hunk], indices: Iterable[int]
) -> dict[int, int]:
    """Return for lines (from 0) not added by a hunk the line of `old`. git calls a line new if the newline at the end
    of the file changed, and may keep either line of an exchanged pair. A line with two occurrences may be either.
    """
    origins: dict[int, int] = {}
    for index in indices:
        if any(hunk.new <= index + 1 < hunk.new + hunk.new_lines for hunk in hunks):
            continue
        origin = index - sum(hunk.new_lines - hunk.old_lines for hunk in hunks if hunk.new <= index)
        at_end = origin == len(old) - 1 or index == len(new) - 1
        if at_end or (is_distinctive_line(new[index]) and old.count(new[index]) == new.count(new[index]) == 1):
            origins[index] = origin
    return origins


# -- reapplied ---------------------------------------------------------------------------------------------------


class ArrivedLines(Struct, frozen=True):
    """Lines that one step brought: their numbers after the step, from 1, by their numbers in the file asked about.
    `seq` is the first record at or after the step.
    """

    version: FileVersion
    step: HistoryStep
    seq: int
    numbers: dict[int, int]


class ReappliedLines:
    """Search for lines of a recorded call that came back into their file: by `git stash pop`, by a cherry-pick, or
    found by a later comparison. Reapplying lines is not writing. The evidence rules are the rules for a contested
    unrecorded step: most of the call's block has to be present, with at least one distinctive line new to the file.
    """

    def __init__(self, attributor: LineAttributor) -> None:
        self.attributor = attributor

    def attribute_lines(self, lines: Sequence[GitLine]) -> dict[int, Attribution]:
        """Return attributions by line number of the file asked about, for lines known only by their arrival."""
        attributor, result = self.attributor, dict[int, Attribution]()
        texts = {line.line: line.content for line in lines}
        for arrival in self.find_arrivals(lines)[:MAX_STEPS]:
            distinctive = [texts[n] for n in arrival.numbers if is_distinctive_line(texts[n])]
            path = quote_path(arrival.version.path)
            expected = attributor.token_index.expected_lines(path, distinctive) if distinctive else None
            if expected is None or not (records := expected.records - attributor.observed):
                continue
            attributions = self.carry_to_arrival(arrival, replace(expected, records=records))
            attributor.load_contents([arrival.step.before])
            lines_before = {strip_whitespace(text) for text in attributor.lines_of(arrival.step.before) or ()}
            for run in consecutive_runs(sorted(attributions), attributions):
                stripped = {strip_whitespace(texts[number]) for number in run if is_distinctive_line(texts[number])}
                if stripped - lines_before:
                    result |= {number: attributions[number] for number in run}
        return result

    def find_arrivals(self, lines: Sequence[GitLine]) -> list[ArrivedLines]:
        arrivals: dict[tuple[FileVersion, int], ArrivedLines] = {}
        routes = {version: self.attributor.certain_routes(version) for version in {line.version for line in lines}}
        for line in lines:
            route = routes[line.version][0] if routes[line.version] else ()
            position, number = self.find_arrival_step(route, line.number)
            if position is not None and (route[position].inferred or route[position].unproved):
                entries = self.attributor.history_at_version(line.version).recorded
                seqs = {entry.record: entry.seq for entry in entries}
                seq = next((seqs[step.record] for step in route[position:] if step.record in seqs), 0)
                arrival = ArrivedLines(line.version, route[position], seq, {})
                arrivals.setdefault((line.version, position), arrival).numbers[line.line] = number
        return list(arrivals.values())

    def find_arrival_step(self, route: Route, number: int) -> tuple[int | None, int]:
        for position in reversed(range(len(route))):
            step = route[position]
            hunks = step.hunks
            if hunks is None and (hunks := self.attributor.hunks_by_pair.get((step.before, step.after))) is None:
                return None, number
            if (number_before := line_before(hunks, number)) is None:
                return position, number
            number = number_before
        return None, number

    def carry_to_arrival(self, arrival: ArrivedLines, expected: ExpectedLines) -> dict[int, Attribution]:
        attributor, step = self.attributor, arrival.step
        entries = attributor.history_at_version(arrival.version).recorded
        earlier = FileHistory([entry for entry in entries if entry.seq < arrival.seq])
        routes = [r for r in possible_routes(step.after, step.before, earlier) if includes_expected_record(r, expected)]
        routes = [(*r[:-1], replace(r[-1], strict=True)) if r[-1].record is None else r for r in routes]
        attributor.load_routes(routes)
        result: dict[int, Attribution] = {}
        for route in routes:
            attributions = carry_from(route, attributor.content_pairs, attributor.carried, (0, None))[1] or []
            for line, number in arrival.numbers.items():
                attribution = attribution_at(attributions, number)
                if line not in result and attribution and not attributor.is_found_by_comparison(attribution):
                    result[line] = attribution
        return result
