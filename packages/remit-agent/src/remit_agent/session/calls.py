"""The calls of a turn: checked, ordered, performed, and answered with exactly one result each.

| check, in this order | failure |
|---|---|
| the arguments are a JSON object | UNREADABLE_ARGUMENTS |
| the tool is known | UNKNOWN_TOOL |
| the arguments fit the tool's schema | INVALID_ARGUMENTS |
| the mode offers the tool | UNAVAILABLE |
| the call may stand beside the other calls of its turn | NOT_ALONE |
| the call does not repeat itself | REPEATED |
| the gate allows it | the violation |

Consecutive reads run side by side. Calls with effects run in sequence, in the turn's order.
"""

import asyncio
import difflib
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from remit.core.call import MUTATION_CLASSES, Citation
from remit.core.python_runtime import prepare_type
from remit.core.untrusted_input import as_object, sanitise_line
from remit.gate.context import RECORDING_ERRORS
from remit.gate.perform import Performed, ToolOutput, WorkspaceAccess
from remit_agent.models.messages import ImageRef, ModelTurn, ToolCallPart, name_output
from remit_agent.session.events import CallBegun, OutputGrew
from remit_agent.session.journal.history import EXEMPT_FROM_REPETITION, REPETITION_ERROR, is_repetition, make_signature
from remit_agent.session.journal.lines import BegunLine, CommandEndedLine, PerformedLine, ResultLine
from remit_agent.session.run import Run
from remit_agent.tools.commands import ExecuteCommand, show_output
from remit_agent.tools.tool import HostTool, PreparedCall, ToolContext, ToolFailure

MAX_READS_AT_ONCE = 8
MAX_BACKGROUND = 4  # commands of a run in the background
OUTPUT_INTERVAL_S = 0.25
SAFE_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
INVALID_TOOL = "invalid"
CITATION_KEYS = ("intent_id", "mutation_class", "expected_content_hash")
OUTLIVING_EFFECTS = ("execute", "network")
"""Effects of calls that outlive a moment: the journal says before that they begin."""


class CheckedCall(Struct, frozen=True):
    """A call that may go to the gate."""

    part: ToolCallPart
    tool: HostTool
    arguments: Any
    citation: Citation = Citation()


# 1 The turn as it comes from the provider


def accept_turn(turn: ModelTurn, known_ids: Iterable[str]) -> ModelTurn:
    """Return the turn with safe tool names and ids unique in the run. Of a turn cut at the output
    limit, an incomplete call is left out.
    """
    taken, parts = set(known_ids), list(turn.parts)
    if turn.stop == "length" and parts and isinstance(last := parts[-1], ToolCallPart) and last.arguments is None:
        parts.pop()
    for place, part in enumerate(parts):
        if isinstance(part, ToolCallPart):
            tool = part.tool if SAFE_NAME.fullmatch(part.tool) else INVALID_TOOL
            plain = part.id if SAFE_NAME.fullmatch(part.id) else f"call_{len(taken) + 1}"
            ids = (plain, *(f"{plain[:56]}_{number}" for number in range(2, 10)))
            fresh = next((name for name in ids if name not in taken), "") or find_free_id(taken)
            taken.add(fresh)
            parts[place] = replace(part, id=fresh, tool=tool)
    return replace(turn, parts=tuple(parts))


def find_free_id(taken: set[str]) -> str:
    return next(name for number in count(len(taken)) if (name := f"call_{number}") not in taken)


# 2 Checks


