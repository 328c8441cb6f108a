"""Steps 2, 3 and 7: one function answers every hook call, in a fresh process or in the daemon.

Remit's own shell commands in an agent's call, such as `remit intent select ID`, are performed here: an agent's
sandboxed shell may reach neither Remit's state nor its daemon. The command itself only prints.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.adapters import AdapterError, HookReply, parse, render, render_notice
from remit.core.agents import ROWS
from remit.core.bounds import PAYLOAD_BYTES
from remit.core.call import (
    ACTING_COMMANDS,
    AfterCall,
    BeforeCall,
    HookEvent,
    IgnoredEvent,
    PromptGiven,
    SessionEnded,
    SessionStarted,
    ToolCall,
    TurnEnded,
)
from remit.core.decision import Decision, explain
from remit.core.intent import IllegalTransition
from remit.core.machine_paths import CONFIG_PATH
from remit.core.untrusted_input import escape_surrogates
from remit.gate.context import RECORDING_ERRORS, Answer, join_lines
from remit.gate.effects.other_writers import add_session_with_commands
from remit.gate.enforce import answer_unrecordable, find_ways
from remit.gate.gate import Gate
from remit.gate.governing.rules import load_rules
from remit.gate.governing.workspaces import MAX_PLACES, find_named_places, find_named_workspaces, find_workspace_of_call
from remit.gate.intents.lessons import CHECKBOXES, LessonError, LessonsWriter, TodoItem
from remit.gate.intents.refusals import IntentRefused
from remit.gate.machine import HOOK_PID, Environment
from remit.gate.people.messages import PendingMessages
from remit.gate.records.call_records import failed_event_record
from remit.gate.remember import is_new_worktree
from remit.policy.commands import analyse
from remit.policy.decide import classify
from remit.workspace.agents.marked_blocks import KIND_BY_NAME, BrainEntry
from remit.workspace.intents_file.storage import EditRefused
from remit.workspace.place.workspace import Workspace, locate_workspace, path_exists, read_session_homes

if TYPE_CHECKING:
    from remit.gate.intents.intents import SelectedIntent
    from remit.tools.agent_tool import Caller

EventClass = Literal["pre", "post", "note"]
EVENT_CLASSES: tuple[EventClass, ...] = ("pre", "post", "note")

LESSON_OPTIONS = frozenset({"--kind", "--problem", "--resolution", "--pattern", "--path", "--intent"})
"""Options of `remit lesson`, each with a value. Repeated here because a hook has no time to load click."""


class IntentStep(Struct, frozen=True):
    """The shell form of a tool: its operand, its options by the tool's arguments, and the arguments that are lists."""

    tool: str
    subject: str
    options: dict[str, str]
    lists: frozenset[str] = frozenset()
    required: frozenset[str] = frozenset()


INTENT_STEPS = {
    "select": IntentStep(
        "select_active_intent",
        "intent_id",
        {"--reasoning": "reasoning", "--expect": "expected_mutations"},
        lists=frozenset(("expected_mutations",)),
    ),
    "complete": IntentStep(
        "complete_intent",
        "intent_id",
        {"--notes": "verification_notes"},
        required=frozenset(("verification_notes",)),
    ),
    "propose": IntentStep(
        "propose_intent",
        "name",
        {"--scope": "owned_scope", "--criterion": "criteria", "--constraint": "constraints", "--why": "reason"},
        lists=frozenset(("owned_scope", "criteria", "constraints")),
        required=frozenset(("owned_scope", "reason")),
    ),
    "widen": IntentStep(
        "request_scope_expansion",
        "paths",
        {"--why": "reason"},
        lists=frozenset(("paths",)),
        required=frozenset(("reason",)),
    ),
}


class HookFrame(Struct, frozen=True):
    """Metadata of a payload. Only the event class `pre` may refuse; without a class the payload decides."""

    agent: str
    cwd: str
    event_class: EventClass | None = None
    pid: int = 0
    attempt_root: str = ""
    """Root of the worktree whose agent sent the payload from its jail: it speaks for no other workspace."""


def parse_event_class(word: str) -> EventClass | None:
    return next((known for known in EVENT_CLASSES if known == word), None)


OpenGate: TypeAlias = Callable[[Workspace | None, Environment], AbstractContextManager[Gate]]


def open_fresh_gate(workspace: Workspace | None, environment: Environment) -> AbstractContextManager[Gate]:
    return nullcontext(Gate(workspace, environment))


