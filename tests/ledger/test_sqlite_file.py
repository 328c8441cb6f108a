"""Several processes may make a database of Remit's at the same moment: each gets it, none is told it is locked. A held
database keeps its log.
"""

import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from remit.gate.state.database import open_database
from remit.ledger.index import build
from remit.ledger.sqlite_file import HeldDatabase, enable_write_ahead
from remit.provenance.map import intent_map_file
from remit.provenance.why import conversation_store

AT_ONCE = 4

OPENERS: dict[str, Callable[[Path], sqlite3.Connection]] = {
    "state": lambda path: open_database(path)[0],
    "index": build.open_database,
    "map": intent_map_file.open_database,
    "conversations": conversation_store.open_database,
}


@pytest.mark.parametrize("name", OPENERS)
def test_those_who_make_it_at_once_all_get_it(name: str, tmp_path: Path) -> None:
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for number in range(40):
            path, gate = tmp_path / f"{number}.db", Barrier(AT_ONCE)

            def made(path: Path = path, gate: Barrier = gate) -> str:
                gate.wait()
                database = OPENERS[name](path)
                mode = database.execute("PRAGMA journal_mode").fetchone()[0]
                database.close()
                return str(mode)

            assert [each.result() for each in [pool.submit(made) for _ in range(AT_ONCE)]] == ["wal"] * AT_ONCE


def test_who_is_held_up_for_too_long_is_told(tmp_path: Path) -> None:
    holder = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    database = sqlite3.connect(tmp_path / "a.db", timeout=0.05, isolation_level=None)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        enable_write_ahead(database, 0.05)
    holder.execute("ROLLBACK")
    enable_write_ahead(database, 0.05)
    holder.close()
    database.close()


def test_another_error_is_not_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(b"no database at all" * 100)
    database = sqlite3.connect(path, isolation_level=None)
    with pytest.raises(sqlite3.DatabaseError, match="not a database"):
        enable_write_ahead(database, 5.0)
    database.close()


def test_a_held_database_keeps_its_log_until_it_is_let_go(tmp_path: Path) -> None:
    path, log = tmp_path / "index.db", tmp_path / "index.db-wal"
    held = HeldDatabase(path)
    held.renew()
    assert not path.exists()
    build.open_database(path).close()
    assert not log.exists()
    held.renew()
    build.open_database(path).close()
    assert log.exists()
    held.close()
    assert not log.exists()


def test_what_is_no_database_is_held_without_an_error(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    path.write_bytes(b"no database" * 1000)
    held = HeldDatabase(path)
    held.renew()
    held.close()
    assert path.read_bytes() == b"no database" * 1000
