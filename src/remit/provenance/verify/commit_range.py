"""Records behind a range of commits: of the added lines and of the removed contents."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Any

from remit.core.diff.distinctive_lines import is_distinctive_line
from remit.core.display_text import quote_path
from remit.ledger.file_changes import RecordedChange
from remit.provenance.notes.added_lines import Addition
from remit.provenance.notes.note_writer import version_of_addition
from remit.provenance.origins.attributor import LineAttributor
from remit.provenance.origins.commits_before_call import parse_raw_changes
from remit.provenance.origins.evidence import attribution_at
from remit.provenance.verify.rules import CommitRange, LinePosition
from remit.workspace.git.command import Git

WORKSPACE_OPTIONS = ("--no-renames", "--relative")
"""Paths without rename detection, relative to the workspace."""


def find_range(git: Git, attributor: LineAttributor, commits: Sequence[str], added: Sequence[Addition]) -> CommitRange:
    """Return the records behind the `added` lines, with the first line of each per file, and behind contents that
    the commits left or removed. A record that only copied lines is not behind them. Raises GitError.
    """
    positions_by_record: dict[str, list[LinePosition]] = {}
    versions = {addition: version_of_addition(addition, attributor.prefix) for addition in added}
    attributions = attributor.attribute_versions(versions.values())
    for addition, version in versions.items():
        for record, line in first_lines_by_record(addition, attributions[version]).items():
            positions_by_record.setdefault(record, []).append(LinePosition(version.commit, version.path, line))
    for commit, path, before, after in list_changed_contents(git, commits):
        for record in calls_between(attributor, path, before, after):
            if all(
                (position.commit, position.path) != (commit, path) for position in positions_by_record.get(record, ())
            ):
                positions_by_record.setdefault(record, []).append(LinePosition(commit, path, 0))
    return CommitRange(tuple(commits), positions_by_record, list_changed_paths(git, commits))


def calls_between(attributor: LineAttributor, path: str, before: str | None, after: str | None) -> list[str]:
    """Return the recorded calls that turned one content into another, newest first; None means no file.

    A removal counts if calls lead back to the content before. If a person continued from a call's content, the calls
    before count too.
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
    """Return the changes that led to `after`, and the content before them, at best `before`."""
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
    """Return the newest content of a call with distinctive own lines still in `after`."""
    later = [c for c in takewhile(lambda change: change.after_blob != before, calls) if c.after_blob]
    if after is None or not later:
        return None
    attributor.load_contents(
        {blob for change in later for blob in (change.before_blob, change.after_blob, after) if blob}
    )
    distinctive = set(filter(is_distinctive_line, attributor.lines_of(after) or ()))
    for change in later:
        own = distinctive.intersection(attributor.lines_of(change.after_blob) or ())
        if own.difference(attributor.lines_of(change.before_blob) or ()):
            return change.after_blob
    return None


def list_changed_contents(git: Git, commits: Sequence[str]) -> Iterator[tuple[str, str, str | None, str | None]]:
    """Yield (commit, path, blob before, blob after) of the changed files, with None for no file; merges are left
    out. Raises GitError.
    """
    if not commits:
        return
    names = "".join(f"{commit}\n" for commit in commits).encode()
    options = ("--stdin", "--root", "-r", "-z", "--raw", "--no-abbrev", *WORKSPACE_OPTIONS, "--diff-filter=AMD")
    for change in parse_raw_changes(git.run("diff-tree", *options, stdin=names)):
        before, after = change.before, change.after
        yield change.mark, change.path, None if change.kind == "A" else before, None if change.kind == "D" else after


def list_changed_paths(git: Git, commits: Sequence[str]) -> frozenset[str]:
    """Return the paths that those commits changed or removed. Raises GitError."""
    names = "".join(f"{commit}\n" for commit in commits).encode()
    command = ("diff-tree", "--stdin", "--root", "-r", "-m", "-z", "--no-commit-id", *WORKSPACE_OPTIONS, "--name-only")
    output = git.run(*command, stdin=names) if commits else b""
    return frozenset(path for path in output.decode("utf-8", "surrogateescape").split("\0") if path)


def first_lines_by_record(addition: Addition, attributions: Sequence[Any]) -> dict[str, int]:
    """Return by record the first added line of the record."""
    first_lines: dict[str, int] = {}
    for start, end in addition.spans:
        for number in range(start, end + 1):
            attribution = attribution_at(attributions, number)
            if attribution is not None:
                first_lines.setdefault(attribution.record, number)
    return first_lines
