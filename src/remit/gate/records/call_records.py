"""Records of a call: decision, changes and result."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import UNSET, Struct

from remit.core.call import Outcome, ToolCall
from remit.core.decision import Decision, Violation
from remit.core.diff.contents import LineRange, hash_git_blob, sha256
from remit.core.display_text import quote_path, sanitise_line
from remit.core.facts import Facts
from remit.core.intent import Intent
from remit.core.record import Body, MutatedFile, Range, Record, Vcs
from remit.gate.evidence.differences import Difference, exclude_lines
from remit.gate.records.record_parts import (
    call_part,
    decision_part,
    mutated_file,
    mutation_body,
    pending_decision_part,
    redact_command,
    traced_file,
    traced_ranges,
    violation_document,
)
from remit.gate.records.recorder import Recorder
from remit.gate.rules.load import Rules
from remit.gate.rules.scope_exempt_files import MAX_LISTING_BYTES, GeneratedChange
from remit.gate.state.pending_calls import PendingCall
from remit.policy.violations import leading_violation
from remit.workspace.observe.observation import Change

MAX_FOLDERS = 50
"""Folders of generated files that one record counts by name."""


class ChangeEvidence(Struct, frozen=True):
    """The evidence for the lines of changed files, each part by path.

    `unproved` are the added lines that nothing proves to be the call's; of those in a path of `likely` the call is
    the only writer that can be seen.
    """

    differences: Mapping[str, Difference] = {}
    unproved: Mapping[str, tuple[LineRange, ...]] = {}
    likely: frozenset[str] = frozenset()
    model: str | None = None


# Before the call


def path_names(facts: Facts) -> list[str]:
    """Return the paths of a call as records name them."""
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
    body = Body(
        event="tool_use",
        intent_id=facts.session.intent_id,
        session_id=call.session.session_id,
        agent_id=call.session.agent_id or UNSET,
        call=call_part(call, path_names(facts)),
        decision=decision_part(decision, rules),
        detail=detail or UNSET,
    )
    return recorder.make_record(body, call.agent)


def record_denial(recorder: Recorder, call: ToolCall, facts: Facts, decision: Decision) -> Violation:
    """Record a denied call and the checks that failed, and return the leading violation. Raises RECORDING_ERRORS."""
    violation = leading_violation(call, decision)
    if violation is None:
        raise AssertionError("a denial has a finding")
    body = Body(
        event="denied",
        intent_id=facts.session.intent_id,
        session_id=call.session.session_id,
        agent_id=call.session.agent_id or UNSET,
        call=call_part(call, path_names(facts)),
        decision=decision_part(decision),
        violation=violation_document(violation),
    )
    recorder.append([recorder.make_record(body, call.agent), *failed_check_records(recorder, call, decision)])
    return violation


def failed_check_records(recorder: Recorder, call: ToolCall, decision: Decision) -> list[Record]:
    """Return a record of each check of Remit's own that raised an exception."""
    bodies = [
        Body(
            event="check_failed",
            intent_id=decision.intent_id,
            session_id=call.session.session_id,
            detail=dict(finding.context),
        )
        for finding in decision.findings
        if "exception" in finding.context
    ]
    return [recorder.make_record(body) for body in bodies]


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
    """Return the record of files that a call changed."""
    intent, session = intent_at_decision(pending), call.session.session_id
    changes = tuple(changes)
    files: list[MutatedFile] = []
    traced: list[tuple[Change, tuple[Range, ...], tuple[Range, ...]]] = []
    for change in changes:
        difference = evidence.differences.get(change.path)
        added = difference.added_ranges if difference else ()
        unproved = evidence.unproved.get(change.path, ())
        ranges = traced_ranges(change.after, added)
        own = traced_ranges(change.after, exclude_lines(added, unproved)) if unproved else ranges
        likely = change.path in evidence.likely
        files.append(mutated_file(change, intent, ranges, difference, unproved, likely=likely))
        traced.append((change, own, traced_ranges(change.after, unproved)))
    body = mutation_body(call, outcome, pending, intent, tuple(files))
    intent_id = body.intent_id if isinstance(body.intent_id, str) else None
    published = tuple(
        traced_file(change.path, own, session, intent_id, evidence.model, unproved) for change, own, unproved in traced
    )
    return recorder.make_record(body, call.agent, published, vcs=vcs)


