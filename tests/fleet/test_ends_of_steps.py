"""Steps while the fleet database is away for a moment: no agent is started twice, and no message is lost or doubled."""

import sys
import threading
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from fleet.small_plan import REPOSITORY, SmallPlan
from gate.driving import Agent, machine
from remit.core.agents.row import AgentCommand
from remit.workspace.place.assignment_file import AssignmentFile
from remit_fleet.board import Attempt, AttemptEnd, AttemptState, Claim, Order, OrderKind, TaskKey, Worker
from remit_fleet.database.rows import change_rows
from remit_fleet.engines.dbos import DbosEngine
from remit_fleet.engines.workflows import StepEnd
from remit_fleet.moves import claim_task
from remit_fleet.workers.attempt_steps import AttemptSteps
from remit_fleet.workers.host import WorkerHost, WorkerSettings
from remit_fleet.workers.landing_rounds import trees_folder
from remit_fleet.workers.starting_point import StartingPoint
from remit_fleet.workers.worker import FleetWorker
from remit_fleet.workers.workplaces import Workplace, Workplaces


@pytest.fixture
def plan(repository: Path, tmp_path: Path, home: Path) -> SmallPlan:
    return SmallPlan(repository, tmp_path, home)


class UnsteadyPlaces(Workplaces):
    """Workplaces whose database is away when an attempt is left the first times."""

    def __init__(self, host: WorkerHost, error: Exception) -> None:
        super().__init__(host)
        self.errors = [error]

    def leave(self, token: int) -> None:
        if self.errors:
            raise self.errors.pop()
        super().leave(token)


class CountedSteps(AttemptSteps):
    """Steps whose agent uses up its budget at once."""

    runs = 0

    def run_agent(self, attempt: Attempt) -> StepEnd:
        self.runs += 1
        return StepEnd(AttemptEnd.OVER_BUDGET, "the budget is used up")


@pytest.mark.parametrize("error", [OperationalError("x", {}, Exception("away")), OSError("full")])
def test_an_agent_that_is_over_is_not_started_again_because_its_end_was_not_written(
    plan: SmallPlan, error: Exception
) -> None:
    attempt, host = plan.begin("INT-001"), plan.open_worker().host
    steps = CountedSteps(host, UnsteadyPlaces(host, error))
    assert steps.run("run", attempt).ended_as is AttemptEnd.OVER_BUDGET
    assert steps.runs == 1


class UnsteadyEngine(DbosEngine):
    """Engine whose database is away when an agent is to start the first time."""

    is_away = True

    def move_attempt(self, token: int, key: TaskKey, state: AttemptState, **columns: str) -> bool:
        if state is AttemptState.STARTED and self.is_away:
            self.is_away = False
            raise OperationalError("x", {}, Exception("away"))
        return super().move_attempt(token, key, state, **columns)


def test_a_message_of_a_person_is_in_the_brief_of_a_start_that_is_repeated(plan: SmallPlan) -> None:
    engine = UnsteadyEngine(plan.engine.store)
    engine.beat(Worker("w:1", "here", slots=1, agents=("small",)))
    with change_rows(engine.store) as rows:
        attempt = claim_task(rows, Claim(REPOSITORY, "INT-001", "w:1", "small"), 60.0)
    engine.give_order(Order(0, REPOSITORY, OrderKind.STEER, "INT-001", body="mind the gap", by="ana"))
    command = AgentCommand((sys.executable, "-c", "import sys; print(sys.argv[1])", "{prompt}"))
    settings = WorkerSettings(1, {"small": command}, {}, plan.home, machine(plan.home))
    steps = FleetWorker(engine, settings).steps
    assert steps.run("prepare", attempt) == StepEnd()
    end = steps.run("run", attempt)
    said = (trees_folder(plan.home, REPOSITORY) / "INT-001-1.log").read_text()
    assert end == StepEnd(), said
    assert not engine.is_away
    assert "mind the gap" in said
    assert not engine.list_unheard(attempt.key)


def test_messages_that_threads_deliver_at_once_are_each_left_once(plan: SmallPlan) -> None:
    attempt, places = plan.begin("INT-001"), plan.open_worker().places
    tree = next(t for t in plan.trees.list_trees() if t.root == plan.tree_of(attempt))
    Agent(tree.root, plan.home, "s").send("SessionStart", source="startup")
    start = StartingPoint("", "")
    orders = [Order(n, REPOSITORY, OrderKind.STEER, "INT-001", body=f"say {n}.", by="ana") for n in range(40)]
    place = Workplace(tree, AssignmentFile(tree), 0.0, start, messages=list(orders))
    threads = [threading.Thread(target=places.deliver_messages, args=(place, 1)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [order.id for _, order in place.unheard] == [order.id for order in orders]
