"""Notes of commits from the ledger: for each line that a commit added and a record explains, who wrote it.

A note is transport: where the ledger is at hand, the ledger is read. What others wrote into a note stays.

Keeping notes up with HEAD, from a process that is idle.

Which agents wrote the lines that the next commit would add.
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
from remit.ledger.index.index import Index
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
"""Files of one run whose unexplained lines are looked for elsewhere: each costs a few git processes."""

LEDGER_ATTRIBUTE = "remit.ledger"

NumbersByKey = dict[str, list[int]]
"""Line numbers by key."""


class WrittenNotes(Struct, frozen=True):
    """What was written. `commits` have a new note; `unread` had one that is no authorship note, and keep it.

    `unspeakable` are paths that the form cannot hold; in `unsearched` more files moved lines may be left unexplained.
    """

    commits: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    unspeakable: tuple[str, ...] = ()
    unsearched: int = 0


class NoteWriter:
    """Makes the notes of commits in one workspace."""

    def __init__(self, blamer: Blamer) -> None:
        self.blamer = blamer
        self.attributor = blamer.attributor
        self.unsupported_paths: set[str] = set()
        self.searched_files = 0

    def write(self, commits: Iterable[str]) -> WrittenNotes:
        """Give those commits their notes. Raises GitError, NotesBusy."""
        own = self.make_notes(commits)
        unread: set[str] = set()
        written: set[str] = set()

        def change(known: NotesByCommit) -> NotesByCommit:
            unread.clear()
            fresh = {commit: merge_with_existing(known.get(commit), note) for commit, note in own.items()}
            unread.update(commit for commit, text in fresh.items() if text is None)
            written.update(commit for commit, text in fresh.items() if text is not None and text != known.get(commit))
            return {commit: text for commit, text in fresh.items() if text is not None}

        NotesRef(self.blamer.workspace).update_notes(own, change)
        return WrittenNotes(
            tuple(sorted(written)),
            tuple(sorted(unread)),
            tuple(sorted(self.unsupported_paths)),
            max(0, self.searched_files - MAX_SEARCHED_FILES),
        )

    def make_notes(self, commits: Iterable[str]) -> dict[str, Note]:
        """The notes of those commits of which the ledger knows something. Raises GitError."""
        if not self.attributor.has_records:
            return {}
        found = list(find_additions(self.blamer.git, commits))
        labels = dict(self.attribute_additions(found))
        records = self.blamer.load_records(label.record for own in labels.values() for label in own.values())
        by_commit: dict[str, list[tuple[Addition, NumbersByKey, NumbersByKey]]] = {}
        for addition, own in labels.items():
            lines = group_by_key(addition, {n: label for n, label in own.items() if label.proved}, records)
            likely = group_by_key(addition, {n: label for n, label in own.items() if label.likely}, records)
            if (lines or likely) and not is_attestable_path(addition.path):
                self.unsupported_paths.add(addition.path)
            elif lines or likely:
                by_commit.setdefault(addition.commit, []).append((addition, lines, likely))
        return {commit: self.make_note(commit, files, records) for commit, files in by_commit.items()}

    def attribute_additions(self, found: Sequence[Addition]) -> Iterator[tuple[Addition, dict[int, Attribution]]]:
        """Each of them with the labels of the lines that were added: as blame would label them, in a few batches."""
        whole = self.attributor.attribute_versions(map(self.version_of, found))
        own = {
            a: {n: label for n in expand_spans(a.spans) if (label := attribution_at(whole[self.version_of(a)], n))}
            for a in found
        }
        unsure = {addition for addition in found if self.needs_closer_look(addition, own[addition])}
        self.attributor.load_named(self.version_of(addition).name for addition in unsure)
        for addition in found:
            yield addition, self.attribute_closely(addition, own[addition]) if addition in unsure else own[addition]

    def version_of(self, addition: Addition) -> FileVersion:
        """The version that an addition is of."""
        return version_of_addition(addition, self.attributor.prefix)

    def needs_closer_look(self, addition: Addition, attributions: Mapping[int, Attribution]) -> bool:
        """Whether lines of it have no label, or one that a closer look may take away."""
        if any(map(self.attributor.is_found_by_comparison, attributions.values())):
            return True
        place = self.version_of(addition)
        return len(attributions) < len(expand_spans(addition.spans)) and self.attributor.may_hold_recorded_lines(place)

    def attribute_closely(self, addition: Addition, attributions: Mapping[int, Attribution]) -> dict[int, Attribution]:
        """The labels after that closer look; where too many ask for it, those that need none."""
        place = self.version_of(addition)
        texts = self.attributor.lines_of_name(place.name)
        lines = [GitLine(place, n, n, texts[n - 1]) for n in expand_spans(addition.spans) if n <= len(texts)]
        sure = {
            number: label for number, label in attributions.items() if not self.attributor.is_found_by_comparison(label)
        }
        if len(sure) == len(attributions) and not is_distinctive(
            line.content for line in lines if line.line not in attributions
        ):
            return sure
        self.searched_files += 1
        return (
            sure
            if self.searched_files > MAX_SEARCHED_FILES
            else self.blamer.attribute_lines(place.path, [place.commit], lines)
        )

    def make_note(
        self,
        commit: str,
        files: Sequence[tuple[Addition, NumbersByKey, NumbersByKey]],
        records: Mapping[str, dict[str, Any]],
    ) -> Note:
        """The note of one commit: of each file the lines that are attested, and those that are likely an edit's."""
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
        about: dict[str, Any] = {"schema_version": VERSION, "base_commit_sha": commit, "prompts": {}}
        about |= {"humans": humans} if humans else {}
        about |= {"sessions": sessions} if sessions else {}
        return Note(tuple(attested), about)

    def describe_sessions(
        self,
        keys: set[str],
        likely: Mapping[str, Mapping[str, Sequence[Span]]],
        records: Mapping[str, dict[str, Any]],
    ) -> dict[str, Any]:
        """What the note tells of the sessions that those keys name, and of their `likely` lines."""
        traces: dict[str, dict[str, dict[str, str]]] = {}
        agents: dict[str, dict[str, str]] = {}
        for name in sorted(records):
            key = note_key(records[name], "")
            session, _, trace = (key or "").partition("::")
            if trace and (key in keys or key in likely):
                traces.setdefault(session, {})[trace] = edit_attributes(records[name])
                agents.setdefault(session, describe_agent(records[name]))
        found: dict[str, Any] = {}
        for session, own in sorted(traces.items()):
            attributes = {**merge_attributes(own), **self.ledger_head}
            for trace in sorted(own):
                if lines := likely.get(f"{session}::{trace}"):
                    attributes |= encode_likely_lines(trace, lines)
            found[session] = {"agent_id": agents[session], **({"custom_attributes": attributes} if attributes else {})}
        return found

    @cached_property
    def ledger_head(self) -> dict[str, str]:
        """The newest signed head of the log, as an attribute; nothing where none was signed yet."""
        newest = next((head.note for head in reversed(list(read_stored_heads(self.blamer.workspace.log_folder)))), None)
        return {LEDGER_ATTRIBUTE: newest} if newest else {}

    def find_commits(self, wanted: str | None) -> list[str]:
        """The commits that `wanted` names, a commit or a range; None is all that may hold recorded lines.

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
    """The commits of a range as `main..HEAD`; a single name is that commit alone. Raises GitError."""
    single = () if ".." in wanted or wanted.startswith("^") else ("--no-walk",)
    return git.text("rev-list", *single, "--end-of-options", wanted, "--").split()


def version_of_addition(addition: Addition, prefix: str) -> FileVersion:
    """The version that an addition is of, in a workspace that lies at `prefix` in its repository."""
    previous = f"{addition.parent} {addition.source}" if addition.parent and addition.source else None
    return relocate_version(FileVersion(addition.commit, addition.path, previous, addition.at), prefix)


def group_by_key(
    addition: Addition, attributions: Mapping[int, Attribution], records: Mapping[str, dict[str, Any]]
) -> NumbersByKey:
    """The added lines by the key of who wrote them, in the order of the file."""
    found: NumbersByKey = {}
    for number, label in sorted(attributions.items()):
        record = records.get(label.record)
        key = note_key(record, addition.author) if record else None
        if key:
            found.setdefault(key, []).append(number)
    return found


def note_key(record: Mapping[str, Any], person: str) -> str | None:
    """The key for what a record put there; None where it says nothing of who did.

    `person` is the commit's author, whom an edit by hand is ascribed to; where it is empty nobody is.
    """
    body: dict[str, Any] = record["metadata"][KEY]
    if body.get("event") == "human_edit":
        return make_human_key(person) if body.get("origin") == "person" and person else None
    agent = describe_agent(record)
    return (
        f"{make_session_key(agent['tool'], agent['id'])}::{make_trace_key(str(record['id']))}" if agent["id"] else None
    )


def describe_agent(record: Mapping[str, Any]) -> dict[str, str]:
    """The session of a record, in the words of the form."""
    name = str(record.get("tool", {}).get("name") or UNKNOWN_NAME)
    session = str(record["metadata"][KEY].get("session_id") or "")
    return {"tool": FORMAT_TOOL_NAMES.get(name, name), "id": session, "model": model_of(dict(record)) or UNKNOWN_NAME}


def edit_attributes(record: Mapping[str, Any]) -> dict[str, str]:
    """What Remit knows of an edit beside who made it."""
    body: dict[str, Any] = record["metadata"][KEY]
    classes: dict[str, Any] = body.get("mutation_class") or {}
    known = {
        "remit.intent": body.get("intent_id"),
        "remit.class": classes.get("computed"),
        "remit.declared": classes.get("declared"),
        "remit.model": model_of(dict(record)),
    }
    return {name: value for name, value in known.items() if isinstance(value, str)}


def merge_with_existing(known: bytes | None, own: Note) -> bytes | None:
    """The note with ours in it: what we said before of the same edits is replaced, what others said stays.

    None where the note that is there is no authorship note: it is not ours to overwrite.
    """
    if known is None:
        return write_note(own).encode()
    try:
        before = parse_note(known.decode())
    except (InvalidNote, UnicodeError):
        return None
    keys = {file.path: {entry.key for entry in file.entries} for file in own.files}
    others = [(f.path, tuple(e for e in f.entries if e.key not in keys.get(f.path, ()))) for f in before.files]
    kept = Note(tuple(FileAttestation(path, entries) for path, entries in others if entries), before.metadata)
    return write_note(merge_notes(keep_existing_heads(own, before), kept)).encode()


def keep_existing_heads(own: Note, before: Note) -> Note:
    """Our note, with the ledger's head that it had: a later head alone is no reason to write it again."""
    sessions: dict[str, Any] = {}
    for key, session in own.metadata.get("sessions", {}).items():
        known = find_author(before, f"{key}::")
        head = known.attributes.get(LEDGER_ATTRIBUTE) if known else None
        attributes = {**session.get("custom_attributes", {}), **({LEDGER_ATTRIBUTE: head} if head else {})}
        sessions[key] = {**session, **({"custom_attributes": attributes} if attributes else {})}
    return Note(own.files, {**own.metadata, **({"sessions": sessions} if sessions else {})})


