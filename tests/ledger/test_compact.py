"""Archives: nothing is lost, nothing reads differently, and a crash at any point leaves a whole log."""

import gzip
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from killing import count_calls, start_forked, wait_for_end
from ledger.makers import NAME, dump_rows, fill, mutation, open_log, record
from remit.core.record import compute_root, hash_leaf
from remit.ledger.archive import (
    BLOCK_BYTES,
    HASH_BYTES,
    TILE_WIDTH,
    Archive,
    DamagedArchive,
    SegmentPiece,
    SegmentSummary,
    read_segment_pieces,
    read_tile_row,
    write_archive,
)
from remit.ledger.index.index import Index
from remit.ledger.log import SEGMENT_RECORDS
from remit.ledger.log_files import LINE_LIMIT, archive_path, list_archived_segments, list_live_segments, list_segments
from remit.ledger.reader import LogPosition, find_tree_range, measure_log_bytes, read_bytes, read_lines, read_positions
from remit.ledger.retention import compact, sealed_segments
from remit.ledger.tree_heads import measure_tree, read_leaves
from remit.ledger.verify_log import verify_log

BYTES = 20_000


def filled(folder: Path, count: int = 300) -> Path:
    log = open_log(folder, segment_bytes=BYTES)
    for start in range(0, count, 7):
        log.append([mutation(n, f"src/f{n % 5}.py", None, f"v{n}") for n in range(start, min(count, start + 7))])
    log.close()
    return folder


def everything(folder: Path) -> list[tuple[str, int, int, bytes]]:
    return [(line.segment, line.offset, line.seq, line.raw) for line in read_lines(folder)]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return filled(tmp_path_factory.mktemp("log"))


def copy(folder: Path, to: Path) -> Path:
    subprocess.run(["cp", "-r", str(folder), str(to)], check=True)
    return to


def test_every_line_reads_as_before_wherever_one_begins(log: Path, tmp_path: Path) -> None:
    before, root_before, size = everything(log), compute_root(read_leaves(log)), measure_log_bytes(log)
    folder = copy(log, tmp_path / "log")
    done = compact(folder)
    assert (done.segments, list_live_segments(folder)) == (len(list_segments(log)) - 1, list_segments(log)[-1:])
    assert done.bytes_after < done.bytes_before / 2
    assert (everything(folder), compute_root(read_leaves(folder)), measure_log_bytes(folder)) == (
        before,
        root_before,
        size,
    )
    assert verify_log(folder, NAME) == ()
    for segment, offset, seq, raw in before[::17]:
        assert read_bytes(folder, segment, offset, len(raw)) == raw
        assert next(read_lines(folder, LogPosition(segment, offset, seq))).raw == raw


def test_any_gzip_gives_a_segment_back(log: Path, tmp_path: Path) -> None:
    folder = copy(log, tmp_path / "log")
    compact(folder)
    for name in list_archived_segments(folder):
        assert gzip.decompress(archive_path(folder, name).read_bytes()) == (log / name).read_bytes()


def test_an_index_made_before_goes_on_and_one_made_after_is_the_same(log: Path, tmp_path: Path) -> None:
    folder = copy(log, tmp_path / "log")
    with Index.open(tmp_path / "a.db", folder) as before, Index.open(tmp_path / "b.db", folder) as after:
        before.catch_up()
        compact(folder)
        assert before.catch_up() == 0
        after.catch_up()
        assert dump_rows(before) == dump_rows(after)
        assert before.find(path="src/f1.py", limit=99) == after.find(path="src/f1.py", limit=99) != []


def test_appending_goes_on_and_a_head_grows_from_an_earlier_one(log: Path, tmp_path: Path) -> None:
    folder = copy(log, tmp_path / "log")
    known = measure_tree(folder, None, whole=True).frontier
    compact(folder)
    fill(folder, [record(n) for n in range(5)], segment_bytes=BYTES)
    compact(folder)
    assert verify_log(folder, NAME) == ()
    grown, whole = measure_tree(folder, known, whole=False), measure_tree(folder, known, whole=True)
    assert grown.frontier == whole.frontier
    assert known
    assert whole.earlier_root == known.root


