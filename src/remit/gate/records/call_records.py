"""Records of a call: decision, changes and result, with their parts in the shapes that the ledger holds."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType

from remit.core.call import Outcome, ToolCall
from remit.core.decision import Decision, Facts, Violation, leading_violation
from remit.core.diff.contents import Difference, Span, hash_line_ranges, subtract_spans
from remit.core.intent import Intent
from remit.core.record import (
    Body,
    CallPart,
    Content,
    Contributor,
    Conversation,
    DecisionPart,
    EventName,
    MutatedFile,
    MutationClass,
    Range,
    Record,
    Related,
    TracedFile,
    Vcs,
)
from remit.core.redaction import redact
from remit.core.scope.file_roles import has_known_language
from remit.core.scope.path_patterns import Scope
from remit.core.untrusted_input import escape_surrogates, quote_path, sanitise_line
from remit.gate.governing.rules import Rules
from remit.gate.records.recorder import Recorder
from remit.gate.state.workspace_state import PendingCall
from remit.workspace.observe.observation import Change
from remit.workspace.safe_files import ObservedFile

MAX_HUNKS = 500
"""Hunks of one file that a record holds; more are found again by comparing the contents."""

MAX_COMMAND_CHARS = 4096
MAX_SEARCHED_CHARS = 4 * MAX_COMMAND_CHARS
"""Characters of a command that are searched for secrets: an agent may send many megabytes."""


class ChangeEvidence(Struct, frozen=True):
    """The evidence for the lines of changed files, each part by path.

    `unproved` are the added lines that nothing proves to be the call's; of those in a path of `likely` the call is
    the only writer that can be seen, and those in a path of `layouts` only continue lines of the former content.
    """

    differences: Mapping[str, Difference] = {}
    unproved: Mapping[str, tuple[Span, ...]] = {}
    likely: frozenset[str] = frozenset()
    layouts: frozenset[str] = frozenset()
    model: str | None = None


# Parts


def call_body(event: EventName, call: ToolCall, intent_id: str | None, paths: Iterable[str] = (), **parts: Any) -> Body:
    """Return a record's body that names the call; `parts` are its further fields."""
    session = call.session
    part = call_part(call, paths)
    return Body(event, UNSET, intent_id, session.session_id, session.agent_id or UNSET, call=part, **parts)


def call_part(call: ToolCall, paths: Iterable[str] = ()) -> CallPart:
    return CallPart(
        id=call.call_id or UNSET,
        name=call.tool,
        effect=call.effect,
        paths=tuple(map(quote_path, paths)),
        command=UNSET if call.command is None else redact_command(call.command),
        arguments_sha256=call.arguments_sha256,
    )


def redact_command(command: str) -> str:
    return redact(command[:MAX_SEARCHED_CHARS])[:MAX_COMMAND_CHARS]


def decision_part(made: Decision | PendingCall | None, intent_sha256: str | None = None) -> DecisionPart | UnsetType:
    if made is None:
        return UNSET
    is_pending = isinstance(made, PendingCall)
    return DecisionPart(
        effect="allow" if is_pending else made.effect,
        verdict=made.verdict,
        mode=made.mode,
        rules=made.rules if is_pending else tuple(f.rule for f in made.findings),
        approved_by="person" if made.grants else None,
        grant=", ".join(dict.fromkeys(made.grants)) or None,
        intent_sha256=(made.intent_sha256 if is_pending else intent_sha256) or UNSET,
    )


def violation_document(violation: Violation) -> dict[str, Any]:
    document = msgspec.to_builtins(violation)
    context = {key: value for key, value in document.get("context", {}).items() if key != "diff"}
    return clean_value({**document, "context": context})


def clean_value(value: Any) -> Any:
    match value:
        case str():
            return escape_surrogates(redact_command(value))
        case dict():
            return {key: clean_value(found) for key, found in cast("dict[str, Any]", value).items()}
        case list() | tuple():
            return [clean_value(found) for found in cast("list[Any]", value)]
        case _:
            return value


def content_part(side: ObservedFile | None) -> Content | UnsetType:
    if side is None:
        return UNSET
    version = side.version
    return Content(sha256=version.sha256, git_blob=version.git_blob, lines=version.lines, mode=version.mode)


def mutated_file(
    change: Change,
    intent: Intent | None = None,
    ranges: tuple[Range, ...] = (),
    difference: Difference | None = None,
    unproved: tuple[Span, ...] = (),
    *,
    likely: bool = False,
    layout: bool = False,
) -> MutatedFile:
    """Return one changed file in Remit's own shape."""
    hunks = difference.hunks if difference and len(difference.hunks) <= MAX_HUNKS else None
    return MutatedFile(
        path=quote_path(change.path),
        operation="create" if change.before is None else "delete" if change.after is None else "modify",
        before=content_part(change.before),
        after=content_part(change.after),
        in_scope=is_in_scope(change.path, intent),
        ranges=ranges or UNSET,
        hunks=UNSET if hunks is None else tuple((h.old, h.old_lines, h.new, h.new_lines) for h in hunks),
        told=difference.from_tool or UNSET if difference else UNSET,
        unproved=unproved or UNSET,
        likely=True if likely and unproved else UNSET,
        layout=True if layout and unproved else UNSET,
    )


