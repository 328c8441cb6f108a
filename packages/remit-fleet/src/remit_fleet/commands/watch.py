"""`remit plan status`, `log`, `pause`, `resume` and `stop`: the plans' progress, and orders to their tasks."""

import getpass
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from remit.cli.completion import INTENT
from remit.cli.output import Failure, emit, governed_gate, json_option, repo_option, reports_failures, say
from remit.cli.person_only import require_confirmation, require_person
from remit.core.acts import Act
from remit.core.plurals import count_things
from remit.core.untrusted_input import sanitise_line
from remit_fleet.commands.opening import database_option, open_engine
from remit_fleet.fleet import UnknownTask, give_order, name_repository_of

if TYPE_CHECKING:
    from remit_fleet.board import Board, OrderKind, Task

WATCH_INTERVAL_S = 1.0
MAX_WHY_CHARS = 300
ids_argument = click.argument("ids", nargs=-1, type=INTENT)


@click.command()
@click.option("--watch", is_flag=True, help="Show it anew every second, until all is over.")
@database_option
@json_option
@repo_option
@reports_failures
def status(watch: bool, database: str | None, as_json: bool, repo: Path) -> None:
    """Show the tasks of this repository's plans, and the reason of each wait."""
    engine = open_engine(database)
    from msgspec.structs import asdict

    from remit.workspace.merging import TreeStore
    from remit_fleet.board import PlanUse
    from remit_fleet.database.past import sum_use
    from remit_fleet.forecast import describe_use
    from remit_fleet.plan_records import LOST_BOARD, has_plans

    gate = governed_gate(repo)
    repository = name_repository_of(gate.workspace)
    while True:
        board = engine.read_board()
        tasks = [task for task in board.tasks.values() if task.repository == repository]
        if watch and sys.stdout.isatty():
            click.clear()
        use = sum_use(engine.store, repository)
        plans = [plan for plan in board.plans.values() if any(task.plan == plan.id for task in tasks)]
        rows = [{**asdict(plan), "used": use.get(plan.id, PlanUse())} for plan in plans]
        used = [f"plan {plan.id}: {describe_use(board, plan, use.get(plan.id, PlanUse()))}" for plan in plans]
        answer = {"tasks": tasks, "workers": list(board.workers.values()), "plans": rows}
        lines = [LOST_BOARD] if not tasks and has_plans(TreeStore(gate.workspace)) else list_status(board, tasks)
        emit(answer, as_json, [*lines, *used])
        if not watch or all(is_task_over(task) for task in tasks):
            return
        time.sleep(WATCH_INTERVAL_S)


def is_task_over(task: "Task") -> bool:
    from remit_fleet.states import FINAL_STATES

    return task.state in FINAL_STATES or task.state == "asking"


def list_status(board: "Board", tasks: "list[Task]") -> list[str]:
    if not tasks:
        return ["no plan was started in this repository: `remit plan start`"]
    from remit_fleet.schedule import explain_waits

    waits = explain_waits(board)
    lines: list[str] = []
    for task in tasks:
        attempt = board.attempts.get(task.key)
        by = f"attempt {attempt.attempt} by {attempt.agent}" if attempt else count_things(task.attempts, "attempt")
        reason = f"waits for {waits[task.key]}" if task.key in waits else task.why
        lines.append("  ".join(part for part in (task.intent, f"{task.state:9}", by, reason) if part))
    slots = sum(worker.slots for worker in board.workers.values())
    if not board.workers and not all(is_task_over(task) for task in tasks):
        lines.append("no worker is alive: start one with `remit worker`")
    elif board.workers:
        used = f"{len(board.attempts)} of {count_things(slots, 'slot')} in use"
        lines.append(f"{count_things(len(board.workers), 'worker')}, {used}")
    return lines


@click.command()
@click.option("--after", type=int, default=0, metavar="SEQ", help="Only events after this number.")
@click.option("--follow", is_flag=True, help="Go on as events come.")
@database_option
@json_option
@repo_option
@reports_failures
def log(after: int, follow: bool, database: str | None, as_json: bool, repo: Path) -> None:
    """Show the events of this repository's plans."""
    require_person(Act.READ_PLANS)
    engine = open_engine(database)
    repository = name_repository_of(governed_gate(repo).workspace)
    while True:
        found = engine.read_events(after)
        for event in found:
            after = event.seq
            if event.repository not in ("", repository):
                continue
            words = " ".join(f"{key}={value}" for key, value in event.body.items() if value)
            who = f"{event.intent}/{event.attempt}" if event.attempt else event.intent
            emit(
                event,
                as_json,
                f"{event.seq} {time.strftime('%H:%M:%S', time.localtime(event.at))} {event.kind} {who} {words}",
            )
        if not found:
            if not follow:
                return
            time.sleep(WATCH_INTERVAL_S)


