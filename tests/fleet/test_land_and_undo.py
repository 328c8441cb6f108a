"""`remit plan land` and `remit plan undo`, with real workers, git and agents that write through the hook."""

import json

import pytest

from fleet.fleet_driving import WAIT_S, Fleet, git

pytestmark = pytest.mark.timeout(900)


def branch_of(fleet: Fleet) -> str:
    return git(fleet.root, "branch", "--show-current").strip()


def test_a_plan_that_does_not_land_by_itself_lands_when_a_person_says_so(fleet: Fleet) -> None:
    ids = fleet.govern(2)
    worker = fleet.start_worker(2, 0.1)
    fleet.remit("plan", "start", *ids, "--yes", "--no-land")
    fleet.wait_for_state("asking")
    assert "waits for a person: `remit plan land` lands it" in fleet.remit("plan", "status")
    assert git(fleet.root, "branch", "--list", "remit/next") == ""
    worker.terminate()
    worker.wait(WAIT_S)
    # Nobody else is there: it lands in the person's own process.
    shown = fleet.remit("plan", "land", ids[0])
    assert f"{ids[0]}  landed on remit/next in " in shown
    assert {id: task["state"] for id, task in fleet.status().items()} == {ids[0]: "landed", ids[1]: "asking"}
    assert fleet.landings() == [ids[0]]
    assert "landed on remit/next" in fleet.remit("plan", "land")
    assert sorted(fleet.landings()) == ids
    assert "nothing is handed in" in fleet.remit("plan", "land")
    assert "no plan has 'INT-099'" in fleet.remit("plan", "land", "INT-099", code=2)


def test_a_landing_is_taken_back_with_what_needs_it(fleet: Fleet) -> None:
    ids = fleet.govern(2)
    with fleet.intent_file(ids[1]).open("a") as file:
        file.write("dependencies: [INT-001]\n")
    git(fleet.root, "commit", "-qam", "INT-002 waits")
    fleet.start_worker(2, 0.1)
    fleet.start_plan(ids)
    fleet.wait_until_landed()
    tip = git(fleet.root, "rev-parse", "remit/next")

    refused = fleet.remit("plan", "undo", ids[0], "--yes", code=1)
    assert "INT-001 stays: INT-002 landed after it and need" in refused
    assert "remit plan undo INT-001 --with-dependants" in refused
    shown = fleet.remit("plan", "undo", ids[0], "--with-dependants", "--dry-run")
    assert "INT-001 goes out of remit/next, and before it INT-002, which need it: changes 4 files" in shown
    assert "removed     src/int-001/made.py" in shown
    assert "nothing was changed" in fleet.remit("plan", "undo", ids[0], "--with-dependants", code=2)
    assert git(fleet.root, "rev-parse", "remit/next") == tip

    assert "INT-002, INT-001 went out of remit/next" in fleet.remit(
        "plan", "undo", ids[0], "--with-dependants", "--yes"
    )
    files = git(fleet.root, "ls-tree", "-r", "--name-only", "remit/next").split()
    assert [f"src/{id.lower()}/made.py" in files for id in ids] == [False, False]
    for id in ids:
        name = fleet.intent_file(id).relative_to(fleet.root)
        assert "status: DONE" not in git(fleet.root, "show", f"remit/next:{name}")
    assert {task["state"] for task in fleet.status().values()} == {"dropped"}
    assert "holds nothing of it" in fleet.remit("plan", "undo", ids[0], "--yes", code=1)
    assert json.loads(fleet.remit("plan", "undo", ids[0], "--dry-run", "--json", code=1))["data"]["changes"] == []
    # What went out can be done again.
    fleet.start_plan(ids)
    fleet.wait_until_landed()


def test_a_target_that_a_person_has_checked_out_moves_only_when_the_person_lands(fleet: Fleet) -> None:
    ids = fleet.govern(1)
    branch = branch_of(fleet)
    fleet.start_worker(1, 0.1)
    fleet.remit("plan", "start", *ids, "--yes", "--target", branch)
    fleet.wait_for_state("asking", ids[0])
    assert f"{branch} is checked out in {str(fleet.root)!r}: `remit plan land` brings" in fleet.remit("plan", "status")
    (fleet.root / "README.md").write_text("# Example\n\nA note that is not committed.\n")
    tip = git(fleet.root, "rev-parse", branch)
    fleet.remit("plan", "land")
    assert git(fleet.root, "rev-parse", branch) != tip
    assert (fleet.root / "src/int-001/made.py").exists()
    assert "not committed" in (fleet.root / "README.md").read_text()
    # The intent's file says what has landed, and differs from the commit no longer.
    assert git(fleet.root, "status", "--porcelain").split() == ["M", "README.md"]
    assert "status: DONE" in fleet.intent_file(ids[0]).read_text()
    # The way back brings the tree along too.
    fleet.remit("plan", "undo", ids[0], "--yes")
    assert not (fleet.root / "src/int-001/made.py").exists()
    assert "not committed" in (fleet.root / "README.md").read_text()


def test_an_uncommitted_change_in_the_way_of_a_landing_is_named_and_stays(fleet: Fleet) -> None:
    ids = fleet.govern(1)
    branch = branch_of(fleet)
    fleet.start_worker(1, 0.1)
    fleet.remit("plan", "start", *ids, "--yes", "--target", branch)
    fleet.wait_for_state("asking", ids[0])
    mine = fleet.root / "src/int-001/made.py"
    mine.parent.mkdir(parents=True)
    mine.write_text("a person's own\n")
    shown = fleet.remit("plan", "land", code=1)
    assert "asking" in shown
    assert "in the way: src/int-001/made.py; commit or stash it there, then `remit plan land`" in shown
    assert mine.read_text() == "a person's own\n"
    assert git(fleet.root, "status", "--porcelain", "--", ".orchestration") == ""
    mine.unlink()
    assert "landed on" in fleet.remit("plan", "land")
    assert "made_by" in mine.read_text()