def is_in_scope(path: str, intent: Intent | None) -> bool:
    return intent is not None and Scope(intent.owned_scope).matches(path)


def traced_ranges(after: ObservedFile | None, spans: tuple[Span, ...]) -> tuple[Range, ...]:
    text = after.content if after else None
    if text is None or not spans:
        return ()
    hashes = hash_line_ranges(text, spans)
    return tuple(Range(start, end, digest) for (start, end), digest in zip(spans, hashes, strict=True))


def traced_file(
    path: str,
    own: tuple[Range, ...],
    unproved: tuple[Range, ...],
    session_id: str,
    related: tuple[Related, ...],
    model: str | None,
) -> TracedFile:
    # The session as part of a URN. Source: RFC 8141 §2, read 2026-11.
    quoted = re.sub(rb"[^\w.~-]", lambda found: b"%%%02X" % found[0][0], session_id.encode("utf-8", "replace"))
    author = Contributor(type="ai", entity_type="AI", model_id=model or UNSET, model_identifier=model or UNSET)
    parts = [(own, author)] if own or not unproved else []
    parts += [(unproved, Contributor(type="unknown"))] if unproved else []
    url, name = f"urn:remit:session:{quoted.decode()}", quote_path(path)
    conversations = (Conversation(ranges, url, contributor, related or UNSET) for ranges, contributor in parts)
    return TracedFile(path=name, relative_path=name, conversations=tuple(conversations))


# Before the call


def path_names(facts: Facts) -> list[str]:
    return [str(t.path) if t.path is not None else sanitise_line(t.resolved) for t in facts.targets]


def tool_use_record(
    recorder: Recorder,
    call: ToolCall,
    facts: Facts,
    decision: Decision,
    rules: Rules,
    rewriters: Sequence[str],
    uncontained: str,
) -> Record:
    """Return the record of an allowed call, with its rewriting hooks, and the reason for running uncontained."""
    detail: dict[str, object] = {"rewritten_by": list(rewriters)} if rewriters else {}
    detail |= {"uncontained": uncontained} if uncontained else {}
    version = rules.document.find_version(facts.session.intent_id) if rules.document else None
    made = decision_part(decision, version)
    paths, parts = path_names(facts), {"decision": made, "detail": detail or UNSET}
    return recorder.make_record(call_body("tool_use", call, facts.session.intent_id, paths, **parts), call.agent)


def record_denial(recorder: Recorder, call: ToolCall, facts: Facts, decision: Decision) -> Violation:
    """Record a denied call and the checks that failed, and return the leading violation. Raises RECORDING_ERRORS."""
    violation = leading_violation(call, decision)
    if violation is None:
        raise AssertionError("a denial has a finding")
    body = call_body(
        "denied",
        call,
        facts.session.intent_id,
        path_names(facts),
        decision=decision_part(decision),
        violation=violation_document(violation),
    )
    recorder.append([recorder.make_record(body, call.agent), *failed_check_records(recorder, call, decision)])
    return violation


def failed_check_records(recorder: Recorder, call: ToolCall, decision: Decision) -> list[Record]:
    """Return a record of each check of Remit's own that raised an exception."""
    intent_id, session_id = decision.intent_id, call.session.session_id
    details = [dict(finding.context) for finding in decision.findings if "exception" in finding.context]
    bodies = [Body("check_failed", intent_id=intent_id, session_id=session_id, detail=detail) for detail in details]
    return [recorder.make_record(body) for body in bodies]


def unrecorded_call_record(
    recorder: Recorder, call: ToolCall, decision: Decision, violation: Violation | None, why: str
) -> Record:
    """Return the late record of a call that was answered without one: `why` is what kept it from being written. The
    state may be what is broken, so the record names the call's own paths and no intent. Raises OSError.
    """
    document = violation_document(violation) if violation else UNSET
    parts = {"decision": decision_part(decision), "violation": document, "detail": {"recorded_late": why}}
    event = "denied" if decision.effect == "deny" else "tool_use"
    body = call_body(event, call, None, call.paths, **parts)
    return recorder.make_record(body, call.agent)


def failed_event_record(recorder: Recorder, agent: str, call: ToolCall | None, why: str) -> Record:
    """Return the record of a hook's event that could not be answered; without a call if the payload names none."""
    session = call.session if call else None
    body = Body(
        "check_failed",
        intent_id=None,
        session_id=session.session_id if session else None,
        agent_id=session.agent_id or UNSET if session else UNSET,
        call=call_part(call, call.paths) if call else UNSET,
        detail={"check": "hook", "exception": why},
    )
    return recorder.make_record(body, agent)


