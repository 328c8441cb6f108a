"""Landings whose own steps break: another one takes up the train, and says why the first one ended."""

import os
import shutil
from pathlib import Path

import pytest
import sqlalchemy as sa

from fleet.fleet_driving import Fleet
from remit_fleet.database.landings import ask_for_landing, finish_landing
from remit_fleet.database.store import landers, open_store

pytestmark = pytest.mark.timeout(900)
BREAKING_GIT = """#!/bin/sh
case " $* " in *" update-ref "*" refs/heads/remit/next "*) if mkdir {mark} 2>/dev/null; then kill -9 $$; fi;; esac
exec {git} "$@"
"""


def test_the_train_of_a_landing_whose_git_is_killed_is_taken_up_by_another_landing(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    git = folder / "git"
    git.write_text(BREAKING_GIT.format(mark=tmp_path / "mark", git=shutil.which("git")))
    git.chmod(0o755)
    ids = fleet.govern(1)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    fleet.start_worker(1, 0.2)
    fleet.start_plan(ids)
    fleet.wait_for_state("landed", ids[0])
    assert (tmp_path / "mark").is_dir()
    assert fleet.landings() == ids
    assert "landing  state=broken" in fleet.remit("plan", "log", *fleet.database)


def test_a_landing_that_is_told_twice_to_finish_does_not_end_the_next_one(home: Path) -> None:
    store = open_store(None, home)
    asked: list[str] = []

    def enqueue(_: sa.Connection, id: str, *place: str) -> None:
        asked.append(id)

    with store.write() as connection:
        for _ in range(2):
            ask_for_landing(store, connection, "repo", "remit/next", enqueue)
        assert finish_landing(connection, "repo", "remit/next", asked[0])
        ask_for_landing(store, connection, "repo", "remit/next", enqueue)
        assert finish_landing(connection, "repo", "remit/next", asked[0])
        assert len(asked) == 2
        assert connection.execute(sa.select(landers.c.workflow)).scalars().all() == asked[1:]
