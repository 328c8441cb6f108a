"""Evidence of authorship in a range of commits: by records, by notes, or missing.

A change is one file in one commit. Lines are the added lines without blank ones. A change that only removes, or adds no
text, has evidence if recorded calls lead from the content before to the content after.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from remit.core.diff.line_spans import expand_spans
from remit.core.formats.authorship_notes import Author
from remit.provenance.blame.blame import Blamer
from remit.provenance.blame.blamed_line import BlamedLine
from remit.provenance.blame.external_authors import NotedLines, grade_of_author
from remit.provenance.blame.imported_records import ImportedLines
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
"""Strongest first. Records are local, or from a log signed by a trusted key."""

CommitAndPath: TypeAlias = tuple[str, str]
"""A commit, and a path from the workspace's root."""


class EvidenceCount(Struct):
    """Number of items by evidence."""

    total: int = 0
    records: int = 0
    notes: int = 0
    nothing: int = 0
    likely: int = 0
    """Items by records that are only likely their call's."""

    def add(self, source: EvidenceSource, count: int = 1) -> None:
        self.total += count
        setattr(self, source, getattr(self, source) + count)

    @property
    def percent(self) -> float:
        """Share with evidence; 100 if there are no items."""
        return 100 * (self.total - self.nothing) / self.total if self.total else 100.0


class MissingEvidence(Struct, frozen=True):
    """A change, or lines of it, without evidence. `line` is the first line, 0 if the change adds no text."""

    commit: str
    path: str
    line: int
    lines: int


class NotedLine(Struct, frozen=True):
    """The first line of a change that a note or an imported record gives to that author."""

    commit: str
    path: str
    line: int
    author: Author


class RangeEvidence(Struct, frozen=True):
    """Evidence in a range; a change or a file counts by its weakest line."""

    changes: EvidenceCount
    files: EvidenceCount
    lines: EvidenceCount
    missing: tuple[MissingEvidence, ...] = ()
    noted: tuple[NotedLine, ...] = ()

    def suffices(self, percent: float) -> bool:
        return min(self.lines.percent, self.changes.percent) >= percent


class LineSources(Struct):
    """Evidence and external authors of the lines of one change."""

    sources: dict[int, EvidenceSource]
    authors: dict[int, Author]
    likely: frozenset[int] = frozenset()
    """Lines by records that are only likely their call's."""


def measure_evidence(
    git: Git,
    blamer: Blamer,
    commits: Sequence[str],
    added: Sequence[Addition],
    keys: Sequence[bytes],
    grades: Collection[str] = GRADES,
) -> RangeEvidence:
    """Return the evidence for the commits, which added those lines. `keys` are trusted to sign logs; evidence
    outside `grades` is ignored. Raises GitError.
    """
    by_change = dict(find_line_sources(blamer, added, keys, grades))
    evidence = RangeEvidence(EvidenceCount(), EvidenceCount(), EvidenceCount())
    missing: list[MissingEvidence] = []
    files: dict[str, list[EvidenceSource]] = {}
    removed = find_removals(git, blamer, commits, by_change)
    for change, change_sources in [*by_change.items(), *removed]:
        commit, path = change
        weakest = max(change_sources.sources.values(), key=SOURCES.index)
        evidence.changes.add(weakest)
        files.setdefault(path, []).append(weakest)
        for number, source in change_sources.sources.items():
            evidence.lines.add(source, 1 if number else 0)
        evidence.lines.likely += len(change_sources.likely)
        evidence.changes.likely += weakest == RECORDS and bool(change_sources.likely)
        if weakest == "nothing":
            numbers = [number for number, source in change_sources.sources.items() if source == "nothing"]
            missing.append(MissingEvidence(commit, path, min(numbers), sum(map(bool, numbers))))
    for weakest in files.values():
        evidence.files.add(max(weakest, key=SOURCES.index))
    noted = tuple(first_noted_lines(by_change))
    return RangeEvidence(evidence.changes, evidence.files, evidence.lines, tuple(missing), noted)


