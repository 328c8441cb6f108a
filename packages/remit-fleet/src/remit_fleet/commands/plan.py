"""`remit plan`: check whether several intents can run at once, land handed-in tasks now, and undo landed intents."""

import getpass
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click
from msgspec.structs import asdict, replace

from remit.cli import output
from remit.cli.completion import INTENT
from remit.cli.person_only import PERSON, require_confirmation, require_person
from remit.core.acts import Act
from remit.core.plurals import count_things
from remit.core.untrusted_input import sanitise_line
from remit.gate.gate import Gate
from remit_fleet.board import OpenPlan
from remit_fleet.commands.forecasting import describe_own_worker, estimate_tasks, find_past, forecast_made
from remit_fleet.commands.opening import database_option, open_engine, open_repository, open_trees
from remit_fleet.commands.plan_text import describe_plan
from remit_fleet.commands.start import describe_repository, make_limits, make_roles, make_tasks, start
from remit_fleet.commands.suggest import suggest
from remit_fleet.commands.watch import log, pause, resume, status, stop
from remit_fleet.fleet import UnknownTask, find_repository_root, give_order, name_repository
from remit_fleet.forecast import Forecast, describe_forecast, write_forecast
from remit_fleet.planning.companions import list_companion_patterns
from remit_fleet.planning.plan import Plan, make_plan, select_planned
from remit_fleet.planning.roles import find_role, list_roles
from remit_fleet.repository import gather_facts, list_tracked_files

if TYPE_CHECKING:
    from remit_fleet.board import Board, Task
    from remit_fleet.engines.dbos import DbosEngine
    from remit_fleet.workers.landing_by_hand import UndoPreview

MAX_SHOWN_FILES = 20


@click.group()
def plan() -> None:
    """Run several agents at once: each intent is a task that writes only its own paths."""


@plan.command("check")
@click.argument("intent_ids", nargs=-1, metavar="[ID]...", type=INTENT)
@click.option("--fix", is_flag=True, help="Write the patterns of companions into the scopes of these intents.")
@database_option
@output.command_options
def check(intent_ids: tuple[str, ...], fix: bool, database: str | None, repo: Path, as_json: bool) -> None:
    """Report findings against running these intents at once; by default every open intent.

    An intent includes its open descendants. Two tasks without a dependency between them have to be proved apart: a path
    in both scopes is named. Exit 1 for a finding that has to be mended first. No task is started. The forecast of time
    and cost rests on earlier plans of this repository.
    """
    require_person(Act.CHECK_PLAN)
    gate = output.governed_gate(repo)
    for name in intent_ids:
        gate.intents.get(name)
    settings = gate.rules.config.orchestrator
    if fix:
        require_person(Act.EDIT_INTENT)
        write_companions(gate, intent_ids)
    document = gate.intents.document
    intents = tuple(select_planned({intent.id: intent for intent in document.intents}, intent_ids).values())
    facts = gather_facts(gate, intents, settings, os.environ.get("PATH", os.defpath))
    made = make_plan(document, intent_ids, find_role(settings, settings.first_role), settings, facts)
    forecast = forecast_check(gate, made, database)
    lines = [*describe_plan(made), *(describe_forecast(forecast) if forecast else ())]
    output.emit(
        {**asdict(made), "forecast": write_forecast(forecast) if forecast else None},
        as_json,
        lines,
        output.FINDINGS if made.errors else 0,
    )


def forecast_check(gate: Gate, made: Plan, database: str | None) -> Forecast | None:
    """Return the forecast of a plan as `remit plan start` would start it; None for a plan that cannot start."""
    if not made.tasks or made.obstacles:
        return None
    settings, root = gate.rules.config.orchestrator, find_repository_root(gate.workspace)
    opened = OpenPlan("", name_repository(root), settings.target, limits=make_limits(settings, settings.workers))
    past = find_past(database, opened.repository)
    tasks = estimate_tasks(make_tasks(gate, opened, made, ()), past)
    place = describe_repository(opened.repository, root, settings.target, gate.rules.config)
    roles = list_roles(settings)
    worker = describe_own_worker(settings.workers)
    if any(finding.code == "NO_AGENT" for finding in made.findings):
        worker = replace(worker, agents=("any agent",))
    return forecast_made(made, place, opened, tasks, make_roles(roles, ""), [worker], past)


def write_companions(gate: Gate, intent_ids: Sequence[str]) -> None:
    files = list_tracked_files(gate.workspace)
    intents = {intent.id: intent for intent in gate.intents.document.intents}
    for intent in select_planned(intents, intent_ids).values():
        if intent.companions:
            added = [line for line in list_companion_patterns(intent, files) if line not in intent.owned_scope]
            changes = {"owned_scope": (*intent.owned_scope, *added), "companions": False}
            gate.intents.edit(intent.id, changes, by=PERSON)


