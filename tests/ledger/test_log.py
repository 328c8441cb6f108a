"""Appending: whole, in order, on the disk, whatever happens to the disk or the process."""

import errno
import gc
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ledger.makers import NAME, documents, fill, make_recovery, open_log, own, record, seqs
from mounting import mounted
from remit.core.record import hash_leaf
from remit.ledger.log import LedgerWriteError, RecordTooLong
from remit.ledger.log_files import LINE_LIMIT, Head, LockTimeout, decode_head, encode_head, hold_lock, read_head
from remit.ledger.verify_log import verify_log
from remit.workspace.processes.process_tracking import list_open


def list_open_in(folder: Path) -> list[str]:
    """List what this process has open in the folder: its other files come and go."""
    return [name for _, name in list_open(os.getpid()) or () if name.startswith(str(folder))]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "git" / "remit" / "log"


def test_opening_makes_nothing(folder: Path) -> None:
    open_log(folder)
    assert not folder.exists()


def test_appending_nothing_makes_nothing(folder: Path) -> None:
    assert open_log(folder).append([]) == ()
    assert not folder.exists()


def test_the_first_record_follows_zeros(folder: Path) -> None:
    open_log(folder).append([record()])
    chain = own(documents(folder)[0])["chain"]
    assert chain == {"log": NAME, "seq": 0, "prev": "sha256:" + "0" * 64}


def test_each_record_names_the_leaf_of_the_line_before(folder: Path) -> None:
    fill(folder, [record(n) for n in range(4)])
    raw = (folder / "000000000000.jsonl").read_bytes().splitlines()
    for before, after in zip(raw, documents(folder)[1:], strict=False):
        assert own(after)["chain"]["prev"] == "sha256:" + hash_leaf(before).hex()


def test_the_answer_says_where_each_line_lies(folder: Path) -> None:
    log = open_log(folder)
    log.append([record(0)])
    placed = log.append([record(1), record(2)])
    assert [p.seq for p in placed] == [1, 2]
    content = (folder / placed[0].segment).read_bytes()
    for place in placed:
        assert content[place.offset : place.offset + place.length] == place.line
        assert hash_leaf(place.line).hex() == place.leaf


def test_the_head_tells_the_last_line(folder: Path) -> None:
    log = open_log(folder)
    last = log.append([record(0), record(1)])[-1]
    end = (folder / last.segment).stat().st_size
    assert read_head(folder) == Head(1, last.leaf, last.segment, end, synced=1)
    log.append([record(2)], sync=False)
    head = read_head(folder)
    assert head is not None
    assert (head.seq, head.synced) == (2, 1)


@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_in_the_head_makes_it_unreadable(bit: int) -> None:
    raw = encode_head(Head(7, "ab" * 32, "000000000000.jsonl", 900, 7))
    for at in range(len(raw) - 1):
        assert decode_head(raw[:at] + bytes([raw[at] ^ 1 << bit]) + raw[at + 1 :]) is None


def test_a_line_longer_than_the_tail_block_is_followed(folder: Path) -> None:
    fill(folder, [record(0, detail={"long": "x" * 1_200_000}), record(1)])
    assert seqs(folder) == [0, 1]
    assert verify_log(folder) == ()


def test_a_line_over_the_limit_is_refused_and_nothing_of_its_batch_is_written(folder: Path) -> None:
    log = open_log(folder)
    log.append([record(0)])
    with pytest.raises(RecordTooLong, match="too-long") as caught:
        log.append([record(1), record(2, id="too-long", detail={"long": "x" * LINE_LIMIT})])
    assert caught.value.record_id == "too-long"
    assert seqs(folder) == [0]


def test_a_full_segment_is_followed_by_one_named_for_its_first_record(folder: Path) -> None:
    fill(folder, [record(n) for n in range(9)], segment_bytes=1000)
    names = sorted(path.name for path in folder.glob("*.jsonl"))
    assert len(names) > 1
    for name in names:
        first = (folder / name).read_bytes().splitlines()[0]
        assert (
            int(name.removesuffix(".jsonl"))
            == seqs(folder)[[hash_leaf(x) for x in _lines(folder)].index(hash_leaf(first))]
        )
    assert verify_log(folder) == ()


