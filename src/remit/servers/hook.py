"""Steps 2, 3 and 7: one function answers every hook call, in a fresh process or in a warm one."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.adapters import ROWS, AdapterError, HookReply, notice, parse, render
from remit.core.call import ToolCall
from remit.core.decision import Decision
from remit.core.events import After, Before, HookEvent, Ignored, PromptGiven, SessionEnded, SessionStarted, TurnEnded
from remit.core.repopath import InvalidPath
from remit.core.text import encodable
from remit.gate.answer import Answer, joined
from remit.gate.environment import Environment
from remit.gate.gate import Gate
from remit.gate.governing import governing
from remit.servers.reach import began_with, named_workspaces, words_of_new
from remit.servers.selecting import select_by_command
from remit.workspace.paths import real_paths
from remit.workspace.place import Workspace, locate, located

LIMIT = 64 * 1024 * 1024
"""Bytes of a payload. An agent writes no file of this size in one call."""

EventClass = Literal["pre", "post", "note"]
EVENT_CLASSES: tuple[EventClass, ...] = ("pre", "post", "note")


class Frame(Struct, frozen=True):
    """What comes with the bytes: which agent, where it runs, and which kind of event its settings said this is.

    Only `pre` may refuse. Without an event class the payload itself tells.
    """

    agent: str
    cwd: str
    event_class: EventClass | None = None
    pid: int = 0
    """The client's process; 0 where it is not known."""


def event_class(word: str) -> EventClass | None:
    """The event class of that name; None where there is none."""
    for known in EVENT_CLASSES:
        if known == word:
            return known
    return None


OpenGate: TypeAlias = Callable[[Workspace | None, Environment], AbstractContextManager[Gate]]


def fresh_gate(workspace: Workspace | None, environment: Environment) -> AbstractContextManager[Gate]:
    """A gate for one call."""
    return nullcontext(Gate(workspace, environment))


def answer(payload: bytes, frame: Frame, environment: Environment, gates: OpenGate = fresh_gate) -> HookReply:
    """The agent's answer to one hook payload. Never raises: what breaks here becomes a denial, where one is due.

    `gates` opens a gate; a warm process passes one that keeps them open.
    """
    try:
        return answered(payload, frame, environment, gates)
    except AdapterError as error:
        return unreadable(payload, frame, environment, error)
    except Exception as error:  # noqa: BLE001  an agent runs the tool when its hook crashes, so no failure may escape
        return broken(payload, frame, environment, error)


def answered(payload: bytes, frame: Frame, environment: Environment, gates: OpenGate) -> HookReply:
    """The answer, where nothing breaks."""
    if len(payload) > LIMIT:
        raise AdapterError(frame.agent, f"it is larger than {LIMIT // 1024 // 1024} MiB")
    event = parse(frame.agent, payload)
    if isinstance(event, Before):
        event = Before(replace(event.call, hook_pid=frame.pid))
    found = asked(event, frame, environment, gates)
    if isinstance(event, TurnEnded | SessionEnded) and found.context:
        return HookReply(notice(frame.agent, found.message), f"remit: {encodable(found.context)}\n".encode())
    if isinstance(event, TurnEnded) and found.message:
        return HookReply(notice(frame.agent, found.message))
    return render(frame.agent, event, found.decision, found.reason, found.context, found.arguments, found.permission)


def asked(event: HookEvent, frame: Frame, environment: Environment, gates: OpenGate) -> Answer:
    """What is said by the gates of all workspaces that the event reaches; a refusal of the others comes first."""
    governs = governing_workspace(event, frame, environment)
    context, question = "", None
    reached = named_workspaces(event.call, governs, environment.home) if isinstance(event, Before | After) else []
    for workspace in reached:
        with gates(workspace, environment) as gate:
            if isinstance(event, After) and began_with(gate, event.call):
                context = joined(context, words_of_new(workspace.root))
                continue
            other = handled(gate, event, frame.agent)
        if other.decision.effect not in ("allow", "ask"):
            return other
        question = other if other.decision.effect == "ask" else question
        context = joined(context, other.context)
    with gates(governs, environment) as gate:
        found = handled(gate, event, frame.agent)
    if question is not None and found.decision.effect != "deny":
        found = replace(found, decision=question.decision, reason=question.reason)
    return replace(found, context=joined(context, found.context)) if context else found


