"""`remit fleet`: check the fleet's setup, rebuild the board from files, and prune refs."""

import getpass
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from remit.cli.output import FINDINGS, Failure, emit, json_option, repo_option, reports_failures, say
from remit.cli.person_only import require_person
from remit.core.acts import Act
from remit.core.plurals import count_things
from remit.core.untrusted_input import sanitise_line
from remit.workspace.place.workspace import locate_workspace
from remit.workspace.sandbox.jail import NO_JAIL, find_bubblewrap
from remit_fleet.board import OpenPlan, Task, TaskState
from remit_fleet.commands.opening import database_option, open_engine, open_repository
from remit_fleet.commands.start import describe_repository, make_roles, make_task, plan_intents
from remit_fleet.fleet import name_repository_of
from remit_fleet.planning.plan import Plan
from remit_fleet.planning.roles import list_roles

if TYPE_CHECKING:
    from remit.gate.gate import Gate
    from remit_fleet.board import Board
    from remit_fleet.engines.dbos import DbosEngine
    from remit_fleet.pruning import FleetRef


@click.group()
def fleet() -> None:
    """Check the fleet, build its database anew, or delete refs that nobody needs."""


@fleet.command()
@database_option
@json_option
@repo_option
@reports_failures
def doctor(database: str | None, as_json: bool, repo: Path) -> None:
    """Report problems of the fleet: tasks that no worker can run, agents that could outlive their worker."""
    require_person(Act.CHECK_FLEET)
    engine = open_engine(database)
    board = engine.read_board()
    found = [*find_lost_board(board, repo), *find_troubles(engine, board)]
    emit({"findings": found}, as_json, found or ["nothing to mend"], FINDINGS if found else 0)


def find_lost_board(board: "Board", folder: Path) -> Iterator[str]:
    from remit.workspace.merging import TreeStore
    from remit_fleet.plan_records import LOST_BOARD, has_plans

    workspace = locate_workspace(folder)
    if workspace is None or not has_plans(TreeStore(workspace)):
        return
    repository = name_repository_of(workspace)
    if not any(owner == repository for owner, _ in board.tasks):
        yield LOST_BOARD


def find_troubles(engine: "DbosEngine", board: "Board") -> Iterator[str]:
    from remit_fleet.states import name_next_step

    open_tasks = [task for task in board.tasks.values() if task.state not in ("landed", "stuck", "blocked", "dropped")]
    if open_tasks and not board.workers:
        yield f"{count_things(len(open_tasks), 'open task')}, and no worker is alive: start one with `remit worker`"
    for task in board.tasks.values():
        if task.state in (TaskState.ASKING, TaskState.STUCK):
            place = sanitise_line(board.repositories[task.repository].url, 300)
            why = sanitise_line(task.why, 300)
            yield f"{task.intent} in {place!r} is {task.state}: {why}; there: `{name_next_step(task)}`"
    for flow, count in engine.count_foreign_workflows():
        yield f"{count} pieces of work are of version {flow}, which no worker here runs: run a worker of that version"
    for repository in board.repositories.values():
        if not Path(repository.url).is_dir():
            yield f"the repository {repository.url!r} is not on this host: its tasks fail here"
    if find_bubblewrap() is None:
        yield NO_JAIL


@fleet.command()
@click.option("--target", metavar="BRANCH", help="Where work lands; else `[orchestrator] target`.")
@click.option("--all", "has_all", is_flag=True, help="Also every open intent that no plan has.")
@database_option
@repo_option
@reports_failures
def rebuild(target: str | None, has_all: bool, database: str | None, repo: Path) -> None:
    """Rebuild the board of this repository from its intents, branches, artefacts and ledger.

    For a lost or deleted fleet database. Handed-in tasks land, or go on with their next stage; running tasks are tried
    again. In a repository with `[orchestrator] remote` the refs of every host are fetched first. What the files do not
    tell is said.
    """
    require_person(Act.CHANGE_FLEET)
    engine = open_engine(database)
    from remit.workspace.merging import TreeStore
    from remit_fleet.landing.undo import read_landings
    from remit_fleet.rebuild import describe_unknown, list_facts, rebuild_plan
    from remit_fleet.remote import SHARING_ERRORS, FleetRemote, TargetRewritten

    gate, repository = open_repository(repo)
    settings = gate.rules.config.orchestrator
    target = target or settings.target
    if settings.remote:
        try:
            FleetRemote(gate, settings.remote).fetch_fleet(target)
        except (*SHARING_ERRORS, TargetRewritten) as error:
            fix = f"see `git ls-remote {settings.remote}`: without it, work of other hosts would be done again"
            raise Failure("REMOTE", str(error), fix=fix) from error
    made = plan_intents(gate, (), settings, has_own_agents=True)
    described = describe_repository(repository, gate.workspace.root, target, gate.rules.config)
    roles = make_roles(list_roles(settings), "")
    rebuilt: list[Task] = []
    store = TreeStore(gate.workspace)
    tip = store.find_commit(f"refs/heads/{target}")
    undone = read_landings(store, tip)[1] if tip else {}
    for plan, tasks in split_plans(gate, engine.read_board(), repository, target, made, undone, has_all=has_all):
        rebuilt += rebuild_plan(engine, gate, described, plan, tasks, roles)
    for task in rebuilt:
        stage = f"  next is the {roles[task.role].stages[task.stage]}" if task.stage and task.state == "waiting" else ""
        say(f"{task.intent}  {task.state}{stage}")
    on_board = {intent for owner, intent in engine.read_board().tasks if owner == repository}
    if not rebuilt and on_board:
        say("the board is there, and nothing has to be rebuilt: see `remit plan status`")
        return
    for name in (task.intent_id for task in made.tasks if task.intent_id not in on_board):
        was = "undone, and is in no plan since" if name in undone else "in no plan, or dropped from its plan"
        say(f"{name} was {was}: `remit plan start {name}` starts it", err=True)
    for line in describe_unknown(rebuilt, roles, list_facts(gate)):
        say(line, err=True)


