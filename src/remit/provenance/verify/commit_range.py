"""Which records a range of commits is about: those behind the lines that it added, and behind what it took away."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Any

from remit.core.diff.distinctive_lines import is_distinctive_line
from remit.core.display_text import quote_path
from remit.ledger.file_changes import RecordedChange
from remit.provenance.notes.added_lines import Addition
from remit.provenance.notes.note_writer import version_of_addition
from remit.provenance.origins.attributor import LineAttributor
from remit.provenance.origins.evidence import attribution_at
from remit.provenance.verify.rules import CommitRange, LinePosition
from remit.workspace.git.command import Git

WORKSPACE_OPTIONS = ("--no-renames", "--relative")
"""Files by their own names, counted from the workspace, and none beside it."""


def find_range(git: Git, attributor: LineAttributor, commits: Sequence[str], added: Sequence[Addition]) -> CommitRange:
    """The records behind lines that those commits `added`, with the first line of each in each file, and behind the
    contents that they left or took away as records say: who only carried lines there is not behind the lines.

    Raises GitError.
    """
    found: dict[str, list[LinePosition]] = {}
    places = {addition: version_of_addition(addition, attributor.prefix) for addition in added}
    labels = attributor.attribute_versions(places.values())
    for addition, place in places.items():
        for record, line in first_lines_by_record(addition, labels[place]).items():
            found.setdefault(record, []).append(LinePosition(place.commit, place.path, line))
    for commit, path, before, after in list_changed_contents(git, commits):
        for record in calls_between(attributor, path, before, after):
            if all((spot.commit, spot.path) != (commit, path) for spot in found.get(record, ())):
                found.setdefault(record, []).append(LinePosition(commit, path, 0))
    return CommitRange(tuple(commits), found, list_changed_paths(git, commits))


def calls_between(attributor: LineAttributor, path: str, before: str | None, after: str | None) -> list[str]:
    """The recorded calls by which a file came from one content to another, the newest first; None is no file.

    A removal counts where calls lead back to the content before; so does, where all that was recorded leads back
    there, what a person went on from.
    """
    changes = attributor.index.list_changes(quote_path(path))[::-1]
    called = [change for change in changes if change.event == "mutation"]
    if any(change.after_blob == after for change in called):
        found, first = trace_back(called, after, before)
        return [change.id for change in found] if after is not None or first == before else []
    start = content_continued_from(attributor, called, before, after)
    found, first = trace_back(changes, start, before) if start else ([], None)
    return [change.id for change in found if change.event == "mutation"] if start and first == before else []


def trace_back(
    changes: Iterable[RecordedChange], after: str | None, before: str | None
) -> tuple[list[RecordedChange], str | None]:
    """The changes, of these, that led to the content `after`, and what was there before them: at best `before`."""
    found: list[RecordedChange] = []
    for change in changes:
        if change.after_blob != after or change.after_blob == change.before_blob:
            continue
        found.append(change)
        after = change.before_blob
        if after == before:
            break
    return found, after


def content_continued_from(
    attributor: LineAttributor, called: Iterable[RecordedChange], before: str | None, after: str | None
) -> str | None:
    """The newest content that a call left, whose own lines are in `after` still; None where there is no such."""
    since = [c for c in takewhile(lambda change: change.after_blob != before, called) if c.after_blob]
    if after is None or not since:
        return None
    attributor.load_contents(
        {blob for change in since for blob in (change.before_blob, change.after_blob, after) if blob}
    )
    strong = set(filter(is_distinctive_line, attributor.lines_of(after) or ()))
    for change in since:
        own = strong.intersection(attributor.lines_of(change.after_blob) or ())
        if own.difference(attributor.lines_of(change.before_blob) or ()):
            return change.after_blob
    return None


def list_changed_contents(git: Git, commits: Sequence[str]) -> Iterator[tuple[str, str, str | None, str | None]]:
    """(commit, path, blob before, blob after) of the files that those commits changed, none where there was no file;
    not by merges.

    Raises GitError.
    """
    names = "".join(f"{commit}\n" for commit in commits).encode()
    asked = (
        "diff-tree",
        "--stdin",
        "--root",
        "-r",
        "-z",
        "--raw",
        "--no-abbrev",
        *WORKSPACE_OPTIONS,
        "--diff-filter=AMD",
    )
    fields = git.run(*asked, stdin=names).decode("utf-8", "surrogateescape").split("\0") if commits else []
    commit = about = ""
    for field in fields:
        if about:
            _, _, before, after, kind = about.split(" ")
            yield commit, field, None if kind == "A" else before, None if kind == "D" else after
            about = ""
        elif field.startswith(":"):
            about = field
        else:
            commit = field.strip()


def list_changed_paths(git: Git, commits: Sequence[str]) -> frozenset[str]:
    """The paths that those commits changed or removed. Raises GitError."""
    names = "".join(f"{commit}\n" for commit in commits).encode()
    asked = ("diff-tree", "--stdin", "--root", "-r", "-m", "-z", "--no-commit-id", *WORKSPACE_OPTIONS, "--name-only")
    out = git.run(*asked, stdin=names) if commits else b""
    return frozenset(path for path in out.decode("utf-8", "surrogateescape").split("\0") if path)


def first_lines_by_record(addition: Addition, attributions: Sequence[Any]) -> dict[str, int]:
    """The first line that each record put there, of those that the commit added."""
    found: dict[str, int] = {}
    for start, end in addition.spans:
        for number in range(start, end + 1):
            label = attribution_at(attributions, number)
            if label is not None:
                found.setdefault(label.record, number)
    return found
