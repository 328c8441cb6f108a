"""Sharing of logs: the local log is written to a git ref, or to a tracked file at commit time; others are imported.
Everything raises OSError, LedgerError, GitError.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct, json

from remit.core.record import hash_leaf
from remit.gate.records.recorder import Recorder
from remit.gate.records.tree_heads import make_head, tracked_log_name
from remit.ledger.foreign_logs import MAX_IMPORT_BYTES, store_shared_log, store_tracked_log
from remit.ledger.log_files import list_local_names, list_segments, read_head
from remit.ledger.reader import measure_segment, read_bytes, read_segment_lines
from remit.ledger.retention import has_pruned_records
from remit.ledger.tree_heads import read_frontier
from remit.workspace.place.workspace import TRACKED_LOGS_FOLDER
from remit.workspace.sharing.shared_refs import LogPart, LogRefs, SharedLog
from remit.workspace.sharing.tracked_logs import MAX_LOG_BYTES, TrackedLogs, is_same_log


class LogFetch(Struct, frozen=True):
    """Result of a fetch: number of records by machine, and the refused machines."""

    records: dict[str, int]
    refused: tuple[str, ...]


class TrackedLogDiffers(RuntimeError):
    """Tracked log of the machine with records missing in the ledger: the log was cut, or the file was altered."""

    def __init__(self, path: str, line: int) -> None:
        super().__init__(
            f"line {line} of {path!r} is a record of this log, and the ledger has no such line: it was cut, the"
            " file was altered, or a copy of this clone wrote it\n"
            "hint: see `remit ledger verify`; where the ledger is whole, delete the file and push again"
        )


class LogNotTrackable(RuntimeError):
    """Log that is empty, or larger than a tracked file should be."""


class TrackedLogReport(Struct, frozen=True):
    """Result of writing the tracked log. `commit` is None without a commit; `absent` records were pruned before
    sharing, `junk` lines of the file were no records and were removed. `settled` are merged logs, `unsettled` logs of
    which neither side continues the other.
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


# Refs


def write_log_ref(recorder: Recorder) -> SharedLog:
    """Write the machine's log to a ref, under a fresh tree head; no data leaves it. Raises SharedLogDiffers."""
    folder = recorder.log.folder
    sign_log(recorder)
    names, absent, parts = list_segments(folder), list[str](), list[LogPart]()
    for name in names:
        if name == names[-1]:
            content = read_complete_lines(folder, name)
            parts.append(LogPart(name, len(content), partial(bytes, content)))
        elif has_pruned_records(folder, name):
            absent.append(name)
        else:
            size = measure_segment(folder, name)
            parts.append(LogPart(name, size, partial(read_bytes, folder, name, 0, size)))
    return LogRefs(recorder.workspace).write_ref(recorder.machine, parts, absent)


def sign_log(recorder: Recorder) -> None:
    """Sign the log, unless its newest record is the record of a tree head that covers all before it."""
    folder = recorder.log.folder
    covered, last = read_frontier(folder), read_head(folder)
    if covered is None or last is None or last.seq != covered.seq + 1:
        make_head(recorder)


def read_complete_lines(folder: Path, segment: str) -> bytes:
    content = read_bytes(folder, segment, 0, measure_segment(folder, segment))
    return content[: content.rfind(b"\n") + 1]


def fetch_logs(recorder: Recorder, remote: str) -> LogFetch:
    """Fetch remote machines' logs and store them as evidence, unproved without a key. Raises UnknownRemote."""
    refs, folder = LogRefs(recorder.workspace), recorder.workspace.log_folder
    own = list_local_names(folder, recorder.log.name)
    fetched = refs.fetch_logs(remote, recorder.machine)
    records = {
        machine: store_shared_log(folder, machine, refs.read_log(machine, MAX_IMPORT_BYTES), own)
        for machine in fetched.logs
    }
    return LogFetch(records, fetched.refused)


# Tracked files


