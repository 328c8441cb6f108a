"""Records in words: actor, action and object, the same on every surface.

A summary is pure text from a record. Words of agents and repositories stay untrusted: each surface escapes them.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple, TypeAlias

from remit.core.record import KEY
from remit.core.untrusted_input import as_object

Meaning: TypeAlias = (
    Literal["allowed", "contained", "asked", "denied", "failed", "undone", "changed", "warning", "quiet"]
    | Literal["agent", "person", "both", "git", "unknown", "intent", "session"]
)
"""What a mark says; every face has a glyph and a word for it."""

ID_CHARS = 8  # shown from the end of a record's id, which begins with the time
MAX_PATHS = 5
ORIGIN_MARKS: dict[str, tuple[Meaning, str]] = {
    "person": ("person", "person"),
    "git": ("git", "git"),
    "verification": ("quiet", "check"),
}
OTHER_EVENTS: dict[str, tuple[Meaning, str]] = {
    "session_start": ("session", "started"),
    "session_end": ("session", "ended"),
    "intent_selected": ("intent", "selected"),
    "intent_cleared": ("intent", "cleared"),
    "intent_transition": ("intent", "moved"),
    "intent_reopened": ("intent", "reopened"),
    "intent_renumbered": ("intent", "renumbered"),
    "intent_changed": ("intent", "changed"),
    "lesson": ("intent", "lesson"),
    "task_handed_in": ("intent", "handed in"),
    "task_landed": ("intent", "landed"),
    "work_requested": ("person", "asked for"),
    "check_failed": ("failed", "broken"),
    "console_paired": ("person", "paired"),
    "review_sent": ("person", "reviewed"),
    "setting_changed": ("person", "set"),
    "recovery": ("warning", "recovered"),
}
OPERATION_SIGNS = {"create": "+", "modify": "~", "delete": "-", "rename": ">"}
EXTENT_NAMES = {
    "once": "this once",
    "session": "for the session",
    "intent": "for the intent",
    "project": "for the project",
}


class RecordSummary(NamedTuple):
    """The verb and object of a record. `is_quiet`: another record of the same call says as much."""

    meaning: Meaning
    verb: str
    about: str
    is_quiet: bool = False


def name_actor(document: dict[str, Any]) -> tuple[Meaning, str]:
    """Return the actor: the agent with its sub-agent, a person, git, a check; or Remit."""
    body: dict[str, Any] = document["metadata"][KEY]
    event = body.get("event")
    if event == "human_edit" and not body.get("call"):
        return ORIGIN_MARKS.get(str(body.get("origin")), ("unknown", "unknown"))
    approval: dict[str, Any] = body.get("approval") or {}
    by = str(approval.get("by") or body.get("by") or "")
    if by == "person":
        who: dict[str, Any] = approval.get("who") or body.get("who") or {}
        return "person", str(who.get("name") or "person")
    if by == "unknown":
        return "unknown", "unknown"
    agent = str(document.get("tool", {}).get("name") or body.get("agent") or ("" if by == "nobody" else by))
    if not agent or event in ("snapshot", "tree_head"):
        return "quiet", "remit"
    below = f"/{str(body['agent_id'])[:6]}" if body.get("agent_id") else ""
    return "agent", agent + below


def summarize_record(body: dict[str, Any]) -> RecordSummary:
    decision: dict[str, Any] = body.get("decision", {})
    match body.get("event"):
        case "tool_use":
            verb = "contained" if decision.get("effect") == "contain" else "allowed"
            remark = ""
            if decision.get("approved_by"):
                remark = " (a person said yes)"
            elif decision.get("mode") in ("observe", "warn") and decision.get("verdict") in ("deny", "ask"):
                remark = f" ({decision['mode']}; enforce would not have allowed it)"
            return RecordSummary(verb, verb, describe_call(body) + remark)
        case "tool_result":
            result: dict[str, Any] = body.get("result", {})
            code = result.get("exit_code")
            if result.get("ok", True) and not code:
                return RecordSummary("quiet", "returned", describe_call(body), is_quiet=True)
            return RecordSummary("failed", "failed", describe_call(body) + (f" (exit {code})" if code else ""))
        case "denied":
            violation: dict[str, Any] = body.get("violation", {})
            about = describe_call(body, str(violation.get("path") or ""))
            return RecordSummary("denied", "denied", f"{about}: {violation.get('error_type') or ''}")
        case "mutation" | "human_edit":
            return summarize_change(body)
        case "replay":
            paths = list_paths(file.get("path") for file in body.get("files", []))
            return RecordSummary("quiet", "replayed", f"{paths}: {body.get('proved')} lines proved", is_quiet=True)
        case "generated":
            counted: dict[str, Any] = body.get("generated", {})
            folders = list_paths(counted.get("folders", {}))
            about = f"{counted.get('files')} files that git ignores, in {folders}"
            return RecordSummary("quiet", "generated", about)
        case "data_changed":
            return RecordSummary("quiet", "data", f"{body.get('path')}: runtime data, {body.get('bytes')} bytes")
        case "data_snapshot":
            about = f"{list_paths(body.get('paths', []))} as {body.get('id')}"
            return RecordSummary("quiet", "copied", about, is_quiet=True)
        case "restore":
            paths = list_paths(body.get("paths", []))
            if body.get("why"):
                return RecordSummary("undone", "undone", f"{paths}: {body['why']}")
            return RecordSummary("undone", "restored", f"{paths} to {body['to']}" if body.get("to") else paths)
        case "approval_requested" | "approval_answered":
            return summarize_approval(body)
        case "verification":
            about = " ".join(filter(None, (str(body.get("command")), list_paths(body.get("paths", [])))))
            passed = body.get("exit_code") == 0
            return RecordSummary("allowed", "passed", about) if passed else RecordSummary("failed", "failed", about)
        case event:
            name = str(body.get("name") or "")
            meaning, verb = OTHER_EVENTS.get(str(event), ("quiet", str(event)))
            if event == "intent_changed":
                verb = str(body.get("change") or ("deleted" if body.get("removed") else "changed"))
            about = ": ".join(filter(None, (name, "; ".join(filter(None, other_details(str(event), body))))))
            return RecordSummary(meaning, verb, about, is_quiet=event in ("snapshot", "tree_head", "pruned"))


def describe_call(body: dict[str, Any], path: str = "") -> str:
    call: dict[str, Any] = body.get("call", {})
    target = path or str(call.get("command") or "") or list_paths(call.get("paths", []))
    return " ".join(filter(None, (str(call.get("name") or ""), target)))


def list_paths(paths: Iterable[object]) -> str:
    names = [str(path) for path in paths]
    more = f" and {len(names) - MAX_PATHS} more" if len(names) > MAX_PATHS else ""
    return ", ".join(names[:MAX_PATHS]) + more


def summarize_change(body: dict[str, Any]) -> RecordSummary:
    files: list[dict[str, Any]] = body.get("files", [])
    paths = list_paths(f"{OPERATION_SIGNS.get(str(file.get('operation')), '~')}{file.get('path')}" for file in files)
    if body.get("event") == "human_edit" and body.get("call"):
        return RecordSummary("git", "by git", f"{describe_call(body)}: {paths}")
    remark = ""
    if body.get("in_scope") is False and body.get("intent_id") is not None:
        is_approved = body.get("decision", {}).get("approved_by")
        remark = " (out of scope, with a person's yes)" if is_approved else " (out of scope)"
    return RecordSummary("changed", "changed", paths + remark)


def summarize_approval(body: dict[str, Any]) -> RecordSummary:
    approval: dict[str, Any] = body.get("approval", {})
    tool = str(body.get("call", {}).get("name") or "")
    action = join_lines(str(approval.get("action") or f"question {str(approval.get('id') or '')[-ID_CHARS:]}"))
    if tool and action.startswith(f"{tool}: "):
        action = f"{tool} {action.removeprefix(f'{tool}: ')}"
    if body.get("event") == "approval_requested":
        risk = f", risk {approval['risk']}" if "risk" in approval else ""
        return RecordSummary("asked", "asked", f"{action}: {approval.get('rule') or 'a yes is needed'}{risk}")
    quote = f" “{approval['words']}”" if approval.get("words") else ""
    if approval.get("answer") != "allow":
        return RecordSummary("denied", "no", f"{action}{':' if quote else ''}{quote}")
    grant: dict[str, Any] = approval.get("grant") or {}
    extent = EXTENT_NAMES.get(str(grant.get("extent") or approval.get("extent") or "once"), "")
    rule = f" ({grant['rule']})" if grant.get("rule") else ""
    return RecordSummary("allowed", "yes", f"{extent}{rule}: {action}{quote}")


def other_details(event: str, body: dict[str, Any]) -> Iterator[str]:
    changed: dict[str, dict[str, Any]] = body.get("changed") or {} if event == "intent_changed" else {}
    for field, change in changed.items():
        if "to" in change:
            yield f"{field} {change.get('from') or 'nothing'} → {change['to'] or 'nothing'}"
        else:
            signs = [
                f"{sign}{text}" for sign, key in (("+", "added"), ("-", "removed")) for text in change.get(key, ())
            ]
            yield f"{field} {' '.join(signs)}"
    if event in ("intent_transition", "intent_renumbered"):
        yield f"{body.get('from')} to {body.get('to')}"
    if event == "setting_changed":
        yield f"{body.get('from') or 'default'} → {body.get('to') or 'default'}"
    if event == "lesson":
        yield str(as_object(body.get("lesson")).get("text") or "")
    keys = ("model", "source", "reason", "reasoning", "notes", "exception", "why")
    yield from (str(body[key]) for key in keys if body.get(key))


def join_lines(text: str) -> str:
    return " ⏎ ".join(text.splitlines())
