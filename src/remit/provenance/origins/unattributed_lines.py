"""Second search for lines without attribution: moved, reformatted, or exchanged by git with an equal line.

Only lines that no record explains are searched for. git starts a few times, however many lines there are.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from remit.core.diff.contents import Hunk
from remit.core.diff.distinctive_lines import is_distinctive_line
from remit.core.diff.line_spans import make_spans
from remit.core.display_text import quote_path
from remit.ledger.file_changes import RecordedChange
from remit.provenance.origins.attributor import LineAttributor
from remit.provenance.origins.blame_porcelain import FileVersion, GitLine, path_from_workspace, read_git_lines
from remit.provenance.origins.evidence import Attribution, attribution_at, limit_grade, strip_whitespace
from remit.provenance.origins.moved_blocks import MAX_RUNS, MovedLines, RecordedBlocks
from remit.provenance.origins.similarity import find_moved_blocks, find_reformatted_lines
from remit.workspace.git.command import Git, GitError

LineOrigin: TypeAlias = tuple[str, str, int]
"""A line of a version: its commit, its path in git's tree, its number."""

MAX_FILE_VERSIONS = 4
"""Versions per file that are followed by records."""

MAX_LAYOUT_COMMITS = 8
"""Versions per file that are tested for a change of layout."""

MAX_LAYOUT_DEPTH = 3
"""Successive layout changes that are followed."""


