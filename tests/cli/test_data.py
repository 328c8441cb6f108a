"""`remit data`, and going back to a copy of runtime data, as a person does it."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from cli.running import data, run, run_on_terminal
from gate.containment.test_rewrite_call import bodies
from gate.containment.test_runtime_data import contained, how, insert, make_database, place, rows
from gate.driving import governed

__all__ = ["how", "place"]


def test_a_person_names_data_and_an_agent_does_not(repository: Path, home: Path) -> None:
    governed(repository)
    make_database(repository / "db.sqlite3")
    assert "remit data add db.sqlite3" in run(repository, "data", "list").stdout
    words = ["-m", "remit", "data", "add", "db.sqlite3", "media/**"]
    assert run(repository, "data", "add", "db.sqlite3").returncode == 3
    assert run(repository, "data", "add", "db.sqlite3", CLAUDECODE="1").returncode == 3
    assert "containment" not in (repository / ".orchestration" / "remit.toml").read_text()
    code, said = run_on_terminal(repository, words, b"[y/N]", b"y\n")
    assert code == 0, said
    listed = data(repository, "data", "list")
    assert (listed["patterns"], listed["trusted"]) == (["db.sqlite3", "media/**"], True)
    assert listed["databases"] == ["db.sqlite3"]
    code, said = run_on_terminal(repository, [*words[:4], "src/**"], b"[y/N]", b"y\n")
    assert (code, "it reaches code" in said) == (2, True), said


@pytest.mark.parametrize("state", ["open", "gone"])
def test_a_copy_comes_back_beside_a_server_or_where_nothing_is(place: Path, state: str) -> None:
    make_database(place / "db.sqlite3", "wal")
    contained(place, insert("db.sqlite3", 2))
    [snapshot] = bodies(place, "data_snapshot")
    assert snapshot["id"] in run(place, "restore", "list").stdout
    assert run(place, "restore", snapshot["id"], CLAUDECODE="1").returncode == 3
    with closing(sqlite3.connect(place / "db.sqlite3")) as server:
        assert server.execute("SELECT count(*) FROM t").fetchone() == (2,)
        if state == "gone":
            server.close()
            (place / "db.sqlite3").unlink()
        done = run(place, "restore", snapshot["id"], "db.sqlite3")
        assert done.returncode == 0, done.stdout + done.stderr
        if state == "open":
            assert server.execute("SELECT count(*) FROM t").fetchone() == (1,)
            assert "what was there is kept as data@" in done.stdout
    assert rows(place / "db.sqlite3") == [1]
    assert bodies(place, "restore")[-1]["to"] == snapshot["id"]
