"""What CI makes of failed tests: `.ci/again.py` on suites that were made up."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

AGAIN = Path(__file__).parents[2] / ".ci" / "again.py"

SUITE = """
from pathlib import Path
import pytest

def test_good(): pass

@pytest.mark.parametrize("name", {flaky})
def test_chance(name):
    mark = Path(__file__).with_name(f"seen-{{name}}")
    if not mark.exists():
        mark.touch()
        raise AssertionError(f"{{name}} came too late")

@pytest.mark.parametrize("name", {broken})
def test_broken(name):
    assert name == "right"

@pytest.fixture
def leaves():
    yield
    mark = Path(__file__).with_name("left")
    if {leaves} and not mark.exists():
        mark.touch()
        raise AssertionError("left a process")

def test_left(leaves): pass
"""


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python, and pytest without the plug-ins of this suite: they take most of a second to load."""
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def run_twice(
    folder: Path, flaky: list[str], broken: list[str], leaves: bool, history: str = ""
) -> tuple[int, str, str]:
    """Run a suite, and its failures again; the exit code, what was printed, the history."""
    (folder / "test_it.py").write_text(SUITE.format(flaky=flaky, broken=broken, leaves=leaves))
    (folder / "pytest.ini").write_text("[pytest]\n")
    if history:
        (folder / "flaky.tsv").write_text(history)
    first = run(folder, "-m", "pytest", "-ra")
    (folder / "log").write_text(first.stdout)
    done = run(folder, str(AGAIN), "log", ".pytest_cache/v/cache/lastfailed", "flaky.tsv")
    kept = folder / "flaky.tsv"
    return done.returncode, done.stdout, kept.read_text() if kept.exists() else ""


@pytest.mark.parametrize(
    ("flaky", "broken", "leaves", "code", "closing"),
    [
        ([], [], False, 0, "0 failed, 0 flaky"),
        (["one", "a b"], [], False, 0, "0 failed, 2 flaky"),
        ([], [], True, 0, "0 failed, 1 flaky"),
        (["one"], ["wrong"], False, 1, "1 failed, 1 flaky"),
        (["one", "two", "three", "four"], [], False, 1, "4 failed, 0 flaky"),
    ],
)
def test_what_passes_alone_is_flaky_and_what_fails_twice_has_failed(
    tmp_path: Path, flaky: list[str], broken: list[str], leaves: bool, code: int, closing: str
) -> None:
    ended, printed, history = run_twice(tmp_path, flaky, broken, leaves)
    assert (ended, printed.splitlines()[-1]) == (code, closing), printed
    rows = [line.split("\t") for line in history.splitlines()[1:]]
    assert len(rows) == int(closing.split()[2])
    if flaky and rows:
        assert rows[-1][2:] == [f"test_it.py::test_chance[{flaky[0]}]", f"AssertionError: {flaky[0]} came too late"]


@pytest.mark.parametrize(("days", "code"), [(13, 1), (15, 0)])
def test_the_same_test_twice_in_fourteen_days_fails_with_its_name(tmp_path: Path, days: int, code: int) -> None:
    before = (datetime.now(UTC) - timedelta(days=days)).date().isoformat()
    history = f"date\tcommit\ttest\tfailure\n{before}\tabc\ttest_it.py::test_chance[one]\tlate\n"
    ended, printed, _ = run_twice(tmp_path, ["one"], [], leaves=False, history=history)
    assert (ended, "FLAKY AGAIN within 14 days: test_it.py::test_chance[one]" in printed) == (code, bool(code)), printed


def test_a_run_that_had_nothing_to_run_has_not_failed(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("===== 310 deselected in 1.20s =====\n")
    assert run(tmp_path, str(AGAIN), "log", "lastfailed", "flaky.tsv").returncode == 0


@pytest.mark.parametrize("log", ["", "== 3 passed, 2 failed, 1 error in 1.00s ==\n"])
def test_a_run_without_an_end_or_without_names_has_failed(tmp_path: Path, log: str) -> None:
    (tmp_path / "log").write_text(log)
    done = run(tmp_path, str(AGAIN), "log", "lastfailed", "flaky.tsv")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, "3 failed, 0 flaky" if log else "1 failed, 0 flaky")