def git_record(
    recorder: Recorder, call: ToolCall, pending: PendingCall | None, changes: Iterable[Change], vcs: Vcs | None
) -> Record:
    """Return the record of contents brought by git from older commits during the call.

    The call wrote no line, but ran git: the record names call, session, intent and the decision with grants.
    """
    body = Body(
        event="human_edit",
        intent_id=pending.intent_id if pending else None,
        session_id=call.session.session_id,
        agent_id=call.session.agent_id or UNSET,
        call=call_part(call),
        files=tuple(mutated_file(change, None, ()) for change in changes),
        decision=pending_decision_part(pending) if pending else UNSET,
        covered=True,
        detail={"origin": "git", "noticed_in": call.session.session_id},
    )
    return recorder.make_record(body, call.agent, vcs=vcs)


def unattributed_record(
    recorder: Recorder, call: ToolCall, changes: Iterable[Change], candidates: list[dict[str, str]]
) -> Record:
    """Return the record of changes that commands of several sessions may have made."""
    body = Body(
        event="human_edit",
        intent_id=None,
        session_id=None,
        files=tuple(mutated_file(change, None, ()) for change in changes),
        covered=False,
        detail={"origin": "unknown", "candidates": candidates, "noticed_in": call.session.session_id},
    )
    return recorder.make_record(body)


def result_record(
    recorder: Recorder,
    call: ToolCall,
    outcome: Outcome,
    intent_id: str | None,
    remarks: Sequence[str],
    vcs: Vcs | None,
) -> Record:
    """Return the record of a completed call; `remarks` say what the observation left out."""
    summary = sanitise_line(redact_command(outcome.summary))
    body = Body(
        event="tool_result",
        intent_id=intent_id,
        session_id=call.session.session_id,
        agent_id=call.session.agent_id or UNSET,
        call=call_part(call),
        result={"ok": outcome.ok, "exit_code": outcome.exit_code, "summary": summary},
        detail={"observation": list(remarks)} if remarks else UNSET,
        duration_ms=UNSET if outcome.duration_ms is None else outcome.duration_ms,
    )
    return recorder.make_record(body, call.agent, vcs=vcs)


def missing_result_record(recorder: Recorder, call: ToolCall, pending: PendingCall) -> Record:
    """Return the record of a call of which no result was ever reported."""
    body = Body(
        event="tool_result",
        intent_id=pending.intent_id,
        session_id=call.session.session_id,
        agent_id=call.session.agent_id or UNSET,
        call=call_part(call),
        result={"ok": None, "missing": True},
    )
    return recorder.make_record(body, call.agent)


def restore_record(recorder: Recorder, call: ToolCall, intent_id: str | None, detail: dict[str, object]) -> Record:
    """Return the record of files that Remit put back after a call, or had to leave."""
    body = Body(
        event="restore",
        intent_id=intent_id,
        session_id=call.session.session_id,
        agent_id=call.session.agent_id or UNSET,
        call=call_part(call),
        detail=detail,
    )
    return recorder.make_record(body)


def generated_record(
    recorder: Recorder, call: ToolCall, intent_id: str | None, changes: Sequence[GeneratedChange], listing: bytes
) -> Record:
    """Return the record of generated files: counts, and the digest of `listing`."""
    folders: dict[str, int] = {}
    for change in changes:
        folders[change.top] = folders.get(change.top, 0) + 1
    largest = sorted(folders.items(), key=lambda item: (-item[1], item[0]))[:MAX_FOLDERS]
    counts: dict[str, object] = {
        "files": len(changes),
        "deleted": sum(change.sha256 is None for change in changes),
        "bytes": sum(change.bytes for change in changes),
        "digest": f"sha256:{sha256(listing)}",
        "folders": {quote_path(folder): count for folder, count in largest},
    }
    if len(folders) > len(largest):
        counts["folders_count"] = len(folders)
    if len(listing) <= MAX_LISTING_BYTES:
        counts["listing"] = hash_git_blob(listing)
    body = Body(
        event="generated",
        intent_id=intent_id,
        session_id=call.session.session_id,
        agent_id=call.session.agent_id or UNSET,
        call=call_part(call),
        detail={"generated": counts},
    )
    return recorder.make_record(body, call.agent)


def intent_at_decision(pending: PendingCall | None) -> Intent | None:
    if pending is None or pending.intent_id is None:
        return None
    return Intent(pending.intent_id, pending.owned_scope)
