"""Authorship notes of commits, written from the ledger: the author of each added line that a record explains.

A note is transport: a machine with the ledger reads the ledger. Entries of other writers in a note are kept.
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from remit.core.diff.line_spans import Span, expand_spans, make_spans
from remit.core.formats.authorship_notes import (
    FORMAT_TOOL_NAMES,
    UNKNOWN_NAME,
    VERSION,
    Attestation,
    FileAttestation,
    InvalidNote,
    Note,
    encode_likely_lines,
    find_author,
    is_attestable_path,
    make_human_key,
    make_session_key,
    make_trace_key,
    merge_attributes,
    merge_notes,
    parse_note,
    write_note,
)
from remit.core.formats.commit_trailers import AgentContribution
from remit.core.record import KEY
from remit.ledger.index.index import open_index
from remit.ledger.integrity.tree_heads import read_stored_heads
from remit.provenance.blame.blame import Blamer, model_of
from remit.provenance.notes.added_lines import Addition, find_additions, find_staged_additions
from remit.provenance.origins.blame_porcelain import FileVersion, GitLine, relocate_version
from remit.provenance.origins.evidence import Attribution, attribution_at, is_distinctive
from remit.provenance.origins.file_histories import NEVER_S, SLACK_S
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.git.command import Git, GitError
from remit.workspace.git.refs import head_commit
from remit.workspace.place.workspace import Workspace
from remit.workspace.sharing.authorship_notes import NotesBusy, NotesByCommit, NotesRef

MAX_COMMITS = 5000
"""Commits that are noted without being named."""

MAX_SEARCHED_FILES = 40
"""Files per run whose unexplained lines are searched elsewhere: each costs a few git processes."""

MAX_COMMITS_PER_TURN = 20
"""Commits noted per turn: a call that comes meanwhile waits."""

STAGED_TIME_S = 1 << 60
"""Time after every record: staged lines may come from any record."""

LEDGER_ATTRIBUTE = "remit.ledger"

NumbersByKey = dict[str, list[int]]
"""Line numbers by note key."""


class WrittenNotes(Struct, frozen=True):
    """Result of writing notes. `commits` have a new note; `unread` had a text that is no authorship note and keep the
    text.

    `unspeakable` are paths that the note format cannot hold; `unsearched` counts files whose moved lines may lack an
    author.
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
            unread.clear()
            merged = {commit: merge_with_existing(existing.get(commit), note) for commit, note in notes.items()}
            unread.update(commit for commit, text in merged.items() if text is None)
            written.update(
                commit for commit, text in merged.items() if text is not None and text != existing.get(commit)
            )
            return {commit: text for commit, text in merged.items() if text is not None}

        NotesRef(self.blamer.workspace).update_notes(notes, change)
        return WrittenNotes(
            tuple(sorted(written)),
            tuple(sorted(unread)),
            tuple(sorted(self.unsupported_paths)),
            max(0, self.searched_files - MAX_SEARCHED_FILES),
        )

    def make_notes(self, commits: Iterable[str]) -> dict[str, Note]:
        """Return the notes of the commits that the ledger knows lines of. Raises GitError."""
        if not self.attributor.has_records:
            return {}
        additions = list(find_additions(self.blamer.git, commits))
        attributed = dict(self.attribute_additions(additions))
        records = self.blamer.load_records(
            attribution.record for by_line in attributed.values() for attribution in by_line.values()
        )
        by_commit: dict[str, list[tuple[Addition, NumbersByKey, NumbersByKey]]] = {}
        for addition, by_line in attributed.items():
            lines = group_by_key(
                addition, {n: attribution for n, attribution in by_line.items() if attribution.proved}, records
            )
            likely = group_by_key(
                addition, {n: attribution for n, attribution in by_line.items() if attribution.likely}, records
            )
            if (lines or likely) and not is_attestable_path(addition.path):
                self.unsupported_paths.add(addition.path)
            elif lines or likely:
                by_commit.setdefault(addition.commit, []).append((addition, lines, likely))
        return {commit: self.make_note(commit, files, records) for commit, files in by_commit.items()}

    def attribute_additions(self, additions: Sequence[Addition]) -> Iterator[tuple[Addition, dict[int, Attribution]]]:
        """Yield each addition with the attributions of its lines, as blame would attribute them, in a few batches."""
        by_version = self.attributor.attribute_versions(map(self.version_of, additions))
        by_addition = {
            a: {
                n: attribution
                for n in expand_spans(a.spans)
                if (attribution := attribution_at(by_version[self.version_of(a)], n))
            }
            for a in additions
        }
        unsure = {addition for addition in additions if self.needs_closer_look(addition, by_addition[addition])}
        self.attributor.load_named(self.version_of(addition).name for addition in unsure)
        for addition in additions:
            yield (
                addition,
                self.attribute_closely(addition, by_addition[addition])
                if addition in unsure
                else by_addition[addition],
            )

    def version_of(self, addition: Addition) -> FileVersion:
        return version_of_addition(addition, self.attributor.prefix)

    def needs_closer_look(self, addition: Addition, attributions: Mapping[int, Attribution]) -> bool:
        """Return whether lines lack an attribution, or have one that a closer look may drop."""
        if any(map(self.attributor.is_found_by_comparison, attributions.values())):
            return True
        version = self.version_of(addition)
        return len(attributions) < len(expand_spans(addition.spans)) and self.attributor.may_hold_recorded_lines(
            version
        )

    def attribute_closely(self, addition: Addition, attributions: Mapping[int, Attribution]) -> dict[int, Attribution]:
        """Return the attributions after a closer look; beyond the limit of files, the certain ones."""
        version = self.version_of(addition)
        texts = self.attributor.lines_of_name(version.name)
        lines = [GitLine(version, n, n, texts[n - 1]) for n in expand_spans(addition.spans) if n <= len(texts)]
        certain = {
            number: attribution
            for number, attribution in attributions.items()
            if not self.attributor.is_found_by_comparison(attribution)
        }
        if len(certain) == len(attributions) and not is_distinctive(
            line.content for line in lines if line.line not in attributions
        ):
            return certain
        self.searched_files += 1
        return (
            certain
            if self.searched_files > MAX_SEARCHED_FILES
            else self.blamer.attribute_lines(version.path, [version.commit], lines)
        )

    def make_note(
        self,
        commit: str,
        files: Sequence[tuple[Addition, NumbersByKey, NumbersByKey]],
        records: Mapping[str, dict[str, Any]],
    ) -> Note:
        """Return the note of one commit: per file the attested lines and the likely lines."""
        attested = [
            FileAttestation(
                addition.path, tuple(Attestation(key, make_spans(numbers)) for key, numbers in lines.items())
            )
            for addition, lines, _ in files
            if lines
        ]
        likely: dict[str, dict[str, Sequence[Span]]] = {}
        for addition, _, lines in files:
            for key, numbers in lines.items():
                likely.setdefault(key, {})[addition.path] = make_spans(numbers)
        keys = {entry.key for file in attested for entry in file.entries}
        people = {make_human_key(addition.author): {"author": addition.author} for addition, _, _ in files}
        humans = {key: people[key] for key in sorted(keys & people.keys())}
        sessions = self.describe_sessions(keys, likely, records)
        metadata: dict[str, Any] = {"schema_version": VERSION, "base_commit_sha": commit, "prompts": {}}
        metadata |= {"humans": humans} if humans else {}
        metadata |= {"sessions": sessions} if sessions else {}
        return Note(tuple(attested), metadata)

    def describe_sessions(
        self,
        keys: set[str],
        likely: Mapping[str, Mapping[str, Sequence[Span]]],
        records: Mapping[str, dict[str, Any]],
    ) -> dict[str, Any]:
        """Return the session entries of the note for those keys, with their likely lines."""
        traces: dict[str, dict[str, dict[str, str]]] = {}
        agents: dict[str, dict[str, str]] = {}
        for name in sorted(records):
            key = note_key(records[name], "")
            session, _, trace = (key or "").partition("::")
            if trace and (key in keys or key in likely):
                traces.setdefault(session, {})[trace] = edit_attributes(records[name])
                agents.setdefault(session, describe_agent(records[name]))
        result: dict[str, Any] = {}
        for session, attributes_by_trace in sorted(traces.items()):
            attributes = {**merge_attributes(attributes_by_trace), **self.ledger_head}
            for trace in sorted(attributes_by_trace):
                if lines := likely.get(f"{session}::{trace}"):
                    attributes |= encode_likely_lines(trace, lines)
            result[session] = {"agent_id": agents[session], **({"custom_attributes": attributes} if attributes else {})}
        return result

    @cached_property
    def ledger_head(self) -> dict[str, str]:
        """The newest signed head of the log as an attribute; empty if none was signed."""
        newest = next((head.note for head in reversed(list(read_stored_heads(self.blamer.workspace.log_folder)))), None)
        return {LEDGER_ATTRIBUTE: newest} if newest else {}

    def find_commits(self, wanted: str | None) -> list[str]:
        """Return the commits of `wanted`, a commit or a range; for None every commit that may hold recorded lines.
        Raises GitError.
        """
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


