"""Attribute the lines of file versions to the records that wrote them, in one workspace.

Contents and differences are fetched in a few batches: git starts a fixed number of times, however many versions are
asked about.
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
from remit.provenance.origins.recorded_steps import Route, certain_route, line_before
from remit.provenance.origins.similarity import may_be_moved_lines
from remit.provenance.origins.token_index import ExpectedLines, TokenIndex, TokenMarks, marks_of_lines
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.place.workspace import Workspace


class LineAttributor(FileHistories):
    """Attribute lines to the records of one workspace."""

    def __init__(self, workspace: Workspace, index: Index, store: ContentStore) -> None:
        super().__init__(workspace, index, store)
        self.carried: CarriedCache = {}
        self.carried_prefixes: dict[tuple[int, ...], tuple[Route, tuple[int, Attributions | None]]] = {}
        """By the identities of the steps of a route except the last: the route, and the entry of `carried` for those
        steps.
        """
        self.marks_by_attributions: dict[int, TokenMarks] = {}
        """Marks of the attributed lines, by the identity of the attributions."""
        self.marks_by_lines: dict[frozenset[bytes], TokenMarks] = {}
        """Marks of the attributed lines, by the lines."""
        self.agrees_with_git: dict[str, bool] = {}
        """By record: whether git's own diff marks the same lines as new."""
        self.token_index = TokenIndex(index, self.store)

    def attribute_lines(self, lines: Iterable[GitLine]) -> dict[FileVersion, Attributions]:
        lines_by_version: dict[FileVersion, list[GitLine]] = {}
        for line in lines:
            lines_by_version.setdefault(line.version, []).append(line)
        return self.attribute_versions(lines_by_version, lines_by_version)

    def attribute_versions(
        self, versions: Iterable[FileVersion], lines: Mapping[FileVersion, Sequence[GitLine]] | None = None
    ) -> dict[FileVersion, Attributions]:
        """Return the attribution of each line of each version; an empty sequence if no record is known.

        `lines` limits the question: lines outside may stay None although an attribution exists.
        """
        asked_lines = lines or {}
        unique = list(dict.fromkeys(versions))
        if not self.has_records:
            return {version: [] for version in unique}
        self.resolve_versions(unique)
        routes = {version: self.certain_routes(version) for version in unique}
        unsure = [version for version in unique if not routes[version] and self.may_hold_recorded_lines(version)]
        routes |= self.find_copied_versions(unsure)
        expected = self.expected_lines_by_version([version for version in unsure if not routes[version]], asked_lines)
        routes |= self.plausible_routes(expected)
        carried = self.attribute_by_routes(routes, asked_lines)
        attributed = {
            version: fill_from_single_call(
                attributions, routes[version], self.parent_blob(version), asked_lines.get(version)
            )
            for version, attributions in carried.items()
        }
        return {**attributed, **self.drop_earlier_lines(attributed)}

    def drop_earlier_lines(self, attributed: Mapping[FileVersion, Attributions]) -> dict[FileVersion, Attributions]:
        """Drop attributions of lines that the repository held before the command of the record ran."""
        calls_by_version: dict[FileVersion, dict[str, float]] = {}
        for version, attributions in attributed.items():
            records = {
                attribution.record
                for attribution in attributions
                if attribution and (attribution.likely or attribution.record in self.contained)
            }
            call_times = {
                call.id: time_s for call, time_s in self.calls_by_path.get(version.path, ()) if call.id in records
            }
            calls_by_version |= {version: call_times} if call_times else {}
        if not calls_by_version:
            return {}
        # Imported here for start-up speed: few lines need the check.
        from remit.provenance.origins.other_branches import drop_lines_committed_earlier

        return drop_lines_committed_earlier(self, attributed, calls_by_version)

    def plausible_routes(
        self, expected: Mapping[FileVersion, ExpectedLines | None]
    ) -> dict[FileVersion, tuple[Route, ...]]:
        """Return the possible routes to each version that include an expected record."""
        earlier_contents = self.contents_before(list(expected))
        routes_by_version = {
            version: self.possible_routes(version, earlier_contents.get(version, frozenset())) for version in expected
        }
        routes_by_version = {
            version: tuple(route for route in routes if includes_expected_record(route, expected[version]))
            for version, routes in routes_by_version.items()
        }
        self.load_routes(route[:-1] for routes in routes_by_version.values() for route in routes)
        self.load_contents(
            {before for routes in routes_by_version.values() for route in routes if (before := route[-1].before)}
        )
        routes_by_version = {
            version: tuple(route for route in routes if self.may_bring_expected_lines(route, expected[version]))
            for version, routes in routes_by_version.items()
        }
        return {
            version: tuple(route for route in routes if self.may_hold_added_lines(version, route))
            for version, routes in routes_by_version.items()
        }

    def attribute_by_routes(
        self,
        routes_by_version: Mapping[FileVersion, Sequence[Route]],
        lines_by_version: Mapping[FileVersion, Sequence[GitLine]],
    ) -> dict[FileVersion, Attributions]:
        """Attribute versions by their possible routes. The first route explains most lines; the rest are compared
        only for the remaining ones.
        """
        first = {
            version: routes[:1] if version in lines_by_version else routes
            for version, routes in routes_by_version.items()
        }
        self.load_routes(route for routes in first.values() for route in routes)
        attributed = {
            version: self.attribute_by_first_route(version, routes, lines_by_version.get(version))
            for version, routes in first.items()
        }
        incomplete = [version for version, routes in routes_by_version.items() if len(routes) > len(first[version])]
        incomplete = [
            version
            for version in incomplete
            if any(attribution_at(attributed[version], n.number) is None for n in lines_by_version[version])
        ]
        self.load_routes(route for version in incomplete for route in routes_by_version[version])
        return attributed | {
            version: self.attribute_by_first_route(version, routes_by_version[version], lines_by_version[version])
            for version in incomplete
        }

    def attribute_by_first_route(
        self, version: FileVersion, routes: Sequence[Route], lines: Sequence[GitLine] | None
    ) -> Attributions:
        """Return for each line the attribution by the first route with one, until each line asked about has one."""
        results: list[Attributions] = []
        missing = {line.number - 1 for line in lines or ()}
        for route in routes:
            if lines is not None and not (missing and self.may_attribute(route, missing)):
                continue
            attributions = self.carry_to_version(version, route)
            attributions_asked = (
                attributions if lines is None else (attribution_at(attributions, i + 1) for i in missing)
            )
            results.append(
                self.drop_moved_beside_branch(version, route, attributions)
                if has_moved_lines(route, attributions_asked)
                else attributions
            )
            missing = {i for i in missing if i >= len(results[-1]) or not results[-1][i]}
        return first_attributions(results)

    def drop_moved_beside_branch(self, version: FileVersion, route: Route, attributions: Attributions) -> Attributions:
        """Drop attributions of moved lines if the content before the last step belongs to another branch."""
        # Imported here for start-up speed: few lines have moved.
        from remit.provenance.origins.other_branches import drop_moved, is_on_other_branch

        before = route[-1].before
        is_beside = version.has_commit and before is not None and is_on_other_branch(self, version, before)
        return drop_moved(attributions) if is_beside else attributions

    def may_attribute(self, route: Route, wanted: Collection[int]) -> bool:
        """Return whether one of the `wanted` lines (from 0) can have an attribution after an inferred last step."""
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
        return may_be_moved_lines(
            (i for i, attribution in enumerate(attributions) if attribution), old, new, hunks, wanted
        )

    def carry_to_version(self, version: FileVersion, route: Route) -> Attributions:
        """Return the attributions at the end of a route.

        A record made after the version was seen tells a copy from its original only by distinctive lines; a common line
        there is merely equal.
        """
        attributions = carry_from(route[-1:], self.content_pairs, self.carried, self.carry_to_last_step(route))[1] or []
        blob = self.version_blob(version)
        if blob is None or route[-1].record is not None:
            return attributions
        late_records = self.history_of(version.path).records_after_seen(blob)
        if not late_records:
            return attributions
        agreeing = self.records_agreeing_with_git(
            version.path, {attribution.record for attribution in attributions if attribution} & late_records
        )
        kept = [None if attribution and attribution.record in agreeing else attribution for attribution in attributions]
        return drop_common_blocks(kept, late_records, self.lines_of(blob) or ())

    def records_agreeing_with_git(self, path: str, records: Collection[str]) -> frozenset[str]:
        """Return the records of a file whose hunks mark the same lines as git's own diff.

        git aligns blocks by their indentation, hence such a record does not take a copy for the original.
        """
        calls = [call for call, _ in self.calls_by_path[path] if call.id in records - self.agrees_with_git.keys()]
        self.load_contents({blob for call in calls for blob in (call.before_blob, call.after_blob) if blob})
        comparable = [
            c
            for c in calls
            if c.hunks and c.after_blob in self.contents_by_blob and c.before_blob in self.contents_by_blob
        ]
        pairs = {
            c.id: (self.contents_by_blob[c.before_blob or ""], self.contents_by_blob[c.after_blob or ""])
            for c in comparable
        }
        diffs = self.store.compute_hunks(pairs)
        agreeing = {
            c.id for c in comparable if [h.new_range for h in c.hunks or ()] == [h.new_range for h in diffs[c.id]]
        }
        self.agrees_with_git |= {call.id: call.id in agreeing for call in calls}
        return frozenset(name for name in records if self.agrees_with_git.get(name))

    def attributions_before_last_step(self, route: Route) -> Attributions:
        return self.carry_to_last_step(route)[1] or []

    def carry_to_last_step(self, route: Route) -> tuple[int, Attributions | None]:
        """Carry attributions through the steps of a route except the last, which many routes share."""
        steps = route[:-1]
        key = tuple(map(id, steps))
        if key not in self.carried_prefixes:
            self.carried_prefixes[key] = (route, carry_from(steps, self.content_pairs, self.carried, (0, None)))
        return self.carried_prefixes[key][1]

    def may_bring_expected_lines(self, route: Route, expected: ExpectedLines | None) -> bool:
        """Return whether a line attributed before the last step may be one of the expected lines."""
        if expected is None or not route[-1].inferred:
            return True
        attributions = self.attributions_before_last_step(route)
        if not any(attributions):
            return False
        if id(attributions) not in self.marks_by_attributions:
            lines = self.lines_of(route[-1].before) or ()
            attributed_lines = frozenset(
                line for line, attribution in zip(lines, attributions, strict=False) if attribution
            )
            self.marks_by_lines[attributed_lines] = self.marks_by_lines.get(attributed_lines) or marks_of_lines(
                attributed_lines
            )
            self.marks_by_attributions[id(attributions)] = self.marks_by_lines[attributed_lines]
        return any(map(self.marks_by_attributions[id(attributions)].may_contain_start, expected.lines))

    def expected_lines_by_version(
        self, versions: Sequence[FileVersion], lines: Mapping[FileVersion, Sequence[GitLine]]
    ) -> dict[FileVersion, ExpectedLines | None]:
        """Return the versions of which a record may explain a line, with the expected lines; None if no record can be
        ruled out.

        The lines asked about are tested before the versions are compared.
        """
        recorded = [
            version for version in versions if self.version_blob(version) and self.history_of(version.path).recorded
        ]
        candidates = [
            version
            for version in recorded
            if version not in lines or self.may_be_recorded_lines(version, lines[version])
        ]
        self.load_hunks(
            {(self.parent_blob(version), blob) for version in candidates if (blob := self.version_blob(version))}
        )
        expected = {
            version: self.expected_lines(version, lines.get(version))
            for version in candidates
            if self.may_add_recorded_words(version)
        }
        return {
            version: expectation
            for version, expectation in expected.items()
            if expectation is None or expectation.records
        }

    def may_add_recorded_words(self, version: FileVersion) -> bool:
        added = self.added_lines(version)
        return added is None or self.token_index.may_match_words(quote_path(version.path), added)

    def may_be_recorded_lines(self, version: FileVersion, lines: Iterable[GitLine]) -> bool:
        return self.token_index.may_match_records(quote_path(version.path), (line.content for line in lines))

    def expected_lines(self, version: FileVersion, lines: Sequence[GitLine] | None) -> ExpectedLines | None:
        """Return the expected lines among `lines`, or None if common lines are asked about: those follow their
        neighbours.
        """
        distinctive = [line.content for line in lines or () if find_distinctive_words(line.content)]
        includes_common = lines is None or len(distinctive) < len(lines)
        return None if includes_common else self.token_index.expected_lines(quote_path(version.path), distinctive)

    def may_hold_added_lines(self, version: FileVersion, route: Route) -> bool:
        """Return whether the recorded content at the end of a route has every word of an added line. Most have none,
        and are skipped.
        """
        added, before = self.added_lines(version), route[-1].before
        if added is None or before not in self.contents_by_blob:
            return True
        words = self.distinctive_words(before)
        return any(own and words.issuperset(own) for own in map(find_distinctive_words, added))

    def find_copied_versions(self, versions: Sequence[FileVersion]) -> dict[FileVersion, tuple[Route, ...]]:
        recorded = self.index.find_recorded_blobs(
            {blob for version in versions if (blob := self.version_blob(version))}
        )
        copied = [version for version in versions if self.version_blob(version) in recorded]
        self.load_contents({blob for version in copied if (blob := self.version_blob(version))})
        return {version: self.find_copied_version(version) for version in copied}

    def find_copied_version(self, version: FileVersion) -> tuple[Route, ...]:
        """Return the route by which the content came about in another recorded file, which was then renamed or
        copied.
        """
        blob = self.version_blob(version)
        content = self.contents_by_blob.get(blob) if blob else None
        if blob is None or content is None or not any(map(is_distinctive_line, split_lines(content))):
            return ()
        for change in reversed(self.index.list_changes_to_content(sha256(content))):
            route = certain_route(blob, self.parent_blob(version), self.history_at_version(version, change.path))
            has_call = any(not step.inferred for step in route)
            if has_call and not self.was_unrecorded_file(version.path, change):
                return (route,)
        return ()

    def was_unrecorded_file(self, path: str, change: RecordedChange) -> bool:
        """Return whether the file existed before the change with an unrecorded content: an agent had read the file,
        and neither a commit nor a record holds that content. The change may have copied the lines.
        """
        if any(known.seq < change.seq for known in self.index.list_changes(path)):
            return False
        if not self.index.find(path=path, until=change.at, limit=1):
            return False
        name = f"{self.commit_at_change(change) or 'HEAD'}:{path}"
        return "\n" in name or self.look_up_blobs([name]).get(name) is None