def give_orders(
    kind: "OrderKind", names: tuple[str, ...], database: str | None, repo: Path, *, yes: bool = True
) -> None:
    """Give an order to the tasks of these intents and plans, or to every task of the repository without a name; ask
    first without a name, unless `yes`. Raises Failure.
    """
    require_person(Act.MOVE_PLAN)
    engine = open_engine(database)
    from remit_fleet.states import FINAL_STATES, can_drop, name_next_step

    repository = name_repository_of(governed_gate(repo).workspace)
    board = engine.read_board()
    before = board.tasks
    going = [task.intent for task in before.values() if task.repository == repository and can_drop(task)]
    if not names and not yes and going:
        require_confirmation(yes, f"this drops {', '.join(going)}", "say --yes, or name the intents to drop")
    ids = list_ordered(board, repository, names)
    for id in ids or ("",):
        try:
            give_order(engine, repository, kind, id, getpass.getuser())
        except UnknownTask as error:
            raise Failure("UNKNOWN_TASK", str(error), target=id, fix="see `remit plan status`") from None
    lines: list[str] = []
    for key, task in engine.read_board().tasks.items():
        is_changed = key not in before or before[key].state is not task.state
        if key[0] == repository and (is_changed or task.intent in ids):
            lines.append(f"{task.intent}  {task.state}  {sanitise_line(task.why, MAX_WHY_CHARS)}".rstrip())
            if kind == "resume" and not is_changed and task.state in FINAL_STATES and (step := name_next_step(task)):
                lines.append(f"    nothing to resume: `{step}` tries it again")
        elif key[0] == repository and kind == "resume" and task.state == "asking":
            lines.append(f"{task.intent}  still asks: answer it with `remit plan resume {task.intent}`")
    say("\n".join(lines) or f"nothing to {kind}: see `remit plan status`")


def list_ordered(board: "Board", repository: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the intents that these names of intents and plans stand for. Raises Failure for a plan without a task."""
    found: dict[str, None] = {}
    for name in names:
        plan = board.plans.get(name)
        if plan is None or plan.repository != repository:
            found[name] = None
            continue
        own = [task.intent for task in board.tasks.values() if task.plan == name]
        if not own:
            message = f"plan {name} has no task any more: later plans have its intents"
            raise Failure("NO_TASK_LEFT", message, target=name, fix="see `remit plan status`")
        found |= dict.fromkeys(own)
    return tuple(found)


@click.command()
@ids_argument
@database_option
@repo_option
@reports_failures
def pause(ids: tuple[str, ...], database: str | None, repo: Path) -> None:
    """Let agents wait at their next call: those of the intents and plans ID, by default of every plan."""
    from remit_fleet.board import OrderKind

    give_orders(OrderKind.PAUSE, ids, database, repo)


@click.command()
@ids_argument
@click.option("--max-usd", type=click.FloatRange(0, min_open=True), help="What the plan of ID may cost from now on.")
@click.option("--max-tokens", type=click.IntRange(min=1), help="Tokens that the plan of ID may use from now on.")
@database_option
@repo_option
@reports_failures
def resume(
    ids: tuple[str, ...], max_usd: float | None, max_tokens: int | None, database: str | None, repo: Path
) -> None:
    """Let paused agents go on: those of the intents and plans ID, by default of every plan."""
    from remit_fleet.board import OrderKind

    if max_usd is not None or max_tokens is not None:
        set_budgets(ids, max_usd, max_tokens, database, repo)
    give_orders(OrderKind.RESUME, ids, database, repo)


def set_budgets(
    names: tuple[str, ...], usd: float | None, tokens: int | None, database: str | None, repo: Path
) -> None:
    """Set what the plans of these intents may spend. Raises Failure for a plan without such a bound."""
    require_person(Act.RAISE_BUDGET)
    engine = open_engine(database)

    repository = name_repository_of(governed_gate(repo).workspace)
    board = engine.read_board()
    ids = list_ordered(board, repository, names)
    chosen = {task.plan for id in ids if (task := board.tasks.get((repository, id)))}
    for plan in (board.plans[name] for name in chosen):
        if (usd and plan.limits.usd is None) or (tokens and plan.limits.tokens is None):
            raise Failure(
                "NO_BUDGET", f"plan {plan.id} has no such bound", target=plan.id, fix="see `remit plan status`"
            )
    if not chosen:
        raise Failure("NOTHING_CHOSEN", "say which plan may spend more: name the plan, or an intent of it")
    for name in chosen:
        engine.set_plan_budget(board.plans[name], usd, tokens)


@click.command()
@ids_argument
@click.option("--yes", is_flag=True, help="Without ID: drop every open task without asking.")
@database_option
@repo_option
@reports_failures
def stop(ids: tuple[str, ...], yes: bool, database: str | None, repo: Path) -> None:
    """End agents, and drop the tasks of the intents and plans ID.

    Without ID every open task of the repository is dropped, after a question.
    """
    from remit_fleet.board import OrderKind

    give_orders(OrderKind.STOP, ids, database, repo, yes=yes)
