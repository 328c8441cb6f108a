"""An `.orchestration/` below the governed root does not count, and each view says so."""

from pathlib import Path

import pytest

from cli.running import data, remit, run
from gate.driving import Agent, governed


@pytest.mark.parametrize("name", ["remit.toml", "active_intents.yaml", "intents/INT-007-x.yaml"])
def test_each_view_names_rules_that_do_not_hold(repository: Path, home: Path, name: str) -> None:
    governed(repository)
    file = repository / "a pkg\x1b/.orchestration" / name
    file.parent.mkdir(parents=True)
    file.write_text("")
    told = "a pkg\\x1b/.orchestration/ does not count, and the rules of"
    for words in (("status",), ("intent", "list"), ("intent", "lint"), ("init", "--yes", "--no-agents"), ("doctor",)):
        done = run(repository, *words)
        shown = " ".join(f"{done.stdout} {done.stderr}".split())
        assert told in shown, (words, done)
        assert "remit init --repo" in shown, words
    assert Agent(repository / "a pkg\x1b", home).write("x", "x")["permissionDecision"] == "deny"


def test_a_folder_that_a_person_governs_is_not_named(repository: Path, home: Path) -> None:
    governed(repository)
    folder = repository / "pkg/.orchestration"
    folder.mkdir(parents=True)
    (folder / "remit.toml").write_text("")
    assert data(repository, "status")["nested_rules"]
    remit(repository, "init", "--yes", "--no-agents", "--repo", "pkg")
    assert data(repository, "status")["nested_rules"] == ""
