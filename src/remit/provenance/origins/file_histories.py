"""Recorded history of each path in a workspace, with the contents of file versions and their differences.

Contents and differences are fetched in a few batches. Lines copied or moved by a call from elsewhere are found too: a
copy is not authorship.
"""

import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from remit.core.diff.contents import (
    Hunk,
    Span,
    diff_small,
    expand_spans,
    find_distinctive_words,
    hash_git_blob,
    is_distinctive_line,
    make_spans,
    merge_spans,
    split_lines,
    subtract_spans,
    trace_hunks,
)
from remit.core.diff.layout import find_layout_origins
from remit.core.record import KEY, list_part_ids
from remit.core.untrusted_input import quote_path
from remit.ledger.file_changes import RecordedChange
from remit.ledger.index.index import Index
from remit.provenance.origins.blame_porcelain import FileVersion, TreePrefix, path_from_workspace
from remit.provenance.origins.carried_attributions import ContentPairs
from remit.provenance.origins.commits_before_call import (
    CallCommits,
    find_earlier_contents,
)
from remit.provenance.origins.evidence_grades import Attribution
from remit.provenance.origins.line_matches import find_equal_blocks
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
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.git.command import Git
from remit.workspace.git.repository import parse_batch_output, prefix_in_repository
from remit.workspace.place.workspace import Workspace

NEVER_S = float("inf")
SLACK_S = 86400.0  # tolerance for clocks that differ and for chosen commit dates

COPYING_COMMANDS = re.compile(r">|\b(?:cp|mv|install|rsync|ln|dd|git|tee)\b")
"""Commands that put the content of one file into another."""

BETWEEN_WORDS = re.compile(r"[\s'\"`;|&<>()$={}]+")
GIT_VERSION = re.compile(r"[\w./-]+(?:[~^]\d*)*:(?!\.{1,2}(?:/|$))")
"""`<commit>:<path>` from the root, if git can look the name up without a fatal error: a relative path that leads out of
the tree, an unknown upstream or reflog entry ends git. Source: gitrevisions(7), read 2026-11.
"""

COMMITTED_FILE = re.compile(r"[0-9a-f]{40,64}:")

MAX_COMMAND_CHARS = 8192  # characters of a command that are searched for file names
MAX_NAMES = 400
MAX_PARTS = 200  # parts of one record that are read for files the call removed
MAX_COMPARED_LINES = 5_000  # lines of a file that are compared in order
ContentPair = tuple[str | None, str]


