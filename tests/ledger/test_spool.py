"""The spool: what the log would not take is neither lost nor reordered."""

import stat
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ledger.makers import command, documents, mutation, open_log, record, seqs
from remit.core.record import Record
from remit.ledger.log import SPOOL_CHUNK_RECORDS, LedgerWriteError, Spool
from remit.ledger.log_files import LINE_LIMIT
from remit.ledger.verify_log import verify_log


def ids(folder: Path) -> list[str]:
    return [document["id"] for document in documents(folder)]


def test_records_wait_and_are_appended_in_order(tmp_path: Path) -> None:
    spool, log = Spool(tmp_path / "state" / "spool"), open_log(tmp_path / "log")
    log.append([record(0, id="r0")])
    spool.store([record(1, id="r1")])
    spool.store([record(2, id="r2"), record(3, id="r3")])
    assert spool.count_pending() == 3
    assert spool.drain(log) == 3
    assert ids(tmp_path / "log") == ["r0", "r1", "r2", "r3"]
    assert (spool.count_pending(), spool.drain(log)) == (0, 0)
    assert verify_log(tmp_path / "log") == ()


def test_a_record_comes_out_as_it_went_in(tmp_path: Path) -> None:
    made = [mutation(1, "src/ä.py", "a", None), command(2, "echo 'x\ny'"), record(3, detail={"reason": "why"})]
    spool = Spool(tmp_path / "spool")
    spool.store(made)
    spool.drain(open_log(tmp_path / "spooled"))
    open_log(tmp_path / "direct").append(made)
    assert documents(tmp_path / "spooled") == documents(tmp_path / "direct")


def test_only_the_owner_may_read_it(tmp_path: Path) -> None:
    Spool(tmp_path / "spool").store([record(0)])
    assert stat.S_IMODE((tmp_path / "spool").stat().st_mode) == 0o600


def test_a_log_that_still_refuses_keeps_everything_waiting(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    spool = Spool(tmp_path / "spool")
    spool.store([record(0), record(1)])
    with pytest.raises(LedgerWriteError):
        spool.drain(open_log(tmp_path / "file" / "log"))
    assert spool.count_pending() == 2


def test_a_crash_after_appending_and_before_forgetting_appends_nothing_twice(tmp_path: Path) -> None:
    spool, log = Spool(tmp_path / "spool"), open_log(tmp_path / "log")
    spool.store([record(n, id=f"r{n}") for n in range(3)])
    waiting = spool.path.read_bytes()
    spool.drain(log)
    spool.path.write_bytes(waiting)
    assert spool.drain(log) == 0
    assert ids(tmp_path / "log") == ["r0", "r1", "r2"]


def test_a_torn_line_is_kept_aside_and_holds_up_nothing(tmp_path: Path) -> None:
    spool, log = Spool(tmp_path / "spool"), open_log(tmp_path / "log")
    spool.store([record(0, id="r0")])
    with spool.path.open("ab") as file:
        file.write(b'{"id":"half')
    spool.store([record(1, id="r1")])
    assert spool.drain(log) == 2
    assert ids(tmp_path / "log") == ["r0", "r1"]
    assert spool.unreadable_path.read_bytes() == b'{"id":"half\n'


def test_a_record_that_no_log_takes_is_kept_aside(tmp_path: Path) -> None:
    spool, log = Spool(tmp_path / "spool"), open_log(tmp_path / "log")
    spool.store([record(0, id="r0"), record(1, id="long", detail={"x": "x" * LINE_LIMIT}), record(2, id="r2")])
    assert spool.drain(log) == 2
    assert ids(tmp_path / "log") == ["r0", "r2"]
    assert msgspec.json.decode(spool.unreadable_path.read_bytes(), type=Record).id == "long"


def test_more_than_one_chunk_is_drained(tmp_path: Path) -> None:
    spool, log = Spool(tmp_path / "spool"), open_log(tmp_path / "log")
    size = SPOOL_CHUNK_RECORDS * 2 + 7
    spool.store([record(n, id=f"r{n}") for n in range(size)])
    assert spool.drain(log) == size
    assert ids(tmp_path / "log") == [f"r{n}" for n in range(size)]


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(words, st.dictionaries(words.filter(lambda w: w not in {"chain"}), words, max_size=3))))
def test_any_text_survives_the_spool_and_the_chain(
    tmp_path_factory: pytest.TempPathFactory, texts: list[tuple[str, dict[str, str]]]
) -> None:
    tmp_path = tmp_path_factory.mktemp("law")
    spool, log = Spool(tmp_path / "spool"), open_log(tmp_path / "log")
    made = [record(n, intent_id=text, detail={"words": words}) for n, (text, words) in enumerate(texts)]
    if made:
        spool.store(made)
    assert spool.drain(log) == len(made)
    assert seqs(tmp_path / "log") == list(range(len(made)))
    assert verify_log(tmp_path / "log") == ()
