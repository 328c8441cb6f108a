"""Labels for the lines of versions, in one workspace: what `labels` has to know, fetched in a few batches.

However many versions are asked about, git is started a fixed number of times.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from remit.core.contents import sha256
from remit.core.own_words import is_strong, own_words
from remit.core.text import quoted_path
from remit.core.textdiff import lines_of
from remit.ledger.changes import Change
from remit.ledger.index import Index
from remit.provenance.origins.alike import may_come_from
from remit.provenance.origins.evidence import Label, Labels, at
from remit.provenance.origins.histories import Histories
from remit.provenance.origins.labels import Walked, blocks, merged, walked_on
from remit.provenance.origins.porcelain import GitLine, Place
from remit.provenance.origins.put_words import Hope, Marked, PutWords, marked
from remit.provenance.origins.ways import Step, before, certain
from remit.workspace.contents import ContentStore
from remit.workspace.place import Workspace


class Attribution(Histories):
    """Who put the lines there, by the records of one workspace."""

    def __init__(self, workspace: Workspace, index: Index, store: ContentStore) -> None:
        super().__init__(workspace, index, store)
        self.walked: Walked = {}
        self.begun: dict[tuple[int, ...], tuple[Sequence[Step], tuple[int, Labels | None]]] = {}
        """By the identities of all steps of a way but the last, the way and what `walked` has for those steps."""
        self.labelled: dict[int, Marked] = {}
        """What `walked` has labels for, by the identity of the labels."""
        self.marks: dict[frozenset[bytes], Marked] = {}
        """The same, by the lines."""
        self.as_git_tells: dict[str, bool] = {}
        """By record, whether git's own diff calls the same lines new."""
        self.put = PutWords(index, self.store)

    def labels_of(self, lines: Iterable[GitLine]) -> dict[Place, Labels]:
        """The labels of the versions of those lines, as far as it takes to know theirs."""
        asked: dict[Place, list[GitLine]] = {}
        for line in lines:
            asked.setdefault(line.place, []).append(line)
        return self.labels(asked, asked)

    def labels(
        self, places: Iterable[Place], lines: Mapping[Place, Sequence[GitLine]] | None = None
    ) -> dict[Place, Labels]:
        """The label of each line of those versions; no labels for one that nothing is known of.

        `lines` are those that are asked about, where it is not all: others may have no label that would have one.
        """
        wanted = lines or {}
        asked = list(dict.fromkeys(places))
        if not self.anything_recorded:
            return {place: [] for place in asked}
        self.resolve(asked)
        found = {place: self.sure_ways(place) for place in asked}
        unsure = [place for place in asked if not found[place] and self.may_be_recorded(place)]
        found |= self.all_left_elsewhere(unsure)
        hopes = self.hopeful([place for place in unsure if not found[place]], wanted)
        found |= self.hopeful_ways(hopes)
        walked = self.by_ways(found, wanted)
        told = {
            place: with_gits_word(labels, found[place], self.parent(place), wanted.get(place))
            for place, labels in walked.items()
        }
        return {**told, **self.unless_held_before(told)}

    def unless_held_before(self, labelled: Mapping[Place, Labels]) -> dict[Place, Labels]:
        """The labels, without lines that a command only brought from elsewhere in the repository."""
        asked: dict[Place, dict[str, float]] = {}
        for place, labels in labelled.items():
            records = {label.record for label in labels if label and (label.likely or label.record in self.contained)}
            known = {call.id: at for call, at in self.calls.get(place.path, ()) if call.id in records}
            asked |= {place: known} if known else {}
        if not asked:
            return {}
        from remit.provenance.origins.held_before import without_held  # for start-up speed: few lines ask for it

        return without_held(self, labelled, asked)

    def hopeful_ways(self, hopes: Mapping[Place, Hope | None]) -> dict[Place, tuple[tuple[Step, ...], ...]]:
        """How those versions may have come about: the ways on which there is what is hoped for."""
        settled = self.settled(list(hopes))
        found = {place: self.ways(place, settled.get(place, frozenset())) for place in hopes}
        found = {place: tuple(way for way in ways if goes_by(way, hopes[place])) for place, ways in found.items()}
        self.fetch(way[:-1] for ways in found.values() for way in ways)
        self.load({before for ways in found.values() for way in ways if (before := way[-1].before)})
        found = {
            place: tuple(way for way in ways if self.may_bring(way, hopes[place])) for place, ways in found.items()
        }
        return {place: tuple(way for way in ways if self.may_hold(place, way)) for place, ways in found.items()}

    def by_ways(
        self, found: Mapping[Place, Sequence[Sequence[Step]]], wanted: Mapping[Place, Sequence[GitLine]]
    ) -> dict[Place, Labels]:
        """The labels of versions, by the ways in which they may have come about. The first tells most lines: others are
        compared only for those that it leaves.
        """
        first = {place: ways[:1] if place in wanted else ways for place, ways in found.items()}
        self.fetch(way for ways in first.values() for way in ways)
        walked = {place: self.by_any(place, ways, wanted.get(place)) for place, ways in first.items()}
        more = [place for place, ways in found.items() if len(ways) > len(first[place])]
        more = [place for place in more if any(at(walked[place], n.number) is None for n in wanted[place])]
        self.fetch(way for place in more for way in found[place])
        return walked | {place: self.by_any(place, found[place], wanted[place]) for place in more}

    def by_any(self, place: Place, ways: Sequence[Sequence[Step]], lines: Sequence[GitLine] | None) -> Labels:
        """For each line the label by the first of the ways that gives it one, until all that are asked about have."""
        several: list[Labels] = []
        left = {line.number - 1 for line in lines or ()}
        for way in ways:
            if lines is not None and not (left and self.may_reach(way, left)):
                continue
            labels = self.walked_to(place, way)
            asked = labels if lines is None else (at(labels, i + 1) for i in left)
            several.append(self.unmoved(place, way, labels) if has_moved(way, asked) else labels)
            left = {i for i in left if i >= len(several[-1]) or not several[-1][i]}
        return merged(several)

    def unmoved(self, place: Place, way: Sequence[Step], labels: Labels) -> Labels:
        """The labels, less those of lines that moved, where the content before the step is another branch's."""
        from remit.provenance.origins.side_by_side import stands_beside, unmoved  # for start-up speed: few have moved

        before = way[-1].before
        beside = place.committed and before is not None and stands_beside(self, place, before)
        return unmoved(labels) if beside else labels

    def may_reach(self, way: Sequence[Step], wanted: Collection[int]) -> bool:
        """Whether one of those lines, from 0, may have a label after the last step of a way, where that is loose."""
        step = way[-1]
        if not step.loose or step.record:
            return bool(wanted)
        old, new = self.lines(step.before), self.lines(step.after)
        hunks = self.diffs.get((step.before, step.after))
        if old is None or new is None or hunks is None:
            return bool(wanted)
        labels = self.before_last(way)
        if any(at(labels, before(hunks, i + 1) or 0) for i in wanted):
            return True
        return may_come_from((i for i, label in enumerate(labels) if label), old, new, hunks, wanted)

    def walked_to(self, place: Place, way: Sequence[Step]) -> Labels:
        """The labels at the end of a way. What was recorded after a version had been seen tells a copy from its
        original, where it has lines that are nobody else's; a plain line there is only like another.
        """
        labels = walked_on(way[-1:], self.pairs, self.walked, self.to_last(way))[1] or []
        version = self.version(place)
        if version is None or way[-1].record is not None:
            return labels
        late = self.history(place.path).after_seeing(version)
        if not late:
            return labels
        told = self.told_as_git_tells(place.path, {label.record for label in labels if label} & late)
        doubtful = [None if label and label.record in told else label for label in labels]
        return without_plain(doubtful, late, self.lines(version) or ())

    def told_as_git_tells(self, path: str, records: Collection[str]) -> frozenset[str]:
        """Those of the records of a file that call the same lines new as git's own diff does, which tells blocks by
        their indents: it takes no copy of theirs for an original, and what had been there before is not theirs.
        """
        fresh = [call for call, _ in self.calls[path] if call.id in records - self.as_git_tells.keys()]
        self.load({blob for call in fresh for blob in (call.before_blob, call.after_blob) if blob})
        known = [c for c in fresh if c.hunks and c.after_blob in self.contents and c.before_blob in self.contents]
        pairs = {c.id: (self.contents[c.before_blob or ""], self.contents[c.after_blob or ""]) for c in known}
        diffs = self.store.hunks(pairs)
        same = {c.id for c in known if [h.came for h in c.hunks or ()] == [h.came for h in diffs[c.id]]}
        self.as_git_tells |= {call.id: call.id in same for call in fresh}
        return frozenset(name for name in records if self.as_git_tells.get(name))

    def before_last(self, way: Sequence[Step]) -> Labels:
        """The labels before the last step of a way."""
        return self.to_last(way)[1] or []

    def to_last(self, way: Sequence[Step]) -> tuple[int, Labels | None]:
        """What `walked` has for all steps of a way but the last: many ways have these in common."""
        steps = way[:-1]
        key = tuple(map(id, steps))
        if key not in self.begun:
            self.begun[key] = (way, walked_on(steps, self.pairs, self.walked, (0, None)))
        return self.begun[key][1]

    def may_bring(self, way: Sequence[Step], hope: Hope | None) -> bool:
        """Whether what is labelled before the last step of the way may be one of the lines that are hoped for."""
        if hope is None or not way[-1].loose:
            return True
        labels = self.before_last(way)
        if not any(labels):
            return False
        if id(labels) not in self.labelled:
            lines = self.lines(way[-1].before) or ()
            told = frozenset(line for line, label in zip(lines, labels, strict=False) if label)
            self.marks[told] = self.marks.get(told) or marked(told)
            self.labelled[id(labels)] = self.marks[told]
        return any(map(self.labelled[id(labels)].may_begin, hope.lines))

    def hopeful(self, places: Sequence[Place], lines: Mapping[Place, Sequence[GitLine]]) -> dict[Place, Hope | None]:
        """Those versions of which a record may explain a line, told first by those that are asked about, then by all
        that the version added. None where nothing rules a record out.
        """
        known = [place for place in places if self.version(place) and self.history(place.path).recorded]
        found = [place for place in known if place not in lines or self.may_be_put(place, lines[place])]
        self.compare({(self.parent(place), version) for place in found if (version := self.version(place))})
        hopes = {place: self.hope(place, lines.get(place)) for place in found if self.may_add_put_words(place)}
        return {place: hope for place, hope in hopes.items() if hope is None or hope.records}

    def may_add_put_words(self, place: Place) -> bool:
        """Whether a record may have put all words of a line that the version added."""
        added = self.added(place)
        return added is None or self.put.may_have_words(quoted_path(place.path), added)

    def may_be_put(self, place: Place, lines: Iterable[GitLine]) -> bool:
        """Whether a record of that file may have put one of those lines there; any may have put a plain one."""
        return self.put.may_be_put(quoted_path(place.path), (line.content for line in lines))

    def hope(self, place: Place, lines: Sequence[GitLine] | None) -> Hope | None:
        """What records may have put there of the lines that are asked about; None where it may be anything: a plain
        line goes with others around it, whoever asks about them.
        """
        asked = [line.content for line in lines or () if own_words(line.content)]
        whole = lines is None or len(asked) < len(lines)
        return None if whole else self.put.hope(quoted_path(place.path), asked)

    def may_hold(self, place: Place, way: Sequence[Step]) -> bool:
        """Whether the recorded content that a way ends with may hold a line that the version added: one of which it has
        every word. Most have none, and need not be walked to.
        """
        added, before = self.added(place), way[-1].before
        if added is None or before not in self.contents:
            return True
        words = self.words(before)
        return any(own and words.issuperset(own) for own in map(own_words, added))

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
            way = certain(version, self.parent(place), self.history_then(place, change.path))
            called = any(not step.loose for step in way)
            if called and not self.was_there_unseen(place.path, change):
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


