"""Which records a range of commits is about: those behind the lines that it added, and behind what it took away."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Any

from remit.core.own_words import is_strong
from remit.core.text import quoted_path
from remit.ledger.changes import Change
from remit.provenance.notes.additions import Addition
from remit.provenance.notes.notes import place_of
from remit.provenance.origins.attribution import Attribution
from remit.provenance.origins.evidence import at
from remit.provenance.verify.rules import Range, Spot
from remit.workspace.git import Git

IN_WORKSPACE = ("--no-renames", "--relative")
"""Files by their own names, counted from the workspace, and none beside it."""


def range_of(git: Git, attribution: Attribution, commits: Sequence[str], added: Sequence[Addition]) -> Range:
    """The records behind lines that those commits `added`, with the first line of each in each file, and behind the
    contents that they left or took away as records say: who only carried lines there is not behind the lines.

    Raises GitError.
    """
    found: dict[str, list[Spot]] = {}
    places = {addition: place_of(addition, attribution.prefix) for addition in added}
    labels = attribution.labels(places.values())
    for addition, place in places.items():
        for record, line in first_lines(addition, labels[place]).items():
            found.setdefault(record, []).append(Spot(place.commit, place.path, line))
    for commit, path, before, after in contents_changed(git, commits):
        for record in steps_between(attribution, path, before, after):
            if all((spot.commit, spot.path) != (commit, path) for spot in found.get(record, ())):
                found.setdefault(record, []).append(Spot(commit, path, 0))
    return Range(tuple(commits), found, changed_in(git, commits))


def steps_between(attribution: Attribution, path: str, before: str | None, after: str | None) -> list[str]:
    """The recorded calls by which a file came from one content to another, the newest first; None is no file.

    A removal counts where calls lead back to the content before; so does, where all that was recorded leads back
    there, what a person went on from.
    """
    changes = attribution.index.changes_of(quoted_path(path))[::-1]
    called = [change for change in changes if change.event == "mutation"]
    if any(change.after_blob == after for change in called):
        found, first = led_back(called, after, before)
        return [change.id for change in found] if after is not None or first == before else []
    start = went_on_from(attribution, called, before, after)
    found, first = led_back(changes, start, before) if start else ([], None)
    return [change.id for change in found if change.event == "mutation"] if start and first == before else []


def led_back(changes: Iterable[Change], after: str | None, before: str | None) -> tuple[list[Change], str | None]:
    """The changes, of these, that led to the content `after`, and what was there before them: at best `before`."""
    found: list[Change] = []
    for change in changes:
        if change.after_blob != after or change.after_blob == change.before_blob:
            continue
        found.append(change)
        after = change.before_blob
        if after == before:
            break
    return found, after


def went_on_from(
    attribution: Attribution, called: Iterable[Change], before: str | None, after: str | None
) -> str | None:
    """The newest content that a call left, whose own lines are in `after` still; None where there is no such."""
    since = [c for c in takewhile(lambda change: change.after_blob != before, called) if c.after_blob]
    if after is None or not since:
        return None
    attribution.load({blob for change in since for blob in (change.before_blob, change.after_blob, after) if blob})
    strong = set(filter(is_strong, attribution.lines(after) or ()))
    for change in since:
        own = strong.intersection(attribution.lines(change.after_blob) or ())
        if own.difference(attribution.lines(change.before_blob) or ()):
            return change.after_blob
    return None


def contents_changed(git: Git, commits: Sequence[str]) -> Iterator[tuple[str, str, str | None, str | None]]:
    """(commit, path, blob before, blob after) of the files that those commits changed, none where there was no file;
    not by merges.

    Raises GitError.
    """
    names = "".join(f"{commit}\n" for commit in commits).encode()
    asked = ("diff-tree", "--stdin", "--root", "-r", "-z", "--raw", "--no-abbrev", *IN_WORKSPACE, "--diff-filter=AMD")
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


def changed_in(git: Git, commits: Sequence[str]) -> frozenset[str]:
    """The paths that those commits changed or removed. Raises GitError."""
    names = "".join(f"{commit}\n" for commit in commits).encode()
    asked = ("diff-tree", "--stdin", "--root", "-r", "-m", "-z", "--no-commit-id", *IN_WORKSPACE, "--name-only")
    out = git.run(*asked, stdin=names) if commits else b""
    return frozenset(path for path in out.decode("utf-8", "surrogateescape").split("\0") if path)


def first_lines(addition: Addition, labels: Sequence[Any]) -> dict[str, int]:
    """The first line that each record put there, of those that the commit added."""
    found: dict[str, int] = {}
    for start, end in addition.spans:
        for number in range(start, end + 1):
            label = at(labels, number)
            if label is not None:
                found.setdefault(label.record, number)
    return found
