"""Authorship notes of commits, written from the ledger: the author of each added line that a record explains.

A note is transport: a machine with the ledger reads the ledger. Entries of other writers in a note are kept.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from remit.core.diff.contents import Span, expand_spans, make_spans
from remit.core.formats import authorship_notes
from remit.core.formats.commit_trailers import AgentContribution
from remit.ledger.index.index import open_index
from remit.ledger.tree_heads import read_stored_heads
from remit.provenance.blame.blame import Blamer, model_of
from remit.provenance.blame.blamed_line import body_of
from remit.provenance.notes.added_lines import Addition, find_additions, find_staged_additions
from remit.provenance.origins.blame_porcelain import FileVersion, GitLine, TreePrefix, relocate_version
from remit.provenance.origins.evidence_grades import Attribution, attribution_at, is_distinctive
from remit.provenance.origins.file_histories import NEVER_S, SLACK_S
from remit.provenance.origins.intent_names import IntentNames
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.git.command import Git, GitError
from remit.workspace.git.repository import head_commit
from remit.workspace.place.workspace import Workspace
from remit.workspace.sharing.shared_refs import NotesBusy, NotesByCommit, NotesRef

MAX_COMMITS = 5000  # commits that are noted without being named
MAX_SEARCHED_FILES = 40  # files per run whose unexplained lines are searched elsewhere: each costs a few git processes
MAX_COMMITS_PER_TURN = 20  # commits noted per turn: a call that comes meanwhile waits
STAGED_TIME_S = 1 << 60  # time after every record: staged lines may come from any record
NumbersByKey = dict[str, list[int]]  # line numbers by note key


class WrittenNotes(Struct, frozen=True):
    """Result of writing notes. `commits` have a new note; `unread` had a text other than an authorship note and keep
    the text. `unspeakable` are paths beyond the note format; `unsearched` counts files with moved lines possibly
    without an author.
    """

    commits: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    unspeakable: tuple[str, ...] = ()
    unsearched: int = 0


class NoteWriter:
    """Writer of the notes of commits in one workspace."""

    def __init__(self, blamer: Blamer) -> None:
        self.blamer = blamer
        self.attributor = blamer.attributor
        self.unsupported_paths: set[str] = set()
        self.searched_files = 0

    def write(self, commits: Iterable[str]) -> WrittenNotes:
        """Write the notes of those commits. Raises GitError, NotesBusy."""
        notes = self.make_notes(commits)
        unread: set[str] = set()
        written: set[str] = set()

        def change(existing: NotesByCommit) -> NotesByCommit:
            merged = {commit: merge_with_existing(existing.get(commit), note) for commit, note in notes.items()}
            unread.clear()
            unread.update(commit for commit, text in merged.items() if text is None)
            texts = {commit: text for commit, text in merged.items() if text is not None}
            written.update(commit for commit, text in texts.items() if text != existing.get(commit))
            return texts

        NotesRef(self.blamer.workspace).update_notes(notes, change)
        unsearched = max(0, self.searched_files - MAX_SEARCHED_FILES)
        return WrittenNotes(
            tuple(sorted(written)), tuple(sorted(unread)), tuple(sorted(self.unsupported_paths)), unsearched
        )

    def make_notes(self, commits: Iterable[str]) -> dict[str, authorship_notes.Note]:
        """Return the notes of the commits that the ledger knows lines of. Raises GitError."""
        if not self.attributor.has_records:
            return {}
        attributed = dict(self.attribute_additions(list(find_additions(self.blamer.git, commits))))
        records = self.blamer.load_records(
            found.record for by_line in attributed.values() for found in by_line.values()
        )
        by_commit: dict[str, list[tuple[Addition, NumbersByKey, NumbersByKey]]] = {}
        for addition, by_line in attributed.items():
            proved, likely = NumbersByKey(), NumbersByKey()
            for number, attribution in sorted(by_line.items()):
                record = records.get(attribution.record)
                if key := note_key(record, addition.author) if record else None:
                    if attribution.proved:
                        proved.setdefault(key, []).append(number)
                    if attribution.likely:
                        likely.setdefault(key, []).append(number)
            if (proved or likely) and not authorship_notes.is_attestable_path(addition.path):
                self.unsupported_paths.add(addition.path)
            elif proved or likely:
                by_commit.setdefault(addition.commit, []).append((addition, proved, likely))
        return {commit: self.make_note(commit, files, records) for commit, files in by_commit.items()}

    def attribute_additions(self, additions: Sequence[Addition]) -> Iterator[tuple[Addition, dict[int, Attribution]]]:
        """Yield each addition with the attributions of its lines, as blame would attribute them, in a few batches."""
        attributor = self.attributor
        versions = {addition: version_of_addition(addition, attributor.prefix) for addition in additions}
        by_version = attributor.attribute_versions(versions.values())
        attributed: dict[Addition, dict[int, Attribution]] = {}
        unsure: set[Addition] = set()
        for addition, version in versions.items():
            numbers = expand_spans(addition.spans)
            found = {n: a for n in numbers if (a := attribution_at(by_version[version], n))}
            attributed[addition] = found
            # Lines lack an attribution, or have one that a closer look may drop.
            is_incomplete = len(found) < len(numbers) and attributor.may_hold_recorded_lines(version)
            if is_incomplete or any(map(attributor.is_found_by_comparison, found.values())):
                unsure.add(addition)
        looked_at = [versions[addition] for addition in unsure]
        parents = (version.parent for version in looked_at if version.parent in attributor.blobs_by_name)
        attributor.load_named((*(version.name for version in looked_at), *filter(None, parents)))
        for addition, found in attributed.items():
            yield addition, self.attribute_closely(addition, versions[addition], found) if addition in unsure else found

    def attribute_closely(
        self, addition: Addition, version: FileVersion, attributions: Mapping[int, Attribution]
    ) -> dict[int, Attribution]:
        texts = self.attributor.lines_of_name(version.name)
        lines = [GitLine(version, n, n, texts[n - 1]) for n in expand_spans(addition.spans) if n <= len(texts)]
        is_uncertain = self.attributor.is_found_by_comparison
        certain = {number: found for number, found in attributions.items() if not is_uncertain(found)}
        open_lines = [line.content for line in lines if line.line not in attributions]
        if len(certain) == len(attributions) and not is_distinctive(open_lines):
            return certain
        self.searched_files += 1
        if self.searched_files > MAX_SEARCHED_FILES:
            return certain
        return self.blamer.attribute_lines(version.path, [version.commit], lines)

    def make_note(
        self,
        commit: str,
        files: Sequence[tuple[Addition, NumbersByKey, NumbersByKey]],
        records: Mapping[str, dict[str, Any]],
    ) -> authorship_notes.Note:
        attested: list[authorship_notes.FileAttestation] = []
        likely: dict[str, dict[str, Sequence[Span]]] = {}
        for addition, proved, likely_lines in files:
            entries = tuple(authorship_notes.Attestation(key, make_spans(numbers)) for key, numbers in proved.items())
            attested += [authorship_notes.FileAttestation(addition.path, entries)] if entries else []
            for key, numbers in likely_lines.items():
                likely.setdefault(key, {})[addition.path] = make_spans(numbers)
        keys = {entry.key for file in attested for entry in file.entries}
        people = {
            authorship_notes.make_human_key(addition.author): {"author": addition.author} for addition, _, _ in files
        }
        humans = {key: people[key] for key in sorted(keys & people.keys())}
        sessions = self.describe_sessions(keys, likely, records)
        metadata: dict[str, Any] = {
            "schema_version": authorship_notes.VERSION,
            "base_commit_sha": commit,
            "prompts": {},
        }
        metadata |= {"humans": humans} if humans else {}
        metadata |= {"sessions": sessions} if sessions else {}
        return authorship_notes.Note(tuple(attested), metadata)

    def describe_sessions(
        self,
        keys: set[str],
        likely: Mapping[str, Mapping[str, Sequence[Span]]],
        records: Mapping[str, dict[str, Any]],
    ) -> dict[str, Any]:
        traces: dict[str, dict[str, dict[str, str]]] = {}
        agents: dict[str, dict[str, str]] = {}
        for name in sorted(records):
            key = note_key(records[name], "")
            session, _, trace = (key or "").partition("::")
            if trace and (key in keys or key in likely):
                traces.setdefault(session, {})[trace] = edit_attributes(records[name], self.blamer.names)
                agents.setdefault(session, describe_agent(records[name]))
        result: dict[str, Any] = {}
        for session, attributes_by_trace in sorted(traces.items()):
            attributes = {**authorship_notes.merge_attributes(attributes_by_trace), **self.ledger_head}
            for trace in sorted(attributes_by_trace):
                if lines := likely.get(f"{session}::{trace}"):
                    attributes |= authorship_notes.encode_likely_lines(trace, lines)
            result[session] = {"agent_id": agents[session], **({"custom_attributes": attributes} if attributes else {})}
        return result

    @cached_property
    def ledger_head(self) -> dict[str, str]:
        """The newest signed head of the log as an attribute; empty if none was signed."""
        newest = next((head.note for head in reversed(list(read_stored_heads(self.blamer.workspace.log_folder)))), None)
        return {authorship_notes.LEDGER_ATTRIBUTE: newest} if newest else {}

    def find_commits(self, wanted: str | None) -> list[str]:
        """Return the commits of a commit or range; for None all that may hold recorded lines. Raises GitError."""
        git = self.blamer.git
        if wanted is not None:
            return resolve_commits(git, wanted)
        if self.attributor.recorded_since >= NEVER_S or git.read_head() is None:
            return []
        since = datetime.fromtimestamp(self.attributor.recorded_since - SLACK_S, UTC)
        limits = (f"--since={since.isoformat()}", f"--max-count={MAX_COMMITS}")
        return git.text("rev-list", *limits, "HEAD", "--branches").split()


def resolve_commits(git: Git, wanted: str) -> list[str]:
    """Return the commits of a range such as `main..HEAD`; a single name is that commit alone. Raises GitError."""
    single = () if ".." in wanted or wanted.startswith("^") else ("--no-walk",)
    return git.text("rev-list", *single, "--end-of-options", wanted, "--").split()


def version_of_addition(addition: Addition, prefix: TreePrefix) -> FileVersion:
    previous = f"{addition.parent} {addition.source}" if addition.parent and addition.source else None
    return relocate_version(FileVersion(addition.commit, addition.path, previous, addition.at), prefix)


def note_key(record: Mapping[str, Any], person: str) -> str | None:
    """Return the note key of a record's author; None if unknown. `person` is the commit's author, credited with edits
    by hand; an empty `person` credits none.
    """
    body: dict[str, Any] = body_of(record)
    if body.get("event") == "human_edit":
        return authorship_notes.make_human_key(person) if body.get("origin") == "person" and person else None
    agent = describe_agent(record)
    trace = authorship_notes.make_trace_key(str(record["id"]))
    return f"{authorship_notes.make_session_key(agent['tool'], agent['id'])}::{trace}" if agent["id"] else None


def describe_agent(record: Mapping[str, Any]) -> dict[str, str]:
    name = str(record.get("tool", {}).get("name") or authorship_notes.UNKNOWN_NAME)
    session = str(body_of(record).get("session_id") or "")
    return {
        "tool": authorship_notes.FORMAT_TOOL_NAMES.get(name, name),
        "id": session,
        "model": model_of(dict(record)) or authorship_notes.UNKNOWN_NAME,
    }


def edit_attributes(record: Mapping[str, Any], names: IntentNames) -> dict[str, str]:
    body: dict[str, Any] = body_of(record)
    classes: dict[str, Any] = body.get("mutation_class") or {}
    attributes = {
        "remit.intent": names.find_distinct_name(body),
        "remit.class": classes.get("computed"),
        "remit.declared": classes.get("declared"),
        "remit.model": model_of(dict(record)),
    }
    return {name: value for name, value in attributes.items() if isinstance(value, str)}


def merge_with_existing(existing: bytes | None, own: authorship_notes.Note) -> bytes | None:
    """Merge the note into an existing one: own older entries are replaced, entries of others stay. Returns None if the
    existing text is no authorship note: Remit does not overwrite foreign texts.
    """
    if existing is None:
        return authorship_notes.write_note(own).encode()
    try:
        before = authorship_notes.parse_note(existing.decode())
    except (authorship_notes.InvalidNote, UnicodeError):
        return None
    keys = {file.path: {entry.key for entry in file.entries} for file in own.files}
    others = [(f.path, tuple(e for e in f.entries if e.key not in keys.get(f.path, ()))) for f in before.files]
    kept = authorship_notes.Note(
        tuple(authorship_notes.FileAttestation(path, entries) for path, entries in others if entries), before.metadata
    )
    return authorship_notes.write_note(authorship_notes.merge_notes(keep_existing_heads(own, before), kept)).encode()


def keep_existing_heads(own: authorship_notes.Note, before: authorship_notes.Note) -> authorship_notes.Note:
    sessions: dict[str, Any] = dict(own.metadata.get("sessions", {}))
    for key, session in sessions.items():
        author = authorship_notes.find_author(before, f"{key}::")
        if head := author.attributes.get(authorship_notes.LEDGER_ATTRIBUTE) if author else None:
            sessions[key] = {
                **session,
                "custom_attributes": {**session.get("custom_attributes", {}), authorship_notes.LEDGER_ATTRIBUTE: head},
            }
    return authorship_notes.Note(own.files, {**own.metadata, **({"sessions": sessions} if sessions else {})})


def write_new_notes(workspace: Workspace, store: ContentStore) -> int:
    """Write notes for the newest commits that HEAD gained since the last run; return the number written. The last HEAD
    is kept beside the log, hence a commit by any git is noted once. Older commits wait for `remit notes write`. Raises
    GitError, OSError, LedgerError.
    """
    head, file = head_commit(workspace), workspace.state / "noted"
    try:
        text = file.read_text("ascii").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        text = ""
    kept = text if text.isalnum() else None
    if head is None or kept == head:
        return 0
    with open_index(workspace.state, workspace.log_folder) as index:
        writer = NoteWriter(Blamer(workspace, index, store))
        try:
            done = writer.write(new_commits(writer.blamer.git, head, kept)) if writer.attributor.has_records else None
        except NotesBusy:
            return 0
    temporary = file.with_name(f"noted.{os.getpid()}")
    temporary.write_text(head + "\n", "ascii")
    temporary.replace(file)
    return len(done.commits) if done else 0


def new_commits(git: Git, head: str, kept: str | None) -> list[str]:
    """Return the commits of `head` that `kept` does not reach, newest first."""
    limit = f"--max-count={MAX_COMMITS_PER_TURN}"
    with suppress(GitError):  # the former HEAD may be gone: after `gc`, or in another clone of the state
        return git.text("rev-list", limit, head, *([f"^{kept}"] if kept else [])).split()
    return git.text("rev-list", limit, head).split()


def agents_of_staged_lines(writer: NoteWriter) -> list[AgentContribution]:
    """Return the agents of the staged lines, most lines first. Raises GitError."""
    git = writer.blamer.git
    if not writer.attributor.has_records:
        return []
    additions = [replace(addition, at=STAGED_TIME_S) for addition in find_staged_additions(git, git.read_head())]
    attributed = writer.attribute_additions(additions)
    counts = Counter(found.record for _, by_line in attributed for found in by_line.values() if found.proved)
    lines: Counter[AgentContribution] = Counter()
    for name, record in writer.blamer.load_records(counts).items():
        body, tool = body_of(record), record.get("tool", {})
        if body.get("event") == "mutation" and tool.get("name"):
            intent = writer.blamer.names.find_distinct_name(body)
            contribution = AgentContribution(tool["name"], tool.get("version"), model_of(record), intent)
            lines[contribution] += counts[name]
    return sorted(lines, key=lambda contribution: (-lines[contribution], contribution.agent))
