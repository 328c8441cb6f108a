"""Common files that every task may write: landing keeps the lines of all."""

from pathlib import Path

import pytest

from conftest import run_git
from fleet.fleet_driving import Fleet, git
from remit.workspace.merging import TreeStore
from remit.workspace.place.workspace import locate_workspace

UNION = '\n[orchestrator]\ncommons = [{paths = ["CHANGES.md"], union = true}]\n'


def test_a_merge_keeps_the_lines_of_both_sides_where_it_is_told_to(repository: Path) -> None:
    for side in ("one", "two"):
        run_git(repository, "checkout", "-q", "-b", side, "main")
        for name in ("CHANGES 1.md", "README.md"):
            (repository / name).write_text(f"{side}\n")
        run_git(repository, "add", "-A")
        run_git(repository, "commit", "-qm", side)
    place = locate_workspace(repository)
    assert place is not None
    store = TreeStore(place)
    assert store.merge("one", "two").conflicts == ("CHANGES 1.md", "README.md")
    merged = store.merge("one", "two", ["CHANGES *.md"])
    assert merged.conflicts == ("README.md",)
    assert store.read_files(merged.tree, ["CHANGES 1.md"])["CHANGES 1.md"] == b"one\ntwo\n"


@pytest.mark.timeout(900)
def test_two_tasks_write_the_changelog_at_once_and_both_land(fleet: Fleet) -> None:
    ids = fleet.govern(2)
    toml = fleet.root / ".orchestration" / "remit.toml"
    toml.write_text(toml.read_text() + UNION)
    (fleet.root / "CHANGES.md").write_text("# Changes\n")
    for id in ids:
        fleet.remit("intent", "edit", id, "--add-scope", "CHANGES.md")
    git(fleet.root, "add", "-A")
    git(fleet.root, "commit", "-qm", "changes")
    script = "echo {intent} >> CHANGES.md; until rm src/*/go; do sleep 0.05; done"
    fleet.start_agents(2, [f"--agent-command=shell=/bin/sh -c '{script}'"])
    assert "1 pair proved apart, 0 not" in fleet.start_plan(ids)
    fleet.wait_for_state("running")
    for id in ids:
        fleet.touch_go(id)
    fleet.wait_until_landed()
    assert sorted(git(fleet.root, "show", "remit/next:CHANGES.md").splitlines()) == ["# Changes", *ids]
