"""Files that a command gave another name: nobody wrote their lines just then.

Whose the lines of a moved file are, its move does not tell. They stay of unknown origin where they were not all the
same session's before: who moves a person's file did not write it.
"""

import sqlite3
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from remit.core.spans import Span
from remit.core.textdiff import lines_of
from remit.ledger.segments import LedgerError
from remit.workspace.observe import Change
from remit.workspace.place import Workspace
from remit.workspace.versions import Seen

if TYPE_CHECKING:
    from remit.ledger.index import Index

UNREADABLE = (OSError, LedgerError, sqlite3.Error)
"""Then nothing is proved; what is to be recorded must not be lost for that."""

MOST_STEPS = 100
"""Changes of one file that are looked through for another's hand."""


def moved_from(change: Change, done: Iterable[Change]) -> Seen | None:
    """The file that is gone, and of which the new one holds most lines; None where there is no such."""
    if change.before is not None or change.after is None or not change.after.content:
        return None
    gone = [c.before for c in done if c.after is None and c.before and c.before.content]
    same = next((was for was in gone if was.version.sha256 == change.after.version.sha256), None)
    if same is not None or not gone:
        return same
    new = telling(change.after.content)
    likest = max(gone, key=lambda was: len(new & telling(was.content or b"")))
    return likest if 2 * len(new & telling(likest.content or b"")) > len(new) else None


def telling(content: bytes) -> set[bytes]:
    """The lines of a content that are not empty, each once."""
    return {line.strip() for line in lines_of(content) if line.strip()}


def is_own(workspace: Workspace, session_id: str, sha256: str) -> bool:
    """Whether that content came about by calls of this session alone, as far as records prove it."""
    with suppress(*UNREADABLE), opened(workspace) as index:
        for _ in range(MOST_STEPS):
            last = next(iter(reversed(index.changes_leaving(sha256))), None)
            if last is None or last.session_id != session_id or last.observed or last.unproved:
                return False
            if last.before_blob is None:
                return True
            before = [c for c in index.changes_of(last.path) if c.after_blob == last.before_blob]
            sha256 = before[-1].after_sha or "" if before else ""
    return False


def open_before(workspace: Workspace, session_id: str, change: Change) -> tuple[Span, ...] | None:
    """What the newest record of this session of that very change left open; None where there is none."""
    before = change.before.version.git_blob if change.before else None
    after = change.after.version.git_blob if change.after else None
    with suppress(*UNREADABLE), opened(workspace) as index:
        for known in reversed(index.changes_of(change.path)):
            if (known.session_id, known.before_blob, known.after_blob) == (session_id, before, after):
                return None if known.observed else known.unproved
    return None


@contextmanager
def opened(workspace: Workspace) -> Generator["Index"]:
    """The index, as new as the log. Raises what UNREADABLE names."""
    # For start-up speed: only a command that moved a file, or two calls at once, ask for it.
    from remit.ledger.index import Index

    with Index.open(workspace.state / "index.db", workspace.log_folder) as index:
        index.catch_up()
        yield index
