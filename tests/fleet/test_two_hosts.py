"""Two hosts share a repository by a bare remote and a database: each lands what the other made, and knows who did."""

from collections.abc import Generator
from pathlib import Path

import pytest

from fleet.fleet_driving import git
from fleet.host_driving import Host, make_hosts, stop_all

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]


@pytest.fixture
def hosts(home: Path, tmp_path: Path) -> Generator[tuple[Host, Host, list[str]]]:
    (a, b), ids = make_hosts(tmp_path, 2, f"sqlite:///{tmp_path}/fleet.db")
    yield a, b, ids
    stop_all([a, b])


def test_intents_run_on_two_hosts_and_each_line_is_known_on_both(hosts: tuple[Host, Host, list[str]]) -> None:
    a, b, ids = hosts
    for host in (a, b):
        host.start_worker(1, 1)
    a.wait_for_workers(2)
    a.start_plan(ids)
    a.wait_until_landed()
    workers = {a.attempts(id)[0]["worker"] for id in ids}
    assert len(workers) == 2
    for host in (a, b):
        git(host.root, "fetch", "-q", "origin", "remit/next")
        git(host.root, "restore", ".orchestration")
        git(host.root, "merge", "-q", "--ff-only", "FETCH_HEAD")
        host.remit("ledger", "fetch")
        for id in ids:
            assert id in host.remit("why", f"src/{id.lower()}/made.py:1")
            # What it left beside its commits is there too, whichever host it ran on.
            assert "SessionStart 0" in host.remit("task", "artifacts", id, "output.log")
