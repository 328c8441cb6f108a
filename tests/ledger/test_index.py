"""The index: found again by every key, and the same however it came to be."""

import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledger.makers import command, dump_rows, mutation, open_log, own, record
from remit.core.record import Record
from remit.ledger.index.build import BATCH_LINES
from remit.ledger.index.index import BULK_BYTES, Index
from remit.ledger.log import MachineLog
from remit.ledger.log_files import hold_lock
from remit.ledger.verify_log import verify_log


@pytest.fixture
def log(tmp_path: Path) -> MachineLog:
    return open_log(tmp_path / "log")


def indexed(log: MachineLog, name: str = "index.db") -> Index:
    index = Index.open(log.folder.parent / name, log.folder)
    index.catch_up()
    return index


def ids(documents: list[dict[str, Any]]) -> list[str]:
    return [document["id"] for document in documents]


def test_every_key_finds_its_records_newest_first(log: MachineLog) -> None:
    log.append(
        [
            record(0, id="aa-0", event="session_start", session_id="s1", intent_id=None),
            command(1, "pytest -q 100%_done"),
            record(2, id="bb-2", session_id="s2", intent_id="INT-002"),
            mutation(3, "src/a.py", None, "one", session_id="s2"),
            mutation(4, "src/a.py", "one", "two"),
        ]
    )
    with indexed(log) as index:
        everything = [own(d)["chain"]["seq"] for d in index.find()]
        assert everything == [4, 3, 2, 1, 0]

        def found(**by: Any) -> list[int]:
            return [own(d)["chain"]["seq"] for d in index.find(**by)]

        assert found(limit=2) == [4, 3]
        assert found(event="mutation") == [4, 3]
        assert found(session_id="s2") == [3, 2]
        assert found(session_id="s2", event="mutation") == [3]
        assert found(intent_id="INT-002") == [2]
        assert found(path="src/a.py") == [4, 3]
        assert found(path="src") == []
        assert found(since="2026-02-21T12:00:03") == [4, 3]
        assert found(until="2026-02-21T12:00:01") == [0]
        assert found(words=["pytest"]) == [1]
        assert found(event="'; drop table records; --") == []


def test_an_id_is_found_by_a_prefix(log: MachineLog) -> None:
    log.append([record(n, id=text) for n, text in enumerate(["abc-1", "abd-2", "xyz-3", "a%-4"])])
    with indexed(log) as index:
        assert ids(index.find_by_id_prefix("abc")) == ["abc-1"]
        assert ids(index.find_by_id_prefix("ab")) == ["abd-2", "abc-1"]
        assert ids(index.find_by_id_prefix("a%")) == ["a%-4"]
        assert index.find_by_id_prefix("zzz") == []


def test_the_mutations_of_a_path_are_its_chain(log: MachineLog) -> None:
    log.append([mutation(0, "a", None, "one"), mutation(1, "b", None, "x"), mutation(2, "a", "one", "two")])
    log.append([mutation(3, "a", "two", None), mutation(4, "a", None, "one")])
    with indexed(log) as index:
        chain = index.list_changes("a")
        assert [m.seq for m in chain] == [0, 2, 3, 4]
        assert [(m.before_blob, m.after_blob) for m in chain] == [
            (None, "blob-one"),
            ("blob-one", "blob-two"),
            ("blob-two", None),
            (None, "blob-one"),
        ]
        assert chain[1].after_sha == "sha-two"
        assert (chain[1].event, chain[1].session_id, chain[1].intent_id) == ("mutation", "s1", "INT-001")


def test_a_content_is_found_by_its_hash(log: MachineLog) -> None:
    log.append([mutation(0, "a", None, "one"), mutation(1, "a", "one", "two")])
    with indexed(log) as index:
        assert [own(d)["chain"]["seq"] for d in index.find(content_hash="sha256:range-two")] == [1]
        assert [own(d)["chain"]["seq"] for d in index.find(content_hash="range-one")] == [0]
        assert [own(d)["chain"]["seq"] for d in index.find(content_hash="sha-one")] == [1, 0]


