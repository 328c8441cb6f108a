"""Ledger sharing by git refs: this machine's log is written to a ref, other machines' logs are fetched from theirs."""

from functools import partial
from pathlib import Path

from msgspec import Struct

from remit.gate.gate import Gate
from remit.gate.records.tree_heads import make_head
from remit.ledger.foreign_logs import MAX_IMPORT_BYTES, store_shared_log
from remit.ledger.integrity.tree_heads import read_frontier
from remit.ledger.machine_logs import list_local_names
from remit.ledger.prune import has_pruned_records
from remit.ledger.reader import measure_segment, read_bytes
from remit.ledger.segments import list_segments, read_head
from remit.workspace.sharing.log_refs import LogPart, LogRefs, SharedLog


class FetchedLogs(Struct, frozen=True):
    """Result of a fetch: number of records by machine, and the refused machines."""

    records: dict[str, int]
    refused: tuple[str, ...]


def write_log_ref(gate: Gate) -> SharedLog:
    """Write this machine's log to its ref, under a fresh tree head. No data leaves the machine.

    Raises OSError, LedgerError, GitError, SharedLogDiffers.
    """
    folder = gate.recorder.log.folder
    sign_log(gate)
    names = list_segments(folder)
    absent = [name for name in names[:-1] if has_pruned_records(folder, name)]
    parts = [_segment_part(folder, name) for name in names[:-1] if name not in absent]
    parts += [_newest_part(folder, name) for name in names[-1:]]
    return LogRefs(gate.workspace).write_ref(gate.recorder.machine, parts, absent)


def sign_log(gate: Gate) -> None:
    """Sign the log, unless its newest record is a tree head's. Raises OSError, LedgerError."""
    if not _has_current_head(gate.recorder.log.folder):
        make_head(gate.recorder)


def _has_current_head(folder: Path) -> bool:
    """Return True if the newest tree head covers every record before its own."""
    covered, last = read_frontier(folder), read_head(folder)
    return covered is not None and last is not None and last.seq == covered.seq + 1


def _segment_part(folder: Path, name: str) -> LogPart:
    size = measure_segment(folder, name)
    return LogPart(name, size, partial(read_bytes, folder, name, 0, size))


def _newest_part(folder: Path, name: str) -> LogPart:
    """Return the complete lines: another process may be writing the last one."""
    size = measure_segment(folder, name)
    raw = read_bytes(folder, name, 0, size)
    content = raw[: raw.rfind(b"\n") + 1]
    return LogPart(name, len(content), lambda: content)


def fetch_logs(gate: Gate, remote: str) -> FetchedLogs:
    """Fetch the logs of other machines and store them as evidence, unproved without a key.

    Raises OSError, LedgerError, GitError, UnknownRemote.
    """
    refs, folder = LogRefs(gate.workspace), gate.workspace.log_folder
    own = list_local_names(folder, gate.recorder.log.name)
    fetched = refs.fetch_logs(remote, gate.recorder.machine)
    records = {
        machine: store_shared_log(folder, machine, refs.read_log(machine, MAX_IMPORT_BYTES), own)
        for machine in fetched.logs
    }
    return FetchedLogs(records, fetched.refused)