def split_plans(
    gate: "Gate",
    board: "Board",
    repository: str,
    target: str,
    made: Plan,
    undone: Mapping[str, float],
    *,
    has_all: bool,
) -> Iterator[tuple[OpenPlan, list[Task]]]:
    from remit.workspace.merging import TreeStore
    from remit_fleet.plan_records import read_plan_records

    intents = {intent.id: intent for intent in gate.intents.document.intents}
    left = {task.intent_id: task for task in made.tasks if (repository, task.intent_id) not in board.tasks}
    records = [record for record in read_plan_records(TreeStore(gate.workspace)) if record.plan.target == target]
    for record in records:
        id = record.plan.id if record.plan.id not in board.plans else f"{record.plan.id}-rebuilt"
        begun = int(record.plan.made_at)  # as git counts
        own = {one.intent: one for one in record.intents if one.intent in left and undone.get(one.intent, -1) < begun}
        plan = replace(record.plan, id=id, repository=repository, is_paused=False)
        tasks = [make_task(id, repository, left.pop(name), intents[name], one.agents) for name, one in own.items()]
        if tasks:
            yield plan, tasks
    if not records and left:
        say("no plan here says which intents it had: every open intent is in one", err=True)
    if not records and not has_all:
        left = {name: task for name, task in left.items() if name not in undone}
    if left and (has_all or not records):
        plan = OpenPlan(f"{time.strftime('%Y%m%d-%H%M%S')}-rebuilt", repository, target, by=getpass.getuser())
        yield plan, [make_task(plan.id, repository, task, intents[task.intent_id], ()) for task in left.values()]


@fleet.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--days", type=click.IntRange(min=0), default=14, show_default=True, help="Age from which refs are old.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@database_option
@json_option
@repo_option
@reports_failures
def prune(names: tuple[str, ...], days: int, dry_run: bool, database: str | None, as_json: bool, repo: Path) -> None:
    """Delete branches, checkpoints, plans and artefacts that nobody needs any more, here and on the remote.

    Branches and checkpoints of an attempt go once its task is over and the target holds their content, artefacts once
    they are old. What never landed stays, and is named: NAME, an intent, an attempt such as INT-014/7, or a plan,
    deletes it.
    """
    require_person(Act.CHANGE_FLEET)
    engine = open_engine(database)
    gate, repository = open_repository(repo)
    from remit_fleet.pruning import RefPruner, describe_tasks

    tasks = describe_tasks(engine.read_board(), repository, gate.rules.config.orchestrator.target)
    pruner = RefPruner(gate, tasks, days * 24 * 3600.0)
    found = pruner.plan(names)
    if left := [name for name in names if not any(has_name(one, name) for one in found.gone)]:
        why = next((f"{one.ref}: {one.why}" for one in found.kept if has_name(one, left[0])), "no ref has that name")
        raise Failure(
            "NOT_PRUNED", f"{left[0]!r} stays: {why}", target=left[0], fix="see `remit fleet prune --dry-run`"
        )
    if not dry_run:
        found = pruner.carry_out(found)
    goes = "would go" if dry_run else "deleted"
    lines = [describe_ref(one, goes) for one in found.gone] + [describe_ref(one, "stays") for one in found.kept]
    lines += [
        f"the remote did not delete {sanitise_line(ref)}: see `git push {gate.rules.config.orchestrator.remote} "
        f":{sanitise_line(ref)}`"
        for ref in found.refused
    ]
    lines.append(f"{len(found.gone)} {goes}, {len(found.kept)} stay")
    emit(found, as_json, lines, FINDINGS if found.refused else 0)


def has_name(one: "FleetRef", name: str) -> bool:
    return f"/{name}/" in f"{one.ref}/"


def describe_ref(one: "FleetRef", what: str) -> str:
    place = "on the remote" if one.is_remote else "here"
    return f"{what}  {place:13}  {sanitise_line(one.ref, 200)}  {one.commit[:12]}  {sanitise_line(one.why)}"


@fleet.command()
@click.option("--worker-role", metavar="ROLE", help="Let this role of PostgreSQL run workers, and change no table.")
@database_option
@reports_failures
def migrate(worker_role: str | None, database: str | None) -> None:
    """Bring the fleet database to this version, as the owner of its tables.

    With --worker-role workers need no right to change tables: they connect as that role.
    """
    require_person(Act.CHANGE_FLEET)
    engine = open_engine(database)
    from remit_fleet.database.store import StoreError
    from remit_fleet.engines.workflows import migrate_engine

    try:
        if worker_role is not None:
            engine.store.grant_worker(worker_role)
        migrate_engine(engine.store, worker_role)
    except StoreError as error:
        raise Failure("DATABASE", str(error), fix="name a PostgreSQL with --database") from error
    who = f"; {worker_role} may run workers" if worker_role else ""
    say(f"the fleet database is of version {engine.store.read_version()}{who}")
