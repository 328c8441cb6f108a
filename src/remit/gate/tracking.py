"""This machine's log as a tracked file, made from the ledger at a commit's moment; those of others in the history."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct, json

from remit.core.merkle import leaf_hash
from remit.gate.gate import Gate
from remit.gate.own_log import own_file
from remit.gate.sharing import sign_newest
from remit.ledger.foreign import keep_tracked
from remit.ledger.prune import is_pruned
from remit.ledger.reader import read_at, segment_lines, segment_size
from remit.ledger.segments import segments
from remit.workspace.place import LOGS
from remit.workspace.tracked import MOST_BYTES, is_same_log
from remit.workspace.tracked_logs import TrackedLogs


class TrackedLogDiffers(RuntimeError):
    """A tracked log has records of our log that our log does not have: it was cut, or the file was altered."""

    def __init__(self, path: str, line: int) -> None:
        super().__init__(
            f"line {line} of {path!r} is a record of this log, and the ledger has no such line: it was cut, the"
            " file was altered, or a copy of this clone wrote it\n"
            "hint: see `remit ledger verify`; where the ledger is whole, delete the file and push again"
        )


class TooLargeToTrack(RuntimeError):
    """A log is larger than a tracked file should be."""

    def __init__(self, size: int) -> None:
        super().__init__(
            f"the log has more than {size >> 20} MiB, and hosting sites take no file above 100 MiB"
            '\nhint: set `log = "ref"` under [share] in .orchestration/remit.toml: refs have no such bound'
        )


class NothingToTrack(RuntimeError):
    """The log is empty."""

    def __init__(self) -> None:
        super().__init__(
            "the log is empty, so there is nothing to share"
            "\nhint: it begins with the first intent, or an agent's first call"
        )


class Tracked(Struct, frozen=True):
    """What writing the tracked log did. `commit` is None where nothing was committed; `absent` are records that were
    pruned before they were shared, `junk` lines of the file that were no records and are gone from it. `settled` are
    the logs whose two sides a merge could not join, `unsettled` those of which neither side continues the other.
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


class _Made(Struct, frozen=True):
    """The content that our file is to have."""

    content: bytes
    absent: int = 0


def tracked(gate: Gate, *, commit: bool, index: Path | None = None) -> Tracked:
    """Write this machine's log into its tracked file, under a fresh tree head; commit that file alone, or stage it.

    `index` is the one that a commit which is being made has locked for its hook, and us. In the midst of a merge or a
    rebase the file is only staged. Raises OSError, LedgerError, GitError, GitHoldsIndex, TrackedLogDiffers,
    TooLargeToTrack, NothingToTrack.
    """
    sign_newest(gate)
    folder, logs = gate.recorder.log.folder, TrackedLogs(gate.workspace, index)
    name = own_file(gate.recorder.log)
    if name is None:
        raise NothingToTrack
    sides = logs.sides()
    present, committed = logs.present(name), logs.committed(name)
    kept = [*filter(None, (present, committed)), *sides.get(name, ())]
    made = whole_log(folder, kept)
    junk = left_out(gate, name, present or b"", made.content)
    settled = {other: longer for other, both in sides.items() if other != name and (longer := joined(both)) is not None}
    staged = logs.put({name: made.content, **settled}, name)
    stopped = logs.stopped
    message = f"Ledger of {gate.recorder.machine}"
    before = committed.count(b"\n") if committed else 0
    return Tracked(
        f"{LOGS}/{name}",
        made.content.count(b"\n"),
        max(0, made.content.count(b"\n") - before),
        len(made.content),
        staged,
        logs.commit([name], message) if commit and staged and not stopped else None,
        stopped,
        made.absent,
        junk,
        tuple(sorted({*settled, name} & sides.keys())),
        tuple(sorted(sides.keys() - {*settled, name})),
    )


def whole_log(folder: Path, kept: Sequence[bytes]) -> _Made:
    """The lines of the log; those that were pruned as `kept` has them still. Raises TooLargeToTrack."""
    parts: list[bytes] = []
    absent = size = 0
    pruned_away: dict[bytes, bytes] | None = None
    for name in segments(folder):
        if is_pruned(folder, name):
            pruned_away = by_leaf(kept) if pruned_away is None else pruned_away
            found = list(restored(folder, name, pruned_away))
            absent += sum(line is None for line in found)
            part = b"".join(line + b"\n" for line in found if line is not None)
        else:
            raw = read_at(folder, name, 0, segment_size(folder, name))
            part = raw[: raw.rfind(b"\n") + 1]
        size += len(part)
        if size > MOST_BYTES:
            raise TooLargeToTrack(MOST_BYTES)
        parts.append(part)
    return _Made(b"".join(parts), absent)


def by_leaf(kept: Iterable[bytes]) -> dict[bytes, bytes]:
    """The lines of these files by their hashes."""
    return {leaf_hash(line): line for content in kept for line in content.split(b"\n")}


def restored(folder: Path, segment: str, known: dict[bytes, bytes]) -> Iterator[bytes | None]:
    """The lines of a pruned segment; None for one that is nowhere any more."""
    for line in segment_lines(folder, segment):
        yield known.get(line.leaf) if line.leaf else line.raw


def left_out(gate: Gate, name: str, present: bytes, content: bytes) -> int:
    """How many lines of the file as it lies there are no records of the log, and go. Raises TrackedLogDiffers."""
    if content.startswith(present):
        return 0
    true = set(content.split(b"\n"))
    own = f'"log":{json.encode(gate.recorder.log.name).decode()}'.encode()
    junk = 0
    for number, line in enumerate(present.split(b"\n"), 1):
        if line.removesuffix(b"\r") in true:
            continue
        if own in line:
            raise TrackedLogDiffers(f"{LOGS}/{name}", number)
        junk += 1
    return junk


def joined(both: Sequence[bytes]) -> bytes | None:
    """The side of a merge that continues the other; None where neither does, which a person has to settle."""
    longest = max(both, key=len)
    return longest if all(longest.startswith(side) for side in both) else None


def gathered(gate: Gate) -> dict[str, int]:
    """Keep what the history has of others' tracked logs where reading finds it; how many records each brought.

    Raises OSError, GitError.
    """
    own, past = own_file(gate.recorder.log) or "", TrackedLogs(gate.workspace).history()
    found = {name: contents for name, contents in past.items() if not is_same_log(name, own)}
    return {name: keep_tracked(gate.workspace.log_folder, name, contents) for name, contents in found.items()}
