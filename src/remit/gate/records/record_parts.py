"""Parts of records: changed files, calls, decisions and violations in the shapes that the ledger holds."""

from collections.abc import Iterable
from typing import Any, Literal, cast

import msgspec
from msgspec import UNSET

from remit.core.call import Outcome, ToolCall
from remit.core.code.file_names import has_known_language
from remit.core.decision import Decision, Violation
from remit.core.diff.contents import LineRange, hash_line_ranges
from remit.core.display_text import escape_surrogates, quote_path
from remit.core.intent import Intent
from remit.core.record import (
    Body,
    CallPart,
    Content,
    Contributor,
    Conversation,
    DecisionPart,
    MutatedFile,
    MutationClass,
    Range,
    Related,
    TracedFile,
)
from remit.core.scope.globs import Scope
from remit.core.secrets.redaction import redact
from remit.gate.evidence.differences import Difference
from remit.gate.rules.load import Rules
from remit.gate.state.pending_calls import PendingCall
from remit.workspace.files.read_files import ObservedFile
from remit.workspace.observe.observation import Change

MAX_HUNKS = 500
"""Hunks of one file that a record holds; more are found again by comparing the contents."""

MAX_COMMAND_CHARS = 4096
MAX_SEARCHED_CHARS = 4 * MAX_COMMAND_CHARS
"""Characters of a command that are searched for secrets: an agent may send many megabytes."""


def file_operation(change: Change) -> Literal["create", "modify", "delete"]:
    if change.before is None:
        return "create"
    return "delete" if change.after is None else "modify"


def is_in_scope(path: str, intent: Intent | None) -> bool:
    return intent is not None and Scope(intent.owned_scope).matches(path)


def content_part(side: ObservedFile | None) -> Content:
    if side is None:
        return Content()
    version = side.version
    return Content(sha256=version.sha256, git_blob=version.git_blob, lines=version.lines, mode=version.mode)


def traced_ranges(after: ObservedFile | None, ranges: tuple[LineRange, ...]) -> tuple[Range, ...]:
    """Return the ranges with the hash of their lines."""
    text = after.content if after else None
    if text is None or not ranges:
        return ()
    hashes = hash_line_ranges(text, [(r.start, r.end) for r in ranges])
    return tuple(Range(start_line=r.start, end_line=r.end, content_hash=h) for r, h in zip(ranges, hashes, strict=True))


def traced_file(
    path: str,
    ranges: tuple[Range, ...],
    session_id: str,
    intent_id: str | None,
    model: str | None,
    unproved: tuple[Range, ...] = (),
) -> TracedFile:
    """Return one changed file in the published shape; of `unproved` lines the session is only a candidate."""
    related = (
        (Related(type="specification", url=f"urn:remit:intent:{intent_id}", value=intent_id),) if intent_id else UNSET
    )
    contributor = Contributor(type="ai", entity_type="AI", model_id=model or UNSET, model_identifier=model or UNSET)
    url, name = f"urn:remit:session:{quote_urn(session_id)}", quote_path(path)
    conversations: list[Conversation] = []
    if ranges or not unproved:
        conversations.append(Conversation(ranges=ranges, url=url, contributor=contributor, related=related))
    if unproved:
        unknown = Contributor(type="unknown")
        conversations.append(Conversation(ranges=unproved, url=url, contributor=unknown, related=related))
    return TracedFile(path=name, relative_path=name, conversations=tuple(conversations))


def quote_urn(text: str) -> str:
    """Return `text` as part of a URN. Source: RFC 8141 §2, read 2026-11."""
    unreserved = "-._~"
    return "".join(
        c
        if c.isascii() and (c.isalnum() or c in unreserved)
        else "".join(f"%{byte:02X}" for byte in c.encode("utf-8", "replace"))
        for c in text
    )


