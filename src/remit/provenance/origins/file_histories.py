"""What was recorded of paths, and how versions may have come about, in one workspace.

What a call put into a new file that stood in another one: `mv`, `cp`, `cat a b > c`, a patch that moves a file.

Whose lines those are, the other file tells; the call that carried them wrote none of them.
"""

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
from remit.provenance.origins.earlier_commits import PastContents
from remit.provenance.origins.evidence import Attribution
from remit.provenance.origins.recorded_steps import (
    FileHistory,
    HistoryEntry,
    HistoryStep,
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
"""Clocks differ, and a commit may be told to have any date."""

COPYING_COMMANDS = re.compile(r">|\b(?:cp|mv|install|rsync|ln|dd|git|tee)\b")
"""Commands that put one file's content into another."""


class FileHistories(VersionContents):
    """What the records of one workspace tell of its files. However many versions are asked about, git is started a
    fixed number of times.
    """

    def __init__(self, workspace: Workspace, index: Index, store: ContentStore) -> None:
        super().__init__(workspace, CachedContentStore(store))
        self.index = index
        self.histories: dict[str, FileHistory] = {}
        self.contents_by_path: dict[str, frozenset[str]] = {}
        self.observed: set[str] = set()
        self.contained: set[str] = set()
        """The records of what contained commands left: their texts do not tell what they wrote."""
        self.calls_by_path: dict[str, list[tuple[RecordedChange, float]]] = {}
        """By path, the calls that changed it, and when."""
        self.calls_by_content: dict[str, dict[str | None, list[tuple[RecordedChange, float]]]] = {}
        """The same by path and by the content that they left."""
        self.later_records: dict[tuple[FileVersion, str], frozenset[str]] = {}
        """By version and path, the records of calls on it that began when the version was there."""
        self.histories_without: dict[tuple[str, frozenset[str]], FileHistory] = {}
        self.past_contents = PastContents(self.git)
        self.last_resolved: tuple[FileVersion, ...] = ()

    @cached_property
    def has_records(self) -> bool:
        """Whether any change was ever recorded."""
        return self.recorded_since < NEVER_S

    @cached_property
    def recorded_since(self) -> float:
        """When the first change was recorded, in seconds; NEVER where none was."""
        first = self.index.find_first_change_time()
        return parse_seconds(first) if first else NEVER_S

    def may_hold_recorded_lines(self, version: FileVersion) -> bool:
        """Whether a version is young enough to hold recorded lines. This spares looking, and proves nothing."""
        return (
            not version.has_commit
            or version.time_s >= self.recorded_since - SLACK_S
            or version.commit in self.backdated_commits
        )

    @cached_property
    def backdated_commits(self) -> frozenset[str]:
        """The commits that are younger than the first record, and say they are much older."""
        from remit.provenance.origins.earlier_commits import (
            find_backdated_commits,  # for start-up speed: loaded while git works
        )

        return find_backdated_commits(self.git, self.backdated_query)

    @cached_property
    def backdated_query(self) -> tuple[str, ...] | None:
        """How git is asked for them; None where there can be none."""
        if not self.has_records or self.workspace.common_dir is None:
            return None
        from remit.provenance.origins.earlier_commits import backdated_query  # loaded while git works, too

        return backdated_query(self.index, self.recorded_since - SLACK_S)

    def prefetch_backdated(self) -> None:
        """Have git look already for what is asked of old lines."""
        if self.backdated_query:
            self.git.start_early(*self.backdated_query)

    def is_found_by_comparison(self, attribution: Attribution) -> bool:
        """Whether what put a line there was found by comparing, and no call told of it."""
        return not attribution.proved or attribution.record in self.observed

    def certain_routes(self, version: FileVersion) -> tuple[tuple[HistoryStep, ...], ...]:
        """The one way in which that version came about, where records tell it for certain."""
        blob, history = self.version_blob(version), self.history_of(version.path)
        if blob is None or blob not in history.positions_by_content:
            return ()
        then = self.history_at_version(version) if self.may_have_later_call(version, blob) else history
        route = certain_route(blob, self.parent_blob(version), then)
        return (route,) if route else ()

    def recorded_origins(self, version: FileVersion, numbers: Iterable[int]) -> dict[int, int]:
        """For those lines, which git says came with that version, that were in the version before by records: their
        numbers there.
        """
        routes = self.certain_routes(version)
        return origins_in_parent(routes[0], self.parent_blob(version), numbers) if routes else {}

    def may_have_later_call(self, version: FileVersion, blob: str) -> bool:
        """Whether a call that left the file with that content may have begun when a commit had it; any call, where the
        content was there before and was brought back, as by going to a branch and back. Commits tell whole seconds: in
        the same one, it matters where the content had been seen before.
        """
        history = self.history_of(version.path)
        back = history.existed_before_records(blob)
        calls = self.calls_by_path[version.path] if back else self.calls_by_content[version.path].get(blob, ())
        late = (at >= version.time_s + (not history.follows_sighting(blob, c.id)) for c, at in calls)
        return version.has_commit and (version.time_s > time.time() or any(late))

    def only_adds_one_block(self, version: FileVersion) -> bool:
        """Whether a record tells that the version has one block more than the one before, and nothing else changed."""
        steps = [step for way in self.certain_routes(version) for step in way]
        hunks = steps[0].hunks if len(steps) == 1 and steps[0].before == self.parent_blob(version) else None
        return hunks is not None and len(hunks) == 1 and not hunks[0].old_lines

    def possible_routes(
        self, version: FileVersion, earlier_contents: frozenset[str] = frozenset()
    ) -> tuple[tuple[HistoryStep, ...], ...]:
        """How that version may have come about."""
        blob = self.version_blob(version)
        return (
            possible_routes(blob, self.parent_blob(version), self.history_at_version(version), earlier_contents)
            if blob
            else ()
        )

    def history_at_version(self, version: FileVersion, path: str | None = None) -> FileHistory:
        """What was recorded of the file, or of the one at `path`, less the calls that began when that version was
        there.
        """
        known = version.path if path is None else path
        whole = self.history_of(known)
        if (version, known) not in self.later_records:
            self.find_later_calls(
                [(one, known) for one in self.last_resolved if one.path == known] or [(version, known)]
            )
        left = self.later_records.get((version, known), frozenset())
        if not left:
            return whole
        if (known, left) not in self.histories_without:
            self.histories_without[known, left] = FileHistory([r for r in whole.recorded if r.record not in left])
        return self.histories_without[known, left]

    def find_later_calls(self, versions: Sequence[tuple[FileVersion, str]]) -> None:
        """Learn which calls on those paths began when those versions were there: one git for all."""
        self.later_records |= dict.fromkeys(versions, frozenset[str]())
        later = {(place, path): calls for place, path in versions if (calls := self.calls_after_version(place, path))}
        if not later:
            return
        from remit.provenance.origins.earlier_commits import (
            calls_begun_after_commit,  # for start-up speed: few are older than calls
        )

        known = calls_begun_after_commit(
            self.git, self.index, {(place.commit, path): c for (place, path), c in later.items()}
        )
        self.later_records |= {(place, path): known.get((place.commit, path), frozenset()) for place, path in later}

    def calls_after_version(self, version: FileVersion, path: str) -> list[RecordedChange]:
        """The calls that changed a file and that are not older than the version, going by what the commit says.

        Less those that told where they put lines into that very version, and took none out: git may have taken their
        copy of a block for the block itself.
        """
        if not version.has_commit or self.workspace.common_dir is None:
            return []
        lies = version.time_s > time.time()
        late = [call for call, at in self.calls_by_path[path] if lies or at >= version.time_s]
        blob, history = self.version_blob(version), self.history_of(path)
        if blob is None:
            return late
        return [
            call
            for call in late
            if not (only_inserts_lines(call) and call.after_blob != blob and history.follows_sighting(blob, call.id))
        ]

    def commit_at_change(self, change: RecordedChange) -> str | None:
        """The commit that was checked out when the change was made: what it held already, the change did not bring."""
        documents = self.index.find_by_id_prefix(change.id)
        return documents[0].get("vcs", {}).get("revision") if documents else None

    def history_of(self, path: str) -> FileHistory:
        """All that was recorded of a path."""
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
        """The changes of a file as they count. Who gives a file another name, or puts others' lines into one by a
        command, wrote none of them: what was another file goes on with what was recorded of that.
        """
        asked = [change for change in changes if may_copy_lines(change)]
        if not asked:
            return list(map(as_history_entry, changes))

        known, found = find_copy_sources(self, self.index, asked, self.previous_content), list[HistoryEntry]()
        for change in changes:
            by = known.get(change.id, CopySources())
            if by.origin is None:
                open_ = merge_spans((*change.unproved_lines, *by.spans))
                found.append(
                    as_history_entry(
                        replace(
                            change, unproved_lines=open_, likely_lines=subtract_spans(change.likely_lines, by.spans)
                        )
                    )
                )
            else:
                found += [r for r in self.history_of(by.origin).recorded if r.seq < change.seq]
                found.append(replace(as_history_entry(change), by_git=True))
        return found

    def previous_content(self, path: str, seq: int) -> str | None:
        """The content that the last change before that record left a file with, where one was recorded."""
        return next((c.after_blob for c in reversed(self.index.list_changes(path)) if c.seq < seq), None)

    def recorded_contents(self, path: str) -> frozenset[str]:
        """The contents that recorded changes left that path with."""
        if path not in self.contents_by_path:
            self.contents_by_path[path] = frozenset(
                found.after for found in self.history_of(path).recorded if found.after
            )
        return self.contents_by_path[path]

    def resolve_versions(self, versions: Sequence[FileVersion]) -> None:
        """Find the contents of versions and of the versions before them: one git for all, and one more for old
        versions that records know. What was before the others that are old says nothing.
        """
        self.last_resolved = tuple(versions)
        for place in versions:
            if not place.has_commit:
                self.blobs_by_name[place.name] = self.load_working_file(place.path)
        own = [p.name for p in versions if p.has_commit]
        self.resolve_names([*own, *(p.parent for p in versions if p.parent and self.may_hold_recorded_lines(p))])
        self.resolve_names(
            p.parent for p in versions if p.parent and self.version_blob(p) in self.recorded_contents(p.path)
        )

    def contents_before(self, versions: Sequence[FileVersion]) -> Mapping[FileVersion, frozenset[str]]:
        """The contents that those files had before those versions: what a version has no more was taken out of it."""
        return {} if self.workspace.common_dir is None else self.past_contents.contents_before(versions)

    def load_routes(self, routes: Iterable[Sequence[HistoryStep]]) -> None:
        """Have the contents and differences at hand that walking those ways asks for."""
        self.load_hunks({pair for way in routes for pair in needed_pairs(way)})


def only_inserts_lines(change: RecordedChange) -> bool:
    """Whether a call told where it put lines, and took none out."""
    return change.has_tool_positions and not any(hunk.old_lines for hunk in change.hunks or ())


def may_copy_lines(change: RecordedChange) -> bool:
    """Whether a call may have put lines of other files there: a command that prints or moves files, or any that took
    one away.
    """
    if not change.session_id or not change.after_blob:
        return False
    carries = change.command is not None and COPYING_COMMANDS.search(change.command)
    return bool(carries) or (change.has_deletions and not change.before_blob)


def parse_seconds(at: str) -> float:
    """Seconds since the epoch of a record's time."""
    return datetime.fromisoformat(at).timestamp()


def as_history_entry(change: RecordedChange) -> HistoryEntry:
    """One change, for `labels`."""
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


BETWEEN_WORDS = re.compile(r"[\s'\"`;|&<>()$={}]+")
GIT_VERSION = re.compile(r"[\w./-]+(?:[~^]\d*)*:(?!\.{1,2}(?:/|$))")
"""`<commit>:<path>` from the root, as far as git only looks it up: at a relative path that leads out, an upstream or a
reflog's entry that is not there, it gives up whatever else it is asked. Source: gitrevisions(7), read 2026-11.
"""

MAX_COMMAND_CHARS = 8192
"""Characters of a command in which names of files are looked for."""

MAX_NAMES = 400

MAX_PARTS = 200
"""Parts of one record that are read for the files that its call took away."""

MAX_COMPARED_LINES = 5_000
"""Lines of a file that are compared in order."""

FindPreviousBlob = Callable[[str, int], str | None]
"""The content, by git's name, that the last recorded change of a path before a record left it with."""


class CopySources(Struct, frozen=True):
    """`origin` is the path of the file that the new one was; `spans` are the lines that stood in others."""

    origin: str | None = None
    spans: tuple[Span, ...] = ()


def find_copy_sources(
    versions: VersionContents, index: Index, changes: Sequence[RecordedChange], left_before: FindPreviousBlob
) -> dict[str, CopySources]:
    """By record, what these changes of one file have from files that their commands name, or took away."""
    words = {change.id: possible_file_names(change) for change in changes}
    named = [(change, name) for change in changes for name in words[change.id]]
    asked = {place for change, name in named for place in git_object_names(change, name, versions.prefix)}
    held = {place: blob for place, blob in versions.look_up_blobs(sorted(asked)).items() if blob}
    return {
        change.id: find_sources_of_change(versions, index, change, words[change.id], held, left_before)
        for change in changes
    }


def find_sources_of_change(
    versions: VersionContents,
    index: Index,
    change: RecordedChange,
    words: Iterable[str],
    held: Mapping[str, str],
    left_before: FindPreviousBlob,
) -> CopySources:
    """What one change has from others. A file that was there before stays itself, whatever is copied over it."""
    earlier = [
        c for c in index.list_changes_to_content(change.after_sha or "") if c.seq < change.seq and c.path != change.path
    ]
    origin = next((c.path for c in earlier), None) if change.command else None
    if origin and not change.before_blob:
        return CopySources(origin)
    if origin and all(c.session_id == change.session_id and not c.before_blob for c in earlier):
        return CopySources()
    files = files_of_record(index, change) if change.has_deletions or not change.before_blob else []
    made = {str(file["path"]) for file in files if not file.get("before")} | {change.path}
    known = {
        name: [held[place] for place in git_object_names(change, name, versions.prefix) if place in held]
        for name in words
    }
    found = {name: left_before(quote_path(name), change.seq) or next(iter(known[name]), None) for name in words}
    sources = {name: blob for name, blob in found.items() if blob and name not in made} | removed_files(files)
    if not change.command:
        versions.load_contents({*sources.values(), change.after_blob or ""} - {""})  # one git for all
        sources = {path: blob for path, blob in sources.items() if continues_as(versions, blob, change.after_blob)}
    whole = next((path for path, blob in sources.items() if blob == change.after_blob), None)
    if whole and not change.before_blob:
        return CopySources(whole)
    return CopySources(spans=spans_copied(versions, change, set(sources.values()))) if sources else CopySources()


def continues_as(versions: VersionContents, before: str, after: str | None) -> bool:
    """Whether a file goes on as another, as a patch says that moves it: half of what it said is there. Who tells a file
    tool what to put into several, wrote that. Both contents are at hand.
    """
    old, new = list(filter(is_distinctive_line, versions.lines_of(before) or ())), set(versions.lines_of(after) or ())
    return 2 * sum(line in new for line in old) >= len(old)


def possible_file_names(change: RecordedChange) -> list[str]:
    """The words of a command that may be files, or versions of files."""
    words = BETWEEN_WORDS.split((change.command or "")[:MAX_COMMAND_CHARS])
    return sorted({word.removeprefix("./") for word in words} - {"", change.path})[:MAX_NAMES]


def git_object_names(change: RecordedChange, name: str, prefix: str) -> list[str]:
    """Where git may know that file: in the commit that was checked out, else in HEAD, where it came to be meanwhile."""
    asked = [name] if ":" in name else [f"{at}:{prefix}{name}" for at in (change.revision, "HEAD") if at]
    return [version for version in asked if GIT_VERSION.match(version)]


def removed_files(files: Iterable[dict[str, Any]]) -> dict[str, str]:
    """The files that the same call took away, and what they held."""
    gone = [file for file in files if file.get("after") is None and file.get("before")]
    return {str(f["path"]): str(f["before"]["git_blob"]) for f in gone if f["before"].get("git_blob")}


def files_of_record(index: Index, change: RecordedChange) -> list[dict[str, Any]]:
    """What the record of a change says of files, with all its other parts."""
    documents = index.find_by_id_prefix(change.id)
    if not documents:
        return []
    body: dict[str, Any] = documents[0]["metadata"][KEY]
    ids = list_part_ids(body.get("part"), MAX_PARTS) or [change.id]
    return [
        file
        for one in ids
        for document in index.find_by_id_prefix(one)
        for file in document["metadata"][KEY].get("files", [])
    ]


def spans_copied(versions: VersionContents, change: RecordedChange, sources: set[str]) -> tuple[Span, ...]:
    """The lines of the new file that stand in those contents and not in the command: where both go on alike, and those
    that nobody else would have written.
    """
    versions.load_contents({*sources, change.after_blob or ""} - {""})
    said = (change.command or "").encode("utf-8", "surrogateescape")
    new = versions.lines_of(change.after_blob) or ()
    found: set[int] = set()
    for lines in (versions.lines_of(blob) or () for blob in sources):
        there = {line for line in lines if is_distinctive_line(line)}
        found |= {n for n, line in enumerate(new, 1) if line in there}
        if len(lines) <= MAX_COMPARED_LINES and len(new) <= MAX_COMPARED_LINES:
            found |= {to + n for _, to, size in find_equal_blocks(lines, new) for n in range(1, size + 1)}
    return make_spans(n for n in found if not new[n - 1].strip() or new[n - 1].strip() not in said)
