"""Making a fixture of a recorded decision: the call as recorded, and the facts that it met, as far as they stand.

Where a fact has gone by since (what a session had read, how often it was refused), it is taken from what was decided.
"""

from typing import Any, cast

from msgspec import Struct, convert
from msgspec.structs import replace

from remit.core.call import Effect, SessionKey, ToolCall
from remit.core.decision import Verdict
from remit.core.facts import Facts, SessionFacts
from remit.core.intent import Intent, IntentsDocument
from remit.core.intentset import IntentSet
from remit.core.record import KEY
from remit.gate.gather import gather
from remit.gate.governing import VERSIONS, Governing, copies_of
from remit.gate.site import Site
from remit.policy.fixtures import ROOT, VERSION, Document, Fixture, cleaned, fixture, replayed
from remit.workspace.intents_file import parse_intents

NO_CONTENT = "0" * 64


class Reported(Struct, frozen=True):
    """The fixture, and the verdict that its facts give now."""

    document: Document
    verdict: Verdict
    was: Verdict


def reported(site: Site, record: dict[str, Any], expected: Verdict, why: str) -> Reported:
    """The fixture of a `denied` or `tool_use` record. Raises StateError, GitError, OSError; LookupError for others."""
    body: dict[str, Any] = record["metadata"][KEY]
    if body.get("event") not in ("denied", "tool_use") or not isinstance(body.get("call"), dict):
        raise LookupError(f"record {record['id']} is of {body.get('event')!r}: it holds no decision about a call")
    rules = rules_then(site, body)
    call = call_of(record, body, str(site.workspace.root))
    decision = body.get("decision", {})
    found = gather(call, site.workspace, rules, site.state, site.store, site.environment)
    facts = replace(facts_then(found.facts, body), mode=decision.get("mode", found.facts.mode))
    was = cast("Verdict", decision.get("verdict", "deny"))
    about = Fixture(VERSION, expected, was, {}, {}, why=why, record=str(record["id"]))
    home = str(site.environment.home)
    places = {str(site.workspace.root): ROOT, home: "/home/someone", str(site.environment.temporary): "/tmp"}  # noqa: S108
    document = cleaned(fixture(found.call, facts, told_intents(rules, facts), about), places)
    again = replayed(convert(document, Fixture)).verdict
    return Reported({**document, "reproduced": again == was}, again, was)


def rules_then(site: Site, body: dict[str, Any]) -> Governing:
    """The rules, with the intents file that was in force where its content was kept."""
    rules = site.governing
    digest = str(body.get("decision", {}).get("intent_sha256", ""))
    kept = copies_of(site.workspace) / VERSIONS / digest
    if not digest.isalnum() or not kept.is_file():
        return rules
    document: IntentsDocument = parse_intents(kept.read_bytes())
    return replace(rules, document=document, intents=IntentSet(document.intents), invalid=bool(document.errors))


def call_of(record: dict[str, Any], body: dict[str, Any], root: str) -> ToolCall:
    """The call, as far as the record tells it."""
    call: dict[str, Any] = body["call"]
    command = call.get("command")
    return ToolCall(
        agent=str(record.get("tool", {}).get("name", "")),
        session=SessionKey(str(body.get("session_id") or ""), str(body.get("agent_id") or "")),
        tool=str(call.get("name", "")),
        effect=cast("Effect", call.get("effect", "execute")),
        cwd=root,
        paths=() if command is not None else tuple(map(str, call.get("paths", []))),
        command=command,
        whole_workspace=command is not None,
    )


def facts_then(facts: Facts, body: dict[str, Any]) -> Facts:
    """The facts with those that have gone by since, as the violation tells them."""
    facts = replace(facts, session=SessionFacts(body.get("intent_id"), facts.session.source))
    if "detour" not in body.get("decision", {}).get("rules", []):
        facts = replace(facts, denied=())
    match body.get("violation", {}).get("error_type"):
        case "STALE_FILE":
            path = body["violation"].get("path")
            seen = (replace(t, seen_sha256=NO_CONTENT) if t.path == path else t for t in facts.targets)
            return replace(facts, targets=tuple(seen))
        case "FILE_LEASED":
            path = body["violation"].get("path")
            held = (replace(t, leased_by="another session") if t.path == path else t for t in facts.targets)
            return replace(facts, targets=tuple(held))
        case "CIRCUIT_OPEN":
            return replace(facts, session=replace(facts.session, denials=3, failures=5))
        case _:
            return facts


def told_intents(rules: Governing, facts: Facts) -> list[Intent]:
    """The intents that the decision is about: the active one, and whose the files are. Their words for people go."""
    owners = {owner for target in facts.targets if target.path for owner in facts.intents.owners(target.path)}
    wanted = owners | {facts.session.intent_id}
    every = rules.document.intents if rules.document else ()
    return [
        replace(intent, description="", owner="", acceptance_criteria=(), references=(), blocked_reason=None)
        for intent in every
        if intent.id in wanted
    ]