def test_a_segment_is_sealed_by_its_records_too(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append([record(n) for n in range(SEGMENT_RECORDS - 1)], sync=False)
    log.append([record(0)], sync=False)
    assert sealed_segments(tmp_path) == []
    log.append([record(0)], sync=False)
    assert sealed_segments(tmp_path) == ["000000000000.jsonl"]
    assert list_segments(tmp_path)[-1] == f"{SEGMENT_RECORDS:012d}.jsonl"


def test_where_all_that_is_not_archived_was_taken_away_numbers_are_not_used_again(log: Path, tmp_path: Path) -> None:
    folder = copy(log, tmp_path / "log")
    compact(folder)
    (folder / list_live_segments(folder)[-1]).unlink()
    (folder / "head").unlink()
    last = [line.seq for line in read_lines(folder)][-1]
    fill(folder, [record(0)], segment_bytes=BYTES)
    # The record of the lost head, and the one that was appended.
    assert [line.seq for line in read_lines(folder)][-2:] == [last + 1, last + 2]
    assert [finding.code for finding in verify_log(folder, NAME)] == ["head_missing"]


def test_the_hashes_of_the_tree_are_kept_by_tiles_and_made_again_where_lost(log: Path, tmp_path: Path) -> None:
    folder = copy(log, tmp_path / "log")
    compact(folder, max_segments=2)
    (folder / "tiles" / "0").write_bytes(b"")
    compact(folder)
    found = list(read_leaves(folder))
    kept = find_tree_range(folder, list_archived_segments(folder)[-1])[1]
    assert read_tile_row(folder, 0, 0, kept) == b"".join(found[:kept])
    assert len(read_tile_row(folder, 0, 0, kept + 1)) == kept * HASH_BYTES
    assert read_tile_row(folder, 1, 0, 9) == b"".join(
        compute_root(found[n : n + TILE_WIDTH]) for n in range(0, kept - TILE_WIDTH + 1, TILE_WIDTH)
    )


content = st.lists(
    st.one_of(st.binary(max_size=60), st.sampled_from([b"\n", b"x" * 70_000, b"line\n" * 20_000])), max_size=12
).map(b"".join)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content, st.data())
def test_any_bytes_come_back_at_any_offset(tmp_path: Path, raw: bytes, data: st.DataObject) -> None:
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    plain.write_bytes(raw)
    write_archive(packed, SegmentSummary(0, raw.count(b"\n"), len(raw), b"\0" * 32), read_segment_pieces(plain))
    with Archive(packed) as archive:
        assert archive.is_whole
        assert archive.gaps() == []
        assert archive.read_range(0, len(raw)) == raw
        offset = data.draw(st.integers(0, len(raw)))
        length = data.draw(st.integers(0, len(raw) - offset))
        assert archive.read_range(offset, length) == raw[offset : offset + length]
        assert archive.read_range(offset, len(raw) - offset + 1) is None


def test_a_line_longer_than_any_record_may_be_stays_one_line(tmp_path: Path) -> None:
    fill(tmp_path, [record(0)], segment_bytes=10)
    path = tmp_path / "000000000000.jsonl"
    path.write_bytes(b"x" * (LINE_LIMIT * 2 + BLOCK_BYTES) + b"\nnext\n")
    fill(tmp_path, [record(1)], segment_bytes=10)
    before = [(line.seq, line.offset, line.size) for line in read_positions(tmp_path)]
    assert compact(tmp_path).segments == 1
    assert [(line.seq, line.offset, line.size) for line in read_positions(tmp_path)] == before


@pytest.mark.parametrize("at", [0, 3, 12, 20, 40, 60, 90, 150, 400, -12, -3])
def test_a_flipped_byte_of_an_archive_is_found_and_stops_no_reader(log: Path, tmp_path: Path, at: int) -> None:
    folder = copy(log, tmp_path / "log")
    compact(folder)
    name = list_archived_segments(folder)[1]
    raw = bytearray(archive_path(folder, name).read_bytes())
    raw[at] ^= 0x40
    archive_path(folder, name).write_bytes(raw)
    found = verify_log(folder, NAME)
    assert {finding.severity for finding in found} == {"error"}
    assert len(everything(folder)) + len(found) >= 2
    with Index.open(tmp_path / "index.db", folder) as index:
        index.catch_up()
        assert index.find(limit=500)


