"""What was recorded of paths, and how versions may have come about, in one workspace."""

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property

from msgspec.structs import replace

from remit.core.spans import joined, outside
from remit.core.text import quoted_path
from remit.ledger.changes import Change
from remit.ledger.index import Index
from remit.provenance.origins.evidence import Label
from remit.provenance.origins.past_contents import PastContents
from remit.provenance.origins.porcelain import Place
from remit.provenance.origins.versions import Held, Versions
from remit.provenance.origins.ways import History, Recorded, Step, certain, chains, stood, wanted_pairs
from remit.workspace.contents import ContentStore
from remit.workspace.place import Workspace

NEVER = float("inf")
SLACK_S = 86400.0
"""Clocks differ, and a commit may be told to have any date."""

CARRIES = re.compile(r">|\b(?:cp|mv|install|rsync|ln|dd|git|tee)\b")
"""Commands that put one file's content into another."""


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
        self.contained: set[str] = set()
        """The records of what contained commands left: their texts do not tell what they wrote."""
        self.calls: dict[str, list[tuple[Change, float]]] = {}
        """By path, the calls that changed it, and when."""
        self.calls_leaving: dict[str, dict[str | None, list[tuple[Change, float]]]] = {}
        """The same by path and by the content that they left."""
        self.then: dict[tuple[Place, str], frozenset[str]] = {}
        """By version and path, the records of calls on it that began when the version was there."""
        self.histories_less: dict[tuple[str, frozenset[str]], History] = {}
        self.past = PastContents(self.git)
        self.resolved_last: tuple[Place, ...] = ()

    @cached_property
    def anything_recorded(self) -> bool:
        """Whether any change was ever recorded."""
        return self.recorded_since < NEVER

    @cached_property
    def recorded_since(self) -> float:
        """When the first change was recorded, in seconds; NEVER where none was."""
        first = self.index.first_change()
        return timestamp(first) if first else NEVER

    def may_be_recorded(self, place: Place) -> bool:
        """Whether a version is young enough to hold recorded lines. This spares looking, and proves nothing."""
        return not place.committed or place.at >= self.recorded_since - SLACK_S or place.commit in self.backdated

    @cached_property
    def backdated(self) -> frozenset[str]:
        """The commits that are younger than the first record, and say they are much older."""
        from remit.provenance.origins.beforehand import backdated  # for start-up speed: loaded while git works

        return backdated(self.git, self.asking_for_backdated)

    @cached_property
    def asking_for_backdated(self) -> tuple[str, ...] | None:
        """How git is asked for them; None where there can be none."""
        if not self.anything_recorded or self.workspace.common_dir is None:
            return None
        from remit.provenance.origins.beforehand import asking_for_backdated  # loaded while git works, too

        return asking_for_backdated(self.index, self.recorded_since - SLACK_S)

    def begin(self) -> None:
        """Have git look already for what is asked of old lines."""
        if self.asking_for_backdated:
            self.git.begin(*self.asking_for_backdated)

    def was_observed(self, label: Label) -> bool:
        """Whether what put a line there was found by comparing, and no call told of it."""
        return not label.proved or label.record in self.observed

    def sure_ways(self, place: Place) -> tuple[tuple[Step, ...], ...]:
        """The one way in which that version came about, where records tell it for certain."""
        version, history = self.version(place), self.history(place.path)
        if version is None or version not in history.leaving:
            return ()
        then = self.history_then(place) if self.may_be_later(place, version) else history
        way = certain(version, self.parent(place), then)
        return (way,) if way else ()

    def stood(self, place: Place, numbers: Iterable[int]) -> dict[int, int]:
        """For those lines, which git says came with that version, that were in the version before by records: their
        numbers there.
        """
        ways = self.sure_ways(place)
        return stood(ways[0], self.parent(place), numbers) if ways else {}

    def may_be_later(self, place: Place, version: str) -> bool:
        """Whether a call that left the file with that content may have begun when a commit had it; any call, where the
        content was there before and was brought back, as by going to a branch and back. Commits tell whole seconds: in
        the same one, it matters where the content had been seen before.
        """
        history = self.history(place.path)
        back = history.brought_back(version)
        calls = self.calls[place.path] if back else self.calls_leaving[place.path].get(version, ())
        late = (at >= place.at + (not history.is_after_seeing(version, c.id)) for c, at in calls)
        return place.committed and (place.at > time.time() or any(late))

    def only_adds(self, place: Place) -> bool:
        """Whether a record tells that the version has one block more than the one before, and nothing else changed."""
        steps = [step for way in self.sure_ways(place) for step in way]
        hunks = steps[0].hunks if len(steps) == 1 and steps[0].before == self.parent(place) else None
        return hunks is not None and len(hunks) == 1 and not hunks[0].old_lines

    def ways(self, place: Place, settled: frozenset[str] = frozenset()) -> tuple[tuple[Step, ...], ...]:
        """How that version may have come about."""
        version = self.version(place)
        return chains(version, self.parent(place), self.history_then(place), settled) if version else ()

    def history_then(self, place: Place, path: str | None = None) -> History:
        """What was recorded of the file, or of the one at `path`, less the calls that began when that version was
        there.
        """
        known = place.path if path is None else path
        whole = self.history(known)
        if (place, known) not in self.then:
            self.look_back([(one, known) for one in self.resolved_last if one.path == known] or [(place, known)])
        left = self.then.get((place, known), frozenset())
        if not left:
            return whole
        if (known, left) not in self.histories_less:
            self.histories_less[known, left] = History([r for r in whole.recorded if r.record not in left])
        return self.histories_less[known, left]

    def look_back(self, asked: Sequence[tuple[Place, str]]) -> None:
        """Learn which calls on those paths began when those versions were there: one git for all."""
        self.then |= dict.fromkeys(asked, frozenset[str]())
        later = {(place, path): calls for place, path in asked if (calls := self.later_calls(place, path))}
        if not later:
            return
        from remit.provenance.origins.beforehand import there_already  # for start-up speed: few are older than calls

        known = there_already(self.git, self.index, {(place.commit, path): c for (place, path), c in later.items()})
        self.then |= {(place, path): known.get((place.commit, path), frozenset()) for place, path in later}

    def later_calls(self, place: Place, path: str) -> list[Change]:
        """The calls that changed a file and that are not older than the version, going by what the commit says.

        Less those that told where they put lines into that very version, and took none out: git may have taken their
        copy of a block for the block itself.
        """
        if not place.committed or self.workspace.common_dir is None:
            return []
        lies = place.at > time.time()
        late = [call for call, at in self.calls[path] if lies or at >= place.at]
        version, history = self.version(place), self.history(path)
        if version is None:
            return late
        return [
            call
            for call in late
            if not (only_put_in(call) and call.after_blob != version and history.is_after_seeing(version, call.id))
        ]

    def stood_on(self, change: Change) -> str | None:
        """The commit that was checked out when the change was made: what it held already, the change did not bring."""
        documents = self.index.by_id(change.id)
        return documents[0].get("vcs", {}).get("revision") if documents else None

    def history(self, path: str) -> History:
        """All that was recorded of a path."""
        if path not in self.histories:
            changes = self.index.changes_of(quoted_path(path))
            self.observed |= {change.id for change in changes if change.observed}
            self.contained |= {change.id for change in changes if change.contained}
            self.calls[path] = [(c, timestamp(c.at)) for c in changes if not c.observed and c.session_id]
            self.calls_leaving[path] = {}
            for call in self.calls[path]:
                self.calls_leaving[path].setdefault(call[0].after_blob, []).append(call)
            self.histories[path] = History([])  # a file that was moved here may have been moved from here
            self.histories[path] = History(self.recorded(changes))
        return self.histories[path]

    def recorded(self, changes: Sequence[Change]) -> list[Recorded]:
        """The changes of a file as they count. Who gives a file another name, or puts others' lines into one by a
        command, wrote none of them: what was another file goes on with what was recorded of that.
        """
        asked = [change for change in changes if may_carry(change)]
        if not asked:
            return list(map(recorded, changes))
        from remit.provenance.origins.copied import Copied, copied  # for start-up speed: few commands carry lines

        known, found = copied(self, self.index, asked, self.left_before), list[Recorded]()
        for change in changes:
            by = known.get(change.id, Copied())
            if by.origin is None:
                open_ = joined((*change.unproved, *by.spans))
                found.append(recorded(replace(change, unproved=open_, likely=outside(change.likely, by.spans))))
            else:
                found += [r for r in self.history(by.origin).recorded if r.seq < change.seq]
                found.append(replace(recorded(change), by_git=True))
        return found

    def left_before(self, path: str, seq: int) -> str | None:
        """The content that the last change before that record left a file with, where one was recorded."""
        return next((c.after_blob for c in reversed(self.index.changes_of(path)) if c.seq < seq), None)

    def left(self, path: str) -> frozenset[str]:
        """The contents that recorded changes left that path with."""
        if path not in self.afters:
            self.afters[path] = frozenset(found.after for found in self.history(path).recorded if found.after)
        return self.afters[path]

    def resolve(self, places: Sequence[Place]) -> None:
        """Find the contents of versions and of the versions before them: one git for all, and one more for old
        versions that records know. What was before the others that are old says nothing.
        """
        self.resolved_last = tuple(places)
        for place in places:
            if not place.committed:
                self.names[place.name] = self.working(place.path)
        own = [p.name for p in places if p.committed]
        self.find([*own, *(p.parent for p in places if p.parent and self.may_be_recorded(p))])
        self.find(p.parent for p in places if p.parent and self.version(p) in self.left(p.path))

    def settled(self, places: Sequence[Place]) -> Mapping[Place, frozenset[str]]:
        """The contents that those files had before those versions: what a version has no more was taken out of it."""
        return {} if self.workspace.common_dir is None else self.past.before(places)

    def fetch(self, ways: Iterable[Sequence[Step]]) -> None:
        """Have the contents and differences at hand that walking those ways asks for."""
        self.compare({pair for way in ways for pair in wanted_pairs(way)})


def only_put_in(change: Change) -> bool:
    """Whether a call told where it put lines, and took none out."""
    return change.told and not any(hunk.old_lines for hunk in change.hunks or ())


def may_carry(change: Change) -> bool:
    """Whether a call may have put lines of other files there: a command that prints or moves files, or any that took
    one away.
    """
    if not change.session_id or not change.after_blob:
        return False
    carries = change.command is not None and CARRIES.search(change.command)
    return bool(carries) or (change.took_away and not change.before_blob)


def timestamp(at: str) -> float:
    """Seconds since the epoch of a record's time."""
    return datetime.fromisoformat(at).timestamp()


def recorded(change: Change) -> Recorded:
    """One change, for `labels`."""
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
        likely=change.likely,
    )
