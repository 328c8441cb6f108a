"""Recorded history of each path in one workspace, including lines copied or moved from other files."""

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from remit.core.diff.distinctive_lines import is_distinctive_line
from remit.core.diff.line_spans import Span, make_spans, merge_spans, subtract_spans
from remit.core.display_text import quote_path
from remit.core.ids import list_part_ids
from remit.core.record import KEY
from remit.ledger.file_changes import RecordedChange
from remit.ledger.index.index import Index
from remit.provenance.origins.blame_porcelain import FileVersion
from remit.provenance.origins.commits_before_call import (
    PastContents,
    backdated_query,
    calls_begun_after_commit,
    find_backdated_commits,
)
from remit.provenance.origins.evidence import Attribution
from remit.provenance.origins.recorded_steps import (
    FileHistory,
    HistoryEntry,
    HistoryStep,
    Route,
    certain_route,
    needed_pairs,
    origins_in_parent,
    possible_routes,
)
from remit.provenance.origins.similarity import find_equal_blocks
from remit.provenance.origins.version_contents import CachedContentStore, VersionContents
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.place.workspace import Workspace

NEVER_S = float("inf")
SLACK_S = 86400.0
"""Tolerance for clocks that differ and for chosen commit dates."""

COPYING_COMMANDS = re.compile(r">|\b(?:cp|mv|install|rsync|ln|dd|git|tee)\b")
"""Commands that put the content of one file into another."""


BETWEEN_WORDS = re.compile(r"[\s'\"`;|&<>()$={}]+")
GIT_VERSION = re.compile(r"[\w./-]+(?:[~^]\d*)*:(?!\.{1,2}(?:/|$))")
"""`<commit>:<path>` from the root, if git can look the name up without a fatal error: a relative path that leads out of
the tree, an unknown upstream or reflog entry ends git. Source: gitrevisions(7), read 2026-11.
"""

MAX_COMMAND_CHARS = 8192
"""Characters of a command that are searched for file names."""

MAX_NAMES = 400

MAX_PARTS = 200
"""Parts of one record that are read for files the call removed."""

MAX_COMPARED_LINES = 5_000
"""Lines of a file that are compared in order."""

FindPreviousBlob = Callable[[str, int], str | None]
"""Return the blob with which the last recorded change before a record left a path."""


class CopySources(Struct, frozen=True):
    """Sources of copied lines: `origin` is the path of the file that the new file continues; `spans` are lines found in
    others.
    """

    origin: str | None = None
    spans: tuple[Span, ...] = ()


