"""A session's story: what was asked and said, each call with its verdict, and what it changed."""

from collections.abc import Iterable, Iterator
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.ledger.index.index import Index
from remit.provenance.why.causes import body_of
from remit.provenance.why.conversations import ConversationEntry, Conversations

StepKind: TypeAlias = Literal["asked", "said", "thought", "call", "summary", "intent", "approval"]

KINDS: dict[str, StepKind] = {"user": "asked", "assistant": "said", "thinking": "thought", "summary": "summary"}
MAX_RECORDS = 20_000
INTENT_EVENTS = ("intent_selected", "intent_cleared", "intent_transition")
FIRST_CALL_EVENTS = ("tool_use", "denied", "approval_requested")
"""Events after which what has a verdict already is an earlier call of the same arguments."""


class Consent(Struct, frozen=True):
    """A question to a person, and the answer: `allow` or `deny`, empty for none; how far it reaches, their words."""

    action: str = ""
    rule: str = ""
    risk: int | None = None
    reasons: tuple[str, ...] = ()
    answer: str = ""
    by: str = ""
    extent: str = ""
    words: str = ""


class StoryStep(Struct, frozen=True):
    """One step. Of a call, `verdict` is `allow`, `contain`, `deny` or what the ledger says else; empty where no record
    has it. `operations` say what happened to each of the `changed` files. Git brought the contents of the files
    `brought`, and Remit put the files `undone` back. `grant` is the yes that let the call through, `once` or its id.
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
    """All steps of a session and its sub-agents, in the order of time. Raises sqlite3.Error."""
    records = index.find(session_id=session, limit=MAX_RECORDS)[::-1]
    judged = steps_by_call(records)
    agents = ["", *dict.fromkeys(step.agent_id for calls in judged.values() for step in calls if step.agent_id)]
    spoken = [(agent, one) for agent in agents for one in conversations.entries_of_session(session, agent)]
    failed = {one.call_id for _, one in spoken if one.role == "tool_result" and one.failed}
    steps = [step for agent, one in spoken if (step := step_of_entry(one, agent, judged, failed))]
    steps += [step for calls in judged.values() for step in calls]
    return tuple(sorted([*steps, *intent_steps(records), *approval_steps(records)], key=lambda step: step.at[:23]))


def step_of_entry(
    one: ConversationEntry, agent: str, judged: dict[str, list[StoryStep]], failed: set[str]
) -> StoryStep | None:
    """An entry of the conversation as a step, its call taken out of `judged`; None for what a tool answered."""
    kind = KINDS.get(one.role)
    if kind is not None:
        return StoryStep(one.at, kind, one.text, agent)
    if one.role != "tool_call":
        return None
    calls = next((found for key in call_keys(one.call_id, one.arguments_sha256) if (found := judged.get(key))), None)
    known = calls.pop(0) if calls else StoryStep(one.at, "call", one.text)
    broken = known.failed or one.call_id in failed
    return replace(known, at=one.at, text=one.text, agent_id=agent, tool=one.tool, failed=broken)


def call_keys(call_id: str, arguments_sha256: str) -> Iterator[str]:
    """What a call is known by: its id, where the agent gives one to its hooks, or its arguments."""
    if call_id:
        yield call_id
    if arguments_sha256:
        yield f"sha256:{arguments_sha256}"


def steps_by_call(records: Iterable[dict[str, Any]]) -> dict[str, list[StoryStep]]:
    """The calls of a session by their key, the oldest first: without an id, several may have one key."""
    found: dict[str, list[StoryStep]] = {}
    for document in records:
        body = body_of(document)
        call: dict[str, Any] = body.get("call", {})
        key = next(call_keys(str(call.get("id") or ""), str(call.get("arguments_sha256") or "")), None)
        if key is None:
            continue
        calls = found.setdefault(key, [])
        if not calls or (body.get("event") in FIRST_CALL_EVENTS and calls[-1].verdict):
            calls.append(first_step_of_call(document, body, call))
        calls[-1] = add_record(calls[-1], body)
    return found


def first_step_of_call(document: dict[str, Any], body: dict[str, Any], call: dict[str, Any]) -> StoryStep:
    """A call, as its first record tells of it."""
    tool = str(call.get("name") or "")
    asked = str(body.get("approval", {}).get("action") or "").removeprefix(f"{tool}: ")
    said = str(call.get("command") or "") or asked or ", ".join(call.get("paths", []))
    return StoryStep(str(document["timestamp"]), "call", said, str(body.get("agent_id") or ""), tool)


def add_record(known: StoryStep, body: dict[str, Any]) -> StoryStep:
    """The call with what one more record says of it."""
    match body.get("event"):
        case "denied":
            return replace(known, verdict="deny", code=str(body.get("violation", {}).get("error_type") or ""))
        case "tool_use":
            decision: dict[str, Any] = body.get("decision", {})
            return replace(known, verdict=str(decision.get("effect") or ""), grant=str(decision.get("grant") or ""))
        case "tool_result":
            result: dict[str, Any] = body.get("result", {})
            return replace(known, exit_code=result.get("exit_code"), failed=result.get("ok") is False)
        case "mutation":
            files: list[dict[str, Any]] = body.get("files", [])
            operations = tuple(str(file.get("operation")) for file in files)
            paths = (*known.changed, *file_paths(files))
            return replace(known, changed=paths, operations=(*known.operations, *operations))
        case "human_edit":
            return replace(known, brought=(*known.brought, *file_paths(body.get("files", []))))
        case "restore":
            return replace(known, undone=(*known.undone, *map(str, body.get("paths", []))))
        case "approval_requested" | "approval_answered":
            return replace(known, consents=add_approval(known.consents, body))
        case _:
            return known


def file_paths(files: Iterable[dict[str, Any]]) -> tuple[str, ...]:
    """The paths of a record's files."""
    return tuple(str(file.get("path")) for file in files)