class FileHistories:
    """Contents and recorded histories of the files of a workspace. git starts a fixed number of times for any number of
    versions. `nested` is the folder of a repository in the workspace, for example a submodule, if git runs there.
    """

    def __init__(self, workspace: Workspace, index: Index, store: ContentStore, nested: str = "") -> None:
        self.workspace, self.index, self.store, self.nested = workspace, index, store, nested
        self.git = Git(workspace.root / nested)
        self.call_commits = CallCommits(self.git, index)
        self.contents_by_blob: dict[str, bytes] = {}
        """Contents of the work tree may be in no object store yet."""
        self.working_content: bytes | None = None
        """Content that stands in for any file in the work tree."""
        self.blobs_by_name: dict[str, str | None] = {}
        """By names such as `<commit>:<path>`."""
        self.hunks_by_pair: dict[ContentPair, tuple[Hunk, ...]] = {}
        self.lines_by_blob: dict[str, list[bytes]] = {}
        self.words_by_blob: dict[str, set[str]] = {}
        self.histories: dict[str, FileHistory] = {}
        self.observed: set[str] = set()
        """Records of changes that were found by comparing."""
        self.contained: set[str] = set()
        """Records of changes by contained commands, whose texts do not tell what they wrote."""
        self.calls_by_path: dict[str, list[tuple[RecordedChange, float]]] = {}
        """By path: the calls that changed the file, with their times."""
        self.later_records: dict[tuple[FileVersion, str], frozenset[str]] = {}
        """By version and path: the records of calls that began after the version existed."""
        self.histories_without: dict[tuple[str, frozenset[str]], FileHistory] = {}
        self.contents_before_cache: dict[frozenset[str], Any] = {}
        self.last_resolved: tuple[FileVersion, ...] = ()

    # -- contents ------------------------------------------------------------------------------------------------

    def parent_blob(self, version: FileVersion) -> str | None:
        return self.blobs_by_name.get(version.parent) if version.parent else None

    def version_blob(self, version: FileVersion) -> str | None:
        return self.blobs_by_name.get(version.name)

    @cached_property
    def prefix(self) -> TreePrefix:
        is_own = self.workspace.common_dir and not self.nested
        return TreePrefix(prefix_in_repository(self.workspace) if is_own else "", self.nested)

    @property
    def has_git(self) -> bool:
        return self.workspace.common_dir is not None or bool(self.nested)

    def resolve_names(self, names: Iterable[str]) -> None:
        unknown = set(names) - self.blobs_by_name.keys()
        keys = {quote_path(name): name for name in unknown if COMMITTED_FILE.match(name)}
        kept = {keys[key]: blob for key, blob in self.index.find_named_blobs(keys).items()} if keys else {}
        found = self.look_up_blobs(sorted(name for name in unknown - kept.keys() if "\n" not in name))
        self.blobs_by_name |= {**kept, **found}
        self.index.store_named_blobs({key: blob for key, name in keys.items() if (blob := found.get(name))})

    def look_up_blobs(self, names: Sequence[str]) -> dict[str, str | None]:
        """Return the blobs of names such as `<commit>:<path>`. Source: git-cat-file(1), read 2026-11."""
        if not names or not self.has_git:
            return {}
        stdin = "".join(f"{name}\n" for name in names).encode("utf-8", "surrogateescape")
        output = self.git.run("cat-file", "--batch-check=%(objectname) %(objecttype)", stdin=stdin)
        rows = [line.rpartition(b" ") for line in output.splitlines()]
        return {n: row[0].decode() if row[2] == b"blob" else None for n, row in zip(names, rows, strict=True)}

    def load_working_file(self, path: str) -> str | None:
        """Return the blob of the file in the work tree; None if absent."""
        file, content = self.workspace.root / path, self.working_content
        if content is None:
            if not file.is_file():
                return None
            content = file.read_bytes()
        blob = hash_git_blob(content)
        self.contents_by_blob[blob] = content
        return blob

    def load_contents(self, blobs: Iterable[str | None]) -> None:
        wanted = {*filter(None, blobs)} - self.contents_by_blob.keys()
        self.contents_by_blob |= self.store.load_many(wanted)
        missing = sorted(wanted - self.contents_by_blob.keys()) if self.nested else []
        if missing:
            output = self.git.run("cat-file", "--batch", stdin="".join(f"{blob}\n" for blob in missing).encode())
            contents = zip(missing, parse_batch_output(output), strict=True)
            self.contents_by_blob |= {blob: content for blob, content in contents if content is not None}

    def load_named(self, names: Iterable[str]) -> None:
        """Load the contents of versions named `<commit>:<path>`; a commit of zeros is the work tree."""
        wanted = set(names)
        for name in wanted - self.blobs_by_name.keys():
            commit, _, path = name.partition(":")
            if not commit.strip("0"):
                self.blobs_by_name[name] = self.load_working_file(path_from_workspace(path, self.prefix))
        self.resolve_names(wanted)
        self.load_contents(self.blobs_by_name.get(name) for name in wanted)

    def load_hunks(self, pairs: Iterable[ContentPair]) -> None:
        """Load the differences of those pairs: small ones are computed here, git computes the rest at once."""
        missing = [pair for pair in pairs if pair not in self.hunks_by_pair]
        self.load_contents(name for pair in missing for name in pair)
        large: dict[str, tuple[bytes, bytes]] = {}
        for before, after in missing:
            old, new = self.contents_by_blob.get(before or "", b""), self.contents_by_blob.get(after)
            if new is None or (before and before not in self.contents_by_blob):
                continue
            if (hunks := diff_small(old, new)) is None:
                large[f"{before or ''}:{after}"] = (old, new)
            else:
                self.hunks_by_pair[before, after] = hunks
        for name, hunks in self.store.compute_hunks(large).items():
            before, _, after = name.partition(":")
            self.hunks_by_pair[before or None, after] = hunks

    def load_routes(self, routes: Iterable[Sequence[HistoryStep]]) -> None:
        self.load_hunks({pair for route in routes for pair in needed_pairs(route)})

    @cached_property
    def content_pairs(self) -> ContentPairs:
        return ContentPairs(self.lines_of, lambda before, after: self.hunks_by_pair.get((before, after)))

    def lines_of(self, blob: str | None) -> Sequence[bytes] | None:
        """Return the lines of a content; None if lost."""
        if blob is None:
            return ()
        if blob not in self.lines_by_blob and blob in self.contents_by_blob:
            self.lines_by_blob[blob] = split_lines(self.contents_by_blob[blob])
        return self.lines_by_blob.get(blob)

    def lines_of_name(self, name: str) -> Sequence[bytes]:
        return self.lines_of(self.blobs_by_name.get(name)) or ()

    def added_lines(self, version: FileVersion) -> list[bytes] | None:
        """Return the lines added by a version to the parent; None if unknown."""
        blob = self.version_blob(version)
        hunks = self.hunks_by_pair.get((self.parent_blob(version), blob)) if blob else None
        if hunks is None:
            return None
        new = self.lines_of(blob) or ()
        return [line for h in hunks for line in new[h.new - 1 : h.new - 1 + h.new_lines]]

    def distinctive_words(self, blob: str) -> set[str]:
        if blob not in self.words_by_blob:
            words = (word for line in self.lines_of(blob) or () for word in find_distinctive_words(line))
            self.words_by_blob[blob] = set(words)
        return self.words_by_blob[blob]

    # -- times ---------------------------------------------------------------------------------------------------

    @cached_property
    def has_records(self) -> bool:
        return self.recorded_since < NEVER_S

    @cached_property
    def recorded_since(self) -> float:
        first = self.index.find_first_change_time()
        return parse_seconds(first) if first else NEVER_S

    def may_hold_recorded_lines(self, version: FileVersion) -> bool:
        """Return whether a version is young enough to hold recorded lines. The test saves work and proves nothing."""
        is_young = not version.has_commit or version.time_s >= self.recorded_since - SLACK_S
        return is_young or self.is_backdated(version)

    def is_backdated(self, version: FileVersion) -> bool:
        is_old = version.has_commit and version.time_s < self.recorded_since - SLACK_S
        return is_old and version.commit in self.backdated_commits

    @cached_property
    def backdated_commits(self) -> frozenset[str]:
        if not self.has_records or not self.has_git:
            return frozenset()
        return self.call_commits.find_backdated(self.recorded_since - SLACK_S)

    def commit_at_change(self, change: RecordedChange) -> str | None:
        """Return the commit checked out when the change was made, of which the change wrote no line."""
        documents = self.index.find_by_id_prefix(change.id)
        return documents[0].get("vcs", {}).get("revision") if documents else None

    # -- histories -----------------------------------------------------------------------------------------------

    def is_found_by_comparison(self, attribution: Attribution) -> bool:
        return not attribution.proved or attribution.record in self.observed

    def history_of(self, path: str) -> FileHistory:
        if path not in self.histories:
            changes = self.index.list_changes(quote_path(path))
            self.observed |= {change.id for change in changes if change.is_found_by_comparison}
            self.contained |= {change.id for change in changes if change.is_contained}
            calls = (change for change in changes if not change.is_found_by_comparison and change.session_id)
            self.calls_by_path[path] = [(call, parse_seconds(call.at)) for call in calls]
            self.histories[path] = FileHistory([])  # a file that was moved here may have been moved from here
            self.histories[path] = FileHistory(self.history_entries(changes))
        return self.histories[path]

    def history_entries(self, changes: Sequence[RecordedChange]) -> list[HistoryEntry]:
        """Return the changes of a file as history entries. A rename, or a command copying lines between files, writes
        no line: a continued file inherits the source's history.
        """
        copy_sources = find_copy_sources(self, [change for change in changes if may_copy_lines(change)])
        entries: list[HistoryEntry] = []
        for change in changes:
            sources = copy_sources.get(change.id, CopySources())
            if sources.origin is not None:
                entries += [r for r in self.history_of(sources.origin).recorded if r.seq < change.seq]
            elif sources.spans:
                unproved = merge_spans((*change.unproved_lines, *sources.spans))
                likely = subtract_spans(change.likely_lines, sources.spans)
                change = replace(change, unproved_lines=unproved, likely_lines=likely)
            entries.append(as_history_entry(change, by_git=change.came_from_git or sources.origin is not None))
        return entries

    def history_at_version(self, version: FileVersion, path: str | None = None) -> FileHistory:
        """Return the history of the file, or of `path`, without calls that began after the version existed."""
        file_path = version.path if path is None else path
        whole = self.history_of(file_path)
        if (version, file_path) not in self.later_records:
            others = ((other, other.path) for other in self.last_resolved)
            self.find_later_calls({(version, file_path), *others} - self.later_records.keys())
        later = self.later_records.get((version, file_path), frozenset())
        if not later:
            return whole
        if (file_path, later) not in self.histories_without:
            self.histories_without[file_path, later] = FileHistory([r for r in whole.recorded if r.record not in later])
        return self.histories_without[file_path, later]

    def find_later_calls(self, places: Collection[tuple[FileVersion, str]]) -> None:
        later = {place: calls for place in places if (calls := self.calls_after_version(*place))}
        by_commit = {(version.commit, path): calls for (version, path), calls in later.items()}
        records = {place: frozenset(call.id for call in calls) for place, calls in by_commit.items()}
        # The records tell HEAD of the workspace's own repository only: in another one, a commit's date decides.
        if later and not self.nested:
            records = self.call_commits.find_calls_begun_after(by_commit)
        for version, path in places:
            found = records.get((version.commit, path)) if (version, path) in later else None
            self.later_records[version, path] = found or frozenset()

    def calls_after_version(self, version: FileVersion, path: str) -> list[RecordedChange]:
        if not version.has_commit or not self.has_git:
            return []
        blob, history, has_future_date = self.version_blob(version), self.history_of(path), version.time_s > time.time()

        def copies_lines(call: RecordedChange) -> bool:
            only_inserts = call.has_tool_positions and not any(hunk.old_lines for hunk in call.hunks or ())
            return only_inserts and call.after_blob != blob and history.follows_sighting(blob or "", call.id)

        calls = [call for call, at_s in self.calls_by_path[path] if has_future_date or at_s >= version.time_s]
        return [call for call in calls if blob is None or not copies_lines(call)]

    def may_have_later_call(self, version: FileVersion, blob: str) -> bool:
        """Return whether a call that left the file with this content may have begun after a commit held the content. If
        the content had existed before and came back, any call counts. Commit times are whole seconds; within the same
        second the order of sightings decides.
        """
        history = self.history_of(version.path)
        came_back = history.existed_before_records(blob)
        calls = (pair for pair in self.calls_by_path[version.path] if came_back or pair[0].after_blob == blob)
        is_late = (at_s >= version.time_s + (not history.follows_sighting(blob, call.id)) for call, at_s in calls)
        return version.has_commit and (version.time_s > time.time() or any(is_late))

    # -- routes --------------------------------------------------------------------------------------------------

    def certain_routes(self, version: FileVersion) -> tuple[Route, ...]:
        """Return the route to a version if the records tell the route for certain; else an empty tuple."""
        blob, history = self.version_blob(version), self.history_of(version.path)
        if blob is None or blob not in history.positions_by_content:
            return ()
        history_then = self.history_at_version(version) if self.may_have_later_call(version, blob) else history
        route = certain_route(blob, self.parent_blob(version), history_then)
        return (route,) if route else ()

    def possible_routes(
        self, version: FileVersion, earlier_contents: frozenset[str] = frozenset()
    ) -> tuple[Route, ...]:
        blob = self.version_blob(version)
        if not blob:
            return ()
        return possible_routes(blob, self.parent_blob(version), self.history_at_version(version), earlier_contents)

    def recorded_origins(self, version: FileVersion, numbers: Iterable[int]) -> dict[int, int]:
        """Return for lines that git calls new the line number in the version before, if records show they existed."""
        routes = self.certain_routes(version)
        return origins_in_parent(routes[0], self.parent_blob(version), numbers) if routes else {}

    def layout_origins(self, version: FileVersion) -> dict[int, int]:
        """Return for lines only laid out anew by recorded calls since the version before the line number there; empty
        without a layout call.
        """
        routes, parent = self.certain_routes(version), self.parent_blob(version)
        steps = routes[0] if routes else ()
        if not steps or steps[0].before != parent or any(s.inferred for s in steps):
            return {}
        if not any(s.is_layout for s in steps):
            return {}
        self.load_hunks({(s.before, s.after) for s in steps})
        sources: dict[int, int] | None = None  # of every line that continues one of the version before, from 0
        for step in steps:
            old, new = self.lines_of(step.before), self.lines_of(step.after)
            hunks = step.hunks if step.hunks is not None else self.hunks_by_pair.get((step.before, step.after))
            if old is None or new is None or hunks is None:
                return {}
            found = dict(trace_hunks(hunks, len(new)))
            if step.is_layout:
                unproved = set(expand_spans(step.unproved))
                laid_out = find_layout_origins(old, new, hunks)
                found |= {index: origin for index, origin in laid_out.items() if index + 1 in unproved}
            sources = found if sources is None else {i: sources[o] for i, o in found.items() if o in sources}
        return {index + 1: origin + 1 for index, origin in (sources or {}).items()}

    def only_adds_one_block(self, version: FileVersion) -> bool:
        steps = [step for route in self.certain_routes(version) for step in route]
        hunks = steps[0].hunks if len(steps) == 1 and steps[0].before == self.parent_blob(version) else None
        return hunks is not None and len(hunks) == 1 and not hunks[0].old_lines

    def resolve_versions(self, versions: Sequence[FileVersion]) -> None:
        """Find the blobs of versions and of their parents, with a git process, and a second process for old recorded
        versions. Further old parents are not needed.
        """
        self.last_resolved = tuple(versions)
        for version in versions:
            if not version.has_commit:
                self.blobs_by_name[version.name] = self.load_working_file(version.path)
        names = [p.name for p in versions if p.has_commit]
        self.resolve_names([*names, *(p.parent for p in versions if p.parent and self.may_hold_recorded_lines(p))])
        old = (p for p in versions if p.parent and self.version_blob(p) in self.history_of(p.path).contents)
        self.resolve_names(p.parent for p in old if p.parent)

    def resolve_all(self, versions: Iterable[FileVersion]) -> None:
        """Find the blobs of versions and of all their parents, and read the file in the work tree."""
        for version in versions:
            if not version.has_commit:
                self.blobs_by_name[version.name] = self.load_working_file(version.path)
        names = (name for v in versions for name in (v.name if v.has_commit else None, v.parent) if name)
        self.resolve_names(names)

    def contents_before(self, versions: Sequence[FileVersion]) -> Mapping[FileVersion, frozenset[str]]:
        """Return the contents that each file had before each version; what a version lacks of them was removed."""
        if not self.has_git or not versions:
            return {}
        return find_earlier_contents(self.git, versions, self.contents_before_cache)


