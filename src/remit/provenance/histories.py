"""What was recorded of paths, and how versions may have come about, in one workspace."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property

from remit.core.text import quoted_path
from remit.ledger.changes import Change
from remit.ledger.index import Index
from remit.provenance.origins import Label
from remit.provenance.porcelain import Place
from remit.provenance.versions import Held, Versions
from remit.provenance.ways import History, Recorded, Step, certain, chains, wanted_pairs
from remit.workspace.contents import ContentStore
from remit.workspace.git import GitError
from remit.workspace.place import Workspace

NEVER = float("inf")
SLACK_S = 86400.0
"""Clocks differ, and a commit may be told to have any date."""


class Histories(Versions):
    """What the records of one workspace tell of its files. However many versions are asked about, git is started a
    fixed number of times.
    """

    def __init__(self, workspace: Workspace, index: Index, store: ContentStore) -> None:
        super().__init__(workspace, Held(store))
        self.index = index
        self.histories: dict[str, History] = {}
        self.afters: dict[str, frozenset[str]] = {}
        self.observed: set[str] = set()

    @cached_property
    def anything_recorded(self) -> bool:
        """Whether any change was ever recorded."""
        return self.recorded_since < NEVER

    @cached_property
    def recorded_since(self) -> float:
        """When the first change was recorded, in seconds; NEVER where none was."""
        first = self.index.first_change()
        return datetime.fromisoformat(first).timestamp() if first else NEVER

    def may_be_recorded(self, place: Place) -> bool:
        """Whether a version is young enough to hold recorded lines. This spares looking, and proves nothing."""
        return not place.committed or place.at >= self.recorded_since - SLACK_S

    def was_observed(self, label: Label) -> bool:
        """Whether what put a line there was found by comparing, and no call told of it."""
        return not label.proved or label.record in self.observed

    def sure_ways(self, place: Place) -> tuple[tuple[Step, ...], ...]:
        """The one way in which that version came about, where records tell it for certain."""
        version = self.version(place)
        way = certain(version, self.parent(place), self.history(place.path)) if version else ()
        return (way,) if way else ()

    def only_adds(self, place: Place) -> bool:
        """Whether a record tells that the version has one block more than the one before, and nothing else changed."""
        steps = [step for way in self.sure_ways(place) for step in way]
        hunks = steps[0].hunks if len(steps) == 1 and steps[0].before == self.parent(place) else None
        return hunks is not None and len(hunks) == 1 and not hunks[0].old_lines

    def ways(self, place: Place, settled: frozenset[str] = frozenset()) -> tuple[tuple[Step, ...], ...]:
        """How that version may have come about."""
        version = self.version(place)
        return chains(version, self.parent(place), self.history(place.path), settled) if version else ()

    def stood_on(self, change: Change) -> str | None:
        """The commit that was checked out when the change was made: what it held already, the change did not bring."""
        documents = self.index.by_id(change.id)
        return documents[0].get("vcs", {}).get("revision") if documents else None

    def history(self, path: str) -> History:
        """All that was recorded of a path."""
        if path not in self.histories:
            changes = self.index.changes_of(quoted_path(path))
            self.observed |= {change.id for change in changes if change.observed}
            self.histories[path] = History(list(map(recorded, changes)))
        return self.histories[path]

    def left(self, path: str) -> frozenset[str]:
        """The contents that recorded changes left that path with."""
        if path not in self.afters:
            self.afters[path] = frozenset(found.after for found in self.history(path).recorded if found.after)
        return self.afters[path]

    def resolve(self, places: Sequence[Place]) -> None:
        """Find the contents of versions and of the versions before them: one git for all, and one more for old
        versions that records know. What was before the others that are old says nothing.
        """
        for place in places:
            if not place.committed:
                self.names[place.name] = self.working(place.path)
        own = [p.name for p in places if p.committed]
        self.find([*own, *(p.parent for p in places if p.parent and self.may_be_recorded(p))])
        self.find(p.parent for p in places if p.parent and self.version(p) in self.left(p.path))

    def settled(self, places: Sequence[Place]) -> Mapping[Place, frozenset[str]]:
        """The contents that those files had before those versions: what a version has no more was taken out of it."""
        paths = {place.path for place in places}
        if not paths or self.workspace.common_dir is None:
            return {}
        words = ("--topo-order", "--format=%x01%H", "--raw", "--no-abbrev", "--no-renames", "--diff-filter=AM", "-z")
        try:
            out = self.git.run("log", *words, "--", *paths)
        except GitError:
            return {}
        rows = tuple(contents_in_log(out.decode("utf-8", "surrogateescape")))
        return {place: frozenset(older(rows, place)) for place in places}

    def fetch(self, ways: Iterable[Sequence[Step]]) -> None:
        """Have the contents and differences at hand that walking those ways asks for."""
        self.compare({pair for way in ways for pair in wanted_pairs(way)})


def contents_in_log(out: str) -> Iterator[tuple[str, str, str]]:
    """(commit, path, blob) of each change in `git log --format=%x01%H --raw -z`, the newest first."""
    commit = about = ""
    for field in out.split("\0"):
        if field.startswith("\1"):
            commit = field[1:]
        elif field.lstrip("\n").startswith(":") and not about:
            about = field
        elif about:
            yield commit, field, about.split(" ")[3]
            about = ""


def older(rows: Sequence[tuple[str, str, str]], place: Place) -> Iterator[str]:
    """The contents that the file of `place` had before that version."""
    start = next((n + 1 for n, (commit, path, _) in enumerate(rows) if (commit, path) == (place.commit, place.path)), 0)
    return (blob for _, path, blob in rows[start:] if path == place.path)


def recorded(change: Change) -> Recorded:
    """One change, for `origins`."""
    return Recorded(
        change.seq,
        change.id,
        change.before_blob,
        change.after_blob,
        before_lines=change.before_lines,
        hunks=change.hunks,
        told=change.told,
        by_git=change.by_git,
        observed=change.observed,
        unproved=change.unproved,
        trusted=change.origin == "verification",
    )
