"""Commands that are a person's to run."""

import os

from remit.cli.output import REFUSED, Failure

AGENT_VARIABLES = ("CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "CODEX_SESSION_ID", "GEMINI_CLI", "QWEN_CODE_SESSION_ID")
"""Set by agents in the shells they start. A hint, not a proof: the hook refuses such commands by their text too."""


def below_an_agent() -> bool:
    """Whether this process seems to have been started by an agent."""
    return any(os.environ.get(name) for name in AGENT_VARIABLES)


def only_people(what: str) -> None:
    """Raise Failure where an agent asks."""
    if below_an_agent():
        raise Failure(
            "FOR_PEOPLE",
            f"{what} is for a person at a terminal, and this shell was started by a coding agent",
            fix="ask the person to run it",
            exit_code=REFUSED,
        )