def parse_seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


def as_history_entry(change: RecordedChange, *, by_git: bool) -> HistoryEntry:
    return HistoryEntry(
        change.seq,
        change.id,
        change.before_blob,
        change.after_blob,
        before_lines=change.before_lines,
        hunks=change.hunks,
        positions_known=change.has_tool_positions,
        by_git=by_git,
        observed=change.is_found_by_comparison,
        unproved=change.unproved_lines,
        trusted=change.origin == "verification",
        likely=change.likely_lines,
        is_layout=change.is_layout,
    )


# -- copied lines ------------------------------------------------------------------------------------------------


class CopySources(Struct, frozen=True):
    """Sources of copied lines: the file `origin` that the new file continues, or `spans` found in others."""

    origin: str | None = None
    spans: tuple[Span, ...] = ()


def may_copy_lines(change: RecordedChange) -> bool:
    if not change.session_id or not change.after_blob:
        return False
    copies = change.command is not None and COPYING_COMMANDS.search(change.command)
    return bool(copies) or (change.has_deletions and not change.before_blob)


def find_copy_sources(histories: FileHistories, changes: Sequence[RecordedChange]) -> dict[str, CopySources]:
    git_names = {change.id: possible_git_names(change, histories.prefix) for change in changes}
    asked = sorted({name for names in git_names.values() for own in names.values() for name in own})
    found = histories.look_up_blobs(asked)
    blobs_by_change = {
        record: {name: next((blob for g in own if (blob := found.get(g))), None) for name, own in names.items()}
        for record, names in git_names.items()
    }
    return {change.id: find_sources_of_change(histories, change, blobs_by_change[change.id]) for change in changes}