def check_call(run: Run, call: ToolCallPart, turn: Sequence[ToolCallPart], signatures: Sequence[str]) -> CheckedCall:
    """Return the call ready for its tool. Raises ToolFailure."""
    if call.arguments is None:
        raise ToolFailure("UNREADABLE_ARGUMENTS", f"the arguments are no JSON object: {find_json_error(call.raw)}")
    tool = run.toolbox.find_tool(call.tool)
    if tool is None:
        near = difflib.get_close_matches(call.tool, run.toolbox.list_names(), 3, 0.5)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise ToolFailure("UNKNOWN_TOOL", f"there is no tool {call.tool!r}{hint}", "use_an_offered_tool")
    given, citation = call.arguments, Citation()
    if tool.cites_intent:
        cited = {key: given[key] for key in CITATION_KEYS if given.get(key) is not None}
        try:
            citation = msgspec.convert(cited, prepare_type(Citation))
        except msgspec.ValidationError as error:
            raise ToolFailure("INVALID_ARGUMENTS", f"{tool.name}: {error}") from None
        if citation.mutation_class not in (None, *MUTATION_CLASSES):
            raise ToolFailure("INVALID_ARGUMENTS", f"mutation_class is one of {', '.join(MUTATION_CLASSES)}")
        given = {key: value for key, value in given.items() if key not in CITATION_KEYS}
    try:
        arguments = msgspec.convert(given, prepare_type(tool.arguments))
    except msgspec.ValidationError as error:
        raise ToolFailure("INVALID_ARGUMENTS", f"{tool.name}: {error}") from None
    mode = run.history.mode
    if not run.toolbox.is_offered(tool, mode):
        raise ToolFailure("UNAVAILABLE", f"the mode {mode!r} has no tool {tool.name!r}", "switch_mode")
    if tool.alone and len(turn) > 1:
        raise ToolFailure("NOT_ALONE", f"{tool.name} must be the only call of its turn", "call_it_alone")
    signature = make_signature(call)
    # A cycle goes on at the call that was refused, or at the one behind it.
    pasts = (signatures, (*signatures, *run.history.refused_signatures))
    if tool.name not in EXEMPT_FROM_REPETITION and any(is_repetition(past, signature) for past in pasts):
        raise ToolFailure(
            REPETITION_ERROR,
            f"{tool.name} with these arguments was called three times already, alone or in a cycle; the answer will "
            "not change",
            "try_another_way",
        )
    return CheckedCall(call, tool, arguments, citation)


def find_json_error(raw: str) -> str:
    try:
        found = msgspec.json.decode(raw.encode("utf-8", "replace"))
    except msgspec.DecodeError as error:
        return f"{error}, after {len(raw)} characters"
    return f"they are {type(found).__name__}"


# 3 Order


def group_calls(run: Run, calls: Sequence[ToolCallPart]) -> Iterator[list[ToolCallPart]]:
    reads: list[ToolCallPart] = []
    for call in calls:
        tool = run.toolbox.find_tool(call.tool)
        if tool is not None and tool.is_read:
            reads.append(call)
            continue
        if reads:
            yield reads
            reads = []
        yield [call]
    if reads:
        yield reads


async def run_calls(run: Run, calls: Sequence[ToolCallPart]) -> None:
    """Give each call its result. A call after a call that ends the turn, an open circuit or a cancel is not
    run, and its result names the reason.
    """
    turn = run.history.last_turn.calls if run.history.last_turn else ()
    limit = asyncio.Semaphore(MAX_READS_AT_ONCE)
    stop: ResultLine | None = find_earlier_stop(run, turn)
    for group in group_calls(run, calls):
        if stop is None and run.cancel.is_set():
            stop = ResultLine(id="", kind="cancelled", text="The person cancelled the turn before this call.")
        if stop is not None:
            for call in group:
                run.append(replace(stop, id=call.id))
            continue
        signatures = [*run.history.signatures]
        checked: list[CheckedCall] = []
        for call in group:
            try:
                checked.append(check_call(run, call, turn, signatures))
                signatures.append(make_signature(call))
            except ToolFailure as failure:
                run.append(make_failure_line(call, failure))
        await asyncio.gather(*(perform_checked_call(run, each, limit) for each in checked))
        stop = find_earlier_stop(run, group)