def test_catching_up_takes_only_what_is_new(log: MachineLog) -> None:
    log.append([record(0), record(1)])
    with indexed(log) as index:
        assert index.catch_up() == 0
        log.append([record(2)])
        assert index.catch_up() == 1
        assert len(index.find()) == 3


def test_the_newest_record_is_found_without_asking_for_it(log: MachineLog) -> None:
    log.append([record(0, id="a-0"), record(1, id="a-1")])
    with Index.open(log.folder.parent / "index.db", log.folder) as index:
        assert ids(index.find()) == ["a-1", "a-0"]
        log.append([record(2, id="a-2")])
        assert ids(index.find(limit=1)) == ["a-2"]
        log.append([command(3, "pytest -q")])
        assert [own(d)["chain"]["seq"] for d in index.find(words=["pytest"])] == [3]


def test_a_log_that_was_replaced_is_indexed_anew(tmp_path: Path, log: MachineLog) -> None:
    log.append([record(0, id="old-0"), record(1, id="old-1")])
    with indexed(log) as index:
        for path in log.folder.glob("*"):
            path.unlink()
        open_log(log.folder).append([record(n, id=f"new-{n}") for n in range(3)])
        index.catch_up()
        assert ids(index.find()) == ["new-2", "new-1", "new-0"]
        with indexed(log, "fresh.db") as fresh:
            assert dump_rows(index) == dump_rows(fresh)


def test_a_log_that_is_gone_empties_the_index(log: MachineLog) -> None:
    log.append([record(0)])
    with indexed(log) as index:
        for path in log.folder.glob("*.jsonl"):
            path.unlink()
        index.catch_up()
        assert index.find() == []


def test_lines_of_another_shape_do_not_stop_it(log: MachineLog) -> None:
    log.append([record(0, id="r0", detail={"approval": {"id": 7}, "files": "three", "call": 4})])
    with (log.folder / "000000000000.jsonl").open("ab") as file:
        file.write(b'not json\n\xff\n{}\n{"id":"foreign","timestamp":"2026","metadata":{"dev.remit":{"event":7}}}\n')
    log.append([record(1, id="r1")])
    with indexed(log) as index:
        assert ids(index.find()) == ["r1", "foreign", "r0"]


def test_a_record_that_stands_twice_is_found_once(log: MachineLog) -> None:
    log.append([mutation(0, "a", None, "one")])
    segment = log.folder / "000000000000.jsonl"
    segment.write_bytes(segment.read_bytes() * 2)
    with indexed(log) as index:
        assert len(index.find()) == 1
        assert len(index.list_changes("a")) == 1


def header(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"\0" * 100)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def scramble(path: Path) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (size - 4096))


def empty(path: Path) -> None:
    path.write_bytes(b"")


def older(path: Path) -> None:
    database = sqlite3.connect(path)
    database.executescript("drop table files; create table legacy (x); pragma user_version = 0")
    database.close()


def newer(path: Path) -> None:
    database = sqlite3.connect(path)
    database.executescript("alter table records add column extra; pragma user_version = 99")
    database.close()


def tableless(path: Path) -> None:
    database = sqlite3.connect(path)
    database.executescript("drop table ranges; drop table position")
    database.close()


DAMAGES = [header, cut, scramble, empty, older, newer, tableless]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_index_comes_back_the_same(log: MachineLog, damage: Any) -> None:
    log.append([mutation(n, f"src/{n}.py", None, "one") for n in range(200)])
    with indexed(log) as index:
        expected = dump_rows(index)
    damage(index.path)
    with indexed(log) as index:
        assert dump_rows(index) == expected
        assert len(index.find(limit=500)) == 200


def test_damage_under_an_open_index_is_survived(log: MachineLog) -> None:
    log.append([mutation(n, f"src/{n}.py", None, "one") for n in range(200)])
    with indexed(log) as index:
        expected = dump_rows(index)
        tableless(index.path)
        assert len(index.find(content_hash="range-one")) == 50
        assert dump_rows(index) == expected


