"""`remit exec`: run a command contained, and keep of its effects what the intent may change."""

import os
import shlex
import sys
from pathlib import Path
from uuid import uuid4

import click

from remit.cli.output import REFUSED, UNAVAILABLE, Failure, governed_gate, repo_option, reports_failures
from remit.cli.people import below_an_agent, refused
from remit.core.call import SessionKey, ToolCall, hash_arguments
from remit.gate.contained import Contained
from remit.gate.gate import Gate
from remit.gate.judging import Judging
from remit.workspace.sandbox.choosing import containment
from remit.workspace.sandbox.places import NoScratch
from remit.workspace.sandbox.running import Limits, NotContained

AGENT = "remit-exec"
"""The agent of a command whose session is not an agent's."""

MEBIBYTE = 1 << 20


@click.command("exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--intent", "intent_id", metavar="ID", help="Under this intent.")
@click.option("--session", "session_id", metavar="ID", help="As this session, under its intent.")
@click.option("--time-limit", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="Stop it then.")
@click.option(
    "--size-limit", type=click.IntRange(1), default=4096, show_default=True, metavar="MIB", help="Stop it beyond that."
)
@repo_option
@reports_failures
def exec_(
    command: tuple[str, ...],
    intent_id: str | None,
    session_id: str | None,
    time_limit: float | None,
    size_limit: int,
    repo: Path,
) -> None:
    """Run COMMAND contained: what it changes in the scope of the intent is kept, the rest is dropped and told.

    Input, output, environment and exit code are the command's own. What it leaves running is ended with it. With
    `--time-limit` the exit code of a command that was stopped is 124.
    """
    own = dict(os.environ)
    gate = governed_gate(repo)
    if (intent_id or session_id) and below_an_agent():
        # An agent's own intent is told by its hook; here it could name any, and work outside what it selected.
        raise refused("`remit exec --intent` or `--session`")
    session = chosen(gate, session_id, intent_id)
    call = call_of(command, session, gate.state.active(session).agent or AGENT)
    answer = Judging(gate).judged(call)
    if answer.decision.effect != "allow":
        click.echo(answer.reason, err=True)
        sys.exit(REFUSED)
    how = containment(gate.environment.home, gate.environment.temporary)
    try:
        result = Contained(gate, how).run(call, command, Limits(time_limit, size_limit * MEBIBYTE, environment=own))
    except (NotContained, NoScratch) as error:
        raise Failure("NOT_CONTAINED", str(error), fix="remit doctor", exit_code=UNAVAILABLE) from error
    if result.said:
        click.echo(result.said, err=True)
    sys.exit(result.code)


def chosen(gate: Gate, session_id: str | None, intent_id: str | None) -> SessionKey:
    """The session that the command is of, with the intent selected that was asked for."""
    session = SessionKey(session_id or f"exec-{uuid4()}")
    intent_id = intent_id or (None if session_id else gate.environment.bound_intent)
    if intent_id is not None and gate.state.active(session).intent_id != intent_id:
        gate.intents.select(session, AGENT, intent_id, reasoning="named on the command line of `remit exec`")
    return session


def call_of(command: tuple[str, ...], session: SessionKey, agent: str) -> ToolCall:
    """The command as a tool call."""
    return ToolCall(
        agent=agent,
        session=session,
        tool="exec",
        effect="execute",
        cwd=os.getcwd(),  # noqa: PTH109  what the shell calls it, links and all
        call_id=f"exec-{uuid4()}",
        command=shlex.join(command),
        arguments_sha256=hash_arguments({"command": command}),
        whole_workspace=True,
    )
