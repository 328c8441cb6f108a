"""The `claude` dialect: JSON on stdin with `hook_event_name`; one minimal JSON object or nothing on stdout.

Sources: Claude Code 2.1.330, Codex CLI 0.169.0 and Qwen Code 0.24.4 run with dumping hooks, read 2026-11.
"""

from typing import Literal

import msgspec

from remit.adapters.hook_entries import build_hooks
from remit.adapters.payload import (
    DEFAULT_DENIAL,
    SUMMARY_CHARS,
    HookReply,
    JsonObject,
    can_continue,
    find_diff_lines,
    find_hunk_additions,
    find_row_event,
    find_stated_exit_code,
    has_read_only_error,
    lacks_remit,
    optional_text,
    parse_duration_ms,
    parse_event,
)
from remit.core.agents.row import AgentRow
from remit.core.call import BeforeCall, HookEvent, Outcome
from remit.core.decision import Decision
from remit.core.diff.contents import LineRange
from remit.core.untrusted_input import as_array, as_object


def parse(row: AgentRow, payload: bytes) -> HookEvent:
    return parse_event(row, payload, parse_outcome)


def parse_outcome(row: AgentRow, document: JsonObject, failed: bool) -> Outcome:
    """Parse the result; of a failure only the error text contains the exit code."""
    duration = parse_duration_ms(document)
    if failed:
        error = optional_text(document, "error") or ""
        response = document.get("tool_response")
        texts = (error, response, *as_object(response).values())
        return Outcome(
            False,
            find_stated_exit_code(error),
            error[:SUMMARY_CHARS],
            duration,
            read_only=has_read_only_error(*texts),
            lacks_remit=lacks_remit(*texts),
        )
    response = document.get("tool_response")
    result = as_object(response)
    tool = row.tools.get(optional_text(document, "tool_name") or "")
    states_code = tool is not None and tool.patch is not None and isinstance(response, str)
    code = find_stated_exit_code(str(response)) if states_code else None
    kind = result.get("type")
    ran = "stdout" in result or "stderr" in result
    return Outcome(
        ok=result.get("interrupted") is not True and not code,
        exit_code=code,
        # Never file contents
        summary="ran" if ran else kind[:SUMMARY_CHARS] if isinstance(kind, str) else type(response).__name__,
        duration_ms=duration,
        positions=find_written_lines(result) or find_diff_lines(as_object(result.get("returnDisplay"))),
        changed_by_person=result.get("userModified") is True,
        read_only=has_read_only_error(response, *result.values()),
        lacks_remit=lacks_remit(response, *result.values()),
    )


def find_written_lines(result: JsonObject) -> dict[str, tuple[LineRange, ...]]:
    path = result.get("filePath")
    hunks = map(as_object, as_array(result.get("structuredPatch")))
    found = tuple(r for hunk in hunks for r in find_hunk_additions(as_array(hunk.get("lines")), hunk.get("newStart")))
    return {path: found} if found and isinstance(path, str) else {}


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
    before = isinstance(event, BeforeCall)
    said = reason if reason.strip() else DEFAULT_DENIAL
    if before and decision is not None and not can_continue(row, decision, arguments):
        answer["permissionDecision"] = "ask" if decision.effect == "ask" and row.can_ask else "deny"
        answer["permissionDecisionReason"] = said
    elif before and arguments is not None and row.rewrites == "with allow":
        answer["permissionDecision"] = "deny" if permission == "ask" else "allow"
    elif before and arguments is not None and permission:
        answer["permissionDecision"] = permission if permission == "allow" or row.can_ask else "deny"
        answer["permissionDecisionReason"] = said
    if before and arguments is not None and answer.get("permissionDecision") != "deny":
        answer["updatedInput"] = arguments
    kind = find_row_event(event)
    if context and kind in row.context_events:
        answer["additionalContext"] = context
    if not answer:
        return HookReply()
    name = next((name for name, found in row.events.items() if found == kind), "")
    return HookReply(msgspec.json.encode({"hookSpecificOutput": {"hookEventName": name, **answer}}))


def settings(row: AgentRow, client: str) -> JsonObject:
    allowed: JsonObject = {"permissions": {"allow": list(row.permissions)}} if row.permissions else {}
    return {"hooks": build_hooks(row, client), **allowed}
