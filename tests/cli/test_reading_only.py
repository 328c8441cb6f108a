"""Reading commands where nothing can be written: a read-only mount, and a repository that belongs to somebody else."""

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from cli.running import MAIN
from conftest import run_git
from forked_commands import run_command
from gate.driving import Agent, governed

READING = (
    "status",
    "log",
    "blame src/new.py",
    "why src/new.py:1",
    "stats",
    "verify",
    "ledger verify",
    "session",
    "search one",
    "show {record}",
    "intent list",
    "intent show INT-001",
    "map --check",
    "restore list",
    "mode",
    "mode suggest",
    "export --as agent-trace",
    "doctor",
)
WRITING = (
    "intent new more --scope docs/**",
    "mode observe",
    "ledger head",
    "restore latest --yes",
    "lesson something --problem p --resolution r",
    "map",
)


@pytest.fixture
def written(repository: Path, home: Path) -> tuple[Path, str]:
    """A repository with a session behind it, and the id of a record."""
    agent = Agent(governed(repository), home)
    agent.send("SessionStart", source="startup", model="m")
    agent.select()
    agent.write("src/new.py", "one\ntwo\n")
    agent.shell("touch src/made")
    agent.send("SessionEnd", reason="other")
    run_git(repository, "add", "src")
    run_git(repository, "commit", "-q", "-m", "new")
    assert run_command(["map"], repository).returncode == 0
    return repository, json.loads(run_command(["log", "--json"], repository).stdout)["data"][0]["id"]


def on_read_only_mount(root: Path, words: str) -> subprocess.CompletedProcess[str]:
    script = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && cd "$0" && exec "$@"'
    command = ["unshare", "-m", "sh", "-c", script, str(root), sys.executable, "-c", MAIN, *words.split(" ")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def can_mount(folder: Path) -> bool:
    told = subprocess.run(
        ["unshare", "-m", "mount", "--bind", str(folder), str(folder)], capture_output=True, check=False
    )
    return told.returncode == 0


@pytest.mark.live
def test_every_reading_command_works_on_a_read_only_mount(written: tuple[Path, str], tmp_path: Path) -> None:
    root, record = written
    if not can_mount(tmp_path):
        pytest.skip("SKIPPED LOUDLY: this user may not mount")
    for words in READING:
        here = run_command(words.format(record=record).split(" "), root)
        there = on_read_only_mount(root, words.format(record=record))
        assert there.returncode == here.returncode, (words, there.stdout, there.stderr)
        assert "Errno" not in there.stderr, words
        assert there.stdout or not here.stdout, words
    # Also where no index was ever made.
    for path in (root / ".git/remit").glob("index.db*"):
        path.unlink()
    assert record[-12:] in on_read_only_mount(root, "log").stdout


def test_writing_commands_there_say_what_to_do(written: tuple[Path, str], tmp_path: Path) -> None:
    root, _ = written
    if not can_mount(tmp_path):
        pytest.skip("SKIPPED LOUDLY: this user may not mount")
    for words in WRITING:
        done = on_read_only_mount(root, words)
        assert done.returncode != 0, words
        assert "Errno" not in done.stderr, (words, done.stderr)
        assert "Traceback" not in done.stderr, (words, done.stderr)
        assert "read-only" in done.stderr, (words, done.stderr)
        assert "hint" in done.stderr, (words, done.stderr)


NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all")
PYTHONS = (sys.executable, f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}")


def run_as_nobody(python: str, code: str, *words: str, cwd: Path, home: Path) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": str(home),
        "LC_ALL": "C.UTF-8",
        "GIT_CONFIG_NOSYSTEM": "1",
        "PYTHONPATH": ":".join(filter(None, sys.path)),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [*NOBODY, python, "-c", code, *words]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def as_nobody(root: Path, home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run_as_nobody(python_of_nobody() or "", MAIN, *words, cwd=root, home=home)


@cache
def python_of_nobody() -> str | None:
    """A Python that another user may run, with Remit's packages."""
    if os.geteuid() or not shutil.which("setpriv"):
        return None
    found = (p for p in PYTHONS if shutil.which(p))
    tried = ((p, run_as_nobody(p, "import remit.cli", cwd=Path("/"), home=Path("/"))) for p in found)
    return next((p for p, done in tried if done.returncode == 0), None)


@pytest.fixture
def others(written: tuple[Path, str], tmp_path: Path) -> tuple[Path, Path]:
    """The repository readable by everybody, and a HOME of somebody else."""
    if python_of_nobody() is None:
        pytest.skip("SKIPPED LOUDLY: this user may not act as another, or that one cannot run this Python")
    root, _ = written
    home = tmp_path / "other"
    home.mkdir()
    os.chown(home, 65534, 65534)
    subprocess.run(["chmod", "-R", "a+rX", str(root)], check=True)
    for folder in (*root.parents, *home.parents):
        if folder.owner() == "root" and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    return root, home


def test_gits_refusal_is_told_with_the_command_that_mends_it(others: tuple[Path, Path]) -> None:
    root, home = others
    for words in ("verify", "blame src/app.py"):
        done = as_nobody(root, home, *words.split(" "))
        assert done.returncode, (words, done.stdout, done.stderr)
        assert f"git config --global --add safe.directory {root}" in done.stderr, words


def test_reading_commands_work_in_a_repository_of_somebody_else(others: tuple[Path, Path]) -> None:
    root, home = others
    (home / ".gitconfig").write_text(f"[safe]\n\tdirectory = {root}\n")
    for words in ("status", "log", "blame src/new.py", "why src/new.py:1", "stats", "verify", "session", "intent list"):
        done = as_nobody(root, home, *words.split(" "))
        assert done.returncode == 0, (words, done.stdout, done.stderr)
    assert "claude-code" in as_nobody(root, home, "blame", "src/new.py").stdout


def test_a_ledger_that_may_not_be_read_is_named_with_its_owner(others: tuple[Path, Path]) -> None:
    root, home = others
    (home / ".gitconfig").write_text(f"[safe]\n\tdirectory = {root}\n")
    (root / ".git/remit/log").chmod(0o700)
    done = as_nobody(root, home, "log")
    assert done.returncode == 4
    assert "may not read" in done.stderr
    assert "root" in done.stderr
