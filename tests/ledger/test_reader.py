"""Reading a log: all its whole lines, and only those."""

from pathlib import Path

import pytest

from ledger.makers import fill, open_log, record
from remit.ledger.log_files import LINE_LIMIT
from remit.ledger.reader import LineNotThere, LogPosition, read_bytes, read_lines, read_positions


def test_lines_come_in_order_across_segments(tmp_path: Path) -> None:
    fill(tmp_path, [record(n) for n in range(7)], segment_bytes=600)
    found = list(read_lines(tmp_path))
    assert [line.seq for line in found] == list(range(7))
    for line in found:
        assert read_bytes(tmp_path, line.segment, line.offset, len(line.raw)) == line.raw


@pytest.mark.parametrize("read", range(7))
def test_reading_goes_on_after_any_line(tmp_path: Path, read: int) -> None:
    fill(tmp_path, [record(n) for n in range(7)], segment_bytes=600)
    found = list(read_lines(tmp_path))
    assert list(read_lines(tmp_path, found[read].next_position)) == found[read + 1 :]


def test_an_unfinished_last_line_is_left_out(tmp_path: Path) -> None:
    open_log(tmp_path).append([record(0)])
    with (tmp_path / "000000000000.jsonl").open("ab") as file:
        file.write(b'{"half"')
    assert [line.seq for line in read_lines(tmp_path)] == [0]
    assert [line.ended for line in read_positions(tmp_path)] == [True, False]


def test_a_line_that_grows_while_it_is_read_is_whole_or_absent(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    log.append([record(0)])
    reading = read_lines(tmp_path, LogPosition("000000000000.jsonl", 0, 0))
    next(reading)
    log.append([record(1)])
    assert [line.seq for line in reading] in ([], [1])


def test_a_line_over_the_limit_is_cut_and_the_next_is_found(tmp_path: Path) -> None:
    (tmp_path / "000000000000.jsonl").write_bytes(b"x" * (LINE_LIMIT * 2 + 3) + b"\nnext\n")
    long, after = read_lines(tmp_path)
    assert (len(long.raw), long.size) == (LINE_LIMIT, LINE_LIMIT * 2 + 4)
    assert (after.raw, after.offset) == (b"next", long.size)


def test_other_files_in_the_folder_are_no_segments(tmp_path: Path) -> None:
    fill(tmp_path, [record(0)])
    (tmp_path / "notes.jsonl").write_text("{}\n")
    (tmp_path / "000000000000.jsonl.bak").write_text("{}\n")
    assert len(list(read_lines(tmp_path))) == 1


@pytest.mark.parametrize(("segment", "offset"), [("000000000000.jsonl", 10_000), ("000000000009.jsonl", 0)])
def test_bytes_that_are_not_there_are_named(tmp_path: Path, segment: str, offset: int) -> None:
    fill(tmp_path, [record(0)])
    with pytest.raises(LineNotThere, match=segment):
        read_bytes(tmp_path, segment, offset, 10)
