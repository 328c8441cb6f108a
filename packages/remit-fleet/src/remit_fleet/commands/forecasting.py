"""Forecast of a plan that a person is about to start, from what earlier attempts in the repository took."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from remit.cli.output import warn
from remit.core.machine_paths import FLEET_PATH
from remit_fleet.board import FleetRepository, OpenPlan, Role, Task, Worker
from remit_fleet.commands.opening import find_agents
from remit_fleet.fleet import FleetUnavailable, report_database_errors
from remit_fleet.forecast import Forecast, PastAttempts, estimate_task, forecast_plan, measure_past, open_board
from remit_fleet.planning.plan import Plan


class MeasuredPast(Struct, frozen=True):
    """What earlier attempts of a repository took, and the usual seconds of a verification."""

    attempts: tuple[PastAttempts, ...] = ()
    verify_s: float = 0.0


def find_past(database: str | None, repository: str) -> MeasuredPast:
    """Return the repository's past in the fleet database, empty without one. A database that does not answer is
    reported as a warning.
    """
    if not database and not (Path.home() / FLEET_PATH).exists():
        return MeasuredPast()
    try:
        with report_database_errors():
            from remit_fleet.database.past import read_past
            from remit_fleet.database.store import open_store

            store = open_store(database, Path.home())
            try:
                ended, verify_s = read_past(store, repository)
            finally:
                store.close()
    except FleetUnavailable as error:
        warn(f"no past for the forecast: {error}; {error.fix}")
        return MeasuredPast()
    return MeasuredPast(measure_past(ended), verify_s)


def estimate_tasks(tasks: Iterable[Task], past: MeasuredPast) -> list[Task]:
    """Return the tasks with the usual time of their roles; a role without a past keeps the default."""
    return [replace(task, estimate_s=estimate_task(past.attempts, task.role) or task.estimate_s) for task in tasks]


def forecast_made(
    made: Plan,
    repository: FleetRepository,
    opened: OpenPlan,
    tasks: Iterable[Task],
    roles: Mapping[str, Role],
    workers: Iterable[Worker],
    past: MeasuredPast,
) -> Forecast:
    shared = [(pair.first, pair.second) for pair in made.shared]
    board = open_board(repository, opened, list(tasks), shared, workers, roles)
    return forecast_plan(board, past.attempts, past.verify_s)


def describe_own_worker(slots: int, agent_commands: tuple[str, ...] = ()) -> Worker:
    """Return the worker that would be started here."""
    from remit_fleet.workers.agent import list_without_model

    commands = find_agents(agent_commands)
    bare = list_without_model(commands, os.environ)
    return Worker("here", "here", slots=slots, agents=tuple(commands), needs_model=bare)
