"""Lines that git calls a commit's own and that came from elsewhere: moved, indented anew, wrapped by a formatter.

Asked only of lines that no record explains, and answered only where nothing but the place or the layout changed.
git is started a few times, however many lines there are.

Lines that git takes for each other, put right by records: a copy above its original, and the original.

git's diff calls the lower one new. Where records tell every step from one version to the next, each line is followed by
them instead.
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

VersionLine = tuple[FileVersion, int]
"""A line of a version."""

MAX_LAYOUT_COMMITS = 8
"""Commits that only changed the layout and are looked behind, for one file."""

MAX_LAYOUT_DEPTH = 3
"""Layouts behind layouts."""


class UnattributedLines:
    """Looks for the lines that `attribution` could not label, in one repository."""

    def __init__(self, git: Git, attributor: LineAttributor) -> None:
        self.git = git
        self.attributor = attributor
        self.lines_by_calls: frozenset[bytes] = frozenset()
        """Those of the lines looked for that a call may have put into some file."""

    def attribute_lines(self, path: str, arguments: Sequence[str], lines: Sequence[GitLine]) -> dict[int, Attribution]:
        """Labels by line of the file asked about. `lines` are git's, those without a label."""
        young = {place for place in {line.version for line in lines} if self.attributor.may_hold_recorded_lines(place)}
        suspects = [line for line in lines if line.version in young]
        if not suspects:
            return {}
        told = self.attributor.token_index.match_any_record([line.content for line in suspects])
        maybe = {line.version for line in suspects if told[line.content] is not False and line.content.strip()}
        held = [line for line, brought in told.items() if brought]
        if not held:
            return self.attribute_reformatted([line for line in suspects if line.version in maybe], MAX_LAYOUT_DEPTH)
        self.lines_by_calls = frozenset(self.attributor.token_index.lines_by_calls(held))
        found = (
            MovedLines(self.git, self.attributor).attribute_lines(path, arguments, suspects)
            if self.lines_by_calls
            else {}
        )
        rest = [line for line in suspects if line.line not in found and line.version in maybe]
        found = {**self.attribute_reformatted(rest, MAX_LAYOUT_DEPTH), **found}
        rest = [line for line in suspects if line.line not in found]
        found = (
            {**RecordedBlocks(self.git, self.attributor).attribute_lines(rest), **found}
            if rest and self.lines_by_calls
            else found
        )
        return {**found, **self.find_swapped_copies(path, arguments, suspects)}

    def find_swapped_copies(
        self, path: str, arguments: Sequence[str], suspects: Sequence[GitLine]
    ) -> dict[int, Attribution]:
        """Labels of the lines that git took for each other, by line of the file asked about."""
        own: dict[FileVersion, list[GitLine]] = {}
        for line in suspects:
            own.setdefault(line.version, []).append(line)
        versions = [place for place, lines in own.items() if self.has_recorded_earlier_line(place, lines)]
        if not versions:
            return {}

        return SwappedCopies(self.git, self.attributor).attribute_lines(path, arguments, versions)

    def has_recorded_earlier_line(self, version: FileVersion, lines: Sequence[GitLine]) -> bool:
        """Whether records tell that one of these lines was there before which are nobody else's."""
        there = self.attributor.recorded_origins(version, [line.number for line in lines])
        return any(line.number in there and is_distinctive_line(line.content) for line in lines)

    def added_beside_existing(
        self, lines: Iterable[GitLine], own: Mapping[int, Attribution], found: Mapping[int, Attribution]
    ) -> set[int]:
        """Those of the lines that a call put into a file, maybe, while all that said the same stayed there: none of
        what was `found` in that file is where they came from, though it was taken out later.
        """
        open_ = [line for line in lines if line.line in found and not own[line.line].proved]
        changes = self.changes_by_path({line.version.path for line in open_})
        both = [
            (line, change)
            for line in open_
            if (change := changes[line.version.path].get(own[line.line].record))
            and found[line.line].record in changes[line.version.path]
        ]
        return {
            line.line
            for line, was, now in self.change_contents(both)
            if count_equal_lines(line, was) < count_equal_lines(line, now)
        }

    def removed_by_own_record(self, lines: Iterable[GitLine], found: Mapping[int, Attribution]) -> set[int]:
        """Those of the lines that the record of their label took out in just this layout: who puts them back takes the
        record's work away.
        """
        weak = [n for n in lines if n.line in found and found[n.line].grade in ("moved", "normalised")]
        changes = self.changes_by_path({line.version.path for line in weak})
        both = [(n, change) for n in weak if (change := changes[n.version.path].get(found[n.line].record))]
        return {n.line for n, was, now in self.change_contents(both) if was.count(n.content) > now.count(n.content)}

    def changes_by_path(self, paths: Iterable[str]) -> dict[str, dict[str, RecordedChange]]:
        """What was recorded of those paths, by record."""
        return {path: {c.id: c for c in self.attributor.index.list_changes(quote_path(path))} for path in paths}

    def change_contents(
        self, both: Sequence[tuple[GitLine, RecordedChange]]
    ) -> Iterator[tuple[GitLine, Sequence[bytes], Sequence[bytes]]]:
        """Lines, each with those of the two contents of its change; none of a content that is lost."""
        self.attributor.load_contents({blob for _, c in both for blob in (c.before_blob, c.after_blob) if blob})
        for line, change in both:
            was, now = (self.attributor.lines_of(blob) or () for blob in (change.before_blob, change.after_blob))
            yield line, was, now

    def attribute_reformatted(self, suspects: Sequence[GitLine], depth: int) -> dict[int, Attribution]:
        """Those that only changed their layout, by the hunk that they stand in."""
        versions = [place for place in dict.fromkeys(line.version for line in suspects) if place.previous][
            :MAX_LAYOUT_COMMITS
        ]
        versions = [place for place in versions if not self.attributor.only_adds_one_block(place)]
        self.attributor.load_hunks(pair for place in versions if (pair := self.content_pair(place)))
        found: dict[int, Attribution] = {}
        for place in versions:
            own = [line for line in suspects if line.version == place]
            origins = self.find_line_origins(place, [line.number for line in own])
            wanted = {line.line: origins[line.number] for line in own if line.number in origins}
            behind = self.attribute_previous_version(place, set(wanted.values()), depth) if wanted else {}
            found |= {line: limit_grade(behind[n], "normalised") for line, n in wanted.items() if n in behind}
        return found

    def find_line_origins(self, version: FileVersion, numbers: Iterable[int]) -> dict[int, int]:
        """For lines of that version that only changed their layout or their place, the line of the version before;
        both from 1. Of `numbers`, those too that changed nothing.
        """
        pair = self.content_pair(version)
        hunks: Sequence[Hunk] | None = self.attributor.hunks_by_pair.get(pair) if pair else None
        if pair is None or hunks is None:
            return {}
        old, new = map(self.attributor.lines_of, pair)
        if old is None or new is None:
            return {}
        asked = [number for number in numbers if number <= len(new)]
        stay = find_unchanged_lines(old, new, hunks, [number - 1 for number in asked])
        found = {**stay, **find_moved_blocks(old, new, hunks), **find_reformatted_lines(old, new, hunks)}
        return {b + 1: a + 1 for b, a in found.items()} | self.attributor.recorded_origins(version, asked)

    def content_pair(self, version: FileVersion) -> tuple[str, str] | None:
        """The contents of the version before that one, and of that one; None where one is not known."""
        blob, parent = (
            self.attributor.blobs_by_name.get(version.name),
            self.attributor.blobs_by_name.get(version.parent or ""),
        )
        return (parent, blob) if blob and parent else None

    def attribute_previous_version(self, version: FileVersion, numbers: set[int], depth: int) -> dict[int, Attribution]:
        """The labels of those lines of the version before `place`."""
        commit, _, path = (version.previous or "").partition(" ")
        spans = [f"-L{low},{high}" for low, high in make_spans(numbers)[:MAX_RUNS]]
        try:
            out = self.git.run(
                "blame", "--porcelain", *spans, commit, "--", path_from_workspace(path, self.attributor.prefix)
            )
        except GitError:
            return {}
        lines = read_git_lines(out, self.attributor.prefix)
        attributions = self.attributor.attribute_lines(lines)
        known = {
            line.line: label for line in lines if (label := attribution_at(attributions[line.version], line.number))
        }
        rest = [
            line for line in lines if line.line not in known and self.attributor.may_hold_recorded_lines(line.version)
        ]
        return {**(self.attribute_reformatted(rest, depth - 1) if depth > 1 and rest else {}), **known}


