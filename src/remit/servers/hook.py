"""Steps 2, 3 and 7: one function answers every hook call, in a fresh process or in the daemon."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import islice
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.adapters import ROWS, AdapterError, HookReply, parse, render, render_notice
from remit.core.call import ToolCall
from remit.core.decision import Decision
from remit.core.display_text import escape_surrogates
from remit.core.events import (
    AfterCall,
    BeforeCall,
    HookEvent,
    IgnoredEvent,
    PromptGiven,
    SessionEnded,
    SessionStarted,
    TurnEnded,
)
from remit.core.scope.repopath import InvalidPath
from remit.gate.answer import Answer, join_lines
from remit.gate.environment import Environment
from remit.gate.gate import Gate
from remit.gate.rules.load import load_rules
from remit.gate.state.baseline import baseline_head
from remit.policy.classify import classify
from remit.servers.remit_commands import run_remit_command
from remit.workspace.place.resolve_paths import resolve_real_paths
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER, Workspace, locate_by_real_path, locate_workspace

MAX_PAYLOAD_BYTES = 64 * 1024 * 1024
"""Bytes of a payload. No agent writes a file of this size in one call."""

EventClass = Literal["pre", "post", "note"]
EVENT_CLASSES: tuple[EventClass, ...] = ("pre", "post", "note")


class HookFrame(Struct, frozen=True):
    """Metadata of a payload: the agent, its folder, and the event class in its settings.

    Only `pre` may refuse. Without an event class the payload decides.
    """

    agent: str
    cwd: str
    event_class: EventClass | None = None
    pid: int = 0
    """Client's process; 0 if unknown."""


def parse_event_class(word: str) -> EventClass | None:
    for known in EVENT_CLASSES:
        if known == word:
            return known
    return None


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
    return refuse_payload(payload, frame, environment, why)


def answer_event(payload: bytes, frame: HookFrame, environment: Environment, gates: OpenGate) -> HookReply:
    """Parse the payload, ask the gates, and render the answer. Raises AdapterError for an unreadable payload."""
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise AdapterError(frame.agent, f"it is larger than {MAX_PAYLOAD_BYTES // 1024 // 1024} MiB")
    event = parse(frame.agent, payload)
    if isinstance(event, BeforeCall):
        event = BeforeCall(replace(event.call, hook_pid=frame.pid))
    found = ask_gates(event, frame, environment, gates)
    if isinstance(event, TurnEnded | SessionEnded) and found.context:
        failures = f"remit: {escape_surrogates(found.context)}\n".encode()
        return HookReply(render_notice(frame.agent, found.message), failures)
    if isinstance(event, TurnEnded) and found.message:
        return HookReply(render_notice(frame.agent, found.message))
    return render(frame.agent, event, found.decision, found.reason, found.context, found.arguments, found.permission)


def ask_gates(event: HookEvent, frame: HookFrame, environment: Environment, gates: OpenGate) -> Answer:
    """Return the joint answer of every workspace that the event reaches; a refusal by another workspace comes first."""
    governing = find_governing_workspace(event, frame, environment)
    others: list[Workspace] = []
    if isinstance(event, BeforeCall | AfterCall):
        others = find_named_workspaces(event.call, governing, environment.home)
    contexts: list[str] = []
    question: Answer | None = None
    for workspace in others:
        with gates(workspace, environment) as gate:
            if isinstance(event, AfterCall) and is_new_worktree(gate, event.call):
                contexts.append(describe_new_worktree(workspace.root))
                continue
            other = handle_event(gate, event, frame.agent)
        if other.decision.effect not in ("allow", "ask"):
            return other
        question = other if other.decision.effect == "ask" else question
        contexts.append(other.context)
    with gates(governing, environment) as gate:
        found = handle_event(gate, event, frame.agent)
    if question is not None and found.decision.effect != "deny":
        found = replace(found, decision=question.decision, reason=question.reason)
    return replace(found, context=join_lines(*contexts, found.context)) if any(contexts) else found


def handle_event(gate: Gate, event: HookEvent, agent: str) -> Answer:
    passed = Decision("allow", "allow", "safe", "observe")
    match event:
        case BeforeCall(call):
            return run_remit_command(gate, call) or gate.before(call)
        case AfterCall(call, outcome):
            return gate.after(call, outcome)
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
    """Return the workspace governing the event: the target path's nearest, else the one of the agent's folder."""
    here = getattr(event, "cwd", "") or frame.cwd
    if isinstance(event, BeforeCall | AfterCall):
        here = event.call.cwd
        governed = find_target_workspaces(event.call, environment)
        if governed:
            return governed[0] if len(governed) == 1 else max(governed, key=is_enforcing)
    return locate_workspace(Path(here))


