"""The one door of a program that runs its tools in the gate's own process: decide, contain or act, compare, record.

`Gate.perform(call, act)` does all of it, once. A hook can only answer and hope: it sees a call before and after, in two
processes. Here the call is judged (`enforce.py`), `act` does the tool's work with nothing but the access that the
decision left it, and what came of it is compared and recorded (`remember.py`).

- The caller holds the repository's turn where several threads share the gate (`open_gates.py`). The turn is given up
  while the tool acts and while a person thinks.
- `act` runs in the caller's thread and gets a `WorkspaceAccess`: a file tool writes the files that were judged with
  `write_file` and `remove_file`, a command runs with `run_command`, bare or contained as decided. Nothing else may
  write to the workspace.
- `performed` is the output of a call that acted before a crash: it is compared and recorded, and `act` is not called.
- A call id is recorded once, however often it is performed: `fate` tells what became of it.

An exception of `act` is recorded as the call's failure, and raised.
"""

import stat
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec import Struct

from remit.core.call import Outcome, SessionKey, ToolCall
from remit.core.decision import UNGOVERNED_DECISION, Decision, Violation
from remit.core.diff.contents import LineRange, sha256
from remit.core.record import KEY
from remit.core.untrusted_input import sanitise_line
from remit.gate.context import WorkspaceContext
from remit.gate.enforce import enforce
from remit.gate.remember import remember
from remit.gate.team_hooks.registered_checks import RegisteredHooks
from remit.policy.decide import classify
from remit.policy.violations import leading_violation
from remit.workspace.place.resolve_paths import resolve_real_paths
from remit.workspace.safe_files import remove_below, write_below
from remit.workspace.sandbox.containment import CommandEnd

MAX_SUMMARY_CHARS = 200
MAX_RESULTS = 1000
"""Newest results of a session in which a call's own is looked for."""


class ToolOutput(Struct, frozen=True):
    """What a tool itself says of its work, before the gate compares; `data` is its structured result, as JSON takes it.

    `positions` are the lines of each edit, by path as the call names it.
    """

    ok: bool
    text: str
    data: Any = None
    exit_code: int | None = None
    positions: dict[str, tuple[LineRange, ...]] = {}


class Performed(Struct, frozen=True):
    """What came of a call; `output` is None where the call was denied.

    `messages` are Remit's words for the model: a denial, what was dropped, the results of the team's commands.
    `snapshot` names the saved state from before the call, where one was taken.
    """

    decision: Decision
    output: ToolOutput | None = None
    messages: tuple[str, ...] = ()
    violation: Violation | None = None
    snapshot: str | None = None


class Fate(Struct, frozen=True):
    """What became of a call: never begun, open, or returned. `ok` is None where its end was never reported."""

    state: Literal["never", "open", "returned"]
    ok: bool | None = None
    exit_code: int | None = None


NEVER, OPEN = Fate("never"), Fate("open")


class AccessRefused(OSError):
    """The tool tried what was not judged: another file, or a command where there is none."""


class WorkspaceAccess:
    """The access of one allowed call to the workspace: the files that it was judged for, and its command."""

    def __init__(self, context: WorkspaceContext, call: ToolCall, places: tuple[str, ...]) -> None:
        self.context = context
        self.call = call
        self.places = places
        """Absolute paths that the call was judged for, with links followed."""

    def write_file(self, path: str, content: bytes, *, permissions: int | None = None) -> None:
        """Write a file of the call, atomically and durably, with the permissions of the file it replaces.

        `path` is as the call names it. Raises OSError; AccessRefused for a file that was not judged.
        """
        for place in self.judged_places(path):
            if permissions is None and place.is_file():
                permissions = stat.S_IMODE(place.lstat().st_mode)
            root = self.find_root(place)
            write_below(root, place, content, permissions=permissions, follow_links=False, token=self.token)

    def remove_file(self, path: str) -> None:
        """Remove a file of the call. Raises OSError; AccessRefused for a file that was not judged."""
        for place in self.judged_places(path):
            remove_below(self.find_root(place), place, follow_links=False)

    @property
    def token(self) -> str:
        return temporary_token(self.call.session, self.call.call_id)

    def find_root(self, place: Path) -> Path:
        root = self.context.workspace.root if self.context.found_workspace is not None else place.parent
        return root if place.is_relative_to(root) else place.parent

    def judged_places(self, path: str) -> list[Path]:
        reals = resolve_real_paths(path, Path(self.call.cwd), self.context.environment.home)
        judged = [place for place in reals if place in self.places]
        if not judged:
            raise AccessRefused(f"{path!r} is no file that this {self.call.tool} call was judged for")
        return [Path(place) for place in judged]

    def run_command(
        self,
        words: Sequence[str],
        output: int,
        *,
        environment: Mapping[str, str] | None = None,
        time_limit_s: float | None = None,
        cancel: threading.Event | None = None,
    ) -> CommandEnd:
        """Run the call's command, bare or contained as decided, to its end; `words` are a shell with the judged text.

        Standard output and error go to the descriptor `output`. Raises AccessRefused for another command.
        """
        raise AccessRefused("this gate runs no commands yet")


