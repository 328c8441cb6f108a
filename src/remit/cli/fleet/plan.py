"""`remit plan`: several agents at once, each on an intent of its own."""

import getpass
import os
import secrets
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from remit.cli.completion import complete_intents
from remit.cli.fleet.opening import database_option, find_repository_root, name_repository, open_engine, pace_option
from remit.cli.fleet.worker import agent_command_option
from remit.cli.output import Failure, emit, governed_gate, json_option, repo_option, reports_failures
from remit.cli.person_only import require_confirmation, require_person
from remit.core.intent import PRIORITIES, Intent
from remit.core.machine_paths import STATE_FOLDER

if TYPE_CHECKING:
    from remit.gate.gate import Gate
    from remit.orchestrator.board import Board, OrderKind, Task
    from remit.orchestrator.engines.dbos import DbosEngine

LOG_PATH = f"{STATE_FOLDER}/worker.log"
WATCH_INTERVAL_S = 1.0
MAX_LOG_BYTES = 4 << 20
ids_argument = click.argument("ids", nargs=-1, shell_complete=complete_intents)


@click.group()
def plan() -> None:
    """Let several agents work at once, each on an intent of its own, provably apart."""


@plan.command()
@ids_argument
@click.option("--workers", "slots", type=click.IntRange(1, 256), default=4, show_default=True, help="Agents at a time.")
@click.option("--target", metavar="BRANCH", default="remit/next", show_default=True, help="Where work lands.")
@click.option("--agent", "agents", multiple=True, metavar="NAME", help="Only these agents, the first one first.")
@click.option("--model", default="", help="The model of these agents.")
@click.option("--dry-run", is_flag=True, help="Only say what would run.")
@click.option("--yes", is_flag=True, help="Start without asking.")
@agent_command_option
@database_option
@pace_option
@repo_option
@reports_failures
def start(
    ids: tuple[str, ...],
    slots: int,
    target: str,
    agents: tuple[str, ...],
    model: str,
    dry_run: bool,
    yes: bool,
    agent_commands: tuple[str, ...],
    database: str | None,
    pace: float,
    repo: Path,
) -> None:
    """Start agents on the intents IDS; without any, on all that are DRAFT."""
    require_person("starting agents")
    engine = open_engine("remit plan start", database, pace)
    from remit.orchestrator.board import FleetRepository, OpenPlan, Role

    gate = governed_gate(repo)
    root = find_repository_root(gate.workspace)
    chosen = select_intents(gate, ids)
    repository = name_repository(root)
    plan_id = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
    made = OpenPlan(plan_id, repository, target, by=getpass.getuser())
    role = f"builder of {made.id}" if agents or model else "builder"
    todo = make_tasks(made.id, repository, role, chosen, gate.intents.document.intents)
    for task in todo:
        needs = f", after {', '.join(task.needs)}" if task.needs else ""
        click.echo(f"{task.intent}: {', '.join(task.scope)}{needs}")
    click.echo(f"{len(todo)} intents, {slots} agents at a time, landing on {target}")
    if dry_run:
        return
    require_confirmation(yes, f"agents will work on {len(todo)} intents", "say --yes")
    engine.add_repository(FleetRepository(repository, url=str(root), target=target))
    engine.open_plan(made, todo, {role: Role(role, agents, model)} if role != "builder" else {})
    if database is None and not engine.read_board().workers:
        start_worker(slots, agent_commands, pace)
    click.echo(f"plan {made.id} is open: see `remit plan status --watch`")


def select_intents(gate: "Gate", ids: tuple[str, ...]) -> list[Intent]:
    """Return the intents to work on. Raises Failure for one that is over, or for none."""
    if not ids:
        chosen = [intent for intent in gate.intents.document.intents if intent.status == "DRAFT"]
    else:
        chosen = [gate.intents.get(id) for id in dict.fromkeys(ids)]
    over = next((intent for intent in chosen if intent.status in ("DONE", "ABORTED")), None)
    if over is not None:
        raise Failure("INTENT_OVER", f"{over.id} is {over.status}", target=over.id, fix="leave it out of the plan")
    if not chosen:
        raise Failure("NOTHING_TO_DO", "no intent is DRAFT", fix="make one with `remit intent new`, or name some")
    return chosen


def make_tasks(
    plan_id: str, repository: str, role: str, chosen: list[Intent], everything: tuple[Intent, ...]
) -> "list[Task]":
    from remit.core.assignment import hash_scope
    from remit.orchestrator.board import Task

    done = {intent.id for intent in everything if intent.status == "DONE"}
    made: list[Task] = []
    for intent in chosen:
        children = (other.id for other in chosen if other.parent_intent == intent.id)
        needs = tuple(dict.fromkeys((*(need for need in intent.dependencies if need not in done), *children)))
        made.append(
            Task(
                plan=plan_id,
                intent=intent.id,
                repository=repository,
                rank=PRIORITIES.index(intent.priority),
                role=role,
                needs=needs,
                scope=intent.owned_scope,
                scope_sha256=hash_scope(intent.owned_scope),
            )
        )
    return made


