"""The agents that a plan is started with: a worker offers them, is started for them, or the plan is refused."""

import os
import re
from contextlib import suppress
from pathlib import Path

import pytest
import sqlalchemy as sa

from fleet.fleet_driving import PlanRepository
from gate.driving import machine
from remit.core.agents import AGENTS
from remit.core.agents.row import AgentCommand
from remit_fleet.board import Worker
from remit_fleet.database.store import workers
from remit_fleet.fleet import open_fleet
from remit_fleet.workers.host import WorkerSettings
from remit_fleet.workers.worker import FleetWorker


@pytest.fixture
def plans(home: Path, tmp_path: Path) -> PlanRepository:
    made = PlanRepository(home, tmp_path / "work")
    made.govern(1)
    engine = open_fleet(None, home)
    engine.beat(Worker("w:1", "here", slots=9, agents=("other",)))
    with engine.store.write() as connection:  # no machine is so slow that it counts as gone
        connection.execute(sa.update(workers).values(beat_at=workers.c.beat_at + 3600))
    engine.store.close()
    return made


def test_a_command_is_not_lost_where_a_worker_without_it_is_alive(plans: PlanRepository) -> None:
    shown = plans.remit("plan", "start", "--yes", "--agent-command=mine=true {intent}")
    (worker,) = re.findall(r"^worker (\d+) runs in the background", shown, re.MULTILINE)
    with suppress(ProcessLookupError):  # its work may be over
        os.kill(int(worker), 9)


def test_a_command_is_read_and_an_unknown_agent_refused_before_a_plan_opens(plans: PlanRepository) -> None:
    assert "is no NAME=COMMAND" in plans.remit("plan", "start", "--yes", "--agent-command=mine", code=2)
    shown = plans.remit("plan", "start", "--yes", "--agent", "nosuch", code=2)
    assert "no worker offers 'nosuch'; known: other" in shown
    database = f"--database=sqlite:///{plans.home}/.local/state/remit/fleet.db"
    shown = plans.remit("plan", "start", "--yes", "--agent-command=mine=true {intent}", database, code=2)
    assert "no worker offers 'mine'" in shown
    assert "remit worker '--agent-command=mine=true {intent}'" in shown
    assert plans.status() == {}


COMMANDS = {name: row.command for name, row in AGENTS.items()}
OWN_PLAY = AgentCommand(("./play.sh", "{prompt}"))


@pytest.mark.parametrize(
    ("commands", "variables", "needing"),
    [
        (COMMANDS, {}, ("remit",)),
        (COMMANDS, {"REMIT_MODEL": ""}, ("remit",)),
        (COMMANDS, {"REMIT_MODEL": "anthropic:m"}, ()),
        ({"remit": OWN_PLAY}, {}, ()),  # it names its model, or needs none
        ({"small": OWN_PLAY}, {}, ()),
    ],
)
def test_a_worker_without_a_model_offers_no_own_agent_where_nobody_names_one(
    home: Path, commands: dict[str, AgentCommand], variables: dict[str, str], needing: tuple[str, ...]
) -> None:
    engine = open_fleet(None, home)
    engine.beat(FleetWorker(engine, WorkerSettings(1, commands, variables, home, machine(home))).describe())
    (worker,) = engine.read_board().workers.values()
    engine.store.close()
    assert worker.needs_model == needing
    assert worker.agents == tuple(commands)