MAX_COMMITS_PER_TURN = 20
"""Commits of one turn: a call that comes meanwhile waits for it."""


def write_new_notes(workspace: Workspace, store: ContentStore) -> int:
    """Note the newest commits that HEAD gained since the last time; how many were written.

    Where HEAD stood is kept beside the log, so that a commit made by whatever git is noted once. Older ones than these
    wait for `remit notes write`. Raises GitError, OSError, LedgerError.
    """
    head = head_commit(workspace)
    kept = read_noted_head(workspace)
    if head is None or kept == head:
        return 0
    with Index.open(workspace.state / "index.db", workspace.log_folder) as index:
        index.catch_up()
        writer = NoteWriter(Blamer(workspace, index, store))
        try:
            done = writer.write(new_commits(writer.blamer.git, head, kept)) if writer.attributor.has_records else None
        except NotesBusy:
            return 0
    write_noted_head(workspace, head)
    return len(done.commits) if done else 0


def new_commits(git: Git, head: str, kept: str | None) -> list[str]:
    """The commits that `head` has and `kept` had not, the newest first."""
    limit = f"--max-count={MAX_COMMITS_PER_TURN}"
    try:
        return git.text("rev-list", limit, head, *([f"^{kept}"] if kept else [])).split()
    except GitError:
        if kept is None:
            raise
        # What was HEAD then may be gone, after `gc` or in another clone of the state.
        return new_commits(git, head, None)


