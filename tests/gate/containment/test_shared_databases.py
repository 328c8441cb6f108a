"""A database that a server holds open while contained commands write to it: no row of either is lost."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from gate.containment.test_runtime_data import contained, how, make_database, place, python

SERVER = """
import os, sqlite3, sys
path, opens_each, started, numbers = sys.argv[1], sys.argv[2] == "each", sys.argv[3], range(1000, int(sys.argv[4]))
connection = None if opens_each else sqlite3.connect(path, timeout=60)
print("ready", flush=True)
for number, _ in zip(numbers, os.fdopen(os.open(started, os.O_RDWR))):
    own = connection or sqlite3.connect(path, timeout=60)
    own.execute("INSERT INTO t VALUES (?)", (number,))
    own.commit()
    if connection is None:
        own.close()
"""
__all__ = ["how", "place"]


@pytest.mark.live
@pytest.mark.parametrize(
    ("mode", "opens", "count"), [("delete", "once", 200), ("wal", "once", 200), ("wal", "each", 60)]
)
def test_no_row_is_lost_beside_a_server(place: Path, home: Path, mode: str, opens: str, count: int) -> None:
    make_database(place / "db.sqlite3", mode)
    started = home / "tmp" / "started"
    os.mkfifo(started)
    words = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        SERVER,
        str(place / "db.sqlite3"),
        opens,
        str(started),
        str(1000 + count),
    ]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        for number in range(2000, 2000 + count):
            assert "kept: db.sqlite3" in contained(place, insert_beside(number, started))
        assert server.wait() == 0
    with closing(sqlite3.connect(place / "db.sqlite3")) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        found = [n for (n,) in database.execute("SELECT n FROM t ORDER BY n")]
    assert found == [1, *range(1000, 1000 + count), *range(2000, 2000 + count)]
    assert not list(place.glob("db.sqlite3-*"))


def insert_beside(number: int, started: Path) -> str:
    """Insert a row while the server, which hears that the database is open here, inserts one of its own."""
    return python(
        "import sqlite3; c = sqlite3.connect('db.sqlite3', timeout=60); c.execute('SELECT n FROM t').fetchall()\n"
        f"with open({str(started)!r}, 'w') as go: go.write('\\n')\n"
        f"c.execute('INSERT INTO t VALUES ({number})'); c.commit()"
    )