class FileHistories(VersionContents):
    """Recorded histories of the files of one workspace. git starts a fixed number of times, however many versions
    are asked about.
    """

    def __init__(self, workspace: Workspace, index: Index, store: ContentStore) -> None:
        super().__init__(workspace, CachedContentStore(store))
        self.index = index
        self.histories: dict[str, FileHistory] = {}
        self.contents_by_path: dict[str, frozenset[str]] = {}
        self.observed: set[str] = set()
        self.contained: set[str] = set()
        """Records of changes by contained commands, whose texts do not tell what they wrote."""
        self.calls_by_path: dict[str, list[tuple[RecordedChange, float]]] = {}
        """By path: the calls that changed the file, with their times."""
        self.calls_by_content: dict[str, dict[str | None, list[tuple[RecordedChange, float]]]] = {}
        """By path and by resulting content: the same calls."""
        self.later_records: dict[tuple[FileVersion, str], frozenset[str]] = {}
        """By version and path: the records of calls that began after the version existed."""
        self.histories_without: dict[tuple[str, frozenset[str]], FileHistory] = {}
        self.past_contents = PastContents(self.git)
        self.last_resolved: tuple[FileVersion, ...] = ()

    @cached_property
    def has_records(self) -> bool:
        return self.recorded_since < NEVER_S

    @cached_property
    def recorded_since(self) -> float:
        first = self.index.find_first_change_time()
        return parse_seconds(first) if first else NEVER_S

    def may_hold_recorded_lines(self, version: FileVersion) -> bool:
        """Return whether a version is young enough to hold recorded lines. The test saves work and proves nothing."""
        return (
            not version.has_commit
            or version.time_s >= self.recorded_since - SLACK_S
            or version.commit in self.backdated_commits
        )

    @cached_property
    def backdated_commits(self) -> frozenset[str]:
        """Commits younger than the first record that claim to be much older."""
        return find_backdated_commits(self.git, self.backdated_query)

    @cached_property
    def backdated_query(self) -> tuple[str, ...] | None:
        """Arguments for the git query of backdated commits; None if none can exist."""
        if not self.has_records or self.workspace.common_dir is None:
            return None
        return backdated_query(self.index, self.recorded_since - SLACK_S)

    def prefetch_backdated(self) -> None:
        if self.backdated_query:
            self.git.start_early(*self.backdated_query)

    def is_found_by_comparison(self, attribution: Attribution) -> bool:
        return not attribution.proved or attribution.record in self.observed

    def certain_routes(self, version: FileVersion) -> tuple[Route, ...]:
        """Return the route to a version if the records tell the route for certain; else an empty tuple."""
        blob, history = self.version_blob(version), self.history_of(version.path)
        if blob is None or blob not in history.positions_by_content:
            return ()
        history_then = self.history_at_version(version) if self.may_have_later_call(version, blob) else history
        route = certain_route(blob, self.parent_blob(version), history_then)
        return (route,) if route else ()

    def recorded_origins(self, version: FileVersion, numbers: Iterable[int]) -> dict[int, int]:
        """Return for lines that git calls new the line number in the version before, if records show they existed."""
        routes = self.certain_routes(version)
        return origins_in_parent(routes[0], self.parent_blob(version), numbers) if routes else {}

    def may_have_later_call(self, version: FileVersion, blob: str) -> bool:
        """Return whether a call that left the file with this content may have begun after a commit held the content.

        If the content had existed before and came back, any call counts. Commit times are whole seconds; within the
        same second the order of sightings decides.
        """
        history = self.history_of(version.path)
        came_back = history.existed_before_records(blob)
        calls = self.calls_by_path[version.path] if came_back else self.calls_by_content[version.path].get(blob, ())
        is_late = (
            call_time_s >= version.time_s + (not history.follows_sighting(blob, c.id)) for c, call_time_s in calls
        )
        return version.has_commit and (version.time_s > time.time() or any(is_late))

    def only_adds_one_block(self, version: FileVersion) -> bool:
        """Return whether a record shows that the version adds exactly one block to its parent."""
        steps = [step for route in self.certain_routes(version) for step in route]
        hunks = steps[0].hunks if len(steps) == 1 and steps[0].before == self.parent_blob(version) else None
        return hunks is not None and len(hunks) == 1 and not hunks[0].old_lines

    def possible_routes(
        self, version: FileVersion, earlier_contents: frozenset[str] = frozenset()
    ) -> tuple[Route, ...]:
        blob = self.version_blob(version)
        return (
            possible_routes(blob, self.parent_blob(version), self.history_at_version(version), earlier_contents)
            if blob
            else ()
        )

    def history_at_version(self, version: FileVersion, path: str | None = None) -> FileHistory:
        """Return the history of the file, or of `path`, without calls that began after the version existed."""
        file_path = version.path if path is None else path
        whole = self.history_of(file_path)
        if (version, file_path) not in self.later_records:
            self.find_later_calls(
                [(other, file_path) for other in self.last_resolved if other.path == file_path]
                or [(version, file_path)]
            )
        later = self.later_records.get((version, file_path), frozenset())
        if not later:
            return whole
        if (file_path, later) not in self.histories_without:
            self.histories_without[file_path, later] = FileHistory([r for r in whole.recorded if r.record not in later])
        return self.histories_without[file_path, later]

    def find_later_calls(self, versions: Sequence[tuple[FileVersion, str]]) -> None:
        """Learn which calls began after each version existed, with one git process for all."""
        self.later_records |= dict.fromkeys(versions, frozenset[str]())
        later = {
            (version, path): calls for version, path in versions if (calls := self.calls_after_version(version, path))
        }
        if not later:
            return
        records = calls_begun_after_commit(
            self.git, self.index, {(version.commit, path): c for (version, path), c in later.items()}
        )
        self.later_records |= {
            (version, path): records.get((version.commit, path), frozenset()) for version, path in later
        }

    def calls_after_version(self, version: FileVersion, path: str) -> list[RecordedChange]:
        """Return the calls that are not older than the version by its commit date.

        A call that only inserted lines into a seen version is left out: git may have taken its copy of a block for the
        original.
        """
        if not version.has_commit or self.workspace.common_dir is None:
            return []
        has_future_date = version.time_s > time.time()
        later_calls = [
            call for call, call_time_s in self.calls_by_path[path] if has_future_date or call_time_s >= version.time_s
        ]
        blob, history = self.version_blob(version), self.history_of(path)
        if blob is None:
            return later_calls
        return [
            call
            for call in later_calls
            if not (only_inserts_lines(call) and call.after_blob != blob and history.follows_sighting(blob, call.id))
        ]

    def commit_at_change(self, change: RecordedChange) -> str | None:
        """Return the commit that was checked out when the change was made. The change did not write lines of that
        commit.
        """
        documents = self.index.find_by_id_prefix(change.id)
        return documents[0].get("vcs", {}).get("revision") if documents else None

    def history_of(self, path: str) -> FileHistory:
        if path not in self.histories:
            changes = self.index.list_changes(quote_path(path))
            self.observed |= {change.id for change in changes if change.is_found_by_comparison}
            self.contained |= {change.id for change in changes if change.is_contained}
            self.calls_by_path[path] = [
                (c, parse_seconds(c.at)) for c in changes if not c.is_found_by_comparison and c.session_id
            ]
            self.calls_by_content[path] = {}
            for call in self.calls_by_path[path]:
                self.calls_by_content[path].setdefault(call[0].after_blob, []).append(call)
            self.histories[path] = FileHistory([])  # a file that was moved here may have been moved from here
            self.histories[path] = FileHistory(self.history_entries(changes))
        return self.histories[path]

    def history_entries(self, changes: Sequence[RecordedChange]) -> list[HistoryEntry]:
        """Return the changes of a file as history entries.

        A rename, or a command that copies lines of other files, writes no line: a continued file inherits the history
        of its source.
        """
        copying = [change for change in changes if may_copy_lines(change)]
        if not copying:
            return list(map(as_history_entry, changes))

        copy_sources, entries = (
            find_copy_sources(self, self.index, copying, self.previous_content),
            list[HistoryEntry](),
        )
        for change in changes:
            sources = copy_sources.get(change.id, CopySources())
            if sources.origin is None:
                unproved = merge_spans((*change.unproved_lines, *sources.spans))
                entries.append(
                    as_history_entry(
                        replace(
                            change,
                            unproved_lines=unproved,
                            likely_lines=subtract_spans(change.likely_lines, sources.spans),
                        )
                    )
                )
            else:
                entries += [r for r in self.history_of(sources.origin).recorded if r.seq < change.seq]
                entries.append(replace(as_history_entry(change), by_git=True))
        return entries

    def previous_content(self, path: str, seq: int) -> str | None:
        return next((c.after_blob for c in reversed(self.index.list_changes(path)) if c.seq < seq), None)

    def recorded_contents(self, path: str) -> frozenset[str]:
        if path not in self.contents_by_path:
            self.contents_by_path[path] = frozenset(
                found.after for found in self.history_of(path).recorded if found.after
            )
        return self.contents_by_path[path]

    def resolve_versions(self, versions: Sequence[FileVersion]) -> None:
        """Find the blobs of versions and of their parents, with one git process, and a second one for old recorded
        versions. Other old parents are not needed.
        """
        self.last_resolved = tuple(versions)
        for version in versions:
            if not version.has_commit:
                self.blobs_by_name[version.name] = self.load_working_file(version.path)
        names = [p.name for p in versions if p.has_commit]
        self.resolve_names([*names, *(p.parent for p in versions if p.parent and self.may_hold_recorded_lines(p))])
        self.resolve_names(
            p.parent for p in versions if p.parent and self.version_blob(p) in self.recorded_contents(p.path)
        )

    def contents_before(self, versions: Sequence[FileVersion]) -> Mapping[FileVersion, frozenset[str]]:
        """Return the contents that each file had before each version: lines missing from a version were removed
        since.
        """
        return {} if self.workspace.common_dir is None else self.past_contents.contents_before(versions)

    def load_routes(self, routes: Iterable[Sequence[HistoryStep]]) -> None:
        self.load_hunks({pair for route in routes for pair in needed_pairs(route)})


