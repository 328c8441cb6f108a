"""Blocks that an agent wrote in one file and that stand in another before any commit had them: moved, or renamed.

Only a block that tells itself from all others, that has left the file it was written in, and that no file of the
version before has, is taken for the recorded one.

Lines that a version took from elsewhere: another file, or another place of the same.

Answered only where the block says enough, and stands no more where it was.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
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
ZERO_COMMIT = "0" * 40
"""What git blame calls the commit of what the work tree holds."""


class RecordedLine(Struct, frozen=True):
    """One line that a record put into a file. `number` counts from 0."""

    change: RecordedChange
    number: int


class RecordedBlocks:
    """Looks for lines in what was recorded of other files."""

    def __init__(self, git: Git, attributor: LineAttributor) -> None:
        self.git = git
        self.attributor = attributor

    def attribute_lines(self, lines: Sequence[GitLine]) -> dict[int, Attribution]:
        """Labels by line of the file asked about."""
        strong = [line for line in lines if is_distinctive_line(line.content)]
        versions = list(dict.fromkeys(line.version for line in strong))[:MAX_FILE_VERSIONS]
        sources = self.newest_sources({strip_whitespace(line.content) for line in strong}) if versions else {}
        found: dict[int, Attribution] = {}
        for place in versions:
            own = {line.number: line for line in lines if line.version == place}
            seeds = [line for line in strong if line.version == place and strip_whitespace(line.content) in sources]
            novel = self.lines_moved_here(place, seeds[:MAX_SEEDS], sources)
            for line in seeds:
                if line.line not in found and line.number in novel:
                    found |= self.attribute_block(own, line, sources[strip_whitespace(line.content)])
        return found

    def newest_sources(self, wanted: set[bytes]) -> dict[bytes, RecordedLine]:
        """Where a record put those lines, by their text without white space; the newest."""
        found: dict[bytes, RecordedLine] = {}
        for source, text in self.recorded_lines(wanted):
            if is_proved_line(source.change, source.number):
                found.setdefault(text, source)
        return found

    def recorded_lines(self, wanted: set[bytes]) -> Iterator[tuple[RecordedLine, bytes]]:
        """Every place where a call put one of those lines, or may have, the newest first."""
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
        """Those lines of a person's edit that an agent wrote before: in that file, or with words of their own anywhere.

        A person who takes a stash back, or copies a block, changes the file and writes nothing.
        """
        texts = {line.line: strip_whitespace(line.content) for line in lines}
        written: dict[bytes, set[str]] = {}
        for source, text in self.recorded_lines(set(texts.values())):
            written.setdefault(text, set()).add(source.change.path)
        return {
            line.line
            for line in lines
            if (paths := written.get(texts[line.line]))
            and (line.version.path in paths or is_distinctive_line(line.content))
        }

    def lines_moved_here(
        self, version: FileVersion, seeds: Sequence[GitLine], sources: dict[bytes, RecordedLine]
    ) -> set[int]:
        """The lines that have left the file they were recorded in, and that no other file has: neither of the version
        before, nor of the commit that the call started from.
        """
        if not seeds:
            return set()
        before = (
            version.previous.partition(" ")[0]
            if version.previous
            else (f"{version.commit}^" if version.has_commit else "HEAD")
        )
        texts = [line.content.strip() for line in seeds]
        known = [self.files_containing(before, texts)]
        stood = list(
            dict.fromkeys(
                self.attributor.commit_at_change(sources[strip_whitespace(line.content)].change) for line in seeds
            )
        )
        known += [self.files_containing(commit, texts) for commit in stood[:MAX_COMMITS] if commit]
        found: set[int] = set()
        for line in seeds:
            change = sources[strip_whitespace(line.content)].change
            own = self.attributor.prefix + change.path
            elsewhere = {path for files in known for path in files.get(line.content.strip(), ())} - {own}
            if (
                change.path == version.path
                or elsewhere
                or self.attributor.commit_at_change(change) not in stood[:MAX_COMMITS]
            ):
                continue
            if self.attributor.was_unrecorded_file(version.path, change) or self.began_after_version(change, version):
                continue
            if not self.line_exists(strip_whitespace(line.content), own, (version.commit, ZERO_COMMIT)):
                found.add(line.number)
        return found

    def line_exists(self, text: bytes, path: str, commits: Sequence[str]) -> bool:
        """Whether a line stands in one of those versions of a file: who commits a part of their work has the rest in
        the work tree.
        """
        names = [f"{commit}:{path}" for commit in commits]
        self.attributor.load_named(names)
        return any(strip_whitespace(line) == text for name in names for line in self.attributor.lines_of_name(name))

    def began_after_version(self, change: RecordedChange, version: FileVersion) -> bool:
        """Whether a call began when that version was there: what it put anywhere came from there, and not to it."""
        then = self.attributor.history_at_version(version, change.path)
        return all(change.id != found.record for found in then.recorded)

    def files_containing(self, commit: str, texts: Sequence[bytes]) -> dict[bytes, set[str]]:
        """The files of a commit that have those texts."""
        patterns = [word for text in texts for word in ("-e", text.decode("utf-8", "surrogateescape"))]
        try:
            out = self.git.run("grep", "-I", "-F", "-z", "--full-name", *patterns, commit, "--", ":/", ok=(0, 1))
        except GitError:
            return {}
        found: dict[bytes, set[str]] = {}
        for row in out.split(b"\n"):
            name, _, text = row.partition(b"\0")
            path = name.decode("utf-8", "surrogateescape").partition(":")[2]
            for wanted in texts:
                if wanted in text:
                    found.setdefault(wanted, set()).add(path)
        return found

    def attribute_block(self, own: dict[int, GitLine], seed: GitLine, source: RecordedLine) -> dict[int, Attribution]:
        """The lines around `seed` that stand in the same order in the recorded version, as far as it put them there."""
        lines = self.attributor.lines_of(source.change.after_blob) or ()
        fresh = {n for n in added_numbers(source.change, len(lines)) if is_proved_line(source.change, n)}
        same = [
            0,
            *matching_offsets(own, seed.number, lines, source.number, fresh, 1),
            *matching_offsets(own, seed.number, lines, source.number, fresh, -1),
        ]
        attribution = Attribution(source.change.id, "moved")
        telling = len(same) >= MIN_LINES or len(fresh) == len(same)
        return {own[seed.number + offset].line: attribution for offset in same} if telling else {}


def matching_offsets(
    own: dict[int, GitLine], number: int, lines: Sequence[bytes], at: int, fresh: set[int], direction: int
) -> Iterable[int]:
    """How far both go on alike, as offsets, in one direction."""
    offset = direction
    while number + offset in own and at + offset in fresh:
        if own[number + offset].content.split() != lines[at + offset].split():
            return
        yield offset
        offset += direction


def added_numbers(change: RecordedChange, count: int) -> list[int]:
    """The lines that a change put into a file of `count` lines, from 0."""
    if change.before_blob is None:
        return list(range(count))
    return [n for h in change.hunks or () for n in range(h.new - 1, h.new - 1 + h.new_lines) if 0 <= n < count]


def is_proved_line(change: RecordedChange, number: int) -> bool:
    """Whether it was the change's call that put that line there, from 0."""
    return not any(first <= number + 1 <= last for first, last in change.unproved_lines)


