"""A session's story: what was asked and said, each call with its verdict, and what it changed."""

from collections.abc import Iterable, Iterator
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.core.text import shown
from remit.ledger.index import Index
from remit.provenance.why.causes import body_of
from remit.provenance.why.conversations import Conversations, Spoken

Kind: TypeAlias = Literal["asked", "said", "thought", "call", "summary", "intent"]

KINDS: dict[str, Kind] = {"user": "asked", "assistant": "said", "thinking": "thought", "summary": "summary"}
MOST_RECORDS = 20_000
INTENTS = ("intent_selected", "intent_cleared", "intent_transition")


class Step(Struct, frozen=True):
    """One step. Of a call, `verdict` is `allow`, `deny` or what the ledger says else; empty where no record has it."""

    at: str
    kind: Kind
    text: str
    agent_id: str = ""
    tool: str = ""
    verdict: str = ""
    code: str = ""
    changed: tuple[str, ...] = ()
    failed: bool = False


class Judged(Struct, frozen=True):
    """What the ledger knows of one call."""

    at: str
    tool: str
    text: str
    agent_id: str = ""
    verdict: str = ""
    code: str = ""
    changed: tuple[str, ...] = ()


def story(index: Index, conversations: Conversations, session: str) -> tuple[Step, ...]:
    """All steps of a session and its sub-agents, in the order of time. Raises sqlite3.Error."""
    records = index.find(session_id=session, limit=MOST_RECORDS)[::-1]
    judged = calls_of(records)
    agents = ["", *dict.fromkeys(j.agent_id for calls in judged.values() for j in calls if j.agent_id)]
    spoken = [(agent, one) for agent in agents for one in conversations.of_session(session, agent)]
    failed = {one.call_id for _, one in spoken if one.role == "tool_result" and one.failed}
    steps = [step for agent, one in spoken if (step := told(one, agent, judged, failed))]
    alone = (j for calls in judged.values() for j in calls)
    steps += [Step(j.at, "call", j.text, j.agent_id, j.tool, j.verdict, j.code, j.changed) for j in alone]
    return tuple(sorted([*steps, *intents(records)], key=lambda step: step.at[:23]))


def told(one: Spoken, agent: str, judged: dict[str, list[Judged]], failed: set[str]) -> Step | None:
    """An entry of the conversation as a step, its call taken out of `judged`; None for what a tool answered."""
    kind = KINDS.get(one.role)
    if kind is not None:
        return Step(one.at, kind, one.text, agent)
    if one.role != "tool_call":
        return None
    calls = next((found for key in keys(one.call_id, one.arguments_sha256) if (found := judged.get(key))), None)
    known = calls.pop(0) if calls else Judged(one.at, one.tool, one.text)
    broken = one.call_id in failed
    return Step(one.at, "call", one.text, agent, one.tool, known.verdict, known.code, known.changed, broken)


def keys(call_id: str, arguments_sha256: str) -> Iterator[str]:
    """What a call is known by: its id, where the agent gives one to its hooks, or its arguments."""
    if call_id:
        yield call_id
    if arguments_sha256:
        yield f"sha256:{arguments_sha256}"


def calls_of(records: Iterable[dict[str, Any]]) -> dict[str, list[Judged]]:
    """The calls of a session by their key, the oldest first: without an id, several may have one key."""
    found: dict[str, list[Judged]] = {}
    for document in records:
        body = body_of(document)
        call: dict[str, Any] = body.get("call", {})
        key = next(keys(str(call.get("id") or ""), str(call.get("arguments_sha256") or "")), None)
        if key is None:
            continue
        calls = found.setdefault(key, [])
        if not calls or (body.get("event") in ("tool_use", "denied") and calls[-1].verdict):
            calls.append(first_heard(document, body, call))
        calls[-1] = with_record(calls[-1], body)
    return found


def first_heard(document: dict[str, Any], body: dict[str, Any], call: dict[str, Any]) -> Judged:
    """A call, as its first record tells of it."""
    said = str(call.get("command") or ", ".join(call.get("paths", [])))
    return Judged(str(document["timestamp"]), str(call.get("name") or ""), said, str(body.get("agent_id") or ""))


def with_record(known: Judged, body: dict[str, Any]) -> Judged:
    """The call with what one more record says of it."""
    match body.get("event"):
        case "denied":
            code = str(body.get("violation", {}).get("error_type") or "")
            return replace(known, verdict="deny", code=code)
        case "tool_use":
            return replace(known, verdict=str(body.get("decision", {}).get("effect") or ""))
        case "mutation":
            paths = tuple(str(file.get("path")) for file in body.get("files", []))
            return replace(known, changed=(*known.changed, *paths))
        case _:
            return known


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


def in_words(steps: Iterable[Step], *, full: bool = False) -> str:
    """The story, a line a step; in full, every line of every text."""
    lines = [line for step in steps for line in step_lines(step, full)]
    return "\n".join(lines) or "nothing is known of that session"


def step_lines(step: Step, full: bool) -> Iterator[str]:
    """One step."""
    texts = [text for text in step.text.split("\n") if text.strip()]
    first, more = (shown(texts[0], 4000 if full else 140), texts[1:]) if texts else ("", [])
    who = f"[{shown(step.agent_id, 12)}] " if step.agent_id else ""
    tool = f"{shown(step.tool, 60)} " if step.tool else ""
    tail = "" if full or not more else " …"
    yield f"{step.at[11:19]:<8}  {step.kind:<7}  {who}{tool}{first}{tail}{outcome(step)}"
    if full:
        yield from (f"{'':<19}{shown(text, 4000)}" for text in more)


def outcome(step: Step) -> str:
    """What became of a call."""
    if step.kind != "call":
        return ""
    verdict = f"refused: {step.code}" if step.verdict == "deny" else step.verdict
    changed = f"changed {', '.join(shown(path, 80) for path in step.changed[:5])}" if step.changed else ""
    parts = ", ".join(filter(None, (verdict, "failed" if step.failed and step.verdict != "deny" else "", changed)))
    return f"  → {parts}" if parts else ""
