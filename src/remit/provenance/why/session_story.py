"""Story of a session: prompts, answers, calls with their verdicts, and changes."""

from collections.abc import Iterable, Iterator
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.ledger.index.index import Index
from remit.provenance.blame.blamed_line import body_of
from remit.provenance.why.conversation_store import ConversationEntry, Conversations

StepKind: TypeAlias = Literal["asked", "said", "thought", "call", "summary", "intent", "approval"]

KINDS: dict[str, StepKind] = {"user": "asked", "assistant": "said", "thinking": "thought", "summary": "summary"}
MAX_RECORDS = 20_000
INTENT_EVENTS = ("intent_selected", "intent_cleared", "intent_transition")
FIRST_CALL_EVENTS = ("tool_use", "denied", "approval_requested")
"""Events behind which a step with a verdict is an earlier call with the same arguments."""


class Consent(Struct, frozen=True):
    """A question to a person and the answer: `allow`, `deny` or empty; its extent and the person's words."""

    action: str = ""
    rule: str = ""
    risk: int | None = None
    reasons: tuple[str, ...] = ()
    answer: str = ""
    by: str = ""
    extent: str = ""
    words: str = ""


class StoryStep(Struct, frozen=True):
    """One step. `verdict` of a call is `allow`, `contain`, `deny` or another recorded effect; empty without a record.
    `operations` belong to the `changed` files. git brought the contents of `brought`; Remit restored the files
    `undone`. `grant` is `once` or the id of the grant.
    """

    at: str
    kind: StepKind
    text: str
    agent_id: str = ""
    tool: str = ""
    verdict: str = ""
    code: str = ""
    changed: tuple[str, ...] = ()
    failed: bool = False
    operations: tuple[str, ...] = ()
    brought: tuple[str, ...] = ()
    undone: tuple[str, ...] = ()
    exit_code: int | None = None
    grant: str = ""
    consents: tuple[Consent, ...] = ()


def tell_session_story(index: Index, conversations: Conversations, session: str) -> tuple[StoryStep, ...]:
    """Return every step of a session and its sub-agents in time order. Raises sqlite3.Error."""
    records = index.find(session_id=session, limit=MAX_RECORDS)[::-1]
    steps_of_calls = steps_by_call(records)
    agents = ["", *dict.fromkeys(step.agent_id for calls in steps_of_calls.values() for step in calls if step.agent_id)]
    entries = [(agent, entry) for agent in agents for entry in conversations.entries_of_session(session, agent)]
    failed = {entry.call_id for _, entry in entries if entry.role == "tool_result" and entry.failed}
    steps = [step for agent, entry in entries if (step := step_of_entry(entry, agent, steps_of_calls, failed))]
    steps += [step for calls in steps_of_calls.values() for step in calls]
    return tuple(sorted([*steps, *intent_steps(records), *approval_steps(records)], key=lambda step: step.at[:23]))


def step_of_entry(
    entry: ConversationEntry, agent: str, steps_of_calls: dict[str, list[StoryStep]], failed: set[str]
) -> StoryStep | None:
    """Return the step of a conversation entry, removing its call from `steps_of_calls`; None for tool results."""
    if (kind := KINDS.get(entry.role)) is not None:
        return StoryStep(entry.at, kind, entry.text, agent)
    if entry.role != "tool_call":
        return None
    known = (steps_of_calls.get(key) for key in call_keys(entry.call_id, entry.arguments_sha256))
    calls = next(filter(None, known), None)
    step = calls.pop(0) if calls else StoryStep(entry.at, "call", entry.text)
    has_failed = step.failed or entry.call_id in failed
    text = step.text if entry.text.endswith(f"/{step.text}") else entry.text  # the path as the record has it
    return replace(step, at=entry.at, text=text, agent_id=agent, tool=entry.tool, failed=has_failed)


def call_keys(call_id: str, arguments_sha256: str) -> list[str]:
    return [call_id] * bool(call_id) + [f"sha256:{arguments_sha256}"] * bool(arguments_sha256)