def answer(payload: bytes, frame: HookFrame, environment: Environment, gates: OpenGate = open_fresh_gate) -> HookReply:
    """Return the agent's answer to one hook payload. Never raises: an internal failure becomes a denial if one is due.

    `gates` opens a gate; the daemon passes a function with a cache of open gates.
    """
    try:
        return answer_event(payload, frame, environment, gates)
    except AdapterError as error:
        why = f"{error}. Update Remit, or tell the person: `remit doctor` shows the wiring"
    except Exception as error:  # noqa: BLE001  an agent runs the tool when its hook crashes, so no failure may escape
        why = f"Remit broke on this call ({type(error).__name__}: {str(error)[:300]})"
    record_failure(payload, frame, environment, why)
    return refuse_payload(payload, frame, environment, why)


def answer_event(payload: bytes, frame: HookFrame, environment: Environment, gates: OpenGate) -> HookReply:
    """Parse the payload, ask the gates, and render the answer. Raises AdapterError for an unreadable payload."""
    if len(payload) > PAYLOAD_BYTES.value:
        raise AdapterError(frame.agent, f"it is larger than {PAYLOAD_BYTES.value // 1024 // 1024} MiB")
    event = parse(frame.agent, payload)
    if isinstance(event, BeforeCall):
        event = BeforeCall(replace(event.call, hook_pid=frame.pid))
    HOOK_PID.set(frame.pid)
    found = ask_gates(event, frame, environment, gates)
    if isinstance(event, TurnEnded | SessionEnded) and found.context:
        failures = f"remit: {escape_surrogates(found.context)}\n".encode()
        return HookReply(render_notice(frame.agent, found.message), failures)
    if isinstance(event, TurnEnded) and found.message:
        return HookReply(render_notice(frame.agent, found.message))
    return render(frame.agent, event, found.decision, found.reason, found.context, found.arguments, found.permission)


def ask_gates(event: HookEvent, frame: HookFrame, environment: Environment, gates: OpenGate) -> Answer:
    contexts = adopt_reached_clones(event, frame, environment)
    governing = find_governing_workspace(event, frame, environment)
    if frame.attempt_root and (governing is None or str(governing.root) != frame.attempt_root):
        return refuse_foreign_event(frame, governing)
    others: list[Workspace] = []
    if isinstance(event, BeforeCall | AfterCall):
        others = find_named_workspaces(event.call, governing, environment.home)
    if frame.attempt_root and others:
        if isinstance(event, BeforeCall):
            return refuse_foreign_event(frame, others[0])
        others = []  # the gates of others hear of no event
    question: Answer | None = None
    if isinstance(event, BeforeCall):
        contexts += note_work_elsewhere(event.call, governing, others, environment, gates)
        if governing is not None and governing.is_governed:
            event = BeforeCall(replace(event.call, governing_root=str(governing.root)))
    for workspace in others:
        with gates(workspace, environment) as gate:
            if isinstance(event, AfterCall) and is_new_worktree(gate, event.call):
                contexts.append(
                    f"Remit: {workspace.root} is a work tree of its own now, governed as this one is. "
                    "Select an intent there to work in it."
                )
                continue
            other = handle_event(gate, event, frame)
        if other.decision.effect not in ("allow", "ask"):
            return other
        question = other if other.decision.effect == "ask" else question
        contexts.append(other.context)
    with gates(governing, environment) as gate:
        found = handle_event(gate, event, frame)
    if question is not None and found.decision.effect != "deny":
        found = replace(found, decision=question.decision, reason=question.reason)
    return replace(found, context=join_lines(*contexts, found.context)) if any(contexts) else found


def adopt_reached_clones(event: HookEvent, frame: HookFrame, environment: Environment) -> list[str]:
    home = str(environment.home)
    is_begin = isinstance(event, BeforeCall | SessionStarted | PromptGiven)
    if frame.attempt_root or not is_begin or not path_exists(f"{home}/{CONFIG_PATH}"):
        return []
    # Imported here: most people have no such settings.
    from remit.gate.people.adoption import adopt_by_pattern

    places = [getattr(event, "cwd", "") or frame.cwd]
    if isinstance(event, BeforeCall):
        call = event.call
        places = [call.cwd, *(str(Path(call.cwd, raw).parent) for raw in call.paths)]
        places += islice(find_named_places(call.command or "", call.cwd, home, named_only=True), MAX_PLACES)
    return adopt_by_pattern(places, environment.home)


