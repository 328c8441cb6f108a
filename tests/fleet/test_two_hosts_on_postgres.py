"""Two real workers on two clones share a PostgreSQL and a bare remote; on either host, each log is known by its key."""

from pathlib import Path

import pytest

from fleet.fleet_driving import git
from fleet.host_driving import make_hosts, stop_all
from fleet.postgres import Postgres

pytestmark = pytest.mark.timeout(900)


def test_workers_of_two_hosts_share_a_plan_and_their_logs_are_known_by_their_keys(
    shared_server: Postgres, home: Path, tmp_path: Path
) -> None:
    with shared_server.make_database() as database:
        hosts, ids = make_hosts(tmp_path, 2, database)
        a, b = hosts
        try:
            for host in hosts:
                host.start_worker(1, 1)
            a.wait_for_workers(2)
            a.start_plan(ids)
            a.wait_until_landed()
            assert len({a.attempts(id)[0]["worker"] for id in ids}) == 2
        finally:
            stop_all(hosts)
    # The board is gone with its database; refs alone tell the rest.
    for here, there in ((a, b), (b, a)):
        there.remit("ledger", "push", "origin")
        here.remit("ledger", "fetch")
        git(here.root, "fetch", "-q", "origin", "remit/next")
        name = there.key.split("+")[1]
        assert f"signed by {name}, which is not trusted here" in here.remit("verify", "--fail-on", "never")
        with (here.root / ".orchestration" / "remit.toml").open("a") as settings:
            settings.write(f'[ledger]\ntrusted_keys = ["{there.key}"]\n')
        assert f"signed by {name}, which is trusted here" in here.remit("verify", "--fail-on", "never")
        for id in ids:
            assert "SessionStart 0" in here.remit("task", "artifacts", id, "output.log")
    new = ["--database", f"sqlite:///{tmp_path}/new.db"]
    assert [line.split()[:2] for line in b.remit("fleet", "rebuild", *new).splitlines()[:2]] == [
        [id, "landed"] for id in ids
    ]