def count_equal_lines(line: GitLine, lines: Iterable[bytes]) -> int:
    """How many lines say the same in whatever layout."""
    same = strip_whitespace(line.content)
    return sum(strip_whitespace(other) == same for other in lines)


def find_unchanged_lines(
    old: Sequence[bytes], new: Sequence[bytes], hunks: Sequence[Hunk], asked: Iterable[int]
) -> dict[int, int]:
    """For those of the lines asked about that no hunk put there, the line of `old` that they are; indices from 0.

    git calls a line new that lost the newline at a file's end, or got one; and of lines that changed places it may keep
    others. One that stands somewhere else, too, may be another.
    """
    found: dict[int, int] = {}
    for to in asked:
        if any(hunk.new <= to + 1 < hunk.new + hunk.new_lines for hunk in hunks):
            continue
        origin = to - sum(hunk.new_lines - hunk.old_lines for hunk in hunks if hunk.new <= to)
        at_end = origin == len(old) - 1 or to == len(new) - 1
        if at_end or (is_distinctive_line(new[to]) and old.count(new[to]) == new.count(new[to]) == 1):
            found[to] = origin
    return found


MAX_FILE_VERSIONS = 4

LineOrigin: TypeAlias = tuple[str, str, int]
"""A line of a version: its commit, its path in git's tree, its number."""