def test_a_busy_index_is_not_taken_for_a_damaged_one(log: MachineLog) -> None:
    log.append([record(0)])
    indexed(log).close()
    inode = (log.folder.parent / "index.db").stat().st_ino
    with indexed(log) as reader, indexed(log) as writer:
        log.append([record(1)])
        writer.catch_up()
        assert len(reader.find()) == 2
    assert (log.folder.parent / "index.db").stat().st_ino == inode


def ending(number: int) -> Record:
    return record(number, event="session_end", detail={"reason": "done"})


events = st.one_of(
    st.builds(command, st.integers(0, 99), st.text("abc %_'\"", max_size=9)),
    st.builds(mutation, st.integers(0, 99), st.sampled_from(["a", "b/c", "ä"]), st.none(), st.sampled_from("xyz")),
    st.builds(ending, st.integers(0, 99)),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(batches=st.lists(st.lists(events, max_size=6), max_size=6), segment_bytes=st.sampled_from([700, 10**6]))
def test_rebuilt_equals_built_step_by_step(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[Record]], segment_bytes: int
) -> None:
    folder = tmp_path_factory.mktemp("law")
    log = open_log(folder / "log", segment_bytes=segment_bytes)
    with indexed(log, "steps.db") as steps:
        for batch in batches:
            log.append(batch, sync=False)
            steps.catch_up()
        with indexed(log, "once.db") as once:
            assert dump_rows(once) == dump_rows(steps)
            assert len(once.find(limit=100)) == sum(map(len, batches))
    log.close()


@pytest.mark.live
def test_a_large_index_deleted_comes_back_the_same(log: MachineLog) -> None:
    for start in range(0, 100_000, 5_000):
        log.append([record(n, id=f"{n:08d}") for n in range(start, start + 5_000)], sync=False)
        if start == 20_000:
            indexed(log).close()
    with indexed(log) as grown:
        rows = dump_rows(grown)
    (log.folder.parent / "index.db").unlink()
    with indexed(log) as fresh:
        assert dump_rows(fresh) == rows
        assert len(rows["records"]) == 100_000


def found_seqs(documents: list[dict[str, Any]]) -> list[int]:
    return [own(d)["chain"]["seq"] for d in documents]


def test_the_changes_of_a_line_are_found_newest_first(log: MachineLog) -> None:
    log.append([mutation(n, "src/a.py", None, f"v{n}") for n in range(6)] + [mutation(0, "src/b.py", None, "x")])
    with indexed(log) as index:
        assert found_seqs(index.find(path="src/a.py", line=4)) == [3, 2, 1]
        assert found_seqs(index.find(path="src/a.py", line=4, limit=2)) == [3, 2]
        assert found_seqs(index.find(path="src/a.py", line=4, since="2026-02-21T12:00:02")) == [3, 2]
        assert found_seqs(index.find(path="src/a.py", line=99)) == []
        assert found_seqs(index.find(path="src/b.py", line=2)) == [6]


def test_a_line_that_two_ranges_of_a_record_hold_is_one_finding(log: MachineLog) -> None:
    made = mutation(0, "a", None, "x")
    twice = Record(made.id, made.timestamp, made.body, files=made.files * 2)
    log.append([twice])
    with indexed(log) as index:
        assert found_seqs(index.find(path="a", line=2)) == [0]


