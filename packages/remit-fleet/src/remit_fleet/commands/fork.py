"""`remit plan fork`: a new plan of an earlier plan's unlanded tasks, or of rival attempts at one intent."""

import getpass
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from remit.cli.completion import INTENT
from remit.cli.output import Failure, repo_option, reports_failures, say
from remit.cli.person_only import require_confirmation, require_person
from remit.core.acts import Act
from remit.core.agents import ROWS
from remit.core.intent import FINAL_STATUSES
from remit.core.plurals import count_things
from remit_fleet.board import OpenPlan
from remit_fleet.commands.forecasting import describe_own_worker, estimate_tasks, find_past, forecast_made
from remit_fleet.commands.opening import database_option, open_engine, open_repository, pace_option
from remit_fleet.commands.plan_text import describe_plan
from remit_fleet.commands.start import (
    describe_repository,
    find_base,
    find_landed_intents,
    make_limits,
    make_roles,
    make_tasks,
    move_merged_target,
    must_start_worker,
    name_plan,
    plan_intents,
    publish_plan,
    start_worker,
)
from remit_fleet.commands.worker import agent_command_option
from remit_fleet.forecast import describe_forecast
from remit_fleet.planning.roles import list_roles

if TYPE_CHECKING:
    from remit.gate.gate import Gate
    from remit_fleet.board import Task
    from remit_fleet.engines.dbos import DbosEngine


@click.command()
@click.argument("plan_id", metavar="PLAN|ID", type=INTENT)
@click.option(
    "--from",
    "roots",
    multiple=True,
    metavar="ID",
    type=INTENT,
    help="Only this intent, and what needs it.",
)
@click.option("--agent", "agents", multiple=True, metavar="NAME", help="Only these agents; else those of the old plan.")
@click.option(
    "--agents", "rivals", metavar="NAME,…", help="Let each of these agents do the intent ID; the best work lands."
)
@click.option("--dry-run", is_flag=True, help="Only say what would run.")
@click.option("--yes", is_flag=True, help="Start without asking.")
@agent_command_option
@database_option
@pace_option
@repo_option
@reports_failures
def fork(
    plan_id: str,
    roots: tuple[str, ...],
    agents: tuple[str, ...],
    rivals: str | None,
    dry_run: bool,
    yes: bool,
    agent_commands: tuple[str, ...],
    database: str | None,
    pace: float,
    repo: Path,
) -> None:
    """Start a new plan of the tasks of PLAN that are stuck, blocked or dropped; or, with --agents, of rival attempts at
    the intent ID.

    The scopes are the intents' current scopes, proved anew. Each task begins with its last attempt's work. Open tasks
    stay in PLAN. Rivals work one after the other, each from the same commit. Landing verifies all, and takes a green
    one with the fewest changed lines; the others stay as branches.
    """
    require_person(Act.START_AGENTS)
    engine = open_engine("remit plan fork", database, pace)
    gate, repository = open_repository(repo)
    if rivals is not None:
        names = tuple(dict.fromkeys(name.strip() for name in rivals.split(",") if name.strip()))
        if len(names) < 2 or roots or agents:
            message = f"--agents {rivals!r} names no two agents, or stands beside --agent or --from"
            raise Failure("AGENTS", message, fix=f"remit plan fork {plan_id} --agents {','.join(list(ROWS)[:2])}")
        start_rivals(engine, gate, repository, plan_id, names, agent_commands, database, pace, dry_run=dry_run, yes=yes)
        return
    settings = gate.rules.config.orchestrator
    board = engine.read_board()
    old = board.plans.get(plan_id)
    if old is None or old.repository != repository:
        known = ", ".join(plan.id for plan in board.plans.values() if plan.repository == repository) or "none"
        message = f"there is no plan {plan_id!r} here; known: {known}"
        raise Failure("UNKNOWN_PLAN", message, target=plan_id, fix="see `remit plan log`")
    rest = list_rest(engine, old, roots)
    intents = {intent.id: intent for intent in gate.intents.document.intents}
    ids: list[str] = []
    for task in rest:
        intent = intents.get(task.intent)
        if intent is None or intent.status in FINAL_STATUSES:
            say(f"left out: {task.intent}, which is {intent.status if intent else 'in the intents file no more'}")
        elif board.tasks[task.key].plan != old.id:
            say(f"left out: {task.intent}, which is {board.tasks[task.key].state} in {board.tasks[task.key].plan}")
        else:
            ids.append(task.intent)
    if not ids:
        raise Failure("NOTHING_TO_DO", f"{plan_id} has nothing left to do anew", fix="see `remit plan status`")
    landed = find_landed_intents(board, repository, old.target)
    chosen = agents or tuple(text.partition("=")[0] for text in agent_commands)
    made = plan_intents(
        gate, tuple(ids), settings, has_own_agents=bool(chosen or rest[0].agents), landed=landed, target=old.target
    )
    opened = replace(old, id=name_plan(), by=getpass.getuser(), is_paused=False)
    before, past = {task.intent: task for task in rest}, find_past(database, repository)
    tasks = [
        task if chosen or task.intent not in before else replace(task, agents=before[task.intent].agents)
        for task in estimate_tasks(make_tasks(gate, opened, made, chosen), past)
    ]
    place, roles = board.repositories[repository], make_roles(list_roles(settings), "")
    slots = old.limits.workers or settings.workers
    must_start = must_start_worker(board, repository, chosen, agent_commands, database)
    own = [describe_own_worker(slots, agent_commands)]
    workers = [*board.workers.values(), *(own if must_start or not board.workers else [])]
    forecast = forecast_made(made, place, opened, tasks, roles, workers, past)
    say("\n".join((*describe_plan(made), *describe_forecast(forecast))))
    if dry_run:
        return
    require_confirmation(yes, f"agents will work on {count_things(len(made.tasks), 'intent')}", "say --yes")
    engine.open_plan(replace(opened, forecast=forecast.sum_up()), tasks, roles)
    if must_start or (database is None and not engine.read_board().workers):
        start_worker(slots, agent_commands, pace)
    say(f"plan {opened.id} goes on where {old.id} ended: see `remit plan status --watch`")


