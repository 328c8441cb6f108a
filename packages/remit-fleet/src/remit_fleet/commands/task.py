"""`remit task`: one intent of a plan, and a person's say while an agent works."""

import getpass
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from remit.cli import output
from remit.cli.completion import INTENT
from remit.cli.person_only import require_person
from remit.core.acts import Act
from remit.core.untrusted_input import sanitise_line
from remit.workspace.sharing.shared_refs import RemoteAway
from remit_fleet.commands.opening import database_option, open_engine, open_repository, open_trees, require_task
from remit_fleet.fleet import find_repository_root, give_order, name_repository_of

if TYPE_CHECKING:
    from remit_fleet.artifacts import ArtifactFile, AttemptFacts
    from remit_fleet.board import Task
    from remit_fleet.engines.dbos import DbosEngine

LET_GO_S = 120.0
LOOK_INTERVAL_S = 0.2
MAX_MESSAGE_CHARS = 2000
id_argument = click.argument("id", type=INTENT)


@click.group()
def task() -> None:
    """Show a plan's intent, retry or drop the task, or intervene while its agent works."""


@task.command()
@id_argument
@database_option
@output.json_option
@output.repo_option
@output.reports_failures
def show(id: str, database: str | None, as_json: bool, repo: Path) -> None:
    """Show a task with its attempts."""
    engine = open_engine(database)
    repository = name_repository_of(output.governed_gate(repo).workspace)
    task = require_task(engine, repository, id)
    tried = engine.list_attempts((repository, id))
    lines = [f"{task.intent}  {task.state}  {task.why}  (plan {task.plan})"]
    for attempt in tried:
        cost = "cost unknown" if attempt.usd is None else f"${attempt.usd:.2f}"
        end = f"{attempt.ended_as}: {attempt.failure}" if attempt.failure else attempt.ended_as or attempt.state
        lines.append(f"attempt {attempt.attempt} by {attempt.agent}, token {attempt.token}, {cost}: {end}")
    output.emit({"task": task, "attempts": tried}, as_json, lines)


@task.command()
@id_argument
@click.option("--fresh", is_flag=True, help="Begin at the target, without the files of earlier attempts.")
@database_option
@output.repo_option
@output.reports_failures
def retry(id: str, fresh: bool, database: str | None, repo: Path) -> None:
    """Retry a stuck or blocked task; the next attempt begins with the last attempt's work."""
    from remit_fleet.states import FRESH_BODY

    order(id, "retry", database, repo, FRESH_BODY if fresh else "")


@task.command()
@id_argument
@database_option
@output.repo_option
@output.reports_failures
def drop(id: str, database: str | None, repo: Path) -> None:
    """End a task's agent, and remove the task from its plan."""
    order(id, "drop", database, repo)


@task.command()
@id_argument
@click.argument("name", required=False)
@click.option(
    "--attempt", type=click.IntRange(min=1), help="Only this attempt; else every one, or for NAME the newest."
)
@output.json_option
@output.repo_option
@output.reports_failures
def artifacts(id: str, name: str | None, attempt: int | None, as_json: bool, repo: Path) -> None:
    """List what the attempts at ID left beside their commits, or print the file NAME.

    That is what an agent and its criteria printed, what the checks of the landing printed, and the files that the agent
    put into $REMIT_ARTIFACTS. Secrets are masked. In a repository with `[orchestrator] remote` those of other hosts are
    fetched first. A picture is written to the standard output as it is.
    """
    require_person(Act.READ_PLANS)
    gate = output.governed_gate(find_repository_root(output.governed_gate(repo).workspace))
    from remit_fleet.artifacts import Artifacts
    from remit_fleet.remote import FleetRemote

    missing: set[str] = set()
    if remote := gate.rules.config.orchestrator.remote:
        try:
            missing = FleetRemote(gate, remote).fetch_artifacts(id)
        except RemoteAway as error:
            output.say(f"only what is on this host: {error}", err=True)
    known = Artifacts(gate)
    found = [one for one in known.list_files(id) if attempt is None or one.attempt == f"{id}/{attempt}"]
    if name is None:
        facts = [one for one in known.read_facts(id) if attempt is None or one.attempt.attempt == attempt]
        lines = [*map(describe_attempt, facts), *(describe_file(one, missing) for one in found)]
        none = f"no attempt at {sanitise_line(id)} left anything that is here"
        output.emit({"attempts": facts, "files": found}, as_json, lines or [none])
        return
    wanted = [one for one in found if one.name == name]
    if not wanted:
        raise output.Failure(
            "UNKNOWN_FILE", f"no attempt at {id} left {name!r}", target=name, fix=f"remit task artifacts {id}"
        )
    content = known.read_file(wanted[-1])
    if b"\0" in content:
        if sys.stdout.isatty():
            fix = f"remit task artifacts {id} {name} > {name}"
            raise output.Failure("PICTURE", f"{name!r} is no text for a terminal", target=name, fix=fix)
        output.write_content(content)
        return
    text = content.decode("utf-8", "replace")
    output.emit({"file": wanted[-1], "text": text}, as_json, text.rstrip("\n"))