def only_inserts_lines(change: RecordedChange) -> bool:
    return change.has_tool_positions and not any(hunk.old_lines for hunk in change.hunks or ())


def may_copy_lines(change: RecordedChange) -> bool:
    """Return whether a call may have copied lines of other files: a command that prints or moves files, or a call
    that removed one.
    """
    if not change.session_id or not change.after_blob:
        return False
    carries = change.command is not None and COPYING_COMMANDS.search(change.command)
    return bool(carries) or (change.has_deletions and not change.before_blob)


def parse_seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


def as_history_entry(change: RecordedChange) -> HistoryEntry:
    return HistoryEntry(
        change.seq,
        change.id,
        change.before_blob,
        change.after_blob,
        before_lines=change.before_lines,
        hunks=change.hunks,
        positions_known=change.has_tool_positions,
        by_git=change.came_from_git,
        observed=change.is_found_by_comparison,
        unproved=change.unproved_lines,
        trusted=change.origin == "verification",
        likely=change.likely_lines,
    )


def find_copy_sources(
    versions: VersionContents, index: Index, changes: Sequence[RecordedChange], find_previous_blob: FindPreviousBlob
) -> dict[str, CopySources]:
    """Return by record the sources of each change among files that the command names or removed."""
    names_by_change = {change.id: possible_file_names(change) for change in changes}
    named = [(change, name) for change in changes for name in names_by_change[change.id]]
    object_names = {
        object_name for change, name in named for object_name in git_object_names(change, name, versions.prefix)
    }
    blobs = {object_name: blob for object_name, blob in versions.look_up_blobs(sorted(object_names)).items() if blob}
    return {
        change.id: find_sources_of_change(
            versions, index, change, names_by_change[change.id], blobs, find_previous_blob
        )
        for change in changes
    }


