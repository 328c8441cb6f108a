"""Lines that git takes for each other, put right by records: a copy above its original, and the original.

git's diff calls the lower one new. Where records tell every step from one version to the next, each line is followed by
them instead.
"""

from collections.abc import Sequence
from typing import TypeAlias

from remit.provenance.origins.attribution import Attribution
from remit.provenance.origins.evidence import Label, at
from remit.provenance.origins.porcelain import GitLine, Place, path_from, read_porcelain
from remit.workspace.git import Git, GitError

MOST_PLACES = 4

Origin: TypeAlias = tuple[str, str, int]
"""A line of a version: its commit, its path in git's tree, its number."""


class Straightened:
    """Follows lines by records, in one repository."""

    def __init__(self, git: Git, attribution: Attribution) -> None:
        self.git = git
        self.attribution = attribution

    def labels(self, path: str, arguments: Sequence[str], places: Sequence[Place]) -> dict[int, Label]:
        """Labels by line of the file asked about, of those lines that git says other things of than records do.

        `places` are versions of which git calls lines new that were there before, by records.
        """
        if any(not argument.startswith("-L") for argument in arguments):
            return {}
        found: dict[int, Label] = {}
        for place in [place for place in places if place.previous][:MOST_PLACES]:
            found = {**self.followed(place, path, arguments), **found}
        return found

    def followed(self, place: Place, path: str, arguments: Sequence[str]) -> dict[int, Label]:
        """The labels of the lines of which git says, of that version, something else than records do."""
        commit, _, old = (place.previous or "").partition(" ")
        try:
            here = self.blamed(*arguments, "--", path)
            then = self.blamed(place.commit, "--", place.path) if place.committed else self.blamed("--", place.path)
            before = self.blamed(commit, "--", path_from(old, self.attribution.prefix))
        except GitError:
            return {}
        numbers = {origin(line): line.line for line in then}
        kept = self.attribution.stood(place, numbers.values())
        behind = {line.line: line for line in before}
        labels = self.attribution.labels_of(before)
        own = self.attribution.labels([place])[place]
        since = {step.record for way in self.attribution.sure_ways(place) for step in way}
        found: dict[int, Label] = {}
        for line in here:
            number = numbers.get(origin(line))
            source = behind.get(kept.get(number or 0, 0))
            by_records = origin(source) if source else (place.commit, place.in_tree, number)
            if number is None or by_records == origin(line):
                continue
            label = at(labels[source.place], source.number) if source else at(own, number)
            if label is not None and not (source and label.record in since):
                found[line.line] = label
        return found

    def blamed(self, *words: str) -> list[GitLine]:
        """What git says of a version's lines. Raises GitError."""
        return read_porcelain(self.git.run("blame", "--porcelain", *words), self.attribution.prefix)


def origin(line: GitLine) -> Origin:
    """Where git says that the line came from."""
    return line.place.commit, line.place.in_tree, line.number
