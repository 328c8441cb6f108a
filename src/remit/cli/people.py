"""Commands that are a person's to run."""

import os
import sys
import time
from pathlib import Path

from remit.adapters import ROWS
from remit.cli.attempts import attempted
from remit.cli.output import REFUSED, Failure
from remit.gate.gate import Gate
from remit.gate.state_file import StateError
from remit.servers.environment import enter
from remit.workspace.processes import below
from remit.workspace.writers import began_before

AGENT_VARIABLES = ("CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "CODEX_SESSION_ID", "GEMINI_CLI", "QWEN_CODE_SESSION_ID")
"""Set by agents in the shells they start; a shell can unset them, so the process tree is looked at too."""


PERSON = "person"
"""Who did it, in a record of what was run here."""

CALL_S = 600.0
"""A command that runs longer than its agent waits for it has been given up."""


def below_an_agent() -> bool:
    """Whether this process was started by an agent, as its variables or its ancestors tell."""
    return (
        any(os.environ.get(name) for name in AGENT_VARIABLES) or below(row.binary for row in ROWS.values()) is not None
    )


def agent_at_work() -> str:
    """The agent whose command is under way in this workspace; empty where none is, or where this shell is older.

    What such a command leaves behind has no ancestors to ask.
    """
    gate = Gate.open(Path.cwd(), enter())
    since = time.time() - CALL_S
    try:
        calls = gate.state.open_calls() if gate.governed else []
    except StateError:
        return ""
    agent = next((c.pending.agent for c in calls if c.at > since and c.pending and c.pending.whole), "")
    return "" if agent and began_before((row.binary for row in ROWS.values()), gate.workspace.root) else agent


def only_people(what: str) -> None:
    """Raise Failure where an agent asks, or may be asking: no terminal, while a command of an agent runs here.

    A shell that was there before any agent began is a person's all the same.
    """
    if below_an_agent():
        raise refused(what)
    if sys.stdin.isatty():
        return
    agent = agent_at_work()
    if agent:
        attempted(what, f"a command of {agent} is under way, and this shell has no terminal")
        raise Failure(
            "FOR_PEOPLE",
            f"{what} is for a person at a terminal; this shell has none, and a command of {agent} is under way in this "
            "repository, which may have started it",
            fix="run it in a terminal, or when that command has ended",
            exit_code=REFUSED,
        )


def refused(what: str) -> Failure:
    """The refusal of what an agent's shell may not do; the attempt is recorded."""
    attempted(what, "this shell was started by a coding agent")
    return Failure(
        "FOR_PEOPLE",
        f"{what} is for a person at a terminal, and this shell was started by a coding agent",
        fix="ask the person to run it",
        exit_code=REFUSED,
    )
