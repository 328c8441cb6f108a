"""Lines that the repository held before a call, in commits of any branch or in stashes: the call only brought them.

Asked of what a contained command left, and of what a command alone can be seen to have written: their texts do not tell
what they write, and a merge, a stash or `git show` inside them writes others' lines. Versions that recorded calls left
do not count: these lines have their authors.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from msgspec.structs import replace

from remit.core.own_words import is_strong
from remit.provenance.origins.evidence import Label, Labels
from remit.provenance.origins.histories import Histories
from remit.provenance.origins.porcelain import Place
from remit.workspace.git import GitError

VERSIONS = (
    "log",
    "--all",
    "--reflog",
    "--format=%x01%ct",
    "--raw",
    "--no-abbrev",
    "--no-renames",
    "--diff-filter=AM",
    "-m",
    "-z",
)
MAX_VERSIONS = 2000
"""Versions of one file that are read."""

PATHS_AT_ONCE = 200


def without_held(
    histories: Histories, labelled: Mapping[Place, Labels], calls: Mapping[Place, Mapping[str, float]]
) -> dict[Place, Labels]:
    """The labels of versions, where lines that the repository held before their call are nobody's.

    `calls` are the records that are asked about, with their times. Of a run of lines that holds such a one, the lines
    that anybody would write go with it.
    """
    earlier = Earlier(histories, list(calls))
    histories.load({version for place in calls if (version := histories.version(place))})
    return {place: without_held_lines(histories, earlier, place, labelled[place], calls[place]) for place in calls}


def without_held_lines(
    histories: Histories, earlier: "Earlier", place: Place, labels: Labels, calls: Mapping[str, float]
) -> Labels:
    """The same for one version."""
    texts = histories.lines(histories.version(place)) or ()
    found = list(labels)
    for record, run in groupby(range(min(len(labels), len(texts))), key=lambda i: asked(labels[i], calls)):
        if record is None:
            continue
        numbers = list(run)
        held = earlier.texts(place, calls[record])
        strong = {i for i in numbers if is_strong(texts[i]) and texts[i].strip() in held}
        gone = strong | {i for i in numbers if not is_strong(texts[i])} if strong else strong
        for i in gone:
            label = found[i]
            found[i] = replace(label, proved=False, likely=False) if label else None
    return found


def asked(label: Label | None, calls: Mapping[str, float]) -> str | None:
    """The record of a label that is asked about."""
    return label.record if label and label.record in calls and (label.proved or label.likely) else None


class Earlier:
    """The texts of the versions of some files that no recorded call left."""

    def __init__(self, histories: Histories, places: Sequence[Place]) -> None:
        self.histories = histories
        self.versions: dict[str, list[tuple[int, str]]] = {}
        left = {place.in_tree: histories.left(place.path) for place in places}
        for at, path, blob in versions_of(histories, sorted(left)):
            if blob not in left.get(path, ()):
                self.versions.setdefault(path, []).append((at, blob))
        histories.load({blob for known in self.versions.values() for _, blob in known[:MAX_VERSIONS]})

    def texts(self, place: Place, before: float) -> frozenset[bytes]:
        """The lines of those that were committed before that time, in seconds; commits tell whole ones."""
        known = self.versions.get(place.in_tree, ())[:MAX_VERSIONS]
        blobs = {blob for at, blob in known if at < int(before)}
        return frozenset(line.strip() for blob in blobs for line in self.histories.lines(blob) or ())


def versions_of(histories: Histories, paths: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """When each version of those files was committed, its path, and its git name; none where git says no."""
    for start in range(0, len(paths) if histories.workspace.common_dir else 0, PATHS_AT_ONCE):
        asked = (f":(top,literal){path}" for path in paths[start : start + PATHS_AT_ONCE])
        try:
            out = histories.git.run(*VERSIONS, "--", *asked)
        except GitError:
            return
        at, about = 0, ""
        for field in out.decode("utf-8", "surrogateescape").split("\0"):
            if about:
                yield at, field, about.split(" ")[3]
                about = ""
            elif field.startswith("\1"):
                at = int(field[1:].strip() or 0)
            elif field.lstrip("\n").startswith(":"):
                about = field
