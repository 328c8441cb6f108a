"""Commands that are a person's to run.

What an agent tried with a command that is for people: refused, and recorded.
"""

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
from remit.gate.records.record_parts import violation_document
from remit.gate.state.database import StateError
from remit.servers.environment import read_environment
from remit.workspace.processes.process_info import find_ancestor_program
from remit.workspace.processes.writers import is_older_than_agents


def record_attempt(action: str, reason: str) -> None:
    """Record that `what` was tried where no person did it. Nothing where Remit does not govern."""
    context = click.get_current_context(silent=True)
    command = context.command_path if context else "remit"
    repo = context.params.get("repo") if context else None
    gate = Gate.open(repo if isinstance(repo, Path) else Path.cwd(), read_environment())
    if not gate.is_governed:
        return
    refused = make_refusal("COMMAND_BLOCKED", f"{action} is for a person at a terminal: {reason}.", command, None)
    body = Body(
        event="denied",
        intent_id=None,
        session_id=None,
        call=CallPart(name=command, effect="execute", command=command),
        violation=violation_document(refused.violation),
    )
    gate.recorder.append_or_spool([gate.recorder.make_record(body)])


AGENT_VARIABLES = ("CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "CODEX_SESSION_ID", "GEMINI_CLI", "QWEN_CODE_SESSION_ID")
"""Set by agents in the shells they start; a shell can unset them, so the process tree is looked at too."""


PERSON = "person"
"""Who did it, in a record of what was run here."""

MAX_CALL_S = 600.0
"""A command that runs longer than its agent waits for it has been given up."""


def is_below_agent() -> bool:
    """Whether this process was started by an agent, as its variables or its ancestors tell."""
    return (
        any(os.environ.get(name) for name in AGENT_VARIABLES)
        or find_ancestor_program(row.binary for row in ROWS.values()) is not None
    )


def find_running_agent() -> str:
    """The agent whose command is under way in this workspace; empty where none is, or where this shell is older.

    What such a command leaves behind has no ancestors to ask.
    """
    gate = Gate.open(Path.cwd(), read_environment())
    since = time.time() - MAX_CALL_S
    try:
        calls = gate.state.list_open_calls() if gate.is_governed else []
    except StateError:
        return ""
    agent = next((c.pending.agent for c in calls if c.at > since and c.pending and c.pending.whole), "")
    return "" if agent and is_older_than_agents((row.binary for row in ROWS.values()), gate.workspace.root) else agent


def require_person(action: str) -> None:
    """Raise Failure where an agent asks, or may be asking: no terminal, while a command of an agent runs here.

    A shell that was there before any agent began is a person's all the same.
    """
    if is_below_agent():
        raise refuse_agent(action)
    if sys.stdin.isatty():
        return
    agent = find_running_agent()
    if agent:
        record_attempt(action, f"a command of {agent} is under way, and this shell has no terminal")
        raise Failure(
            "FOR_PEOPLE",
            f"{action} is for a person at a terminal; this shell has none, and a command of {agent} is under way in this "  # noqa: E501
            "repository, which may have started it",
            fix="run it in a terminal, or when that command has ended",
            exit_code=REFUSED,
        )


def refuse_agent(action: str) -> Failure:
    """The refusal of what an agent's shell may not do; the attempt is recorded."""
    record_attempt(action, "this shell was started by a coding agent")
    return Failure(
        "FOR_PEOPLE",
        f"{action} is for a person at a terminal, and this shell was started by a coding agent",
        fix="ask the person to run it",
        exit_code=REFUSED,
    )
