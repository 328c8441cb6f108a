"""Labels for the lines of versions, in one workspace: what `labels` has to know, fetched in a few batches.

However many versions are asked about, git is started a fixed number of times.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from remit.core.diff.contents import sha256
from remit.core.diff.distinctive_lines import find_distinctive_words, is_distinctive_line
from remit.core.diff.edit_script import split_lines
from remit.core.display_text import quote_path
from remit.ledger.file_changes import RecordedChange
from remit.ledger.index.index import Index
from remit.provenance.origins.blame_porcelain import FileVersion, GitLine
from remit.provenance.origins.carried_attributions import (
    CarriedCache,
    attributed_blocks,
    carry_from,
    first_attributions,
)
from remit.provenance.origins.evidence import Attribution, Attributions, attribution_at
from remit.provenance.origins.file_histories import FileHistories
from remit.provenance.origins.recorded_steps import HistoryStep, certain_route, line_before
from remit.provenance.origins.similarity import may_be_moved_lines
from remit.provenance.origins.token_index import ExpectedLines, TokenIndex, TokenMarks, marks_of_lines
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.place.workspace import Workspace


class LineAttributor(FileHistories):
    """Who put the lines there, by the records of one workspace."""

    def __init__(self, workspace: Workspace, index: Index, store: ContentStore) -> None:
        super().__init__(workspace, index, store)
        self.carried: CarriedCache = {}
        self.carried_prefixes: dict[tuple[int, ...], tuple[Sequence[HistoryStep], tuple[int, Attributions | None]]] = {}
        """By the identities of all steps of a way but the last, the way and what `walked` has for those steps."""
        self.marks_by_attributions: dict[int, TokenMarks] = {}
        """What `walked` has labels for, by the identity of the labels."""
        self.marks_by_lines: dict[frozenset[bytes], TokenMarks] = {}
        """The same, by the lines."""
        self.agrees_with_git: dict[str, bool] = {}
        """By record, whether git's own diff calls the same lines new."""
        self.token_index = TokenIndex(index, self.store)

    def attribute_lines(self, lines: Iterable[GitLine]) -> dict[FileVersion, Attributions]:
        """The labels of the versions of those lines, as far as it takes to know theirs."""
        asked: dict[FileVersion, list[GitLine]] = {}
        for line in lines:
            asked.setdefault(line.version, []).append(line)
        return self.attribute_versions(asked, asked)

    def attribute_versions(
        self, versions: Iterable[FileVersion], lines: Mapping[FileVersion, Sequence[GitLine]] | None = None
    ) -> dict[FileVersion, Attributions]:
        """The label of each line of those versions; no labels for one that nothing is known of.

        `lines` are those that are asked about, where it is not all: others may have no label that would have one.
        """
        wanted = lines or {}
        asked = list(dict.fromkeys(versions))
        if not self.has_records:
            return {place: [] for place in asked}
        self.resolve_versions(asked)
        found = {place: self.certain_routes(place) for place in asked}
        unsure = [place for place in asked if not found[place] and self.may_hold_recorded_lines(place)]
        found |= self.find_copied_versions(unsure)
        expected = self.expected_lines_by_version([place for place in unsure if not found[place]], wanted)
        found |= self.plausible_routes(expected)
        walked = self.attribute_by_routes(found, wanted)
        told = {
            place: fill_from_single_call(labels, found[place], self.parent_blob(place), wanted.get(place))
            for place, labels in walked.items()
        }
        return {**told, **self.drop_earlier_lines(told)}

    def drop_earlier_lines(self, attributed: Mapping[FileVersion, Attributions]) -> dict[FileVersion, Attributions]:
        """The labels, without lines that a command only brought from elsewhere in the repository."""
        asked: dict[FileVersion, dict[str, float]] = {}
        for place, labels in attributed.items():
            records = {label.record for label in labels if label and (label.likely or label.record in self.contained)}
            known = {call.id: at for call, at in self.calls_by_path.get(place.path, ()) if call.id in records}
            asked |= {place: known} if known else {}
        if not asked:
            return {}
        from remit.provenance.origins.other_branches import (
            drop_lines_committed_earlier,  # for start-up speed: few lines ask for it
        )

        return drop_lines_committed_earlier(self, attributed, asked)

    def plausible_routes(
        self, expected: Mapping[FileVersion, ExpectedLines | None]
    ) -> dict[FileVersion, tuple[tuple[HistoryStep, ...], ...]]:
        """How those versions may have come about: the ways on which there is what is hoped for."""
        earlier_contents = self.contents_before(list(expected))
        found = {place: self.possible_routes(place, earlier_contents.get(place, frozenset())) for place in expected}
        found = {
            place: tuple(way for way in ways if includes_expected_record(way, expected[place]))
            for place, ways in found.items()
        }
        self.load_routes(way[:-1] for ways in found.values() for way in ways)
        self.load_contents({before for ways in found.values() for way in ways if (before := way[-1].before)})
        found = {
            place: tuple(way for way in ways if self.may_bring_expected_lines(way, expected[place]))
            for place, ways in found.items()
        }
        return {
            place: tuple(way for way in ways if self.may_hold_added_lines(place, way)) for place, ways in found.items()
        }

    def attribute_by_routes(
        self,
        found: Mapping[FileVersion, Sequence[Sequence[HistoryStep]]],
        wanted: Mapping[FileVersion, Sequence[GitLine]],
    ) -> dict[FileVersion, Attributions]:
        """The labels of versions, by the ways in which they may have come about. The first tells most lines: others are
        compared only for those that it leaves.
        """
        first = {place: ways[:1] if place in wanted else ways for place, ways in found.items()}
        self.load_routes(way for ways in first.values() for way in ways)
        walked = {place: self.attribute_by_first_route(place, ways, wanted.get(place)) for place, ways in first.items()}
        more = [place for place, ways in found.items() if len(ways) > len(first[place])]
        more = [place for place in more if any(attribution_at(walked[place], n.number) is None for n in wanted[place])]
        self.load_routes(way for place in more for way in found[place])
        return walked | {place: self.attribute_by_first_route(place, found[place], wanted[place]) for place in more}

    def attribute_by_first_route(
        self, version: FileVersion, routes: Sequence[Sequence[HistoryStep]], lines: Sequence[GitLine] | None
    ) -> Attributions:
        """For each line the label by the first of the ways that gives it one, until all that are asked about have."""
        several: list[Attributions] = []
        left = {line.number - 1 for line in lines or ()}
        for way in routes:
            if lines is not None and not (left and self.may_attribute(way, left)):
                continue
            attributions = self.carry_to_version(version, way)
            asked = attributions if lines is None else (attribution_at(attributions, i + 1) for i in left)
            several.append(
                self.drop_moved_beside_branch(version, way, attributions)
                if has_moved_lines(way, asked)
                else attributions
            )
            left = {i for i in left if i >= len(several[-1]) or not several[-1][i]}
        return first_attributions(several)

    def drop_moved_beside_branch(
        self, version: FileVersion, route: Sequence[HistoryStep], attributions: Attributions
    ) -> Attributions:
        """The labels, less those of lines that moved, where the content before the step is another branch's."""
        from remit.provenance.origins.other_branches import (  # for start-up speed: few have moved
            drop_moved,
            is_on_other_branch,
        )

        before = route[-1].before
        beside = version.has_commit and before is not None and is_on_other_branch(self, version, before)
        return drop_moved(attributions) if beside else attributions

    def may_attribute(self, route: Sequence[HistoryStep], wanted: Collection[int]) -> bool:
        """Whether one of those lines, from 0, may have a label after the last step of a way, where that is loose."""
        step = route[-1]
        if not step.inferred or step.record:
            return bool(wanted)
        old, new = self.lines_of(step.before), self.lines_of(step.after)
        hunks = self.hunks_by_pair.get((step.before, step.after))
        if old is None or new is None or hunks is None:
            return bool(wanted)
        attributions = self.attributions_before_last_step(route)
        if any(attribution_at(attributions, line_before(hunks, i + 1) or 0) for i in wanted):
            return True
        return may_be_moved_lines((i for i, label in enumerate(attributions) if label), old, new, hunks, wanted)

    def carry_to_version(self, version: FileVersion, route: Sequence[HistoryStep]) -> Attributions:
        """The labels at the end of a way. What was recorded after a version had been seen tells a copy from its
        original, where it has lines that are nobody else's; a plain line there is only like another.
        """
        attributions = carry_from(route[-1:], self.content_pairs, self.carried, self.carry_to_last_step(route))[1] or []
        blob = self.version_blob(version)
        if blob is None or route[-1].record is not None:
            return attributions
        late = self.history_of(version.path).records_after_seen(blob)
        if not late:
            return attributions
        told = self.records_agreeing_with_git(version.path, {label.record for label in attributions if label} & late)
        doubtful = [None if label and label.record in told else label for label in attributions]
        return drop_common_blocks(doubtful, late, self.lines_of(blob) or ())

    def records_agreeing_with_git(self, path: str, records: Collection[str]) -> frozenset[str]:
        """Those of the records of a file that call the same lines new as git's own diff does, which tells blocks by
        their indents: it takes no copy of theirs for an original, and what had been there before is not theirs.
        """
        fresh = [call for call, _ in self.calls_by_path[path] if call.id in records - self.agrees_with_git.keys()]
        self.load_contents({blob for call in fresh for blob in (call.before_blob, call.after_blob) if blob})
        known = [
            c
            for c in fresh
            if c.hunks and c.after_blob in self.contents_by_blob and c.before_blob in self.contents_by_blob
        ]
        pairs = {
            c.id: (self.contents_by_blob[c.before_blob or ""], self.contents_by_blob[c.after_blob or ""]) for c in known
        }
        diffs = self.store.compute_hunks(pairs)
        same = {c.id for c in known if [h.new_range for h in c.hunks or ()] == [h.new_range for h in diffs[c.id]]}
        self.agrees_with_git |= {call.id: call.id in same for call in fresh}
        return frozenset(name for name in records if self.agrees_with_git.get(name))

    def attributions_before_last_step(self, route: Sequence[HistoryStep]) -> Attributions:
        """The labels before the last step of a way."""
        return self.carry_to_last_step(route)[1] or []

    def carry_to_last_step(self, route: Sequence[HistoryStep]) -> tuple[int, Attributions | None]:
        """What `walked` has for all steps of a way but the last: many ways have these in common."""
        steps = route[:-1]
        key = tuple(map(id, steps))
        if key not in self.carried_prefixes:
            self.carried_prefixes[key] = (route, carry_from(steps, self.content_pairs, self.carried, (0, None)))
        return self.carried_prefixes[key][1]

    def may_bring_expected_lines(self, route: Sequence[HistoryStep], expected: ExpectedLines | None) -> bool:
        """Whether what is labelled before the last step of the way may be one of the lines that are hoped for."""
        if expected is None or not route[-1].inferred:
            return True
        attributions = self.attributions_before_last_step(route)
        if not any(attributions):
            return False
        if id(attributions) not in self.marks_by_attributions:
            lines = self.lines_of(route[-1].before) or ()
            told = frozenset(line for line, label in zip(lines, attributions, strict=False) if label)
            self.marks_by_lines[told] = self.marks_by_lines.get(told) or marks_of_lines(told)
            self.marks_by_attributions[id(attributions)] = self.marks_by_lines[told]
        return any(map(self.marks_by_attributions[id(attributions)].may_contain_start, expected.lines))

    def expected_lines_by_version(
        self, versions: Sequence[FileVersion], lines: Mapping[FileVersion, Sequence[GitLine]]
    ) -> dict[FileVersion, ExpectedLines | None]:
        """Those versions of which a record may explain a line, told first by those that are asked about, then by all
        that the version added. None where nothing rules a record out.
        """
        known = [place for place in versions if self.version_blob(place) and self.history_of(place.path).recorded]
        found = [place for place in known if place not in lines or self.may_be_recorded_lines(place, lines[place])]
        self.load_hunks(
            {(self.parent_blob(place), version) for place in found if (version := self.version_blob(place))}
        )
        expected = {
            place: self.expected_lines(place, lines.get(place)) for place in found if self.may_add_recorded_words(place)
        }
        return {place: hope for place, hope in expected.items() if hope is None or hope.records}

    def may_add_recorded_words(self, version: FileVersion) -> bool:
        """Whether a record may have put all words of a line that the version added."""
        added = self.added_lines(version)
        return added is None or self.token_index.may_match_words(quote_path(version.path), added)

    def may_be_recorded_lines(self, version: FileVersion, lines: Iterable[GitLine]) -> bool:
        """Whether a record of that file may have put one of those lines there; any may have put a plain one."""
        return self.token_index.may_match_records(quote_path(version.path), (line.content for line in lines))

    def expected_lines(self, version: FileVersion, lines: Sequence[GitLine] | None) -> ExpectedLines | None:
        """What records may have put there of the lines that are asked about; None where it may be anything: a plain
        line goes with others around it, whoever asks about them.
        """
        asked = [line.content for line in lines or () if find_distinctive_words(line.content)]
        whole = lines is None or len(asked) < len(lines)
        return None if whole else self.token_index.expected_lines(quote_path(version.path), asked)

    def may_hold_added_lines(self, version: FileVersion, route: Sequence[HistoryStep]) -> bool:
        """Whether the recorded content that a way ends with may hold a line that the version added: one of which it has
        every word. Most have none, and need not be walked to.
        """
        added, before = self.added_lines(version), route[-1].before
        if added is None or before not in self.contents_by_blob:
            return True
        words = self.distinctive_words(before)
        return any(own and words.issuperset(own) for own in map(find_distinctive_words, added))

    def find_copied_versions(
        self, versions: Sequence[FileVersion]
    ) -> dict[FileVersion, tuple[tuple[HistoryStep, ...], ...]]:
        """How those contents came about that a record left some file with."""
        left = self.index.find_recorded_blobs({version for place in versions if (version := self.version_blob(place))})
        known = [place for place in versions if self.version_blob(place) in left]
        self.load_contents({version for place in known if (version := self.version_blob(place))})
        return {place: self.find_copied_version(place) for place in known}

    def find_copied_version(self, version: FileVersion) -> tuple[tuple[HistoryStep, ...], ...]:
        """How that content came about in another file, where it was recorded: the file was renamed or copied."""
        blob = self.version_blob(version)
        content = self.contents_by_blob.get(blob) if blob else None
        if blob is None or content is None or not any(map(is_distinctive_line, split_lines(content))):
            return ()
        for change in reversed(self.index.list_changes_to_content(sha256(content))):
            route = certain_route(blob, self.parent_blob(version), self.history_at_version(version, change.path))
            called = any(not step.inferred for step in route)
            if called and not self.was_unrecorded_file(version.path, change):
                return (route,)
        return ()

    def was_unrecorded_file(self, path: str, change: RecordedChange) -> bool:
        """Whether the file was there before the change with a content that nobody recorded: an agent read it then, and
        neither a commit nor a record has it. It may have held those lines already, and the change have copied them.
        """
        if any(known.seq < change.seq for known in self.index.list_changes(path)):
            return False
        if not self.index.find(path=path, until=change.at, limit=1):
            return False
        name = f"{self.commit_at_change(change) or 'HEAD'}:{path}"
        return "\n" in name or self.look_up_blobs([name]).get(name) is None