def note_work_elsewhere(
    call: ToolCall, governing: Workspace | None, others: Sequence[Workspace], environment: Environment, gates: OpenGate
) -> list[str]:
    """Tell a session that stands in a governed workspace other than its own; and note, where none of the session's
    workspaces judges its call, in each of them that the call may change files there. Raises RECORDING_ERRORS.
    """
    if not call.whole_workspace or classify(call) != "destructive":
        return []
    judging = {str(workspace.root) for workspace in (*others, *([governing] if governing is not None else []))}
    homes = [entry.root for entry in read_session_homes(environment.home, call.session.session_id)]
    for root in homes if judging.isdisjoint(homes) else ():
        workspace = locate_workspace(Path(root))
        if workspace is not None and workspace.is_governed:
            with gates(workspace, environment) as gate:
                add_session_with_commands(gate.state, call.session.session_id)
    own = locate_workspace(Path(call.cwd)) if others else None
    if own is None or own not in others or governing is None:
        return []
    return [
        f"Remit: this session works in {governing.root}; its commands only read {own.root}. "
        "Select an intent there, or start a session there, to work in it."
    ]


def refuse_foreign_event(frame: HookFrame, named: Workspace | None) -> Answer:
    decision = Decision("deny", "deny", "destructive", "enforce")
    place = repr(str(named.root)) if named is not None else "a folder outside"
    reason = f"remit: this agent works in {frame.attempt_root!r}, and speaks for no call in {place}"
    return Answer(decision, reason=reason)


def handle_event(gate: Gate, event: HookEvent, frame: HookFrame) -> Answer:
    agent = frame.agent
    passed = Decision("allow", "allow", "safe", "observe")
    match event:
        case BeforeCall(call):
            return run_remit_command(gate, call, frame) or gate.before(call)
        case AfterCall(call, outcome, failed):
            answer = gate.after(call, outcome)
            if outcome.lacks_remit:
                return answer.with_notice(speak_for_command(gate, call))
            return answer.with_notice(finish_asked_command(gate, call, frame)) if outcome.ok and not failed else answer
        case SessionStarted():
            return Answer(passed, context=gate.begin_session(event, agent))
        case PromptGiven(session):
            return Answer(passed, context=gate.receive_prompt(session, agent))
        case SessionEnded():
            return Answer(passed, context=gate.end_session(event, agent))
        case TurnEnded(session):
            return Answer(passed, context=gate.end_turn(session), message=gate.describe_turn(session))
        case IgnoredEvent():
            return Answer(passed)


def find_governing_workspace(event: HookEvent, frame: HookFrame, environment: Environment) -> Workspace | None:
    if isinstance(event, BeforeCall | AfterCall):
        return find_workspace_of_call(event.call, environment.home)
    return locate_workspace(Path(getattr(event, "cwd", "") or frame.cwd))


def record_failure(payload: bytes, frame: HookFrame, environment: Environment, why: str) -> None:
    """Record an event that could not be answered, in the log or the spool, as far as the payload can be read."""
    try:
        event: HookEvent | None = None
        with suppress(AdapterError):
            event = parse(frame.agent, payload[: PAYLOAD_BYTES.value + 1])
        folder = frame.attempt_root or getattr(event, "cwd", "") or frame.cwd
        gate = Gate(locate_workspace(Path(folder)), environment)
        if gate.is_governed:
            call = event.call if isinstance(event, BeforeCall | AfterCall) else None
            gate.recorder.append_or_spool([failed_event_record(gate.recorder, frame.agent, call, why)])
        gate.close()
    except Exception:  # noqa: BLE001  what broke the answer may break this too, and the answer tells the person
        return


def refuse_payload(payload: bytes, frame: HookFrame, environment: Environment, why: str) -> HookReply:
    """Return exit code 2 with a reason on stderr in an enforcing workspace; elsewhere the reason alone.

    Every agent takes exit code 2 as a denial; on any event but `pre` the code would do harm.
    """
    text = f"remit: {escape_surrogates(why)}\n".encode()
    folders = find_candidate_folders(payload, frame) if can_refuse(payload, frame) else ()
    is_refused = any(is_enforcing_folder(folder, environment) for folder in folders)
    return HookReply(stderr=text, exit_code=2 if is_refused else 0)


def can_refuse(payload: bytes, frame: HookFrame) -> bool:
    """Return True if the event can be refused: by its class, else unless the payload names only other events."""
    if frame.event_class is not None:
        return frame.event_class == "pre"
    events = ROWS[frame.agent].events if frame.agent in ROWS else {}
    named = {kind for name, kind in events.items() if b'"%s"' % name.encode() in payload}
    return not named or "before" in named


