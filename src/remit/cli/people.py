"""Commands that are a person's to run."""

import os

from remit.adapters import ROWS
from remit.cli.output import REFUSED, Failure
from remit.workspace.processes import below

AGENT_VARIABLES = ("CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "CODEX_SESSION_ID", "GEMINI_CLI", "QWEN_CODE_SESSION_ID")
"""Set by agents in the shells they start; a shell can unset them, so the process tree is looked at too."""


def below_an_agent() -> bool:
    """Whether this process was started by an agent, as its variables or its ancestors tell."""
    return (
        any(os.environ.get(name) for name in AGENT_VARIABLES) or below(row.binary for row in ROWS.values()) is not None
    )


def only_people(what: str) -> None:
    """Raise Failure where an agent asks."""
    if below_an_agent():
        raise Failure(
            "FOR_PEOPLE",
            f"{what} is for a person at a terminal, and this shell was started by a coding agent",
            fix="ask the person to run it",
            exit_code=REFUSED,
        )