def describe_attempt(facts: "AttemptFacts") -> str:
    one = facts.attempt
    day = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.started_at))
    end = sanitise_line(f"{one.ended_as}: {facts.why}" if facts.why else str(one.ended_as))
    place = f" on {sanitise_line(facts.host, 80)}" if facts.host else ""
    sessions = (
        f"; its transcript is there, session {sanitise_line(', '.join(one.sessions), 120)}" if one.sessions else ""
    )
    left = "".join(f"; not here: {sanitise_line(f'{name} ({why})', 200)}" for name, why in facts.left.items())
    who = f"{one.role} {sanitise_line(one.agent, 80)}"
    return f"{one.intent}/{one.attempt}  {day}  {who}{place}: {end}{sessions}{left}"


def describe_file(file: "ArtifactFile", missing: set[str]) -> str:
    where = "  (not on the remote yet)" if file.ref in missing else ""
    return f"{file.attempt}  {file.size:>8}  {sanitise_line(file.name, 200)}{where}"


def order(id: str, kind: str, database: str | None, repo: Path, body: str = "") -> None:
    require_person(Act.MOVE_PLAN)
    engine = open_engine(database)
    from remit_fleet.board import OrderKind, TaskState

    repository = name_repository_of(output.governed_gate(repo).workspace)
    require_task(engine, repository, id)
    give_order(engine, repository, OrderKind(kind), id, getpass.getuser(), body)
    after = require_task(engine, repository, id)
    if after.state not in (TaskState.WAITING, TaskState.DROPPED):
        fix = "see `remit task show`"
        raise output.Failure("NOTHING_CHANGED", f"{id} is {after.state}: {after.why}", target=id, fix=fix)
    output.say(f"{id}  {after.state}  {after.why}")


@task.command()
@id_argument
@database_option
@output.repo_option
@output.reports_failures
def take(id: str, database: str | None, repo: Path) -> None:
    """Take a task over: its agent is ended, and its worktree is yours until you give the task back.

    The task keeps its paths meanwhile: no other task may write them.
    """
    require_person(Act.TAKE_TASK)
    engine = open_engine(database)
    from remit_fleet.board import OrderKind, TaskState
    from remit_fleet.states import needs_hold
    from remit_fleet.workers.handing_over import hand_over

    gate, repository = open_repository(repo)
    task = require_task(engine, repository, id)
    if not task.attempts or not needs_hold(task) or task.state is TaskState.LANDING:
        fix = "only what an agent works on, or has handed in, is taken over; see `remit plan status`"
        raise output.Failure("NOT_TAKEN", f"{id} is {task.state}, and holds no worktree to take", target=id, fix=fix)
    give_order(engine, repository, OrderKind.TAKE, id, getpass.getuser())
    wait_until_let_go(engine, task)
    last = engine.list_attempts(task.key)[-1]
    with open_trees(gate, repository, "trees") as trees:
        place = hand_over(trees, last)
    output.say(f"{id} is yours, as attempt {last.attempt} of {last.agent} left it:")
    output.say(f"    cd {place}")
    output.say(f"`remit task give-back {id}` gives it to the next agent; with --done it lands as you left it")


def wait_until_let_go(engine: "DbosEngine", task: "Task") -> None:
    """Wait until no worker has the task's worktree any more. Raises Failure."""
    from remit_fleet.board import AttemptEnd

    until = time.monotonic() + LET_GO_S
    while (board := engine.read_board()).attempts.get(task.key) is not None:
        attempt = board.attempts[task.key]
        if attempt.worker not in board.workers:  # nobody else is there to say so
            engine.end_attempt(attempt.token, task.key, AttemptEnd.LOST, "", f"its worker {attempt.worker} is gone")
        if time.monotonic() > until:
            message = f"the worker {attempt.worker} has not let go of {task.intent} yet; its agent is stopped"
            raise output.Failure("NOT_LET_GO", message, target=task.intent, fix=f"again: remit task take {task.intent}")
        time.sleep(LOOK_INTERVAL_S)