@pytest.mark.parametrize(
    ("summary", "pieces"),
    [
        (SegmentSummary(0, 2**63, 2**63, b""), []),
        (SegmentSummary(2**62, 40, 2**63, b""), [SegmentPiece(5, 3, b"{}\n")]),
        (SegmentSummary(0, 2, 6, b""), [SegmentPiece(2**63, 2**31, b"{}\n"), SegmentPiece(0, 0, b"{}\n")]),
    ],
)
def test_an_archive_that_lies_about_its_size_costs_nothing(
    log: Path, tmp_path: Path, summary: SegmentSummary, pieces: list[SegmentPiece]
) -> None:
    folder = copy(log, tmp_path / "log")
    compact(folder)
    write_archive(archive_path(folder, list_archived_segments(folder)[1]), summary, pieces)
    assert "error" in {finding.severity for finding in verify_log(folder, NAME)}
    assert len(list(read_positions(folder))) < 1000


def test_an_original_is_kept_where_its_archive_would_not_give_it_back(log: Path, tmp_path: Path) -> None:
    folder = copy(log, tmp_path / "log")
    (folder / "archive").mkdir()
    name = list_segments(folder)[0]
    archive_path(folder, name).write_bytes(b"junk")
    before = everything(folder)
    assert everything(folder) == before
    compact(folder)
    assert everything(folder) == before
    archive_path(folder, name).write_bytes(b"junk")
    with pytest.raises(DamagedArchive):
        Archive(archive_path(folder, name))


COMPACT = """
import sys
from pathlib import Path
from remit.ledger.retention import compact
compact(Path(sys.argv[1]))
"""


def test_killed_at_any_moment_every_line_is_there_and_the_next_run_finishes(log: Path, tmp_path: Path) -> None:
    before = everything(log)
    whole = copy(log, tmp_path / "whole")
    calls = count_calls(lambda: compact(whole))
    for attempt in range(20):
        folder = copy(log, tmp_path / str(attempt))
        dying = start_forked(lambda folder=folder: compact(folder), 1 + calls * attempt // 20)
        assert wait_for_end(dying) == -signal.SIGKILL
        assert everything(folder) == before
        compact(folder)
        assert everything(folder) == before
        assert verify_log(folder, NAME) == ()
        assert not list((folder / "archive").glob("*.new"))


def test_a_segment_that_is_archived_while_segments_are_listed_is_among_them(log: Path) -> None:
    """Archived before the first listing, and before the second."""
    names, to_come = list_segments(log), [0, 1]

    def archive_now(event: str, _: tuple[object, ...]) -> None:
        if event == "os.listdir" and to_come:
            countdown.append(None)
            if len(countdown) > to_come[0]:
                del to_come[:], countdown[:]
                compact(log, max_segments=1)

    countdown = list[None]()
    sys.addaudithook(archive_now)
    for before in (0, 1):
        to_come[:] = [before]
        assert list_segments(log) == names


def test_readers_and_writers_go_on_while_a_log_is_archived(tmp_path: Path) -> None:
    folder = filled(tmp_path / "log", 400)
    running = subprocess.Popen([sys.executable, "-c", COMPACT, str(folder)], stdout=subprocess.DEVNULL)
    writer = open_log(folder, segment_bytes=BYTES)
    written = 400
    while running.poll() is None or written < 500:
        writer.append([mutation(written, "src/x.py", None, "v")])
        written += 1
        assert [line.seq for line in read_lines(folder)] == list(range(written))
    writer.close()
    assert running.returncode == 0
    compact(folder)
    assert [hash_leaf(line.raw) for line in read_lines(folder)] == list(read_leaves(folder))
    assert verify_log(folder, NAME) == ()
