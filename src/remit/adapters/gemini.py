"""The `gemini` dialect: JSON on stdin with `hook_event_name`; `decision` and `reason` on stdout, or nothing.

Where standard output is empty the client reads standard error as the answer: an allowed call prints to neither.
Source: Gemini CLI 0.61.0 run with dumping hooks, read 2026-11.
"""

from typing import Literal

import msgspec

from remit.adapters.hooks import hooks
from remit.adapters.reading import (
    SUMMARY_CHARS,
    Object,
    decoded,
    exit_code,
    folder,
    mapping,
    milliseconds,
    named_tool,
    names_read_only,
    optional,
    own_tool,
    sequence,
    shown_positions,
    started,
    text,
    tool_call,
)
from remit.adapters.row import DENIED, AgentRow, HookReply, can_tell, passes
from remit.core.call import Outcome, SessionKey, ToolCall
from remit.core.decision import Decision
from remit.core.events import After, Before, HookEvent, Ignored, PromptGiven, SessionEnded, SessionStarted, TurnEnded


def parse(row: AgentRow, payload: bytes) -> HookEvent:
    """The event in `payload`. Raises AdapterError for anything that is not this agent's."""
    document = decoded(row, payload)
    name = text(row, document, "hook_event_name")
    cwd = folder(row, document, "cwd")
    session = SessionKey(text(row, document, "session_id"))
    match row.events.get(name):
        case "before":
            return Before(called(row, document, session, cwd))
        case "after" | "failed":
            return After(called(row, document, session, cwd), outcome(row, document))
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


def called(row: AgentRow, document: Object, session: SessionKey, cwd: str) -> ToolCall:
    """The call of this document. There is no call id: what comes back is joined by its arguments."""
    tool = text(row, document, "tool_name")
    return tool_call(row, document, session, cwd, mcp_tool(row, document, tool), optional(document, "transcript_path"))


def mcp_tool(row: AgentRow, document: Object, tool: str) -> str | None:
    """The name of Remit's own tool. `mcp_a_b_c` does not tell where the server's name ends; `mcp_context` does."""
    if "mcp_context" not in document:
        return named_tool(row, tool)
    context = mapping(document["mcp_context"])
    return own_tool(optional(context, "server_name") or "", optional(context, "tool_name") or "")


def outcome(row: AgentRow, document: Object) -> Outcome:
    """What AfterTool says came of the call: `error` where it failed, a line of text where a command did."""
    response = mapping(document.get("tool_response"))
    error = response.get("error")
    code = stated_code(row, document, response)
    return Outcome(
        ok=error is None and not code,
        exit_code=code,
        summary=summary(error),
        duration_ms=milliseconds(document),
        positions=shown_positions(mapping(response.get("returnDisplay"))),
        read_only=names_read_only(error, *response.values()),
    )


def stated_code(row: AgentRow, document: Object, response: Object) -> int | None:
    """The exit code of a shell command; the client leaves out 0."""
    tool = row.tools.get(optional(document, "tool_name") or "")
    if tool is None or tool.command is None:
        return None
    content = response.get("llmContent")
    parts = [content] if isinstance(content, str) else [optional(mapping(p), "text") for p in sequence(content)]
    return exit_code("\n".join(part or "" for part in parts).removeprefix("<untrusted_context>\n"))


def summary(error: object) -> str:
    """A short line about the result; never file contents."""
    if error is None:
        return "ran"
    said = error if isinstance(error, str) else optional(mapping(error), "message")
    return (said or "failed")[:SUMMARY_CHARS]


def render(
    row: AgentRow,
    event: HookEvent,
    decision: Decision | None,
    reason: str,
    context: str,
    arguments: Object | None = None,
    permission: Literal["", "allow", "ask"] = "",
) -> HookReply:
    """The smallest answer that says it; nothing at all where there is nothing to say."""
    answer: Object = {}
    beside: Object = {}
    if isinstance(event, Before) and decision is not None and not passes(row, decision, arguments):
        answer["decision"] = "ask" if decision.effect == "ask" and row.asks else "deny"
        answer["reason"] = reason if reason.strip() else DENIED
    elif isinstance(event, Before) and arguments is not None and permission == "ask":
        answer.update(decision="deny", reason=reason if reason.strip() else DENIED)  # an `ask` may hang this client
    elif isinstance(event, Before) and arguments is not None:
        beside["tool_input"] = arguments
    if context and can_tell(row, event):
        beside["additionalContext"] = context
    if beside:
        answer["hookSpecificOutput"] = {"hookEventName": native(event), **beside}
    return HookReply(msgspec.json.encode(answer)) if answer else HookReply()


def native(event: HookEvent) -> str:
    """The agent's own name for the event."""
    match event:
        case Before():
            return "BeforeTool"
        case After():
            return "AfterTool"
        case SessionStarted():
            return "SessionStart"
        case PromptGiven():
            return "BeforeAgent"
        case _:
            return ""


def settings(row: AgentRow, client: str) -> Object:
    """What has to stand in the agent's hook file: a hook for every event of the row."""
    return {"hooks": hooks(row, client, name="remit")}
