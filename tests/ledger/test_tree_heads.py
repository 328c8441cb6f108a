"""Tree heads against the log: what they vouch for, what they convict, and what they leave open."""

import json
from pathlib import Path

import pytest

from ledger.makers import NAME, command, fill, mutation, open_log, record
from remit.core.record import compute_root, hash_leaf
from remit.core.tree_head import TreeHead, derive_public_key, sign_head
from remit.ledger.foreign_logs import NothingToImport, import_file, read_foreign_records
from remit.ledger.reader import read_lines
from remit.ledger.tree_heads import (
    FoundHead,
    HeadsReport,
    build_altered_detail,
    check_heads,
    measure_tree,
    read_frontier,
    read_recorded_heads,
    read_stored_heads,
    store_head,
)
from remit.ledger.verify_log import check_log_health

SEED, OTHER = bytes(range(32)), bytes(range(1, 33))
KEYS = (derive_public_key(SEED),)


def leaves(folder: Path) -> list[bytes]:
    return [hash_leaf(line.raw) for line in read_lines(folder)]


def head_of(folder: Path, size: int | None = None, seed: bytes = SEED, where: str = "x") -> FoundHead:
    found = leaves(folder)[:size]
    return FoundHead(sign_head(TreeHead(NAME, len(found), compute_root(found)), seed), where)


def checked(folder: Path, *heads: FoundHead, keys: tuple[bytes, ...] = KEYS) -> HeadsReport:
    return check_heads(leaves(folder), heads, NAME, keys)


def codes(report: HeadsReport) -> list[str]:
    return [finding.code for finding in report.findings]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    fill(tmp_path / "log", [record(n) for n in range(20)])
    return tmp_path / "log"


def cut(folder: Path, keep: int) -> None:
    segment = next(folder.glob("0*.jsonl"))
    segment.write_bytes(b"".join(segment.read_bytes().splitlines(keepends=True)[:keep]))


def alter(folder: Path, line: int) -> None:
    segment = next(folder.glob("0*.jsonl"))
    found = segment.read_bytes().splitlines(keepends=True)
    found[line] = found[line].replace(b"INT-001", b"INT-002")
    segment.write_bytes(b"".join(found))


def test_a_whole_log_bears_its_heads_out_and_the_tail_is_unwitnessed(folder: Path) -> None:
    report = checked(folder, head_of(folder, 5), head_of(folder, 12, where="newest"), head_of(folder, 12))
    assert (report.findings, report.witnessed, report.newest, report.heads) == ((), 12, "newest", 2)


def test_a_cut_before_the_newest_head_is_named(folder: Path) -> None:
    head = head_of(folder, 15)
    cut(folder, 12)
    (finding,) = checked(folder, head).findings
    assert (finding.code, finding.severity, finding.seq, finding.last_seq) == ("truncated", "error", 12, 14)


def test_a_cut_after_the_newest_head_shows_only_as_unwitnessed(folder: Path) -> None:
    head = head_of(folder, 15)
    cut(folder, 16)
    report = checked(folder, head)
    assert (report.findings, report.witnessed) == ((), 15)


def test_a_log_written_anew_is_convicted(folder: Path) -> None:
    old = head_of(folder, 15)
    alter(folder, 3)
    report = checked(folder, old, head_of(folder, 3))
    assert (codes(report), report.witnessed) == (["rewritten"], 3)


def test_a_head_by_another_key_is_unproved_and_decides_nothing(folder: Path) -> None:
    head = head_of(folder, 15, OTHER)
    cut(folder, 4)
    report = checked(folder, head)
    assert ([f.severity for f in report.findings], codes(report), report.witnessed) == (["warning"], ["unproved"], 0)
    assert codes(checked(folder, head, keys=(*KEYS, derive_public_key(OTHER)))) == ["truncated"]


def test_a_false_signature_under_our_key_is_an_error(folder: Path) -> None:
    lines = head_of(folder, 15).note.split("\n")
    lines[1] = "14"
    assert codes(checked(folder, FoundHead("\n".join(lines), "x"))) == ["head_forged"]


def test_what_is_no_head_is_a_warning_and_heads_of_other_logs_are_passed_over(folder: Path) -> None:
    other = FoundHead(sign_head(TreeHead("other/log", 99, bytes(32)), SEED), "x")
    report = checked(folder, FoundHead("junk", "y"), other)
    assert (codes(report), report.heads) == (["head_unreadable"], 0)


