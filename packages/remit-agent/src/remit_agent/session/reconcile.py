"""The state of calls without a result, after a crash.

| journal | gate | then |
|---|---|---|
| – | never | the call runs as if new |
| – | open, files | files with the announced content get their earlier content back; the call runs again |
| – | open, files with unexpected contents | written by another program or person: interrupted |
| the tool's own word | open | the call is compared, recorded and answered |
| the tool's own word | returned | the call is answered |
| – | open, contained | the staged files are dropped; the call runs again |
| begun | open, bare or foreign | never again by itself: interrupted |
| – | open, harmless | the call runs again |
| – | returned | the effects are recorded, the tool's own word is lost: the result names the loss |

A command in the background has its result, but no end: it is never run again.
"""

from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from remit.core.call import Citation, SessionKey
from remit.core.decision import UNGOVERNED_DECISION
from remit.gate.context import RECORDING_ERRORS
from remit.gate.gate import Gate
from remit.gate.perform import Performed, ToolOutput, WorkspaceAccess
from remit.gate.state.workspace_state import PendingCall
from remit_agent.models.messages import ToolCallPart
from remit_agent.session.calls import (
    act_safely,
    check_call,
    make_command_end,
    make_failure_line,
    make_result_line,
    perform_call,
    prepare_call,
)
from remit_agent.session.journal.lines import PerformedLine, ResultLine, ResumedLine
from remit_agent.session.run import Run
from remit_agent.tools.tool import ToolFailure

FILE_EFFECTS = ("write", "delete")
LOST_REMARKS = (
    "The run was interrupted before Remit's remarks on this call were delivered; `remit show` has its record."
)
UNREPEATABLE_TOOLS = frozenset(("record_lesson", "propose_intent", "request_scope_expansion", "complete_intent"))
"""Tools of Remit whose effects a second call would double."""


class WayOn(Struct, frozen=True):
    """Continuation of a call: with a result; or by a run, with `performed` if the tool acted already."""

    fate: str
    result: ResultLine | None = None
    performed: ToolOutput | None = None


async def reconcile_calls(run: Run) -> None:
    """Answer the calls that may have acted before the interruption of the run; leave the remaining calls to be run."""
    calls = run.history.unanswered_calls
    fates: dict[str, str] = {}
    for call in calls:
        found = await run.access.run(lambda gate, call=call: find_way_on(run, gate, call))
        fates[call.id] = found.fate
        if found.result is not None:
            run.append(found.result)
        elif found.performed is not None:
            run.append(await run.access.run_in_thread(lambda c=call, f=found: perform_again(run, c, f.performed)))
    for call in list(run.history.background.values()):
        found = await run.access.run(lambda gate, call=call: find_way_on(run, gate, call))
        fates[call.id] = found.fate
        result = found.result or await run.access.run(lambda gate, c=call, f=found: end_command(run, gate, c, f))
        run.append(make_command_end(result))
    run.append(ResumedLine(reconciled=fates))
    run.is_resumed = False


def perform_again(run: Run, call: ToolCallPart, performed: ToolOutput | None) -> ResultLine:
    try:
        return perform_call(run, check_call(run, call, (call,), ()), performed)
    except ToolFailure as failure:
        return make_failure_line(call, failure)


def end_command(run: Run, gate: Gate, call: ToolCallPart, found: WayOn) -> ResultLine:
    if found.performed is not None:
        return perform_again(run, call, found.performed)
    pending = find_pending(gate, run.session, call.id)
    if pending is not None:
        return interrupt(run, gate, call, pending, "its command in the background ended with it")
    return make_output_line(call, None)


def find_way_on(run: Run, gate: Gate, call: ToolCallPart) -> WayOn:
    journaled = run.history.performed.get(call.id)
    output = restore_output(journaled) if journaled else None
    try:
        fate = gate.fate(run.session, call.id)
    except RECORDING_ERRORS as error:
        failure = ToolFailure("INTERRUPTED", f"the run was interrupted, and Remit's records cannot be read ({error})")
        return WayOn("unknown", make_failure_line(call, failure))
    tool = run.toolbox.find_tool(call.tool)
    if tool is None or (fate.state == "never" and output is None):
        return WayOn(fate.state)
    if tool.is_read:
        return WayOn(fate.state, repeat_read(run, gate, call) if fate.state == "returned" else None)
    if fate.state == "returned":
        return WayOn("returned", make_output_line(call, output))
    pending = find_pending(gate, run.session, call.id)
    if pending is None:
        return WayOn(fate.state, performed=output)
    if pending.effect in FILE_EFFECTS and not pending.whole:
        foreign = gate.revert_files(run.session, call.id)
        if not foreign:
            return WayOn("open")
        if output is not None:
            return WayOn("performed", make_result_line(run, call, close_call(run, gate, call, pending, output)))
        return WayOn("foreign", interrupt(run, gate, call, pending, f"{', '.join(foreign)} changed meanwhile"))
    if output is not None:
        return WayOn("performed", performed=output)
    if pending.verdict != "contain" and (call.id in run.history.begun or pending.effect in ("execute", "network")):
        return WayOn("begun", interrupt(run, gate, call, pending, "it ran bare, and may have done its work"))
    if call.tool in UNREPEATABLE_TOOLS:
        return WayOn("open", interrupt(run, gate, call, pending, "it may have done its work"))
    return WayOn("open")


def close_call(run: Run, gate: Gate, call: ToolCallPart, pending: PendingCall, output: ToolOutput) -> Performed:
    made = replace(run.make_call(call, Citation()), effect=pending.effect, paths=pending.judged)
    if pending.whole:
        with suppress(ToolFailure):
            made = prepare_call(run, check_call(run, call, (call,), ())).call
    return gate.perform(made, lambda _: output, performed=output)


def interrupt(run: Run, gate: Gate, call: ToolCallPart, pending: PendingCall, why: str) -> ResultLine:
    """Return the result of a call that may have acted, without a second run; its effects are recorded."""
    failure = ToolFailure(
        "INTERRUPTED",
        f"the run was interrupted during this call: {why}. Look at what is there before calling it again",
        "read_file",
    )
    text = failure.describe()
    done = close_call(run, gate, call, pending, ToolOutput(ok=False, text=text))
    told = "\n".join(done.messages)
    return ResultLine(id=call.id, kind="interrupted", text=text, told=told, error=failure.error_type)


def repeat_read(run: Run, gate: Gate, call: ToolCallPart) -> ResultLine:
    """Return the result of a read allowed and recorded before, without a second record."""
    try:
        prepared = prepare_call(run, check_call(run, call, (call,), ()))
        return make_result_line(
            run, call, Performed(UNGOVERNED_DECISION, act_safely(prepared, WorkspaceAccess(gate, prepared.call, ())))
        )
    except ToolFailure as failure:
        return make_failure_line(call, failure)


def restore_output(line: PerformedLine) -> ToolOutput:
    return ToolOutput(line.ok, line.text, line.data, line.exit_code, line.positions)


def make_output_line(call: ToolCallPart, output: ToolOutput | None) -> ResultLine:
    if output is None:
        lost = "It ended before the run was interrupted, and its own words are lost; `remit show` has its effects."
        return ResultLine(id=call.id, kind="interrupted", text=lost, error="INTERRUPTED")
    kind = "done" if output.ok else "failed"
    return ResultLine(id=call.id, kind=kind, text=output.text, told=LOST_REMARKS)


def find_pending(gate: Gate, session: SessionKey, call_id: str) -> PendingCall | None:
    found = (c.pending for c in gate.state.list_open_calls() if (c.session, c.call_id) == (session, call_id))
    return next(found, None)
