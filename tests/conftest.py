"""Fixtures that every room's tests share."""

import gc
import math
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Generator
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import tiers
from processes import kill_daemons
from remit.core.machine_paths import STATE_FOLDER

Git = Callable[..., str]

# A law is no timed test: a loaded machine breaks none.
settings.register_profile("remit", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("remit")


def pytest_xdist_auto_num_workers() -> int:
    """Start two workers more than there are cores: tests also wait for processes, locks and disks."""
    return 2 + (os.cpu_count() or 1)


def pytest_configure() -> None:
    """Collect without the garbage collector: 11,000 tests are made then, and none of them is garbage.

    A shell starts what runs beside it deaf to interrupts, and all that tests start would be.
    """
    gc.disable()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()
    tiers.listen()


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    tiers.mark_tier(item)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put stories first in each worker's share: a long one that starts last leaves all other workers idle.

    `--dist worksteal` gives each worker an equal share of the list, in order, and steals from the ends later. Stories
    that stand together stay with one worker: those of fleets, side by side, would starve each other.
    """
    if seed := os.environ.get("REMIT_TEST_ORDER"):  # `make stress` tries several orders
        random.Random(seed).shuffle(items)
    long = [item for item in items if item.get_closest_marker("live")]
    quick = iter([item for item in items if not item.get_closest_marker("live")])
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    count = len(items)
    items.clear()
    block = math.ceil(len(long) / workers)
    for number in range(workers):
        share = (count - len(items)) // (workers - number)
        mine = long[number * block : (number + 1) * block]
        items += [*mine, *islice(quick, max(0, share - len(mine)))]
    items += quick


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    result = yield
    if item.config.option.markexpr == "unit" and tiers.started:  # elsewhere it is said by the table of costs
        pytest.fail(f"a unit test started {dict(tiers.started)}: it is a system test, mark it so", pytrace=False)
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    tiers.started.clear()


def use_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a folder the HOME, and hide the developer's settings."""
    for name in list(os.environ):
        if name.startswith(("GIT_", "REMIT_", "CLAUDE", "XDG_", "PYTEST_ADDOPTS")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    (folder / ".gitconfig").write_text(
        "[user]\n\tname = A Person\n\temail = person@example.org\n[init]\n\tdefaultBranch = main\n"
        "[maintenance]\n\tauto = false\n"
    )


@pytest.fixture(scope="session")
def search_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """PATH without agents and without `remit`: a folder that holds one is replaced by links to its other programs."""
    from remit.core.agents import AGENTS

    hidden, found = {row.binary for row in AGENTS.values()}, list[str]()
    # A version manager's `python3` is a script that starts a dozen programs; the interpreter itself comes first.
    plain = Path(sys.base_prefix, "bin", "python3")
    shown = Path(shutil.which("python3") or plain)
    first = [] if shown.resolve() == plain.resolve() else [plain.parent]
    for folder in [*first, *map(Path, os.get_exec_path())]:
        if any((folder / name).exists() for name in hidden):
            links = tmp_path_factory.mktemp("programs")
            for program in folder.iterdir():
                if program.name not in hidden:
                    (links / program.name).symlink_to(program)
            folder = links
        found.append(str(folder))
    return os.pathsep.join(found)


@pytest.fixture(autouse=True)
def home(
    tmp_path_factory: pytest.TempPathFactory, search_path: str, monkeypatch: pytest.MonkeyPatch
) -> Generator[Path]:
    """A HOME of its own for each test: no test may touch, or depend on, the developer's.

    A daemon that a client started there ends with the test: it would go on for half an hour.
    """
    folder = tmp_path_factory.mktemp("home")
    use_home(folder, monkeypatch)
    monkeypatch.setenv("PATH", search_path)
    yield folder
    if any((folder / STATE_FOLDER / name).exists() for name in ("daemon.lock", "daemon.log")):
        kill_daemons(folder)


def run_git(folder: Path, *arguments: str) -> str:
    """Run real git in `folder`; its standard output."""
    done = subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True)
    return done.stdout.decode()


@pytest.fixture(scope="session")
def repository_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository that each test gets a copy of: to copy is four times as quick as to make one."""
    folder = tmp_path_factory.mktemp("template") / "repo"
    (folder / "src").mkdir(parents=True)
    (folder / "README.md").write_text("# Example\n")
    (folder / "src" / "app.py").write_text("def main():\n    return 1\n")
    with pytest.MonkeyPatch.context() as monkeypatch:
        use_home(folder.parent, monkeypatch)
        run_git(folder, "init", "-q")
        run_git(folder, "add", "-A")
        run_git(folder, "commit", "-q", "-m", "first")
    for sample in (folder / ".git" / "hooks").glob("*.sample"):
        sample.unlink()
    return folder


@pytest.fixture
def repository(home: Path, repository_template: Path, tmp_path: Path) -> Path:
    """A git repository with one commit and nothing of Remit's."""
    return Path(shutil.copytree(repository_template, tmp_path / "repo"))
