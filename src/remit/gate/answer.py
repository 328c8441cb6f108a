"""What a door passes on, and how the gate goes on where one of its steps cannot be done."""

from collections.abc import Callable
from typing import Any, Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from remit.core.decision import Decision
from remit.gate.state.database import StateError
from remit.ledger.segments import LedgerError
from remit.workspace.git.command import GitError

T = TypeVar("T")

RECORDING_ERRORS = (StateError, LedgerError, GitError, OSError)
"""What can keep a record from being written: disk, database, git."""


class Answer(Struct, frozen=True):
    """What a door passes on: the decision, the denial in words, and context for the model."""

    decision: Decision
    reason: str = ""
    context: str = ""
    arguments: dict[str, Any] | None = None
    """What the tool is to run with in place of what the agent gave it, where hooks said so."""
    permission: Literal["", "allow", "ask"] = ""
    """What the person's own rules say of the command in whose place `arguments` run; `reason` says which."""
    message: str = ""
    """What the person is told, at a turn's end."""

    def with_notice(self, words: str) -> "Answer":
        """The answer with what has to be said beside it."""
        if not words:
            return self
        reason = join_lines(self.reason, words) if self.reason else ""
        return replace(self, reason=reason, context=join_lines(self.context, words))


class Attempts:
    """Steps of which each is tried, and what kept some from being done."""

    def __init__(self) -> None:
        self.failures: list[str] = []

    def attempt(self, step: Callable[[], T], otherwise: T) -> T:
        """What `step` gives; `otherwise` where it cannot be done."""
        try:
            return step()
        except RECORDING_ERRORS as error:
            self.failures.append(str(error).partition("\n")[0])
            return otherwise

    @property
    def failure_notice(self) -> str:
        """What failed, each once, for the model."""
        if not self.failures:
            return ""
        return f"Remit could not do all of its work ({'; '.join(dict.fromkeys(self.failures))}). Tell the person."


def join_lines(*parts: str) -> str:
    """The parts that say something, a line each."""
    return "\n".join(filter(None, parts))
