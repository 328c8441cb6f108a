"""Findings about intents that only the ledger can tell: changes after the end, and a changed time of making."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from remit.core.intent import FINAL_STATUSES, LIST_FILE, Intent, IntentsDocument, LintFinding, identify
from remit.core.untrusted_input import sanitise_line
from remit.gate.context import WorkspaceContext
from remit.gate.intents.history import MAX_VERSIONS, read_version
from remit.gate.intents.intents import record_body
from remit.ledger.log_files import LedgerError

VERIFIED_FIELDS = ("owned_scope", "constraints", "acceptance_criteria")


def lint_against_records(context: WorkspaceContext) -> list[LintFinding]:
    """Return the findings; none where the ledger cannot be read, which `remit doctor` tells."""
    document = context.rules.written or IntentsDocument()
    with suppress(OSError, LedgerError):
        return list(compare_with_records(context, document))
    return []


def compare_with_records(context: WorkspaceContext, document: IntentsDocument) -> Iterator[LintFinding]:
    with context.index() as index:
        transitions = index.find(event="intent_transition", limit=MAX_VERSIONS)  # newest first, as all that is found
        changes = index.find(event="intent_changed", limit=MAX_VERSIONS)
    ends: dict[str, str] = {}
    for found in transitions:
        if record_body(found).get("to") in FINAL_STATUSES:
            ends.setdefault(str(record_body(found).get("intent_id")), str(found.get("timestamp")))
    by_id: dict[str, list[dict[str, Any]]] = {}
    for found in changes:
        by_id.setdefault(str(record_body(found).get("intent_id")), []).append(found)
    files: dict[str, IntentsDocument | None] = {}

    def load(found: dict[str, Any], intent_id: str) -> Intent | None:
        digest = str(record_body(found).get("content_sha256") or "")
        if digest not in files:
            files[digest] = read_version(context, digest)
        version = files[digest]
        return next((i for i in version.intents if i.id == intent_id), None) if version else None

    statuses = {intent.id: intent.status for intent in (context.rules.document or IntentsDocument()).intents}
    uids = {identify(intent) for intent in document.intents}
    for intent in document.intents:
        uid = identify(intent)
        # A changed time leaves records of a uid that no intent has now.
        known = [
            (found, found_uid)
            for found in by_id.get(intent.id, ())
            if (found_uid := record_body(found).get("intent_uid", uid)) == uid
            or (found_uid not in uids and not record_body(found).get("removed"))
        ]
        own = [found for found, found_uid in known if found_uid == uid]
        file, at = document.files.get(intent.id, LIST_FILE), ends.get(intent.id)
        if at is not None and statuses.get(intent.id) in FINAL_STATUSES and (found := find_ended(own, at)):
            digest = str(record_body(found).get("content_sha256") or "")
            ended = load(found, intent.id) if digest != document.find_version(intent.id) else None
            changed = [name for name in VERIFIED_FIELDS if ended and getattr(ended, name) != getattr(intent, name)]
            if changed:
                lead = f"{intent.id} ended as {digest[:7]} on {at[:10]}; changed since: {', '.join(changed)}"
                cure = f'remit intent reopen {intent.id} --reason "changed after its end"'
                message = f"{lead}. To verify it anew: {cure}"
                yield LintFinding("CLOSED_THEN_CHANGED", "warning", message, intent.id, changed[0], file=file)
        # The oldest tells who it was; a time that was set right again leaves records of the wrong one behind.
        is_changed = bool(known) and known[-1][1] != uid and intent.uid is None
        old = load(known[-1][0], intent.id) if is_changed else None
        if old and old.name == intent.name and old.created_at and old.created_at != intent.created_at:
            cure = f"remit intent edit {intent.id} --created-at {sanitise_line(old.created_at, 60)}"
            message = f"created_at was changed, so that earlier records are another intent's. Run: {cure}"
            yield LintFinding("UID_CHANGED", "warning", message, intent.id, "created_at", file=file)


def find_ended(versions: Sequence[dict[str, Any]], at: str) -> dict[str, Any] | None:
    """Return the version that an intent ended with, of those newest first: its end wrote one, else it is the last."""
    after = [found for found in versions if str(found.get("timestamp")) > at]
    first = record_body(after[-1]) if after else {}
    if first.get("change") == "created" or "status" in first.get("changed", {}):
        return after[-1]
    return next((found for found in versions if str(found.get("timestamp")) <= at), None)
