"""Following logs: every line once, in order, also across segments, restarts and lines that are written in two parts."""

from pathlib import Path

from remit.ledger.log_files import segment_name
from remit.ledger.tail import LogTail


def append(folder: Path, text: str, segment: int = 0) -> None:
    with (folder / segment_name(segment)).open("a") as file:
        file.write(text)


def texts(tail: LogTail) -> list[str]:
    return [line.raw.decode() for line in tail.read_new_lines()]


def test_each_line_comes_once_from_the_present_end_on(tmp_path: Path) -> None:
    append(tmp_path, '{"a":1}\n{"a":2}\n')
    tail = LogTail(tmp_path)
    assert texts(tail) == []
    append(tmp_path, '{"a":3}\n{"a":4}\n')
    assert texts(tail) == ['{"a":3}', '{"a":4}']
    assert texts(tail) == []


def test_a_line_in_two_parts_comes_when_it_is_whole(tmp_path: Path) -> None:
    append(tmp_path, '{"a":1}\n{"a"')
    tail = LogTail(tmp_path)
    assert texts(tail) == []
    append(tmp_path, ":2}")
    assert texts(tail) == []
    append(tmp_path, "\n")
    assert texts(tail) == ['{"a":2}']


def test_a_new_segment_and_a_new_log_are_followed(tmp_path: Path) -> None:
    tail = LogTail(tmp_path)
    append(tmp_path, '{"a":1}\n')
    append(tmp_path, '{"a":2}\n', segment=1)
    assert texts(tail) == ['{"a":1}', '{"a":2}']
    append(tmp_path, '{"a":3}\n', segment=1)
    assert texts(tail) == ['{"a":3}']


def test_another_reader_reads_on_from_kept_positions(tmp_path: Path) -> None:
    append(tmp_path, '{"a":1}\n')
    first = LogTail(tmp_path)
    append(tmp_path, '{"a":2}\n')
    kept = dict(first.positions)
    assert texts(first) == ['{"a":2}']
    append(tmp_path, '{"a":3}\n')
    assert texts(LogTail(tmp_path, kept)) == ['{"a":2}', '{"a":3}']
    assert texts(LogTail(tmp_path, first.positions)) == ['{"a":3}']
