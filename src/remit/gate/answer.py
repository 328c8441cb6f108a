"""The gate's answer to an event, and the attempts at steps of which none may stop the next."""

from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from remit.core.decision import Decision
from remit.gate.state.database import StateError
from remit.ledger.segments import LedgerError
from remit.workspace.git.command import GitError

T = TypeVar("T")

RECORDING_ERRORS = (StateError, LedgerError, GitError, OSError)
"""The errors that keep a record or the state from being written: database, ledger, git, disk."""


class Answer(Struct, frozen=True):
    """An answer to an agent's hook: the decision, the reason of a denial, and context for the model."""

    decision: Decision
    reason: str = ""
    context: str = ""
    arguments: dict[str, Any] | None = None
    """Arguments that replace the agent's, where a hook rewrote the call or a command runs contained."""
    permission: Literal["", "allow", "ask"] = ""
    """The answer of the person's own rules to the command that `arguments` wrap; `reason` names the rule."""
    message: str = ""
    """Text for the person at the end of a turn."""

    def with_notice(self, text: str) -> "Answer":
        """Return the answer with `text` added to the context, and to the reason of a denial."""
        if not text:
            return self
        reason = join_lines(self.reason, text) if self.reason else ""
        return replace(self, reason=reason, context=join_lines(self.context, text))


class Attempts:
    """Steps after a tool has run: a failed step is noted, and the next step is taken.

    `with attempts.step(): ...` catches RECORDING_ERRORS; variables of a failed step keep their earlier values.
    """

    def __init__(self) -> None:
        self.failures: list[str] = []

    def step(self) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        if not isinstance(error, RECORDING_ERRORS):
            return False
        self.failures.append(str(error).partition("\n")[0])
        return True

    @property
    def failure_notice(self) -> str:
        if not self.failures:
            return ""
        return f"Remit could not do all of its work ({'; '.join(dict.fromkeys(self.failures))}). Tell the person."


def join_lines(*parts: str) -> str:
    """Return the parts that are not empty, a line each."""
    return "\n".join(filter(None, parts))
