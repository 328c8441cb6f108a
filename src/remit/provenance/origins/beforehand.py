"""Which commits were there before a call began: what one of them holds, that call did not write.

Dates say nothing: whoever commits may choose them. Records say where HEAD stood, and git says what that reaches.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from remit.core.record import KEY
from remit.ledger.changes import Change
from remit.ledger.index import Index
from remit.workspace.git import Git, GitError

MOST_COMMITS = 20_000
"""Commits since the first record that are looked through; with more, nothing is said."""

MOST_USES = (2, 50)
"""Calls of a session, the newest first, among which one is looked for, and where it is none of the first ones."""

Asked: TypeAlias = tuple[str, str]
"""A commit, and a path in which calls that may have begun later changed something."""


def there_already(git: Git, index: Index, asked: Mapping[Asked, Sequence[Change]]) -> dict[Asked, frozenset[str]]:
    """The records of those calls that began when the commit was there."""
    calls = {change.id: change for changes in asked.values() for change in changes}
    began = {name: head for name, call in calls.items() if (head := head_before(index, call))}
    first = first_head(index)
    if first is None or not began:
        return {}
    parents = since(git, first, {commit for commit, _ in asked} | set(began.values()))
    if parents is None:
        return {}
    reached = {head: ancestors(head, parents) for head in set(began.values())}
    return {
        (commit, path): frozenset(
            change.id
            for change in changes
            if change.id in began and (commit not in parents or commit in reached[began[change.id]])
        )
        for (commit, path), changes in asked.items()
    }


def head_before(index: Index, change: Change) -> str | None:
    """Where HEAD stood when the change's call was let through: the call itself may have committed."""
    documents = index.by_id(change.id)
    return let_through(index, documents[0]) if documents else None


def let_through(index: Index, document: dict[str, Any]) -> str | None:
    """Where HEAD stood when the call of a record was let through; None where that is not known."""
    wanted = told(part(document, "call"))
    session, at = document["metadata"][KEY].get("session_id"), str(document["timestamp"])
    for most in MOST_USES if any(wanted) else ():
        uses = index.find(event="tool_use", session_id=session, until=at, limit=most)
        if found := next((use for use in uses if told(part(use, "call")) == wanted), None):
            return head(found)
    return None


def told(call: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a call is known again by: its id, or what it was given, where the agent gives none."""
    return (call["id"],) if call.get("id") else (call.get("name"), call.get("arguments_sha256"))


def first_head(index: Index) -> str | None:
    """Where HEAD stood before the first change was recorded."""
    first = index.first_change()
    found = index.find(until=first, limit=1) if first else []
    return let_through(index, found[0]) or head(found[0]) if found else None


def head(document: dict[str, Any]) -> str | None:
    """The commit that a record names as checked out."""
    return document.get("vcs", {}).get("revision")


def part(document: dict[str, Any], name: str) -> dict[str, Any]:
    """A part of a record's body."""
    return document["metadata"][KEY].get(name) or {}


def since(git: Git, first: str, commits: Iterable[str]) -> dict[str, list[str]] | None:
    """Those commits and all behind them, with their parents, less what `first` reaches; None where git cannot tell."""
    asked = "".join(f"{commit}\n" for commit in (*sorted(commits), f"^{first}"))
    words = ("--parents", f"--max-count={MOST_COMMITS}", "--stdin")
    try:
        rows = [row.split() for row in git.run("rev-list", *words, stdin=asked.encode()).decode().splitlines()]
    except GitError:
        return None
    return {row[0]: row[1:] for row in rows} if len(rows) < MOST_COMMITS else None


def ancestors(commit: str, parents: Mapping[str, Iterable[str]]) -> set[str]:
    """The commit and all behind it."""
    found, waiting = set[str](), [commit]
    while waiting:
        one = waiting.pop()
        if one in parents and one not in found:
            found.add(one)
            waiting += parents[one]
    return found


def asking_for_backdated(index: Index, at: float) -> tuple[str, ...] | None:
    """How git is asked for the commits behind HEAD that say they are older than `at`, and that no commit reaches that
    was there before the first record.
    """
    first = first_head(index)
    return ("rev-list", f"--max-count={MOST_COMMITS}", f"--min-age={int(at)}", "HEAD", f"^{first}") if first else None


def backdated(git: Git, words: Sequence[str] | None) -> frozenset[str]:
    """Those commits."""
    try:
        return frozenset(git.text(*words).split()) if words else frozenset()
    except GitError:
        return frozenset()
