"""What a door passes on, and how the gate goes on where one of its steps cannot be done."""

from collections.abc import Callable
from typing import Any, Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from remit.core.decision import Decision
from remit.gate.state_file import StateError
from remit.ledger.segments import LedgerError
from remit.workspace.git import GitError

T = TypeVar("T")

CannotRecord = (StateError, LedgerError, GitError, OSError)
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

    def saying(self, words: str) -> "Answer":
        """The answer with what has to be said beside it."""
        if not words:
            return self
        reason = joined(self.reason, words) if self.reason else ""
        return replace(self, reason=reason, context=joined(self.context, words))


class Attempts:
    """Steps of which each is tried, and what kept some from being done."""

    def __init__(self) -> None:
        self.failed: list[str] = []

    def made(self, step: Callable[[], T], otherwise: T) -> T:
        """What `step` gives; `otherwise` where it cannot be done."""
        try:
            return step()
        except CannotRecord as error:
            self.failed.append(str(error).partition("\n")[0])
            return otherwise

    @property
    def said(self) -> str:
        """What failed, each once, for the model."""
        if not self.failed:
            return ""
        return f"Remit could not do all of its work ({'; '.join(dict.fromkeys(self.failed))}). Tell the person."


def joined(*parts: str) -> str:
    """The parts that say something, a line each."""
    return "\n".join(filter(None, parts))
