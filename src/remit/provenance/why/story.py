"""A session's story: what was asked and said, each call with its verdict, and what it changed."""

from collections.abc import Iterable, Iterator
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.ledger.index import Index
from remit.provenance.why.causes import body_of
from remit.provenance.why.conversations import Conversations, Spoken

Kind: TypeAlias = Literal["asked", "said", "thought", "call", "summary", "intent", "approval"]

KINDS: dict[str, Kind] = {"user": "asked", "assistant": "said", "thinking": "thought", "summary": "summary"}
MOST_RECORDS = 20_000
INTENTS = ("intent_selected", "intent_cleared", "intent_transition")
CALLS_BEGIN = ("tool_use", "denied", "approval_requested")
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


class Step(Struct, frozen=True):
    """One step. Of a call, `verdict` is `allow`, `contain`, `deny` or what the ledger says else; empty where no record
    has it. `operations` say what happened to each of the `changed` files. Git brought the contents of the files
    `brought`, and Remit put the files `undone` back. `grant` is the yes that let the call through, `once` or its id.
    """

    at: str
    kind: Kind
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


def story(index: Index, conversations: Conversations, session: str) -> tuple[Step, ...]:
    """All steps of a session and its sub-agents, in the order of time. Raises sqlite3.Error."""
    records = index.find(session_id=session, limit=MOST_RECORDS)[::-1]
    judged = calls_of(records)
    agents = ["", *dict.fromkeys(step.agent_id for calls in judged.values() for step in calls if step.agent_id)]
    spoken = [(agent, one) for agent in agents for one in conversations.of_session(session, agent)]
    failed = {one.call_id for _, one in spoken if one.role == "tool_result" and one.failed}
    steps = [step for agent, one in spoken if (step := told(one, agent, judged, failed))]
    steps += [step for calls in judged.values() for step in calls]
    return tuple(sorted([*steps, *intents(records), *proposals(records)], key=lambda step: step.at[:23]))


def told(one: Spoken, agent: str, judged: dict[str, list[Step]], failed: set[str]) -> Step | None:
    """An entry of the conversation as a step, its call taken out of `judged`; None for what a tool answered."""
    kind = KINDS.get(one.role)
    if kind is not None:
        return Step(one.at, kind, one.text, agent)
    if one.role != "tool_call":
        return None
    calls = next((found for key in keys(one.call_id, one.arguments_sha256) if (found := judged.get(key))), None)
    known = calls.pop(0) if calls else Step(one.at, "call", one.text)
    broken = known.failed or one.call_id in failed
    return replace(known, at=one.at, text=one.text, agent_id=agent, tool=one.tool, failed=broken)


def keys(call_id: str, arguments_sha256: str) -> Iterator[str]:
    """What a call is known by: its id, where the agent gives one to its hooks, or its arguments."""
    if call_id:
        yield call_id
    if arguments_sha256:
        yield f"sha256:{arguments_sha256}"


def calls_of(records: Iterable[dict[str, Any]]) -> dict[str, list[Step]]:
    """The calls of a session by their key, the oldest first: without an id, several may have one key."""
    found: dict[str, list[Step]] = {}
    for document in records:
        body = body_of(document)
        call: dict[str, Any] = body.get("call", {})
        key = next(keys(str(call.get("id") or ""), str(call.get("arguments_sha256") or "")), None)
        if key is None:
            continue
        calls = found.setdefault(key, [])
        if not calls or (body.get("event") in CALLS_BEGIN and calls[-1].verdict):
            calls.append(first_heard(document, body, call))
        calls[-1] = with_record(calls[-1], body)
    return found


def first_heard(document: dict[str, Any], body: dict[str, Any], call: dict[str, Any]) -> Step:
    """A call, as its first record tells of it."""
    tool = str(call.get("name") or "")
    asked = str(body.get("approval", {}).get("action") or "").removeprefix(f"{tool}: ")
    said = str(call.get("command") or "") or asked or ", ".join(call.get("paths", []))
    return Step(str(document["timestamp"]), "call", said, str(body.get("agent_id") or ""), tool)


def with_record(known: Step, body: dict[str, Any]) -> Step:
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
            paths = (*known.changed, *paths_of(files))
            return replace(known, changed=paths, operations=(*known.operations, *operations))
        case "human_edit":
            return replace(known, brought=(*known.brought, *paths_of(body.get("files", []))))
        case "restore":
            return replace(known, undone=(*known.undone, *map(str, body.get("paths", []))))
        case "approval_requested" | "approval_answered":
            return replace(known, consents=with_approval(known.consents, body))
        case _:
            return known


def paths_of(files: Iterable[dict[str, Any]]) -> tuple[str, ...]:
    """The paths of a record's files."""
    return tuple(str(file.get("path")) for file in files)


def with_approval(known: tuple[Consent, ...], body: dict[str, Any]) -> tuple[Consent, ...]:
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


def proposals(records: Iterable[dict[str, Any]]) -> Iterator[Step]:
    """What a person was asked without a call: an intent to make, a scope to widen. Older records name no call."""
    found: dict[str, Step] = {}
    for document in records:
        body = body_of(document)
        if body.get("event") not in ("approval_requested", "approval_answered") or body.get("call"):
            continue
        said: dict[str, Any] = body.get("approval", {})
        name = str(said.get("id"))
        step = found.get(name) or Step(str(document["timestamp"]), "approval", str(said.get("action") or name))
        found[name] = replace(step, consents=with_approval(step.consents, body))
    yield from found.values()


def intents(records: Iterable[dict[str, Any]]) -> Iterator[Step]:
    """What happened to the intent that the session works under."""
    for document in records:
        body = body_of(document)
        event = str(body.get("event"))
        if event in INTENTS:
            word = event.removeprefix("intent_")
            to = f" to {body.get('to')}" if body.get("to") else ""
            said = ": ".join(filter(None, (f"{body.get('intent_id')} {word}{to}", str(body.get("reasoning") or ""))))
            yield Step(str(document["timestamp"]), "intent", said, str(body.get("agent_id") or ""))