def test_the_root_is_the_same_going_on_from_the_frontier_and_from_the_start(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", segment_bytes=4000)
    for n in range(60):
        log.append([record(n)], sync=False)
        known = read_frontier(log.folder)
        short = measure_tree(log.folder, known, whole=False)
        whole = measure_tree(log.folder, known, whole=True)
        assert (short, whole) == (whole, short)
        assert short.frontier is not None
        assert short.frontier.root == compute_root(leaves(log.folder)).hex()
        if n % 7 == 0:
            store_head(log.folder, "note\n", short.frontier)
    assert [head.where[:18] for head in read_stored_heads(log.folder)][:2] == [
        "heads/000000000001",
        "heads/000000000008",
    ]


def test_a_change_inside_shows_in_the_root_at_the_earlier_size(folder: Path) -> None:
    known = measure_tree(folder, None, whole=True).frontier
    assert known is not None
    open_log(folder).append([record(20)])
    alter(folder, 7)
    measured = measure_tree(folder, known, whole=True)
    assert measured.earlier_root != known.root
    detail = build_altered_detail(known, measured)
    assert (detail["expected_root"], detail["found_root"]) == (known.root, measured.earlier_root)


def test_health_sees_a_change_inside_and_a_cut(folder: Path) -> None:
    assert check_log_health(folder).ok
    frontier = measure_tree(folder, None, whole=True).frontier
    assert frontier is not None
    store_head(folder, "note\n", frontier)
    assert check_log_health(folder).ok
    alter(folder, 7)
    assert not check_log_health(folder).ok
    alter(folder, 7)
    cut(folder, 12)
    assert "newest tree head covers 20" in check_log_health(folder).why


def test_health_of_no_log_is_good(tmp_path: Path) -> None:
    assert check_log_health(tmp_path / "none").ok


def test_health_reads_the_end_of_a_large_log_only(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    log.append([record(n, detail={"reason": "x" * 4000}) for n in range(600)])
    found = check_log_health(log.folder)
    assert found.ok
    assert 200 < found.records_checked < 300


def test_heads_are_found_in_records(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    log.append([command(0, 'echo \'"event":"tree_head"\''), record(1, event="tree_head", detail={"note": "n\n"})])
    assert list(read_recorded_heads(read_lines(log.folder))) == [FoundHead("n\n", "record 1")]


def shared(tmp_path: Path) -> Path:
    """A teammate's log, as the live view holds it, with a head after ten records."""
    theirs = open_log(tmp_path / "theirs", name="4b1d/ffffffffffff")
    theirs.append([mutation(n, "src/a.py", None, f"v{n}") for n in range(10)])
    found = leaves(theirs.folder)
    note = sign_head(TreeHead(theirs.name, 10, compute_root(found)), OTHER)
    theirs.append([record(10, event="tree_head", detail={"note": note}), record(11)])
    path = tmp_path / "shared.jsonl"
    path.write_bytes(b"".join(line.raw + b"\n" for line in read_lines(theirs.folder)))
    return path


def unproved(documents: list[dict[str, object]]) -> list[bool]:
    return [json.dumps(d).count('"unproved": true') == 1 for d in documents]


def test_a_foreign_log_is_unproved_until_its_key_is_trusted(folder: Path, tmp_path: Path) -> None:
    done = import_file(shared(tmp_path), folder, (NAME,))
    assert (done.records, done.logs, done.older) == (12, ("4b1d/ffffffffffff",), 0)
    nowhere = tmp_path / "none"
    assert unproved(read_foreign_records(nowhere, folder, (NAME,), ())) == [True] * 12
    assert (
        unproved(read_foreign_records(nowhere, folder, (NAME,), (derive_public_key(OTHER),)))
        == [False] * 10 + [True] * 2
    )


def test_a_changed_line_of_a_foreign_log_is_unproved_under_any_key(folder: Path, tmp_path: Path) -> None:
    path = shared(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"src/a.py", b"src/b.py", 1))
    import_file(path, folder, (NAME,))
    assert all(unproved(read_foreign_records(tmp_path / "none", folder, (NAME,), (derive_public_key(OTHER),))))


def test_each_record_is_read_once_and_our_own_are_not_foreign(folder: Path, tmp_path: Path) -> None:
    path = shared(tmp_path)
    import_file(path, folder, (NAME,))
    view = tmp_path / "agent_trace.jsonl"
    view.write_bytes(path.read_bytes() + next(folder.glob("0*.jsonl")).read_bytes() + b'junk\n{"torn":')
    assert len(read_foreign_records(view, folder, (NAME,), ())) == 12


def test_a_file_without_records_is_not_imported(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("hello\n{}\n")
    with pytest.raises(NothingToImport):
        import_file(tmp_path / "x", folder, (NAME,))
