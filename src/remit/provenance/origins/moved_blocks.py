"""Lines that moved from another file, or from another place of the same file.

`MovedLines` asks git for the source; `RecordedBlocks` searches recorded contents for blocks that moved before a commit
had them. A block counts only if a line of the block is distinctive and the source no longer holds the block.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from msgspec import Struct

from remit.core.diff.distinctive_lines import has_distinctive_word, is_distinctive_line
from remit.core.diff.line_spans import make_spans
from remit.ledger.file_changes import RecordedChange
from remit.provenance.origins.attributor import LineAttributor
from remit.provenance.origins.blame_porcelain import FileVersion, GitLine, read_git_lines
from remit.provenance.origins.evidence import Attribution, attribution_at, is_distinctive, limit_grade, strip_whitespace
from remit.workspace.git.command import Git, GitError

MAX_VERSIONS = 400
MAX_FILE_VERSIONS = 4
MAX_SEEDS = 50
MAX_COMMITS = 8
MIN_LINES = 3
MAX_RUNS = 200
"""Ranges of one git blame; beyond the limit one range covers them all."""

ZERO_COMMIT = "0" * 40
"""git blame's commit of lines in the work tree."""


class RecordedLine(Struct, frozen=True):
    """One line that a record put into a file. `number` counts from 0."""

    change: RecordedChange
    number: int


class RecordedBlocks:
    """Search for lines among the recorded contents of other files."""

    def __init__(self, git: Git, attributor: LineAttributor) -> None:
        self.git = git
        self.attributor = attributor

    def attribute_lines(self, lines: Sequence[GitLine]) -> dict[int, Attribution]:
        """Return attributions by line of the file asked about."""
        strong = [line for line in lines if is_distinctive_line(line.content)]
        versions = list(dict.fromkeys(line.version for line in strong))[:MAX_FILE_VERSIONS]
        sources = self.newest_sources({strip_whitespace(line.content) for line in strong}) if versions else {}
        found: dict[int, Attribution] = {}
        for version in versions:
            own = {line.number: line for line in lines if line.version == version}
            seeds = [line for line in strong if line.version == version and strip_whitespace(line.content) in sources]
            novel = self.lines_moved_here(version, seeds[:MAX_SEEDS], sources)
            for line in seeds:
                if line.line not in found and line.number in novel:
                    found |= self.attribute_block(own, line, sources[strip_whitespace(line.content)])
        return found

    def newest_sources(self, wanted: set[bytes]) -> dict[bytes, RecordedLine]:
        """Return the newest proved source of each line, by text without white space."""
        newest: dict[bytes, RecordedLine] = {}
        for source, text in self.recorded_lines(wanted):
            if is_proved_line(source.change, source.number):
                newest.setdefault(text, source)
        return newest

    def recorded_lines(self, wanted: set[bytes]) -> Iterator[tuple[RecordedLine, bytes]]:
        """Yield each line that a call put, or may have put, into a file, newest first."""
        newest = self.attributor.index.list_newest_changes(MAX_VERSIONS)
        calls = [change for change in newest if change.after_blob and not change.is_found_by_comparison]
        changes = self.attributor.token_index.changes_with_lines(calls, wanted)
        self.attributor.load_contents({c.after_blob for c in changes if c.after_blob})
        for change in changes:
            lines = self.attributor.lines_of(change.after_blob) or ()
            for number in added_numbers(change, len(lines)):
                text = strip_whitespace(lines[number])
                if text in wanted:
                    yield RecordedLine(change, number), text

    def lines_written_before(self, lines: Sequence[GitLine]) -> set[int]:
        """Return lines of a person's edit that an agent wrote before in the same file, or distinctive ones in any file.

        A person who pops a stash or copies a block changes the file and writes nothing.
        """
        texts = {line.line: strip_whitespace(line.content) for line in lines}
        paths_by_text: dict[bytes, set[str]] = {}
        for source, text in self.recorded_lines(set(texts.values())):
            paths_by_text.setdefault(text, set()).add(source.change.path)
        return {
            line.line
            for line in lines
            if (paths := paths_by_text.get(texts[line.line]))
            and (line.version.path in paths or is_distinctive_line(line.content))
        }

    def lines_moved_here(
        self, version: FileVersion, seeds: Sequence[GitLine], sources: dict[bytes, RecordedLine]
    ) -> set[int]:
        """Return the lines that left their recorded file and that no other file has: neither in the version before,
        nor in the commit from which the call started.
        """
        if not seeds:
            return set()
        if version.previous:
            parent = version.previous.partition(" ")[0]
        else:
            parent = f"{version.commit}^" if version.has_commit else "HEAD"
        texts = [line.content.strip() for line in seeds]
        holders = [self.files_containing(parent, texts)]
        start_commits = list(
            dict.fromkeys(
                self.attributor.commit_at_change(sources[strip_whitespace(line.content)].change) for line in seeds
            )
        )
        holders += [self.files_containing(commit, texts) for commit in start_commits[:MAX_COMMITS] if commit]
        moved: set[int] = set()
        for line in seeds:
            change = sources[strip_whitespace(line.content)].change
            own_path = self.attributor.prefix + change.path
            other_paths = {path for files in holders for path in files.get(line.content.strip(), ())} - {own_path}
            if (
                change.path == version.path
                or other_paths
                or self.attributor.commit_at_change(change) not in start_commits[:MAX_COMMITS]
            ):
                continue
            if self.attributor.was_unrecorded_file(version.path, change) or self.began_after_version(change, version):
                continue
            if not self.line_exists(strip_whitespace(line.content), own_path, (version.commit, ZERO_COMMIT)):
                moved.add(line.number)
        return moved

    def line_exists(self, text: bytes, path: str, commits: Sequence[str]) -> bool:
        """Return whether a line exists in one of those versions of a file. After a partial commit the work tree
        holds the rest.
        """
        names = [f"{commit}:{path}" for commit in commits]
        self.attributor.load_named(names)
        return any(strip_whitespace(line) == text for name in names for line in self.attributor.lines_of_name(name))

    def began_after_version(self, change: RecordedChange, version: FileVersion) -> bool:
        """Return whether a call began after the version existed: its lines came from the version."""
        history = self.attributor.history_at_version(version, change.path)
        return all(change.id != entry.record for entry in history.recorded)

    def files_containing(self, commit: str, texts: Sequence[bytes]) -> dict[bytes, set[str]]:
        """Return the files of a commit that contain each text."""
        patterns = [word for text in texts for word in ("-e", text.decode("utf-8", "surrogateescape"))]
        try:
            output = self.git.run("grep", "-I", "-F", "-z", "--full-name", *patterns, commit, "--", ":/", ok=(0, 1))
        except GitError:
            return {}
        paths_by_text: dict[bytes, set[str]] = {}
        for row in output.split(b"\n"):
            name, _, text = row.partition(b"\0")
            path = name.decode("utf-8", "surrogateescape").partition(":")[2]
            for searched in texts:
                if searched in text:
                    paths_by_text.setdefault(searched, set()).add(path)
        return paths_by_text

    def attribute_block(
        self, lines_by_number: dict[int, GitLine], seed: GitLine, source: RecordedLine
    ) -> dict[int, Attribution]:
        """Attribute the lines around `seed` that follow in the same order in the recorded content and were added
        there.
        """
        lines = self.attributor.lines_of(source.change.after_blob) or ()
        added = {n for n in added_numbers(source.change, len(lines)) if is_proved_line(source.change, n)}
        offsets = [
            0,
            *matching_offsets(lines_by_number, seed.number, lines, source.number, added, 1),
            *matching_offsets(lines_by_number, seed.number, lines, source.number, added, -1),
        ]
        attribution = Attribution(source.change.id, "moved")
        is_convincing = len(offsets) >= MIN_LINES or len(added) == len(offsets)
        return {lines_by_number[seed.number + offset].line: attribution for offset in offsets} if is_convincing else {}


