"""Attribute the lines of file versions to the writing records, in a workspace.

Most versions cannot hold a recorded line: the token index and the words of added lines rule them out before contents
are compared. Without the index, the statistics of a few hundred commits take twenty times as long.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec.structs import replace

from remit.core.diff.contents import find_distinctive_words, is_distinctive_line, sha256
from remit.core.untrusted_input import quote_path
from remit.ledger.file_changes import RecordedChange
from remit.ledger.index.index import Index
from remit.provenance.origins.blame_porcelain import FileVersion, GitLine
from remit.provenance.origins.carried_attributions import CarriedCache, attributed_blocks, carry_from
from remit.provenance.origins.commits_before_call import CHANGED_CONTENTS, RAW_OPTIONS, read_log
from remit.provenance.origins.evidence_grades import Attribution, Attributions, attribution_at, limit_grade
from remit.provenance.origins.file_histories import FileHistories
from remit.provenance.origins.line_matches import may_be_moved_lines
from remit.provenance.origins.original_versions import OriginalVersions
from remit.provenance.origins.recorded_steps import Route, certain_route, line_before
from remit.provenance.origins.token_index import ExpectedLines, TokenIndex, TokenMarks, marks_of_lines
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.git.command import GitError
from remit.workspace.place.workspace import Workspace

MAX_VERSIONS = 2000  # versions of one file that are read
MAX_PATHS_PER_CALL = 200


class LineAttributor(FileHistories):
    """Attribute lines to the records of one workspace."""

    def __init__(self, workspace: Workspace, index: Index, store: ContentStore, nested: str = "") -> None:
        super().__init__(workspace, index, store, nested)
        self.carried: CarriedCache = {}
        self.carried_prefixes: dict[tuple[int, ...], tuple[Route, tuple[int, Attributions | None]]] = {}
        """By the identities of the steps of a route except the last: the route, and the entry of `carried` for those
        steps.
        """
        self.marks_by_lines: dict[frozenset[bytes], TokenMarks] = {}
        self.agrees_with_git: dict[str, bool] = {}
        """By record: whether git's own diff marks the same lines as new."""
        self.token_index = TokenIndex(index, self.store)

    def attribute_lines(self, lines: Iterable[GitLine]) -> dict[FileVersion, Attributions]:
        lines_by_version: dict[FileVersion, list[GitLine]] = {}
        for line in lines:
            lines_by_version.setdefault(line.version, []).append(line)
        return self.attribute_versions(lines_by_version, lines_by_version)

    def attribute_versions(
        self,
        versions: Iterable[FileVersion],
        lines: Mapping[FileVersion, Sequence[GitLine]] | None = None,
        commits: Iterable[str] = (),
    ) -> dict[FileVersion, Attributions]:
        """Return the attribution of each line of each version; an empty list if no record is known. `lines` limits the
        question: lines outside may stay None although an attribution exists. `commits` are further commits of the
        versions' history: none of them is the original of another.
        """
        unique = list(dict.fromkeys(versions))
        if not self.has_records:
            return {version: [] for version in unique}
        # 1. The versions that a rewrite made of others: their lines have the authors of the originals.
        self.resolve_versions(unique)
        rewritten = [version for version in unique if self.may_be_rewritten(version)]
        present = {*commits, *(version.commit for version in unique if version.has_commit)}
        search = OriginalVersions(self)
        originals = search.find(rewritten, present) if rewritten else {}
        lines_by_original: dict[FileVersion, list[GitLine]] = {}
        for line in (line for own in originals.values() for line in own.values()):
            lines_by_original.setdefault(line.version, []).append(line)
        asked_lines = lines or {}
        # 2. All others by the records.
        known = self.attribute_by_records(list(lines_by_original), lines_by_original) if originals else {}
        attributed = self.attribute_by_records(unique, asked_lines)
        for version, own in originals.items():
            found = attributed[version]
            found += [None] * (max(own) - len(found))
            for number, line in own.items():
                attribution = attribution_at(known[line.version], line.number)
                if attribution or version in search.copies:
                    found[number - 1] = limit_grade(attribution, "preserved") if attribution else None
        return attributed

    def may_be_rewritten(self, version: FileVersion) -> bool:
        is_recorded = bool(version.has_commit and self.version_blob(version) and self.history_of(version.path).recorded)
        if not is_recorded or not self.may_hold_recorded_lines(version):
            return False
        return all(any(step.inferred for step in route) for route in self.certain_routes(version))

    def attribute_by_records(
        self, unique: Sequence[FileVersion], asked_lines: Mapping[FileVersion, Sequence[GitLine]]
    ) -> dict[FileVersion, Attributions]:
        # 1. The routes that the records tell for certain, in the file or in one that it was copied from.
        self.resolve_versions(unique)
        routes = {version: self.certain_routes(version) for version in unique}
        unsure = [version for version in unique if not routes[version] and self.may_hold_recorded_lines(version)]
        routes |= self.find_copied_versions(unsure)
        # 2. The possible routes to the rest.
        expected = self.expected_lines_by_version([version for version in unsure if not routes[version]], asked_lines)
        routes |= self.plausible_routes(expected)
        # 3. The attributions along them.
        attributed = {
            version: fill_from_single_call(
                attributions, routes[version], self.parent_blob(version), asked_lines.get(version)
            )
            for version, attributions in self.attribute_by_routes(routes, asked_lines).items()
        }
        return {**attributed, **self.drop_earlier_lines(attributed)}

    def drop_earlier_lines(self, attributed: Mapping[FileVersion, Attributions]) -> dict[FileVersion, Attributions]:
        calls: dict[FileVersion, dict[str, float]] = {}
        for version, attributions in attributed.items():
            records = {a.record for a in attributions if a and (a.likely or a.record in self.contained)}
            times = {c.id: at_s for c, at_s in self.calls_by_path.get(version.path, ()) if c.id in records}
            calls |= {version: times} if times else {}
        committed = self.find_committed_versions(calls) if calls else {}
        self.load_contents({self.version_blob(version) for version in calls})
        result: dict[FileVersion, Attributions] = {}
        for version, times in calls.items():
            texts, attributions = self.lines_of(self.version_blob(version)) or (), list(attributed[version])
            asked = [
                a if a and a.record in times and (a.proved or a.likely) else None for a in attributions[: len(texts)]
            ]
            for block in attributed_blocks(asked):
                # Commit times are whole seconds.
                before = int(times[record.record]) if (record := asked[block[0]]) else 0
                blobs = {blob for time_s, blob in committed.get(version.path_in_tree, ()) if time_s < before}
                earlier_lines = {line.strip() for blob in blobs for line in self.lines_of(blob) or ()}
                distinctive = {i for i in block if is_distinctive_line(texts[i])}
                if earlier := {i for i in distinctive if texts[i].strip() in earlier_lines}:
                    for i in earlier | (set(block) - distinctive):
                        found = attributions[i]
                        attributions[i] = replace(found, proved=False, likely=False) if found else None
            result[version] = attributions
        return result

    def find_committed_versions(self, versions: Iterable[FileVersion]) -> dict[str, list[tuple[int, str]]]:
        recorded = {version.path_in_tree: self.history_of(version.path).contents for version in versions}
        committed: dict[str, list[tuple[int, str]]] = {}
        paths = sorted(recorded) if self.has_git else []
        for start in range(0, len(paths), MAX_PATHS_PER_CALL):
            pathspecs = (f":(top,literal){path}" for path in paths[start : start + MAX_PATHS_PER_CALL])
            options = ("--all", "--reflog", "--format=%ct", *CHANGED_CONTENTS, "-m")
            for change in read_log(self.git, *options, "--", *pathspecs):
                found = committed.setdefault(change.path, [])
                if change.after not in recorded.get(change.path, ()) and len(found) < MAX_VERSIONS:
                    found.append((int(change.mark), change.after))
        self.load_contents({blob for found in committed.values() for _, blob in found})
        return committed

    # -- possible routes -----------------------------------------------------------------------------------------

    def plausible_routes(
        self, expected: Mapping[FileVersion, ExpectedLines | None]
    ) -> dict[FileVersion, tuple[Route, ...]]:
        earlier_contents = self.contents_before(list(expected))
        routes_by_version = {
            version: [
                route
                for route in self.possible_routes(version, earlier_contents.get(version, frozenset()))
                if includes_expected_record(route, lines)
            ]
            for version, lines in expected.items()
        }
        self.load_routes(route[:-1] for routes in routes_by_version.values() for route in routes)
        self.load_contents(route[-1].before for routes in routes_by_version.values() for route in routes)
        return {
            version: tuple(
                route
                for route in routes
                if self.may_bring_expected_lines(route, expected[version]) and self.may_hold_added_lines(version, route)
            )
            for version, routes in routes_by_version.items()
        }

    def may_bring_expected_lines(self, route: Route, expected: ExpectedLines | None) -> bool:
        if expected is None or not route[-1].inferred:
            return True
        pairs = zip(self.lines_of(route[-1].before) or (), self.carry_to_last_step(route)[1] or (), strict=False)
        attributed = frozenset(line for line, attribution in pairs if attribution)
        if attributed not in self.marks_by_lines:
            self.marks_by_lines[attributed] = marks_of_lines(attributed)
        return any(map(self.marks_by_lines[attributed].may_contain_start, expected.lines))

    def may_hold_added_lines(self, version: FileVersion, route: Route) -> bool:
        added, before = self.added_lines(version), route[-1].before
        if added is None or before not in self.contents_by_blob:
            return True
        words = self.distinctive_words(before)
        return any(own and words.issuperset(own) for own in map(find_distinctive_words, added))

    def expected_lines_by_version(
        self, versions: Sequence[FileVersion], lines: Mapping[FileVersion, Sequence[GitLine]]
    ) -> dict[FileVersion, ExpectedLines | None]:
        """Return the versions of which a record may explain a line, with the expected lines; None if no record can be
        ruled out. The lines asked about are tested before the versions are compared.
        """
        marks = self.token_index
        texts_by_version = {v: [line.content for line in lines.get(v, ())] for v in versions}
        candidates = [
            version
            for version, texts in texts_by_version.items()
            if self.version_blob(version)
            and self.history_of(version.path).recorded
            and (version not in lines or marks.may_match_records(quote_path(version.path), texts))
        ]
        self.load_hunks({(self.parent_blob(v), blob) for v in candidates if (blob := self.version_blob(v))})
        expected: dict[FileVersion, ExpectedLines | None] = {}
        for version in candidates:
            path, added = quote_path(version.path), self.added_lines(version)
            if added is not None and not marks.may_match_words(path, added):
                continue
            texts = texts_by_version[version]
            # A common line follows its neighbours, hence any record may explain it.
            is_limited = version in lines and all(map(find_distinctive_words, texts))
            found = marks.expected_lines(path, texts) if is_limited else None
            if found is None or found.records:
                expected[version] = found
        return expected

    # -- along routes --------------------------------------------------------------------------------------------

    def attribute_by_routes(
        self,
        routes_by_version: Mapping[FileVersion, Sequence[Route]],
        lines_by_version: Mapping[FileVersion, Sequence[GitLine]],
    ) -> dict[FileVersion, Attributions]:
        first = {v: routes[:1] if v in lines_by_version else routes for v, routes in routes_by_version.items()}
        self.load_routes(route for routes in first.values() for route in routes)
        attributed = {v: self.attribute_version(v, routes, lines_by_version.get(v)) for v, routes in first.items()}
        incomplete = [
            version
            for version, routes in routes_by_version.items()
            if len(routes) > len(first[version])
            and any(attribution_at(attributed[version], n.number) is None for n in lines_by_version[version])
        ]
        self.load_routes(route for version in incomplete for route in routes_by_version[version])
        return attributed | {
            version: self.attribute_version(version, routes_by_version[version], lines_by_version[version])
            for version in incomplete
        }

    def attribute_version(
        self, version: FileVersion, routes: Sequence[Route], lines: Sequence[GitLine] | None
    ) -> Attributions:
        result: Attributions = []
        missing = {line.number - 1 for line in lines or ()}
        for route in routes:
            if lines is not None and not (missing and self.may_attribute(route, missing)):
                continue
            found = self.carry_to_version(version, route)
            asked = found if lines is None else [attribution_at(found, i + 1) for i in missing]
            if any(a is not None and a.grade == "moved" for a in asked) and self.comes_from_other_branch(
                version, route
            ):
                found = [None if a and a.grade == "moved" else a for a in found]
            result += [None] * (len(found) - len(result))
            result[: len(found)] = [known or new for known, new in zip(result, found, strict=False)]
            missing = {i for i in missing if i >= len(found) or not found[i]}
        return result

    def comes_from_other_branch(self, version: FileVersion, route: Route) -> bool:
        """Return whether the content before an unrecorded last step belongs to a different branch, without a move. Only
        commits beside the version's history hold the content, or a content that calls made of it. Source: git-log(1),
        `--find-object`, read 2026-11.
        """
        content = route[-1].before
        if route[-1].record is not None or not route[-1].inferred or content is None or not version.has_commit:
            return False
        git, path, history = self.git, self.prefix.path_for_git(version.path), self.history_of(version.path)
        try:
            if git.text("log", "-1", "--format=%H", f"--find-object={content}", version.commit, "--", path):
                return False
        except GitError:
            return False
        for change in read_log(git, "--format=", *RAW_OPTIONS, "HEAD", f"^{version.commit}", "--", path):
            way = certain_route(change.after, content, history)
            is_by_calls = bool(way) and way[0].before == content and not any(step.inferred for step in way)
            if change.after == content or is_by_calls:
                return True
        return False

    def may_attribute(self, route: Route, wanted: Collection[int]) -> bool:
        """Return whether one of the `wanted` lines (from 0) can have an attribution after an inferred last step."""
        step = route[-1]
        old, new = self.lines_of(step.before), self.lines_of(step.after)
        hunks = self.hunks_by_pair.get((step.before, step.after))
        if not step.inferred or step.record or old is None or new is None or hunks is None:
            return True
        attributions = self.carry_to_last_step(route)[1] or []
        if any(attribution_at(attributions, line_before(hunks, i + 1) or 0) for i in wanted):
            return True
        return may_be_moved_lines((i for i, found in enumerate(attributions) if found), old, new, hunks)

    def carry_to_version(self, version: FileVersion, route: Route) -> Attributions:
        attributions = carry_from(route[-1:], self.content_pairs, self.carried, self.carry_to_last_step(route))[1] or []
        blob = self.version_blob(version)
        late_records = self.history_of(version.path).records_after_seen(blob) if blob else ()
        if not late_records or route[-1].record is not None:
            return attributions
        late = {attribution.record for attribution in attributions if attribution} & late_records
        agreeing = self.records_agreeing_with_git(version.path, late)
        kept = [None if attribution and attribution.record in agreeing else attribution for attribution in attributions]
        return drop_common_blocks(kept, late_records, self.lines_of(blob) or ())

    def records_agreeing_with_git(self, path: str, records: Collection[str]) -> frozenset[str]:
        calls = [call for call, _ in self.calls_by_path[path] if call.id in records - self.agrees_with_git.keys()]
        self.load_contents(blob for call in calls for blob in (call.before_blob, call.after_blob))
        contents = self.contents_by_blob
        comparable = [c for c in calls if c.hunks and c.after_blob in contents and c.before_blob in contents]
        pairs = {c.id: (contents[c.before_blob or ""], contents[c.after_blob or ""]) for c in comparable}
        diffs = self.store.compute_hunks(pairs)
        self.agrees_with_git |= {call.id: False for call in calls}
        for call in comparable:
            ranges = [hunk.new_range for hunk in call.hunks or ()]
            self.agrees_with_git[call.id] = ranges == [hunk.new_range for hunk in diffs[call.id]]
        return frozenset(name for name in records if self.agrees_with_git.get(name))

    def carry_to_last_step(self, route: Route) -> tuple[int, Attributions | None]:
        steps = route[:-1]
        key = tuple(map(id, steps))
        if key not in self.carried_prefixes:
            self.carried_prefixes[key] = (route, carry_from(steps, self.content_pairs, self.carried, (0, None)))
        return self.carried_prefixes[key][1]

    # -- copied files --------------------------------------------------------------------------------------------

    def find_copied_versions(self, versions: Sequence[FileVersion]) -> dict[FileVersion, tuple[Route, ...]]:
        """Return for versions with the content of a second recorded file, then renamed or copied, the route that
        produced the content.
        """
        blobs = {version: blob for version in versions if (blob := self.version_blob(version))}
        recorded = self.index.find_recorded_blobs(set(blobs.values()))
        copied = {version: blob for version, blob in blobs.items() if blob in recorded}
        self.load_contents(copied.values())
        routes: dict[FileVersion, tuple[Route, ...]] = {version: () for version in copied}
        for version, blob in copied.items():
            if not any(map(is_distinctive_line, self.lines_of(blob) or ())):
                continue
            for change in reversed(self.index.list_changes_to_content(sha256(self.contents_by_blob[blob]))):
                route = certain_route(blob, self.parent_blob(version), self.history_at_version(version, change.path))
                has_call = any(not step.inferred for step in route)
                if has_call and not self.was_unrecorded_file(version.path, change):
                    routes[version] = (route,)
                    break
        return routes

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


def includes_expected_record(route: Route, expected: ExpectedLines | None) -> bool:
    return expected is None or any(step.record in expected.records for step in route)


def drop_common_blocks(
    attributions: Attributions, late_records: Collection[str], lines: Sequence[bytes]
) -> Attributions:
    result = list(attributions)
    for block in attributed_blocks(attributions):
        attribution = attributions[block[0]]
        is_common = not any(is_distinctive_line(lines[i]) for i in block if i < len(lines))
        if attribution and attribution.record in late_records and is_common:
            for i in block:
                result[i] = None
    return result


def fill_from_single_call(
    attributions: Attributions, routes: Sequence[Route], parent: str | None, lines: Sequence[GitLine] | None
) -> Attributions:
    step = routes[0][0] if len(routes) == 1 and len(routes[0]) == 1 else None
    if step is None or step.record is None or step.positions_known or step.inferred or step.before != parent:
        return attributions
    own = Attribution(step.record, "exact", proved=not step.unproved, likely=bool(step.likely))
    result = list(attributions)
    for i in range(len(result)) if lines is None else (n.number - 1 for n in lines if n.number <= len(result)):
        result[i] = result[i] or own
    return result
