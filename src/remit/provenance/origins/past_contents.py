"""The contents that files had in git's history: each set of paths is asked about once."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from remit.provenance.origins.porcelain import Place
from remit.workspace.git import Git, GitError

Row = tuple[str, str, str]
"""Commit, path and blob of one change."""


class PastContents:
    """What git's log tells of paths in one repository."""

    def __init__(self, git: Git) -> None:
        self.git = git
        self.logs: dict[frozenset[str], tuple[Row, ...]] = {}

    def before(self, places: Sequence[Place]) -> Mapping[Place, frozenset[str]]:
        """The contents that those files had before those versions: one git for all."""
        asked = frozenset(place.path for place in places)
        if asked and asked not in self.logs:
            self.logs[asked] = self.changes_of(asked)
        return {place: frozenset(older(self.logs[asked], place)) for place in places}

    def changes_of(self, paths: Iterable[str]) -> tuple[Row, ...]:
        """Each change of those paths, the newest first; none where git says no."""
        words = ("--topo-order", "--format=%x01%H", "--raw", "--no-abbrev", "--no-renames", "--diff-filter=AM", "-z")
        try:
            out = self.git.run("log", *words, "--", *paths)
        except GitError:
            return ()
        return tuple(rows_of(out.decode("utf-8", "surrogateescape")))


def rows_of(out: str) -> Iterator[Row]:
    """The changes in `git log --format=%x01%H --raw -z`, the newest first."""
    commit = about = ""
    for field in out.split("\0"):
        if field.startswith("\1"):
            commit = field[1:]
        elif field.lstrip("\n").startswith(":") and not about:
            about = field
        elif about:
            yield commit, field, about.split(" ")[3]
            about = ""


def older(rows: Sequence[Row], place: Place) -> Iterator[str]:
    """The contents that the file of `place` had before that version."""
    own = place.in_tree
    start = next((n + 1 for n, (commit, path, _) in enumerate(rows) if (commit, path) == (place.commit, own)), 0)
    return (blob for _, path, blob in rows[start:] if path == own)
