"""A log for others: this machine's as a ref of the repository, and those of others from such refs."""

from functools import partial
from pathlib import Path

from msgspec import Struct

from remit.gate.gate import Gate
from remit.gate.witness import make_head
from remit.ledger.foreign import IMPORT_BYTES, keep_shared
from remit.ledger.heads import read_frontier
from remit.ledger.machine_logs import local_names
from remit.ledger.prune import is_pruned
from remit.ledger.reader import read_at, segment_size
from remit.ledger.segments import read_head, segments
from remit.workspace.shared_logs import LogRefs, Part, Shared


class Taken(Struct, frozen=True):
    """What fetching brought: the records of each machine, and the machines whose logs were not taken."""

    records: dict[str, int]
    refused: tuple[str, ...]


def shared(gate: Gate) -> Shared:
    """Write this machine's log to its ref, under a fresh tree head. Nothing leaves the machine by that.

    Raises OSError, LedgerError, GitError, SharedLogDiffers.
    """
    folder = gate.recorder.log.folder
    sign_newest(gate)
    names = segments(folder)
    absent = [name for name in names[:-1] if is_pruned(folder, name)]
    parts = [_part(folder, name) for name in names[:-1] if name not in absent]
    parts += [_newest(folder, name) for name in names[-1:]]
    return LogRefs(gate.workspace).write(gate.recorder.machine, parts, absent)


def sign_newest(gate: Gate) -> None:
    """Sign the log, unless its newest record is the one of a tree head. Raises OSError, LedgerError."""
    if not _signed(gate.recorder.log.folder):
        make_head(gate.recorder)


def _signed(folder: Path) -> bool:
    """Whether nothing but the record of the newest tree head came after what it covers."""
    covered, last = read_frontier(folder), read_head(folder)
    return covered is not None and last is not None and last.seq == covered.seq + 1


def _part(folder: Path, name: str) -> Part:
    size = segment_size(folder, name)
    return Part(name, size, partial(read_at, folder, name, 0, size))


def _newest(folder: Path, name: str) -> Part:
    """The lines that are whole now: somebody may be writing the next one."""
    size = segment_size(folder, name)
    raw = read_at(folder, name, 0, size)
    content = raw[: raw.rfind(b"\n") + 1]
    return Part(name, len(content), lambda: content)


def taken(gate: Gate, remote: str) -> Taken:
    """Fetch the logs of other machines, and keep them where reading finds them: evidence, unproved without a key.

    Raises OSError, LedgerError, GitError, UnknownRemote.
    """
    refs, folder = LogRefs(gate.workspace), gate.workspace.log_folder
    own = local_names(folder, gate.recorder.log.name)
    fetched = refs.fetch(remote, gate.recorder.machine)
    records = {
        machine: keep_shared(folder, machine, refs.content(machine, IMPORT_BYTES), own) for machine in fetched.logs
    }
    return Taken(records, fetched.refused)
