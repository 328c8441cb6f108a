"""Commits and contents that existed before a call began, or before a version of a file.

A call did not write a line of a commit older than the call. Commit dates prove nothing, because committers choose them;
the records name HEAD at the time, and git tells which commits HEAD reaches.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
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


class CallCommits:
    """The commits of one repository since the first record, and HEAD at the calls of records: each is read once."""

    def __init__(self, git: Git, index: Index) -> None:
        self.git, self.index = git, index
        self.head_by_call: dict[str, str | None] = {}
        self.parents: dict[str, list[str]] = {}
        self.known: set[str] = set()
        """Commits whose ancestors are among `parents`, or are reached by HEAD at the first record."""

    @cached_property
    def first_head(self) -> str | None:
        first = self.index.find_first_change_time()
        documents = self.index.find(until=first, limit=1) if first else []
        return head_at_call(self.index, documents[0]) or recorded_head(documents[0]) if documents else None

    def find_calls_begun_after(
        self, changes_by_path: Mapping[CommitPath, Sequence[RecordedChange]]
    ) -> dict[CommitPath, frozenset[str]]:
        heads = self.find_heads({change.id for changes in changes_by_path.values() for change in changes})
        if self.first_head is None or not heads:
            return {}
        if not self.load_parents({commit for commit, _ in changes_by_path} | set(heads.values())):
            return {}
        reached = {head: ancestors_of(head, self.parents) for head in set(heads.values())}
        return {
            (commit, path): frozenset(
                change.id
                for change in changes
                if (head := heads.get(change.id)) and (commit not in self.parents or commit in reached[head])
            )
            for (commit, path), changes in changes_by_path.items()
        }

    def find_heads(self, calls: Set[str]) -> dict[str, str]:
        unknown = calls - self.head_by_call.keys()
        found = self.index.find_by_ids(unknown) if unknown else {}
        self.head_by_call |= dict.fromkeys(unknown)
        self.head_by_call |= {name: head_at_call(self.index, document) for name, document in found.items()}
        return {call: head for call in calls if (head := self.head_by_call[call])}

    def load_parents(self, commits: Set[str]) -> bool:
        unknown = commits - self.known
        if unknown:
            revisions = "".join(f"{commit}\n" for commit in (*sorted(unknown), f"^{self.first_head}"))
            options = ("--parents", "--ignore-missing", f"--max-count={MAX_COMMITS}", "--stdin")
            try:
                output = self.git.run("rev-list", *options, stdin=revisions.encode()).decode()
            except GitError:
                return False
            rows = [row.split() for row in output.splitlines()]
            if len(rows) >= MAX_COMMITS:
                return False
            self.parents |= {row[0]: row[1:] for row in rows}
            self.known |= unknown | {row[0] for row in rows}
        return True

    def find_backdated(self, time_s: float) -> frozenset[str]:
        """Return the ancestors of HEAD dated before `time_s` and not reached by a commit from before the first
        record.
        """
        first = self.first_head
        options = (f"--max-count={MAX_COMMITS}", f"--min-age={int(time_s)}", "HEAD", f"^{first}")
        try:
            return frozenset(self.git.text("rev-list", *options).split()) if first else frozenset()
        except GitError:
            return frozenset()


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
    return (call["id"],) if call.get("id") else (call.get("name"), call.get("arguments_sha256"))


def recorded_head(document: dict[str, Any]) -> str | None:
    return document.get("vcs", {}).get("revision")


def ancestors_of(commit: str, parents: Mapping[str, Iterable[str]]) -> set[str]:
    ancestors, pending = set[str](), [commit]
    while pending:
        current = pending.pop()
        if current in parents and current not in ancestors:
            ancestors.add(current)
            pending += parents[current]
    return ancestors


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
    """Return the contents of each file before each version. `logs` keeps the output of a git process."""
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
