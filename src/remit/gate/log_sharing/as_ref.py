"""Ledger sharing by git refs: the local log is written to a ref, remote machines' logs are fetched from refs."""

from functools import partial
from pathlib import Path

from msgspec import Struct

from remit.gate.context import WorkspaceContext
from remit.gate.records.tree_heads import make_head
from remit.ledger.foreign_logs import MAX_IMPORT_BYTES, store_shared_log
from remit.ledger.integrity.tree_heads import read_frontier
from remit.ledger.machine_logs import list_local_names
from remit.ledger.prune import has_pruned_records
from remit.ledger.reader import measure_segment, read_bytes
from remit.ledger.segments import list_segments, read_head
from remit.workspace.sharing.log_refs import LogPart, LogRefs, SharedLog


class LogFetch(Struct, frozen=True):
    """Result of a fetch: number of records by machine, and the refused machines."""

    records: dict[str, int]
    refused: tuple[str, ...]


def write_log_ref(context: WorkspaceContext) -> SharedLog:
    """Write the machine's log to a ref, under a fresh tree head. No data leaves the machine.

    Raises OSError, LedgerError, GitError, SharedLogDiffers.
    """
    folder = context.recorder.log.folder
    sign_log(context)
    names = list_segments(folder)
    absent = [name for name in names[:-1] if has_pruned_records(folder, name)]
    parts: list[LogPart] = []
    for name in names[:-1]:
        if name not in absent:
            size = measure_segment(folder, name)
            parts.append(LogPart(name, size, partial(read_bytes, folder, name, 0, size)))
    for name in names[-1:]:
        newest = read_complete_lines(folder, name)
        parts.append(LogPart(name, len(newest), partial(bytes, newest)))
    return LogRefs(context.workspace).write_ref(context.recorder.machine, parts, absent)


def sign_log(context: WorkspaceContext) -> None:
    """Sign the log, unless its newest record is a tree head's. Raises OSError, LedgerError."""
    if not has_current_head(context.recorder.log.folder):
        make_head(context.recorder)


def has_current_head(folder: Path) -> bool:
    """Return True if the newest tree head covers every record before the head's own record."""
    covered, last = read_frontier(folder), read_head(folder)
    return covered is not None and last is not None and last.seq == covered.seq + 1


def read_complete_lines(folder: Path, segment: str) -> bytes:
    """Return the complete lines of a segment: a concurrent process may be writing the last line."""
    content = read_bytes(folder, segment, 0, measure_segment(folder, segment))
    return content[: content.rfind(b"\n") + 1]


def fetch_logs(context: WorkspaceContext, remote: str) -> LogFetch:
    """Fetch remote machines' logs and store them as evidence, unproved without a key.

    Raises OSError, LedgerError, GitError, UnknownRemote.
    """
    refs, folder = LogRefs(context.workspace), context.workspace.log_folder
    own = list_local_names(folder, context.recorder.log.name)
    fetched = refs.fetch_logs(remote, context.recorder.machine)
    records = {
        machine: store_shared_log(folder, machine, refs.read_log(machine, MAX_IMPORT_BYTES), own)
        for machine in fetched.logs
    }
    return LogFetch(records, fetched.refused)