def matching_offsets(
    lines_by_number: dict[int, GitLine],
    number: int,
    lines: Sequence[bytes],
    position: int,
    added: set[int],
    direction: int,
) -> Iterable[int]:
    """Yield the offsets in one direction up to which both contents agree."""
    offset = direction
    while number + offset in lines_by_number and position + offset in added:
        if lines_by_number[number + offset].content.split() != lines[position + offset].split():
            return
        yield offset
        offset += direction


def added_numbers(change: RecordedChange, count: int) -> list[int]:
    if change.before_blob is None:
        return list(range(count))
    return [n for h in change.hunks or () for n in range(h.new - 1, h.new - 1 + h.new_lines) if 0 <= n < count]


def is_proved_line(change: RecordedChange, number: int) -> bool:
    return not any(first <= number + 1 <= last for first, last in change.unproved_lines)


class MovedLines:
    """Search by git for the place where lines stood before."""

    def __init__(self, git: Git, attributor: LineAttributor) -> None:
        self.git = git
        self.attributor = attributor

    def attribute_lines(
        self, path: str, arguments: Sequence[str], suspects: Sequence[GitLine]
    ) -> dict[int, Attribution]:
        """Return attributions of lines that stood elsewhere in the version before and no longer do."""
        spans = ["-w", "-M", "-C", "-C", *range_options(suspects)]
        try:
            out = self.git.run("blame", "--porcelain", *drop_range_options(arguments), *spans, "--", path)
        except GitError:
            return {}
        again = read_git_lines(out, self.attributor.prefix)
        before = {line.line: line for line in suspects}
        other = [line for line in again if line.line in before and line.version != before[line.line].version]
        attributions = self.attributor.attribute_lines(other)
        known = {
            line.line: attribution
            for line in other
            if (attribution := attribution_at(attributions.get(line.version, ()), line.number))
            and not self.attributor.is_found_by_comparison(attribution)
        }
        gone, single = self.lines_gone_from_source([(before[line.line], line) for line in other if line.line in known])
        runs = group_runs(sorted(line.line for line in other if line.line in gone), known)
        found = {
            number: limit_grade(known[number], "moved")
            for run in runs
            if is_distinctive([before[number].content for number in run]) and not single.isdisjoint(run)
            for number in run
        }
        return found | self.attribute_neighbours([line for line in other if line.line in found], before, found)

    def attribute_neighbours(
        self, moved: Sequence[GitLine], before: Mapping[int, GitLine], moved_attributions: Mapping[int, Attribution]
    ) -> dict[int, Attribution]:
        """Attribute neighbours of moved lines that stood beside them at the source and are gone from there. git may
        pair common lines with equal ones that stayed.
        """
        chains = [
            (moved_attributions[line.line], self.lines_beside_moved(line, before, moved_attributions, step))
            for line in moved
            for step in (-1, 1)
        ]
        neighbours = [line for _, chain in chains for line in chain]
        if not neighbours:
            return {}
        attributions = self.attributor.attribute_lines(neighbours)
        added = self.numbers_added({line.version for line in neighbours})
        gone, _ = self.lines_gone_from_source([(before[line.line], line) for line in neighbours])
        result: dict[int, Attribution] = {}
        for attribution, chain in chains:
            for line in chain:
                attribution_here = attribution_at(attributions[line.version], line.number)
                if line.line not in gone or attribution_here is None or attribution_here.record != attribution.record:
                    break
                if line.number not in added[line.version]:
                    break
                result[line.line] = limit_grade(attribution_here, "moved")
        return result

    def numbers_added(self, versions: Collection[FileVersion]) -> dict[FileVersion, set[int]]:
        """Return the numbers of the lines that each version added; records tell nothing of the rest."""
        pairs = {p: (self.attributor.parent_blob(p), v) for p in versions if (v := self.attributor.version_blob(p))}
        self.attributor.load_hunks(pairs.values())
        hunks = {
            version: self.attributor.hunks_by_pair.get(pairs[version], ()) if version in pairs else ()
            for version in versions
        }
        return {version: {number for hunk in hunks[version] for number in hunk.new_range} for version in versions}

    def lines_beside_moved(
        self, moved: GitLine, before: Mapping[int, GitLine], attributed: Mapping[int, Attribution], step: int
    ) -> list[GitLine]:
        """Return the lines asked about that follow a moved line, in steps of 1 or -1, and equal the lines at the
        source.
        """
        source_lines, version = self.attributor.lines_of_name(moved.version.name), before[moved.line].version
        chain: list[GitLine] = []
        number, line = moved.number + step, moved.line + step
        while line in before and line not in attributed and 0 < number <= len(source_lines):
            text = before[line].content
            if before[line].version != version or strip_whitespace(source_lines[number - 1]) != strip_whitespace(text):
                break
            chain.append(GitLine(moved.version, number, line, text))
            number, line = number + step, line + step
        return chain

    def lines_gone_from_source(self, pairs: Sequence[tuple[GitLine, GitLine]]) -> tuple[set[int], set[int]]:
        """Return the lines whose number of occurrences did not grow, and the worded lines that stood in one place only.

        A copy leaves the original in place and is new. Among many equal lines none can be identified.
        """
        sources = {(to.version, origin.version.path_in_tree) for to, origin in pairs}
        names = {name for to, path in sources for name in self.content_names(to, path)}
        self.attributor.load_named(names)
        counts: dict[str, Counter[bytes]] = {}
        gone: set[int] = set()
        single: set[int] = set()
        for to, origin in pairs:
            old, new = self.content_names(to.version, origin.version.path_in_tree)
            for name in {old, new} - counts.keys():
                counts[name] = Counter(strip_whitespace(line) for line in self.attributor.lines_of_name(name))
            text = strip_whitespace(to.content)
            same_file = origin.version.path == to.version.path
            if counts[new][text] < counts[old][text] + same_file:
                gone.add(to.line)
            if counts[old][text] == 1 and has_distinctive_word(to.content):
                single.add(to.line)
        return gone, single

    def content_names(self, version: FileVersion, path: str) -> tuple[str, str]:
        """Return the git names of a file's contents before and after the change of `version`."""
        if not version.has_commit:
            return f"HEAD:{path}", f"{version.commit}:{path}"
        commit = version.previous.partition(" ")[0] if version.previous else f"{version.commit}^"
        return f"{commit}:{path}", f"{version.commit}:{path}"


def group_runs(numbers: Sequence[int], attributions: Mapping[int, Attribution]) -> list[list[int]]:
    """Group consecutive numbers with the same record."""

    def run_key(pair: tuple[int, int]) -> tuple[int, str]:
        index, number = pair
        return number - index, attributions[number].record

    return [[number for _, number in run] for _, run in groupby(enumerate(numbers), key=run_key)]


def range_options(lines: Sequence[GitLine]) -> list[str]:
    runs = make_spans(line.line for line in lines)
    if len(runs) > MAX_RUNS:
        runs = ((runs[0][0], runs[-1][1]),)
    return [f"-L{low},{high}" for low, high in runs]


def drop_range_options(arguments: Sequence[str]) -> list[str]:
    return [argument for argument in arguments if not argument.startswith("-L")]