def version_of_addition(addition: Addition, prefix: str) -> FileVersion:
    previous = f"{addition.parent} {addition.source}" if addition.parent and addition.source else None
    return relocate_version(FileVersion(addition.commit, addition.path, previous, addition.at), prefix)


def group_by_key(
    addition: Addition, attributions: Mapping[int, Attribution], records: Mapping[str, dict[str, Any]]
) -> NumbersByKey:
    """Group the added lines by note key, in file order."""
    numbers_by_key: NumbersByKey = {}
    for number, attribution in sorted(attributions.items()):
        record = records.get(attribution.record)
        key = note_key(record, addition.author) if record else None
        if key:
            numbers_by_key.setdefault(key, []).append(number)
    return numbers_by_key


def note_key(record: Mapping[str, Any], person: str) -> str | None:
    """Return the note key of a record's author; None if unknown.

    `person` is the commit's author, credited with edits by hand; an empty `person` credits none.
    """
    body: dict[str, Any] = record["metadata"][KEY]
    if body.get("event") == "human_edit":
        return make_human_key(person) if body.get("origin") == "person" and person else None
    agent = describe_agent(record)
    return (
        f"{make_session_key(agent['tool'], agent['id'])}::{make_trace_key(str(record['id']))}" if agent["id"] else None
    )


