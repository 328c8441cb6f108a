"""Notes of commits from the ledger: for each line that a commit added and a record explains, who wrote it.

A note is transport: where the ledger is at hand, the ledger is read. What others wrote into a note stays.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from msgspec import Struct

from remit.core.authorship import (
    NOT_KNOWN,
    TOOLS,
    VERSION,
    Attested,
    Entry,
    NotANote,
    Note,
    author,
    can_be_attested,
    human_key,
    likely_attribute,
    merged_notes,
    parse_note,
    session_key,
    shared_attributes,
    trace_key,
    write_note,
)
from remit.core.record import KEY
from remit.core.spans import Span, numbers_of, spans_of
from remit.ledger.heads import kept_heads
from remit.provenance.blame.blame import Blamer, model_of
from remit.provenance.notes.additions import Addition, additions
from remit.provenance.origins.evidence import Label, at, is_telling
from remit.provenance.origins.histories import NEVER, SLACK_S
from remit.provenance.origins.porcelain import GitLine, Place, from_workspace
from remit.workspace.git import Git
from remit.workspace.notes import Contents, Notes

MOST_COMMITS = 5000
"""Commits that are noted without being named."""

MOST_SEARCHED = 40
"""Files of one run whose unexplained lines are looked for elsewhere: each costs a few git processes."""

LEDGER = "remit.ledger"

Lines = dict[str, list[int]]
"""Line numbers by key."""


class Written(Struct, frozen=True):
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
        self.attribution = blamer.attribution
        self.unspeakable: set[str] = set()
        self.searched = 0

    def write(self, commits: Iterable[str]) -> Written:
        """Give those commits their notes. Raises GitError, NotesBusy."""
        own = self.notes(commits)
        unread: set[str] = set()
        written: set[str] = set()

        def change(known: Contents) -> Contents:
            unread.clear()
            fresh = {commit: joined(known.get(commit), note) for commit, note in own.items()}
            unread.update(commit for commit, text in fresh.items() if text is None)
            written.update(commit for commit, text in fresh.items() if text is not None and text != known.get(commit))
            return {commit: text for commit, text in fresh.items() if text is not None}

        Notes(self.blamer.workspace).update(own, change)
        return Written(
            tuple(sorted(written)),
            tuple(sorted(unread)),
            tuple(sorted(self.unspeakable)),
            max(0, self.searched - MOST_SEARCHED),
        )

    def notes(self, commits: Iterable[str]) -> dict[str, Note]:
        """The notes of those commits of which the ledger knows something. Raises GitError."""
        if not self.attribution.anything_recorded:
            return {}
        found = list(additions(self.blamer.git, commits))
        labels = dict(self.known(found))
        records = self.blamer.records(label.record for own in labels.values() for label in own.values())
        by_commit: dict[str, list[tuple[Addition, Lines, Lines]]] = {}
        for addition, own in labels.items():
            lines = keyed(addition, {n: label for n, label in own.items() if label.proved}, records)
            likely = keyed(addition, {n: label for n, label in own.items() if label.likely}, records)
            if (lines or likely) and not can_be_attested(addition.path):
                self.unspeakable.add(addition.path)
            elif lines or likely:
                by_commit.setdefault(addition.commit, []).append((addition, lines, likely))
        return {commit: self.note(commit, files, records) for commit, files in by_commit.items()}

    def known(self, found: Sequence[Addition]) -> Iterator[tuple[Addition, dict[int, Label]]]:
        """Each of them with the labels of the lines that were added: as blame would label them, in a few batches."""
        whole = self.attribution.labels(map(self.place_of, found))
        own = {a: {n: label for n in numbers_of(a.spans) if (label := at(whole[self.place_of(a)], n))} for a in found}
        unsure = {addition for addition in found if self.is_unsure(addition, own[addition])}
        self.attribution.fetch_names(self.place_of(addition).name for addition in unsure)
        for addition in found:
            yield addition, self.again(addition, own[addition]) if addition in unsure else own[addition]

    def place_of(self, addition: Addition) -> Place:
        """The version that an addition is of."""
        return place_of(addition, self.attribution.prefix)

    def is_unsure(self, addition: Addition, labels: Mapping[int, Label]) -> bool:
        """Whether lines of it have no label, or one that a closer look may take away."""
        if any(map(self.attribution.was_observed, labels.values())):
            return True
        place = self.place_of(addition)
        return len(labels) < len(numbers_of(addition.spans)) and self.attribution.may_be_recorded(place)

    def again(self, addition: Addition, labels: Mapping[int, Label]) -> dict[int, Label]:
        """The labels after that closer look; where too many ask for it, those that need none."""
        place = self.place_of(addition)
        texts = self.attribution.lines_named(place.name)
        lines = [GitLine(place, n, n, texts[n - 1]) for n in numbers_of(addition.spans) if n <= len(texts)]
        sure = {number: label for number, label in labels.items() if not self.attribution.was_observed(label)}
        if len(sure) == len(labels) and not is_telling(line.content for line in lines if line.line not in labels):
            return sure
        self.searched += 1
        return sure if self.searched > MOST_SEARCHED else self.blamer.labels(place.path, [place.commit], lines)

    def note(
        self, commit: str, files: Sequence[tuple[Addition, Lines, Lines]], records: Mapping[str, dict[str, Any]]
    ) -> Note:
        """The note of one commit: of each file the lines that are attested, and those that are likely an edit's."""
        attested = [
            Attested(addition.path, tuple(Entry(key, spans_of(numbers)) for key, numbers in lines.items()))
            for addition, lines, _ in files
            if lines
        ]
        likely: dict[str, dict[str, Sequence[Span]]] = {}
        for addition, _, lines in files:
            for key, numbers in lines.items():
                likely.setdefault(key, {})[addition.path] = spans_of(numbers)
        keys = {entry.key for file in attested for entry in file.entries}
        people = {human_key(addition.author): {"author": addition.author} for addition, _, _ in files}
        humans = {key: people[key] for key in sorted(keys & people.keys())}
        sessions = self.sessions(keys, likely, records)
        about: dict[str, Any] = {"schema_version": VERSION, "base_commit_sha": commit, "prompts": {}}
        about |= {"humans": humans} if humans else {}
        about |= {"sessions": sessions} if sessions else {}
        return Note(tuple(attested), about)

    def sessions(
        self,
        keys: set[str],
        likely: Mapping[str, Mapping[str, Sequence[Span]]],
        records: Mapping[str, dict[str, Any]],
    ) -> dict[str, Any]:
        """What the note tells of the sessions that those keys name, and of their `likely` lines."""
        traces: dict[str, dict[str, dict[str, str]]] = {}
        agents: dict[str, dict[str, str]] = {}
        for name in sorted(records):
            key = key_of(records[name], "")
            session, _, trace = (key or "").partition("::")
            if trace and (key in keys or key in likely):
                traces.setdefault(session, {})[trace] = attributes_of_edit(records[name])
                agents.setdefault(session, agent_of(records[name]))
        found: dict[str, Any] = {}
        for session, own in sorted(traces.items()):
            attributes = {**shared_attributes(own), **self.head}
            for trace in sorted(own):
                if lines := likely.get(f"{session}::{trace}"):
                    attributes |= likely_attribute(trace, lines)
            found[session] = {"agent_id": agents[session], **({"custom_attributes": attributes} if attributes else {})}
        return found

    @cached_property
    def head(self) -> dict[str, str]:
        """The newest signed head of the log, as an attribute; nothing where none was signed yet."""
        newest = next((head.note for head in reversed(list(kept_heads(self.blamer.workspace.log_folder)))), None)
        return {LEDGER: newest} if newest else {}

    def lacking(self, wanted: str | None) -> list[str]:
        """The commits that `wanted` names, a commit or a range; None is all that may hold recorded lines.

        Raises GitError.
        """
        git = self.blamer.git
        if wanted is not None:
            return commits_in(git, wanted)
        if self.attribution.recorded_since >= NEVER or git.head() is None:
            return []
        since = datetime.fromtimestamp(self.attribution.recorded_since - SLACK_S, UTC)
        limits = (f"--since={since.isoformat()}", f"--max-count={MOST_COMMITS}")
        return git.text("rev-list", *limits, "HEAD", "--branches").split()


