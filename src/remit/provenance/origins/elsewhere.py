"""Lines that git calls a commit's own and that came from elsewhere: moved, indented anew, wrapped by a formatter.

Asked only of lines that no record explains, and answered only where nothing but the place or the layout changed.
git is started a few times, however many lines there are.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from remit.core.contents import Hunk
from remit.core.own_words import is_strong
from remit.core.spans import spans_of
from remit.core.text import quoted_path
from remit.ledger.changes import Change
from remit.provenance.origins.attribution import Attribution
from remit.provenance.origins.evidence import Label, at, unspaced, weaker
from remit.provenance.origins.moved import MOST_RUNS, Moved
from remit.provenance.origins.porcelain import GitLine, Place, path_from, read_porcelain
from remit.provenance.origins.recorded_blocks import RecordedBlocks
from remit.provenance.origins.reformatted import relaid
from remit.provenance.origins.shifted import shifted
from remit.workspace.git import Git, GitError

Line = tuple[Place, int]
"""A line of a version."""

MOST_LAYOUTS = 8
"""Commits that only changed the layout and are looked behind, for one file."""

DEPTH = 3
"""Layouts behind layouts."""


class Elsewhere:
    """Looks for the lines that `attribution` could not label, in one repository."""

    def __init__(self, git: Git, attribution: Attribution) -> None:
        self.git = git
        self.attribution = attribution
        self.called: frozenset[bytes] = frozenset()
        """Those of the lines looked for that a call may have put into some file."""

    def labels(self, path: str, arguments: Sequence[str], lines: Sequence[GitLine]) -> dict[int, Label]:
        """Labels by line of the file asked about. `lines` are git's, those without a label."""
        young = {place for place in {line.place for line in lines} if self.attribution.may_be_recorded(place)}
        suspects = [line for line in lines if line.place in young]
        if not suspects:
            return {}
        told = self.attribution.put.brought([line.content for line in suspects])
        maybe = {line.place for line in suspects if told[line.content] is not False and line.content.strip()}
        held = [line for line, brought in told.items() if brought]
        if not held:
            return self.relaid([line for line in suspects if line.place in maybe], DEPTH)
        self.called = frozenset(self.attribution.put.by_calls(held))
        found = Moved(self.git, self.attribution).labels(path, arguments, suspects) if self.called else {}
        rest = [line for line in suspects if line.line not in found and line.place in maybe]
        found = {**self.relaid(rest, DEPTH), **found}
        rest = [line for line in suspects if line.line not in found]
        found = {**RecordedBlocks(self.git, self.attribution).labels(rest), **found} if rest and self.called else found
        return {**found, **self.straightened(path, arguments, suspects)}

    def straightened(self, path: str, arguments: Sequence[str], suspects: Sequence[GitLine]) -> dict[int, Label]:
        """Labels of the lines that git took for each other, by line of the file asked about."""
        own: dict[Place, list[GitLine]] = {}
        for line in suspects:
            own.setdefault(line.place, []).append(line)
        places = [place for place, lines in own.items() if self.stood(place, lines)]
        if not places:
            return {}
        from remit.provenance.origins.straightened import Straightened  # for start-up speed: few files hold such lines

        return Straightened(self.git, self.attribution).labels(path, arguments, places)

    def stood(self, place: Place, lines: Sequence[GitLine]) -> bool:
        """Whether records tell that one of these lines was there before which are nobody else's."""
        there = self.attribution.stood(place, [line.number for line in lines])
        return any(line.number in there and is_strong(line.content) for line in lines)

    def put_beside(self, lines: Iterable[GitLine], own: Mapping[int, Label], found: Mapping[int, Label]) -> set[int]:
        """Those of the lines that a call put into a file, maybe, while all that said the same stayed there: none of
        what was `found` in that file is where they came from, though it was taken out later.
        """
        open_ = [line for line in lines if line.line in found and not own[line.line].proved]
        changes = self.changes_on({line.place.path for line in open_})
        both = [
            (line, change)
            for line in open_
            if (change := changes[line.place.path].get(own[line.line].record))
            and found[line.line].record in changes[line.place.path]
        ]
        return {line.line for line, was, now in self.sides(both) if numbers(line, was) < numbers(line, now)}

    def taken_back(self, lines: Iterable[GitLine], found: Mapping[int, Label]) -> set[int]:
        """Those of the lines that the record of their label took out in just this layout: who puts them back takes the
        record's work away.
        """
        weak = [n for n in lines if n.line in found and found[n.line].grade in ("moved", "normalised")]
        changes = self.changes_on({line.place.path for line in weak})
        both = [(n, change) for n in weak if (change := changes[n.place.path].get(found[n.line].record))]
        return {n.line for n, was, now in self.sides(both) if was.count(n.content) > now.count(n.content)}

    def changes_on(self, paths: Iterable[str]) -> dict[str, dict[str, Change]]:
        """What was recorded of those paths, by record."""
        return {path: {c.id: c for c in self.attribution.index.changes_of(quoted_path(path))} for path in paths}

    def sides(
        self, both: Sequence[tuple[GitLine, Change]]
    ) -> Iterator[tuple[GitLine, Sequence[bytes], Sequence[bytes]]]:
        """Lines, each with those of the two contents of its change; none of a content that is lost."""
        self.attribution.load({blob for _, c in both for blob in (c.before_blob, c.after_blob) if blob})
        for line, change in both:
            was, now = (self.attribution.lines(blob) or () for blob in (change.before_blob, change.after_blob))
            yield line, was, now

    def relaid(self, suspects: Sequence[GitLine], depth: int) -> dict[int, Label]:
        """Those that only changed their layout, by the hunk that they stand in."""
        places = [place for place in dict.fromkeys(line.place for line in suspects) if place.previous][:MOST_LAYOUTS]
        places = [place for place in places if not self.attribution.only_adds(place)]
        self.attribution.compare(pair for place in places if (pair := self.pair(place)))
        found: dict[int, Label] = {}
        for place in places:
            own = [line for line in suspects if line.place == place]
            origins = self.origins(place, [line.number for line in own])
            wanted = {line.line: origins[line.number] for line in own if line.number in origins}
            behind = self.behind(place, set(wanted.values()), depth) if wanted else {}
            found |= {line: weaker(behind[n], "normalised") for line, n in wanted.items() if n in behind}
        return found

    def origins(self, place: Place, numbers: Iterable[int]) -> dict[int, int]:
        """For lines of that version that only changed their layout or their place, the line of the version before;
        both from 1. Of `numbers`, those too that changed nothing.
        """
        pair = self.pair(place)
        hunks: Sequence[Hunk] | None = self.attribution.diffs.get(pair) if pair else None
        if pair is None or hunks is None:
            return {}
        old, new = map(self.attribution.lines, pair)
        if old is None or new is None:
            return {}
        asked = [number for number in numbers if number <= len(new)]
        stay = stayed(old, new, hunks, [number - 1 for number in asked])
        found = {**stay, **shifted(old, new, hunks), **relaid(old, new, hunks)}
        return {b + 1: a + 1 for b, a in found.items()} | self.attribution.stood(place, asked)

    def pair(self, place: Place) -> tuple[str, str] | None:
        """The contents of the version before that one, and of that one; None where one is not known."""
        version, parent = self.attribution.names.get(place.name), self.attribution.names.get(place.parent or "")
        return (parent, version) if version and parent else None

    def behind(self, place: Place, numbers: set[int], depth: int) -> dict[int, Label]:
        """The labels of those lines of the version before `place`."""
        commit, _, path = (place.previous or "").partition(" ")
        spans = [f"-L{low},{high}" for low, high in spans_of(numbers)[:MOST_RUNS]]
        try:
            out = self.git.run("blame", "--porcelain", *spans, commit, "--", path_from(path, self.attribution.prefix))
        except GitError:
            return {}
        lines = read_porcelain(out, self.attribution.prefix)
        labels = self.attribution.labels_of(lines)
        known = {line.line: label for line in lines if (label := at(labels[line.place], line.number))}
        rest = [line for line in lines if line.line not in known and self.attribution.may_be_recorded(line.place)]
        return {**(self.relaid(rest, depth - 1) if depth > 1 and rest else {}), **known}


def numbers(line: GitLine, lines: Iterable[bytes]) -> int:
    """How many lines say the same in whatever layout."""
    same = unspaced(line.content)
    return sum(unspaced(other) == same for other in lines)


def stayed(old: Sequence[bytes], new: Sequence[bytes], hunks: Sequence[Hunk], asked: Iterable[int]) -> dict[int, int]:
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
        if at_end or (is_strong(new[to]) and old.count(new[to]) == new.count(new[to]) == 1):
            found[to] = origin
    return found