class UnattributedLines:
    """Search for the lines that the attributor left without attribution, in one repository."""

    def __init__(self, git: Git, attributor: LineAttributor) -> None:
        self.git = git
        self.attributor = attributor
        self.lines_by_calls: frozenset[bytes] = frozenset()
        """Lines asked about that a call may have put into some file."""

    def attribute_lines(self, path: str, arguments: Sequence[str], lines: Sequence[GitLine]) -> dict[int, Attribution]:
        """Return attributions by line of the file asked about. `lines` are git's lines without attribution."""
        versions = {line.version for line in lines}
        recent = {version for version in versions if self.attributor.may_hold_recorded_lines(version)}
        suspects = [line for line in lines if line.version in recent]
        if not suspects:
            return {}
        # The index answers None for a common line: only its neighbours can tell.
        matches = self.attributor.token_index.match_any_record([line.content for line in suspects])
        maybe_recorded = {n.version for n in suspects if matches[n.content] is not False and n.content.strip()}
        recorded = [text for text, is_match in matches.items() if is_match]
        if not recorded:
            return self.attribute_reformatted([n for n in suspects if n.version in maybe_recorded], MAX_LAYOUT_DEPTH)
        self.lines_by_calls = frozenset(self.attributor.token_index.lines_by_calls(recorded))
        result: dict[int, Attribution] = {}
        if self.lines_by_calls:
            result = MovedLines(self.git, self.attributor).attribute_lines(path, arguments, suspects)
        remaining = [line for line in suspects if line.line not in result and line.version in maybe_recorded]
        result = {**self.attribute_reformatted(remaining, MAX_LAYOUT_DEPTH), **result}
        remaining = [line for line in suspects if line.line not in result]
        if remaining and self.lines_by_calls:
            result = {**RecordedBlocks(self.git, self.attributor).attribute_lines(remaining), **result}
        # Records outrank the searches above: git may have exchanged a line with an equal one.
        return {**result, **self.find_swapped_copies(path, arguments, suspects)}

    def find_swapped_copies(
        self, path: str, arguments: Sequence[str], suspects: Sequence[GitLine]
    ) -> dict[int, Attribution]:
        """Attribute lines that git exchanged with an equal line, by line of the file asked about."""
        lines_by_version: dict[FileVersion, list[GitLine]] = {}
        for line in suspects:
            lines_by_version.setdefault(line.version, []).append(line)
        versions = [v for v, lines in lines_by_version.items() if self.has_recorded_earlier_line(v, lines)]
        return SwappedCopies(self.git, self.attributor).attribute_lines(path, arguments, versions) if versions else {}

    def has_recorded_earlier_line(self, version: FileVersion, lines: Sequence[GitLine]) -> bool:
        origins = self.attributor.recorded_origins(version, [line.number for line in lines])
        return any(line.number in origins and is_distinctive_line(line.content) for line in lines)

    def added_beside_existing(
        self, lines: Iterable[GitLine], attributions: Mapping[int, Attribution], searched: Mapping[int, Attribution]
    ) -> set[int]:
        """Return the lines that a call may have inserted while every equal line stayed in place: such a line did not
        come from a later removal.
        """
        unproved = [line for line in lines if line.line in searched and not attributions[line.line].proved]
        changes = self.changes_by_path({line.version.path for line in unproved})
        line_changes = [
            (line, change)
            for line in unproved
            if (change := changes[line.version.path].get(attributions[line.line].record))
            and searched[line.line].record in changes[line.version.path]
        ]
        return {
            line.line
            for line, old_lines, new_lines in self.change_contents(line_changes)
            if count_equal_lines(line, old_lines) < count_equal_lines(line, new_lines)
        }

    def removed_by_own_record(self, lines: Iterable[GitLine], attributions: Mapping[int, Attribution]) -> set[int]:
        """Return the lines that the attributed record itself removed in exactly this layout: whoever inserts them again
        undoes the record's work.
        """
        weak = [n for n in lines if n.line in attributions and attributions[n.line].grade in ("moved", "normalised")]
        changes = self.changes_by_path({line.version.path for line in weak})
        line_changes = [
            (n, change) for n in weak if (change := changes[n.version.path].get(attributions[n.line].record))
        ]
        return {
            n.line
            for n, old_lines, new_lines in self.change_contents(line_changes)
            if old_lines.count(n.content) > new_lines.count(n.content)
        }

    def changes_by_path(self, paths: Iterable[str]) -> dict[str, dict[str, RecordedChange]]:
        return {path: {c.id: c for c in self.attributor.index.list_changes(quote_path(path))} for path in paths}

    def change_contents(
        self, line_changes: Sequence[tuple[GitLine, RecordedChange]]
    ) -> Iterator[tuple[GitLine, Sequence[bytes], Sequence[bytes]]]:
        self.attributor.load_contents({blob for _, c in line_changes for blob in (c.before_blob, c.after_blob) if blob})
        for line, change in line_changes:
            old_lines, new_lines = (
                self.attributor.lines_of(blob) or () for blob in (change.before_blob, change.after_blob)
            )
            yield line, old_lines, new_lines

    def attribute_reformatted(self, suspects: Sequence[GitLine], depth: int) -> dict[int, Attribution]:
        """Attribute lines that only changed their layout, following up to `depth` layouts."""
        versions = [version for version in dict.fromkeys(line.version for line in suspects) if version.previous][
            :MAX_LAYOUT_COMMITS
        ]
        versions = [version for version in versions if not self.attributor.only_adds_one_block(version)]
        self.attributor.load_hunks(pair for version in versions if (pair := self.content_pair(version)))
        result: dict[int, Attribution] = {}
        for version in versions:
            lines = [line for line in suspects if line.version == version]
            origins = self.find_line_origins(version, [line.number for line in lines])
            origin_by_line = {line.line: origins[line.number] for line in lines if line.number in origins}
            previous = (
                self.attribute_previous_version(version, set(origin_by_line.values()), depth) if origin_by_line else {}
            )
            result |= {
                line: limit_grade(previous[n], "normalised") for line, n in origin_by_line.items() if n in previous
            }
        return result

    def find_line_origins(self, version: FileVersion, numbers: Iterable[int]) -> dict[int, int]:
        """Return for reformatted, moved and unchanged lines of a version their line in the version before; both from
        1.
        """
        pair = self.content_pair(version)
        hunks: Sequence[Hunk] | None = self.attributor.hunks_by_pair.get(pair) if pair else None
        if pair is None or hunks is None:
            return {}
        old, new = map(self.attributor.lines_of, pair)
        if old is None or new is None:
            return {}
        existing = [number for number in numbers if number <= len(new)]
        unchanged = find_unchanged_lines(old, new, hunks, [number - 1 for number in existing])
        origin_by_line = {**unchanged, **find_moved_blocks(old, new, hunks), **find_reformatted_lines(old, new, hunks)}
        return {b + 1: a + 1 for b, a in origin_by_line.items()} | self.attributor.recorded_origins(version, existing)

    def content_pair(self, version: FileVersion) -> tuple[str, str] | None:
        blob, parent = (
            self.attributor.blobs_by_name.get(version.name),
            self.attributor.blobs_by_name.get(version.parent or ""),
        )
        return (parent, blob) if blob and parent else None

    def attribute_previous_version(self, version: FileVersion, numbers: set[int], depth: int) -> dict[int, Attribution]:
        """Attribute those lines of the version before `version`."""
        commit, _, path = (version.previous or "").partition(" ")
        spans = [f"-L{low},{high}" for low, high in make_spans(numbers)[:MAX_RUNS]]
        try:
            output = self.git.run(
                "blame", "--porcelain", *spans, commit, "--", path_from_workspace(path, self.attributor.prefix)
            )
        except GitError:
            return {}
        lines = read_git_lines(output, self.attributor.prefix)
        attributions = self.attributor.attribute_lines(lines)
        result = {
            line.line: attribution
            for line in lines
            if (attribution := attribution_at(attributions[line.version], line.number))
        }
        remaining = [
            line for line in lines if line.line not in result and self.attributor.may_hold_recorded_lines(line.version)
        ]
        return {**(self.attribute_reformatted(remaining, depth - 1) if depth > 1 and remaining else {}), **result}