def find_candidate_folders(payload: bytes, frame: HookFrame) -> Iterator[str]:
    yield frame.attempt_root or frame.cwd
    if frame.attempt_root:
        return
    try:
        event = parse(frame.agent, payload[: PAYLOAD_BYTES.value + 1])
    except Exception:  # noqa: BLE001  what broke the answer breaks this too; where we were started is known all the same
        return
    if not isinstance(event, BeforeCall | AfterCall):
        yield event.cwd
        return
    yield event.call.cwd
    yield from (str(Path(event.call.cwd, raw).parent) for raw in event.call.paths if "\0" not in raw)


def is_enforcing_folder(place: str, environment: Environment) -> bool:
    try:
        gate = Gate.open(place, environment)
        return gate.is_governed and load_rules(gate.workspace).mode == "enforce"
    except Exception:  # noqa: BLE001  whatever broke the answer may break this too: then the careful side
        return True


# -- Remit's own commands ------------------------------------------------------------------------------------


def run_remit_command(gate: Gate, call: ToolCall, frame: HookFrame) -> Answer | None:
    """Run a shell call that is literally a Remit command and return its answer; None for any other call."""
    words = find_remit_words(gate, call)
    if words is None:
        return None
    try:
        return perform_command(gate, call, words, frame)
    except IntentRefused as refused:
        reason = explain(refused.violation, find_ways(gate, call))
        return Answer(Decision("deny", "deny", "meta", gate.read_mode()), reason=reason)
    except (LessonError, EditRefused, IllegalTransition, ValueError) as error:
        return Answer(Decision("deny", "deny", "meta", gate.read_mode()), reason=f"remit: {error}")
    except RECORDING_ERRORS as error:
        return answer_unrecordable(gate, call, error)


def find_remit_words(gate: Gate, call: ToolCall) -> tuple[str, ...] | None:
    words = analyse(call.command).remit_words if call.command is not None and "remit" in call.command else None
    return words if words is not None and gate.is_governed and classify(call) == "meta" else None


def perform_command(gate: Gate, call: ToolCall, words: tuple[str, ...], frame: HookFrame) -> Answer | None:
    """Perform the command for the hook's session; None for an unknown command."""
    lessons = LessonsWriter(gate)
    # The session's intent may have another label by now.
    gate.notice_rules(gate.rules)
    match words:
        case ("intent", "clear"):
            gate.intents.clear(call.session, call.agent)
        case ("intent", name, *rest) if (asked := parse_intent_step(name, rest)) is not None:
            return begin_intent_step(gate, call, *asked, frame)
        case ("lesson", *rest) if (wanted := parse_lesson(rest)) is not None:
            lessons.record_lesson(call.session, call.agent, wanted)
        case ("todo", *items) if items and not any(item.startswith("-") for item in items):
            lessons.write_todo(call.session, call.agent, [*map(parse_todo_item, items)])
        case _:
            return None
    return gate.before(call)


def speak_for_command(gate: Gate, call: ToolCall) -> str:
    if call.command is None or not gate.is_governed:
        return ""
    words = analyse(call.command).remit_words or ()
    if not ACTING_COMMANDS & {words[:1], words[:2]}:
        return ""
    if gate.state.is_person_asked(call.session, call.call_id):
        return "Remit: nothing was done, as this shell does not find `remit`. Ask the person to put it on its PATH."
    done = "Remit: this shell does not find `remit`, but the hook of this call has done what the command says."
    with suppress(*RECORDING_ERRORS):
        return join_lines(done, gate.intents.deliver_block(call.session))
    return done


def begin_intent_step(gate: Gate, call: ToolCall, tool: str, arguments: dict[str, Any], frame: HookFrame) -> Answer:
    """Do what the tool does, or let the agent's own dialog ask its person first. The tool's words wait for the result
    where the command itself cannot print them. Raises IntentRefused, ValueError.
    """
    said = select_unasked(gate, call, arguments) if tool == "select_active_intent" else None
    if said is None:
        # Imported here: the tools take a third of a second to load, and few calls are such a command.
        from remit.servers.agent_dialog import find_caller, make_dialog_question
        from remit.tools.agent_tool import NeedsPerson

        caller = find_caller(gate, call, is_attempt=bool(frame.attempt_root))
        try:
            said = run_intent_step(gate, call, caller, tool, arguments)
        except NeedsPerson as needed:
            return gate.before(call, make_dialog_question(call, needed.question))
    PendingMessages(gate.state).add_message(call.session, said)
    return gate.before(call)


