"""Labels for the lines of versions, in one workspace: what `origins` has to know, fetched in a few batches.

However many versions are asked about, git is started a fixed number of times.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property

from remit.core.contents import sha256
from remit.core.own_words import is_strong, own_words
from remit.core.text import quoted_path
from remit.core.textdiff import lines_of
from remit.ledger.changes import Change
from remit.ledger.index import Index
from remit.provenance.origins import Label, Labels, Walked, blocks, merged, walk
from remit.provenance.porcelain import GitLine, Place
from remit.provenance.put_words import PutWords
from remit.provenance.versions import Versions
from remit.provenance.ways import History, Recorded, Step, certain, chains, wanted_pairs
from remit.workspace.contents import ContentStore
from remit.workspace.git import GitError
from remit.workspace.place import Workspace

NEVER = float("inf")
SLACK_S = 86400.0
"""Clocks differ, and a commit may be told to have any date."""


class Attribution(Versions):
    """Who put the lines there, by the records of one workspace."""

    def __init__(self, workspace: Workspace, index: Index, store: ContentStore) -> None:
        super().__init__(workspace, store)
        self.index = index
        self.histories: dict[str, History] = {}
        self.afters: dict[str, frozenset[str]] = {}
        self.observed: set[str] = set()
        self.walked: Walked = {}
        self.put = PutWords(index, store)

    def labels_of(self, lines: Iterable[GitLine]) -> dict[Place, Labels]:
        """The labels of the versions of those lines, as far as it takes to know theirs."""
        texts: dict[Place, list[bytes]] = {}
        for line in lines:
            texts.setdefault(line.place, []).append(line.content)
        return self.labels(texts, texts)

    def labels(
        self, places: Iterable[Place], texts: Mapping[Place, Sequence[bytes]] | None = None
    ) -> dict[Place, Labels]:
        """The label of each line of those versions; no labels for one that nothing is known of.

        `texts` are the lines that are asked about, where it is not all: with words that nobody put there, none has one.
        """
        asked = list(dict.fromkeys(places))
        if not self.anything_recorded:
            return {place: [] for place in asked}
        self.resolve(asked)
        found = {place: self.sure_ways(place) for place in asked}
        unsure = [place for place in asked if not found[place] and self.may_be_recorded(place)]
        found |= self.all_left_elsewhere(unsure)
        compared = self.hopeful([place for place in unsure if not found[place]], texts or {})
        settled = self.settled(compared)
        found |= {place: self.ways(place, settled.get(place, frozenset())) for place in compared}
        self.load({before for place in compared for way in found[place] if (before := way[-1].before)})
        found |= {place: tuple(way for way in found[place] if self.may_hold(place, way)) for place in compared}
        self.fetch(way for ways in found.values() for way in ways)
        walked = {place: merged([self.walked_to(place, way) for way in ways]) for place, ways in found.items()}
        return {place: with_gits_word(labels, found[place], self.parent(place)) for place, labels in walked.items()}

    def walked_to(self, place: Place, way: Sequence[Step]) -> Labels:
        """The labels at the end of a way. What was recorded after a version had been seen tells a copy from its
        original, where it has lines that are nobody else's; a plain line there is only like another.
        """
        labels = walk(way, self.pairs, self.walked)
        version = self.version(place)
        if version is None or way[-1].record is not None:
            return labels
        late = self.history(place.path).after_seeing(version)
        return without_plain(labels, late, self.lines(version) or ()) if late else labels

    def hopeful(self, places: Sequence[Place], texts: Mapping[Place, Sequence[bytes]]) -> list[Place]:
        """Those versions of which a record may explain a line: first by the texts that are asked about, then by all
        that the version added.
        """
        known = [place for place in places if self.version(place) and self.history(place.path).recorded]
        found = [place for place in known if place not in texts or self.may_be_put(place, texts[place], plain=True)]
        self.compare({(self.parent(place), version) for place in found if (version := self.version(place))})
        return [place for place in found if (new := self.added(place)) is None or self.may_be_put(place, new)]

    def may_be_put(self, place: Place, lines: Iterable[bytes], *, plain: bool = False) -> bool:
        """Whether a record of that file may have put one of those lines there."""
        return self.put.may_hold(quoted_path(place.path), lines, plain=plain)

    def may_hold(self, place: Place, way: Sequence[Step]) -> bool:
        """Whether the recorded content that a way ends with may hold a line that the version added: one of which it has
        every word. Most have none, and need not be walked to.
        """
        added, before = self.added(place), way[-1].before
        if added is None or before not in self.contents:
            return True
        words = self.words(before)
        return any(own and words.issuperset(own) for own in map(own_words, added))

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

    def ways(self, place: Place, settled: frozenset[str] = frozenset()) -> tuple[tuple[Step, ...], ...]:
        """How that version may have come about."""
        version = self.version(place)
        return chains(version, self.parent(place), self.history(place.path), settled) if version else ()

    def all_left_elsewhere(self, places: Sequence[Place]) -> dict[Place, tuple[tuple[Step, ...], ...]]:
        """How those contents came about that a record left some file with."""
        left = self.index.left_anywhere({version for place in places if (version := self.version(place))})
        known = [place for place in places if self.version(place) in left]
        self.load({version for place in known if (version := self.version(place))})
        return {place: self.left_elsewhere(place) for place in known}

    def left_elsewhere(self, place: Place) -> tuple[tuple[Step, ...], ...]:
        """How that content came about in another file, where it was recorded: the file was renamed or copied."""
        version = self.version(place)
        content = self.contents.get(version) if version else None
        if version is None or content is None or not any(map(is_strong, lines_of(content))):
            return ()
        for change in reversed(self.index.changes_leaving(sha256(content))):
            way = certain(version, self.parent(place), self.history(change.path))
            if way and not self.was_there_unseen(place.path, change):
                return (way,)
        return ()

    def was_there_unseen(self, path: str, change: Change) -> bool:
        """Whether the file was there before the change with a content that nobody recorded: an agent read it then, and
        neither a commit nor a record has it. It may have held those lines already, and the change have copied them.
        """
        if any(known.seq < change.seq for known in self.index.changes_of(path)):
            return False
        if not self.index.find(path=path, until=change.at, limit=1):
            return False
        name = f"{self.stood_on(change) or 'HEAD'}:{path}"
        return "\n" in name or self.resolved([name]).get(name) is None

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


def without_plain(labels: Labels, late: Collection[str], lines: Sequence[bytes]) -> Labels:
    """The labels but for those of `late` records on blocks that hold no line that is nobody else's."""
    found = list(labels)
    for block in blocks(labels):
        label = labels[block[0]]
        if label and label.record in late and not any(is_strong(lines[i]) for i in block if i < len(lines)):
            for i in block:
                found[i] = None
    return found


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


def with_gits_word(labels: Labels, ways: Sequence[Sequence[Step]], parent: str | None) -> Labels:
    """The labels, where one call alone lies between a version and the one before: what git calls new is that call's.

    Of two lines that are alike, the diff in the record may call another one new than git does. Where the call told
    the place itself, that holds.
    """
    step = ways[0][0] if len(ways) == 1 and len(ways[0]) == 1 else None
    if step is None or step.record is None or step.told or step.loose or step.before != parent:
        return labels
    own = Label(step.record, "exact", proved=not step.unproved)
    return [label or own for label in labels]


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
    )