def handled(gate: Gate, event: HookEvent, agent: str) -> Answer:
    """What the gate says to this event."""
    silent = Answer(Decision("allow", "allow", "safe", "observe"))
    match event:
        case Before(call):
            return select_by_command(gate, call) or gate.before(call)
        case After(call, outcome):
            return gate.after(call, outcome)
        case SessionStarted():
            return Answer(silent.decision, context=gate.started(event, agent))
        case PromptGiven(session):
            return Answer(silent.decision, context=gate.prompted(session, agent))
        case SessionEnded():
            return Answer(silent.decision, context=gate.ended(event, agent))
        case TurnEnded(session):
            return Answer(silent.decision, context=gate.turn_ended(session), message=gate.turn_line(session))
        case Ignored():
            return silent


def governing_workspace(event: HookEvent, frame: Frame, environment: Environment) -> Workspace | None:
    """The workspace that governs the event: the target path's nearest, else that of the agent's folder."""
    here = getattr(event, "cwd", "") or frame.cwd
    if isinstance(event, Before | After):
        here = event.call.cwd
        governed = target_workspaces(event.call, environment)
        if governed:
            return governed[0] if len(governed) == 1 else max(governed, key=enforcing)
    return locate(Path(here))


def target_workspaces(call: ToolCall, environment: Environment) -> list[Workspace]:
    """The governed workspaces of the call's paths, the first path's first.

    Where there are several, the first that enforces judges them all: what it does not hold is outside to it.
    """
    found: dict[Path, Workspace] = {}
    for raw in call.paths:
        try:
            reals = real_paths(raw, Path(call.cwd), environment.home)
        except InvalidPath:
            continue
        for near in (located(real.rpartition("/")[0] or "/") for real in reals):
            if near is not None and near.governed:
                found.setdefault(near.root, near)
    return list(found.values())


def enforcing(workspace: Workspace) -> bool:
    """Whether the workspace is in enforce."""
    return governing(workspace).mode == "enforce"


def unreadable(payload: bytes, frame: Frame, environment: Environment, error: AdapterError) -> HookReply:
    """Bytes that are no payload: refused where Remit enforces, unless the settings said that nothing can be refused."""
    return refuse(
        payload, frame, environment, f"{error}. Update Remit, or tell the person: `remit doctor` shows the wiring"
    )


def broken(payload: bytes, frame: Frame, environment: Environment, error: Exception) -> HookReply:
    """A defect of ours: refused where Remit enforces."""
    return refuse(payload, frame, environment, f"Remit broke on this call ({type(error).__name__}: {str(error)[:300]})")


def refuse(payload: bytes, frame: Frame, environment: Environment, why: str) -> HookReply:
    """Exit 2 with a reason on stderr in an enforcing workspace; elsewhere the reason alone.

    Exit 2 is what every agent takes for a denial; on any event but `pre` it would do harm.
    """
    text = f"remit: {encodable(why)}\n".encode()
    if may_refuse(payload, frame) and any(enforces(place, environment) for place in places(payload, frame)):
        return HookReply(stderr=text, exit_code=2)
    return HookReply(stderr=text)


def may_refuse(payload: bytes, frame: Frame) -> bool:
    """Whether the event can be refused: as the settings said, else unless the payload names only other events."""
    if frame.event_class is not None:
        return frame.event_class == "pre"
    events = ROWS[frame.agent].events if frame.agent in ROWS else {}
    named = {kind for name, kind in events.items() if b'"%s"' % name.encode() in payload}
    return not named or "before" in named


def places(payload: bytes, frame: Frame) -> Iterator[str]:
    """The folders that may be governed: where we were started, and where the payload says the agent is."""
    yield frame.cwd
    try:
        event = parse(frame.agent, payload[: LIMIT + 1])
    except Exception:  # noqa: BLE001  what broke the answer breaks this too; where we were started is known all the same
        return
    if not isinstance(event, Before | After):
        yield event.cwd
        return
    yield event.call.cwd
    yield from (str(Path(event.call.cwd, raw).parent) for raw in event.call.paths if "\0" not in raw)


def enforces(place: str, environment: Environment) -> bool:
    """Whether the workspace of that folder is in enforce; in doubt it is."""
    try:
        gate = Gate.open(place, environment)
        return gate.governed and governing(gate.workspace).mode == "enforce"
    except Exception:  # noqa: BLE001  whatever broke the answer may break this too: then the careful side
        return True