def has_moved(way: Sequence[Step], labels: Iterable[Label | None]) -> bool:
    """Whether one of the lines with those labels went to another place in a step that nobody recorded."""
    if way[-1].record is not None or not way[-1].loose:
        return False
    return any(label is not None and label.grade == "moved" for label in labels)


def goes_by(way: Sequence[Step], hope: Hope | None) -> bool:
    """Whether a record that is hoped for is a step of the way."""
    return hope is None or any(step.record in hope.records for step in way)


def without_plain(labels: Labels, late: Collection[str], lines: Sequence[bytes]) -> Labels:
    """The labels but for those of `late` records on blocks that hold no line that is nobody else's."""
    found = list(labels)
    for block in blocks(labels):
        label = labels[block[0]]
        if label and label.record in late and not any(is_strong(lines[i]) for i in block if i < len(lines)):
            for i in block:
                found[i] = None
    return found


def with_gits_word(
    labels: Labels, ways: Sequence[Sequence[Step]], parent: str | None, asked: Sequence[GitLine] | None
) -> Labels:
    """The labels, where one call alone lies between a version and the one before: what git calls new is that call's,
    of the lines `asked` about where that is not all.

    Of two lines that are alike, the diff in the record may call another one new than git does. Where the call told
    the place itself, that holds.
    """
    step = ways[0][0] if len(ways) == 1 and len(ways[0]) == 1 else None
    if step is None or step.record is None or step.told or step.loose or step.before != parent:
        return labels
    own = Label(step.record, "exact", proved=not step.unproved, likely=bool(step.likely))
    found = list(labels)
    for i in range(len(found)) if asked is None else (n.number - 1 for n in asked if n.number <= len(found)):
        found[i] = found[i] or own
    return found
