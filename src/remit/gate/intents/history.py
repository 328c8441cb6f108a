"""Version history of an intent, from `intent_changed` records: each names the content of the file at the time."""

from collections.abc import Iterator
from typing import cast

from msgspec import Struct

from remit.core.intent import Constraint, Criterion, Intent, IntentsDocument, identify
from remit.core.untrusted_input import sanitise_line
from remit.gate.context import WorkspaceContext
from remit.gate.governing import VERSIONS_FOLDER, copies_folder
from remit.gate.intents.intents import record_body
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
