"""Ledger sharing by tracked files: this machine's log as a file made at commit time, other logs from the history."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct, json

from remit.core.formats.merkle import hash_leaf
from remit.gate.gate import Gate
from remit.gate.log_sharing.as_ref import sign_log
from remit.gate.records.tree_head_report import tracked_log_name
from remit.ledger.foreign_logs import store_tracked_log
from remit.ledger.prune import has_pruned_records
from remit.ledger.reader import measure_segment, read_bytes, read_segment_lines
from remit.ledger.segments import list_segments
from remit.workspace.place.workspace import TRACKED_LOGS_FOLDER
from remit.workspace.sharing.tracked_logs import MAX_LOG_BYTES, TrackedLogs, is_same_log


class TrackedLogDiffers(RuntimeError):
    """Tracked log with records of this machine that its ledger lacks: the log was cut, or the file was altered."""

    def __init__(self, path: str, line: int) -> None:
        super().__init__(
            f"line {line} of {path!r} is a record of this log, and the ledger has no such line: it was cut, the"
            " file was altered, or a copy of this clone wrote it\n"
            "hint: see `remit ledger verify`; where the ledger is whole, delete the file and push again"
        )


class TooLargeToTrack(RuntimeError):
    """Log larger than a tracked file should be."""

    def __init__(self, size: int) -> None:
        super().__init__(
            f"the log has more than {size >> 20} MiB, and hosting sites take no file above 100 MiB"
            '\nhint: set `log = "ref"` under [share] in .orchestration/remit.toml: refs have no such bound'
        )


class NothingToTrack(RuntimeError):
    """Empty log."""

    def __init__(self) -> None:
        super().__init__(
            "the log is empty, so there is nothing to share"
            "\nhint: it begins with the first intent, or an agent's first call"
        )


class TrackedLogReport(Struct, frozen=True):
    """Result of writing the tracked log.

    `commit` is None without a commit; `absent` records were pruned before sharing, `junk` lines of the file were no
    records and were removed. `settled` are merged logs, `unsettled` logs of which neither side continues the other.
    """

    path: str
    records: int
    fresh: int
    bytes: int
    staged: bool
    commit: str | None = None
    stopped: bool = False
    absent: int = 0
    junk: int = 0
    settled: tuple[str, ...] = ()
    unsettled: tuple[str, ...] = ()


class _LogContent(Struct, frozen=True):
    """New content of this machine's tracked file."""

    content: bytes
    absent: int = 0


def write_tracked_log(gate: Gate, *, commit: bool, index: Path | None = None) -> TrackedLogReport:
    """Write this machine's log into its tracked file under a fresh tree head; commit only that file, or stage it.

    `index` is the index locked by a running commit for its hook. During a merge or rebase the file is only staged.
    Raises OSError, LedgerError, GitError, GitHoldsIndex, TrackedLogDiffers, TooLargeToTrack, NothingToTrack.
    """
    sign_log(gate)
    folder, logs = gate.recorder.log.folder, TrackedLogs(gate.workspace, index)
    name = tracked_log_name(gate.recorder.log)
    if name is None:
        raise NothingToTrack
    sides = logs.read_merge_sides()
    present, committed = logs.read_present(name), logs.read_head_version(name)
    kept = [*filter(None, (present, committed)), *sides.get(name, ())]
    made = assemble_log(folder, kept)
    junk = count_junk_lines(gate, name, present or b"", made.content)
    settled = {
        other: longer for other, both in sides.items() if other != name and (longer := join_sides(both)) is not None
    }
    staged = logs.write_and_stage({name: made.content, **settled}, name)
    stopped = logs.is_operation_in_progress
    message = f"Ledger of {gate.recorder.machine}"
    before = committed.count(b"\n") if committed else 0
    return TrackedLogReport(
        f"{TRACKED_LOGS_FOLDER}/{name}",
        made.content.count(b"\n"),
        max(0, made.content.count(b"\n") - before),
        len(made.content),
        staged,
        logs.commit_logs([name], message) if commit and staged and not stopped else None,
        stopped,
        made.absent,
        junk,
        tuple(sorted({*settled, name} & sides.keys())),
        tuple(sorted(sides.keys() - {*settled, name})),
    )


def assemble_log(folder: Path, kept: Sequence[bytes]) -> _LogContent:
    """Return the lines of the log; pruned lines come from `kept`. Raises TooLargeToTrack."""
    parts: list[bytes] = []
    absent = size = 0
    pruned_away: dict[bytes, bytes] | None = None
    for name in list_segments(folder):
        if has_pruned_records(folder, name):
            pruned_away = index_lines_by_leaf(kept) if pruned_away is None else pruned_away
            found = list(restore_lines(folder, name, pruned_away))
            absent += sum(line is None for line in found)
            part = b"".join(line + b"\n" for line in found if line is not None)
        else:
            raw = read_bytes(folder, name, 0, measure_segment(folder, name))
            part = raw[: raw.rfind(b"\n") + 1]
        size += len(part)
        if size > MAX_LOG_BYTES:
            raise TooLargeToTrack(MAX_LOG_BYTES)
        parts.append(part)
    return _LogContent(b"".join(parts), absent)


def index_lines_by_leaf(kept: Iterable[bytes]) -> dict[bytes, bytes]:
    return {hash_leaf(line): line for content in kept for line in content.split(b"\n")}


def restore_lines(folder: Path, segment: str, known: dict[bytes, bytes]) -> Iterator[bytes | None]:
    """Yield the lines of a pruned segment; None for a line found nowhere."""
    for line in read_segment_lines(folder, segment):
        yield known.get(line.leaf) if line.leaf else line.raw


def count_junk_lines(gate: Gate, name: str, present: bytes, content: bytes) -> int:
    """Count the lines of the present file that are no records and will be removed. Raises TrackedLogDiffers."""
    if content.startswith(present):
        return 0
    true = set(content.split(b"\n"))
    own = f'"log":{json.encode(gate.recorder.log.name).decode()}'.encode()
    junk = 0
    for number, line in enumerate(present.split(b"\n"), 1):
        if line.removesuffix(b"\r") in true:
            continue
        if own in line:
            raise TrackedLogDiffers(f"{TRACKED_LOGS_FOLDER}/{name}", number)
        junk += 1
    return junk


def join_sides(both: Sequence[bytes]) -> bytes | None:
    """Return the side of a merge that continues the other; None if neither does, for a person to settle."""
    longest = max(both, key=len)
    return longest if all(longest.startswith(side) for side in both) else None


def import_tracked_logs(gate: Gate) -> dict[str, int]:
    """Store other machines' tracked logs from the history; return the number of new records by log.

    Raises OSError, GitError.
    """
    own, past = tracked_log_name(gate.recorder.log) or "", TrackedLogs(gate.workspace).read_history()
    found = {name: contents for name, contents in past.items() if not is_same_log(name, own)}
    return {name: store_tracked_log(gate.workspace.log_folder, name, contents) for name, contents in found.items()}
