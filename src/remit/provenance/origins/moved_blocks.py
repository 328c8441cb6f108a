"""Lines moved from a different file, or from a different place of the same file.

`find_moved_lines` asks git for the source; `RecordedBlocks` searches recorded contents for blocks moved before their
commit. A block counts only if a line of the block is distinctive and the source no longer holds the block.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TypeAlias

from remit.core.diff.contents import has_distinctive_word, is_distinctive_line, make_spans
from remit.ledger.file_changes import RecordedChange
from remit.provenance.origins.attributor import LineAttributor
from remit.provenance.origins.blame_porcelain import FileVersion, GitLine, read_git_lines
from remit.provenance.origins.evidence_grades import (
    Attribution,
    attribution_at,
    is_distinctive,
    limit_grade,
    strip_whitespace,
)
from remit.provenance.origins.file_histories import parse_seconds
from remit.workspace.git.command import GitError

MAX_FILE_VERSIONS = 4
MAX_SEEDS = 50
MAX_COMMITS = 8
MIN_LINES = 3
CLOCK_STEP_S = 1.0  # commit times are whole seconds
MAX_RUNS = 200  # ranges of one git blame; beyond the limit one range covers them all
ZERO_COMMIT = "0" * 40  # git blame's commit of lines in the work tree


RecordedLine: TypeAlias = tuple[RecordedChange, int]  # a line, from 0, that a record put into a file


class RecordedBlocks:
    """Search for lines among the recorded contents of other files."""

    def __init__(self, attributor: LineAttributor) -> None:
        self.attributor = attributor

    def attribute_lines(self, lines: Sequence[GitLine]) -> dict[int, Attribution]:
        """Return attributions by line of the file asked about."""
        strong = [line for line in lines if is_distinctive_line(line.content)]
        sources: dict[bytes, RecordedLine] = {}
        for source, text in self.recorded_lines({strip_whitespace(line.content) for line in strong}) if strong else ():
            if is_proved_line(*source):
                sources.setdefault(text, source)
        found: dict[int, Attribution] = {}
        for version in list(dict.fromkeys(line.version for line in strong))[:MAX_FILE_VERSIONS]:
            own = {line.number: line for line in lines if line.version == version}
            seeds = [line for line in strong if line.version == version and strip_whitespace(line.content) in sources]
            novel = self.lines_moved_here(version, seeds[:MAX_SEEDS], sources)
            for line in seeds:
                if line.line not in found and line.number in novel:
                    found |= self.attribute_block(own, line, *sources[strip_whitespace(line.content)])
        return found

    def recorded_lines(self, wanted: set[bytes]) -> Iterator[tuple[RecordedLine, bytes]]:
        changes = self.attributor.token_index.newest_calls_with_lines(wanted)
        self.attributor.load_contents(change.after_blob for change in changes)
        for change in changes:
            lines = self.attributor.lines_of(change.after_blob) or ()
            for number in added_numbers(change, len(lines)):
                if (text := strip_whitespace(lines[number])) in wanted:
                    yield (change, number), text

    def lines_written_before(self, lines: Sequence[GitLine]) -> set[int]:
        """Return lines of a person's edit written before by an agent in the same file, or distinctive lines of any
        file. A person who pops a stash or copies a block changes the file without writing a line.
        """
        texts = {line.line: strip_whitespace(line.content) for line in lines}
        paths_by_text: dict[bytes, set[str]] = {}
        for (change, _), text in self.recorded_lines(set(texts.values())):
            paths_by_text.setdefault(text, set()).add(change.path)
        found: set[int] = set()
        for line in lines:
            paths = paths_by_text.get(texts[line.line], ())
            if line.version.path in paths or (paths and is_distinctive_line(line.content)):
                found.add(line.line)
        return found

    def lines_moved_here(
        self, version: FileVersion, seeds: Sequence[GitLine], sources: Mapping[bytes, RecordedLine]
    ) -> set[int]:
        attributor, texts = self.attributor, [line.content.strip() for line in seeds]
        changes = {line.number: sources[strip_whitespace(line.content)][0] for line in seeds}
        commits = {change.id: attributor.commit_at_change(change) for change in changes.values()}
        searched = list(dict.fromkeys(commits.values()))[:MAX_COMMITS]
        if version.previous:
            parent = version.previous.partition(" ")[0]
        else:
            parent = f"{version.commit}^" if version.has_commit else "HEAD"
        holders = [self.files_containing(commit, texts) for commit in (parent, *searched) if commit and seeds]
        beside: dict[bytes, set[str]] | None = None
        moved: set[int] = set()
        for line in seeds:
            change, text = changes[line.number], strip_whitespace(line.content)
            own_path = attributor.prefix.path_in_tree(change.path)
            others = {path for files in holders for path in files.get(line.content.strip(), ())} - {own_path}
            if not change.path.startswith(attributor.nested):
                continue
            if change.path == version.path or others or commits[change.id] not in searched:
                continue
            if version.has_commit and version.time_s + CLOCK_STEP_S < parse_seconds(change.at):
                continue
            if attributor.was_unrecorded_file(version.path, change):
                continue
            history = attributor.history_at_version(version, change.path)
            if all(change.id != entry.record for entry in history.recorded):
                continue  # the call began after the version existed: its lines came from there
            # After a partial commit the work tree holds the rest of the recorded file.
            names = [f"{commit}:{own_path}" for commit in (version.commit, ZERO_COMMIT)]
            attributor.load_named(names)
            if any(strip_whitespace(old) == text for name in names for old in attributor.lines_of_name(name)):
                continue
            if version.has_commit and attributor.blobs_by_name.get(names[0]) is None:
                beside = self.files_containing(version.commit, texts) if beside is None else beside
                if beside.get(line.content.strip(), set()) - {version.path_in_tree}:
                    continue
            moved.add(line.number)
        return moved

    def files_containing(self, commit: str, texts: Sequence[bytes]) -> dict[bytes, set[str]]:
        patterns = [word for text in texts for word in ("-e", text.decode("utf-8", "surrogateescape"))]
        options = ("-I", "-F", "-z", "--full-name", *patterns)
        try:
            output = self.attributor.git.run("grep", *options, commit, "--", ":/", ok=(0, 1))
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
        self, lines_by_number: Mapping[int, GitLine], seed: GitLine, change: RecordedChange, number: int
    ) -> dict[int, Attribution]:
        lines = self.attributor.lines_of(change.after_blob) or ()
        added = {n for n in added_numbers(change, len(lines)) if is_proved_line(change, n)}
        offsets = [0]
        for direction in (1, -1):
            offset = direction
            while (line := lines_by_number.get(seed.number + offset)) and number + offset in added:
                if line.content.split() != lines[number + offset].split():
                    break
                offsets.append(offset)
                offset += direction
        if len(offsets) < MIN_LINES and len(added) != len(offsets):
            return {}
        attribution = Attribution(change.id, "moved")
        return {lines_by_number[seed.number + offset].line: attribution for offset in offsets}


def added_numbers(change: RecordedChange, count: int) -> list[int]:
    if change.before_blob is None:
        return list(range(count))
    return [n - 1 for hunk in change.hunks or () for n in hunk.new_range if 0 < n <= count]


def is_proved_line(change: RecordedChange, number: int) -> bool:
    return not any(first <= number + 1 <= last for first, last in change.unproved_lines)


# -- by git ------------------------------------------------------------------------------------------------------


def find_moved_lines(
    attributor: LineAttributor, path: str, arguments: Sequence[str], suspects: Sequence[GitLine]
) -> dict[int, Attribution]:
    """Return attributions, by line asked about, of lines that left another place since the version before."""
    runs = make_spans(line.line for line in suspects)
    if len(runs) > MAX_RUNS:
        runs = ((runs[0][0], runs[-1][1]),)
    ranges = (f"-L{low},{high}" for low, high in runs)
    options = ("-w", "-M", "-C", "-C", *ranges)
    git_path = attributor.prefix.path_for_git(path)
    try:
        out = attributor.git.run("blame", "--porcelain", *drop_range_options(arguments), *options, "--", git_path)
    except GitError:
        return {}
    before = {line.line: line for line in suspects}
    again = read_git_lines(out, attributor.prefix)
    other = [line for line in again if line.line in before and line.version != before[line.line].version]
    attributions = attributor.attribute_lines(other)
    known = {
        line.line: attribution
        for line in other
        if (attribution := attribution_at(attributions.get(line.version, ()), line.number))
        and not attributor.is_found_by_comparison(attribution)
    }
    gone, single = lines_gone_from_source(attributor, [(before[n.line], n) for n in other if n.line in known])
    numbers = sorted(line.line for line in other if line.line in gone)
    found: dict[int, Attribution] = {}
    for run in consecutive_runs(numbers, known):
        if is_distinctive([before[number].content for number in run]) and not single.isdisjoint(run):
            found |= {number: limit_grade(known[number], "moved") for number in run}
    return found | attribute_neighbours(attributor, [line for line in other if line.line in found], before, found)


def consecutive_runs(numbers: Sequence[int], attributions: Mapping[int, Attribution]) -> Iterator[list[int]]:
    for _, run in groupby(enumerate(numbers), lambda pair: (pair[1] - pair[0], attributions[pair[1]].record)):
        yield [number for _, number in run]


def attribute_neighbours(
    attributor: LineAttributor,
    moved: Sequence[GitLine],
    before: Mapping[int, GitLine],
    moved_attributions: Mapping[int, Attribution],
) -> dict[int, Attribution]:
    """Attribute neighbours of moved lines, gone from beside them at the source. git may pair common lines with equal
    lines left behind.
    """
    # 1. The lines asked about that follow a moved line and equal the lines at the source.
    chains: list[tuple[Attribution, list[GitLine]]] = []
    for line, step in ((line, step) for line in moved for step in (-1, 1)):
        source_lines, version = attributor.lines_of_name(line.version.name), before[line.line].version
        chain: list[GitLine] = []
        number, at = line.number + step, line.line + step
        while at in before and at not in moved_attributions and 0 < number <= len(source_lines):
            text = before[at].content
            if before[at].version != version or strip_whitespace(source_lines[number - 1]) != strip_whitespace(text):
                break
            chain.append(GitLine(line.version, number, at, text))
            number, at = number + step, at + step
        chains.append((moved_attributions[line.line], chain))
    neighbours = [line for _, chain in chains for line in chain]
    if not neighbours:
        return {}

    # 2. Of those the ones that the same record added; records tell nothing of lines that their version did not add.
    attributions = attributor.attribute_lines(neighbours)
    versions = {line.version for line in neighbours}
    pairs = {v: (attributor.parent_blob(v), blob) for v in versions if (blob := attributor.version_blob(v))}
    attributor.load_hunks(pairs.values())
    added = {v: {n for h in attributor.hunks_by_pair.get(pair, ()) for n in h.new_range} for v, pair in pairs.items()}
    gone, _ = lines_gone_from_source(attributor, [(before[line.line], line) for line in neighbours])
    result: dict[int, Attribution] = {}
    for attribution, chain in chains:
        for line in chain:
            found = attribution_at(attributions[line.version], line.number)
            is_added = line.number in added.get(line.version, ())
            if line.line not in gone or found is None or found.record != attribution.record or not is_added:
                break
            result[line.line] = limit_grade(found, "moved")
    return result


def lines_gone_from_source(
    attributor: LineAttributor, pairs: Sequence[tuple[GitLine, GitLine]]
) -> tuple[set[int], set[int]]:
    names_by_pair = [content_names(to.version, origin.version.path_in_tree) for to, origin in pairs]
    names = {name for both in names_by_pair for name in both}
    attributor.load_named(names)
    counts = {name: Counter(map(strip_whitespace, attributor.lines_of_name(name))) for name in names}
    gone: set[int] = set()
    single: set[int] = set()
    for (to, origin), (old, new) in zip(pairs, names_by_pair, strict=True):
        text = strip_whitespace(to.content)
        if counts[new][text] < counts[old][text] + (origin.version.path == to.version.path):
            gone.add(to.line)
        if counts[old][text] == 1 and has_distinctive_word(to.content):
            single.add(to.line)
    return gone, single


def content_names(version: FileVersion, path: str) -> tuple[str, str]:
    if not version.has_commit:
        return f"HEAD:{path}", f"{version.commit}:{path}"
    commit = version.previous.partition(" ")[0] if version.previous else f"{version.commit}^"
    return f"{commit}:{path}", f"{version.commit}:{path}"


def drop_range_options(arguments: Sequence[str]) -> list[str]:
    return [argument for argument in arguments if not argument.startswith("-L")]