def has_moved_lines(route: Sequence[HistoryStep], attributions: Iterable[Attribution | None]) -> bool:
    """Whether one of the lines with those labels went to another place in a step that nobody recorded."""
    if route[-1].record is not None or not route[-1].inferred:
        return False
    return any(label is not None and label.grade == "moved" for label in attributions)


def includes_expected_record(route: Sequence[HistoryStep], expected: ExpectedLines | None) -> bool:
    """Whether a record that is hoped for is a step of the way."""
    return expected is None or any(step.record in expected.records for step in route)


def drop_common_blocks(attributions: Attributions, late: Collection[str], lines: Sequence[bytes]) -> Attributions:
    """The labels but for those of `late` records on blocks that hold no line that is nobody else's."""
    found = list(attributions)
    for block in attributed_blocks(attributions):
        attribution = attributions[block[0]]
        if (
            attribution
            and attribution.record in late
            and not any(is_distinctive_line(lines[i]) for i in block if i < len(lines))
        ):
            for i in block:
                found[i] = None
    return found


def fill_from_single_call(
    attributions: Attributions,
    routes: Sequence[Sequence[HistoryStep]],
    parent: str | None,
    asked: Sequence[GitLine] | None,
) -> Attributions:
    """The labels, where one call alone lies between a version and the one before: what git calls new is that call's,
    of the lines `asked` about where that is not all.

    Of two lines that are alike, the diff in the record may call another one new than git does. Where the call told
    the place itself, that holds.
    """
    step = routes[0][0] if len(routes) == 1 and len(routes[0]) == 1 else None
    if step is None or step.record is None or step.positions_known or step.inferred or step.before != parent:
        return attributions
    own = Attribution(step.record, "exact", proved=not step.unproved, likely=bool(step.likely))
    found = list(attributions)
    for i in range(len(found)) if asked is None else (n.number - 1 for n in asked if n.number <= len(found)):
        found[i] = found[i] or own
    return found