def noted_head_file(workspace: Workspace) -> Path:
    """Where it is kept how far notes go."""
    return workspace.state / "noted"


def read_noted_head(workspace: Workspace) -> str | None:
    """Where HEAD was when notes were written last."""
    try:
        text = noted_head_file(workspace).read_text("ascii").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    return text if text.isalnum() else None


def write_noted_head(workspace: Workspace, head: str) -> None:
    """Keep it. Raises OSError."""
    fresh = noted_head_file(workspace).with_name(f"noted.{os.getpid()}")
    fresh.write_text(head + "\n", "ascii")
    fresh.replace(noted_head_file(workspace))


STAGED_TIME_S = 1 << 60
"""Younger than any record: what is staged may hold lines of all of them."""


def agents_of_staged_lines(writer: NoteWriter) -> list[AgentContribution]:
    """The agents, who wrote most first; of what is staged alone. Raises GitError."""
    blamer = writer.blamer
    if not writer.attributor.has_records:
        return []
    found = [
        replace(addition, at=STAGED_TIME_S) for addition in find_staged_additions(blamer.git, blamer.git.read_head())
    ]
    counts = Counter(
        label.record for _, labels in writer.attribute_additions(found) for label in labels.values() if label.proved
    )
    lines: Counter[AgentContribution] = Counter()
    for name, record in blamer.load_records(counts).items():
        body = record["metadata"][KEY]
        tool = record.get("tool", {})
        if body.get("event") == "mutation" and tool.get("name"):
            one = AgentContribution(tool["name"], tool.get("version"), model_of(record), body.get("intent_id"))
            lines[one] += counts[name]
    return [one for one, _ in sorted(lines.items(), key=lambda pair: (-pair[1], pair[0].agent))]
