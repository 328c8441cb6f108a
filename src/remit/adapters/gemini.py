"""The `gemini` dialect: JSON on stdin with `hook_event_name`; `decision` and `reason` on stdout, or nothing.

With empty standard output the client reads standard error as the answer: for an allowed call both stay empty.
Source: Gemini CLI 0.61.0 run with dumping hooks, read 2026-11.
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
from remit.core.untrusted_input import as_array, as_object


def parse(row: AgentRow, payload: bytes) -> HookEvent:
    return parse_event(row, payload, parse_outcome)


def parse_outcome(row: AgentRow, document: JsonObject, failed: bool) -> Outcome:
    """Parse the result: `error` for a failed tool, a line of text for a failed command; 0 is not stated."""
    response = as_object(document.get("tool_response"))
    error, content = response.get("error"), response.get("llmContent")
    tool = row.tools.get(optional_text(document, "tool_name") or "")
    texts = [content] if isinstance(content, str) else [optional_text(as_object(p), "text") for p in as_array(content)]
    text = "\n".join(part or "" for part in texts).removeprefix("<untrusted_context>\n")
    code = find_stated_exit_code(text) if tool is not None and tool.command is not None else None
    message = error if isinstance(error, str) else optional_text(as_object(error), "message")
    return Outcome(
        ok=error is None and not code,
        exit_code=code,
        summary="ran" if error is None else (message or "failed")[:SUMMARY_CHARS],  # never file contents
        duration_ms=parse_duration_ms(document),
        positions=find_diff_lines(as_object(response.get("returnDisplay"))),
        read_only=has_read_only_error(error, *response.values()),
        lacks_remit=lacks_remit(error, *response.values()),
    )


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
    before = isinstance(event, BeforeCall)
    refused = before and decision is not None and not can_continue(row, decision, arguments)
    if refused or (before and arguments is not None and permission == "ask"):
        # An `ask` about replaced arguments may hang this client.
        asks = refused and decision is not None and decision.effect == "ask" and row.can_ask
        answer.update(decision="ask" if asks else "deny", reason=reason if reason.strip() else DEFAULT_DENIAL)
    elif before and arguments is not None:
        beside["tool_input"] = arguments
    kind = find_row_event(event)
    if context and kind in row.context_events:
        beside["additionalContext"] = context
    if beside:
        name = next((name for name, found in row.events.items() if found == kind), "")
        answer["hookSpecificOutput"] = {"hookEventName": name, **beside}
    return HookReply(msgspec.json.encode(answer)) if answer else HookReply()


def settings(row: AgentRow, client: str) -> JsonObject:
    return {"hooks": build_hooks(row, client, name="remit")}
