"""Stages of a task with Remit's own agent on the scripted model: one hold, one role after the other."""

import json
import sys
from collections.abc import Generator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from fleet.fleet_driving import Fleet, git

pytestmark = pytest.mark.timeout(900)
AGENT = Path(__file__).with_name("scripted_stage.py")
ROLES = """
[[orchestrator.roles]]
name = "builder"
chain = ["tester", "reviewer"]
"""
ID = "INT-001"
CODE, TEST = "src/int-001/made.py", "src/int-001/tests/test_made.py"
DONE = {"tool": "attempt_completion", "input": {"result": "done"}}


def write(path: str, content: str) -> dict[str, Any]:
    return {"tool": "write_to_file", "input": {"path": path, "content": content}}


def review(verdict: str, findings: str = "") -> dict[str, Any]:
    return {"tool": "submit_review", "input": {"verdict": verdict, "findings": findings}}


class StageFleet(Fleet):
    """A fleet whose agents play a script by their role."""

    @property
    def plays(self) -> Path:
        return self.root / "plays"

    def play(self, name: str, *turns: dict[str, Any]) -> None:
        """Write a script of one call a turn, which ends the run after them."""
        self.plays.mkdir(exist_ok=True)
        (self.plays / f"{name}.json").write_text(json.dumps([[turn] for turn in (*turns, DONE)]))

    def agent_option(self, seconds: float = 0.5, *more: str) -> str:
        del seconds, more
        return f"--agent-command=remit={sys.executable} {AGENT} {self.plays} {{intent}} {{prompt}}"

    def set_roles(self, roles: str = ROLES) -> None:
        path = self.root / ".orchestration" / "remit.toml"
        path.write_text(path.read_text() + roles)
        git(self.root, "add", "-A")
        git(self.root, "commit", "-q", "-m", "roles")

    def wait_until_over(self) -> None:
        self.wait_for_state("landed", ID)

    def ends(self) -> list[tuple[str, str]]:
        return [(attempt["role"], attempt["ended_as"]) for attempt in self.attempts(ID)]

    def show(self, path: str) -> str:
        return git(self.root, "show", f"remit/next:{path}")


@pytest.fixture
def fleet(home: Path, tmp_path: Path) -> Generator[StageFleet]:
    made = StageFleet(home, tmp_path / "work")
    yield made
    made.stop()


def test_a_reviewer_sends_the_work_back_once_and_it_lands_with_the_tests(fleet: StageFleet) -> None:
    fleet.govern(1)
    fleet.play("builder-1", write(CODE, "ANSWER = 41\n"))
    fleet.play("tester", write(TEST, "from made import ANSWER\n"))
    fleet.play("reviewer-3", review("revise", "made.py:1: the answer is 42, not 41"))
    fleet.play("builder-4", {"tool": "read_notes", "input": {}}, write(CODE, "ANSWER = 42\n"))
    fleet.play("tester-5")
    fleet.play("reviewer", review("approve"))
    fleet.set_roles()
    fleet.start_worker(1)
    fleet.start_plan([ID])
    fleet.wait_until_over()
    round_one = [("builder", "handed_in"), ("tester", "handed_in"), ("reviewer", "sent_back")]
    round_two = [("builder", "handed_in"), ("tester", "handed_in"), ("reviewer", "handed_in")]
    assert fleet.ends() == round_one + round_two
    assert (fleet.show(CODE), fleet.show(TEST)) == ("ANSWER = 42\n", "from made import ANSWER\n")
    log = fleet.remit("plan", "log", *fleet.database)
    assert "the answer is 42, not 41" in log
    bases = [(attempt["base"], attempt["head"]) for attempt in fleet.attempts(ID)]
    assert all(later[0] == former[1] for former, later in pairwise(bases))