def test_a_large_log_is_built_aside_and_equals_one_grown_in_place(log: MachineLog) -> None:
    log.append([mutation(0, "a", None, "x")])
    with indexed(log, "grown.db") as grown:
        log.append([command(n, "x" * 10_000) for n in range(1, BULK_BYTES // 10_000 + 2)], sync=False)
        grown.catch_up()
        with indexed(log, "built.db") as built:
            assert dump_rows(built) == dump_rows(grown)
            assert found_seqs(built.find(limit=1)) == [BULK_BYTES // 10_000 + 1]
    assert {path.name for path in log.folder.parent.glob("built.db.fresh*")} == set()


def test_processes_that_build_at_once_all_have_everything(log: MachineLog) -> None:
    log.append([command(n, "x" * 10_000) for n in range(BULK_BYTES // 10_000 + 2)], sync=False)
    children: list[int] = []
    for _ in range(4):
        if pid := os.fork():
            children.append(pid)
            continue
        with indexed(log) as index:
            os._exit(0 if len(index.find(limit=1000)) == BULK_BYTES // 10_000 + 2 else 1)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0] * 4


def test_all_records_come_in_pages_oldest_first(log: MachineLog) -> None:
    log.append([record(n, session_id=f"s{n % 2}") for n in range(2 * BATCH_LINES + 3)], sync=False)
    with indexed(log) as index:
        assert found_seqs(list(index.iterate_records())) == list(range(2 * BATCH_LINES + 3))
        assert found_seqs(list(index.iterate_records(session_id="s1"))) == list(range(1, 2 * BATCH_LINES + 3, 2))
        assert list(index.iterate_records(path="none")) == []


def test_a_line_nested_too_deep_is_passed_over(log: MachineLog) -> None:
    log.append([record(0)])
    deep = b"[" * 100_000 + b"]" * 100_000
    with (log.folder / "000000000000.jsonl").open("ab") as file:
        file.write(b'{"id":"deep","timestamp":"2026","files":' + deep + b"}\n")
    log.append([record(1)])
    with indexed(log) as index:
        assert len(index.find()) == 2
        assert index.find(words=["nothing"]) == []
    assert "altered" in {finding.code for finding in verify_log(log.folder)}


def test_some_values_of_a_field_are_listed(log: MachineLog) -> None:
    log.append([record(n, intent_id=f"INT-{n % 20:03d}") for n in range(40)] + [record(40, intent_id=None)])
    with indexed(log) as index:
        assert index.list_values("intent_id", 3) == ("INT-000", "INT-001", "INT-002")
        assert index.list_values("agent") == ()


def test_many_processes_may_catch_up_while_others_append(log: MachineLog) -> None:
    log.append([record(0)])
    path = log.folder.parent / "index.db"
    children: list[int] = []
    for child in range(6):
        if pid := os.fork():
            children.append(pid)
            continue
        code = 1
        try:
            with Index.open(path, log.folder) as index:
                for n in range(20):
                    open_log(log.folder).append([mutation(n, f"{child}", None, f"{n}")], sync=False)
                    index.catch_up()
            code = 0
        finally:
            os._exit(code)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0] * 6
    with indexed(log) as index, indexed(log, "fresh.db") as fresh:
        assert dump_rows(index) == dump_rows(fresh)
        assert len(index.find(limit=500)) == 121


def test_opening_waits_for_one_who_replaces_the_file(log: MachineLog) -> None:
    log.append([record(0)])
    indexed(log).close()
    with hold_lock(log.folder.parent / "index.db.lock"):
        pid = os.fork()
        if not pid:
            with indexed(log) as index:
                os._exit(0 if len(index.find()) == 1 else 1)
        assert os.waitpid(pid, os.WNOHANG) == (0, 0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_window_of_what_matches_its_counts_and_the_sessions(log: MachineLog) -> None:
    records = [command(0, "ls"), mutation(1, "src/a.py", None, "one"), record(2, session_id="s2", intent_id="INT-002")]
    log.append([*records, *(command(n, f"echo {n}") for n in range(3, 30))])
    with indexed(log) as index:
        window = index.find_window(10, 5, session_id="s1")
        assert [own(d)["chain"]["seq"] for d in window] == [11, 12, 13, 14, 15]
        assert index.find_window(29, 5, session_id="s1") == []
        assert index.count_matching(session_id="s1") == 29
        assert index.count_matching(path="src/a.py") == 1
        assert index.count_by("event", session_id="s1") == {"tool_use": 28, "mutation": 1}
        first, second = index.list_sessions()
        assert (first.session_id, first.records, first.changes, first.intent_id) == ("s1", 29, 1, "INT-001")
        assert (second.session_id, second.records, second.intent_id) == ("s2", 1, "INT-002")
        assert [s.session_id for s in index.list_sessions(1)] == ["s1"]