def find_target_workspaces(call: ToolCall, environment: Environment) -> list[Workspace]:
    """Return the governed workspaces of the call's paths, in path order.

    Among several, the first enforcing workspace judges the call: paths of the rest are outside.
    """
    found: dict[Path, Workspace] = {}
    for raw in call.paths:
        try:
            reals = resolve_real_paths(raw, Path(call.cwd), environment.home)
        except InvalidPath:
            continue
        for near in (locate_by_real_path(real.rpartition("/")[0] or "/") for real in reals):
            if near is not None and near.is_governed:
                found.setdefault(near.root, near)
    return list(found.values())


def is_enforcing(workspace: Workspace) -> bool:
    return load_rules(workspace).mode == "enforce"


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
    """Yield the possibly governed folders: the client's own, and those in the payload."""
    yield frame.cwd
    try:
        event = parse(frame.agent, payload[: MAX_PAYLOAD_BYTES + 1])
    except Exception:  # noqa: BLE001  what broke the answer breaks this too; where we were started is known all the same
        return
    if not isinstance(event, BeforeCall | AfterCall):
        yield event.cwd
        return
    yield event.call.cwd
    yield from (str(Path(event.call.cwd, raw).parent) for raw in event.call.paths if "\0" not in raw)


def is_enforcing_folder(place: str, environment: Environment) -> bool:
    """Return True if the folder's workspace is in enforce, or if in doubt."""
    try:
        gate = Gate.open(place, environment)
        return gate.is_governed and load_rules(gate.workspace).mode == "enforce"
    except Exception:  # noqa: BLE001  whatever broke the answer may break this too: then the careful side
        return True


# -- workspaces named by a command ----------------------------------------------------------------------------

WORD_PATTERN = re.compile(r"'([^']*)'|\"([^\"]*)\"|([^\s'\"|;&<>()`]+)")
HOME_PREFIX = re.compile(r"\A(?:~|\$HOME|\$\{HOME\})(?=/|\Z)")
MAX_PLACES = 200
"""Places of one command that are looked up."""

MAX_PLACE_CHARS = 4096


def find_named_workspaces(call: ToolCall, governing: Workspace | None, home: Path) -> list[Workspace]:
    """Return further governed workspaces with a place named in the call's command.

    Variables except HOME and the effect of a program's input are unknown: such changes are found by the next comparison
    of the reached workspace.
    """
    if call.command is None:
        return []
    own = str(governing.root) if governing is not None and governing.is_governed else None
    places = dict.fromkeys(find_named_places(call.command, call.cwd, str(home), named_only=own is not None))
    known: dict[str, str | None] = {}
    roots = dict.fromkeys(find_marked_folder(place, known) for place in islice(places, MAX_PLACES))
    near = [locate_workspace(Path(root)) for root in roots if root is not None and root != own]
    found = {w.root: w for w in near if w is not None and w.is_governed and str(w.root) != own}
    return list(found.values())


def is_new_worktree(gate: Gate, call: ToolCall) -> bool:
    """Return True if the completed call created the workspace by `git worktree add`. Raises StateError.

    No hook asked the new workspace before the call, and no observation of it exists.
    """
    if classify(call) != "destructive" or baseline_head(gate.state) is not None:
        return False
    return gate.state.find_pending_call(call.session, call.call_id, call.tool, call.arguments_sha256)[1] is None


def describe_new_worktree(root: Path) -> str:
    return (
        f"Remit: {root} is a work tree of its own now, governed as this one is. Select an intent there to work in it."
    )


def find_marked_folder(place: str, known: dict[str, str | None]) -> str | None:
    """Return the nearest folder at or above `place` that may begin a workspace; `known` caches the answers."""
    below: list[str] = []
    while place not in known:
        below.append(place)
        above = os.path.dirname(place)  # noqa: PTH120
        here = any(os.path.lexists(f"{place}/{name}") for name in (".git", ORCHESTRATION_FOLDER))
        if here or above == place:
            known[place] = place if here else None
        else:
            place = above
    known.update(dict.fromkeys(below, known[place]))
    return known[place]


def find_named_places(command: str, cwd: str, home: str, *, named_only: bool) -> Iterator[str]:
    """Yield the places named by the command's words, links followed.

    A word without a `/` lies in `cwd`: `named_only` skips such words.
    """
    for word in split_words(command):
        for text in dict.fromkeys((word, word.rpartition("=")[2])):
            expanded = HOME_PREFIX.sub(lambda _: home, text)
            if (named_only and "/" not in expanded and expanded != "..") or not 0 < len(expanded) <= MAX_PLACE_CHARS:
                continue
            if "\0" not in expanded:
                with suppress(OSError):  # /proc/PID/root of another user's process
                    yield os.path.realpath(os.path.join(cwd, expanded))  # noqa: PTH118  a Path would tidy `..` away


def split_words(command: str) -> Iterator[str]:
    """Yield the command's words, and the words inside quotes: a script for another shell may stand there."""
    for single, double, plain in WORD_PATTERN.findall(command):
        quoted = single or double
        yield plain or quoted
        if " " in quoted:
            yield from (part for _, _, part in WORD_PATTERN.findall(quoted.replace("'", " ").replace('"', " ")) if part)