class SwappedCopies:
    """Follows lines by records, in one repository."""

    def __init__(self, git: Git, attributor: LineAttributor) -> None:
        self.git = git
        self.attributor = attributor

    def attribute_lines(
        self, path: str, arguments: Sequence[str], versions: Sequence[FileVersion]
    ) -> dict[int, Attribution]:
        """Labels by line of the file asked about, of those lines that git says other things of than records do.

        `places` are versions of which git calls lines new that were there before, by records.
        """
        if any(not argument.startswith("-L") for argument in arguments):
            return {}
        found: dict[int, Attribution] = {}
        for place in [place for place in versions if place.previous][:MAX_FILE_VERSIONS]:
            found = {**self.follow_by_records(place, path, arguments), **found}
        return found

    def follow_by_records(self, version: FileVersion, path: str, arguments: Sequence[str]) -> dict[int, Attribution]:
        """The labels of the lines of which git says, of that version, something else than records do."""
        commit, _, old = (version.previous or "").partition(" ")
        try:
            here = self.git_blame(*arguments, "--", path)
            then = (
                self.git_blame(version.commit, "--", version.path)
                if version.has_commit
                else self.git_blame("--", version.path)
            )
            before = self.git_blame(commit, "--", path_from_workspace(old, self.attributor.prefix))
        except GitError:
            return {}
        numbers = {line_origin(line): line.line for line in then}
        kept = self.attributor.recorded_origins(version, numbers.values())
        behind = {line.line: line for line in before}
        attributions = self.attributor.attribute_lines(before)
        own = self.attributor.attribute_versions([version])[version]
        since = {step.record for way in self.attributor.certain_routes(version) for step in way}
        found: dict[int, Attribution] = {}
        for line in here:
            number = numbers.get(line_origin(line))
            source = behind.get(kept.get(number or 0, 0))
            by_records = line_origin(source) if source else (version.commit, version.path_in_tree, number)
            if number is None or by_records == line_origin(line):
                continue
            attribution = (
                attribution_at(attributions[source.version], source.number) if source else attribution_at(own, number)
            )
            if attribution is not None and not (source and attribution.record in since):
                found[line.line] = attribution
        return found

    def git_blame(self, *words: str) -> list[GitLine]:
        """What git says of a version's lines. Raises GitError."""
        return read_git_lines(self.git.run("blame", "--porcelain", *words), self.attributor.prefix)


def line_origin(line: GitLine) -> LineOrigin:
    """Where git says that the line came from."""
    return line.version.commit, line.version.path_in_tree, line.number