def find_sources_of_change(
    versions: VersionContents,
    index: Index,
    change: RecordedChange,
    names: Iterable[str],
    blobs: Mapping[str, str],
    find_previous_blob: FindPreviousBlob,
) -> CopySources:
    """Return the sources of one change. A file that existed before stays itself, whatever is copied over it."""
    earlier = [
        c for c in index.list_changes_to_content(change.after_sha or "") if c.seq < change.seq and c.path != change.path
    ]
    origin = next((c.path for c in earlier), None) if change.command else None
    if origin and not change.before_blob:
        return CopySources(origin)
    if origin and all(c.session_id == change.session_id and not c.before_blob for c in earlier):
        return CopySources()
    files = files_of_record(index, change) if change.has_deletions or not change.before_blob else []
    created = {str(file["path"]) for file in files if not file.get("before")} | {change.path}
    blobs_by_name = {
        name: [
            blobs[object_name]
            for object_name in git_object_names(change, name, versions.prefix)
            if object_name in blobs
        ]
        for name in names
    }
    candidates = {
        name: find_previous_blob(quote_path(name), change.seq) or next(iter(blobs_by_name[name]), None)
        for name in names
    }
    sources = {name: blob for name, blob in candidates.items() if blob and name not in created} | removed_files(files)
    if not change.command:
        versions.load_contents({*sources.values(), change.after_blob or ""} - {""})  # one git for all
        sources = {path: blob for path, blob in sources.items() if continues_as(versions, blob, change.after_blob)}
    whole = next((path for path, blob in sources.items() if blob == change.after_blob), None)
    if whole and not change.before_blob:
        return CopySources(whole)
    return CopySources(spans=spans_copied(versions, change, set(sources.values()))) if sources else CopySources()


def continues_as(versions: VersionContents, before: str, after: str | None) -> bool:
    """Return whether half of the distinctive lines of a file are in the new one: a patch moved the file. A file tool
    that was told the text of several files wrote them.
    """
    old_lines, new_lines = (
        list(filter(is_distinctive_line, versions.lines_of(before) or ())),
        set(versions.lines_of(after) or ()),
    )
    return 2 * sum(line in new_lines for line in old_lines) >= len(old_lines)


def possible_file_names(change: RecordedChange) -> list[str]:
    words = BETWEEN_WORDS.split((change.command or "")[:MAX_COMMAND_CHARS])
    return sorted({word.removeprefix("./") for word in words} - {"", change.path})[:MAX_NAMES]


def git_object_names(change: RecordedChange, name: str, prefix: str) -> list[str]:
    """Return the git names of a file in the commit checked out at the time, then in HEAD, which may have gained the
    file since.
    """
    names = [name] if ":" in name else [f"{commit}:{prefix}{name}" for commit in (change.revision, "HEAD") if commit]
    return [name for name in names if GIT_VERSION.match(name)]


def removed_files(files: Iterable[dict[str, Any]]) -> dict[str, str]:
    removed = [file for file in files if file.get("after") is None and file.get("before")]
    return {str(f["path"]): str(f["before"]["git_blob"]) for f in removed if f["before"].get("git_blob")}


def files_of_record(index: Index, change: RecordedChange) -> list[dict[str, Any]]:
    """Return the file entries of a change's record with its other parts."""
    documents = index.find_by_id_prefix(change.id)
    if not documents:
        return []
    body: dict[str, Any] = documents[0]["metadata"][KEY]
    ids = list_part_ids(body.get("part"), MAX_PARTS) or [change.id]
    return [
        file
        for part_id in ids
        for document in index.find_by_id_prefix(part_id)
        for file in document["metadata"][KEY].get("files", [])
    ]


def spans_copied(versions: VersionContents, change: RecordedChange, sources: set[str]) -> tuple[Span, ...]:
    """Return the lines of the new file that stand in those contents and not in the command: equal blocks and
    distinctive lines.
    """
    versions.load_contents({*sources, change.after_blob or ""} - {""})
    command = (change.command or "").encode("utf-8", "surrogateescape")
    new = versions.lines_of(change.after_blob) or ()
    numbers: set[int] = set()
    for lines in (versions.lines_of(blob) or () for blob in sources):
        distinctive = {line for line in lines if is_distinctive_line(line)}
        numbers |= {n for n, line in enumerate(new, 1) if line in distinctive}
        if len(lines) <= MAX_COMPARED_LINES and len(new) <= MAX_COMPARED_LINES:
            numbers |= {start + n for _, start, size in find_equal_blocks(lines, new) for n in range(1, size + 1)}
    return make_spans(n for n in numbers if not new[n - 1].strip() or new[n - 1].strip() not in command)
