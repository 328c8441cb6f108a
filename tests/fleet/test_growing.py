"""A scope that a person widens while an attempt runs: with a real worker, git and an agent that writes by the hook."""

import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from fleet.fleet_driving import Fleet, git

AGENT = Path(__file__).with_name("growing_agent.py")


class GrowingFleet(Fleet):
    def agent_option(self, seconds: float = 0.5, *more: str) -> str:
        del seconds, more
        return f"--agent-command=growing={sys.executable} {AGENT} {{intent}}"


@pytest.fixture
def fleet(home: Path, tmp_path: Path) -> Generator[GrowingFleet]:
    made = GrowingFleet(home, tmp_path / "work")
    yield made
    made.stop()


@pytest.mark.timeout(900)
def test_an_attempt_may_write_what_a_person_adds_to_its_scope_while_it_runs(fleet: GrowingFleet) -> None:
    (id,) = fleet.govern(1)
    fleet.start_worker(1)
    fleet.start_plan([id])
    fleet.wait_for_state("running", id)
    fleet.remit("intent", "edit", id, "--add-scope", "docs/**")
    fleet.wait_until_landed()
    assert [attempt["ended_as"] for attempt in fleet.attempts(id)] == ["handed_in"]
    assert git(fleet.root, "show", f"remit/next:docs/{id}.md") == f"# {id}\n"