@plan.command()
@click.argument("ids", nargs=-1, metavar="[ID]...", type=INTENT)
@database_option
@output.json_option
@output.repo_option
@output.reports_failures
def land(ids: tuple[str, ...], database: str | None, as_json: bool, repo: Path) -> None:
    """Land handed-in tasks now, in this process; ID is an intent, or a plan.

    Includes tasks that wait for you to land them: tasks of a plan started with `--no-land`, or with a checked-out
    target. A work tree with the target checked out is updated too, and keeps its uncommitted changes. Exit 1 if a task
    did not land.
    """
    require_person(Act.LAND)
    engine = open_engine(database)
    from remit_fleet.board import OrderKind, TaskState
    from remit_fleet.states import awaits_person_to_land
    from remit_fleet.workers.landing_by_hand import PersonalLander
    from remit_fleet.workers.landing_rounds import land_handed_in

    gate, repository = open_repository(repo)
    chosen = select_tasks(engine.read_board(), repository, ids)
    with open_trees(gate, repository, "landing") as trees:
        board = engine.read_board()
        ready: list[Task] = []
        for key in (task.key for task in chosen):
            task = board.tasks[key]
            if awaits_person_to_land(task):
                give_order(engine, repository, OrderKind.RESUME, task.intent, getpass.getuser())
            elif task.state not in (TaskState.HANDED_IN, TaskState.LANDING):
                continue
            ready.append(task)
        for target in dict.fromkeys(board.plans[task.plan].target for task in ready):
            land_handed_in(engine, gate, trees, repository, target, lambda _: True, PersonalLander)
    after = engine.read_board()
    ended = [after.tasks[task.key] for task in ready]
    lines = list(describe_landed(after, ended)) or ["nothing is handed in: see `remit plan status`"]
    output.emit(
        {"tasks": ended}, as_json, lines, output.FINDINGS if any(task.state != "landed" for task in ended) else 0
    )


def select_tasks(board: "Board", repository: str, names: tuple[str, ...]) -> "list[Task]":
    """Return the tasks of these intents and plans, or every task of the repository without a name. Raises Failure for
    an unknown name.
    """
    known = [task for task in board.tasks.values() if task.repository == repository]
    for name in names:
        if not any(name in (task.intent, task.plan) for task in known):
            raise output.Failure("UNKNOWN_TASK", f"no plan has {name!r}", target=name, fix="see `remit plan status`")
    return [task for task in known if not names or task.intent in names or task.plan in names]


def describe_landed(board: "Board", tasks: "list[Task]") -> Iterator[str]:
    for task in tasks:
        target = board.plans[task.plan].target
        how = f"landed on {target} in {task.landed[:12]}" if task.landed else f"{task.state}: {task.why}"
        yield f"{task.intent}  {sanitise_line(how, 1000)}"


@plan.command()
@click.argument("id", type=INTENT)
@click.option("--with-dependants", is_flag=True, help="Take back first what has landed since and needs it.")
@click.option("--target", metavar="BRANCH", help="Where it has landed; else the target of its plan.")
@click.option("--dry-run", is_flag=True, help="Only say what would be taken back.")
@click.option("--yes", is_flag=True, help="Do it without asking.")
@database_option
@output.json_option
@output.repo_option
@output.reports_failures
def undo(
    id: str,
    with_dependants: bool,
    target: str | None,
    dry_run: bool,
    yes: bool,
    database: str | None,
    as_json: bool,
    repo: Path,
) -> None:
    """Undo the landed changes of the intent ID on the target, by a new commit.

    Refused with exit 1 while a dependant of ID is landed, if the lines were changed since, or if a criterion of the
    remaining intents fails afterwards.
    """
    require_person(Act.UNDO_LANDING)
    engine = open_engine(database)
    from remit.workspace.merging import RefCheckedOut
    from remit_fleet.workers.landing_by_hand import preview_undo, undo_landing

    gate, repository = open_repository(repo)
    board = engine.read_board()
    task = board.tasks.get((repository, id))
    target = target or (board.plans[task.plan].target if task else gate.rules.config.orchestrator.target)
    with open_trees(gate, repository, "landing") as trees:
        preview = preview_undo(gate, trees, target, id, with_dependants=with_dependants)
        lines = list(describe_preview(preview, id, target))
        if preview.undone.fault is not None or dry_run:
            output.emit(preview, as_json, lines, output.FINDINGS if preview.undone.fault else 0)
            return
        if not as_json:
            output.say("\n".join(lines))
        require_confirmation(yes, f"this goes out of {target}", "say --yes")
        try:
            done = undo_landing(gate, trees, target, id, with_dependants=with_dependants)
        except RefCheckedOut as error:
            raise output.Failure("TARGET_CHECKED_OUT", str(error), fix=error.hint) from error
        for name in done.undone:
            note_undone(engine, repository, name)
    moved = ["somebody else moved the target meanwhile, and nothing was taken back: try again"] * done.target_moved
    why = [f"{id} stays: {done.fault.why}"] if done.fault else moved
    lines = why or [f"{', '.join(done.undone)} went out of {target} in {done.new[:12]}"]
    output.emit(done, as_json, lines, output.FINDINGS if why else 0)


def note_undone(engine: "DbosEngine", repository: str, intent: str) -> None:
    from remit_fleet.board import OrderKind

    with suppress(UnknownTask):  # it may have landed in a plan that this fleet does not know
        give_order(engine, repository, OrderKind.UNDO, intent, getpass.getuser())


def describe_preview(preview: "UndoPreview", intent: str, target: str) -> Iterator[str]:
    done = preview.undone
    if done.fault is not None:
        yield f"{intent} stays: {sanitise_line(done.fault.why, 1000)}"
        if done.dependants:
            yield f"    take them back too: remit plan undo {intent} --with-dependants"
        return
    needing = f", and before it {', '.join(done.dependants)}, which need it" if done.dependants else ""
    yield f"{intent} goes out of {target}{needing}: changes {count_things(len(preview.changes), 'file')}"
    for change in preview.changes[:MAX_SHOWN_FILES]:
        how = "removed" if change.is_removed else "comes back" if not change.old_mode.strip("0") else "changed"
        yield f"    {how:10}  {sanitise_line(change.path, 300)}"
    if len(preview.changes) > MAX_SHOWN_FILES:
        yield f"    and {len(preview.changes) - MAX_SHOWN_FILES} more"


for command in (suggest, start, status, log, pause, resume, stop):
    plan.add_command(command)