def start_worker(slots: int, agent_commands: tuple[str, ...], pace: float) -> None:
    """Start a worker in the background that ends when there is nothing left to do."""
    log = Path.home() / LOG_PATH
    log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    words = [sys.executable, "-c", "from remit.cli import main; main()", "worker", "--until-idle", f"--slots={slots}"]
    words += [f"--pace={pace}", *(f"--agent-command={text}" for text in agent_commands)]
    is_long = log.exists() and log.stat().st_size > MAX_LOG_BYTES
    with log.open("wb" if is_long else "ab") as output:
        started = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, env=os.environ
        )
    click.echo(f"worker {started.pid} runs in the background; its log is {log}")


@plan.command()
@click.option("--watch", is_flag=True, help="Show it anew every second, until all is over.")
@database_option
@json_option
@repo_option
@reports_failures
def status(watch: bool, database: str | None, as_json: bool, repo: Path) -> None:
    """Show the tasks of this repository's plans, and what each waits for."""
    engine = open_engine("remit plan status", database)
    repository = name_repository(find_repository_root(governed_gate(repo).workspace))
    while True:
        board = engine.read_board()
        tasks = [task for task in board.tasks.values() if task.repository == repository]
        if watch and sys.stdout.isatty():
            click.clear()
        emit({"tasks": tasks, "workers": list(board.workers.values())}, as_json, list_status(board, tasks))
        if not watch or all(is_over(task) for task in tasks):
            return
        time.sleep(WATCH_INTERVAL_S)


def is_over(task: "Task") -> bool:
    from remit.orchestrator.states import FINAL_STATES

    return task.state in FINAL_STATES or task.state == "asking"


def list_status(board: "Board", tasks: "list[Task]") -> list[str]:
    """Return a line for each task, and one about the workers."""
    if not tasks:
        return ["no plan was started in this repository: `remit plan start`"]
    from remit.orchestrator.schedule import explain_waits

    waits = explain_waits(board)
    lines: list[str] = []
    for task in tasks:
        attempt = board.attempts.get(task.key)
        by = f"attempt {attempt.attempt} by {attempt.agent}" if attempt else f"{task.attempts} attempts"
        reason = f"waits for {waits[task.key]}" if task.key in waits else task.why
        lines.append("  ".join(part for part in (task.intent, f"{task.state:9}", by, reason) if part))
    slots = sum(worker.slots for worker in board.workers.values())
    if not board.workers and not all(is_over(task) for task in tasks):
        lines.append("no worker is alive: start one with `remit worker`")
    elif board.workers:
        lines.append(f"{len(board.workers)} workers, {len(board.attempts)} of {slots} slots in use")
    return lines


@plan.command()
@click.option("--after", type=int, default=0, metavar="SEQ", help="Only events after this number.")
@click.option("--follow", is_flag=True, help="Go on as events come.")
@database_option
@json_option
@repo_option
@reports_failures
def log(after: int, follow: bool, database: str | None, as_json: bool, repo: Path) -> None:
    """Show what happened in this repository's plans."""
    engine = open_engine("remit plan log", database)
    repository = name_repository(find_repository_root(governed_gate(repo).workspace))
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


def give_orders(kind: "OrderKind", ids: tuple[str, ...], database: str | None, repo: Path) -> None:
    from remit.orchestrator.board import Order

    require_person(f"{kind} of a plan")
    engine = open_engine(f"remit plan {kind}", database)
    repository = name_repository(find_repository_root(governed_gate(repo).workspace))
    for id in ids or ("",):
        require_task(engine, repository, id)
        engine.give_order(Order(0, repository, kind, intent=id, by=getpass.getuser()))


def require_task(engine: "DbosEngine", repository: str, id: str) -> None:
    known = [intent for owner, intent in engine.read_board().tasks if owner == repository]
    if (id and id not in known) or not known:
        raise Failure("UNKNOWN_TASK", f"no plan has {id or 'a task here'}", target=id, fix="see `remit plan status`")


@plan.command()
@ids_argument
@database_option
@repo_option
@reports_failures
def pause(ids: tuple[str, ...], database: str | None, repo: Path) -> None:
    """Let agents wait at their next call."""
    from remit.orchestrator.board import OrderKind

    give_orders(OrderKind.PAUSE, ids, database, repo)


@plan.command()
@ids_argument
@database_option
@repo_option
@reports_failures
def resume(ids: tuple[str, ...], database: str | None, repo: Path) -> None:
    """Let paused agents go on."""
    from remit.orchestrator.board import OrderKind

    give_orders(OrderKind.RESUME, ids, database, repo)


@plan.command()
@ids_argument
@database_option
@repo_option
@reports_failures
def stop(ids: tuple[str, ...], database: str | None, repo: Path) -> None:
    """End agents, and drop what they work on."""
    from remit.orchestrator.board import OrderKind

    give_orders(OrderKind.STOP, ids, database, repo)
