"""Stand-in for the in-process door, replaced by the branch `perform`: types, and perform for calls that run bare."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct

from remit.core.call import Outcome, SessionKey, ToolCall
from remit.core.decision import Decision, Violation
from remit.core.diff.contents import LineRange

if TYPE_CHECKING:
    from remit.gate.gate import Gate


class ToolOutput(Struct, frozen=True):
    """What a tool says of itself, before the gate compares. `positions` are lines written, by path of the call."""

    ok: bool
    text: str
    data: Any = None
    exit_code: int | None = None
    positions: dict[str, tuple[LineRange, ...]] = {}


class Performed(Struct, frozen=True):
    """What became of a call. `output` is None where it was denied; `messages` are Remit's words for the model."""

    decision: Decision
    output: ToolOutput | None
    messages: tuple[str, ...] = ()
    violation: Violation | None = None
    snapshot: str | None = None


class RunCommand(Protocol):
    """Runs the call's command, bare or contained as decided; the output goes to a file while it runs."""

    def __call__(self, argv: Sequence[str], output: Path, timeout_s: float | None = None) -> int: ...


class Act(Protocol):
    """How a tool acts once it is allowed: in the caller's thread, outside the repository's turn."""

    def __call__(self, run: RunCommand | None) -> ToolOutput: ...


class Fate(Struct, frozen=True):
    """What the ledger knows of a call."""

    state: Literal["never", "open", "returned"]
    ok: bool = False
    exit_code: int | None = None


def perform(
    gate: "Gate",
    call: ToolCall,
    act: Act,
    *,
    cancel: threading.Event | None = None,
    performed: ToolOutput | None = None,
    on_output: Callable[[ToolOutput], None] | None = None,
) -> Performed:
    """Stand-in: decide, act, record. `on_output` is called with the tool's output before the gate compares."""
    answer = gate.before(call)
    if answer.decision.effect == "deny":
        return Performed(answer.decision, None, (answer.reason,))
    output = performed or act(None)
    if on_output is not None:
        on_output(output)
    after = gate.after(call, Outcome(output.ok, output.exit_code, positions=output.positions))
    return Performed(answer.decision, output, tuple(filter(None, (after.context,))))


def find_fate(gate: "Gate", session: SessionKey, call_id: str) -> Fate:
    return Fate("never")