def _lines(folder: Path) -> list[bytes]:
    return [line for path in sorted(folder.glob("*.jsonl")) for line in path.read_bytes().splitlines()]


def test_two_logs_open_at_once_take_turns_across_segments(folder: Path) -> None:
    one, two = open_log(folder, segment_bytes=700), open_log(folder, segment_bytes=700)
    for n in range(20):
        (one if n % 2 else two).append([record(n)], sync=False)
    assert seqs(folder) == list(range(20))
    assert verify_log(folder) == ()


def test_a_log_that_was_deleted_under_an_open_one_begins_again(folder: Path) -> None:
    log = open_log(folder)
    log.append([record(0)])
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    assert log.append([record(1)])[0].seq == 0
    assert verify_log(folder) == ()


def test_a_log_that_another_machine_begins_meanwhile_is_left_to_it(folder: Path) -> None:
    ours = open_log(folder, name="4b1d/ours")
    open_log(folder, name="4b1d/theirs").append([record(0)])
    ours.append([record(1)])
    assert ours.folder == folder / "machines" / "ours"
    assert (seqs(folder), seqs(ours.folder)) == ([0], [0])
    assert verify_log(folder, "4b1d/theirs") == verify_log(ours.folder, "4b1d/ours") == ()


def test_the_end_of_the_newest_segment_is_read_from_a_place_on(folder: Path) -> None:
    log = open_log(folder)
    assert log.read_end(99) == b""
    _, second, third = log.append([record(n) for n in range(3)])
    raw = (folder / second.segment).read_bytes()
    for reader in (log, open_log(folder)):
        assert reader.read_end(10**6) == raw
        assert reader.read_end(10) == raw[-10:]
        assert reader.read_end(10**6, (second.segment, second.offset)) == raw[second.offset :]
        assert reader.read_end(10, (second.segment, second.offset)) == raw[-10:]
        assert reader.read_end(10**6, ("000000000009.jsonl", second.offset)) == raw
        assert reader.read_end(10**6, (third.segment, third.end)) == b""


def test_a_full_segment_is_left_for_the_one_that_another_process_began(folder: Path) -> None:
    size = sum(line.length + 1 for line in open_log(folder.with_name("like")).append([record(0)]))
    log = open_log(folder, segment_bytes=size)
    log.append([record(0)])
    last = open_log(folder, segment_bytes=size).append([record(1)])[0]
    assert log.read_end(10**6) == last.line + b"\n"


def test_a_closed_log_leaves_no_open_file_and_opens_again(folder: Path) -> None:
    log = open_log(folder)
    log.append([record(0)])
    log.close()
    assert list_open_in(folder) == []
    log.append([record(1)])
    assert seqs(folder) == [0, 1]
    log.close()


