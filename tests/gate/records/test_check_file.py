"""What is said of a tracked log, whatever bytes it has."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.makers import open_log, record
from remit.gate.records.check_logs import check_content
from remit.ledger.foreign_logs import read_foreign_records
from remit.ledger.reader import read_lines

RECORDS = 12
LAWS = settings(max_examples=80, deadline=None)


@cache
def log() -> tuple[bytes, ...]:
    """The lines of a log."""
    with TemporaryDirectory() as folder:
        opened = open_log(Path(folder))
        opened.append([record(number) for number in range(RECORDS)])
        return tuple(line.raw for line in read_lines(Path(folder)))


def file_of(found: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in found)


def read(content: bytes) -> int:
    """How many records reading finds in a tracked file of that content."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "tracked.jsonl")
        path.write_bytes(content)
        return len(read_foreign_records(Path(folder, "none"), Path(folder), (), (), [path]))


@LAWS
@given(st.integers(0, RECORDS), st.lists(st.integers(0, RECORDS - 1)))
def test_a_beginning_of_a_log_and_doubles_of_its_lines_are_no_damage(count: int, again: list[int]) -> None:
    found = list(log()[:count])
    content = file_of([*found, *(found[n] for n in again if n < count)])
    assert list(check_content(content)) == []
    assert read(content) == count
    assert list(check_content(content.replace(b"\n", b"\r\n"))) == []


@LAWS
@given(st.integers(0, RECORDS - 2), st.data())
def test_a_changed_byte_is_named_by_its_line(number: int, data: st.DataObject) -> None:
    found = list(log())
    at = data.draw(st.integers(0, len(found[number]) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda new: new not in (found[number][at], 10, 13)))
    found[number] = found[number][:at] + bytes([byte]) + found[number][at + 1 :]
    assert any(str(number + 1) in said or str(number) in said for said in check_content(file_of(found)))
    assert read(file_of(found)) >= RECORDS - 1


@LAWS
@given(st.binary(max_size=400), st.integers(0, RECORDS))
def test_junk_between_the_lines_takes_none_of_them_away(junk: bytes, at: int) -> None:
    content = file_of(list(log()[:at])) + junk + b"\n" + file_of(list(log()[at:]))
    list(check_content(content))
    assert read(content) == RECORDS