def add_approval(known: tuple[Consent, ...], body: dict[str, Any]) -> tuple[Consent, ...]:
    """Add a question, or the answer to the newest one."""
    said: dict[str, Any] = body.get("approval", {})
    if body.get("event") == "approval_requested" or not known:
        reasons = tuple(map(str, said.get("reasons", ())))
        asked = Consent(str(said.get("action") or ""), str(said.get("rule") or ""), said.get("risk"), reasons)
        known = (*known, asked)
    if body.get("event") == "approval_requested":
        return known
    words = {key: str(said.get(key) or "") for key in ("answer", "by", "extent", "words")}
    return (*known[:-1], replace(known[-1], **words))


def approval_steps(records: Iterable[dict[str, Any]]) -> Iterator[StoryStep]:
    """What a person was asked without a call: an intent to make, a scope to widen. Older records name no call."""
    found: dict[str, StoryStep] = {}
    for document in records:
        body = body_of(document)
        if body.get("event") not in ("approval_requested", "approval_answered") or body.get("call"):
            continue
        said: dict[str, Any] = body.get("approval", {})
        name = str(said.get("id"))
        step = found.get(name) or StoryStep(str(document["timestamp"]), "approval", str(said.get("action") or name))
        found[name] = replace(step, consents=add_approval(step.consents, body))
    yield from found.values()


def intent_steps(records: Iterable[dict[str, Any]]) -> Iterator[StoryStep]:
    """What happened to the intent that the session works under."""
    for document in records:
        body = body_of(document)
        event = str(body.get("event"))
        if event in INTENT_EVENTS:
            word = event.removeprefix("intent_")
            to = f" to {body.get('to')}" if body.get("to") else ""
            said = ": ".join(filter(None, (f"{body.get('intent_id')} {word}{to}", str(body.get("reasoning") or ""))))
            yield StoryStep(str(document["timestamp"]), "intent", said, str(body.get("agent_id") or ""))
