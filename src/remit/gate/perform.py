"""The gate's entry point for tools in the gate's own process: decide, contain or act, compare, record.

`Gate.perform(call, act)` does the whole work, once. A hook sees a call before and after, in two processes, and can only
answer. Here the call is judged (`enforce.py`), `act` does the tool's work with the access left by the decision,
and the effects are compared and recorded (`remember.py`).

- The caller holds the repository's turn where several threads share the gate (`open_gates.py`). The turn is given up
  while the tool acts and while a person thinks.
- Remit's own tools (`remit_tool`) act within the turn, because they work on the state.
- `act` runs in the caller's thread and gets a `WorkspaceAccess`: a file tool writes the judged files with
  `write_contents`, a command runs with `run_command`, bare or contained as decided. Nothing else may
  write to the workspace.
- `performed` is the output of a call that acted before a crash: the effects are compared and recorded without `act`.
- A call id is recorded once, however often performed: `fate` returns the call's state.

An exception of `act` is recorded as the call's failure, and raised.
"""

import stat
import threading
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from remit.adapters.payload import has_read_only_error
from remit.core.call import SESSION_VARIABLE, Outcome, SessionKey, ToolCall
from remit.core.decision import UNGOVERNED_DECISION, Decision, Violation, leading_violation
from remit.core.diff.contents import LineRange
from remit.core.record import KEY
from remit.core.untrusted_input import sanitise_line
from remit.gate.containment.in_process import CommandRun, SandboxRun, find_interrupted_run
from remit.gate.context import WorkspaceContext, join_lines
from remit.gate.effects.unfinished_calls import remove_unfinished_writes, temporary_token
from remit.gate.enforce import enforce
from remit.gate.governing.workspaces import find_named_workspaces, find_workspace_of_call
from remit.gate.hooks.registered_checks import RegisteredHooks
from remit.gate.people.messages import PendingMessages
from remit.gate.people.questions import CLIENT_GONE
from remit.gate.remember import is_new_worktree, remember
from remit.gate.state.workspace_state import PendingCall
from remit.gate.undo.governing_files import AgentSettings, can_execute
from remit.policy.decide import classify
from remit.workspace.observe.observation import try_observe_file
from remit.workspace.place.resolve_paths import resolve_real_paths
from remit.workspace.place.workspace import Workspace
from remit.workspace.safe_files import ObservedFile, remove_below, write_below
from remit.workspace.sandbox.containment import CommandEnd

MAX_SUMMARY_CHARS = 200
MAX_RESULTS = 1000
"""Newest results of a session in which a call's own is looked for."""


class ToolOutput(Struct, frozen=True):
    """A tool's own report of its work, before the gate compares; `data` is the structured result, as JSON values.

    `positions` are the lines of each edit, by path as in the call.
    """

    ok: bool
    text: str
    data: Any = None
    exit_code: int | None = None
    positions: dict[str, tuple[LineRange, ...]] = {}


class Performed(Struct, frozen=True):
    """Result of a call; `output` is None for a denied call.

    `messages` are Remit's words for the model: a denial, the dropped changes, the results of the team's commands.
    `snapshot` names the saved state from before the call, if saved.
    """

    decision: Decision
    output: ToolOutput | None = None
    messages: tuple[str, ...] = ()
    violation: Violation | None = None
    snapshot: str | None = None


class Fate(Struct, frozen=True):
    """State of a call: never begun, open, or returned. `ok` is None for a call without a reported end."""

    state: Literal["never", "open", "returned"]
    ok: bool | None = None
    exit_code: int | None = None


NEVER, OPEN = Fate("never"), Fate("open")


class AccessRefused(OSError):
    """An action of the tool that was not judged: another file, or a command in a call without a command."""


class WrittenFile(Struct, frozen=True):
    """A file as a tool leaves it; None removes it. `permissions` are of a new file, or change those of the old one."""

    path: str
    content: bytes | None
    permissions: int | None = None