@task.command("give-back")
@id_argument
@click.option("--done", is_flag=True, help="It is finished: hand in what you left, without another agent.")
@database_option
@output.repo_option
@output.reports_failures
def give_back(id: str, done: bool, database: str | None, repo: Path) -> None:
    """Give a task back that you took: the next agent begins with the files as you left them."""
    require_person(Act.TAKE_TASK)
    engine = open_engine(database)
    from remit.workspace.git.command import GitError
    from remit.workspace.merging import RefMoved, RemoteRefused
    from remit.workspace.sharing.shared_refs import RemoteAway
    from remit_fleet.board import OrderKind
    from remit_fleet.states import DONE_BODY, is_with_person, name_next_step, needs_hold
    from remit_fleet.workers.handing_over import hand_in_by_person, send_to_hosts, take_back

    gate, repository = open_repository(repo)
    task = require_task(engine, repository, id)
    live = engine.read_board().attempts.get(task.key)
    if not is_with_person(task) or live is not None or not needs_hold(task):
        message = f"{id} is {task.state}, and nobody has taken it over"
        fix = name_next_step(task) or f"first: remit task take {id}"
        raise output.Failure("NOT_TAKEN", message, target=id, fix=fix)
    last = engine.list_attempts(task.key)[-1]
    with open_trees(gate, repository, "trees") as trees:
        if done:
            outside = hand_in_by_person(trees, gate, task, last)
            if outside:
                named = ", ".join(sanitise_line(path, 200) for path in outside[:5])
                fix = f"widen its scope: remit intent edit {id} --add-scope …; or take these changes back"
                raise output.Failure("SCOPE_VIOLATION", f"outside of what {id} may change: {named}", target=id, fix=fix)
        left = take_back(trees, task, last)
        try:
            send_to_hosts(gate, last, is_done=done)
        except (RemoteAway, RemoteRefused, RefMoved, GitError) as error:
            output.warn(f"other hosts do not have what you left: {error}")
    for path, why in left.items():
        output.say(f"stays in the worktree: {sanitise_line(path, 300)}, {why}")
    give_order(engine, repository, OrderKind.GIVE_BACK, id, getpass.getuser(), DONE_BODY if done else "")
    after = f"given back: attempt {last.attempt + 1} begins with your files"
    output.say(f"{id} is {'handed in' if done else after}")


@task.command()
@id_argument
@click.argument("message")
@database_option
@output.repo_option
@output.reports_failures
def steer(id: str, message: str, database: str | None, repo: Path) -> None:
    """Send MESSAGE to a task's agent, for delivery with the answer to its next call."""
    require_person(Act.STEER)
    engine = open_engine(database)
    from remit_fleet.board import OrderKind
    from remit_fleet.states import FINAL_STATES

    _, repository = open_repository(repo)
    task = require_task(engine, repository, id)
    if not message.strip() or len(message) > MAX_MESSAGE_CHARS:
        raise output.Failure("MESSAGE", f"a message has 1 to {MAX_MESSAGE_CHARS} characters, this one {len(message)}")
    if task.state in FINAL_STATES:
        fix = "see `remit plan status`"
        raise output.Failure("TASK_OVER", f"{id} is {task.state}: no agent works on it any more", target=id, fix=fix)
    give_order(engine, repository, OrderKind.STEER, id, getpass.getuser(), message)
    attempt = engine.read_board().attempts.get(task.key)
    hears = (
        f"attempt {attempt.attempt} by {attempt.agent} gets it at its next call" if attempt else "the next one gets it"
    )
    output.say(f"{hears}; `remit plan log` tells when it was heard")


@task.command()
@id_argument
@click.option("--agent", "agents", multiple=True, metavar="NAME", help="Only these agents, the first one first.")
@click.option("--worker", metavar="ID", help="Only this worker or host; see `remit worker list`.")
@database_option
@output.repo_option
@output.reports_failures
def reassign(id: str, agents: tuple[str, ...], worker: str | None, database: str | None, repo: Path) -> None:
    """Give a task to a different agent or worker, which begins with the present agent's work."""
    require_person(Act.MOVE_PLAN)
    engine = open_engine(database)
    from remit_fleet.board import OrderKind

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
        raise output.Failure(
            "UNKNOWN_WORKER", f"no worker offers {unknown[0]!r}; known: {known}", target=unknown[0], fix=fix
        )
    if not agents and not worker:
        raise output.Failure("NOTHING_CHOSEN", "say to whom: --agent NAME, or --worker ID", target=id)
    names = agents or task.agents or board.find_role(task).agents or tuple(sorted(offered))
    chosen = [f"{name.partition('@')[0]}@{worker}" if worker else name for name in names]
    give_order(engine, repository, OrderKind.REASSIGN, id, getpass.getuser(), " ".join(chosen))
    after = require_task(engine, repository, id)
    if after.agents != tuple(chosen):
        fix = "only open or stuck tasks are reassigned; see `remit plan status`"
        raise output.Failure("NOT_REASSIGNED", f"{id} is {after.state}", target=id, fix=fix)
    output.say(f"{id} is for {', '.join(chosen)}")
