"""The `claude` dialect: JSON on stdin with `hook_event_name`, one minimal JSON object or nothing on stdout.

Sources: Claude Code 2.1.330, Codex CLI 0.169.0 and Qwen Code 0.24.4 run with dumping hooks, read 2026-11.
"""

from typing import Literal

import msgspec

from remit.adapters.hooks import hooks
from remit.adapters.reading import (
    SUMMARY_CHARS,
    Object,
    additions,
    decoded,
    exit_code,
    folder,
    mapping,
    milliseconds,
    named_tool,
    names_read_only,
    optional,
    sequence,
    shown_positions,
    started,
    text,
    tool_call,
)
from remit.adapters.row import DENIED, AgentRow, HookReply, can_tell, passes
from remit.core.call import Outcome, SessionKey, ToolCall
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
    TurnEnded,
)


def parse(row: AgentRow, payload: bytes) -> HookEvent:
    """The event in `payload`. Raises AdapterError for anything that is not this agent's."""
    document = decoded(row, payload)
    name = text(row, document, "hook_event_name")
    cwd = folder(row, document, "cwd")
    session = SessionKey(text(row, document, "session_id"), optional(document, "agent_id") or "")
    match row.events.get(name):
        case "before":
            return Before(called(row, document, session, cwd))
        case "after":
            return After(called(row, document, session, cwd), outcome(row, document))
        case "failed":
            return After(called(row, document, session, cwd), failure(document), failed=True)
        case "session_start":
            return started(document, session, cwd)
        case "prompt":
            return PromptGiven(session, cwd, optional(document, "prompt_id") or "")
        case "turn_end":
            return TurnEnded(session, cwd)
        case "session_end":
            return SessionEnded(session, cwd, optional(document, "reason") or "")
        case None:
            return Ignored(name, cwd)


def called(row: AgentRow, document: Object, session: SessionKey, cwd: str) -> ToolCall:
    """The call of this document."""
    remit_tool = named_tool(row, text(row, document, "tool_name"))
    return tool_call(row, document, session, cwd, remit_tool, transcript(row, document, session))


def transcript(row: AgentRow, document: Object, session: SessionKey) -> str | None:
    """The conversation's file; a sub-agent may have one of its own beside its parent's."""
    path = optional(document, "transcript_path")
    if path is None or not session.agent_id or not row.subagent_transcripts:
        return path
    return f"{path.removesuffix('.jsonl')}/subagents/agent-{session.agent_id}.jsonl"


def outcome(row: AgentRow, document: Object) -> Outcome:
    """What PostToolUse says came of the call."""
    response = document.get("tool_response")
    result = mapping(response)
    code = stated_code(row, document, response)
    return Outcome(
        ok=result.get("interrupted") is not True and not code,
        exit_code=code,
        summary=summary(result, response),
        duration_ms=milliseconds(document),
        positions=positions(result) or shown_positions(mapping(result.get("returnDisplay"))),
        changed_by_person=result.get("userModified") is True,
        read_only=names_read_only(response, *result.values()),
    )


def stated_code(row: AgentRow, document: Object, response: object) -> int | None:
    """The exit code of a patch tool, which its text begins with. A command's text is its own output: no evidence."""
    tool = row.tools.get(optional(document, "tool_name") or "")
    if tool is None or tool.patch is None or not isinstance(response, str):
        return None
    return exit_code(response)


def failure(document: Object) -> Outcome:
    """What PostToolUseFailure says. The exit code stands only in its text."""
    error = optional(document, "error") or ""
    return Outcome(
        ok=False,
        exit_code=exit_code(error),
        summary=error[:SUMMARY_CHARS],
        duration_ms=milliseconds(document),
        read_only=names_read_only(error),
    )


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
    hunks = (mapping(hunk) for hunk in sequence(result.get("structuredPatch")))
    found = tuple(r for hunk in hunks for r in additions(sequence(hunk.get("lines")), hunk.get("newStart")))
    return {path: found} if found else {}


def render(
    row: AgentRow,
    event: HookEvent,
    decision: Decision | None,
    reason: str,
    context: str,
    arguments: Object | None = None,
    permission: Literal["", "allow", "ask"] = "",
) -> HookReply:
    """The smallest answer that says it; nothing at all where there is nothing to say.

    An allowed call is answered with silence, not with `allow`: that would switch off the agent's own questions, and
    Codex takes it for a failed hook. So it does with a denial without a reason.
    """
    answer: Object = {}
    if isinstance(event, Before) and decision is not None and not passes(row, decision, arguments):
        answer["permissionDecision"] = "ask" if decision.effect == "ask" and row.asks else "deny"
        answer["permissionDecisionReason"] = reason if reason.strip() else DENIED
    elif isinstance(event, Before) and arguments is not None and row.rewrites == "with allow":
        answer["permissionDecision"] = "deny" if permission == "ask" else "allow"
    elif isinstance(event, Before) and arguments is not None and permission:
        answer["permissionDecision"] = permission if permission == "allow" or row.asks else "deny"
        answer["permissionDecisionReason"] = reason if reason.strip() else DENIED
    if isinstance(event, Before) and arguments is not None and answer.get("permissionDecision") != "deny":
        answer["updatedInput"] = arguments
    if context and can_tell(row, event):
        answer["additionalContext"] = context
    if not answer:
        return HookReply()
    return HookReply(msgspec.json.encode({"hookSpecificOutput": {"hookEventName": native(event), **answer}}))


def native(event: HookEvent) -> str:
    """The agent's own name for the event."""
    match event:
        case Before():
            return "PreToolUse"
        case After(failed=failed):
            return "PostToolUseFailure" if failed else "PostToolUse"
        case SessionStarted():
            return "SessionStart"
        case PromptGiven():
            return "UserPromptSubmit"
        case _:
            return ""


def settings(row: AgentRow, client: str) -> Object:
    """What has to stand in the agent's hook file: a hook for every event of the row, and Remit's tools allowed."""
    allowed: Object = {"permissions": {"allow": list(row.permissions)}} if row.permissions else {}
    return {"hooks": hooks(row, client), **allowed}
