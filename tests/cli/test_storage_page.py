"""The page on what is stored where names everything that a day with Remit leaves, and its commands remove it."""

from pathlib import Path

import pytest

from cli.running import remit, run
from conftest import run_git
from gate.driving import Agent, governed

PAGE = Path(__file__).parents[2] / "docs/reference/storage.md"


@pytest.fixture
def used(repository: Path, home: Path) -> Path:
    agent = Agent(governed(repository), home)
    agent.send("SessionStart", source="startup", model="m")
    agent.select()
    agent.write("src/new.py", "one\ntwo\n")
    (repository / ".env").write_text("TOKEN=secret\n")
    agent.shell("touch src/made; rm src/made")
    agent.send("Stop")
    agent.send("SessionEnd", reason="other")
    for words in (
        "blame src/new.py",
        "map",
        "stats",
        "lesson x --problem p --resolution r",
        "restore latest --yes",
        "ledger witness",
    ):
        assert run(repository, *words.split(" ")).returncode in (0, 1), words
    return repository


def test_every_file_of_remits_is_named_on_the_page(used: Path, home: Path) -> None:
    page = PAGE.read_text("utf-8")
    for folder in (used / ".git/remit", home / ".local/state/remit", used / ".orchestration"):
        for path in folder.iterdir():
            name = path.name.removesuffix("-wal").removesuffix("-shm")
            assert name.endswith(".lock") or f"{name}`" in page or f"{name}/`" in page, path


def test_a_purge_leaves_nothing_in_the_repository(used: Path) -> None:
    remit(used, "uninstall", "--purge", "--yes")
    assert not (used / ".git/remit").exists()
    assert not (used / ".orchestration").exists()
    assert run_git(used, "for-each-ref", "refs/remit", "refs/notes") == ""
