"""Attributions of changed files, computed before a question by a process of the lowest priority beside the daemon.

Each file is blamed in the work tree and at HEAD, and the lines added by new commits too. The index keeps the
attributions for a later question. An answer about the newest commit holds until the next record: hence the files of the
run before are blamed once more, for longer-lived answers.
"""

import os
import time
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, json

from remit.core.python_runtime import prepare_type
from remit.core.untrusted_input import unquote_path
from remit.ledger.index.index import Index, open_index
from remit.provenance.blame.committed_files import CommittedFiles
from remit.provenance.stats.figures import read_committed_lines
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.git.command import Git, GitError
from remit.workspace.git.repository import head_commit
from remit.workspace.place.workspace import Workspace, locate_workspace

LOWEST_PRIORITY = 19
MAX_FILES = 200  # of one run: the newest; the rest is found when somebody asks
MAX_SECONDS = 120.0


class FillPosition(Struct, frozen=True):
    """The newest change and the commit up to which the files of a worktree were blamed, and those of the run before."""

    number: int = 0
    head: str = ""
    earlier_number: int = 0
    earlier_head: str = ""


def fill_answers(workspace: Workspace, since: FillPosition, limit_s: float = MAX_SECONDS) -> FillPosition:
    """Blame the files changed since a position; return the new position. Raises OSError, LedgerError, GitError."""
    end_s = time.monotonic() + limit_s
    with open_index(workspace.state, workspace.log_folder) as index:
        number, head = index.find_last_change().number, head_commit(workspace) or ""
        if (number, head) == (since.number, since.head):
            return since
        reached, store = FillPosition(number, head, since.number, since.head), ContentStore(workspace, "")
        paths = list_changed_files(workspace, index, since, reached)
        committed = CommittedFiles(workspace, index, store)
        last_commits = committed.find_last_commits(paths) if head else {}
        for path in paths:
            if time.monotonic() > end_s:
                break
            try:
                committed.blamer.blame(path)
            except GitError:  # no file of git, or none any more
                continue
            for _ in committed.count_anew([path], last_commits):
                pass
        base = since.earlier_head or since.head
        if base and head and time.monotonic() < end_s:
            with suppress(GitError):  # the earlier commit is gone
                read_committed_lines(committed.blamer.attributor, f"{base}..{head}")
    return reached


def list_changed_files(workspace: Workspace, index: Index, since: FillPosition, reached: FillPosition) -> list[str]:
    """Return the files changed by records since a position, the newest first, and recorded files changed by commits."""
    paths = index.list_changed_paths(since.earlier_number, MAX_FILES)
    base = since.earlier_head or since.head
    if base not in ("", reached.head) and reached.head:
        try:
            ends = (base, reached.head)
            out = Git(workspace.root).run("diff", "--name-only", "-z", "--relative", *ends)
        except GitError:  # the old commit is gone
            out = b""
        committed = list(filter(None, out.decode("utf-8", "surrogateescape").split("\0")))[:MAX_FILES]
        paths += [path for path in committed if index.find_last_change(path).number]
    files = dict.fromkeys(unquote_path(os.fsencode(path)) if path.startswith('"') else path for path in paths)
    return [path for path in files if (workspace.root / path).is_file()][:MAX_FILES]


def main(root: str, since: str) -> None:
    """Fill in the worktree at `root` from a position in JSON, and print the new one. Raises as `fill_answers`."""
    os.nice(LOWEST_PRIORITY)
    workspace = locate_workspace(Path(root))
    if workspace is not None and workspace.is_governed:
        reached = fill_answers(workspace, json.decode(since, type=prepare_type(FillPosition)))
        print(json.encode(reached).decode())