def steps_by_call(records: Iterable[dict[str, Any]]) -> dict[str, list[StoryStep]]:
    steps: dict[str, list[StoryStep]] = {}
    for document in records:
        body = body_of(document)
        call: dict[str, Any] = body.get("call", {})
        keys = call_keys(str(call.get("id") or ""), str(call.get("arguments_sha256") or ""))
        if not keys:
            continue
        calls = steps.setdefault(keys[0], [])
        if not calls or (body.get("event") in FIRST_CALL_EVENTS and calls[-1].verdict):
            tool = str(call.get("name") or "")
            action = str(body.get("approval", {}).get("action") or "").removeprefix(f"{tool}: ")
            text = str(call.get("command") or "") or action or ", ".join(call.get("paths", []))
            calls.append(StoryStep(str(document["timestamp"]), "call", text, str(body.get("agent_id") or ""), tool))
        calls[-1] = add_record(calls[-1], body)
    return steps


def add_record(step: StoryStep, body: dict[str, Any]) -> StoryStep:
    files: list[dict[str, Any]] = body.get("files", [])
    paths, operations = (tuple(str(file.get(name)) for file in files) for name in ("path", "operation"))
    match body.get("event"):
        case "denied":
            return replace(step, verdict="deny", code=str(body.get("violation", {}).get("error_type") or ""))
        case "tool_use":
            decision: dict[str, Any] = body.get("decision", {})
            return replace(step, verdict=str(decision.get("effect") or ""), grant=str(decision.get("grant") or ""))
        case "tool_result":
            result: dict[str, Any] = body.get("result", {})
            return replace(step, exit_code=result.get("exit_code"), failed=result.get("ok") is False)
        case "mutation":
            return replace(step, changed=(*step.changed, *paths), operations=(*step.operations, *operations))
        case "human_edit":
            return replace(step, brought=(*step.brought, *paths))
        case "restore":
            return replace(step, undone=(*step.undone, *map(str, body.get("paths", []))))
        case "approval_requested" | "approval_answered":
            return replace(step, consents=add_approval(step.consents, body))
        case _:
            return step


def add_approval(consents: tuple[Consent, ...], body: dict[str, Any]) -> tuple[Consent, ...]:
    approval: dict[str, Any] = body.get("approval", {})
    is_question = body.get("event") == "approval_requested"
    if is_question or not consents:
        action, rule = (str(approval.get(name) or "") for name in ("action", "rule"))
        reasons = tuple(map(str, approval.get("reasons", ())))
        consents = (*consents, Consent(action, rule, approval.get("risk"), reasons))
    if is_question:
        return consents
    words = {key: str(approval.get(key) or "") for key in ("answer", "by", "extent", "words")}
    return (*consents[:-1], replace(consents[-1], **words))


def approval_steps(records: Iterable[dict[str, Any]]) -> Iterator[StoryStep]:
    steps: dict[str, StoryStep] = {}
    for document in records:
        body = body_of(document)
        if body.get("event") not in ("approval_requested", "approval_answered") or body.get("call"):
            continue
        approval: dict[str, Any] = body.get("approval", {})
        name = str(approval.get("id"))
        step = steps.get(name) or StoryStep(str(document["timestamp"]), "approval", str(approval.get("action") or name))
        steps[name] = replace(step, consents=add_approval(step.consents, body))
    yield from steps.values()


def intent_steps(records: Iterable[dict[str, Any]]) -> Iterator[StoryStep]:
    for document in records:
        body = body_of(document)
        if (event := str(body.get("event"))) in INTENT_EVENTS:
            target = f" to {body.get('to')}" if body.get("to") else ""
            text = f"{body.get('intent_id')} {event.removeprefix('intent_')}{target}"
            text += f": {body.get('reasoning')}" if body.get("reasoning") else ""
            yield StoryStep(str(document["timestamp"]), "intent", text, str(body.get("agent_id") or ""))