def commits_in(git: Git, wanted: str) -> list[str]:
    """The commits of a range as `main..HEAD`; a single name is that commit alone. Raises GitError."""
    single = () if ".." in wanted or wanted.startswith("^") else ("--no-walk",)
    return git.text("rev-list", *single, "--end-of-options", wanted, "--").split()


def place_of(addition: Addition, prefix: str) -> Place:
    """The version that an addition is of, in a workspace that lies at `prefix` in its repository."""
    previous = f"{addition.parent} {addition.source}" if addition.parent and addition.source else None
    return from_workspace(Place(addition.commit, addition.path, previous, addition.at), prefix)


def keyed(addition: Addition, labels: Mapping[int, Label], records: Mapping[str, dict[str, Any]]) -> Lines:
    """The added lines by the key of who wrote them, in the order of the file."""
    found: Lines = {}
    for number, label in sorted(labels.items()):
        record = records.get(label.record)
        key = key_of(record, addition.author) if record else None
        if key:
            found.setdefault(key, []).append(number)
    return found


def key_of(record: Mapping[str, Any], person: str) -> str | None:
    """The key for what a record put there; None where it says nothing of who did.

    `person` is the commit's author, whom an edit by hand is ascribed to; where it is empty nobody is.
    """
    body: dict[str, Any] = record["metadata"][KEY]
    if body.get("event") == "human_edit":
        return human_key(person) if body.get("origin") == "person" and person else None
    agent = agent_of(record)
    return f"{session_key(agent['tool'], agent['id'])}::{trace_key(str(record['id']))}" if agent["id"] else None


