"""Pruning: what is dropped is gone, what is left proves itself, and nothing goes without a record that says so."""

import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from killing import count_calls, start_forked, wait_for_end
from ledger.makers import NAME, fill, mutation, open_log, record, stamp
from remit.core.record import Record, compute_root
from remit.ledger.archive import open_archive
from remit.ledger.index.index import Index, remove_index
from remit.ledger.log_files import archive_path, list_archived_segments
from remit.ledger.reader import LogPosition, read_lines, read_positions
from remit.ledger.retention import (
    build_keep_rule,
    build_pruning_detail,
    compact,
    list_pruned_parts,
    plan_pruning,
    prune,
    read_pruned_ranges,
)
from remit.ledger.tree_heads import measure_tree, read_leaves
from remit.ledger.verify_log import check_log_health, verify_log

BYTES = 8_000
LATE = stamp(3000)
STANDING = frozenset({"src/f1.py"})


def records() -> Iterator[Record]:
    for n in range(120):
        yield mutation(n, f"src/f{n % 5}.py", None, f"v{n}") if n % 4 else record(n)
    yield record(120, event="intent_changed", detail={"name": "x", "content_sha256": "y", "by": "person"})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    log = open_log(tmp_path / "log", segment_bytes=BYTES)
    log.append([record(0, event="tree_head", detail={"note": "n"})])
    for one in records():
        log.append([one], sync=False)
    log.append([record(n) for n in range(30)])
    log.append([record(0)])
    log.close()
    compact(tmp_path / "log")
    return tmp_path / "log"


def pruned(folder: Path, *, standing: frozenset[str] | None = STANDING, before: str = LATE, size: int = 999) -> int:
    """Prune as the command does; how many records went."""
    plan = plan_pruning(folder, before, size, verify_log(folder, NAME), build_keep_rule(folder, standing))
    told = record(0, event="pruned", detail=build_pruning_detail(plan, read_pruned_ranges(folder)))
    fill(folder, [told], segment_bytes=BYTES)
    prune(folder, plan)
    return plan.dropped_counts.total()


def test_what_tells_of_standing_files_stays_with_heads_and_intents(folder: Path) -> None:
    before = {line.seq: line.raw for line in read_lines(folder)}
    gone = pruned(folder)
    after = {line.seq: line.raw for line in read_lines(folder)}
    assert gone > 60
    assert len(before) - gone + 1 == len(after)
    archived = {line.seq for line in read_positions(folder) if (folder / "archive" / f"{line.segment}.gz").exists()}
    left = [raw for seq, raw in after.items() if seq in archived]
    assert all(b"src/f1.py" in raw or b"intent_changed" in raw or b"tree_head" in raw for raw in left)
    assert sum(b'"mutation"' in raw for raw in left) > 10
    assert all(before[seq] == raw for seq, raw in after.items() if seq in before)


def test_chain_roots_and_heads_hold_as_before(folder: Path) -> None:
    known = measure_tree(folder, None, whole=True).frontier
    assert known
    hashes = list(read_leaves(folder))
    pruned(folder)
    assert verify_log(folder, NAME) == ()
    assert list(read_leaves(folder))[: len(hashes)] == hashes
    assert measure_tree(folder, known, whole=True).earlier_root == known.root == compute_root(hashes).hex()
    assert check_log_health(folder).ok
    fill(folder, [record(1)], segment_bytes=BYTES)
    assert verify_log(folder, NAME) == ()


def test_all_goes_where_no_file_is_to_be_explained_and_a_second_time_nothing_does(folder: Path) -> None:
    pruned(folder)
    assert pruned(folder, standing=None) > 10
    assert verify_log(folder, NAME) == ()
    assert pruned(folder, standing=None) == 0
    (part,) = list_pruned_parts(folder)
    assert (part.first, part.gone + 2) == (0, part.last + 1)


def test_offsets_of_what_is_left_stay_and_reading_goes_on_from_any_place(folder: Path) -> None:
    before = {line.seq: (line.segment, line.offset) for line in read_lines(folder)}
    pruned(folder)
    everything = list(read_positions(folder))
    assert [line.seq for line in everything] == list(range(len(everything)))
    for number, line in enumerate(everything):
        if not line.leaf and line.seq in before:
            assert before[line.seq] == (line.segment, line.offset)
        rest = read_positions(folder, LogPosition(line.segment, line.offset, line.seq))
        assert list(rest) == everything[number:]


