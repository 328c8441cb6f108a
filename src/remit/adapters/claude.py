"""The `claude` dialect: JSON on stdin with `hook_event_name`, one minimal JSON object or nothing on stdout.

Source: Claude Code 2.1.330 run with dumping hooks, read 2026-11.
"""

import re
from typing import TypeAlias, cast

import msgspec

from remit.adapters.row import AdapterError, AgentRow, HookReply, ToolRow
from remit.core.call import REMIT_TOOLS, Outcome, SessionKey, ToolCall, hash_arguments
from remit.core.contents import LineRange
from remit.core.decision import Decision
from remit.core.events import (
    After,
    Before,
    HookEvent,
    Ignored,
    PromptGiven,
    SessionEnded,
    SessionStarted,
    Source,
    TurnEnded,
)

Object: TypeAlias = dict[str, object]

UNLISTED = ToolRow("execute", whole_workspace=True)
SOURCES: tuple[Source, ...] = ("startup", "resume", "clear", "compact")
SUMMARY_CHARS = 300


def parse(row: AgentRow, payload: bytes) -> HookEvent:
    """The event in `payload`. Raises AdapterError for anything that is not this agent's."""
    document = decoded(row, payload)
    name = text(row, document, "hook_event_name")
    cwd = text(row, document, "cwd")
    session = SessionKey(text(row, document, "session_id"), optional(document, "agent_id") or "")
    match row.events.get(name):
        case "before":
            return Before(tool_call(row, document, session, cwd))
        case "after":
            return After(tool_call(row, document, session, cwd), outcome(document))
        case "failed":
            return After(tool_call(row, document, session, cwd), failure(document))
        case "session_start":
            return started(document, session, cwd)
        case "prompt":
            return PromptGiven(session, cwd)
        case "turn_end":
            return TurnEnded(session, cwd)
        case "session_end":
            return SessionEnded(session, cwd, optional(document, "reason") or "")
        case None:
            return Ignored(name, cwd)


def decoded(row: AgentRow, payload: bytes) -> Object:
    """The payload as an object."""
    try:
        document = msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise AdapterError(row.agent, f"it is not JSON ({str(error)[:200]})") from error
    if not isinstance(document, dict):
        raise AdapterError(row.agent, f"it is a JSON {type(document).__name__}, not an object")
    return mapping(cast("object", document))


def mapping(value: object) -> Object:
    """`value` where it is a JSON object; an empty one otherwise."""
    return cast("Object", value) if isinstance(value, dict) else {}


def sequence(value: object) -> list[object]:
    """`value` where it is a JSON array; an empty one otherwise."""
    return cast("list[object]", value) if isinstance(value, list) else []


def text(row: AgentRow, document: Object, key: str) -> str:
    """A string that has to be there."""
    value = document.get(key)
    if not isinstance(value, str) or not value:
        raise AdapterError(row.agent, f"{key} is missing or no text")
    return value


def optional(document: Object, key: str) -> str | None:
    """A string that may be there; anything else counts as absent."""
    value = document.get(key)
    return value if isinstance(value, str) else None


def tool_call(row: AgentRow, document: Object, session: SessionKey, cwd: str) -> ToolCall:
    """The call, by the tool's row; a tool that no row knows counts as one that executes."""
    tool = text(row, document, "tool_name")
    given = mapping(document.get("tool_input"))
    remit_tool = own_tool(row, tool)
    tool_row = ToolRow("meta") if remit_tool else row.tools.get(tool, UNLISTED)
    paths, command, malformed = operands(tool_row, given)
    return ToolCall(
        agent=row.agent,
        session=session,
        tool=tool,
        effect=tool_row.effect,
        cwd=cwd,
        call_id=optional(document, "tool_use_id") or "",
        paths=paths,
        command=command,
        arguments_sha256=hash_arguments(given),
        remit_tool=remit_tool,
        malformed=malformed,
        whole_workspace=tool_row.whole_workspace,
        transcript=transcript(document, session),
        checks_itself=tool_row.checks_itself,
    )


def transcript(document: Object, session: SessionKey) -> str | None:
    """The conversation's file; a sub-agent has one of its own beside its parent's."""
    path = optional(document, "transcript_path")
    if path is None or not session.agent_id:
        return path
    return f"{path.removesuffix('.jsonl')}/subagents/agent-{session.agent_id}.jsonl"


def own_tool(row: AgentRow, tool: str) -> str | None:
    """The name of Remit's own tool where `tool` is one of them."""
    found = re.fullmatch(row.mcp_name, tool)
    if found is None or found["server"] != "remit" or found["tool"] not in REMIT_TOOLS:
        return None
    return found["tool"]


def operands(row: ToolRow, given: Object) -> tuple[tuple[str, ...], str | None, str | None]:
    """The paths, the command, and what is wrong with them."""
    values = [(key, given.get(key)) for key in (*row.paths, *([row.command] if row.command else []))]
    bad = next((key for key, value in values if not isinstance(value, str) or not value), None)
    paths = tuple(value for key, value in values if key in row.paths and isinstance(value, str) and value)
    command = given.get(row.command) if row.command else None
    return paths, command if isinstance(command, str) else None, bad and f"{bad} is missing or no text"


