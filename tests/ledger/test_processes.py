"""Promises that only real processes can show: many writers, killed writers, and the order of system calls."""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from killing import start_forked, wait_for_end
from ledger.makers import documents, open_log, own, record, seqs
from remit.ledger.log_files import hold_lock
from remit.ledger.verify_log import verify_log

MAX_CALLS = 300  # of a writer until it is killed: some twenty appends


def finish(children: list[int]) -> list[int]:
    return [wait_for_end(pid) for pid in children]


@pytest.mark.parametrize(("each", "sync", "views"), [(2500, False, False), (60, True, True)])
def test_eight_processes_lose_and_interleave_nothing(tmp_path: Path, each: int, sync: bool, views: bool) -> None:
    folder, view = tmp_path / "log", tmp_path / "view"
    inherited = open_log(folder, segment_bytes=1_000_000)
    inherited.append([record(0, id="first")], views=[view] if views else [])

    def write(writer: int) -> None:
        for n in range(each):
            inherited.append([record(n, id=f"{writer}-{n}")], sync=sync, views=[view] if views else [])

    children = [start_forked(lambda writer=writer: write(writer)) for writer in range(8)]
    assert finish(children) == [0] * 8
    assert seqs(folder) == list(range(8 * each + 1))
    assert verify_log(folder) == ()
    found = [document["id"] for document in documents(folder)]
    for writer in range(8):
        mine = [id for id in found if id.startswith(f"{writer}-")]
        assert mine == [f"{writer}-{n}" for n in range(each)]
    if views:
        assert view.read_bytes() == b"".join(path.read_bytes() for path in sorted(folder.glob("*.jsonl")))


def writer_until_killed(folder: Path, acknowledged: int, name: str) -> None:
    log = open_log(folder, segment_bytes=200_000)
    n = 0
    while True:
        size = 1 + n % 3
        batch = [record(n, id=f"{name}-{n}-{k}", detail={"fill": "x" * (n % 5 * 400)}) for k in range(size)]
        placed = log.append(batch, sync=n % 2 == 0)
        os.write(acknowledged, "".join(f"{r.id}\n" for r in batch).encode())
        assert len(placed) == size
        n += 1


@pytest.mark.live
def test_two_hundred_kills_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    acknowledged = tmp_path / "acknowledged"
    descriptor = os.open(acknowledged, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    chance = random.Random(7)
    for round_number in range(50):
        names = [f"{round_number}-{n}" for n in range(4)]
        children = [
            start_forked(lambda name=name: writer_until_killed(folder, descriptor, name), chance.randint(1, MAX_CALLS))
            for name in names
        ]
        assert finish(children) == [-signal.SIGKILL] * 4
    os.close(descriptor)
    promised = set(acknowledged.read_text().splitlines())
    assert len(promised) > 500
    assert not [f for f in verify_log(folder) if f.severity == "error"]
    open_log(folder).append([record(0, id="after")])
    found = [document["id"] for document in documents(folder)]
    assert promised <= set(found)
    assert len(found) == len(set(found))
    assert verify_log(folder) == ()


def test_a_writer_that_died_holding_the_lock_holds_it_no_more(tmp_path: Path) -> None:
    def die() -> None:
        log = open_log(tmp_path)
        log.append([record(0)])
        with hold_lock(log.folder / "lock"):
            os.kill(os.getpid(), signal.SIGKILL)

    finish([start_forked(die)])
    open_log(tmp_path).append([record(1)])  # raises where the lock is still held


SCRIPT = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from ledger.makers import open_log, record
log = open_log(Path(sys.argv[1]))
for n in range(3):
    log.append([record(n, id=f"r{n}")], sync=sys.argv[3] == "sync")
    os.write(1, f"acknowledged {n}\\n".encode())
"""


def traced(tmp_path: Path, mode: str) -> list[str]:
    """What a writer asked of the system: `log`, `flush` and `answer`, in order."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("SKIPPED LOUDLY: without strace the order of write and flush is not proved")
    trace = tmp_path / "trace"
    tests = str(Path(__file__).parent.parent)
    arguments = [sys.executable, "-c", SCRIPT, str(tmp_path / "log"), tests, mode]
    done = subprocess.run(
        [strace, "-f", "-qq", "-s", "200", "-e", "trace=write,fdatasync", "-o", str(trace), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    if "ptrace" in done.stderr:
        pytest.skip(f"SKIPPED LOUDLY: strace may not trace here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    kinds = {r"fdatasync\(": "flush", r"write\(\d+, \"acknowledged": "answer", r"write\(\d+, \"\{\\\"files": "log"}
    lines = trace.read_text().splitlines()
    return [kind for line in lines for pattern, kind in kinds.items() if re.search(pattern, line)]


def test_the_line_is_flushed_before_it_is_acknowledged(tmp_path: Path) -> None:
    assert traced(tmp_path, "sync") == ["log", "flush", "answer"] * 3


def test_an_append_without_sync_is_one_write_and_no_flush(tmp_path: Path) -> None:
    assert traced(tmp_path, "nosync") == ["log", "answer"] * 3


def test_the_chain_of_a_repaired_log_tells_the_crash(tmp_path: Path) -> None:
    open_log(tmp_path).append([record(0)])
    segment = tmp_path / "000000000000.jsonl"
    whole, head = segment.read_bytes(), (tmp_path / "head").read_bytes()
    for cut in range(1, len(whole), 37):
        (tmp_path / "head").write_bytes(head)
        segment.write_bytes(whole + whole[:cut])
        open_log(tmp_path).append([record(1)])
        assert [own(d)["event"] for d in documents(tmp_path)] == ["tool_use", "recovery", "tool_use"]
        assert verify_log(tmp_path) == ()
