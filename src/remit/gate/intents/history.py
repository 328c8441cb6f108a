"""History of an intent, from the records: its versions, each named by the content of the file at the time, and findings
that only the ledger can tell, such as changes after the end.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, cast

from msgspec import Struct

from remit.core.intent import (
    FINAL_STATUSES,
    LIST_FILE,
    Constraint,
    Criterion,
    Intent,
    IntentsDocument,
    LintFinding,
    identify,
)
from remit.core.untrusted_input import sanitise_line
from remit.gate.context import WorkspaceContext
from remit.gate.governing.rules import VERSIONS_FOLDER, copies_folder
from remit.gate.intents.intents import record_body
from remit.ledger.log_files import LedgerError
from remit.workspace.intents_file.storage import read_intents

MAX_VERSIONS = 10_000  # older versions are not counted
IGNORED_FIELDS = frozenset({"id", "created_at", "updated_at"})


class IntentVersion(Struct, frozen=True):
    """Version of an intent. `intent` is None if the intent was deleted or the file's content is no longer stored."""

    version: int
    at: str
    by: str
    content_sha256: str
    record_id: str
    intent: Intent | None = None
    is_deleted: bool = False
    changes: tuple[str, ...] = ()


def intent_history(context: WorkspaceContext, intent_id: str, limit: int) -> list[IntentVersion]:
    """Return the newest versions of an intent, oldest first. Raises OSError, LedgerError."""
    current = context.rules.intents.get(intent_id)
    uid = identify(current) if current else None
    with context.index() as index:
        documents = index.find(event="intent_changed", intent_id=intent_id, limit=MAX_VERSIONS)
        if uid is not None:
            # Those of another intent of that label go; those that it had under another label come along.
            documents = [d for d in documents if record_body(d).get("intent_uid", uid) == uid]
            others = index.find(event="intent_changed", intent_uid=uid, limit=MAX_VERSIONS)
            documents += [d for d in others if record_body(d).get("intent_id") != intent_id]
        documents.sort(key=lambda document: (str(document.get("timestamp")), str(document.get("id"))))
    first = max(0, len(documents) - limit)
    before: Intent | None = None
    found: list[IntentVersion] = []
    for number, document in enumerate(documents[max(0, first - 1) :], max(1, first)):
        body = record_body(document)
        digest = str(body.get("content_sha256") or "")
        is_deleted = bool(body.get("removed"))
        file = read_version(context, digest) if not is_deleted else None
        intent = next((i for i in file.intents if i.id == body.get("intent_id")), None) if file else None
        if number > first:
            changes = tuple(describe_differences(before, intent)) if intent else ()
            version = IntentVersion(
                version=number,
                at=str(document.get("timestamp") or ""),
                by=str(body.get("by") or ""),
                content_sha256=digest,
                record_id=str(document.get("id") or ""),
                intent=intent,
                is_deleted=is_deleted,
                changes=changes,
            )
            found.append(version)
        before = intent
    return found


def read_version(context: WorkspaceContext, digest: str) -> IntentsDocument | None:
    """Return the stored file with this SHA-256; None if that content is not stored. Raises OSError."""
    return read_intents(copies_folder(context.workspace) / VERSIONS_FOLDER / digest) if digest.isalnum() else None


def describe_differences(before: Intent | None, after: Intent) -> Iterator[str]:
    """Yield a line for each difference: `status DRAFT → DONE`, `owned_scope + docs/**`."""
    if before is None:
        return
    for name in Intent.__struct_fields__:
        old, new = field_lines(before, name), field_lines(after, name)
        if old == new or name in IGNORED_FIELDS:
            continue
        if isinstance(getattr(after, name), tuple):
            removed, added = [x for x in old if x not in new], [x for x in new if x not in old]
            yield from (f"{name} - {item}" for item in removed)
            yield from (f"{name} + {item}" for item in added)
            if not removed and not added:
                yield f"{name} in another order"
        else:
            yield f"{name} {' '.join(old) or '(none)'} → {' '.join(new) or '(none)'}"


def field_lines(intent: Intent, name: str) -> list[str]:
    value: object = getattr(intent, name)
    items = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
    texts = (item.text if isinstance(item, Constraint | Criterion) else str(item or "") for item in items)
    return [sanitise_line(line, 200) for line in texts if line]


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
