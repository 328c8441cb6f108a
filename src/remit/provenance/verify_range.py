"""Which records a range of commits is about: those behind the lines that it added, and behind what it took away."""

from collections.abc import Iterator, Sequence
from typing import Any

from remit.core.text import quoted_path
from remit.ledger.index import Index
from remit.provenance.additions import Addition, additions
from remit.provenance.attribution import Attribution
from remit.provenance.elsewhere import at
from remit.provenance.notes import place_of
from remit.provenance.verify_rules import Range, Spot
from remit.workspace.git import Git


def range_of(git: Git, attribution: Attribution, commits: Sequence[str]) -> Range:
    """The records behind lines that those commits added, with the first line of each in each file, and behind the
    contents that they left or took away as a record says. Raises GitError.
    """
    found: dict[str, list[Spot]] = {}
    added = list(additions(git, commits))
    labels = attribution.labels(map(place_of, added))
    for addition in added:
        for record, line in first_lines(addition, labels[place_of(addition)]).items():
            found.setdefault(record, []).append(Spot(addition.commit, addition.path, line))
    for commit, path, before, after in contents_changed(git, commits):
        for record in steps_between(attribution.index, path, before, after):
            if all((spot.commit, spot.path) != (commit, path) for spot in found.get(record, ())):
                found.setdefault(record, []).append(Spot(commit, path, 0))
    return Range(tuple(commits), found, changed_in(git, commits))


def steps_between(index: Index, path: str, before: str, after: str | None) -> Iterator[str]:
    """The recorded changes by which a file came from one content to another, the newest first; `after` is None where
    it was removed. A removal counts where records lead back to the content before.
    """
    changes = [change for change in reversed(index.changes_of(quoted_path(path))) if change.event == "mutation"]
    found: list[str] = []
    wanted = after
    for change in changes:
        if change.after_blob != wanted or change.before_blob is None:
            continue
        found.append(change.id)
        wanted = change.before_blob
        if wanted == before:
            break
    if after is not None or wanted == before:
        yield from found


def contents_changed(git: Git, commits: Sequence[str]) -> Iterator[tuple[str, str, str, str | None]]:
    """(commit, path, blob before, blob after) of the files that those commits changed or removed; not by merges.

    Raises GitError.
    """
    names = "".join(f"{commit}\n" for commit in commits).encode()
    asked = ("diff-tree", "--stdin", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", "--diff-filter=MD")
    fields = git.run(*asked, stdin=names).decode("utf-8", "surrogateescape").split("\0") if commits else []
    commit = about = ""
    for field in fields:
        if about:
            _, _, before, after, kind = about.split(" ")
            yield commit, field, before, None if kind == "D" else after
            about = ""
        elif field.startswith(":"):
            about = field
        else:
            commit = field.strip()


def changed_in(git: Git, commits: Sequence[str]) -> frozenset[str]:
    """The paths that those commits changed or removed. Raises GitError."""
    names = "".join(f"{commit}\n" for commit in commits).encode()
    asked = ("diff-tree", "--stdin", "--root", "-r", "-m", "-z", "--no-commit-id", "--no-renames", "--name-only")
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