def write_tracked_log(recorder: Recorder, *, commit: bool, index: Path | None = None) -> TrackedLogReport:
    """Write the machine's log into its tracked file under a fresh tree head; commit only the file, or stage it. `index`
    is the index locked by a running commit for its hook. During a merge or rebase the file is only staged. Raises
    IndexLocked, TrackedLogDiffers, LogNotTrackable.
    """
    logs = TrackedLogs(recorder.workspace, index)
    sign_log(recorder)
    name = tracked_log_name(recorder.log)
    if name is None:
        hint = "it begins with the first intent, or an agent's first call"
        raise LogNotTrackable(f"the log is empty, so there is nothing to share\nhint: {hint}")

    # 1 The content: the whole log; pruned records as any known version of the file still has them.
    sides = logs.read_merge_sides()
    present, committed = logs.read_present(name), logs.read_head_version(name)
    known = [*filter(None, (present, committed)), *sides.get(name, ())]
    content, absent = assemble_log(recorder.log.folder, known)
    junk = count_junk_lines(recorder.log.name, name, present or b"", content)

    # 2 Both sides of a merge in progress: of each other log the longer one, if it continues the shorter. The rest is
    # for a person to settle.
    longest = {other: max(both, key=len) for other, both in sides.items() if other != name}
    settled = {other: side for other, side in longest.items() if all(side.startswith(s) for s in sides[other])}

    # 3 Write, and commit.
    is_staged, is_stopped = logs.write_and_stage({name: content, **settled}, name), logs.is_operation_in_progress
    must_commit = commit and is_staged and not is_stopped
    records = content.count(b"\n")
    return TrackedLogReport(
        path=f"{TRACKED_LOGS_FOLDER}/{name}",
        records=records,
        fresh=max(0, records - (committed or b"").count(b"\n")),
        bytes=len(content),
        staged=is_staged,
        commit=logs.commit_logs([name], f"Ledger of {recorder.machine}") if must_commit else None,
        stopped=is_stopped,
        absent=absent,
        junk=junk,
        settled=tuple(sorted({*settled, name} & sides.keys())),
        unsettled=tuple(sorted(sides.keys() - {*settled, name})),
    )


def assemble_log(folder: Path, known: Sequence[bytes]) -> tuple[bytes, int]:
    """Return the lines of the log, and the number of absent lines; pruned lines come from `known`. Raises
    LogNotTrackable.
    """
    parts: list[bytes] = []
    absent = size = 0
    by_leaf: dict[bytes, bytes] | None = None
    for name in list_segments(folder):
        if has_pruned_records(folder, name):
            if by_leaf is None:
                by_leaf = {hash_leaf(line): line for content in known for line in content.split(b"\n")}
            lines = [by_leaf.get(line.leaf) if line.leaf else line.raw for line in read_segment_lines(folder, name)]
            absent += lines.count(None)
            part = b"".join(line + b"\n" for line in lines if line is not None)
        else:
            part = read_complete_lines(folder, name)
        size += len(part)
        if size > MAX_LOG_BYTES:
            raise LogNotTrackable(
                f"the log has more than {MAX_LOG_BYTES >> 20} MiB, and hosting sites take no file above 100 MiB"
                '\nhint: set `log = "ref"` under [share] in .orchestration/remit.toml: refs have no such bound'
            )
        parts.append(part)
    return b"".join(parts), absent


def count_junk_lines(log_name: str, file_name: str, present: bytes, content: bytes) -> int:
    """Count the lines of the present file that are no records and will be removed. Raises TrackedLogDiffers."""
    if content.startswith(present):
        return 0
    records = set(content.split(b"\n"))
    own_mark = b'"log":' + json.encode(log_name)
    junk = 0
    for number, line in enumerate(present.split(b"\n"), 1):
        if line.removesuffix(b"\r") in records:
            continue
        if own_mark in line:
            raise TrackedLogDiffers(f"{TRACKED_LOGS_FOLDER}/{file_name}", number)
        junk += 1
    return junk


def import_tracked_logs(recorder: Recorder) -> dict[str, int]:
    """Store imported tracked logs from the history; return the number of new records by log."""
    own = tracked_log_name(recorder.log) or ""
    folder = recorder.workspace.log_folder
    return {
        name: store_tracked_log(folder, name, contents)
        for name, contents in TrackedLogs(recorder.workspace).read_history().items()
        if not is_same_log(name, own)
    }