class WorkspaceAccess:
    """Access of an allowed call to the workspace: the judged files, and the command."""

    def __init__(
        self, context: WorkspaceContext, call: ToolCall, places: tuple[str, ...], run: CommandRun | None = None
    ) -> None:
        self.context = context
        self.call = call
        self.places = places
        """Absolute paths that the call was judged for, with links followed."""
        self.run = run

    def write_file(self, path: str, content: bytes, *, permissions: int | None = None) -> None:
        """Write a file of the call, atomically and durably, with the permissions of the replaced file.

        `path` is spelled as in the call. Raises OSError; AccessRefused for a file not judged.
        """
        token = temporary_token(self.call.session, self.call.call_id)
        for place in self.judged_places(path):
            known = stat.S_IMODE(place.lstat().st_mode) if permissions is None and place.is_file() else permissions
            write_below(self.find_root(place), place, content, permissions=known, follow_links=False, token=token)

    def remove_file(self, path: str) -> None:
        """Remove a file of the call. Raises OSError; AccessRefused for a file that was not judged."""
        for place in self.judged_places(path):
            remove_below(self.find_root(place), place, follow_links=False)

    def write_contents(self, files: Iterable[WrittenFile]) -> None:
        """Write all files or none: an error gives those of before their contents back. Raises OSError."""
        done: list[WrittenFile] = []
        try:
            for file in files:
                place = self.judged_places(file.path)[0]
                done.append(WrittenFile(file.path, place.read_bytes() if place.is_file() else None))
                self.put_file(file)
        except OSError:
            for file in reversed(done):
                with suppress(OSError):
                    self.put_file(file)
            raise

    def put_file(self, file: WrittenFile) -> None:
        if file.content is None:
            self.remove_file(file.path)
        else:
            self.write_file(file.path, file.content, permissions=file.permissions)

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
        self, output: int, *, environment: Mapping[str, str] | None = None, time_limit_s: float | None = None
    ) -> CommandEnd:
        """Run the call's command, once, to the end: bare, or contained as decided.

        Both output streams go to the descriptor `output` of a file; the input is empty. `environment` are the
        variables, by default the variables needed by programs, without possible secrets. Raises SandboxFailed, OSError;
        AccessRefused for a call without a command.
        """
        if self.run is None or self.run.ended is not None:
            raise AccessRefused(f"this {self.call.tool} call has no command to run")
        limits = replace(self.run.limits, output=output, seconds=time_limit_s or self.run.limits.seconds)
        if environment is not None:
            limits = replace(limits, environment={**environment, SESSION_VARIABLE: self.call.session.session_id})
        return self.run.run(limits)


class CarriedOut(Protocol):
    """The work of a tool, once it is allowed. Runs in the caller's thread, outside of the repository's turn."""

    def __call__(self, access: WorkspaceAccess, /) -> ToolOutput: ...


def perform(
    context: WorkspaceContext,
    hooks: RegisteredHooks,
    call: ToolCall,
    act: CarriedOut,
    cancel: threading.Event | None = None,
    performed: ToolOutput | None = None,
) -> Performed:
    """Decide a call, act, compare and record. Raises the errors of `act`, and RECORDING_ERRORS before the action.

    The workspace of the call's paths governs the call; each workspace named in a command's text judges too.
    """
    with ExitStack() as stack:
        home, own = context.environment.home, context
        # A file belongs to its workspace, a command to that of its session: this one, wherever the command stands.
        governing = find_workspace_of_call(call, home) if call.paths else context.found_workspace
        if governing is not None and governing != context.found_workspace and governing.is_governed:
            own = stack.enter_context(open_beside(context, governing))
        if own.is_governed:
            call = replace(call, governing_root=str(own.workspace.root))
        named = find_named_workspaces(call, own.found_workspace, home)
        others = [stack.enter_context(open_beside(context, workspace)) for workspace in named]
        if not own.is_governed and not others:
            real = (path for raw in call.paths for path in resolve_real_paths(raw, Path(call.cwd), home))
            run = CommandRun(own, call, cancel) if call.command is not None else None
            return Performed(UNGOVERNED_DECISION, performed or act(WorkspaceAccess(own, call, tuple(real), run)))
        return PerformedCall(own, others, hooks, call, cancel).perform(act, performed)


@contextmanager
def open_beside(context: WorkspaceContext, workspace: Workspace) -> Generator[WorkspaceContext]:
    opened = type(context)(workspace, context.environment)
    opened.question_listener, opened.resumed_calls = context.question_listener, context.resumed_calls
    try:
        yield opened
    finally:
        opened.close()


