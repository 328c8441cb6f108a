"""A person has a say while agents work: take, give back, steer, reassign, with real workers, git and hooks."""

from collections.abc import Generator
from pathlib import Path

import pytest

from fleet.fleet_driving import PatientFleet, git

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def fleet(home: Path, tmp_path: Path) -> Generator[PatientFleet]:
    made = PatientFleet(home, tmp_path / "work")
    yield made
    made.stop()


def test_a_person_takes_a_task_and_gives_it_back_with_what_they_changed(fleet: PatientFleet) -> None:
    ids = fleet.govern(2)
    fleet.start_patient(ids)
    # One is given back to an agent, the other one is finished by the person.
    places: dict[str, Path] = {}
    for id in ids:
        shown = fleet.remit("task", "take", id)
        place = places[id] = Path(shown.split("cd ")[1].split()[0])
        assert (place / f"src/{id.lower()}/begun.py").read_text() == "begun = 1\n"
        assert fleet.status()[id]["state"] == "asking"
        assert "has taken it over, and gives it back" in fleet.status()[id]["why"]
        (place / f"src/{id.lower()}/begun.py").write_text("begun = 'by a person'\n")
    assert [attempt["ended_as"] for attempt in fleet.attempts(ids[0])] == ["cancelled"]
    assert "nobody has taken it over" not in fleet.remit("task", "give-back", ids[0])

    stray = places[ids[1]] / "README.md"
    stray.write_text("not in its scope\n")
    refused = fleet.remit("task", "give-back", ids[1], "--done", code=2)
    assert "outside of what INT-002 may change: README.md" in refused
    assert stray.read_text() == "not in its scope\n"
    git(places[ids[1]], "restore", "README.md")
    assert "INT-002 is handed in" in fleet.remit("task", "give-back", ids[1], "--done")

    fleet.wait_until_landed()
    made = git(fleet.root, "show", "remit/next:src/int-001/made.py")
    assert made.splitlines() == ["# after begun = 'by a person'", "made_by = 'INT-001'"]
    assert git(fleet.root, "show", "remit/next:src/int-002/begun.py") == "begun = 'by a person'\n"
    assert [len(fleet.attempts(id)) for id in ids] == [2, 1], fleet.remit("plan", "log")
    assert "nobody has taken it over" in fleet.remit("task", "give-back", ids[0], code=2)
    assert "holds no worktree to take" in fleet.remit("task", "take", ids[0], code=2)


def test_a_message_reaches_the_running_agent_and_another_agent_goes_on_where_it_was(fleet: PatientFleet) -> None:
    ids = fleet.govern(2)
    fleet.start_patient(ids)
    assert "attempt 1 by patient gets it at its next call" in fleet.remit("task", "steer", ids[0], "please finish now")
    fleet.wait_for_state("landed", ids[0])
    made = git(fleet.root, "show", "remit/next:src/int-001/made.py")
    assert "Remit: a person says about this task: please finish now" in made
    assert "kind=steer state=heard" in fleet.remit("plan", "log")

    assert "no worker offers 'nobody'; known: patient" in fleet.remit(
        "task", "reassign", ids[1], "--agent", "nobody", code=2
    )
    fleet.start_worker(1, 0.5, "other")
    fleet.wait_for_workers(2)
    assert "INT-002 is for other" in fleet.remit("task", "reassign", ids[1], "--agent", "other")
    fleet.wait_for_state("landed", ids[1])
    assert [(one["agent"], one["ended_as"]) for one in fleet.attempts(ids[1])] == [
        ("patient", "cancelled"),
        ("other", "handed_in"),
    ]
    assert "# after begun = 1" in git(fleet.root, "show", "remit/next:src/int-002/made.py")
    assert "INT-002 is landed" in fleet.remit("task", "steer", ids[1], "too late", code=2)