def possible_git_names(change: RecordedChange, prefix: TreePrefix) -> dict[str, list[str]]:
    """Return the git names for each word of the command possibly naming a file: in the commit checked out at the time,
    then in HEAD, possibly with the file added since.
    """
    words = BETWEEN_WORDS.split((change.command or "")[:MAX_COMMAND_CHARS])
    names = sorted({word.removeprefix("./") for word in words} - {"", change.path})[:MAX_NAMES]
    commits = [commit for commit in (change.revision, "HEAD") if commit]
    git_names = {
        name: [name] if ":" in name else [f"{commit}:{prefix.path_in_tree(name)}" for commit in commits]
        for name in names
    }
    return {name: list(filter(GIT_VERSION.match, own)) for name, own in git_names.items()}


def find_sources_of_change(
    histories: FileHistories, change: RecordedChange, blobs: Mapping[str, str | None]
) -> CopySources:
    index = histories.index
    same_content = index.list_changes_to_content(change.after_sha or "")
    earlier = [c for c in same_content if c.seq < change.seq and c.path != change.path]
    origin = next((c.path for c in earlier), None) if change.command else None
    if origin and not change.before_blob:
        return CopySources(origin)
    if origin and all(c.session_id == change.session_id and not c.before_blob for c in earlier):
        return CopySources()
    files = files_of_record(index, change) if change.has_deletions or not change.before_blob else []
    created = {str(file["path"]) for file in files if not file.get("before")} | {change.path}

    def content_then(name: str) -> str | None:
        changes = reversed(index.list_changes(quote_path(name)))
        return next((c.after_blob for c in changes if c.seq < change.seq), None) or blobs[name]

    sources = {name: blob for name in blobs if (blob := content_then(name)) and name not in created}
    removed = (file for file in files if file.get("after") is None and file.get("before"))
    sources |= {str(f["path"]): str(f["before"]["git_blob"]) for f in removed if f["before"].get("git_blob")}
    histories.load_contents([*sources.values(), change.after_blob])
    if not change.command:
        sources = {path: blob for path, blob in sources.items() if continues_as(histories, blob, change.after_blob)}
    whole = next((path for path, blob in sources.items() if blob == change.after_blob), None)
    if whole and not change.before_blob:
        return CopySources(whole)
    return CopySources(spans=find_copied_spans(histories, change, set(sources.values()))) if sources else CopySources()