class PerformedCall:
    """A call with its judging workspaces: the governing workspace, and `others` named by the command."""

    def __init__(
        self,
        context: WorkspaceContext,
        others: Sequence[WorkspaceContext],
        hooks: RegisteredHooks,
        call: ToolCall,
        cancel: threading.Event | None,
    ) -> None:
        self.context = context
        self.judges = [*others, *([context] if context.is_governed else [])]
        self.hooks = hooks
        self.call = call
        self.cancel = cancel

    def perform(self, act: CarriedOut, performed: ToolOutput | None) -> Performed:
        context, call, is_governed = self.context, self.call, self.context in self.judges

        # 1 Resume a call begun by a process that died.
        pending = context.state.find_same_call(call)[1] if is_governed else None
        if pending is not None and (resumed := self.resume(pending, performed)) is not None:
            return resumed

        # 2 Decide; the first workspace that refuses the call answers. A cancelled call asks nobody any longer.
        decision, words = UNGOVERNED_DECISION, ""
        asked = CLIENT_GONE.set(self.cancel.is_set if self.cancel is not None else lambda: False)
        try:
            for judge in self.judges:
                answer = enforce(judge, call, self.hooks, in_process=True)
                decision, words = answer.decision, join_lines(words, answer.context)
                if decision.effect not in ("allow", "contain"):
                    return Performed(decision, None, (answer.reason,), leading_violation(call, decision))
                if call.whole_workspace and can_execute(decision):
                    AgentSettings(judge).keep_settings()
        finally:
            CLIENT_GONE.reset(asked)

        # 3 Act, while other calls pass. Remit's own tools work on the state, which the turn guards.
        pending = context.state.find_same_call(call)[1] if is_governed else None
        run: CommandRun | None = None
        if call.command is not None:
            run = (SandboxRun if decision.effect == "contain" else CommandRun)(context, call, self.cancel)
        access = WorkspaceAccess(context, call, pending.places if pending else (), run)
        try:
            with nullcontext() if call.remit_tool is not None else context.environment.release_lock():
                output = performed or act(access)
        except BaseException as error:
            if isinstance(run, SandboxRun):
                run.release()
            self.finish(decision, "", ToolOutput(ok=False, text=f"{type(error).__name__}: {error}"))
            raise

        # 4 Judge the files staged by a contained command; then compare and record.
        token = ""
        if isinstance(run, SandboxRun):
            settled, token = run.settle(), run.ticket.token
            words = join_lines(words, settled.said if settled else "")
        return self.finish(decision, words, output, token)

    def resume(self, pending: PendingCall, performed: ToolOutput | None) -> Performed | None:
        """Finish a call that had acted before a crash; None if it is to be decided and to act. Raises
        RECORDING_ERRORS.
        """
        context, call = self.context, self.call
        context.resumed_calls.add((call.session, call.call_id))
        remove_unfinished_writes(context, call, pending)
        effect = "contain" if pending.verdict == "contain" else "allow"
        decision = Decision(effect, effect, classify(call), context.read_mode(), intent_id=pending.intent_id)
        words, token, output = "", "", performed
        run = find_interrupted_run(context, call) if call.command is not None else None
        if run is not None:
            settled, token = run.settle(), run.ticket.token
            if settled is not None:
                words, output = settled.said, performed or ToolOutput(settled.code == 0, "", exit_code=settled.code)
            elif performed is not None:
                words = "Remit: what this command changed is lost: the process that ran it died before it was judged."
        return None if output is None else self.finish(decision, words, output, token)

    def finish(self, decision: Decision, words: str, output: ToolOutput, token: str = "") -> Performed:
        """Compare and record; `words` are the messages so far, `token` is the ticket of a contained command."""
        call, snapshot = self.call, ""
        outcome = Outcome(
            output.ok,
            output.exit_code,
            "" if output.ok else sanitise_line(output.text, MAX_SUMMARY_CHARS),
            positions=output.positions,
            read_only=has_read_only_error(output.text),
        )
        for judge in self.judges:
            if judge is not self.context and is_new_worktree(judge, call):
                continue
            _, pending = judge.state.find_same_call(call)
            snapshot = pending.snapshot if pending else snapshot
            after = remember(judge, call, outcome, self.hooks, token, in_process=True)
            words = join_lines(words, after.context)
        if self.context in self.judges:
            words = join_lines(words, PendingMessages(self.context.state).take_messages(call.session))
        return Performed(decision, output, (words,) if words else (), snapshot=snapshot or None)


def find_fate(context: WorkspaceContext, session: SessionKey, call_id: str) -> Fate:
    """Return what became of a call. A call is open until the state is up to date, also if its result is recorded
    already. Raises RECORDING_ERRORS.
    """
    if not context.is_governed:
        return NEVER
    context.resumed_calls.add((session, call_id))
    if any((c.session, c.call_id) == (session, call_id) for c in context.state.list_open_calls()):
        return OPEN
    with context.index() as index:
        found = index.find(event="tool_result", session_id=session.session_id, limit=MAX_RESULTS)
    for document in found:
        body: dict[str, Any] = document["metadata"][KEY]
        if body.get("call", {}).get("id") == call_id and body.get("agent_id", "") == session.agent_id:
            return Fate("returned", body["result"].get("ok"), body["result"].get("exit_code"))
    return NEVER


def revert_files(context: WorkspaceContext, session: SessionKey, call_id: str) -> tuple[str, ...]:
    """Give the files of an open file tool's call that have the announced contents their former contents; return
    the paths with unexpected contents, and revert none if there are any.
    """
    found = (c.pending for c in context.state.list_open_calls() if (c.session, c.call_id) == (session, call_id))
    pending = next(found, None)
    if pending is None or pending.whole:
        return ()
    root, to_revert, foreign = context.workspace.root, dict[str, ObservedFile | None](), list[str]()
    may_delete = bool(pending.announced) or pending.effect == "delete"
    for path, before in pending.before.items():
        now, kept = try_observe_file(root / path), context.load_version(before)
        blob, was = now.version.git_blob if now else None, before.git_blob if before else None
        if blob == was:
            continue
        is_own = blob == pending.announced[path] if path in pending.announced else may_delete and now is None
        is_kept = before is None or (before.mode != "120000" and kept is not None and kept.content is not None)
        if is_own and is_kept:
            to_revert[path] = kept
        else:
            foreign.append(path)
    for path, kept in to_revert.items() if not foreign else ():
        place = root / path
        if kept is None or kept.content is None:
            remove_below(root, place, follow_links=False)
            continue
        permissions = stat.S_IMODE(place.lstat().st_mode) if place.is_file() else int(kept.version.mode[-3:], 8)
        token = temporary_token(session, call_id)
        write_below(root, place, kept.content, permissions=permissions, follow_links=False, token=token)
    return tuple(foreign)