def test_a_stage_writes_only_what_its_role_may(fleet: StageFleet) -> None:
    fleet.govern(1)
    fleet.play("builder", write(CODE, "ANSWER = 42\n"))
    fleet.play("tester", write(CODE, "ANSWER = 0\n"), write(TEST, "import made\n"))
    fleet.play("reviewer", write(CODE, "ANSWER = 1\n"), write(TEST, "\n"), review("approve"))
    fleet.set_roles()
    fleet.start_worker(1)
    fleet.start_plan([ID])
    fleet.wait_until_over()
    assert [role for role, _ in fleet.ends()] == ["builder", "tester", "reviewer"]
    assert (fleet.show(CODE), fleet.show(TEST)) == ("ANSWER = 42\n", "import made\n")
    refused = fleet.remit("log", "--event", "denied", "--json")
    assert refused.count("SCOPE_VIOLATION") >= 3


def test_work_that_is_sent_back_a_third_time_goes_to_a_person(fleet: StageFleet) -> None:
    fleet.govern(1)
    for attempt in (1, 3, 5):
        fleet.play(f"builder-{attempt}", write(CODE, f"ANSWER = {attempt}\n"))
    fleet.play("reviewer", review("revise", "still wrong"))
    fleet.set_roles(ROLES.replace('"tester", ', ""))
    fleet.start_worker(1)
    fleet.start_plan([ID])
    fleet.wait_for_state("asking", ID)
    assert fleet.status()[ID]["why"] == "sent back 3 times: still wrong"
    assert [end for _, end in fleet.ends()] == ["handed_in", "sent_back"] * 3
    assert git(fleet.root, "branch", "--list", "remit/next") == ""


def test_a_reviewer_sends_a_patch_along_and_the_builder_applies_it(fleet: StageFleet) -> None:
    fleet.govern(1)
    hunk = "@@ -1 +1 @@\n-ANSWER = 41\n+ANSWER = 42\n"
    diff = f"diff --git a/{CODE} b/{CODE}\n--- a/{CODE}\n+++ b/{CODE}\n{hunk}"
    fleet.play("builder-1", write(CODE, "ANSWER = 41\n"))
    sent = {"tool": "submit_patch", "input": {"patch": diff, "to": ID}}
    fleet.play("reviewer-2", sent, review("revise", "see the patch"))
    fleet.play("builder-3", {"tool": "submit_patch", "input": {"patch": "1"}})
    fleet.play("reviewer", review("approve"))
    fleet.set_roles(ROLES.replace('"tester", ', ""))
    fleet.start_worker(1)
    fleet.start_plan([ID])
    fleet.wait_until_over()
    assert fleet.show(CODE) == "ANSWER = 42\n"
    assert "INT-001/2" in fleet.remit("log", "--intent", ID, "--json")


def test_an_attempt_that_wants_a_neighbours_file_waits_until_that_has_landed(fleet: StageFleet) -> None:
    one, two = fleet.govern(2)
    fleet.play("builder", write("src/shared.py", "x\n"))
    for id in (one, two):
        own = write(f"src/{id.lower()}/made.py", f"BY = {id!r}\n")
        command = f"until [ -e src/{id.lower()}/go ]; do sleep 0.2; done"
        wait = {"tool": "execute_command", "input": {"command": command}}
        other = [write("src/int-001/theirs.py", "x = 1\n"), wait] if id == two else [wait]
        fleet.play(f"builder-{id}", *other, own)
    fleet.play("reviewer", review("approve"))
    fleet.set_roles(ROLES.replace('"tester", ', ""))
    fleet.start_worker(2)
    fleet.start_plan([one, two])
    fleet.wait_for_state("paused", two)
    for id in (two, one):
        fleet.touch_go(id)
    fleet.wait_until_landed()
    log = fleet.remit("plan", "log", *fleet.database)
    assert "state=paused why=INT-001 holds src/int-001/theirs.py and finishes first" in log
    assert fleet.landings() == [two, one]
    lessons = (fleet.root / ".orchestration" / "AGENT.md").read_text()
    assert "INT-001 and INT-002 met at src/int-001/theirs.py" in lessons
