"""Ends of steps while the fleet database is away for a moment: an agent that is over is not started again."""

from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from orchestrator.small_plan import SmallPlan
from remit.orchestrator.board import Attempt, AttemptEnd
from remit.orchestrator.engines.workflows import StepEnd
from remit.orchestrator.workers.attempt_steps import AttemptSteps
from remit.orchestrator.workers.host import WorkerHost
from remit.orchestrator.workers.workplaces import Workplaces


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