def mutated_file(
    change: Change,
    intent: Intent | None,
    ranges: tuple[Range, ...],
    difference: Difference | None = None,
    unproved: tuple[LineRange, ...] = (),
    likely: bool = False,
) -> MutatedFile:
    """Return one changed file in Remit's own shape."""
    hunks = difference.hunks if difference and len(difference.hunks) <= MAX_HUNKS else None
    return MutatedFile(
        path=quote_path(change.path),
        operation=file_operation(change),
        before=UNSET if change.before is None else content_part(change.before),
        after=UNSET if change.after is None else content_part(change.after),
        in_scope=is_in_scope(change.path, intent),
        ranges=ranges or UNSET,
        hunks=UNSET if hunks is None else tuple((h.old, h.old_lines, h.new, h.new_lines) for h in hunks),
        told=difference.from_tool or UNSET if difference else UNSET,
        unproved=tuple((lines.start, lines.end) for lines in unproved) or UNSET,
        likely=True if likely and unproved else UNSET,
    )


def call_part(call: ToolCall, paths: Iterable[str] = ()) -> CallPart:
    """Return the call as records name it."""
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


def mutation_body(
    call: ToolCall, outcome: Outcome, pending: PendingCall | None, intent: Intent | None, files: tuple[MutatedFile, ...]
) -> Body:
    """Return the body of a mutation record."""
    judged = set(map(quote_path, pending.judged)) if pending else set[str]()
    return Body(
        event="mutation",
        intent_id=pending.intent_id if pending else None,
        session_id=call.session.session_id,
        agent_id=call.session.agent_id or UNSET,
        call=call_part(call, [str(f.path) for f in files]),
        mutation_class=MutationClass(declared=call.citation.mutation_class, computed=compute_mutation_class(files)),
        files=files,
        decision=pending_decision_part(pending) if pending else UNSET,
        in_scope=all(f.in_scope for f in files),
        covered=pending is not None and all(f.path in judged for f in files),
        duration_ms=UNSET if outcome.duration_ms is None else outcome.duration_ms,
    )


def compute_mutation_class(files: Iterable[MutatedFile]) -> str | None:
    """Return the class of a change where no parser is needed; readers of the ledger find the rest.

    Code that comes or goes is no refactoring, whatever else changed in the same call.
    """
    has_new_or_deleted = any(f.operation in ("create", "delete") and has_known_language(str(f.path)) for f in files)
    return "INTENT_EVOLUTION" if has_new_or_deleted else None


def decision_part(decision: Decision, rules: Rules | None = None) -> DecisionPart:
    """Return a decision in the form of records; `rules` give the hash of the intents file."""
    document = rules.document if rules else None
    return DecisionPart(
        effect=decision.effect,
        verdict=decision.verdict,
        mode=decision.mode,
        rules=tuple(f.rule for f in decision.findings),
        approved_by="person" if decision.grants else None,
        grant=", ".join(dict.fromkeys(decision.grants)) or None,
        intent_sha256=document.sha256 if document and document.sha256 else UNSET,
    )


def pending_decision_part(pending: PendingCall) -> DecisionPart:
    """Return the decision that allowed a pending call."""
    return DecisionPart(
        effect="allow",
        verdict=pending.verdict,
        mode=pending.mode,
        rules=pending.rules,
        approved_by="person" if pending.grants else None,
        grant=", ".join(dict.fromkeys(pending.grants)) or None,
        intent_sha256=pending.intent_sha256 or UNSET,
    )


def violation_document(violation: Violation) -> dict[str, Any]:
    document = msgspec.to_builtins(violation)
    context = {key: value for key, value in document.get("context", {}).items() if key != "diff"}
    return clean_value({**document, "context": context})


def clean_value(value: Any) -> Any:
    """Return a JSON value without secrets and in encodable text."""
    match value:
        case str():
            return escape_surrogates(redact_command(value))
        case dict():
            return {key: clean_value(found) for key, found in cast("dict[str, Any]", value).items()}
        case list() | tuple():
            return [clean_value(found) for found in cast("list[Any]", value)]
        case _:
            return value
