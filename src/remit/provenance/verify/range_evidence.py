"""How much of a range of commits has evidence of who made it: by records, by notes, or by nothing.

A change is one file in one commit. Lines are those that the commit added, without blank ones. A change that only
removes, or adds no text, has evidence where recorded calls lead from the content before to the one after.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from remit.core.diff.line_spans import expand_spans
from remit.core.formats.authorship_notes import Author
from remit.provenance.blame.blame import Blamer
from remit.provenance.blame.blamed_line import BlamedLine
from remit.provenance.blame.external_authors import NotedLines, grade_of_author
from remit.provenance.blame.imported_lines import ImportedLines
from remit.provenance.notes.added_lines import Addition
from remit.provenance.notes.note_writer import NoteWriter, version_of_addition
from remit.provenance.origins.blame_porcelain import GitLine
from remit.provenance.origins.evidence import GRADES, LIKELY, Attribution
from remit.provenance.verify.commit_range import calls_between, list_changed_contents
from remit.workspace.git.command import Git
from remit.workspace.sharing.tracked_logs import is_shared_log_file

EvidenceSource: TypeAlias = Literal["records", "notes", "nothing"]
RECORDS: EvidenceSource = "records"
NOTES: EvidenceSource = "notes"
NO_EVIDENCE: EvidenceSource = "nothing"
SOURCES = (RECORDS, NOTES, NO_EVIDENCE)
"""Strongest first. Records are this machine's, or of a log that a trusted key signed."""

CommitAndPath: TypeAlias = tuple[str, str]
"""A commit, and a path from the workspace's root."""


class EvidenceCount(Struct):
    """How many there are, and how many have which evidence."""

    total: int = 0
    records: int = 0
    notes: int = 0
    nothing: int = 0
    likely: int = 0
    """Of those by records, how many are only likely their call's."""

    def add(self, source: EvidenceSource, count: int = 1) -> None:
        """Count some with that evidence."""
        self.total += count
        setattr(self, source, getattr(self, source) + count)

    @property
    def percent(self) -> float:
        """The share with evidence; 100 where there is nothing that needs any."""
        return 100 * (self.total - self.nothing) / self.total if self.total else 100.0


class MissingEvidence(Struct, frozen=True):
    """A change, or lines of it, without evidence. `line` is the first of them, 0 where the change adds no text."""

    commit: str
    path: str
    line: int
    lines: int


class NotedLine(Struct, frozen=True):
    """The first line of a change that a note, or an imported record, gives to that author."""

    commit: str
    path: str
    line: int
    author: Author


class RangeEvidence(Struct, frozen=True):
    """The evidence of a range; a change or a file counts by the weakest evidence of its lines."""

    changes: EvidenceCount
    files: EvidenceCount
    lines: EvidenceCount
    missing: tuple[MissingEvidence, ...] = ()
    noted: tuple[NotedLine, ...] = ()

    def suffices(self, percent: float) -> bool:
        """Whether so many per cent of the lines, and of the changes, have evidence."""
        return min(self.lines.percent, self.changes.percent) >= percent


class LineSources(Struct):
    """The lines of one change by their evidence, and the authors that notes name."""

    sources: dict[int, EvidenceSource]
    authors: dict[int, Author]
    likely: frozenset[int] = frozenset()
    """The lines by records that are only likely their call's."""


def measure_evidence(
    git: Git,
    blamer: Blamer,
    commits: Sequence[str],
    added: Sequence[Addition],
    keys: Sequence[bytes],
    grades: Collection[str] = GRADES,
) -> RangeEvidence:
    """The evidence of those commits, which added those lines. `keys` are trusted to sign logs; records and notes of
    other `grades` are none. Raises GitError.
    """
    by_change = dict(find_line_sources(blamer, added, keys, grades))
    found = RangeEvidence(EvidenceCount(), EvidenceCount(), EvidenceCount())
    missing: list[MissingEvidence] = []
    files: dict[str, list[EvidenceSource]] = {}
    removed = find_removals(git, blamer, commits, by_change)
    for change, known in [*by_change.items(), *removed]:
        commit, path = change
        weakest = max(known.sources.values(), key=SOURCES.index)
        found.changes.add(weakest)
        files.setdefault(path, []).append(weakest)
        for number, source in known.sources.items():
            found.lines.add(source, 1 if number else 0)
        found.lines.likely += len(known.likely)
        found.changes.likely += weakest == RECORDS and bool(known.likely)
        if weakest == "nothing":
            without = [number for number, source in known.sources.items() if source == "nothing"]
            missing.append(MissingEvidence(commit, path, min(without), sum(map(bool, without))))
    for weakest in files.values():
        found.files.add(max(weakest, key=SOURCES.index))
    noted = tuple(first_noted_lines(by_change))
    return RangeEvidence(found.changes, found.files, found.lines, tuple(missing), noted)