def has_moved_lines(route: Route, attributions: Iterable[Attribution | None]) -> bool:
    if route[-1].record is not None or not route[-1].inferred:
        return False
    return any(attribution is not None and attribution.grade == "moved" for attribution in attributions)


def includes_expected_record(route: Route, expected: ExpectedLines | None) -> bool:
    return expected is None or any(step.record in expected.records for step in route)


def drop_common_blocks(
    attributions: Attributions, late_records: Collection[str], lines: Sequence[bytes]
) -> Attributions:
    """Drop the attributions by late records of blocks without a distinctive line."""
    result = list(attributions)
    for block in attributed_blocks(attributions):
        attribution = attributions[block[0]]
        if (
            attribution
            and attribution.record in late_records
            and not any(is_distinctive_line(lines[i]) for i in block if i < len(lines))
        ):
            for i in block:
                result[i] = None
    return result


def fill_from_single_call(
    attributions: Attributions,
    routes: Sequence[Route],
    parent: str | None,
    lines: Sequence[GitLine] | None,
) -> Attributions:
    """Attribute the lines that git calls new to the call, if one call alone lies between a version and its parent.

    The diff in the record may pick another of two equal lines than git. If the tool told the position, the record
    stands.
    """
    step = routes[0][0] if len(routes) == 1 and len(routes[0]) == 1 else None
    if step is None or step.record is None or step.positions_known or step.inferred or step.before != parent:
        return attributions
    own = Attribution(step.record, "exact", proved=not step.unproved, likely=bool(step.likely))
    result = list(attributions)
    for i in range(len(result)) if lines is None else (n.number - 1 for n in lines if n.number <= len(result)):
        result[i] = result[i] or own
    return result
