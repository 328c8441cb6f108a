"""`remit exec`: run a command contained, and keep the effects that the intent allows."""

import os
import shlex
import sys
from pathlib import Path
from uuid import uuid4

import click
from msgspec.structs import replace

from remit.cli.completion import INTENT, complete_sessions
from remit.cli.output import REFUSED, UNAVAILABLE, Failure, governed_gate, repo_option, reports_failures, say
from remit.core.acts import Act
from remit.core.call import SessionKey, ToolCall, hash_arguments
from remit.gate.containment.contained_command import ContainedCommand
from remit.gate.containment.rewrite_call import CONFINING_WAYS
from remit.gate.containment.run_command import limits_from, run_contained, settle_staging
from remit.gate.containment.take_over import ContainedResult
from remit.gate.enforce import enforce
from remit.gate.gate import Gate
from remit.gate.state.database import StateError
from remit.gate.state.tickets import TicketNotFound, Tickets
from remit.servers.environment import read_environment
from remit.workspace.place.workspace import find_session_workspaces
from remit.workspace.sandbox.containment import (
    MEBIBYTE,
    STOP_REASONS,
    CommandEnd,
    Limits,
    SandboxFailed,
    StopReason,
    describe_end,
    find_containment,
)
from remit.workspace.sandbox.staging import NoScratchFolder, remove_tree

THIS_PROCESS = "here"  # stands for a folder in the ticket of a command that this process runs itself
EXEC_AGENT = "remit-exec"  # the agent name of a command outside an agent's session


@click.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--intent", "intent_id", metavar="ID", help="Under this intent.", type=INTENT)
@click.option(
    "--session", "session_id", metavar="ID", help="As this session, under its intent.", shell_complete=complete_sessions
)
@click.option("--call", "token", metavar="ID", help="As that call of the session, which its hook let through.")
@click.option("--settle", "folder", type=click.Path(path_type=Path), hidden=True, help="Judge what is staged there.")
@click.option("--code", type=int, default=0, hidden=True, help="How what is staged there ended.")
@click.option("--stopped", type=click.Choice(STOP_REASONS), hidden=True, help="Which limit ended it.")
@click.option(
    *("--show", "places"),
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="PATH",
    help="Let it see this secret place, such as ~/.aws/credentials; may be repeated.",
)
@click.option("--time-limit", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="Stop it then.")
@click.option("--size-limit", type=click.IntRange(1), metavar="MIB", help="Stop it beyond that.")
@repo_option
@reports_failures
def exec_(
    command: tuple[str, ...],
    intent_id: str | None,
    session_id: str | None,
    token: str | None,
    folder: Path | None,
    code: int,
    stopped: StopReason | None,
    places: tuple[Path, ...],
    time_limit: float | None,
    size_limit: int | None,
    repo: Path,
) -> None:
    """Run COMMAND contained: what it changes in the scope of the intent is kept, the rest is dropped and told.

    Input, output, environment and exit code are the command's own. What it leaves running is ended with it. The exit
    code of a command that was stopped is 124. Without options the limits are those of `[containment]` in remit.toml.
    """
    own = dict(os.environ)  # read before variables that would redirect Remit's own git are removed
    gate = governed_gate(repo if token is None else find_repository_of_ticket(repo, session_id or "", token))
    known = limits_from(gate.rules.config.containment)
    size = known.size if size_limit is None else size_limit * MEBIBYTE
    limits = Limits(time_limit or known.seconds, size, environment=own)
    if places and token is not None:
        raise Failure("USAGE", "--show is a person's, and goes with no call of an agent's")
    try:
        if folder is not None and token is not None:
            result = settle_staged(gate, folder, token, describe_end(stopped, code, limits), command[-1])
        elif token is not None:
            result = run_ticketed_call(gate, session_id or "", token, command, limits)
        else:
            result = run_command(gate, session_id, intent_id, command, limits, places)
    except TicketNotFound as error:
        dropped = "" if folder is None else " What it staged is dropped"
        raise Failure("NO_TICKET", f"{error}{dropped}", exit_code=REFUSED) from error
    except (SandboxFailed, NoScratchFolder) as error:
        raise Failure("NOT_CONTAINED", str(error), fix="remit doctor", exit_code=UNAVAILABLE) from error
    if result.said:
        say(result.said, err=True)
    sys.exit(result.code)


