"""Steps 2, 3 and 7: one function answers every hook call, in a fresh process or in a warm one."""

from pathlib import Path
from typing import Literal

from msgspec import Struct

from remit.adapters import AdapterError, HookReply, parse, render
from remit.core.call import ToolCall
from remit.core.decision import Decision
from remit.core.events import After, Before, HookEvent, Ignored, PromptGiven, SessionEnded, SessionStarted, TurnEnded
from remit.core.repopath import InvalidPath
from remit.gate.environment import Environment
from remit.gate.gate import Answer, Gate
from remit.gate.governing import governing
from remit.servers.selecting import select_by_command
from remit.workspace.paths import real_paths
from remit.workspace.place import locate

LIMIT = 64 * 1024 * 1024
"""Bytes of a payload. An agent writes no file of this size in one call."""

EventClass = Literal["pre", "post", "note"]


class Frame(Struct, frozen=True):
    """What comes with the bytes: which agent, where it runs, and which kind of event its settings said this is.

    Only `pre` may refuse. Without an event class the payload itself tells.
    """

    agent: str
    cwd: str
    event_class: EventClass | None = None


def answer(payload: bytes, frame: Frame, environment: Environment) -> HookReply:
    """The agent's answer to one hook payload. Never raises: what breaks here becomes a denial, where one is due."""
    try:
        return answered(payload, frame, environment)
    except AdapterError as error:
        return unreadable(payload, frame, environment, error)
    except Exception as error:  # noqa: BLE001  an agent runs the tool when its hook crashes, so no failure may escape
        return broken(payload, frame, environment, error)


def answered(payload: bytes, frame: Frame, environment: Environment) -> HookReply:
    """The answer, where nothing breaks."""
    if len(payload) > LIMIT:
        raise AdapterError(frame.agent, f"it is larger than {LIMIT // 1024 // 1024} MiB")
    event = parse(frame.agent, payload)
    gate = open_gate(event, frame, environment)
    found = handled(gate, event, frame.agent)
    return render(frame.agent, event, found.decision, found.reason, found.context)


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
            gate.ended(event, agent)
            return silent
        case TurnEnded() | Ignored():
            return silent


def open_gate(event: HookEvent, frame: Frame, environment: Environment) -> Gate:
    """The gate that governs the event: the target path's nearest workspace, else that of the agent's folder."""
    here = getattr(event, "cwd", "") or frame.cwd
    if isinstance(event, Before | After):
        here = event.call.cwd
        nearest = target_workspace(event.call, environment)
        if nearest is not None:
            return Gate(nearest, environment)
    return Gate.open(here, environment)


def target_workspace(call: ToolCall, environment: Environment):
    """The governed workspace of the first path that has one."""
    for raw in call.paths:
        try:
            reals = real_paths(raw, Path(call.cwd), environment.home)
        except InvalidPath:
            continue
        for real in reals:
            found = locate(Path(real).parent)
            if found is not None and found.governed:
                return found
    return None


def unreadable(payload: bytes, frame: Frame, environment: Environment, error: AdapterError) -> HookReply:
    """Bytes that are no payload: refused where Remit enforces, unless the settings said that nothing can be refused."""
    return refuse(frame, environment, f"{error}. Update Remit, or tell the person: `remit doctor` shows the wiring")


def broken(payload: bytes, frame: Frame, environment: Environment, error: Exception) -> HookReply:
    """A defect of ours: refused where Remit enforces."""
    return refuse(frame, environment, f"Remit broke on this call ({type(error).__name__}: {str(error)[:300]})")


def refuse(frame: Frame, environment: Environment, why: str) -> HookReply:
    """Exit 2 with a reason on stderr in an enforcing workspace; elsewhere the reason alone.

    Exit 2 is what every agent takes for a denial; on any event but `pre` it would do harm.
    """
    text = f"remit: {why}\n".encode("utf-8", "replace")
    if frame.event_class in ("post", "note") or not enforces(frame, environment):
        return HookReply(stderr=text)
    return HookReply(stderr=text, exit_code=2)


def enforces(frame: Frame, environment: Environment) -> bool:
    """Whether the workspace of the agent's folder is in enforce; in doubt it is."""
    try:
        gate = Gate.open(frame.cwd, environment)
        return gate.governed and governing(gate.workspace).mode == "enforce"
    except Exception:  # noqa: BLE001  whatever broke the answer may break this too: then the careful side
        return True