# After the call


def mutation_record(
    recorder: Recorder,
    call: ToolCall,
    outcome: Outcome,
    pending: PendingCall | None,
    changes: Iterable[Change],
    evidence: ChangeEvidence,
    vcs: Vcs | None,
) -> Record:
    intent, intent_id = intent_at_decision(pending), pending.intent_id if pending else None
    link = Related(type="specification", url=f"urn:remit:intent:{intent_id}", value=intent_id) if intent_id else None
    links = (link,) if link else ()
    if call.patch_author:
        links += (Related(type="patch", url=f"urn:remit:attempt:{call.patch_author}", value=call.patch_author),)
    files: list[MutatedFile] = []
    published: list[TracedFile] = []
    for change in changes:
        path, after, difference = change.path, change.after, evidence.differences.get(change.path)
        added, unproved = difference.added_spans if difference else (), evidence.unproved.get(path, ())
        ranges = traced_ranges(after, added)
        own = traced_ranges(after, subtract_spans(added, unproved)) if unproved else ranges
        is_likely, is_layout = path in evidence.likely, path in evidence.layouts
        parts = (intent, ranges, difference, unproved)
        files.append(mutated_file(change, *parts, likely=is_likely, layout=is_layout))
        candidate = traced_ranges(after, unproved)
        published.append(traced_file(path, own, candidate, call.session.session_id, links, evidence.model))
    judged = set(map(quote_path, pending.judged)) if pending else set[str]()
    # The class of a change where no parser is needed; readers of the ledger find the rest. Code that comes or goes is
    # no refactoring, whatever else changed in the same call.
    evolves = any(f.operation in ("create", "delete") and has_known_language(str(f.path)) for f in files)
    body = call_body(
        "mutation",
        call,
        intent_id,
        [str(f.path) for f in files],
        mutation_class=MutationClass(call.citation.mutation_class, "INTENT_EVOLUTION" if evolves else None),
        files=tuple(files),
        decision=decision_part(pending),
        in_scope=all(f.in_scope for f in files),
        covered=pending is not None and all(f.path in judged for f in files),
        duration_ms=UNSET if outcome.duration_ms is None else outcome.duration_ms,
    )
    return recorder.make_record(body, call.agent, tuple(published), vcs=vcs)


def edit_record(
    recorder: Recorder,
    changes: Iterable[Change],
    detail: dict[str, Any],
    differences: Mapping[str, Difference] | None = None,
) -> Record:
    known = differences or {}
    files = tuple(mutated_file(change, difference=known.get(change.path)) for change in changes)
    body = Body("human_edit", intent_id=None, session_id=None, files=files, covered=False, detail=detail)
    return recorder.make_record(body)


def git_record(
    recorder: Recorder, call: ToolCall, pending: PendingCall | None, changes: Iterable[Change], vcs: Vcs | None
) -> Record:
    """Return the record of contents brought by git from older commits during the call.

    The call wrote no line, but ran git: the record names call, session, intent and the decision with grants.
    """
    body = call_body(
        "human_edit",
        call,
        pending.intent_id if pending else None,
        files=tuple(map(mutated_file, changes)),
        decision=decision_part(pending),
        covered=True,
        detail={"origin": "git", "noticed_in": call.session.session_id},
    )
    return recorder.make_record(body, call.agent, vcs=vcs)


def result_record(
    recorder: Recorder,
    call: ToolCall,
    outcome: Outcome | None,
    intent_id: str | None,
    vcs: Vcs | None,
    remarks: Sequence[str] = (),
) -> Record:
    """Return the record of a completed call, or of one whose result was never reported (None).

    `remarks` say what the observation left out.
    """
    result: dict[str, Any] = {"ok": None, "missing": True}
    duration = None
    if outcome is not None:
        summary = sanitise_line(redact_command(outcome.summary))
        result = {"ok": outcome.ok, "exit_code": outcome.exit_code, "summary": summary}
        duration = outcome.duration_ms
    body = call_body(
        "tool_result",
        call,
        intent_id,
        result=result,
        detail={"observation": list(remarks)} if remarks else UNSET,
        duration_ms=UNSET if duration is None else duration,
    )
    return recorder.make_record(body, call.agent, vcs=vcs)


def restore_record(recorder: Recorder, call: ToolCall, intent_id: str | None, detail: dict[str, object]) -> Record:
    return recorder.make_record(call_body("restore", call, intent_id, detail=detail))


def intent_at_decision(pending: PendingCall | None) -> Intent | None:
    if pending is None or pending.intent_id is None:
        return None
    return Intent(pending.intent_id, pending.owned_scope)