def find_line_sources(
    blamer: Blamer, added: Sequence[Addition], keys: Sequence[bytes], grades: Collection[str]
) -> Iterator[tuple[CommitAndPath, LineSources]]:
    """Yield each change that adds text, with the evidence of its lines."""
    attributor = blamer.attributor
    attributed = dict(NoteWriter(blamer).attribute_additions(added)) if attributor.has_records else {}
    versions = {addition: version_of_addition(addition, attributor.prefix) for addition in added}
    attributor.load_named(version.name for version in versions.values())
    records = blamer.load_records(
        attribution.record for attributions in attributed.values() for attribution in attributions.values()
    )
    noted, imported = NotedLines(blamer.workspace), ImportedLines(attributor)
    for addition, version in versions.items():
        if is_shared_log_file(version.path):
            continue
        texts = attributor.lines_of_name(version.name)
        numbers = [n for n in expand_spans(addition.spans) if n <= len(texts) and texts[n - 1].strip()]
        if not numbers:
            continue
        attributions: Mapping[int, Attribution] = attributed.get(addition, {})
        blamed = {
            n: BlamedLine(n, "", "", *blamer.describe_record(attributions[n], records))
            for n in numbers
            if n in attributions
        }
        by_records = {n: line for n, line in blamed.items() if line.origin != "unknown" and line.grade in grades}
        remaining = [GitLine(version, n, n, texts[n - 1]) for n in numbers if n not in by_records]
        by_notes = {
            n: author for n, author in noted.find_authors(remaining).items() if grade_of_author(author) in grades
        }
        by_logs = imported.find_authors([line for line in remaining if line.line not in by_notes], keys)
        sources: dict[int, EvidenceSource] = dict.fromkeys(numbers, NO_EVIDENCE)
        sources.update(dict.fromkeys(by_notes, NOTES))
        sources.update(dict.fromkeys([*by_records, *by_logs], RECORDS))
        yield (
            (version.commit, version.path),
            LineSources(
                sources, {**by_notes, **by_logs}, frozenset(n for n, line in by_records.items() if line.grade == LIKELY)
            ),
        )


def find_removals(
    git: Git, blamer: Blamer, commits: Sequence[str], by_change: Mapping[CommitAndPath, LineSources]
) -> list[tuple[CommitAndPath, LineSources]]:
    """Return the changes that add no text, each as a line 0."""
    removals: list[tuple[CommitAndPath, LineSources]] = []
    for commit, path, before, after in list_changed_contents(git, commits):
        if (commit, path) not in by_change and not is_shared_log_file(path):
            source: EvidenceSource = "records" if calls_between(blamer.attributor, path, before, after) else "nothing"
            removals.append(((commit, path), LineSources({0: source}, {})))
    return removals


def first_noted_lines(by_change: Mapping[CommitAndPath, LineSources]) -> Iterator[NotedLine]:
    """Yield the first line of each agent and intent per change, by external authors."""
    for (commit, path), change_sources in by_change.items():
        seen: set[tuple[str | None, str | None]] = set()
        for number, author in sorted(change_sources.authors.items()):
            key = (author.session, author.attributes.get("remit.intent"))
            if author.kind == "ai" and key not in seen:
                seen.add(key)
                yield NotedLine(commit, path, number, author)


def describe_evidence(evidence: RangeEvidence) -> str:
    parts = [
        f"{counted.total - counted.nothing} of {counted.total} {name}"
        for name, counted in (("lines", evidence.lines), ("changes", evidence.changes), ("files", evidence.files))
    ]
    lines = evidence.lines
    likely = f", of which {lines.likely} likely" if lines.likely else ""
    by = f"by records {lines.records} lines{likely}, by notes {lines.notes}, by nothing {lines.nothing}"
    return f"evidence of who wrote it: {', '.join(parts)} ({by})"
