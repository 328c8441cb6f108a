"""Ledger sharing by tracked files: the local log as a file made at commit time, imported logs from the history."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct, json

from remit.core.formats.merkle import hash_leaf
from remit.gate.context import WorkspaceContext
from remit.gate.log_sharing.as_ref import read_complete_lines, sign_log
from remit.gate.records.tree_head_report import tracked_log_name
from remit.ledger.foreign_logs import store_tracked_log
from remit.ledger.prune import has_pruned_records
from remit.ledger.reader import read_segment_lines
from remit.ledger.segments import list_segments
from remit.workspace.place.workspace import TRACKED_LOGS_FOLDER
from remit.workspace.sharing.tracked_logs import MAX_LOG_BYTES, TrackedLogs, is_same_log


class TrackedLogDiffers(RuntimeError):
    """Tracked log of the machine with records missing in the ledger: the log was cut, or the file was altered."""

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


def write_tracked_log(context: WorkspaceContext, *, commit: bool, index: Path | None = None) -> TrackedLogReport:
    """Write the machine's log into its tracked file under a fresh tree head; commit only the file, or stage it.

    `index` is the index locked by a running commit for its hook. During a merge or rebase the file is only staged.
    Raises OSError, LedgerError, GitError, GitHoldsIndex, TrackedLogDiffers, TooLargeToTrack, NothingToTrack.
    """
    recorder, logs = context.recorder, TrackedLogs(context.workspace, index)
    sign_log(context)
    name = tracked_log_name(recorder.log)
    if name is None:
        raise NothingToTrack

    # 1 The content: the whole log; pruned records as any known version of the file still has them.
    sides = logs.read_merge_sides()
    present, committed = logs.read_present(name), logs.read_head_version(name)
    known = [*filter(None, (present, committed)), *sides.get(name, ())]
    content, absent = assemble_log(recorder.log.folder, known)
    junk = count_junk_lines(recorder.log.name, name, present or b"", content)

    # 2 Both sides of a merge in progress: of each other log the longer one, if it continues the shorter.
    joined = {other: join_sides(both) for other, both in sides.items() if other != name}
    settled = {other: longer for other, longer in joined.items() if longer is not None}

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
    """Return the lines of the log, and the number of absent lines; pruned lines come from `known`.

    Raises TooLargeToTrack.
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
            raise TooLargeToTrack(MAX_LOG_BYTES)
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


def join_sides(both: Sequence[bytes]) -> bytes | None:
    """Return the longer side of a merge if it continues the shorter; None for a person to settle."""
    longest = max(both, key=len)
    return longest if all(longest.startswith(side) for side in both) else None


def import_tracked_logs(context: WorkspaceContext) -> dict[str, int]:
    """Store imported tracked logs from the history; return the number of new records by log.

    Raises OSError, GitError.
    """
    own = tracked_log_name(context.recorder.log) or ""
    folder = context.workspace.log_folder
    return {
        name: store_tracked_log(folder, name, contents)
        for name, contents in TrackedLogs(context.workspace).read_history().items()
        if not is_same_log(name, own)
    }