class Act(Protocol):
    """The work of a tool, once it is allowed. Runs in the caller's thread, outside of the repository's turn."""

    def __call__(self, access: WorkspaceAccess, /) -> ToolOutput: ...


def temporary_token(session: SessionKey, call_id: str) -> str:
    """Return the part of a temporary file's name that tells whose write it is."""
    return sha256("\0".join((session.session_id, session.agent_id, call_id)).encode("utf-8", "surrogateescape"))[:12]


def perform(
    context: WorkspaceContext,
    hooks: RegisteredHooks,
    call: ToolCall,
    act: Act,
    cancel: threading.Event | None = None,
    performed: ToolOutput | None = None,
) -> Performed:
    """Decide a call, act, compare and record. Raises what `act` raises, and RECORDING_ERRORS before it acted."""
    if not context.is_governed:
        real = (
            real for raw in call.paths for real in resolve_real_paths(raw, Path(call.cwd), context.environment.home)
        )
        return Performed(UNGOVERNED_DECISION, performed or act(WorkspaceAccess(context, call, tuple(real))))

    # 1 Decide. A call that acted before a crash was decided then.
    row, pending = context.state.find_same_call(call)
    if performed is not None and row is not None and pending is not None:
        decision = Decision("allow", "allow", classify(call), context.read_mode(), intent_id=pending.intent_id)
        return finish(context, hooks, call, decision, "", performed)
    answer = enforce(context, call, hooks, in_process=True)
    decision = answer.decision
    if decision.effect not in ("allow", "contain"):
        return Performed(decision, None, (answer.reason,), leading_violation(call, decision))
    _, pending = context.state.find_same_call(call)

    # 2 Act, while other calls pass.
    access = WorkspaceAccess(context, call, pending.places if pending else ())
    try:
        with context.environment.release_lock():
            output = performed or act(access)
    except BaseException as error:
        finish(context, hooks, call, decision, "", ToolOutput(ok=False, text=f"{type(error).__name__}: {error}"))
        raise

    # 3 Compare and record.
    return finish(context, hooks, call, decision, answer.context, output)


def finish(
    context: WorkspaceContext,
    hooks: RegisteredHooks,
    call: ToolCall,
    decision: Decision,
    words: str,
    output: ToolOutput,
) -> Performed:
    """Compare and record a call that acted; `words` are those of its decision."""
    _, pending = context.state.find_same_call(call)
    summary = "" if output.ok else sanitise_line(output.text, MAX_SUMMARY_CHARS)
    outcome = Outcome(output.ok, output.exit_code, summary, positions=output.positions)
    after = remember(context, call, outcome, hooks, "", in_process=True)
    messages = tuple(filter(None, (words, after.context)))
    return Performed(decision, output, messages, snapshot=pending.snapshot or None if pending else None)


def find_fate(context: WorkspaceContext, session: SessionKey, call_id: str) -> Fate:
    """Return what became of a call: the ledger tells, and of a call without a result the state. Raises
    RECORDING_ERRORS.
    """
    if not context.is_governed:
        return NEVER
    with context.index() as index:
        found = index.find(event="tool_result", session_id=session.session_id, limit=MAX_RESULTS)
    for document in found:
        body: dict[str, Any] = document["metadata"][KEY]
        if body.get("call", {}).get("id") == call_id and body.get("agent_id", "") == session.agent_id:
            return Fate("returned", body["result"].get("ok"), body["result"].get("exit_code"))
    is_open = any((c.session, c.call_id) == (session, call_id) for c in context.state.list_open_calls())
    return OPEN if is_open else NEVER
