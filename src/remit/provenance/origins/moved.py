"""Lines that a version took from elsewhere: another file, or another place of the same.

Answered only where the block says enough, and stands no more where it was.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import groupby

from remit.core.own_words import says_something
from remit.core.spans import spans_of
from remit.provenance.origins.attribution import Attribution
from remit.provenance.origins.evidence import Label, at, is_telling, unspaced, weaker
from remit.provenance.origins.porcelain import GitLine, Place, read_porcelain
from remit.workspace.git import Git, GitError

MOST_RUNS = 200


class Moved:
    """Looks for where such lines stood, in one repository."""

    def __init__(self, git: Git, attribution: Attribution) -> None:
        self.git = git
        self.attribution = attribution

    def labels(self, path: str, arguments: Sequence[str], suspects: Sequence[GitLine]) -> dict[int, Label]:
        """Those that stood elsewhere in the version before, and stand there no more."""
        spans = ["-w", "-M", "-C", "-C", *ranges_of(suspects)]
        try:
            out = self.git.run("blame", "--porcelain", *without_ranges(arguments), *spans, "--", path)
        except GitError:
            return {}
        again = read_porcelain(out, self.attribution.prefix)
        before = {line.line: line for line in suspects}
        other = [line for line in again if line.line in before and line.place != before[line.line].place]
        labels = self.attribution.labels_of(other)
        known = {
            line.line: label
            for line in other
            if (label := at(labels.get(line.place, ()), line.number)) and not self.attribution.was_observed(label)
        }
        gone, single = self.gone([(before[line.line], line) for line in other if line.line in known])
        runs = in_runs(sorted(line.line for line in other if line.line in gone), known)
        found = {
            number: weaker(known[number], "moved")
            for run in runs
            if is_telling([before[number].content for number in run]) and not single.isdisjoint(run)
            for number in run
        }
        return found | self.along([line for line in other if line.line in found], before, found)

    def along(
        self, moved: Sequence[GitLine], before: Mapping[int, GitLine], found: Mapping[int, Label]
    ) -> dict[int, Label]:
        """More lines of the blocks that moved: they stood beside them there as they do here, and are gone from there.
        git may take plain ones for others that say the same, and stayed.
        """
        chains = [(found[line.line], self.beside(line, before, found, step)) for line in moved for step in (-1, 1)]
        beside = [line for _, chain in chains for line in chain]
        if not beside:
            return {}
        labels = self.attribution.labels_of(beside)
        came = self.came({line.place for line in beside})
        gone, _ = self.gone([(before[line.line], line) for line in beside])
        more: dict[int, Label] = {}
        for label, chain in chains:
            for line in chain:
                own = at(labels[line.place], line.number)
                if line.line not in gone or own is None or own.record != label.record:
                    break
                if line.number not in came[line.place]:
                    break
                more[line.line] = weaker(own, "moved")
        return more

    def came(self, places: Collection[Place]) -> dict[Place, set[int]]:
        """The lines that those versions added. Of all others what records tell of the versions says nothing."""
        pairs = {p: (self.attribution.parent(p), v) for p in places if (v := self.attribution.version(p))}
        self.attribution.compare(pairs.values())
        hunks = {place: self.attribution.diffs.get(pairs[place], ()) if place in pairs else () for place in places}
        return {place: {number for hunk in hunks[place] for number in hunk.came} for place in places}

    def beside(
        self, moved: GitLine, before: Mapping[int, GitLine], found: Mapping[int, Label], step: int
    ) -> list[GitLine]:
        """The lines asked about that follow a moved one, by steps of 1 or -1, and say what followed where it stood."""
        there, here = self.attribution.lines_named(moved.place.name), before[moved.line].place
        chain: list[GitLine] = []
        number, line = moved.number + step, moved.line + step
        while line in before and line not in found and 0 < number <= len(there):
            text = before[line].content
            if before[line].place != here or unspaced(there[number - 1]) != unspaced(text):
                break
            chain.append(GitLine(moved.place, number, line, text))
            number, line = number + step, line + step
        return chain

    def gone(self, pairs: Sequence[tuple[GitLine, GitLine]]) -> tuple[set[int], set[int]]:
        """The lines of which there are no more than there were: a copy leaves the original where it is, and is new. And
        those that say something and stood in one place only: of many alike, nothing tells which one went where.
        """
        sources = {(to.place, origin.place.in_tree) for to, origin in pairs}
        names = {name for to, path in sources for name in self.versions(to, path)}
        self.attribution.fetch_names(names)
        counts: dict[str, Counter[bytes]] = {}
        found: set[int] = set()
        single: set[int] = set()
        for to, origin in pairs:
            old, new = self.versions(to.place, origin.place.in_tree)
            for name in {old, new} - counts.keys():
                counts[name] = Counter(unspaced(line) for line in self.attribution.lines_named(name))
            text = unspaced(to.content)
            same_file = origin.place.path == to.place.path
            if counts[new][text] < counts[old][text] + same_file:
                found.add(to.line)
            if counts[old][text] == 1 and says_something(to.content):
                single.add(to.line)
        return found, single

    def versions(self, place: Place, path: str) -> tuple[str, str]:
        """The names of a file's contents before and after the change that `place` came with."""
        if not place.committed:
            return f"HEAD:{path}", f"{place.commit}:{path}"
        commit = place.previous.partition(" ")[0] if place.previous else f"{place.commit}^"
        return f"{commit}:{path}", f"{place.commit}:{path}"


def in_runs(numbers: Sequence[int], known: Mapping[int, Label]) -> list[list[int]]:
    """Numbers that follow each other and have one record, together."""
    key: Callable[[tuple[int, int]], tuple[int, str]] = lambda pair: (pair[1] - pair[0], known[pair[1]].record)  # noqa: E731
    return [[number for _, number in run] for _, run in groupby(enumerate(numbers), key=key)]


def ranges_of(lines: Sequence[GitLine]) -> list[str]:
    """The lines as git's options; with very many runs, from the first to the last."""
    runs = spans_of(line.line for line in lines)
    if len(runs) > MOST_RUNS:
        runs = ((runs[0][0], runs[-1][1]),)
    return [f"-L{low},{high}" for low, high in runs]


def without_ranges(arguments: Sequence[str]) -> list[str]:
    """Git blame's arguments but for its ranges: the lines asked about are told instead."""
    return [argument for argument in arguments if not argument.startswith("-L")]
