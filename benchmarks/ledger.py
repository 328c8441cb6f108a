"""What archiving costs and saves: compacting, reading by offset, reading everything, and appending beside it.

`python benchmarks/ledger.py [RECORDS]`, 50,000 by default. Nothing is asserted: the table is the result.
"""

import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from remit.core.record import Body, CallPart, Content, Conversation, MutatedFile, Range, Record, TracedFile
from remit.ledger.log import MachineLog
from remit.ledger.log_files import list_segments
from remit.ledger.reader import read_bytes, read_lines
from remit.ledger.retention import compact
from remit.ledger.verify_log import verify_log

NAME = "0" * 40 + "/0123456789ab"
BATCH = 8
READS = 400
TIMED = 8000
"""Records whose appending is timed, before and after."""


def record(number: int, drawn: random.Random) -> Record:
    """Every fourth a change, the others uses of tools; hashes are drawn, since those do not compress."""
    path, intent, session = f"src/module_{number % 997}.py", f"INT-{number // 700:03d}", f"session-{number // 200}"
    call = CallPart(
        id=f"toolu_{drawn.randbytes(9).hex()}",
        name="Edit",
        effect="write",
        paths=(path,),
        arguments_sha256=drawn.randbytes(32).hex(),
    )
    name = f"{number:012x}-7{drawn.randbytes(9).hex()}"
    at = f"2026-02-21T12:{number // 60 % 60:02d}:{number % 60:02d}.{drawn.randrange(10**6):06d}Z"
    body = Body(event="tool_use", call=call, intent_id=intent, session_id=session)
    if number % 4:
        return Record(name, at, body)
    sides = [Content(sha256=drawn.randbytes(32).hex(), git_blob=drawn.randbytes(20).hex(), lines=40) for _ in range(2)]
    changed = MutatedFile(path=path, operation="modify", before=sides[0], after=sides[1])
    written = Range(start_line=4, end_line=9, content_hash=f"sha256:{drawn.randbytes(32).hex()}")
    traced = TracedFile(path=path, conversations=(Conversation(ranges=(written,)),))
    body = Body(event="mutation", call=call, intent_id=intent, session_id=session, files=(changed,))
    return Record(name, at, body, files=(traced,))


def unrepaired(_: object) -> Record:
    raise AssertionError("nothing is damaged here")


def appended(folder: Path, made: Sequence[Record]) -> float:
    """Microseconds a record, in batches as calls make them, without waiting for the disk."""
    log = MachineLog(folder, NAME, make_recovery=unrepaired)
    started = time.perf_counter()
    for at in range(0, len(made), BATCH):
        log.append(made[at : at + BATCH], sync=False)
    taken = time.perf_counter() - started
    log.close()
    return taken / len(made) * 1e6


def by_offset(folder: Path, places: Sequence[tuple[str, int, int]]) -> float:
    """Median microseconds to read one line anywhere."""
    times: list[float] = []
    for segment, offset, length in places:
        started = time.perf_counter()
        read_bytes(folder, segment, offset, length)
        times.append(time.perf_counter() - started)
    return statistics.median(times) * 1e6


def measured(folder: Path, places: Sequence[tuple[str, int, int]]) -> tuple[float, float, float]:
    """Reading by offset, reading every line, verifying: microseconds, seconds, seconds."""
    offset = by_offset(folder, places)
    started = time.perf_counter()
    count = sum(1 for _ in read_lines(folder))
    read = time.perf_counter()
    assert verify_log(folder, NAME) == ()
    assert count
    return offset, read - started, time.perf_counter() - read


def main(count: int) -> None:
    drawn = random.Random(7)
    made = [record(number, drawn) for number in range(count + TIMED)]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "log"
        appended(folder, made[: count - TIMED])
        first = appended(folder, made[count - TIMED : count])
        found = [(line.segment, line.offset, len(line.raw)) for line in read_lines(folder)]
        sealed = [place for place in found if place[0] != list_segments(folder)[-1]]
        places = drawn.sample(sealed, min(READS, len(sealed)))
        plain = measured(folder, places)
        started = time.perf_counter()
        done = compact(folder)
        taken = time.perf_counter() - started
        packed = measured(folder, places)
        second = appended(folder, made[count:])
    rows = (
        ("records, segments archived", f"{count:,}", f"{done.segments}"),
        ("bytes", f"{done.bytes_before:,}", f"{done.bytes_after:,} ({done.bytes_after / done.bytes_before:.3f})"),
        ("compacting", "", f"{taken:.2f} s, {done.bytes_before / taken / 1e6:.0f} MB/s"),
        ("one line by offset, median", f"{plain[0]:.0f} µs", f"{packed[0]:.0f} µs"),
        ("all lines", f"{plain[1]:.2f} s", f"{packed[1]:.2f} s"),
        ("verify", f"{plain[2]:.2f} s", f"{packed[2]:.2f} s"),
        (f"append, a record in batches of {BATCH}", f"{first:.1f} µs", f"{second:.1f} µs"),
    )
    print(f"{'':40}{'plain':>16}{'archived':>28}")
    for name, one, other in rows:
        print(f"{name:40}{one:>16}{other:>28}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50_000)
