"""Which commits were there before a call began: what one of them holds, that call did not write.

Dates say nothing: whoever commits may choose them. Records say where HEAD stood, and git says what that reaches.

The contents that files had in git's history: each set of paths is asked about once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from remit.core.record import KEY
from remit.ledger.file_changes import RecordedChange
from remit.ledger.index.index import Index
from remit.provenance.origins.blame_porcelain import FileVersion
from remit.workspace.git.command import Git, GitError

MAX_COMMITS = 20_000
"""Commits since the first record that are looked through; with more, nothing is said."""

USE_LIMITS = (2, 50)
"""Calls of a session, the newest first, among which one is looked for, and where it is none of the first ones."""

CommitPath: TypeAlias = tuple[str, str]
"""A commit, and a path in which calls that may have begun later changed something."""


def calls_begun_after_commit(
    git: Git, index: Index, asked: Mapping[CommitPath, Sequence[RecordedChange]]
) -> dict[CommitPath, frozenset[str]]:
    """The records of those calls that began when the commit was there."""
    calls = {change.id: change for changes in asked.values() for change in changes}
    began = {name: head for name, call in calls.items() if (head := head_before_change(index, call))}
    first = first_recorded_head(index)
    if first is None or not began:
        return {}
    parents = parents_since(git, first, {commit for commit, _ in asked} | set(began.values()))
    if parents is None:
        return {}
    reached = {head: ancestors_of(head, parents) for head in set(began.values())}
    return {
        (commit, path): frozenset(
            change.id
            for change in changes
            if change.id in began and (commit not in parents or commit in reached[began[change.id]])
        )
        for (commit, path), changes in asked.items()
    }


def head_before_change(index: Index, change: RecordedChange) -> str | None:
    """Where HEAD stood when the change's call was let through: the call itself may have committed."""
    documents = index.find_by_id_prefix(change.id)
    return head_at_call(index, documents[0]) if documents else None


def head_at_call(index: Index, document: dict[str, Any]) -> str | None:
    """Where HEAD stood when the call of a record was let through; None where that is not known."""
    wanted = call_identity(body_part(document, "call"))
    session, at = document["metadata"][KEY].get("session_id"), str(document["timestamp"])
    for most in USE_LIMITS if any(wanted) else ():
        uses = index.find(event="tool_use", session_id=session, until=at, limit=most)
        if found := next((use for use in uses if call_identity(body_part(use, "call")) == wanted), None):
            return recorded_head(found)
    return None


def call_identity(call: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a call is known again by: its id, or what it was given, where the agent gives none."""
    return (call["id"],) if call.get("id") else (call.get("name"), call.get("arguments_sha256"))


def first_recorded_head(index: Index) -> str | None:
    """Where HEAD stood before the first change was recorded."""
    first = index.find_first_change_time()
    found = index.find(until=first, limit=1) if first else []
    return head_at_call(index, found[0]) or recorded_head(found[0]) if found else None


def recorded_head(document: dict[str, Any]) -> str | None:
    """The commit that a record names as checked out."""
    return document.get("vcs", {}).get("revision")


def body_part(document: dict[str, Any], name: str) -> dict[str, Any]:
    """A part of a record's body."""
    return document["metadata"][KEY].get(name) or {}


def parents_since(git: Git, first: str, commits: Iterable[str]) -> dict[str, list[str]] | None:
    """Those commits and all behind them, with their parents, less what `first` reaches; None where git cannot tell."""
    asked = "".join(f"{commit}\n" for commit in (*sorted(commits), f"^{first}"))
    words = ("--parents", f"--max-count={MAX_COMMITS}", "--stdin")
    try:
        rows = [row.split() for row in git.run("rev-list", *words, stdin=asked.encode()).decode().splitlines()]
    except GitError:
        return None
    return {row[0]: row[1:] for row in rows} if len(rows) < MAX_COMMITS else None


def ancestors_of(commit: str, parents: Mapping[str, Iterable[str]]) -> set[str]:
    """The commit and all behind it."""
    found, waiting = set[str](), [commit]
    while waiting:
        one = waiting.pop()
        if one in parents and one not in found:
            found.add(one)
            waiting += parents[one]
    return found


def backdated_query(index: Index, at: float) -> tuple[str, ...] | None:
    """How git is asked for the commits behind HEAD that say they are older than `at`, and that no commit reaches that
    was there before the first record.
    """
    first = first_recorded_head(index)
    return ("rev-list", f"--max-count={MAX_COMMITS}", f"--min-age={int(at)}", "HEAD", f"^{first}") if first else None


def find_backdated_commits(git: Git, words: Sequence[str] | None) -> frozenset[str]:
    """Those commits."""
    try:
        return frozenset(git.text(*words).split()) if words else frozenset()
    except GitError:
        return frozenset()


ContentChange = tuple[str, str, str]
"""Commit, path and blob of one change."""


class PastContents:
    """What git's log tells of paths in one repository."""

    def __init__(self, git: Git) -> None:
        self.git = git
        self.logs: dict[frozenset[str], tuple[ContentChange, ...]] = {}

    def contents_before(self, versions: Sequence[FileVersion]) -> Mapping[FileVersion, frozenset[str]]:
        """The contents that those files had before those versions: one git for all."""
        asked = frozenset(place.path for place in versions)
        if asked and asked not in self.logs:
            self.logs[asked] = self.content_changes(asked)
        return {place: frozenset(older_contents(self.logs[asked], place)) for place in versions}

    def content_changes(self, paths: Iterable[str]) -> tuple[ContentChange, ...]:
        """Each change of those paths, the newest first; none where git says no."""
        words = ("--topo-order", "--format=%x01%H", "--raw", "--no-abbrev", "--no-renames", "--diff-filter=AM", "-z")
        try:
            out = self.git.run("log", *words, "--", *paths)
        except GitError:
            return ()
        return tuple(parse_raw_log(out.decode("utf-8", "surrogateescape")))


def parse_raw_log(output: str) -> Iterator[ContentChange]:
    """The changes in `git log --format=%x01%H --raw -z`, the newest first."""
    commit = about = ""
    for field in output.split("\0"):
        if field.startswith("\1"):
            commit = field[1:]
        elif field.lstrip("\n").startswith(":") and not about:
            about = field
        elif about:
            yield commit, field, about.split(" ")[3]
            about = ""


def older_contents(rows: Sequence[ContentChange], version: FileVersion) -> Iterator[str]:
    """The contents that the file of `place` had before that version."""
    own = version.path_in_tree
    start = next((n + 1 for n, (commit, path, _) in enumerate(rows) if (commit, path) == (version.commit, own)), 0)
    return (blob for _, path, blob in rows[start:] if path == own)
