"""Keeping notes up with HEAD, from a process that is idle."""

import os
from pathlib import Path

from remit.ledger.index import Index
from remit.provenance.blame.blame import Blamer
from remit.provenance.notes.notes import NoteWriter
from remit.workspace.contents import ContentStore
from remit.workspace.git import Git, GitError
from remit.workspace.head import head_commit
from remit.workspace.notes import NotesBusy
from remit.workspace.place import Workspace

MOST_AT_ONCE = 20
"""Commits of one turn: a call that comes meanwhile waits for it."""


def note_new(workspace: Workspace, store: ContentStore) -> int:
    """Note the newest commits that HEAD gained since the last time; how many were written.

    Where HEAD stood is kept beside the log, so that a commit made by whatever git is noted once. Older ones than these
    wait for `remit notes write`. Raises GitError, OSError, LedgerError.
    """
    head = head_commit(workspace)
    kept = noted_head(workspace)
    if head is None or kept == head:
        return 0
    with Index.open(workspace.state / "index.db", workspace.log_folder) as index:
        index.catch_up()
        writer = NoteWriter(Blamer(workspace, index, store))
        try:
            done = writer.write(gained(writer.blamer.git, head, kept)) if writer.attribution.anything_recorded else None
        except NotesBusy:
            return 0
    keep_head(workspace, head)
    return len(done.commits) if done else 0


def gained(git: Git, head: str, kept: str | None) -> list[str]:
    """The commits that `head` has and `kept` had not, the newest first."""
    limit = f"--max-count={MOST_AT_ONCE}"
    try:
        return git.text("rev-list", limit, head, *([f"^{kept}"] if kept else [])).split()
    except GitError:
        if kept is None:
            raise
        # What was HEAD then may be gone, after `gc` or in another clone of the state.
        return gained(git, head, None)


def head_file(workspace: Workspace) -> Path:
    """Where it is kept how far notes go."""
    return workspace.state / "noted"


def noted_head(workspace: Workspace) -> str | None:
    """Where HEAD was when notes were written last."""
    try:
        text = head_file(workspace).read_text("ascii").strip()
    except (FileNotFoundError, UnicodeDecodeError):
        return None
    return text if text.isalnum() else None


def keep_head(workspace: Workspace, head: str) -> None:
    """Keep it. Raises OSError."""
    fresh = head_file(workspace).with_name(f"noted.{os.getpid()}")
    fresh.write_text(head + "\n", "ascii")
    fresh.replace(head_file(workspace))
