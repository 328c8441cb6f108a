"""The `gemini` dialect: JSON on stdin with `hook_event_name`; `decision` and `reason` on stdout, or nothing.

With empty standard output the client reads standard error as the answer: for an allowed call both stay empty.
Source: Gemini CLI 0.61.0 run with dumping hooks, read 2026-11.
"""

from typing import Literal

import msgspec

from remit.adapters.agent_row import DEFAULT_DENIAL, AgentRow, HookReply, can_carry_context, can_continue
from remit.adapters.hook_entries import build_hooks
from remit.adapters.payload import (
    SUMMARY_CHARS,
    JsonObject,
    build_session_start,
    build_tool_call,
    decode_payload,
    find_diff_lines,
    find_remit_tool_name,
    find_stated_exit_code,
    has_read_only_error,
    match_remit_tool,
    optional_text,
    parse_duration_ms,
    require_folder,
    require_text,
)
from remit.core.call import Outcome, SessionKey, ToolCall
from remit.core.decision import Decision
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
from remit.core.json_guards import as_array, as_object


def parse(row: AgentRow, payload: bytes) -> HookEvent:
    """Parse the event in `payload`. Raises AdapterError for a payload of another form."""
    document = decode_payload(row, payload)
    name = require_text(row, document, "hook_event_name")
    cwd = require_folder(row, document, "cwd")
    session = SessionKey(require_text(row, document, "session_id"))
    match row.events.get(name):
        case "before":
            return BeforeCall(parse_call(row, document, session, cwd))
        case "after" | "failed":
            return AfterCall(parse_call(row, document, session, cwd), parse_outcome(row, document))
        case "session_start":
            return build_session_start(document, session, cwd)
        case "prompt":
            return PromptGiven(session, cwd)
        case "turn_end":
            return TurnEnded(session, cwd)
        case "session_end":
            return SessionEnded(session, cwd, optional_text(document, "reason") or "")
        case None:
            return IgnoredEvent(name, cwd)


def parse_call(row: AgentRow, document: JsonObject, session: SessionKey, cwd: str) -> ToolCall:
    """Return the call. Gemini sends no call id, so a result is joined to its call by the arguments."""
    tool = require_text(row, document, "tool_name")
    return build_tool_call(
        row, document, session, cwd, find_remit_tool(row, document, tool), optional_text(document, "transcript_path")
    )


def find_remit_tool(row: AgentRow, document: JsonObject, tool: str) -> str | None:
    """Return the name of Remit's own tool. `mcp_a_b_c` leaves the server's name open; `mcp_context` states it."""
    if "mcp_context" not in document:
        return find_remit_tool_name(row, tool)
    context = as_object(document["mcp_context"])
    return match_remit_tool(optional_text(context, "server_name") or "", optional_text(context, "tool_name") or "")


def parse_outcome(row: AgentRow, document: JsonObject) -> Outcome:
    """Parse the result in an AfterTool payload: `error` for a failed tool, a line of text for a failed command."""
    response = as_object(document.get("tool_response"))
    error = response.get("error")
    code = find_exit_code(row, document, response)
    return Outcome(
        ok=error is None and not code,
        exit_code=code,
        summary=summarize_error(error),
        duration_ms=parse_duration_ms(document),
        positions=find_diff_lines(as_object(response.get("returnDisplay"))),
        read_only=has_read_only_error(error, *response.values()),
    )


def find_exit_code(row: AgentRow, document: JsonObject, response: JsonObject) -> int | None:
    """Return the exit code of a shell command; the client omits 0."""
    tool = row.tools.get(optional_text(document, "tool_name") or "")
    if tool is None or tool.command is None:
        return None
    content = response.get("llmContent")
    parts = [content] if isinstance(content, str) else [optional_text(as_object(p), "text") for p in as_array(content)]
    return find_stated_exit_code("\n".join(part or "" for part in parts).removeprefix("<untrusted_context>\n"))


def summarize_error(error: object) -> str:
    """Return a short description of the result, never file contents."""
    if error is None:
        return "ran"
    text = error if isinstance(error, str) else optional_text(as_object(error), "message")
    return (text or "failed")[:SUMMARY_CHARS]


def render(
    row: AgentRow,
    event: HookEvent,
    decision: Decision | None,
    reason: str,
    context: str,
    arguments: JsonObject | None = None,
    permission: Literal["", "allow", "ask"] = "",
) -> HookReply:
    """Return the smallest answer that expresses the decision; an empty one if there is nothing to say."""
    answer: JsonObject = {}
    beside: JsonObject = {}
    if isinstance(event, BeforeCall) and decision is not None and not can_continue(row, decision, arguments):
        answer["decision"] = "ask" if decision.effect == "ask" and row.can_ask else "deny"
        answer["reason"] = reason if reason.strip() else DEFAULT_DENIAL
    elif isinstance(event, BeforeCall) and arguments is not None and permission == "ask":
        answer.update(
            decision="deny", reason=reason if reason.strip() else DEFAULT_DENIAL
        )  # an `ask` may hang this client
    elif isinstance(event, BeforeCall) and arguments is not None:
        beside["tool_input"] = arguments
    if context and can_carry_context(row, event):
        beside["additionalContext"] = context
    if beside:
        answer["hookSpecificOutput"] = {"hookEventName": native_event_name(event), **beside}
    return HookReply(msgspec.json.encode(answer)) if answer else HookReply()


def native_event_name(event: HookEvent) -> str:
    """Return the agent's own name for the event."""
    match event:
        case BeforeCall():
            return "BeforeTool"
        case AfterCall():
            return "AfterTool"
        case SessionStarted():
            return "SessionStart"
        case PromptGiven():
            return "BeforeAgent"
        case _:
            return ""


def settings(row: AgentRow, client: str) -> JsonObject:
    """Return the required hook file: a hook per event of the row."""
    return {"hooks": build_hooks(row, client, name="remit")}
