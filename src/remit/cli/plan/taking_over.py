"""`remit task take`, `give-back`, `steer` and `reassign`: a person has a say while an agent works."""

import getpass
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from remit.cli.completion import complete_intents
from remit.cli.output import Failure, repo_option, reports_failures, warn
from remit.cli.person_only import require_person
from remit.cli.plan.opening import database_option, open_engine, open_repository, open_trees, require_task
from remit.core.untrusted_input import sanitise_line
from remit.orchestrator.fleet import give_order

if TYPE_CHECKING:
    from remit.orchestrator.board import Task
    from remit.orchestrator.engines.dbos import DbosEngine

LET_GO_S = 120.0
LOOK_INTERVAL_S = 0.2
MAX_MESSAGE_CHARS = 2000
id_argument = click.argument("id", shell_complete=complete_intents)


@click.command()
@id_argument
@database_option
@repo_option
@reports_failures
def take(id: str, database: str | None, repo: Path) -> None:
    """Take a task over: its agent is ended, and its worktree is yours until you give the task back.

    The task keeps its paths meanwhile: no other task may write them.
    """
    require_person("taking over a task")
    engine = open_engine("remit task take", database)
    from remit.orchestrator.board import OrderKind, TaskState
    from remit.orchestrator.states import needs_hold
    from remit.orchestrator.workers.handing_over import hand_over

    gate, repository = open_repository(repo)
    task = require_task(engine, repository, id)
    if not task.attempts or not needs_hold(task) or task.state is TaskState.LANDING:
        fix = "only what an agent works on, or has handed in, is taken over; see `remit plan status`"
        raise Failure("NOT_TAKEN", f"{id} is {task.state}, and holds no worktree to take", target=id, fix=fix)
    give_order(engine, repository, OrderKind.TAKE, id, getpass.getuser())
    wait_until_let_go(engine, task)
    last = engine.list_attempts(task.key)[-1]
    with open_trees(gate, repository, "trees") as trees:
        place = hand_over(trees, last)
    click.echo(f"{id} is yours, as attempt {last.attempt} of {last.agent} left it:")
    click.echo(f"    cd {place}")
    click.echo(f"`remit task give-back {id}` gives it to the next agent; with --done it lands as you left it")


def wait_until_let_go(engine: "DbosEngine", task: "Task") -> None:
    """Wait until no worker has the task's worktree any more. Raises Failure."""
    from remit.orchestrator.board import AttemptEnd

    until = time.monotonic() + LET_GO_S
    while (board := engine.read_board()).attempts.get(task.key) is not None:
        attempt = board.attempts[task.key]
        if attempt.worker not in board.workers:  # nobody else is there to say so
            engine.end_attempt(attempt.token, task.key, AttemptEnd.LOST, "", f"its worker {attempt.worker} is gone")
        if time.monotonic() > until:
            message = f"the worker {attempt.worker} has not let go of {task.intent} yet; its agent is stopped"
            raise Failure("NOT_LET_GO", message, target=task.intent, fix=f"again: remit task take {task.intent}")
        time.sleep(LOOK_INTERVAL_S)


@click.command("give-back")
@id_argument
@click.option("--done", is_flag=True, help="It is finished: hand in what you left, without another agent.")
@database_option
@repo_option
@reports_failures
def give_back(id: str, done: bool, database: str | None, repo: Path) -> None:
    """Give a task back that you took: the next agent begins with the files as you left them."""
    require_person("giving back a task")
    engine = open_engine("remit task give-back", database)
    from remit.orchestrator.board import OrderKind
    from remit.orchestrator.states import DONE_BODY, is_with_person, name_next_step, needs_hold
    from remit.orchestrator.workers.handing_over import hand_in_by_person, send_to_hosts, take_back
    from remit.workspace.git.command import GitError
    from remit.workspace.merging import RefMoved, RemoteRefused
    from remit.workspace.sharing.shared_refs import RemoteAway

    gate, repository = open_repository(repo)
    task = require_task(engine, repository, id)
    live = engine.read_board().attempts.get(task.key)
    if not is_with_person(task) or live is not None or not needs_hold(task):
        message = f"{id} is {task.state}, and nobody has taken it over"
        fix = name_next_step(task) or f"first: remit task take {id}"
        raise Failure("NOT_TAKEN", message, target=id, fix=fix)
    last = engine.list_attempts(task.key)[-1]
    with open_trees(gate, repository, "trees") as trees:
        if done:
            outside = hand_in_by_person(trees, gate, task, last)
            if outside:
                named = ", ".join(sanitise_line(path, 200) for path in outside[:5])
                fix = f"widen its scope: remit intent edit {id} --add-scope …; or take these changes back"
                raise Failure("SCOPE_VIOLATION", f"outside of what {id} may change: {named}", target=id, fix=fix)
        left = take_back(trees, task, last)
        try:
            send_to_hosts(gate, last, is_done=done)
        except (RemoteAway, RemoteRefused, RefMoved, GitError) as error:
            warn(f"other hosts do not have what you left: {error}")
    for path, why in left.items():
        click.echo(f"stays in the worktree: {sanitise_line(path, 300)}, {why}")
    give_order(engine, repository, OrderKind.GIVE_BACK, id, getpass.getuser(), DONE_BODY if done else "")
    after = f"given back: attempt {last.attempt + 1} begins with your files"
    click.echo(f"{id} is {'handed in' if done else after}")


