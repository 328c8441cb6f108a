"""The tree heads of this log wherever they are found, held against the log."""

from collections.abc import Iterator

from remit.core.config import Config
from remit.gate.own_log import own_file
from remit.gate.witness import REF, Writer, split_heads, trusted_keys
from remit.ledger.heads import FoundHead, kept_heads, leaves, note_in, recorded_heads
from remit.ledger.heads_check import HeadsReport, check_heads
from remit.ledger.log import MachineLog
from remit.ledger.reader import lines
from remit.workspace.contents import ContentStore
from remit.workspace.git import Git
from remit.workspace.log_refs import shared_head_lines, tracked_head_lines
from remit.workspace.own_repository import OwnRepository
from remit.workspace.place import Workspace


def heads_report(recorder: Writer, config: Config) -> HeadsReport:
    """Every head of this log that is found, against the log. Raises OSError, LedgerError, GitError, InvalidKey."""
    folder = recorder.log.folder
    outside = [*noted_heads(recorder.workspace), *shared_heads(recorder.workspace, recorder.log)]
    found = [*outside, *kept_heads(folder), *recorded_heads(lines(folder))]
    return check_heads(leaves(folder), found, recorder.log.name, trusted_keys(recorder.environment.home, config))


def noted_heads(workspace: Workspace) -> Iterator[FoundHead]:
    """The heads in commits' notes, those in Remit's own repository too. Raises GitError."""
    if workspace.common_dir is None:
        return
    own = OwnRepository(workspace)
    list_notes = ("notes", f"--ref={REF}", "list")
    listed = Git(workspace.root).text(*list_notes, ok=(0, 1))
    if own.exists:
        listed += "\n" + own.run(*list_notes, ok=(0, 1)).decode("utf-8", "replace")
    pairs = [(note, commit) for note, _, commit in (line.partition(" ") for line in listed.splitlines() if line)]
    contents = ContentStore(workspace, "").load_many(note for note, _ in pairs)
    for note, commit in pairs:
        for part in split_heads(contents.get(note, b"").decode("utf-8", "replace")):
            yield FoundHead(part, f"note of commit {commit[:12]}")


def shared_heads(workspace: Workspace, log: MachineLog) -> Iterator[FoundHead]:
    """The heads in logs that were shared as refs, and in this log's tracked file. Raises GitError, OSError."""
    name = own_file(log)
    tracked = tracked_head_lines(workspace, name) if name else ()
    found = (*shared_head_lines(workspace), *tracked)
    return (FoundHead(note, where) for line, where in found if (note := note_in(line)))
