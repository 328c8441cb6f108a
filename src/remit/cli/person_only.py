"""Refuse commands that only a person may run, and record the attempts of agents."""

import os
import sys
import time
from pathlib import Path

import click

from remit.adapters import ROWS
from remit.cli.output import REFUSED, Failure
from remit.core.record import Body, CallPart
from remit.gate.gate import Gate
from remit.gate.intents.refusals import make_refusal
from remit.gate.records.call_records import violation_document
from remit.gate.state.database import StateError
from remit.servers.environment import AGENT_VARIABLES, read_environment
from remit.workspace.processes.process_tracking import find_ancestor_program, is_older_than_agents

PERSON = "person"  # the actor in records of commands run by a person
MAX_CALL_S = 600.0  # a command older than the longest wait of an agent has been abandoned


def is_below_agent() -> bool:
    return (
        any(os.environ.get(name) for name in AGENT_VARIABLES)
        # From the parent on: this process may be `remit run` itself, which counts as an agent for its commands.
        or find_ancestor_program((row.binary for row in ROWS.values()), os.getppid()) is not None
    )


def require_person(action: str) -> None:
    """Raise Failure if an agent asks, or may be asking: without a terminal, while an agent's command runs here. A shell
    that is older than every agent belongs to a person.
    """
    if is_below_agent():
        raise refuse_agent(action)
    if not sys.stdin.isatty() and (agent := find_running_agent()):
        record_attempt(action, f"a command of {agent} is under way, and this shell has no terminal")
        under_way = f"a command of {agent} is under way in this repository, which may have started it"
        message = f"{action} is for a person at a terminal; this shell has none, and {under_way}"
        fix = "run it in a terminal, or when that command has ended"
        raise Failure("FOR_PEOPLE", message, fix=fix, exit_code=REFUSED)


def refuse_agent(action: str) -> Failure:
    record_attempt(action, "this shell was started by a coding agent")
    message = f"{action} is for a person at a terminal, and this shell was started by a coding agent"
    return Failure("FOR_PEOPLE", message, fix="ask the person to run it", exit_code=REFUSED)


def find_running_agent() -> str:
    """Return the agent whose command is running in this workspace; empty for none, or if this shell is older. A process
    that such a command left behind has no ancestors to inspect.
    """
    gate = Gate.open(Path.cwd(), read_environment())
    since = time.time() - MAX_CALL_S
    try:
        calls = gate.state.list_open_calls() if gate.is_governed else []
    except StateError:
        return ""
    agent = next((c.pending.agent for c in calls if c.at > since and c.pending and c.pending.whole), "")
    return "" if agent and is_older_than_agents((row.binary for row in ROWS.values()), gate.workspace.root) else agent


def record_attempt(action: str, reason: str) -> None:
    """Record the denied attempt of an agent to run a command for people; do nothing in an ungoverned folder."""
    context = click.get_current_context(silent=True)
    command = context.command_path if context else "remit"
    repo = context.params.get("repo") if context else None
    gate = Gate.open(repo if isinstance(repo, Path) else Path.cwd(), read_environment())
    if gate.is_governed:
        refusal = make_refusal("COMMAND_BLOCKED", f"{action} is for a person at a terminal: {reason}.", command, None)
        call = CallPart(name=command, effect="execute", command=command)
        violation = violation_document(refusal.violation)
        body = Body(event="denied", intent_id=None, session_id=None, call=call, violation=violation)
        gate.recorder.append_or_spool([gate.recorder.make_record(body)])


def require_terminal() -> None:
    require_person("answering for a person")
    if not sys.stdin.isatty():
        record_attempt("answering for a person", "standard input is no terminal")
        message = "a yes has to come from a terminal, and standard input is none"
        raise Failure("NOT_A_TERMINAL", message, fix="run it yourself in a terminal", exit_code=REFUSED)


def require_confirmation(yes: bool, what: str, fix: str) -> None:
    if not yes and not (sys.stdin.isatty() and click.confirm(f"{what}. Go on?", default=False)):
        raise Failure("NOT_CONFIRMED", f"nothing was changed: {what}", fix=fix)