def count_equal_lines(line: GitLine, lines: Iterable[bytes]) -> int:
    text = strip_whitespace(line.content)
    return sum(strip_whitespace(other) == text for other in lines)


def find_unchanged_lines(
    old: Sequence[bytes], new: Sequence[bytes], hunks: Sequence[Hunk], indices: Iterable[int]
) -> dict[int, int]:
    """Return for lines (from 0) that no hunk added the line of `old`.

    git calls a line new if the newline at the end of the file changed, and keeps other lines of two that changed
    places. A line that occurs twice may be either.
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


class SwappedCopies:
    """Lines that git exchanged with an equal line: for a copy above its original, git calls the lower line new.
    Where records tell every step between two versions, lines are followed by the records.
    """

    def __init__(self, git: Git, attributor: LineAttributor) -> None:
        self.git = git
        self.attributor = attributor

    def attribute_lines(
        self, path: str, arguments: Sequence[str], versions: Sequence[FileVersion]
    ) -> dict[int, Attribution]:
        """Return attributions of the lines for which git and the records disagree, by line of the file asked about.

        `versions` are those in which git calls lines new that existed before by records.
        """
        if any(not argument.startswith("-L") for argument in arguments):
            return {}
        found: dict[int, Attribution] = {}
        for version in [version for version in versions if version.previous][:MAX_FILE_VERSIONS]:
            found = {**self.follow_by_records(version, path, arguments), **found}
        return found

    def follow_by_records(self, version: FileVersion, path: str, arguments: Sequence[str]) -> dict[int, Attribution]:
        """Return the attributions of the lines for which git and the records disagree about one version."""
        commit, _, old = (version.previous or "").partition(" ")
        try:
            lines_now = self.git_blame(*arguments, "--", path)
            lines_of_version = (
                self.git_blame(version.commit, "--", version.path)
                if version.has_commit
                else self.git_blame("--", version.path)
            )
            lines_before = self.git_blame(commit, "--", path_from_workspace(old, self.attributor.prefix))
        except GitError:
            return {}
        numbers = {line_origin(line): line.line for line in lines_of_version}
        origins = self.attributor.recorded_origins(version, numbers.values())
        lines_before_by_number = {line.line: line for line in lines_before}
        attributions = self.attributor.attribute_lines(lines_before)
        own_attributions = self.attributor.attribute_versions([version])[version]
        own_records = {step.record for route in self.attributor.certain_routes(version) for step in route}
        result: dict[int, Attribution] = {}
        for line in lines_now:
            number = numbers.get(line_origin(line))
            source = lines_before_by_number.get(origins.get(number or 0, 0))
            by_records = line_origin(source) if source else (version.commit, version.path_in_tree, number)
            if number is None or by_records == line_origin(line):
                continue
            attribution = (
                attribution_at(attributions[source.version], source.number)
                if source
                else attribution_at(own_attributions, number)
            )
            if attribution is not None and not (source and attribution.record in own_records):
                result[line.line] = attribution
        return result

    def git_blame(self, *words: str) -> list[GitLine]:
        """Run git blame. Raises GitError."""
        return read_git_lines(self.git.run("blame", "--porcelain", *words), self.attributor.prefix)


def line_origin(line: GitLine) -> LineOrigin:
    return line.version.commit, line.version.path_in_tree, line.number