def continues_as(histories: FileHistories, before: str, after: str | None) -> bool:
    old_lines = list(filter(is_distinctive_line, histories.lines_of(before) or ()))
    new_lines = set(histories.lines_of(after) or ())
    return 2 * sum(line in new_lines for line in old_lines) >= len(old_lines)


def files_of_record(index: Index, change: RecordedChange) -> list[dict[str, Any]]:
    documents = index.find_by_id_prefix(change.id)
    if not documents:
        return []
    ids = list_part_ids(documents[0]["metadata"][KEY].get("part"), MAX_PARTS) or [change.id]
    parts = (document for part_id in ids for document in index.find_by_id_prefix(part_id))
    return [file for document in parts for file in document["metadata"][KEY].get("files", [])]


def find_copied_spans(histories: FileHistories, change: RecordedChange, sources: set[str]) -> tuple[Span, ...]:
    command = (change.command or "").encode("utf-8", "surrogateescape")
    new = histories.lines_of(change.after_blob) or ()
    numbers: set[int] = set()
    for lines in (histories.lines_of(blob) or () for blob in sources):
        distinctive = {line for line in lines if is_distinctive_line(line)}
        numbers |= {n for n, line in enumerate(new, 1) if line in distinctive}
        if len(lines) <= MAX_COMPARED_LINES and len(new) <= MAX_COMPARED_LINES:
            numbers |= {start + n for _, start, size in find_equal_blocks(lines, new) for n in range(1, size + 1)}
    return make_spans(n for n in numbers if not new[n - 1].strip() or new[n - 1].strip() not in command)