def outcome(document: Object) -> Outcome:
    """What PostToolUse says came of the call."""
    response = document.get("tool_response")
    result = mapping(response)
    return Outcome(
        ok=result.get("interrupted") is not True,
        summary=summary(result, response),
        duration_ms=milliseconds(document),
        positions=positions(result),
    )


def failure(document: Object) -> Outcome:
    """What PostToolUseFailure says. The exit code stands only in its text."""
    error = optional(document, "error") or ""
    code = re.match(r"Exit code (\d{1,3})\b", error)
    return Outcome(
        ok=False,
        exit_code=int(code[1]) if code else None,
        summary=error[:SUMMARY_CHARS],
        duration_ms=milliseconds(document),
    )


def milliseconds(document: Object) -> int | None:
    """How long the tool ran, where the agent says so."""
    value = document.get("duration_ms")
    return value if isinstance(value, int) and 0 <= value < 2**53 else None


def summary(result: Object, response: object) -> str:
    """A short line about the result; never file contents."""
    if "stdout" in result or "stderr" in result:
        return "ran"
    kind = result.get("type")
    return kind[:SUMMARY_CHARS] if isinstance(kind, str) else type(response).__name__


def positions(result: Object) -> dict[str, tuple[LineRange, ...]]:
    """The lines that a file tool says it wrote, from its `structuredPatch`."""
    path = result.get("filePath")
    if not isinstance(path, str):
        return {}
    found = tuple(r for hunk in sequence(result.get("structuredPatch")) for r in added_lines(mapping(hunk)))
    return {path: found} if found else {}


def added_lines(hunk: Object) -> list[LineRange]:
    """Runs of `+` lines of one hunk, by their number in the new file."""
    start = hunk.get("newStart")
    if not isinstance(start, int):
        return []
    runs: list[LineRange] = []
    number = start
    for line in sequence(hunk.get("lines")):
        sign = line[:1] if isinstance(line, str) else ""
        if sign == "+":
            if runs and runs[-1].end == number - 1:
                runs[-1] = LineRange(runs[-1].start, number)
            else:
                runs.append(LineRange(number, number))
        number += sign in ("+", " ")
    return runs


def started(document: Object, session: SessionKey, cwd: str) -> SessionStarted:
    """SessionStart; the model stands there only in some versions."""
    source = optional(document, "source")
    known: Source = "other"
    for candidate in SOURCES:
        if candidate == source:
            known = candidate
    return SessionStarted(session, cwd, source=known, model=optional(document, "model"))


def render(row: AgentRow, event: HookEvent, decision: Decision | None, reason: str, context: str) -> HookReply:
    """The smallest answer that says it; nothing at all where there is nothing to say.

    An allowed call is answered with silence, not with `allow`: that would switch off the agent's own questions.
    """
    name = native(row, event)
    answer: Object = {}
    if isinstance(event, Before) and decision is not None and decision.effect != "allow":
        answer["permissionDecision"] = "ask" if decision.effect == "ask" and row.asks else "deny"
        answer["permissionDecisionReason"] = reason
    if context and isinstance(event, Before | After | SessionStarted | PromptGiven):
        answer["additionalContext"] = context
    if not answer:
        return HookReply()
    return HookReply(msgspec.json.encode({"hookSpecificOutput": {"hookEventName": name, **answer}}))


def native(row: AgentRow, event: HookEvent) -> str:
    """The agent's own name for the event."""
    match event:
        case Before():
            return "PreToolUse"
        case After(outcome=result):
            return "PostToolUse" if result.ok else "PostToolUseFailure"
        case SessionStarted():
            return "SessionStart"
        case PromptGiven():
            return "UserPromptSubmit"
        case _:
            return ""


CLASSES = {"PreToolUse": "pre", "PostToolUse": "post", "PostToolUseFailure": "post"}
TIMEOUT_S = 600


def settings(row: AgentRow, client: str) -> Object:
    """What has to stand in the agent's settings: hooks for every event of the row, and Remit's MCP server allowed.

    `client` is the shell words that start the hook client. A client that is missing or crashes denies where Remit
    enforces, and only on *pre*: the fallback looks for the marker file in the repository above the agent's folder.
    """
    hooks: Object = {}
    for event in row.events:
        kind = CLASSES.get(event, "note")
        command = f"{client} {row.agent} {kind} || {FALLBACK if kind == 'pre' else 'true'}"
        matcher = {"matcher": "*"} if kind in ("pre", "post") else {}
        hooks[event] = [{**matcher, "hooks": [{"type": "command", "command": command, "timeout": TIMEOUT_S}]}]
    return {"hooks": hooks, "permissions": {"allow": ["mcp__remit"]}}


FALLBACK = (
    '{ d=$(git rev-parse --git-common-dir 2>/dev/null) && [ -e "$d/remit/enforce" ] && '
    "{ echo 'remit: the hook client did not answer, so this is refused; run: remit doctor' >&2; exit 2; }; exit 0; }"
)