@click.command()
@id_argument
@click.argument("message")
@database_option
@repo_option
@reports_failures
def steer(id: str, message: str, database: str | None, repo: Path) -> None:
    """Send MESSAGE to a task's agent, for delivery with the answer to its next call."""
    require_person("steering an agent")
    engine = open_engine("remit task steer", database)
    from remit.orchestrator.board import OrderKind
    from remit.orchestrator.states import FINAL_STATES

    _, repository = open_repository(repo)
    task = require_task(engine, repository, id)
    if not message.strip() or len(message) > MAX_MESSAGE_CHARS:
        raise Failure("MESSAGE", f"a message has 1 to {MAX_MESSAGE_CHARS} characters, this one {len(message)}")
    if task.state in FINAL_STATES:
        fix = "see `remit plan status`"
        raise Failure("TASK_OVER", f"{id} is {task.state}: no agent works on it any more", target=id, fix=fix)
    give_order(engine, repository, OrderKind.STEER, id, getpass.getuser(), message)
    attempt = engine.read_board().attempts.get(task.key)
    hears = (
        f"attempt {attempt.attempt} by {attempt.agent} gets it at its next call" if attempt else "the next one gets it"
    )
    click.echo(f"{hears}; `remit plan log` tells when it was heard")


@click.command()
@id_argument
@click.option("--agent", "agents", multiple=True, metavar="NAME", help="Only these agents, the first one first.")
@click.option("--worker", metavar="ID", help="Only this worker or host; see `remit worker list`.")
@database_option
@repo_option
@reports_failures
def reassign(id: str, agents: tuple[str, ...], worker: str | None, database: str | None, repo: Path) -> None:
    """Give a task to a different agent or worker, which begins with the present agent's work."""
    require_person("reassigning a task")
    engine = open_engine("remit task reassign", database)
    from remit.orchestrator.board import OrderKind

    _, repository = open_repository(repo)
    task = require_task(engine, repository, id)
    board = engine.read_board()
    offered = {agent for one in board.workers.values() for agent in one.agents}
    places = {place for one in board.workers.values() for place in (one.id, one.host)}
    unknown = [name for name in agents if name not in offered]
    unknown += [worker] if worker and worker not in places else []
    if unknown:
        known = ", ".join(sorted(places if worker in unknown and len(unknown) == 1 else offered)) or "none is alive"
        fix = "see `remit worker list`"
        raise Failure("UNKNOWN_WORKER", f"no worker offers {unknown[0]!r}; known: {known}", target=unknown[0], fix=fix)
    if not agents and not worker:
        raise Failure("NOTHING_CHOSEN", "say to whom: --agent NAME, or --worker ID", target=id)
    names = agents or task.agents or board.find_role(task).agents or tuple(sorted(offered))
    chosen = [f"{name.partition('@')[0]}@{worker}" if worker else name for name in names]
    give_order(engine, repository, OrderKind.REASSIGN, id, getpass.getuser(), " ".join(chosen))
    after = require_task(engine, repository, id)
    if after.agents != tuple(chosen):
        fix = "only open or stuck tasks are reassigned; see `remit plan status`"
        raise Failure("NOT_REASSIGNED", f"{id} is {after.state}", target=id, fix=fix)
    click.echo(f"{id} is for {', '.join(chosen)}")