def find_line_sources(
    blamer: Blamer, added: Sequence[Addition], keys: Sequence[bytes], grades: Collection[str]
) -> Iterator[tuple[CommitAndPath, LineSources]]:
    """Each change that adds text, with the evidence of each line of it that holds text."""
    attributor = blamer.attributor
    known = dict(NoteWriter(blamer).attribute_additions(added)) if attributor.has_records else {}
    places = {addition: version_of_addition(addition, attributor.prefix) for addition in added}
    attributor.load_named(place.name for place in places.values())
    records = blamer.load_records(label.record for labels in known.values() for label in labels.values())
    noted, shared = NotedLines(blamer.workspace), ImportedLines(attributor)
    for addition, place in places.items():
        if is_shared_log_file(place.path):
            continue
        texts = attributor.lines_of_name(place.name)
        numbers = [n for n in expand_spans(addition.spans) if n <= len(texts) and texts[n - 1].strip()]
        if not numbers:
            continue
        labels: Mapping[int, Attribution] = known.get(addition, {})
        told = {n: BlamedLine(n, "", "", *blamer.describe_record(labels[n], records)) for n in numbers if n in labels}
        sure = {n: line for n, line in told.items() if line.origin != "unknown" and line.grade in grades}
        rest = [GitLine(place, n, n, texts[n - 1]) for n in numbers if n not in sure]
        by_notes = {n: who for n, who in noted.find_authors(rest).items() if grade_of_author(who) in grades}
        by_logs = shared.find_authors([line for line in rest if line.line not in by_notes], keys)
        sources: dict[int, EvidenceSource] = dict.fromkeys(numbers, NO_EVIDENCE)
        sources.update(dict.fromkeys(by_notes, NOTES))
        sources.update(dict.fromkeys([*sure, *by_logs], RECORDS))
        yield (
            (place.commit, place.path),
            LineSources(
                sources, {**by_notes, **by_logs}, frozenset(n for n, line in sure.items() if line.grade == LIKELY)
            ),
        )


def find_removals(
    git: Git, blamer: Blamer, commits: Sequence[str], by_change: Mapping[CommitAndPath, LineSources]
) -> list[tuple[CommitAndPath, LineSources]]:
    """The changes that add no text, each as a line 0."""
    found: list[tuple[CommitAndPath, LineSources]] = []
    for commit, path, before, after in list_changed_contents(git, commits):
        if (commit, path) not in by_change and not is_shared_log_file(path):
            source: EvidenceSource = "records" if calls_between(blamer.attributor, path, before, after) else "nothing"
            found.append(((commit, path), LineSources({0: source}, {})))
    return found


def first_noted_lines(by_change: Mapping[CommitAndPath, LineSources]) -> Iterator[NotedLine]:
    """For each change the first line of each agent's, under each intent, that others tell of."""
    for (commit, path), known in by_change.items():
        seen: set[tuple[str | None, str | None]] = set()
        for number, author in sorted(known.authors.items()):
            key = (author.session, author.attributes.get("remit.intent"))
            if author.kind == "ai" and key not in seen:
                seen.add(key)
                yield NotedLine(commit, path, number, author)


def describe_evidence(evidence: RangeEvidence) -> str:
    """The evidence, for people."""
    parts = [
        f"{counted.total - counted.nothing} of {counted.total} {name}"
        for name, counted in (("lines", evidence.lines), ("changes", evidence.changes), ("files", evidence.files))
    ]
    lines = evidence.lines
    likely = f", of which {lines.likely} likely" if lines.likely else ""
    by = f"by records {lines.records} lines{likely}, by notes {lines.notes}, by nothing {lines.nothing}"
    return f"evidence of who wrote it: {', '.join(parts)} ({by})"