def finish_asked_command(gate: Gate, call: ToolCall, frame: HookFrame) -> str:
    match find_remit_words(gate, call):
        case ("intent", name, *rest) if (asked := parse_intent_step(name, rest)) is not None:
            # Imported here: few calls are such a command.
            from remit.servers.agent_dialog import take_answer
            from remit.tools.agent_tool import NeedsPerson

            try:
                caller = take_answer(gate, call, is_attempt=bool(frame.attempt_root))
                return run_intent_step(gate, call, caller, *asked) if caller is not None else ""
            except IntentRefused as refused:
                return explain(refused.violation, find_ways(gate, call))
            except (*RECORDING_ERRORS, EditRefused, IllegalTransition, NeedsPerson, ValueError) as error:
                return f"remit: nothing was done: {error}"
        case _:
            return ""


def select_unasked(gate: Gate, call: ToolCall, arguments: dict[str, Any]) -> str | None:
    """Select an intent and return the warnings; None if a person has to be asked. Raises IntentRefused."""
    session, agent, intent_id = call.session, call.agent, arguments["intent_id"]
    why, expected = arguments.get("reasoning", ""), arguments.get("expected_mutations", ())
    try:
        found = gate.intents.select(session, agent, intent_id, reasoning=why, expected=expected, tool=call.tool)
    except IntentRefused as refused:
        if refused.violation.error_type != "INTENT_SWITCH_NEEDS_PERSON":
            raise
        return None
    return describe_selection(found)


def describe_selection(selected: "SelectedIntent") -> str:
    return "\n".join(f"Warning: {warning}" for warning in selected.warnings)


def run_intent_step(gate: Gate, call: ToolCall, caller: "Caller", tool: str, arguments: dict[str, Any]) -> str:
    """Do what the tool does for this caller; return what the command itself cannot print. Raises IntentRefused,
    ValueError; NeedsPerson to use the agent's dialog.
    """
    from remit.tools.asking import select_for_agent
    from remit.tools.catalogue import run_for_shell

    if tool == "select_active_intent":
        why, expected = arguments.get("reasoning", ""), arguments.get("expected_mutations", ())
        return describe_selection(select_for_agent(gate, caller, arguments["intent_id"], call.tool, why, expected))
    answer = run_for_shell(gate, caller, tool, arguments)
    return answer if tool in ("propose_intent", "request_scope_expansion") else ""


def read_options(words: Sequence[str], options: Collection[str]) -> tuple[list[str], dict[str, list[str]]] | None:
    """Return the texts and the values of the options, each of which takes one; None for an unknown option."""
    texts: list[str] = []
    given: dict[str, list[str]] = {}
    left = iter(words)
    for word in left:
        name, joined, value = word.partition("=")
        if not word.startswith("-"):
            texts.append(word)
        elif name in options:
            given.setdefault(name, []).append(value if joined else next(left, ""))
        else:
            return None
    return texts, given


def parse_intent_step(name: str, words: Sequence[str]) -> tuple[str, dict[str, Any]] | None:
    """Return the tool and the arguments of `remit intent NAME …`; None for invalid words: the command itself explains.

    Of an option that takes one value, the last one counts.
    """
    step = INTENT_STEPS.get(name)
    read = read_options([word for word in words if word != "--json"], step.options) if step is not None else None
    if step is None or read is None:
        return None
    texts, given = read
    arguments: dict[str, Any] = {}
    if step.subject in step.lists:
        arguments[step.subject] = texts
    elif len(texts) == 1:
        arguments[step.subject] = texts[0]
    else:
        return None
    for option, values in given.items():
        field = step.options[option]
        arguments[field] = values if field in step.lists else values[-1]
    return (step.tool, arguments) if step.required <= arguments.keys() and texts else None


def parse_lesson(words: Sequence[str]) -> BrainEntry | None:
    """Return the entry of `remit lesson TEXT [--kind …] …`; None for invalid words: the command itself explains."""
    read = read_options(words, LESSON_OPTIONS)
    if read is None:
        return None
    texts, given = read
    kind = KIND_BY_NAME.get(given.get("--kind", ["lesson"])[-1])
    if len(texts) != 1 or kind is None:
        return None
    said = {name: given.get(f"--{name}", [""])[-1] for name in ("problem", "resolution", "pattern")}
    intent_id = given.get("--intent", [None])[-1]
    return BrainEntry(kind, texts[0], intent_id=intent_id, paths=tuple(given.get("--path", ())), **said)


def parse_todo_item(text: str) -> TodoItem:
    """Return an item from shell words: `[x]` marks a done item, `[~]` one in progress."""
    for status, box in CHECKBOXES.items():
        if text.startswith(box):
            return TodoItem(text.removeprefix(box).strip(), status)
    return TodoItem(text)
