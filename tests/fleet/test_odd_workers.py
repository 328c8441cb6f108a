"""Workers that are not as they should be: started twice in one clone, and with a clock that is days off."""

from pathlib import Path

import pytest

from fleet.fleet_driving import git
from fleet.host_driving import Host

pytestmark = [pytest.mark.live, pytest.mark.timeout(900)]

WRONG_CLOCK = """\
import os, time
true_time, true_ns, shift = time.time, time.time_ns, int(os.environ["CLOCK_SHIFT_S"])
time.time = lambda: true_time() + shift
time.time_ns = lambda: true_ns() + shift * 10**9
"""


def test_workers_of_one_clone_with_clocks_days_apart_run_each_task_once(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "wrong-clock"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(WRONG_CLOCK)
    host = Host(home, tmp_path / "work", None)
    try:
        ids = host.govern(4)
        for shift_s in (-3 * 86400, 3 * 86400):
            host.variables |= {"PYTHONPATH": str(folder), "CLOCK_SHIFT_S": str(shift_s)}
            host.start_worker(1, 0.5)
        host.variables.pop("PYTHONPATH")
        host.wait_for_workers(2)
        host.start_plan(ids)
        host.wait_until_landed()
        attempts = {id: host.attempts(id) for id in ids}
        assert [len(of) for of in attempts.values()] == [1, 1, 1, 1]
        assert len({of[0]["worker"] for of in attempts.values()}) == 2
        assert sorted(host.landings()) == ids
        files = git(host.root, "ls-tree", "-r", "--name-only", "remit/next").split()
        assert all(f"src/{id.lower()}/made.py" in files for id in ids)
    finally:
        host.stop()
