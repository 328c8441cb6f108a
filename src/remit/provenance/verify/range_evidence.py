"""Records and other evidence of authorship behind a range of commits.

A change is a file in a commit. Lines are the added lines without blank lines. A change that only removes, or adds no
text, has evidence if recorded calls lead from the content before to the content after.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Literal, TypeAlias

from msgspec import Struct

from remit.core.diff.contents import expand_spans, is_distinctive_line
from remit.core.formats.authorship_notes import Author
from remit.core.untrusted_input import quote_path
from remit.ledger.file_changes import RecordedChange
from remit.provenance.blame.blame import Blamer
from remit.provenance.blame.blamed_line import BlamedLine
from remit.provenance.blame.claimed_authors import ImportedLines, NotedLines, grade_of_author
from remit.provenance.notes.added_lines import Addition
from remit.provenance.notes.note_writer import NoteWriter, version_of_addition
from remit.provenance.origins.attributor import LineAttributor
from remit.provenance.origins.blame_porcelain import GitLine
from remit.provenance.origins.commits_before_call import parse_raw_changes
from remit.provenance.origins.evidence_grades import GRADES, LIKELY, attribution_at
from remit.provenance.verify.rules import CommitRange, LinePosition
from remit.workspace.git.command import Git
from remit.workspace.sharing.tracked_logs import is_shared_log_file

WORKSPACE_OPTIONS = ("--no-renames", "--relative")  # paths without rename detection, relative to the workspace


def find_range(git: Git, attributor: LineAttributor, commits: Sequence[str], added: Sequence[Addition]) -> CommitRange:
    """Return the records behind the `added` lines, with the first line of each per file, and behind contents that
    the commits left or removed. A record that only copied lines is not behind them. Raises GitError.
    """
    positions_by_record: dict[str, list[LinePosition]] = {}
    versions = {addition: version_of_addition(addition, attributor.prefix) for addition in added}
    attributions = attributor.attribute_versions(versions.values())
    for addition, version in versions.items():
        first_lines: dict[str, int] = {}
        for number in expand_spans(addition.spans):
            if attribution := attribution_at(attributions[version], number):
                first_lines.setdefault(attribution.record, number)
        for record, line in first_lines.items():
            positions_by_record.setdefault(record, []).append(LinePosition(version.commit, version.path, line))
    for commit, path, before, after in list_changed_contents(git, commits):
        for record in calls_between(attributor, path, before, after):
            positions = positions_by_record.setdefault(record, [])
            if all((position.commit, position.path) != (commit, path) for position in positions):
                positions.append(LinePosition(commit, path, 0))
    # The paths that those commits changed or removed, merges included.
    names = "".join(f"{commit}\n" for commit in commits).encode()
    command = ("diff-tree", "--stdin", "--root", "-r", "-m", "-z", "--no-commit-id", *WORKSPACE_OPTIONS, "--name-only")
    output = git.run(*command, stdin=names) if commits else b""
    paths = frozenset(path for path in output.decode("utf-8", "surrogateescape").split("\0") if path)
    return CommitRange(tuple(commits), positions_by_record, paths)


def calls_between(attributor: LineAttributor, path: str, before: str | None, after: str | None) -> list[str]:
    """Return the recorded calls from a content to a later content, newest first; None means no file. A removal counts
    if calls lead back to the content before. If a person continued from a call's content, the calls before count too.
    """
    changes = attributor.index.list_changes(quote_path(path))[::-1]
    calls = [change for change in changes if change.event == "mutation"]
    if any(change.after_blob == after for change in calls):
        chain, first = trace_back(calls, after, before)
        return [change.id for change in chain] if after is not None or first == before else []
    start = content_continued_from(attributor, calls, before, after)
    chain, first = trace_back(changes, start, before) if start else ([], None)
    return [change.id for change in chain if change.event == "mutation"] if start and first == before else []


def trace_back(
    changes: Iterable[RecordedChange], after: str | None, before: str | None
) -> tuple[list[RecordedChange], str | None]:
    chain: list[RecordedChange] = []
    for change in changes:
        if change.after_blob != after or change.after_blob == change.before_blob:
            continue
        chain.append(change)
        after = change.before_blob
        if after == before:
            break
    return chain, after


def content_continued_from(
    attributor: LineAttributor, calls: Iterable[RecordedChange], before: str | None, after: str | None
) -> str | None:
    later = [c for c in takewhile(lambda change: change.after_blob != before, calls) if c.after_blob]
    if after is None or not later:
        return None
    attributor.load_contents([after, *(blob for c in later for blob in (c.before_blob, c.after_blob))])
    distinctive = set(filter(is_distinctive_line, attributor.lines_of(after) or ()))
    for change in later:
        own = distinctive.intersection(attributor.lines_of(change.after_blob) or ())
        if own.difference(attributor.lines_of(change.before_blob) or ()):
            return change.after_blob
    return None


def list_changed_contents(git: Git, commits: Sequence[str]) -> Iterator[tuple[str, str, str | None, str | None]]:
    """Yield (commit, path, blob before, blob after), None for no file, without merges. Raises GitError."""
    if not commits:
        return
    names = "".join(f"{commit}\n" for commit in commits).encode()
    options = ("--stdin", "--root", "-r", "-z", "--raw", "--no-abbrev", *WORKSPACE_OPTIONS, "--diff-filter=AMD")
    for change in parse_raw_changes(git.run("diff-tree", *options, stdin=names)):
        before, after = change.before, change.after
        yield change.mark, change.path, None if change.kind == "A" else before, None if change.kind == "D" else after


EvidenceSource: TypeAlias = Literal["records", "notes", "nothing"]
SOURCES: tuple[EvidenceSource, ...] = ("records", "notes", "nothing")
"""Strongest first. Records are local, or from a log signed by a trusted key."""

CommitAndPath: TypeAlias = tuple[str, str]  # a commit, and a path from the workspace's root


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
    everything = dict(by_change)
    for commit, path, before, after in list_changed_contents(git, commits):
        # A change that adds no text is a line 0.
        if (commit, path) not in by_change and not is_shared_log_file(path):
            calls = calls_between(blamer.attributor, path, before, after)
            everything[commit, path] = LineSources({0: "records" if calls else "nothing"}, {})
    changes, counted_files, lines = EvidenceCount(), EvidenceCount(), EvidenceCount()
    missing: list[MissingEvidence] = []
    files: dict[str, list[EvidenceSource]] = {}
    for (commit, path), found in everything.items():
        weakest = max(found.sources.values(), key=SOURCES.index)
        files.setdefault(path, []).append(weakest)
        for number, source in found.sources.items():
            lines.add(source, 1 if number else 0)
        lines.likely += len(found.likely)
        changes.add(weakest)
        changes.likely += weakest == "records" and bool(found.likely)
        if weakest == "nothing":
            numbers = [number for number, source in found.sources.items() if source == "nothing"]
            missing.append(MissingEvidence(commit, path, min(numbers), sum(map(bool, numbers))))
    for sources in files.values():
        counted_files.add(max(sources, key=SOURCES.index))
    return RangeEvidence(changes, counted_files, lines, tuple(missing), tuple(first_noted_lines(by_change)))


def find_line_sources(
    blamer: Blamer, added: Sequence[Addition], keys: Sequence[bytes], grades: Collection[str]
) -> Iterator[tuple[CommitAndPath, LineSources]]:
    attributor = blamer.attributor
    attributed = dict(NoteWriter(blamer).attribute_additions(added)) if attributor.has_records else {}
    versions = {addition: version_of_addition(addition, attributor.prefix) for addition in added}
    attributor.load_named(version.name for version in versions.values())
    records = blamer.load_records(found.record for by_line in attributed.values() for found in by_line.values())
    noted, imported = NotedLines(blamer.workspace), ImportedLines(attributor, keys)
    for addition, version in versions.items():
        texts = attributor.lines_of_name(version.name)
        numbers = [n for n in expand_spans(addition.spans) if n <= len(texts) and texts[n - 1].strip()]
        if not numbers or is_shared_log_file(version.path):
            continue
        attributions = {n: found for n, found in attributed.get(addition, {}).items() if n in numbers}
        blamed = {n: BlamedLine(n, "", "", *blamer.describe_record(a, records)) for n, a in attributions.items()}
        by_records = {n: line for n, line in blamed.items() if line.origin != "unknown" and line.grade in grades}
        remaining = [GitLine(version, n, n, texts[n - 1]) for n in numbers if n not in by_records]
        by_notes = {n: a for n, a in noted.find_authors(remaining).items() if grade_of_author(a) in grades}
        by_logs = imported.find_authors([line for line in remaining if line.line not in by_notes])
        sources: dict[int, EvidenceSource] = dict.fromkeys(numbers, "nothing")
        sources.update(dict.fromkeys(by_notes, "notes"))
        sources.update(dict.fromkeys([*by_records, *by_logs], "records"))
        likely = frozenset(n for n, line in by_records.items() if line.grade == LIKELY)
        yield (version.commit, version.path), LineSources(sources, {**by_notes, **by_logs}, likely)


def first_noted_lines(by_change: Mapping[CommitAndPath, LineSources]) -> Iterator[NotedLine]:
    for (commit, path), change_sources in by_change.items():
        seen: set[tuple[str | None, str | None]] = set()
        for number, author in sorted(change_sources.authors.items()):
            key = (author.session, author.attributes.get("remit.intent"))
            if author.kind == "ai" and key not in seen:
                seen.add(key)
                yield NotedLine(commit, path, number, author)


def describe_evidence(evidence: RangeEvidence) -> str:
    counts = (("lines", evidence.lines), ("changes", evidence.changes), ("files", evidence.files))
    parts = [f"{counted.total - counted.nothing} of {counted.total} {name}" for name, counted in counts]
    lines = evidence.lines
    likely = f", of which {lines.likely} likely" if lines.likely else ""
    by = f"by records {lines.records} lines{likely}, by notes {lines.notes}, by nothing {lines.nothing}"
    return f"evidence of who wrote it: {', '.join(parts)} ({by})"