MAX_RUNS = 200


class MovedLines:
    """Looks for where such lines stood, in one repository."""

    def __init__(self, git: Git, attributor: LineAttributor) -> None:
        self.git = git
        self.attributor = attributor

    def attribute_lines(
        self, path: str, arguments: Sequence[str], suspects: Sequence[GitLine]
    ) -> dict[int, Attribution]:
        """Those that stood elsewhere in the version before, and stand there no more."""
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
            line.line: label
            for line in other
            if (label := attribution_at(attributions.get(line.version, ()), line.number))
            and not self.attributor.is_found_by_comparison(label)
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
        self, moved: Sequence[GitLine], before: Mapping[int, GitLine], found: Mapping[int, Attribution]
    ) -> dict[int, Attribution]:
        """More lines of the blocks that moved: they stood beside them there as they do here, and are gone from there.
        git may take plain ones for others that say the same, and stayed.
        """
        chains = [
            (found[line.line], self.lines_beside_moved(line, before, found, step)) for line in moved for step in (-1, 1)
        ]
        beside = [line for _, chain in chains for line in chain]
        if not beside:
            return {}
        attributions = self.attributor.attribute_lines(beside)
        came = self.numbers_added({line.version for line in beside})
        gone, _ = self.lines_gone_from_source([(before[line.line], line) for line in beside])
        more: dict[int, Attribution] = {}
        for label, chain in chains:
            for line in chain:
                own = attribution_at(attributions[line.version], line.number)
                if line.line not in gone or own is None or own.record != label.record:
                    break
                if line.number not in came[line.version]:
                    break
                more[line.line] = limit_grade(own, "moved")
        return more

    def numbers_added(self, versions: Collection[FileVersion]) -> dict[FileVersion, set[int]]:
        """The lines that those versions added. Of all others what records tell of the versions says nothing."""
        pairs = {p: (self.attributor.parent_blob(p), v) for p in versions if (v := self.attributor.version_blob(p))}
        self.attributor.load_hunks(pairs.values())
        hunks = {
            place: self.attributor.hunks_by_pair.get(pairs[place], ()) if place in pairs else () for place in versions
        }
        return {place: {number for hunk in hunks[place] for number in hunk.new_range} for place in versions}

    def lines_beside_moved(
        self, moved: GitLine, before: Mapping[int, GitLine], found: Mapping[int, Attribution], step: int
    ) -> list[GitLine]:
        """The lines asked about that follow a moved one, by steps of 1 or -1, and say what followed where it stood."""
        there, here = self.attributor.lines_of_name(moved.version.name), before[moved.line].version
        chain: list[GitLine] = []
        number, line = moved.number + step, moved.line + step
        while line in before and line not in found and 0 < number <= len(there):
            text = before[line].content
            if before[line].version != here or strip_whitespace(there[number - 1]) != strip_whitespace(text):
                break
            chain.append(GitLine(moved.version, number, line, text))
            number, line = number + step, line + step
        return chain

    def lines_gone_from_source(self, pairs: Sequence[tuple[GitLine, GitLine]]) -> tuple[set[int], set[int]]:
        """The lines of which there are no more than there were: a copy leaves the original where it is, and is new. And
        those that say something and stood in one place only: of many alike, nothing tells which one went where.
        """
        sources = {(to.version, origin.version.path_in_tree) for to, origin in pairs}
        names = {name for to, path in sources for name in self.content_names(to, path)}
        self.attributor.load_named(names)
        counts: dict[str, Counter[bytes]] = {}
        found: set[int] = set()
        single: set[int] = set()
        for to, origin in pairs:
            old, new = self.content_names(to.version, origin.version.path_in_tree)
            for name in {old, new} - counts.keys():
                counts[name] = Counter(strip_whitespace(line) for line in self.attributor.lines_of_name(name))
            text = strip_whitespace(to.content)
            same_file = origin.version.path == to.version.path
            if counts[new][text] < counts[old][text] + same_file:
                found.add(to.line)
            if counts[old][text] == 1 and has_distinctive_word(to.content):
                single.add(to.line)
        return found, single

    def content_names(self, version: FileVersion, path: str) -> tuple[str, str]:
        """The names of a file's contents before and after the change that `place` came with."""
        if not version.has_commit:
            return f"HEAD:{path}", f"{version.commit}:{path}"
        commit = version.previous.partition(" ")[0] if version.previous else f"{version.commit}^"
        return f"{commit}:{path}", f"{version.commit}:{path}"


def group_runs(numbers: Sequence[int], known: Mapping[int, Attribution]) -> list[list[int]]:
    """Numbers that follow each other and have one record, together."""
    key: Callable[[tuple[int, int]], tuple[int, str]] = lambda pair: (pair[1] - pair[0], known[pair[1]].record)  # noqa: E731
    return [[number for _, number in run] for _, run in groupby(enumerate(numbers), key=key)]


def range_options(lines: Sequence[GitLine]) -> list[str]:
    """The lines as git's options; with very many runs, from the first to the last."""
    runs = make_spans(line.line for line in lines)
    if len(runs) > MAX_RUNS:
        runs = ((runs[0][0], runs[-1][1]),)
    return [f"-L{low},{high}" for low, high in runs]


def drop_range_options(arguments: Sequence[str]) -> list[str]:
    """Git blame's arguments but for its ranges: the lines asked about are told instead."""
    return [argument for argument in arguments if not argument.startswith("-L")]