def test_threads_share_one_log(folder: Path) -> None:
    log = open_log(folder)

    def work(start: int) -> None:
        for n in range(50):
            log.append([record(start + n)], sync=False)

    threads = [threading.Thread(target=work, args=(100 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seqs(folder) == list(range(200))
    assert verify_log(folder) == ()


# Views


def test_views_get_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    view = tmp_path / "agent_trace.jsonl"
    log = open_log(folder)
    log.append([record(0)], views=[view])
    log.append([record(1), record(2)], views=[view])
    assert view.read_bytes() == (folder / "000000000000.jsonl").read_bytes()


def test_a_view_that_cannot_be_written_fails_nothing(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.write_text("untouched\n")
    link, pipe, missing = tmp_path / "link", tmp_path / "pipe", tmp_path / "no" / "view"
    link.symlink_to(target)
    os.mkfifo(pipe)
    open_log(folder).append([record(0)], views=[link, pipe, missing, tmp_path, tmp_path / "good"])
    assert seqs(folder) == [0]
    assert target.read_text() == "untouched\n"
    assert (tmp_path / "good").read_bytes() == (folder / "000000000000.jsonl").read_bytes()


def test_a_view_whose_last_line_is_unfinished_is_not_run_on(folder: Path, tmp_path: Path) -> None:
    view = tmp_path / "view"
    view.write_bytes(b'{"half":')
    placed = open_log(folder).append([record(0)], views=[view])
    assert view.read_bytes() == b'{"half":\n' + placed[0].line + b"\n"


# Torn and lost tails


def test_a_torn_tail_is_moved_aside_and_recorded(folder: Path) -> None:
    fill(folder, [record(0), record(1)])
    segment = folder / "000000000000.jsonl"
    end = segment.stat().st_size
    with segment.open("ab") as file:
        file.write(b'{"files":[],"id":"half')
    assert [f.code for f in verify_log(folder)] == ["torn_tail"]
    placed = open_log(folder).append([record(2)])
    assert [p.seq for p in placed] == [3]
    detail = own(documents(folder)[2])
    assert (detail["event"], detail["bytes"], detail["offset"]) == ("recovery", 22, end)
    assert detail["segment"] == segment.name
    assert (folder / "torn" / f"{detail['torn_sha256']}.bin").read_bytes() == b'{"files":[],"id":"half'
    assert verify_log(folder) == ()


def test_each_torn_tail_and_each_loss_is_recorded_once(folder: Path) -> None:
    fill(folder, [record(0), record(1)])
    segment = folder / "000000000000.jsonl"
    segment.write_bytes(_lines(folder)[0] + b'\n{"half')
    log = open_log(folder)
    log.append([record(2)])
    log.append([record(3)])
    told = [own(document).get("reason") for document in documents(folder)]
    assert told == [None, "torn_tail", "tail_lost", None, None]


def test_the_head_of_a_single_record_is_missed(folder: Path) -> None:
    fill(folder, [record(0)])
    (folder / "head").unlink()
    fill(folder, [record(1)])
    assert [own(document)["event"] for document in documents(folder)] == ["tool_use", "recovery", "tool_use"]


def test_a_segment_that_holds_only_a_torn_line_is_begun_again(folder: Path) -> None:
    fill(folder, [record(n) for n in range(3)], segment_bytes=100)
    (folder / "000000000003.jsonl").write_bytes(b"{")
    open_log(folder, segment_bytes=100).append([record(3)])
    assert seqs(folder) == [0, 1, 2, 3, 4]
    assert verify_log(folder) == ()


def test_what_is_cut_off_stays_named_after_the_log_goes_on(folder: Path) -> None:
    log = open_log(folder)
    log.append([record(n) for n in range(5)])
    lines = _lines(folder)
    (folder / "000000000000.jsonl").write_bytes(b"".join(line + b"\n" for line in lines[:3]))
    open_log(folder).append([record(9)])
    assert seqs(folder) == [0, 1, 2, 5, 6]
    assert own(documents(folder)[3])["reason"] == "tail_lost"
    assert [(f.code, f.severity, f.seq, f.last_seq) for f in verify_log(folder)] == [("removed", "error", 3, 4)]


@pytest.mark.parametrize(
    ("old", "new"), [(b"INT-001", b"INT-009"), (b'"INT-001"', b'"INT-001,'), (b'"seq":2}', b'"seq":9}')]
)
def test_a_last_line_altered_in_place_stays_named_after_the_log_goes_on(folder: Path, old: bytes, new: bytes) -> None:
    open_log(folder).append([record(n) for n in range(3)])
    *before, last = _lines(folder)
    lines = [*before, last.replace(old, new)]
    (folder / "000000000000.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    open_log(folder).append([record(9)])
    assert [(f.code, f.seq) for f in verify_log(folder)] == [("altered", 2)]


def test_a_line_put_at_the_end_by_hand_does_not_lead_the_log_astray(folder: Path) -> None:
    open_log(folder).append([record(n) for n in range(3)])
    segment = folder / "000000000000.jsonl"
    segment.write_bytes(segment.read_bytes() + _lines(folder)[0] + b"\n")
    open_log(folder).append([record(9)])
    assert [(f.code, f.seq) for f in verify_log(folder)] == [("duplicated", 0)]


def test_a_segment_that_was_copied_into_place_is_appended_to(folder: Path) -> None:
    log = open_log(folder)
    log.append([record(0)])
    segment = folder / "000000000000.jsonl"
    copy = folder / "copy"
    copy.write_bytes(segment.read_bytes())
    copy.replace(segment)
    log.append([record(1)])
    assert seqs(folder) == [0, 1]
    assert verify_log(folder) == ()


def test_records_that_were_never_synced_may_be_gone_after_a_power_failure(folder: Path) -> None:
    log = open_log(folder)
    log.append([record(0)])
    kept = _lines(folder)[0] + b"\n"
    log.append([record(1), record(2)], sync=False)
    (folder / "000000000000.jsonl").write_bytes(kept)
    assert [(f.code, f.severity) for f in verify_log(folder)] == [("truncated", "warning")]
    open_log(folder).append([record(3)])
    assert [(f.code, f.severity, f.seq) for f in verify_log(folder)] == [("removed", "warning", 1)]


def test_a_missing_head_is_made_again_and_the_log_says_so(folder: Path) -> None:
    fill(folder, [record(n) for n in range(4)])
    (folder / "head").unlink()
    segment = folder / "000000000000.jsonl"
    segment.write_bytes(b"".join(segment.read_bytes().splitlines(keepends=True)[:2]))
    assert [(f.code, f.severity) for f in verify_log(folder)] == [("head_missing", "error")]
    fill(folder, [record(4), record(5)])
    assert seqs(folder) == [0, 1, 2, 3, 4]
    told = [(own(d)["event"], own(d).get("reason")) for d in documents(folder)]
    assert told[2:4] == [("recovery", "head_lost"), ("tool_use", None)]
    assert [(f.code, f.severity, f.seq) for f in verify_log(folder)] == [("head_missing", "error", 2)]


def test_a_log_that_was_taken_away_with_its_head_says_so_where_tree_heads_are_left(folder: Path) -> None:
    fill(folder, [record(0)])
    (folder / "heads").mkdir()
    (folder / "000000000000.jsonl").unlink()
    (folder / "head").unlink()
    fill(folder, [record(1)])
    assert [own(d)["event"] for d in documents(folder)] == ["recovery", "tool_use"]


def test_a_head_that_is_behind_is_caught_up(folder: Path) -> None:
    fill(folder, [record(0)])
    head = (folder / "head").read_bytes()
    fill(folder, [record(1)])
    (folder / "head").write_bytes(head)
    assert [(f.code, f.severity, f.seq) for f in verify_log(folder)] == [("head_behind", "warning", 1)]
    fill(folder, [record(2)])
    assert verify_log(folder) == ()


def test_after_a_crash_only_what_the_head_knew_as_synced_counts_as_synced(folder: Path) -> None:
    open_log(folder).append([record(n) for n in range(6)])
    head = (folder / "head").read_bytes()
    open_log(folder).append([record(n) for n in range(6, 9)], sync=False)
    (folder / "head").write_bytes(head)
    log = open_log(folder)
    log.append([record(9)], sync=False)
    assert (found := read_head(folder)) is not None
    assert (found.seq, found.synced) == (9, 5)
    log.append([record(10)])
    assert (found := read_head(folder)) is not None
    assert (found.seq, found.synced) == (10, 10)


# A disk that refuses


@contextmanager
def largest_file(size: int) -> Generator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    former = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, former)


def test_the_head_has_its_space_before_the_first_line(folder: Path) -> None:
    with largest_file(300), pytest.raises(LedgerWriteError):
        open_log(folder).append([record(0, detail={"long": "x" * 9000})])
    assert read_head(folder) == Head()
    assert verify_log(folder) == ()
    fill(folder, [record(0)])
    assert verify_log(folder) == ()


def test_a_file_size_limit_leaves_nothing_half_written(folder: Path) -> None:
    log = open_log(folder)
    log.append([record(0)])
    before = (folder / "000000000000.jsonl").read_bytes()
    with largest_file(len(before) + 300), pytest.raises(LedgerWriteError, match="ulimit") as caught:
        log.append([record(1, detail={"long": "x" * 9000})])
    assert (caught.value.errno, caught.value.path) == (errno.EFBIG, str(folder))
    assert (folder / "000000000000.jsonl").read_bytes() == before
    log.append([record(2)])
    assert seqs(folder) == [0, 1]
    assert verify_log(folder) == ()


@pytest.fixture
def small_disk() -> Generator[Path]:
    """A file system of 64 KiB."""
    with mounted("-t", "tmpfs", "-o", "size=64k", "tmpfs") as disk:
        yield disk


def test_a_full_disk_leaves_nothing_half_written(small_disk: Path) -> None:
    folder = small_disk / "log"
    log = open_log(folder)
    kept = [log.append([record(n, detail={"long": "x" * 3000})])[0].seq for n in range(8)]
    large = [record(n, detail={"long": "x" * 10_000}) for n in range(8)]
    with pytest.raises(LedgerWriteError, match="free some space") as caught:
        log.append(large)
    assert caught.value.errno == errno.ENOSPC
    assert seqs(folder) == kept
    assert verify_log(folder) == ()
    assert log.append(large[:1])[0].seq == 8
    log.close()


def test_a_disk_without_room_for_a_new_segment_keeps_the_log_whole(small_disk: Path) -> None:
    log = open_log(small_disk / "log", segment_bytes=1000)
    log.append([record(n, detail={"long": "x" * 3000}) for n in range(3)])
    filler = small_disk / "filler"
    with pytest.raises(OSError, match="space"):
        filler.write_bytes(b"x" * 100_000)
    with pytest.raises(LedgerWriteError, match="free some space"):
        log.append([record(3)])
    filler.unlink()
    log.append([record(4)])
    assert seqs(small_disk / "log") == [0, 1, 2, 3]
    assert verify_log(small_disk / "log") == ()
    log.close()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LedgerWriteError, match="file/log"):
        open_log(tmp_path / "file" / "log").append([record()])


def test_a_lock_is_not_waited_for_without_end(tmp_path: Path) -> None:
    again = hold_lock(tmp_path / "lock", timeout_s=0.1)
    with hold_lock(tmp_path / "lock"), pytest.raises(LockTimeout, match="held by another process"), again:
        pass
    with hold_lock(tmp_path / "lock", timeout_s=0.1):
        pass


def test_an_append_gives_up_on_a_lock_and_writes_nothing(folder: Path) -> None:
    open_log(folder).append([record(0)])
    refused = pytest.raises(LedgerWriteError, match="held by another process")
    with hold_lock(folder / "lock"), refused as caught:
        open_log(folder, lock_timeout_s=0.1).append([record(1)])
    assert caught.value.errno == errno.ETIMEDOUT
    assert seqs(folder) == [0]


# Start-up


def test_the_log_imports_only_what_is_cheap() -> None:
    script = """if True:
        import sys
        import remit.core.record
        before = set(sys.modules)
        import remit.ledger.log
        print("\\n".join(set(sys.modules) - before))"""
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    outside = {name for name in done.stdout.split() if not name.startswith("remit.")}
    assert outside <= {"fcntl", "hashlib", "_hashlib", "_blake2", "errno"}


def test_the_recovery_factory_gets_only_plain_values(folder: Path) -> None:
    fill(folder, [record(0)])
    with (folder / "000000000000.jsonl").open("ab") as file:
        file.write(b"torn")
    open_log(folder).append([record(1)])
    detail = own(documents(folder)[1])
    assert make_recovery({"bytes": detail["bytes"]}).body.detail == {"bytes": 4}


def test_logs_that_nobody_closed_leave_no_open_file(folder: Path) -> None:
    open_log(folder).append([record()])
    gc.collect()
    before = list_open_in(folder)
    for number in range(1, 20):
        open_log(folder).append([record(number)])
    gc.collect()
    assert len(list_open_in(folder)) <= len(before)
