"""Whatever is done to a log is reported, and named."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ledger.makers import command, fill, open_log, record, stamp
from remit.ledger.findings import LedgerFinding
from remit.ledger.log_files import Head, read_head, write_head
from remit.ledger.reader import read_lines
from remit.ledger.retention import compact, plan_pruning, prune
from remit.ledger.verify_log import verify_log

LAWS = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@dataclass
class Written:
    """A log as it was appended, taken apart; `segment_bytes` small makes many segments."""

    folder: Path
    lines: list[bytes]

    @property
    def segment(self) -> Path:
        return self.folder / "000000000000.jsonl"

    def rewrite(self, lines: list[bytes]) -> None:
        self.segment.write_bytes(b"".join(lines))

    def findings(self) -> tuple[LedgerFinding, ...]:
        return verify_log(self.folder)

    def named(self) -> set[int]:
        """Every seq that an error names."""
        found = [f for f in self.findings() if f.severity == "error" and f.seq is not None]
        return {seq for f in found for seq in range(f.seq or 0, (f.last_seq or 0) + 1)}


@contextmanager
def written(size: int) -> Generator[Written]:
    with TemporaryDirectory() as name:
        folder = Path(name) / "log"
        open_log(folder).append([command(n, f"echo {n} ä") for n in range(size)])
        yield Written(folder, (folder / "000000000000.jsonl").read_bytes().splitlines(keepends=True))


sizes = st.integers(1, 40)


@LAWS
@given(sizes)
def test_a_log_as_appended_is_clean(size: int) -> None:
    with written(size) as log:
        assert log.findings() == ()


@LAWS
@given(sizes, st.data())
def test_any_flipped_bit_is_reported_and_names_its_record(size: int, data: st.DataObject) -> None:
    with written(size) as log:
        k = data.draw(st.integers(0, size - 1))
        at = data.draw(st.integers(0, len(log.lines[k]) - 1))
        line = bytearray(log.lines[k])
        line[at] ^= 1 << data.draw(st.integers(0, 7))
        log.rewrite([*log.lines[:k], bytes(line), *log.lines[k + 1 :]])
        # Without its newline a line runs into the next: neither is a record any more.
        newline_lost = at == len(log.lines[k]) - 1 and k < size - 1
        assert log.named() == ({k, k + 1} if newline_lost else {k})


@LAWS
@given(sizes, st.data())
def test_any_other_bytes_in_a_line_are_reported_and_name_it(size: int, data: st.DataObject) -> None:
    with written(size) as log:
        k = data.draw(st.integers(0, size - 1))
        line = data.draw(st.binary(max_size=40)).replace(b"\n", b"") + b"\n"
        log.rewrite([*log.lines[:k], line, *log.lines[k + 1 :]])
        assert log.named() == {k}


@LAWS
@given(sizes, st.data())
def test_a_forged_seq_does_not_mislead(size: int, data: st.DataObject) -> None:
    with written(size) as log:
        k = data.draw(st.integers(0, size - 1))
        other = data.draw(st.integers(-2, size + 2))
        assume(other != k)
        line = log.lines[k].replace(b'"seq":%d}' % k, b'"seq":%d}' % other)
        assume(line != log.lines[k])
        log.rewrite([*log.lines[:k], line, *log.lines[k + 1 :]])
        assert log.named() == {k}


@LAWS
@given(sizes, st.data())
def test_removed_lines_are_reported_and_named(size: int, data: st.DataObject) -> None:
    with written(size) as log:
        first = data.draw(st.integers(0, size - 1))
        last = data.draw(st.integers(first, size - 1))
        log.rewrite([*log.lines[:first], *log.lines[last + 1 :]])
        assert log.named() == set(range(first, last + 1))
        assert {f.code for f in log.findings()} == {"truncated" if last == size - 1 else "removed"}


@LAWS
@given(sizes, st.data())
def test_a_duplicate_anywhere_is_reported_and_named(size: int, data: st.DataObject) -> None:
    with written(size) as log:
        k = data.draw(st.integers(0, size - 1))
        place = data.draw(st.integers(0, size))
        log.rewrite([*log.lines[:place], log.lines[k], *log.lines[place:]])
        assert [(f.code, f.seq) for f in log.findings()] == [("duplicated", k)]


@LAWS
@given(st.integers(2, 40), st.data())
def test_two_swapped_lines_are_both_named(size: int, data: st.DataObject) -> None:
    with written(size) as log:
        i, j = sorted(data.draw(st.sets(st.integers(0, size - 1), min_size=2, max_size=2)))
        lines = list(log.lines)
        lines[i], lines[j] = lines[j], lines[i]
        log.rewrite(lines)
        assert {f.code for f in log.findings()} == {"moved"}
        assert log.named() == {i, j}


@LAWS
@given(sizes, st.data())
def test_a_tail_cut_at_any_byte_is_reported_and_names_what_is_gone(size: int, data: st.DataObject) -> None:
    with written(size) as log:
        content = b"".join(log.lines)
        end = data.draw(st.integers(0, len(content) - 1))
        log.segment.write_bytes(content[:end])
        whole = content[:end].count(b"\n")
        assert log.named() == set(range(whole, size))
        torn = [f for f in log.findings() if f.code == "torn_tail"]
        assert bool(torn) == (not content[:end].endswith(b"\n") and end > 0)


@LAWS
@given(sizes, st.data())
def test_what_was_done_stays_named_after_the_log_went_on(size: int, data: st.DataObject) -> None:
    with written(size) as log:
        content = b"".join(log.lines)
        end = data.draw(st.integers(0, len(content) - 1))
        log.segment.write_bytes(content[:end])
        open_log(log.folder).append([record(1)])
        assert log.named() == set(range(content[:end].count(b"\n"), size))


@settings(LAWS, max_examples=60)
@given(sizes, st.lists(st.tuples(st.integers(0, 3), st.integers(0, 39), st.integers(0, 39)), min_size=1, max_size=4))
def test_several_changes_at_once_never_go_unreported(size: int, changes: list[tuple[int, int, int]]) -> None:
    with written(size) as log:
        lines = list(log.lines)
        for kind, a, b in changes:
            if not lines:
                break
            i, j = a % len(lines), b % len(lines)
            if kind == 0:
                lines[i] = lines[i].replace(b"echo", b"rm  ")
            elif kind == 1:
                del lines[i]
            elif kind == 2:
                lines.insert(j, lines[i])
            else:
                lines[i], lines[j] = lines[j], lines[i]
        assume(lines != log.lines)
        log.rewrite(lines)
        assert any(f.severity == "error" for f in log.findings())


def test_lines_that_are_no_records_are_named_by_what_they_replace(tmp_path: Path) -> None:
    for bad in (b"not json\n", b"\xff\xfe\n", b"{}\n", b"\n", b"[1]\n"):
        with written(3) as log:
            log.rewrite([log.lines[0], bad, log.lines[2]])
            assert [(f.code, f.seq, f.line) for f in log.findings()] == [("altered", 1, 2)]


def test_a_line_that_was_never_appended_is_foreign() -> None:
    with written(3) as log:
        log.rewrite([log.lines[0], b"{}\n", *log.lines[1:]])
        assert [(f.code, f.seq, f.line) for f in log.findings()] == [("foreign", None, 2)]


def test_the_messages_name_place_and_record() -> None:
    with written(3) as log:
        log.rewrite([log.lines[0], log.lines[1].replace(b"echo", b"rm"), log.lines[2]])
        assert [f.message for f in log.findings()] == ["000000000000.jsonl:2: record 1: altered, not what was appended"]


def test_a_record_of_another_log_is_named() -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        open_log(folder, name="a/1").append([record(0), record(1)])
        (folder / "owner").write_text("b/2\n")
        open_log(folder, name="b/2").append([record(2), record(3)])
        assert [(f.code, f.seq, f.last_seq) for f in verify_log(folder)] == [("wrong_log", 2, 3)]
        assert [(f.code, f.seq, f.last_seq) for f in verify_log(folder, "b/2")] == [("wrong_log", 0, 1)]


def test_a_head_that_leads_says_what_is_gone() -> None:
    with written(3) as log:
        head = read_head(log.folder)
        assert head is not None
        write_head(log.folder, Head(9, "ab" * 32, head.segment, head.end + 900, 9))
        found = verify_log(log.folder)
        assert [(f.code, f.seq, f.last_seq) for f in found if f.severity == "error"] == [("truncated", 3, 9)]


def test_a_removed_segment_is_named(tmp_path: Path) -> None:
    for gone in range(4):
        folder = tmp_path / str(gone)
        fill(folder, [command(n, "ls") for n in range(8)], segment_bytes=800)
        names = sorted(path.name for path in folder.glob("*.jsonl"))
        assert len(names) == 4
        (folder / names[gone]).unlink()
        assert [(f.seq, f.last_seq) for f in verify_log(folder)] == [(2 * gone, 2 * gone + 1)]


def test_a_segment_cut_in_the_middle_of_the_log_is_named(tmp_path: Path) -> None:
    fill(tmp_path, [command(n, "ls") for n in range(8)], segment_bytes=800)
    segment = tmp_path / "000000000002.jsonl"
    segment.write_bytes(segment.read_bytes()[:-5])
    assert [(f.code, f.seq) for f in verify_log(tmp_path)] == [("altered", 3)]


def test_no_log_is_a_clean_log(tmp_path: Path) -> None:
    assert verify_log(tmp_path / "none") == ()


def test_a_damaged_head_is_an_error(tmp_path: Path) -> None:
    fill(tmp_path, [record(0)])
    (tmp_path / "head").write_bytes(b"\x00" * 140)
    assert [(f.code, f.severity) for f in verify_log(tmp_path)] == [("head_missing", "error")]


def test_a_line_after_the_head_that_names_another_before_it_is_altered(tmp_path: Path) -> None:
    fill(tmp_path, [record(0), record(1)])
    head = (tmp_path / "head").read_bytes()
    fill(tmp_path, [record(2)])
    (tmp_path / "head").write_bytes(head)
    segment = tmp_path / "000000000000.jsonl"
    *before, last = segment.read_bytes().splitlines(keepends=True)
    at = last.index(b"sha256:") + 7
    forged = last[:at] + (b"0" * 64) + last[at + 64 :]
    segment.write_bytes(b"".join([*before, forged]))
    assert [(f.code, f.seq) for f in verify_log(tmp_path)] == [("altered", 2)]


@pytest.mark.parametrize(("behind", "expected"), [(0, []), (1, [(5, 5)]), (2, [(4, 5)])])
def test_records_behind_the_head_are_reported_from_the_first_one_on(
    tmp_path: Path, behind: int, expected: list[tuple[int, int]]
) -> None:
    fill(tmp_path, [record(n) for n in range(6 - behind)])
    head = (tmp_path / "head").read_bytes()
    fill(tmp_path, [record(n) for n in range(6 - behind, 6)])
    (tmp_path / "head").write_bytes(head)
    found = verify_log(tmp_path)
    assert [(f.code, f.severity) for f in found] == [("head_behind", "warning")] * len(expected)
    assert [(f.seq, f.last_seq) for f in found] == expected


def test_of_two_prunings_only_the_one_that_no_record_announces_is_reported(tmp_path: Path) -> None:
    announced: list[tuple[int, int]] = [(3, 4)]
    fill(tmp_path, [record(n) for n in range(10)], segment_bytes=5000)
    fill(tmp_path, [record(10, event="pruned", detail={"pruned": announced})], segment_bytes=1)
    compact(tmp_path)
    seqs = {line.raw: line.seq for line in read_lines(tmp_path)}
    prune(tmp_path, plan_pruning(tmp_path, stamp(10), 99, (), lambda raw, event: seqs[raw] not in (3, 4, 7, 8)))
    assert [(f.code, f.seq, f.last_seq) for f in verify_log(tmp_path)] == [("removed", 7, 8)]
