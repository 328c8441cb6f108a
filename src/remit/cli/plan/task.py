"""`remit task`: one intent of a plan."""

import getpass
from pathlib import Path

import click

from remit.cli.completion import complete_intents
from remit.cli.output import Failure, emit, governed_gate, json_option, repo_option, reports_failures
from remit.cli.person_only import require_person
from remit.cli.plan.opening import database_option, open_engine, require_task
from remit.cli.plan.taking_over import give_back, reassign, steer, take
from remit.orchestrator.fleet import find_repository_root, give_order, name_repository

id_argument = click.argument("id", shell_complete=complete_intents)


@click.group()
def task() -> None:
    """Show a plan's intent, retry or drop the task, or intervene while its agent works."""


@task.command()
@id_argument
@database_option
@json_option
@repo_option
@reports_failures
def show(id: str, database: str | None, as_json: bool, repo: Path) -> None:
    """Show a task with its attempts."""
    engine = open_engine("remit task show", database)
    repository = name_repository(find_repository_root(governed_gate(repo).workspace))
    task = require_task(engine, repository, id)
    tried = engine.list_attempts((repository, id))
    lines = [f"{task.intent}  {task.state}  {task.why}  (plan {task.plan})"]
    for attempt in tried:
        cost = "cost unknown" if attempt.usd is None else f"${attempt.usd:.2f}"
        end = f"{attempt.ended_as}: {attempt.failure}" if attempt.failure else attempt.ended_as or attempt.state
        lines.append(f"attempt {attempt.attempt} by {attempt.agent}, token {attempt.token}, {cost}: {end}")
    emit({"task": task, "attempts": tried}, as_json, lines)


@task.command()
@id_argument
@click.option("--fresh", is_flag=True, help="Begin at the target, without the files of earlier attempts.")
@database_option
@repo_option
@reports_failures
def retry(id: str, fresh: bool, database: str | None, repo: Path) -> None:
    """Retry a stuck or blocked task; the next attempt begins with the last attempt's work."""
    from remit.orchestrator.states import FRESH_BODY

    order(id, "retry", database, repo, FRESH_BODY if fresh else "")


@task.command()
@id_argument
@database_option
@repo_option
@reports_failures
def drop(id: str, database: str | None, repo: Path) -> None:
    """End a task's agent, and remove the task from its plan."""
    order(id, "drop", database, repo)


def order(id: str, kind: str, database: str | None, repo: Path, body: str = "") -> None:
    require_person(f"{kind} of a task")
    engine = open_engine(f"remit task {kind}", database)
    from remit.orchestrator.board import OrderKind, TaskState

    repository = name_repository(find_repository_root(governed_gate(repo).workspace))
    require_task(engine, repository, id)
    give_order(engine, repository, OrderKind(kind), id, getpass.getuser(), body)
    after = require_task(engine, repository, id)
    if after.state not in (TaskState.WAITING, TaskState.DROPPED):
        fix = "see `remit task show`"
        raise Failure("NOTHING_CHANGED", f"{id} is {after.state}: {after.why}", target=id, fix=fix)
    click.echo(f"{id}  {after.state}  {after.why}")


for command in (take, give_back, steer, reassign):
    task.add_command(command)
