"""A report on the tree heads of this log, wherever they are found: each head is held against the log."""

from collections.abc import Iterator

from remit.core.config import Config
from remit.gate.records.tree_heads import NOTES_REF, LogWriter, split_heads, trusted_keys
from remit.ledger.integrity.tree_heads import (
    FoundHead,
    HeadsReport,
    check_heads,
    read_leaves,
    read_recorded_heads,
    read_stored_heads,
)
from remit.ledger.log import MachineLog
from remit.ledger.reader import read_lines
from remit.ledger.record_views import decode_note
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.contents.remit_repository import RemitRepository
from remit.workspace.git.command import Git
from remit.workspace.place.workspace import Workspace
from remit.workspace.sharing.log_refs import find_shared_head_lines, find_tracked_head_lines

DIGEST_DIGITS = 8


def tracked_log_name(log: MachineLog) -> str | None:
    """Return the name of the log's tracked file; None for an empty log. Pruning does not change the name."""
    first = next(iter(read_leaves(log.folder)), None)
    return f"{log.name.rpartition('/')[2]}-{first.hex()[:DIGEST_DIGITS]}.jsonl" if first else None


def heads_report(recorder: LogWriter, config: Config) -> HeadsReport:
    """Check every known head of the log. Raises OSError, LedgerError, GitError, InvalidKey."""
    folder = recorder.log.folder
    outside = [*heads_in_notes(recorder.workspace), *heads_in_logs(recorder.workspace, recorder.log)]
    found = [*outside, *read_stored_heads(folder), *read_recorded_heads(read_lines(folder))]
    return check_heads(read_leaves(folder), found, recorder.log.name, trusted_keys(recorder.environment.home, config))


def heads_in_notes(workspace: Workspace) -> Iterator[FoundHead]:
    """Yield the heads in notes of commits, also those in Remit's own repository. Raises GitError."""
    if workspace.common_dir is None:
        return
    own = RemitRepository(workspace)
    list_notes = ("notes", f"--ref={NOTES_REF}", "list")
    listed = Git(workspace.root).text(*list_notes, ok=(0, 1))
    if own.exists:
        listed += "\n" + own.run(*list_notes, ok=(0, 1)).decode("utf-8", "replace")
    pairs = [(note, commit) for note, _, commit in (line.partition(" ") for line in listed.splitlines() if line)]
    contents = ContentStore(workspace, "").load_many(note for note, _ in pairs)
    for note, commit in pairs:
        for part in split_heads(contents.get(note, b"").decode("utf-8", "replace")):
            yield FoundHead(part, f"note of commit {commit[:12]}")


def heads_in_logs(workspace: Workspace, log: MachineLog) -> Iterator[FoundHead]:
    """Yield the heads in logs that were shared as refs, and in this log's tracked file. Raises GitError, OSError."""
    name = tracked_log_name(log)
    tracked = find_tracked_head_lines(workspace, name) if name else ()
    found = (*find_shared_head_lines(workspace), *tracked)
    return (FoundHead(note, where) for line, where in found if (note := decode_note(line)))
