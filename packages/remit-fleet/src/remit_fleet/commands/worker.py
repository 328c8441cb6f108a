"""`remit worker`: run attempts in slots until the fleet is idle, or the worker is stopped."""

import os
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from remit.cli.output import UNAVAILABLE, Failure, emit, json_option, reports_failures, say, warn
from remit.cli.person_only import require_person
from remit.cli.ready import ready_option
from remit.core.acts import Act
from remit.workspace.sandbox.jail import NO_JAIL, find_bubblewrap
from remit_fleet.commands.opening import database_option, find_agents, find_clones, open_engine, pace_option

if TYPE_CHECKING:
    from remit_fleet.workers.agent import AttemptPlaces

agent_command_option = click.option(
    "--agent-command",
    "agent_commands",
    multiple=True,
    metavar="NAME=COMMAND",
    help="An agent of your own: a command with {prompt} and {intent}.",
)


@click.group(invoke_without_command=True)
@click.option("--slots", type=click.IntRange(1, 256), default=4, show_default=True, help="Agents at a time.")
@database_option
@click.option(
    "--clone", "clones", multiple=True, metavar="DIRECTORY", default=["."], help="Clone of a shared repository here."
)
@click.option("--until-idle", is_flag=True, help="End when no plan has anything left to do.")
@agent_command_option
@pace_option
@ready_option
@click.pass_context
@reports_failures
def worker(
    context: click.Context,
    slots: int,
    database: str | None,
    clones: tuple[str, ...],
    until_idle: bool,
    agent_commands: tuple[str, ...],
    pace: float,
    announce_ready: Callable[[], None],
) -> None:
    """Run attempts of every plan in this fleet database. Several workers share the work.

    In a repository shared by hosts through `[orchestrator] remote`, only a worker started in a clone, or with --clone,
    takes work.
    """
    if context.invoked_subcommand is not None:
        return
    require_person(Act.RUN_WORKER)
    engine = open_engine(database, pace)
    from importlib.metadata import version

    from remit.servers.environment import read_environment
    from remit_fleet.database.store import StoreError
    from remit_fleet.workers.attempt_door import AttemptDoor, DaemonStarter, DoorTerms
    from remit_fleet.workers.attempt_steps import AGENT_VARIABLES
    from remit_fleet.workers.host import WorkerSettings
    from remit_fleet.workers.worker import FleetWorker

    # A worker has no terminal where git or ssh could ask for a password: they would wait for ever.
    os.environ.setdefault("GIT_TERMINAL_PROMPT", "0")
    os.environ.setdefault("GIT_SSH_COMMAND", "ssh -o BatchMode=yes")
    commands = find_agents(agent_commands)
    if not commands:
        raise Failure("NO_AGENT", "no agent is installed here", fix="install one, or name one with --agent-command")
    if find_bubblewrap() is None:
        warn(NO_JAIL)
    home, variables = Path.home(), {name: os.environ[name] for name in AGENT_VARIABLES if name in os.environ}
    starter = DaemonStarter(home)

    def tell(text: str) -> None:
        say(text, err=True)

    def open_door(places: "AttemptPlaces", intent: str) -> AbstractContextManager[None]:
        return AttemptDoor(DoorTerms(places, intent, home, variables), starter, tell).open()

    made = FleetWorker(
        engine,
        WorkerSettings(
            slots=slots,
            commands=commands,
            variables=dict(os.environ),
            home=Path.home(),
            environment=read_environment(),
            until_idle=until_idle,
            open_door=open_door,
            version=version("remit"),
            clones=find_clones(map(Path, clones)),
            tell=tell,
        ),
    )

    def stop(number: int, frame: object) -> None:
        made.stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    code = 0
    try:
        made.run_until_stopped(announce_ready)
    except StoreError as error:
        say(f"error: {error}", err=True)
        code = UNAVAILABLE
    os._exit(code)  # threads of the engine that still wait for something end with the process


@worker.command("list")
@database_option
@json_option
@reports_failures
def list_workers(database: str | None, as_json: bool) -> None:
    """List the workers of the fleet that are alive."""
    require_person(Act.READ_PLANS)
    board = open_engine(database).read_board()
    alive, used = list(board.workers.values()), [attempt.worker for attempt in board.attempts.values()]
    busy = {worker.id: used.count(worker.id) for worker in alive}
    lines = [
        f"{worker.id}  {busy[worker.id]}/{worker.slots} slots  {', '.join(worker.agents)}"
        + ("  draining" if worker.draining else "")
        for worker in alive
    ]
    emit(
        {"workers": alive, "busy": busy},
        as_json,
        lines or ["no worker is alive: start one with `remit worker`"],
    )


@worker.command()
@click.argument("id")
@database_option
@reports_failures
def drain(id: str, database: str | None) -> None:
    """Let a worker finish its running attempts, and end."""
    require_person(Act.MOVE_PLAN)
    if not open_engine(database).drain_worker(id):
        raise Failure("UNKNOWN_WORKER", f"no worker {id!r} is alive", target=id, fix="see `remit worker list`")