def find_repository_of_ticket(repo: Path, session_id: str, token: str) -> Path:
    for workspace in find_session_workspaces(Path.home(), session_id):
        context = Gate(workspace, read_environment())
        try:
            if Tickets(context.state).find_ticket(token) is not None:
                return workspace.root
        except StateError:
            continue
        finally:
            context.close()
    return repo


def run_command(
    gate: Gate,
    session_id: str | None,
    intent_id: str | None,
    command: tuple[str, ...],
    limits: Limits,
    places: tuple[Path, ...],
) -> ContainedResult:
    """Run the command of a person, or of an agent's session, if the rules allow it. Raises SandboxFailed."""
    # Imported here: the command of an agent's call needs no door, and starts a fifth quicker without.
    from remit.cli.person_only import require_person

    if intent_id or session_id:
        # An agent's hook knows the selected intent; these options would let the agent name any other.
        require_person(Act.NAME_INTENT)
    if places:
        require_person(Act.SHOW_SECRETS)
    session = SessionKey(session_id or f"exec-{uuid4()}")
    intent_id = intent_id or (None if session_id else gate.environment.bound_intent)
    if intent_id is not None and gate.state.active_session(session).intent_id != intent_id:
        gate.intents.select(session, EXEC_AGENT, intent_id, reasoning="named on the command line of `remit exec`")
    call = ToolCall(
        agent=gate.state.active_session(session).agent or EXEC_AGENT,
        session=session,
        tool="exec",
        effect="execute",
        cwd=os.getcwd(),  # noqa: PTH109  the shell's spelling, links included
        call_id=f"exec-{uuid4()}",
        command=shlex.join(command),
        arguments_sha256=hash_arguments({"command": command}),
        whole_workspace=True,
    )
    answer = enforce(gate, call, gate.hooks)
    if answer.decision.effect != "allow":
        say(answer.reason, err=True)
        sys.exit(REFUSED)
    containment = find_containment(gate.environment.home, gate.environment.temporary)
    shown = tuple(Path(os.path.normpath(Path.cwd() / place.expanduser())) for place in places)
    return run_contained(gate, containment, call, command, limits, shown=shown)


def run_ticketed_call(
    gate: Gate, session_id: str, token: str, command: tuple[str, ...], limits: Limits
) -> ContainedResult:
    """Run the shell command of a call that its hook allowed. Raises Failure, TicketNotFound, SandboxFailed."""
    tickets, text = Tickets(gate.state), command[-1]
    if len(command) != 3 or command[1] != "-c":
        raise Failure("USAGE", f"--call goes with one shell command: expected SHELL -c TEXT, not {command!r}")
    ticket = tickets.use_ticket(token, session_id, text, THIS_PROCESS)
    gate.environment = replace(gate.environment, temporary=Path(ticket.temporary))
    containment = find_containment(gate.environment.home, gate.environment.temporary)
    if containment.way not in CONFINING_WAYS:
        raise Failure("NOT_CONTAINED", "nothing ran: no containment works here any more", exit_code=UNAVAILABLE)
    call = ticket.make_call(text, os.getcwd())  # noqa: PTH109  the shell's spelling, links included
    try:
        return run_contained(gate, containment, call, command, limits, ticket)
    finally:
        tickets.delete_ticket(token)


def settle_staged(gate: Gate, folder: Path, token: str, ended: CommandEnd, text: str) -> ContainedResult:
    """Judge the effects staged by a launcher that the daemon lost. Raises TicketNotFound."""
    tickets = Tickets(gate.state)
    ticket = tickets.find_used_ticket(token, str(folder), text)
    try:
        return settle_staging(ContainedCommand(gate, ticket.make_call(text), ticket), folder, ended)
    finally:
        tickets.delete_ticket(token)
        remove_tree(folder)