def find_earlier_stop(run: Run, calls: Sequence[ToolCallPart]) -> ResultLine | None:
    for call in calls:
        result, tool = run.history.results.get(call.id), run.toolbox.find_tool(call.tool)
        if result is None:
            continue
        if tool is not None and tool.ends_turn and result.kind == "done":
            return ResultLine(id="", kind="skipped", text=f"Not run: {tool.name} ended the turn.")
        if run.history.errors.get(call.id) == "CIRCUIT_OPEN":
            return ResultLine(id="", kind="skipped", text="Not run: too many calls in a row were refused or failed.")
    return None


async def perform_checked_call(run: Run, checked: CheckedCall, limit: asyncio.Semaphore) -> None:
    call_id, shown = checked.part.id, 0
    output = Path(run.folder.output_path(name_output(call_id)))
    cancel = run.cancels[call_id] = threading.Event()
    async with limit:
        if run.cancel.is_set():
            cancel.set()
        work = asyncio.ensure_future(run.access.run_in_thread(lambda: perform_call(run, checked, cancel=cancel)))
        while not (await asyncio.wait([work], timeout=OUTPUT_INTERVAL_S))[0]:
            size = output.stat().st_size if output.exists() else 0
            if size != shown:
                shown = size
                run.publish_passing("output", OutputGrew(call_id, size))
            if has_waited(run, checked) and len(run.background) < MAX_BACKGROUND:
                run.append(make_background_line(checked, output))
                run.background[call_id] = asyncio.ensure_future(follow_command(run, call_id, work))
                return
            if has_waited(run, checked):
                cancel.set()
        result = await work
        if cancel.is_set() and not run.cancel.is_set():
            busy = (
                f"Remit ended it after {checked.arguments.timeout:g} s: {MAX_BACKGROUND} others run in the background."
            )
            result = replace(result, told="\n".join(filter(None, (busy, result.told))))
        run.append(result)
    del run.cancels[call_id]


def has_waited(run: Run, checked: CheckedCall) -> bool:
    begun = run.history.begun.get(checked.part.id)
    arguments = checked.arguments
    return isinstance(arguments, ExecuteCommand) and begun is not None and run.clock() - begun.at >= arguments.timeout


def make_background_line(checked: CheckedCall, output: Path) -> ResultLine:
    artifact_id = name_output(checked.part.id)
    shown = show_output(output, artifact_id) if output.is_file() else "(no output)"
    text = (
        f"It still runs after {checked.arguments.timeout:g} s and goes on in the background; you will be told when it "
        f"has ended. Wait for it with read_command_output, or end it with stop_command ({artifact_id}). Files that it "
        f"writes may not be visible to other tools before it has ended. The output so far:\n{shown}"
    )
    return ResultLine(id=checked.part.id, kind="done", text=text, goes_on=True)


async def follow_command(run: Run, call_id: str, work: asyncio.Future[ResultLine]) -> None:
    try:
        run.append(make_command_end(await work))
    finally:
        del run.background[call_id], run.cancels[call_id]


# 4 One call


def perform_call(
    run: Run, checked: CheckedCall, performed: ToolOutput | None = None, cancel: threading.Event | None = None
) -> ResultLine:
    """Return the result of a call through the gate, in a worker thread. `performed` is the tool's output before a
    crash. A broken tool fails its own call only.
    """
    call, access, cancel = checked.part, run.access, cancel or run.cancel
    run.publish_passing("call_begun", CallBegun(call.id, call.tool, call.arguments or {}))
    try:
        prepared = access.run_in_turn(lambda _: prepare_call(run, checked))
        act = JournaledAct(run, checked, prepared)
        done = access.run_in_turn(lambda gate: gate.perform(prepared.call, act, cancel=cancel, performed=performed))
    except ToolFailure as failure:
        return make_failure_line(call, failure)
    except RECORDING_ERRORS as error:
        return make_failure_line(call, ToolFailure("UNAVAILABLE", f"it could not be done and recorded: {error}"))
    except Exception as error:  # noqa: BLE001  a tool that breaks must become the failure of its call
        broken = f"{checked.tool.name} broke: {type(error).__name__}: {sanitise_line(str(error), 300)}"
        return make_failure_line(call, ToolFailure("UNAVAILABLE", broken, "tell_the_person"))
    return make_result_line(run, call, done)


