"""Fixtures that every room's tests share."""

import math
import os
import subprocess
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

Git = Callable[..., str]

# A law is no timed test: a loaded machine breaks none.
settings.register_profile("remit", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("remit")


def pytest_xdist_auto_num_workers() -> int:
    """Start two workers for each core: tests wait for processes, timers and locks as long as they compute."""
    return 2 * (os.cpu_count() or 1)


def is_slow(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in ("slow", "live"))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put slow tests first in each worker's share: a long one that starts last leaves all other workers idle.

    `--dist worksteal` gives each worker an equal share of the list, in order, and steals from the ends later. Slow
    tests that stand together stay with one worker: those of fleets, side by side, would starve each other.
    """
    slow = [item for item in items if is_slow(item)]
    quick = iter([item for item in items if not is_slow(item)])
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    count = len(items)
    items.clear()
    block = math.ceil(len(slow) / workers)
    for number in range(workers):
        share = (count - len(items)) // (workers - number)
        mine = slow[number * block : (number + 1) * block]
        items += [*mine, *islice(quick, max(0, share - len(mine)))]
    items += quick


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A HOME of its own for each test: no test may touch, or depend on, the developer's."""
    folder = tmp_path_factory.mktemp("home")
    for name in list(os.environ):
        if name.startswith(("GIT_", "REMIT_", "CLAUDE", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    (folder / ".gitconfig").write_text(
        "[user]\n\tname = A Person\n\temail = person@example.org\n[init]\n\tdefaultBranch = main\n"
    )
    return folder


def run_git(folder: Path, *arguments: str) -> str:
    """Run real git in `folder`; its standard output."""
    done = subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True)
    return done.stdout.decode()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A git repository with one commit and nothing of Remit's."""
    folder = tmp_path / "repo"
    folder.mkdir()
    run_git(folder, "init", "-q")
    (folder / "README.md").write_text("# Example\n")
    (folder / "src").mkdir()
    (folder / "src" / "app.py").write_text("def main():\n    return 1\n")
    run_git(folder, "add", "-A")
    run_git(folder, "commit", "-q", "-m", "first")
    return folder