def describe_agent(record: Mapping[str, Any]) -> dict[str, str]:
    name = str(record.get("tool", {}).get("name") or UNKNOWN_NAME)
    session = str(record["metadata"][KEY].get("session_id") or "")
    return {"tool": FORMAT_TOOL_NAMES.get(name, name), "id": session, "model": model_of(dict(record)) or UNKNOWN_NAME}


def edit_attributes(record: Mapping[str, Any]) -> dict[str, str]:
    body: dict[str, Any] = record["metadata"][KEY]
    classes: dict[str, Any] = body.get("mutation_class") or {}
    attributes = {
        "remit.intent": body.get("intent_id"),
        "remit.class": classes.get("computed"),
        "remit.declared": classes.get("declared"),
        "remit.model": model_of(dict(record)),
    }
    return {name: value for name, value in attributes.items() if isinstance(value, str)}


def merge_with_existing(existing: bytes | None, own: Note) -> bytes | None:
    """Merge the note into an existing one: own older entries are replaced, entries of others stay.

    Returns None if the existing text is no authorship note: Remit does not overwrite foreign texts.
    """
    if existing is None:
        return write_note(own).encode()
    try:
        before = parse_note(existing.decode())
    except (InvalidNote, UnicodeError):
        return None
    keys = {file.path: {entry.key for entry in file.entries} for file in own.files}
    others = [(f.path, tuple(e for e in f.entries if e.key not in keys.get(f.path, ()))) for f in before.files]
    kept = Note(tuple(FileAttestation(path, entries) for path, entries in others if entries), before.metadata)
    return write_note(merge_notes(keep_existing_heads(own, before), kept)).encode()