def prepare_call(run: Run, checked: CheckedCall) -> PreparedCall:
    """Return the call as its tool prepares it, in the repository's turn. Raises ToolFailure."""
    context = ToolContext(
        gate=run.access.gate,
        part=checked.part,
        new_call=lambda: run.make_call(checked.part, checked.citation),
        folder=run.folder,
        talk=run.make_talk(checked.part.id),
        has_vision=run.has_vision,
        take_turn=run.access.turn.hold,
    )
    return checked.tool.prepare(context, checked.arguments)


class JournaledAct:
    """The work of a tool, with the tool's own word in the journal before the gate compares. Reads are left out: they
    are run again after a crash.
    """

    def __init__(self, run: Run, checked: CheckedCall, prepared: PreparedCall) -> None:
        self.run, self.checked, self.prepared = run, checked, prepared

    def __call__(self, access: WorkspaceAccess, /) -> ToolOutput:
        call_id, is_read = self.checked.part.id, self.checked.tool.is_read
        if self.prepared.call.effect in OUTLIVING_EFFECTS and not is_read:
            self.run.append(BegunLine(id=call_id))
        output = act_safely(self.prepared, access)
        if not is_read:
            line = PerformedLine(
                id=call_id,
                ok=output.ok,
                text=output.text,
                data=output.data,
                exit_code=output.exit_code,
                positions=output.positions,
            )
            self.run.append(line)
        return output


def act_safely(prepared: PreparedCall, access: WorkspaceAccess) -> ToolOutput:
    """Return the tool's output, also of a tool that failed."""
    try:
        return prepared.act(access)
    except ToolFailure as failure:
        return ToolOutput(ok=False, text=failure.describe(), data={"error_type": failure.error_type})


# 5 Results


def make_failure_line(call: ToolCallPart, failure: ToolFailure) -> ResultLine:
    return ResultLine(id=call.id, kind="failed", text=failure.describe(), error=failure.error_type)


def make_result_line(run: Run, call: ToolCallPart, done: Performed) -> ResultLine:
    told = "\n".join(done.messages)
    if done.output is None:
        error = done.violation.error_type if done.violation else ""
        return ResultLine(id=call.id, kind="denied", text=told, error=error)
    output = done.output
    if not output.text and output.exit_code is not None:
        output = read_command_output(run, call, output.exit_code)
    data = as_object(output.data)
    images = cast(list[Any], data.get("images", []))
    kind = "done" if output.ok else "failed"
    if run.cancel.is_set() and (output.exit_code or not output.ok):
        kind = "cancelled"
    return ResultLine(
        id=call.id,
        kind=kind,
        text=output.text,
        told=told,
        error="" if output.ok else str(data.get("error_type", "")),
        images=tuple(msgspec.convert(image, prepare_type(ImageRef)) for image in images),
        snapshot=done.snapshot,
    )


def make_command_end(result: ResultLine) -> CommandEndedLine:
    """Return the end of a command in the background, from what would have been its call's result."""
    return CommandEndedLine(id=result.id, kind=result.kind, text=result.text, told=result.told, error=result.error)


def read_command_output(run: Run, call: ToolCallPart, code: int) -> ToolOutput:
    """Return the output of a command whose run was interrupted between its end and the tool's own word."""
    artifact_id = name_output(call.id)
    path = Path(run.folder.output_path(artifact_id))
    shown = show_output(path, artifact_id) if path.is_file() else "(no output)"
    return ToolOutput(True, f"Exit code {code}\n{shown}", {"artifact_id": artifact_id}, code)
