"""`remit task`: one intent of a plan."""

import getpass
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from remit.cli.completion import complete_intents
from remit.cli.output import Failure, emit, governed_gate, json_option, repo_option, reports_failures
from remit.cli.person_only import is_below_agent, refuse_agent, require_person
from remit.cli.plan.opening import database_option, open_engine, require_task
from remit.cli.plan.taking_over import give_back, reassign, steer, take
from remit.core.untrusted_input import sanitise_line
from remit.orchestrator.fleet import find_repository_root, give_order, name_repository_of
from remit.workspace.sharing.shared_refs import RemoteAway

if TYPE_CHECKING:
    from remit.orchestrator.artifacts import ArtifactFile, AttemptFacts

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
    repository = name_repository_of(governed_gate(repo).workspace)
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


@task.command()
@id_argument
@click.argument("name", required=False)
@click.option(
    "--attempt", type=click.IntRange(min=1), help="Only this attempt; else every one, or for NAME the newest."
)
@json_option
@repo_option
@reports_failures
def artifacts(id: str, name: str | None, attempt: int | None, as_json: bool, repo: Path) -> None:
    """List what the attempts at ID left beside their commits, or print the file NAME.

    That is what an agent and its criteria printed, what the checks of the landing printed, and the files that the agent
    put into $REMIT_ARTIFACTS. Secrets are masked. In a repository with `[orchestrator] remote` those of other hosts are
    fetched first. A picture is written to the standard output as it is.
    """
    if is_below_agent():
        raise refuse_agent("reading artefacts")
    gate = governed_gate(find_repository_root(governed_gate(repo).workspace))
    from remit.orchestrator.artifacts import Artifacts
    from remit.orchestrator.remote import FleetRemote

    missing: set[str] = set()
    if remote := gate.rules.config.orchestrator.remote:
        try:
            missing = FleetRemote(gate, remote).fetch_artifacts(id)
        except RemoteAway as error:
            click.echo(f"only what is on this host: {error}", err=True)
    known = Artifacts(gate)
    found = [one for one in known.list_files(id) if attempt is None or one.attempt == f"{id}/{attempt}"]
    if name is None:
        facts = [one for one in known.read_facts(id) if attempt is None or one.attempt.attempt == attempt]
        lines = [*map(describe_attempt, facts), *(describe_file(one, missing) for one in found)]
        none = f"no attempt at {sanitise_line(id)} left anything that is here"
        emit({"attempts": facts, "files": found}, as_json, lines or [none])
        return
    wanted = [one for one in found if one.name == name]
    if not wanted:
        raise Failure(
            "UNKNOWN_FILE", f"no attempt at {id} left {name!r}", target=name, fix=f"remit task artifacts {id}"
        )
    content = known.read_file(wanted[-1])
    if b"\0" in content:
        if sys.stdout.isatty():
            fix = f"remit task artifacts {id} {name} > {name}"
            raise Failure("PICTURE", f"{name!r} is no text for a terminal", target=name, fix=fix)
        sys.stdout.buffer.write(content)
        return
    text = content.decode("utf-8", "replace")
    emit({"file": wanted[-1], "text": text}, as_json, text.rstrip("\n"))


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
    require_person(f"{kind} of a task")
    engine = open_engine(f"remit task {kind}", database)
    from remit.orchestrator.board import OrderKind, TaskState

    repository = name_repository_of(governed_gate(repo).workspace)
    require_task(engine, repository, id)
    give_order(engine, repository, OrderKind(kind), id, getpass.getuser(), body)
    after = require_task(engine, repository, id)
    if after.state not in (TaskState.WAITING, TaskState.DROPPED):
        fix = "see `remit task show`"
        raise Failure("NOTHING_CHANGED", f"{id} is {after.state}: {after.why}", target=id, fix=fix)
    click.echo(f"{id}  {after.state}  {after.why}")


for command in (take, give_back, steer, reassign):
    task.add_command(command)
