"""Commits that existed before a call began, and contents that existed before a version.

A call did not write a line of a commit older than the call. Commit dates prove nothing, because committers choose them;
the records name HEAD at the time, and git tells which commits HEAD reaches.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from remit.core.record import KEY
from remit.ledger.file_changes import RecordedChange
from remit.ledger.index.index import Index
from remit.provenance.origins.blame_porcelain import FileVersion
from remit.workspace.git.command import Git, GitError

MAX_COMMITS = 20_000
"""Commits since the first record that are searched; with more, the answer is empty."""

USE_LIMITS = (2, 50)
"""Numbers of calls of a session, newest first, among which a call is searched: first few, then more."""

CommitPath: TypeAlias = tuple[str, str]
"""A commit, and a path changed by calls that may have begun later."""


def calls_begun_after_commit(
    git: Git, index: Index, changes_by_path: Mapping[CommitPath, Sequence[RecordedChange]]
) -> dict[CommitPath, frozenset[str]]:
    """Return for each commit and path the records of the calls that began when the commit existed."""
    calls = {change.id: change for changes in changes_by_path.values() for change in changes}
    head_by_call = {name: head for name, call in calls.items() if (head := head_before_change(index, call))}
    first = first_recorded_head(index)
    if first is None or not head_by_call:
        return {}
    parents = parents_since(git, first, {commit for commit, _ in changes_by_path} | set(head_by_call.values()))
    if parents is None:
        return {}
    reached = {head: ancestors_of(head, parents) for head in set(head_by_call.values())}
    return {
        (commit, path): frozenset(
            change.id
            for change in changes
            if change.id in head_by_call and (commit not in parents or commit in reached[head_by_call[change.id]])
        )
        for (commit, path), changes in changes_by_path.items()
    }


def head_before_change(index: Index, change: RecordedChange) -> str | None:
    """Return HEAD when the change's call was allowed: the call itself may have committed."""
    documents = index.find_by_id_prefix(change.id)
    return head_at_call(index, documents[0]) if documents else None


def head_at_call(index: Index, document: dict[str, Any]) -> str | None:
    """Return HEAD when the call of a record was allowed; None if unknown."""
    identity = call_identity(body_part(document, "call"))
    session, until = document["metadata"][KEY].get("session_id"), str(document["timestamp"])
    for most in USE_LIMITS if any(identity) else ():
        uses = index.find(event="tool_use", session_id=session, until=until, limit=most)
        if use := next((use for use in uses if call_identity(body_part(use, "call")) == identity), None):
            return recorded_head(use)
    return None


def call_identity(call: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the identity of a call: its id, or its name and arguments for agents without ids."""
    return (call["id"],) if call.get("id") else (call.get("name"), call.get("arguments_sha256"))


def first_recorded_head(index: Index) -> str | None:
    first = index.find_first_change_time()
    documents = index.find(until=first, limit=1) if first else []
    return head_at_call(index, documents[0]) or recorded_head(documents[0]) if documents else None


def recorded_head(document: dict[str, Any]) -> str | None:
    return document.get("vcs", {}).get("revision")


def body_part(document: dict[str, Any], name: str) -> dict[str, Any]:
    return document["metadata"][KEY].get(name) or {}


def parents_since(git: Git, first: str, commits: Iterable[str]) -> dict[str, list[str]] | None:
    """Return the commits and their ancestors with parents, without commits that `first` reaches; None if git fails."""
    revisions = "".join(f"{commit}\n" for commit in (*sorted(commits), f"^{first}"))
    options = ("--parents", f"--max-count={MAX_COMMITS}", "--stdin")
    try:
        rows = [row.split() for row in git.run("rev-list", *options, stdin=revisions.encode()).decode().splitlines()]
    except GitError:
        return None
    return {row[0]: row[1:] for row in rows} if len(rows) < MAX_COMMITS else None


def ancestors_of(commit: str, parents: Mapping[str, Iterable[str]]) -> set[str]:
    ancestors, pending = set[str](), [commit]
    while pending:
        current = pending.pop()
        if current in parents and current not in ancestors:
            ancestors.add(current)
            pending += parents[current]
    return ancestors


def backdated_query(index: Index, time_s: float) -> tuple[str, ...] | None:
    """Return the arguments for `git rev-list` that select ancestors of HEAD dated before `time_s` and not reached by a
    commit from before the first record.
    """
    first = first_recorded_head(index)
    return (
        ("rev-list", f"--max-count={MAX_COMMITS}", f"--min-age={int(time_s)}", "HEAD", f"^{first}") if first else None
    )


def find_backdated_commits(git: Git, arguments: Sequence[str] | None) -> frozenset[str]:
    try:
        return frozenset(git.text(*arguments).split()) if arguments else frozenset()
    except GitError:
        return frozenset()


class RawChange(Struct, frozen=True):
    """Change of one path in git's raw format. `mark` is the text before the change, such as the commit; `kind` is git's
    status letter.
    """

    mark: str
    path: str
    before: str
    after: str
    kind: str


def parse_raw_changes(output: bytes) -> Iterator[RawChange]:
    """Parse `git log` or `git diff-tree` with `--raw -z`. Source: git-diff-tree(1), the raw format, read 2026-11."""
    mark = header = ""
    for field in output.decode("utf-8", "surrogateescape").split("\0"):
        text = field.strip("\n")
        if header:
            _, _, before, after, kind = header.split(" ")
            yield RawChange(mark, field, before, after, kind)
            header = ""
        elif text.startswith(":"):
            header = text
        elif text:
            mark = text


class PastContents:
    """Contents of paths in git's history; each set of paths is read once."""

    def __init__(self, git: Git) -> None:
        self.git = git
        self.logs: dict[frozenset[str], tuple[RawChange, ...]] = {}

    def contents_before(self, versions: Sequence[FileVersion]) -> Mapping[FileVersion, frozenset[str]]:
        """Return the contents that each file had before each version, with one git process."""
        paths = frozenset(version.path for version in versions)
        if paths and paths not in self.logs:
            self.logs[paths] = self.content_changes(paths)
        return {version: frozenset(older_contents(self.logs[paths], version)) for version in versions}

    def content_changes(self, paths: Iterable[str]) -> tuple[RawChange, ...]:
        """Return the changes of those paths, newest first; empty if git fails."""
        options = ("--topo-order", "--format=%H", "--raw", "--no-abbrev", "--no-renames", "--diff-filter=AM", "-z")
        try:
            output = self.git.run("log", *options, "--", *paths)
        except GitError:
            return ()
        return tuple(parse_raw_changes(output))


def older_contents(changes: Sequence[RawChange], version: FileVersion) -> Iterator[str]:
    own = (version.commit, version.path_in_tree)
    first = next((n + 1 for n, change in enumerate(changes) if (change.mark, change.path) == own), 0)
    return (change.after for change in changes[first:] if change.path == version.path_in_tree)
