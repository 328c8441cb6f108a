"""Commits and contents that existed before a call began, or before a version of a file.

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

MAX_COMMITS = 20_000  # commits since the first record that are searched; with more, the answer is empty

USE_LIMITS = (2, 50)
"""Numbers of calls of a session, newest first, among which a call is searched: first few, then more."""

RAW_OPTIONS = ("--raw", "--no-abbrev", "--no-renames", "-z")
CHANGED_CONTENTS = (*RAW_OPTIONS, "--diff-filter=AM")
CommitPath: TypeAlias = tuple[str, str]  # a commit, and a path changed by calls that may have begun later


def calls_begun_after_commit(
    git: Git, index: Index, changes_by_path: Mapping[CommitPath, Sequence[RecordedChange]]
) -> dict[CommitPath, frozenset[str]]:
    """Return for each commit and path the records of the calls that began when the commit existed."""
    calls = {change.id for changes in changes_by_path.values() for change in changes}
    head_by_call = {
        name: head for name, document in index.find_by_ids(calls).items() if (head := head_at_call(index, document))
    }
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
            if (head := head_by_call.get(change.id)) and (commit not in parents or commit in reached[head])
        )
        for (commit, path), changes in changes_by_path.items()
    }


def head_at_call(index: Index, document: dict[str, Any]) -> str | None:
    """Return HEAD when the call of a record was allowed; None if unknown. The call itself may have committed."""
    body = document["metadata"][KEY]
    identity, until = call_identity(body.get("call") or {}), str(document["timestamp"])
    for most in USE_LIMITS if any(identity) else ():
        for use in index.find(event="tool_use", session_id=body.get("session_id"), until=until, limit=most):
            if call_identity(use["metadata"][KEY].get("call") or {}) == identity:
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


def find_backdated_commits(git: Git, index: Index, time_s: float) -> frozenset[str]:
    """Return the ancestors of HEAD dated before `time_s` and not reached by a commit from before the first record."""
    first = first_recorded_head(index)
    options = (f"--max-count={MAX_COMMITS}", f"--min-age={int(time_s)}", "HEAD", f"^{first}")
    try:
        return frozenset(git.text("rev-list", *options).split()) if first else frozenset()
    except GitError:
        return frozenset()


# -- git's raw format --------------------------------------------------------------------------------------------


class RawChange(Struct, frozen=True):
    """Change of one path in git's raw format, behind the text `mark`, such as a commit. `kind` is a status letter."""

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


def read_log(git: Git, *arguments: str) -> tuple[RawChange, ...]:
    """Return the changes in a `git log` with these arguments, newest first; none if git fails."""
    try:
        return tuple(parse_raw_changes(git.run("log", *arguments)))
    except GitError:
        return ()


def find_earlier_contents(
    git: Git, versions: Sequence[FileVersion], logs: dict[frozenset[str], tuple[RawChange, ...]]
) -> Mapping[FileVersion, frozenset[str]]:
    """Return the contents that each file had before each version. `logs` keeps what one git process read."""
    paths = frozenset(version.path_in_tree for version in versions)
    if paths not in logs:
        logs[paths] = read_log(
            git, "--topo-order", "--format=%H", *CHANGED_CONTENTS, "--", *(f":(top,literal){path}" for path in paths)
        )
    positions: dict[tuple[str, str], int] = {}
    for number, change in enumerate(logs[paths], 1):
        positions.setdefault((change.mark, change.path), number)
    return {
        version: frozenset(
            change.after
            for change in logs[paths][positions.get((version.commit, version.path_in_tree), 0) :]
            if change.path == version.path_in_tree
        )
        for version in versions
    }