def test_the_index_forgets_what_is_gone(folder: Path, tmp_path: Path) -> None:
    with Index.open(tmp_path / "index.db", folder) as index:
        index.catch_up()
        assert index.find(path="src/f2.py", limit=99)
    pruned(folder)
    remove_index(tmp_path / "index.db")
    with Index.open(tmp_path / "index.db", folder) as index:
        index.catch_up()
        assert index.find(path="src/f2.py", limit=99) == []
        assert index.find(path="src/f1.py", limit=99)


def test_records_that_are_dropped_without_a_word_are_missed(folder: Path) -> None:
    plan = plan_pruning(folder, LATE, 999, (), build_keep_rule(folder, None))
    prune(folder, plan)
    found = verify_log(folder, NAME)
    assert [finding.code for finding in found] == ["removed"] * len(found)
    assert "no record announces a pruning" in found[0].message


def test_a_hash_that_was_altered_after_pruning_changes_the_root(folder: Path) -> None:
    known = measure_tree(folder, None, whole=True).frontier
    assert known
    pruned(folder, standing=None)
    path = folder / "tiles" / "0"
    raw = bytearray(path.read_bytes())
    raw[40 * 32] ^= 1
    path.write_bytes(raw)
    assert measure_tree(folder, known, whole=True).earlier_root != known.root


def test_an_altered_record_beside_pruned_ones_is_named(folder: Path) -> None:
    pruned(folder)
    name = list_archived_segments(folder)[1]
    raw = bytearray(archive_path(folder, name).read_bytes())
    raw[-20] ^= 0xFF
    archive_path(folder, name).write_bytes(raw)
    assert "error" in {finding.severity for finding in verify_log(folder, NAME)}


def test_only_segments_go_that_are_old_signed_and_sound(folder: Path) -> None:
    keep = build_keep_rule(folder, None)
    assert plan_pruning(folder, "2026-01-01", 999, (), keep).segments == ()
    unsigned = plan_pruning(folder, LATE, 30, (), keep)
    assert unsigned.segments
    assert all(one.last < 30 for one in unsigned.segments)
    assert "no tree head" in unsigned.skipped[0]
    name = list_archived_segments(folder)[2]
    (folder / "tiles" / "0").open("r+b").close()
    with open_archive(folder, name) as archive:
        index = archive.summary.index
    with (folder / "tiles" / "0").open("r+b") as file:
        file.seek(index * 32)
        file.write(b"\0" * 32)
    altered = plan_pruning(folder, LATE, 999, (), keep)
    assert name not in {one.segment for one in altered.segments}
    assert "differs from its stored hash" in altered.skipped[0]


def copy(folder: Path, name: str) -> Path:
    to = folder.with_name(name)
    subprocess.run(["cp", "-r", str(folder), str(to)], check=True)
    return to


def make_pruning(folder: Path) -> Callable[[], object]:
    """Plan, and return the pruning itself."""
    plan = plan_pruning(folder, LATE, 999, (), build_keep_rule(folder, None))
    return lambda: prune(folder, plan)


def test_killed_while_it_prunes_what_was_to_stay_is_there_and_the_next_run_finishes(folder: Path) -> None:
    hashes = list(read_leaves(folder))
    kept = [line.raw for line in read_lines(folder) if b"intent_changed" in line.raw or b"tree_head" in line.raw]
    plan = plan_pruning(folder, LATE, 999, (), build_keep_rule(folder, None))
    fill(folder, [record(0, event="pruned", detail=build_pruning_detail(plan, ()))], segment_bytes=BYTES)
    calls = count_calls(make_pruning(copy(folder, "whole")))
    for attempt in range(20):
        again = copy(folder, str(attempt))
        assert wait_for_end(start_forked(make_pruning(again), 1 + calls * attempt // 20)) == -signal.SIGKILL
        assert verify_log(again, NAME) == ()
        pruned(again, standing=None)
        assert verify_log(again, NAME) == ()
        assert list(read_leaves(again))[: len(hashes)] == hashes
        assert set(kept) <= {line.raw for line in read_lines(again)}
