"""Landings whose own steps break: another one takes up the train, and says why the first one ended."""

import os
import shutil
from pathlib import Path

import pytest

from fleet.fleet_driving import Fleet
from remit_fleet.database.rows import change_rows
from remit_fleet.database.store import open_store
from remit_fleet.moves import ask_for_landing, finish_landing

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
    with change_rows(store) as rows:
        for _ in range(2):
            ask_for_landing(rows, "repo", "remit/next")
        (first,) = rows.landers.find()
        assert finish_landing(rows, "repo", "remit/next", first.workflow)
        ask_for_landing(rows, "repo", "remit/next")
        assert finish_landing(rows, "repo", "remit/next", first.workflow)
        assert rows.effects == [first, *rows.landers.find()]
        assert len(rows.effects) == 2
    store.close()