def agent_of(record: Mapping[str, Any]) -> dict[str, str]:
    """The session of a record, in the words of the form."""
    name = str(record.get("tool", {}).get("name") or NOT_KNOWN)
    session = str(record["metadata"][KEY].get("session_id") or "")
    return {"tool": TOOLS.get(name, name), "id": session, "model": model_of(dict(record)) or NOT_KNOWN}


def attributes_of_edit(record: Mapping[str, Any]) -> dict[str, str]:
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


def joined(known: bytes | None, own: Note) -> bytes | None:
    """The note with ours in it: what we said before of the same edits is replaced, what others said stays.

    None where the note that is there is no authorship note: it is not ours to overwrite.
    """
    if known is None:
        return write_note(own).encode()
    try:
        before = parse_note(known.decode())
    except (NotANote, UnicodeError):
        return None
    keys = {file.path: {entry.key for entry in file.entries} for file in own.files}
    others = [(f.path, tuple(e for e in f.entries if e.key not in keys.get(f.path, ()))) for f in before.files]
    kept = Note(tuple(Attested(path, entries) for path, entries in others if entries), before.about)
    return write_note(merged_notes(with_known_heads(own, before), kept)).encode()


def with_known_heads(own: Note, before: Note) -> Note:
    """Our note, with the ledger's head that it had: a later head alone is no reason to write it again."""
    sessions: dict[str, Any] = {}
    for key, session in own.about.get("sessions", {}).items():
        known = author(before, f"{key}::")
        head = known.attributes.get(LEDGER) if known else None
        attributes = {**session.get("custom_attributes", {}), **({LEDGER: head} if head else {})}
        sessions[key] = {**session, **({"custom_attributes": attributes} if attributes else {})}
    return Note(own.files, {**own.about, **({"sessions": sessions} if sessions else {})})