def start_rivals(
    engine: "DbosEngine",
    gate: "Gate",
    repository: str,
    id: str,
    names: tuple[str, ...],
    agent_commands: tuple[str, ...],
    database: str | None,
    pace: float,
    *,
    dry_run: bool,
    yes: bool,
) -> None:
    """Start a plan in which each of the agents does an intent, and the best work lands."""
    settings = gate.rules.config.orchestrator
    target, board = settings.target, engine.read_board()
    landed = find_landed_intents(board, repository, target)
    made = plan_intents(gate, (id,), settings, has_own_agents=bool(agent_commands), landed=landed, target=target)
    by, limits = getpass.getuser(), make_limits(settings, settings.workers)
    opened = OpenPlan(name_plan(), repository, target, by=by, made_at=time.time(), limits=limits)
    past = find_past(database, repository)
    tasks = [
        replace(task, agents=names[:1], rivals=names[1:]) if task.intent == id else task
        for task in estimate_tasks(make_tasks(gate, opened, made, names[:1]), past)
    ]
    place = describe_repository(repository, gate.workspace.root, target, gate.rules.config)
    roles = make_roles(list_roles(settings), "")
    must_start = must_start_worker(board, repository, names, agent_commands, database)
    own = [describe_own_worker(settings.workers, agent_commands)]
    workers = [*board.workers.values(), *(own if must_start or not board.workers else [])]
    forecast = forecast_made(made, place, opened, tasks, roles, workers, past)
    say("\n".join((*describe_plan(made), *describe_forecast(forecast))))
    if dry_run:
        return
    require_confirmation(yes, f"{', '.join(names)} will each work on {id}", "say --yes")
    move_merged_target(gate, target)
    base = find_base(gate, [task.intent for task in tasks])
    opened = replace(opened, base=base, forecast=forecast.sum_up())
    publish_plan(gate, opened, tasks)
    engine.add_repository(place)
    engine.open_plan(opened, tasks, roles)
    if must_start or (database is None and not engine.read_board().workers):
        start_worker(settings.workers, agent_commands, pace)
    say(f"plan {opened.id} is open: see `remit plan status --watch`")


def list_rest(engine: "DbosEngine", old: OpenPlan, roots: tuple[str, ...]) -> "list[Task]":
    """Return the tasks of a plan that ended without landing; with roots, only the roots and their dependants. Raises
    Failure for a root not among the tasks.
    """
    from remit_fleet.states import FINAL_STATES

    tasks = engine.list_plan(old.id)
    rest = {task.intent: task for task in tasks if task.state in FINAL_STATES and task.state != "landed"}
    if not roots:
        return list(rest.values())
    for root in roots:
        if root not in rest:
            state = next((task.state for task in tasks if task.intent == root), "not in it")
            message = f"{root} did not end without landing in {old.id}: it is {state}"
            raise Failure("UNKNOWN_TASK", message, target=root, fix=f"known: {', '.join(rest) or 'none'}")
    wanted = set(roots)
    while more := {task.intent for task in rest.values() if wanted & set(task.needs)} - wanted:
        wanted |= more
    return [task for name, task in rest.items() if name in wanted]