def keep_existing_heads(own: Note, before: Note) -> Note:
    """Return the note with the ledger head of the existing note: a newer head alone is no reason to rewrite a note."""
    sessions: dict[str, Any] = {}
    for key, session in own.metadata.get("sessions", {}).items():
        author = find_author(before, f"{key}::")
        head = author.attributes.get(LEDGER_ATTRIBUTE) if author else None
        attributes = {**session.get("custom_attributes", {}), **({LEDGER_ATTRIBUTE: head} if head else {})}
        sessions[key] = {**session, **({"custom_attributes": attributes} if attributes else {})}
    return Note(own.files, {**own.metadata, **({"sessions": sessions} if sessions else {})})


def write_new_notes(workspace: Workspace, store: ContentStore) -> int:
    """Write notes for the newest commits that HEAD gained since the last run; return the number written.

    The last HEAD is kept beside the log, hence a commit by any git is noted once. Older commits wait for `remit notes
    write`. Raises GitError, OSError, LedgerError.
    """
    head = head_commit(workspace)
    kept = read_noted_head(workspace)
    if head is None or kept == head:
        return 0
    with open_index(workspace.state, workspace.log_folder) as index:
        writer = NoteWriter(Blamer(workspace, index, store))
        try:
            done = writer.write(new_commits(writer.blamer.git, head, kept)) if writer.attributor.has_records else None
        except NotesBusy:
            return 0
    write_noted_head(workspace, head)
    return len(done.commits) if done else 0


def new_commits(git: Git, head: str, kept: str | None) -> list[str]:
    """Return the commits of `head` that `kept` does not reach, newest first."""
    limit = f"--max-count={MAX_COMMITS_PER_TURN}"
    try:
        return git.text("rev-list", limit, head, *([f"^{kept}"] if kept else [])).split()
    except GitError:
        if kept is None:
            raise
        # The former HEAD may be gone: after `gc`, or in another clone of the state.
        return new_commits(git, head, None)


def noted_head_file(workspace: Workspace) -> Path:
    return workspace.state / "noted"


def read_noted_head(workspace: Workspace) -> str | None:
    try:
        text = noted_head_file(workspace).read_text("ascii").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    return text if text.isalnum() else None


def write_noted_head(workspace: Workspace, head: str) -> None:
    """Store the noted HEAD. Raises OSError."""
    temporary = noted_head_file(workspace).with_name(f"noted.{os.getpid()}")
    temporary.write_text(head + "\n", "ascii")
    temporary.replace(noted_head_file(workspace))


def agents_of_staged_lines(writer: NoteWriter) -> list[AgentContribution]:
    """Return the agents of the staged lines, most lines first. Raises GitError."""
    blamer = writer.blamer
    if not writer.attributor.has_records:
        return []
    additions = [
        replace(addition, at=STAGED_TIME_S) for addition in find_staged_additions(blamer.git, blamer.git.read_head())
    ]
    counts = Counter(
        attribution.record
        for _, attributions in writer.attribute_additions(additions)
        for attribution in attributions.values()
        if attribution.proved
    )
    lines: Counter[AgentContribution] = Counter()
    for name, record in blamer.load_records(counts).items():
        body = record["metadata"][KEY]
        tool = record.get("tool", {})
        if body.get("event") == "mutation" and tool.get("name"):
            contribution = AgentContribution(tool["name"], tool.get("version"), model_of(record), body.get("intent_id"))
            lines[contribution] += counts[name]
    return [contribution for contribution, _ in sorted(lines.items(), key=lambda pair: (-pair[1], pair[0].agent))]
