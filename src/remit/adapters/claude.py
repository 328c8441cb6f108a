"""The `claude` dialect: JSON on stdin with `hook_event_name`; one minimal JSON object or nothing on stdout.

Sources: Claude Code 2.1.330, Codex CLI 0.169.0 and Qwen Code 0.24.4 run with dumping hooks, read 2026-11.
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
    find_hunk_additions,
    find_remit_tool_name,
    find_stated_exit_code,
    has_read_only_error,
    optional_text,
    parse_duration_ms,
    require_folder,
    require_text,
)
from remit.core.call import Outcome, SessionKey, ToolCall
from remit.core.decision import Decision
from remit.core.diff.contents import LineRange
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
    session = SessionKey(require_text(row, document, "session_id"), optional_text(document, "agent_id") or "")
    match row.events.get(name):
        case "before":
            return BeforeCall(parse_call(row, document, session, cwd))
        case "after":
            return AfterCall(parse_call(row, document, session, cwd), parse_outcome(row, document))
        case "failed":
            return AfterCall(parse_call(row, document, session, cwd), parse_failure(document), failed=True)
        case "session_start":
            return build_session_start(document, session, cwd)
        case "prompt":
            return PromptGiven(session, cwd, optional_text(document, "prompt_id") or "")
        case "turn_end":
            return TurnEnded(session, cwd)
        case "session_end":
            return SessionEnded(session, cwd, optional_text(document, "reason") or "")
        case None:
            return IgnoredEvent(name, cwd)


def parse_call(row: AgentRow, document: JsonObject, session: SessionKey, cwd: str) -> ToolCall:
    remit_tool = find_remit_tool_name(row, require_text(row, document, "tool_name"))
    return build_tool_call(row, document, session, cwd, remit_tool, find_transcript(row, document, session))


def find_transcript(row: AgentRow, document: JsonObject, session: SessionKey) -> str | None:
    """Return the path of the conversation file; a sub-agent may have its own beside its parent's."""
    path = optional_text(document, "transcript_path")
    if path is None or not session.agent_id or not row.has_subagent_transcripts:
        return path
    return f"{path.removesuffix('.jsonl')}/subagents/agent-{session.agent_id}.jsonl"


def parse_outcome(row: AgentRow, document: JsonObject) -> Outcome:
    """Parse the result in a PostToolUse payload."""
    response = document.get("tool_response")
    result = as_object(response)
    code = find_exit_code(row, document, response)
    return Outcome(
        ok=result.get("interrupted") is not True and not code,
        exit_code=code,
        summary=summarize_result(result, response),
        duration_ms=parse_duration_ms(document),
        positions=find_written_lines(result) or find_diff_lines(as_object(result.get("returnDisplay"))),
        changed_by_person=result.get("userModified") is True,
        read_only=has_read_only_error(response, *result.values()),
    )


def find_exit_code(row: AgentRow, document: JsonObject, response: object) -> int | None:
    tool = row.tools.get(optional_text(document, "tool_name") or "")
    if tool is None or tool.patch is None or not isinstance(response, str):
        return None
    return find_stated_exit_code(response)


def parse_failure(document: JsonObject) -> Outcome:
    """Parse the result in a PostToolUseFailure payload; only the error text contains the exit code."""
    error = optional_text(document, "error") or ""
    return Outcome(
        ok=False,
        exit_code=find_stated_exit_code(error),
        summary=error[:SUMMARY_CHARS],
        duration_ms=parse_duration_ms(document),
        read_only=has_read_only_error(error),
    )


def summarize_result(result: JsonObject, response: object) -> str:
    """Return a short description of the result, never file contents."""
    if "stdout" in result or "stderr" in result:
        return "ran"
    kind = result.get("type")
    return kind[:SUMMARY_CHARS] if isinstance(kind, str) else type(response).__name__


def find_written_lines(result: JsonObject) -> dict[str, tuple[LineRange, ...]]:
    """Return the line ranges that a file tool reports in `structuredPatch`."""
    path = result.get("filePath")
    if not isinstance(path, str):
        return {}
    hunks = (as_object(hunk) for hunk in as_array(result.get("structuredPatch")))
    found = tuple(r for hunk in hunks for r in find_hunk_additions(as_array(hunk.get("lines")), hunk.get("newStart")))
    return {path: found} if found else {}


def render(
    row: AgentRow,
    event: HookEvent,
    decision: Decision | None,
    reason: str,
    context: str,
    arguments: JsonObject | None = None,
    permission: Literal["", "allow", "ask"] = "",
) -> HookReply:
    """Return the smallest answer that expresses the decision; an empty one if there is nothing to say.

    An allowed call gets an empty answer instead of `allow`: `allow` would disable the agent's own questions, and Codex
    treats it as a failed hook, like a denial without a reason.
    """
    answer: JsonObject = {}
    if isinstance(event, BeforeCall) and decision is not None and not can_continue(row, decision, arguments):
        answer["permissionDecision"] = "ask" if decision.effect == "ask" and row.can_ask else "deny"
        answer["permissionDecisionReason"] = reason if reason.strip() else DEFAULT_DENIAL
    elif isinstance(event, BeforeCall) and arguments is not None and row.rewrites == "with allow":
        answer["permissionDecision"] = "deny" if permission == "ask" else "allow"
    elif isinstance(event, BeforeCall) and arguments is not None and permission:
        answer["permissionDecision"] = permission if permission == "allow" or row.can_ask else "deny"
        answer["permissionDecisionReason"] = reason if reason.strip() else DEFAULT_DENIAL
    if isinstance(event, BeforeCall) and arguments is not None and answer.get("permissionDecision") != "deny":
        answer["updatedInput"] = arguments
    if context and can_carry_context(row, event):
        answer["additionalContext"] = context
    if not answer:
        return HookReply()
    return HookReply(msgspec.json.encode({"hookSpecificOutput": {"hookEventName": native_event_name(event), **answer}}))


def native_event_name(event: HookEvent) -> str:
    """Return the agent's own name for the event."""
    match event:
        case BeforeCall():
            return "PreToolUse"
        case AfterCall(failed=failed):
            return "PostToolUseFailure" if failed else "PostToolUse"
        case SessionStarted():
            return "SessionStart"
        case PromptGiven():
            return "UserPromptSubmit"
        case _:
            return ""


def settings(row: AgentRow, client: str) -> JsonObject:
    """Return the required hook file: a hook per event of the row, and permission for Remit's tools."""
    allowed: JsonObject = {"permissions": {"allow": list(row.permissions)}} if row.permissions else {}
    return {"hooks": build_hooks(row, client), **allowed}
