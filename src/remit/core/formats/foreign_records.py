"""Records of other tools as ledger lines: older ledgers, and Agent Trace files.

Older lines have no chain, and often no id: they are evidence, never proof.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, cast

from msgspec import DecodeError, Struct, json

from remit.core.diff.contents import sha256
from remit.core.json_guards import as_array, as_object, as_objects
from remit.core.record import KEY
from remit.core.timestamps import normalise_timestamp

Document: TypeAlias = dict[str, Any]
Shape: TypeAlias = Literal["s1", "s2", "s3", "s4"]
BOM = b"\xef\xbb\xbf"
"""Byte order mark at the start of files from some editors."""
EVENTS_OF_S2 = {
    "tool_use": "tool_use",
    "tool_result": "tool_result",
    "approval_requested": "approval_requested",
    "approval_received": "approval_answered",
}
"""Events of S2 and their counterparts."""


class ConvertedFile(Struct, frozen=True):
    """Ledger lines made from a foreign file. `traces` counts foreign records; `unread` counts unknown lines."""

    lines: tuple[bytes, ...]
    traces: int = 0
    unread: int = 0


def convert_foreign_file(content: bytes) -> ConvertedFile:
    """Convert a file of records: JSON Lines, a JSON document, or an array.

    Lines of Remit and of older tools stay unchanged. Agent Trace records of other tools become records with the hash of
    their source; `chain` keeps their file and order. Source: the Agent Trace schema 0.1.0, read 2026-11.
    """
    name = f"import/{sha256(content)[:16]}"
    content = content.removeprefix(BOM)
    lines: list[bytes] = []
    traces = unread = 0
    for raw in _split_documents(content):
        document = _decode_object(raw)
        if document is None:
            unread += 1
        elif KEY in as_object(document.get("metadata")) or convert_older_record(raw) is not None:
            lines.append(raw)
        elif isinstance(document.get("files"), list):
            lines.append(_convert_trace(document, raw, name, traces))
            traces += 1
        else:
            unread += 1
    return ConvertedFile(tuple(lines), traces, unread)


def _split_documents(content: bytes) -> list[bytes]:
    """Return the documents of a file, a line each."""
    whole = _decode_json(content)
    if isinstance(whole, dict):
        return [json.encode(whole)]
    if isinstance(whole, list):
        return [json.encode(document) for document in cast("list[object]", whole)]
    return [line for line in content.split(b"\n") if line.strip()]


def _decode_json(raw: bytes) -> object:
    try:
        return json.decode(raw)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _decode_object(raw: bytes) -> Document | None:
    document = _decode_json(raw)
    return cast("Document", document) if isinstance(document, dict) else None


def _convert_trace(document: Document, raw: bytes, log: str, number: int) -> bytes:
    files = [as_object(file) for file in document["files"]]
    conversations = [as_object(c) for file in files for c in as_array(file.get("conversations"))]
    body = {
        "event": "mutation",
        "intent_id": _find_intent_id(conversations),
        "session_id": next((c["url"] for c in conversations if isinstance(c.get("url"), str)), None),
        "imported": {"sha256": sha256(raw), "shape": "agent-trace"},
        "chain": {"log": log, "seq": number, "prev": ""},
    }
    record: Document = {
        **document,
        "id": derive_record_id(document, "import"),
        "timestamp": normalise_timestamp(document.get("timestamp")),
        "metadata": {**as_object(document.get("metadata")), KEY: body},
    }
    return json.encode(record, order="sorted")


def _find_intent_id(conversations: list[Document]) -> str | None:
    related = [as_object(r) for c in conversations for r in as_array(c.get("related"))]
    values = [r.get("value") for r in related if r.get("type") == "specification"]
    return next((value for value in values if isinstance(value, str)), None)


def detect_shape(document: Document) -> Shape | None:
    """Return the older shape of a line, or None for our own records and unknown lines."""
    if KEY in as_object(document.get("metadata")):
        return None
    if "eventType" in document and "toolName" in document:
        return "s2"
    if "file" in document and "req_id" in document:
        return "s4"
    files = as_objects(document.get("files"))
    if any("line_ranges" in f or "after_hash" in f for f in files) or "mutation_class" in document:
        return "s3"
    return "s1" if any("relative_path" in f for f in files) else None


def convert_older_record(raw: bytes) -> Document | None:
    """Convert an older line to a record marked with its shape and as `unproved`; None for any different line."""
    try:
        document = json.decode(raw, type=dict[str, Any])
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return None
    shape = detect_shape(document)
    if shape is None:
        return None
    body = {"s1": _from_s1, "s2": _from_s2, "s3": _from_s3, "s4": _from_s4}[shape](document)
    record = {
        "version": "0.1.0",
        "id": derive_record_id(document, shape),
        "timestamp": normalise_timestamp(document.get("timestamp")),
        "files": _list_traced_files(body),
        "metadata": {KEY: {**body, "shape": shape, "unproved": True}},
    }
    revision = as_object(document.get("vcs")).get("revision_id")
    return record | ({"vcs": {"type": "git", "revision": revision}} if isinstance(revision, str) else {})


def _from_s1(document: Document) -> Document:
    files: list[Document] = []
    first: Document = {}
    for file in as_objects(document.get("files")):
        conversations = as_objects(file.get("conversations"))
        first = first or (conversations[0] if conversations else {})
        ranges = [r for c in conversations for r in as_array(c.get("ranges"))]
        files.append({"path": str(file.get("relative_path", "")), "ranges": ranges})
    related = [as_object(r).get("value") for r in as_array(first.get("related"))]
    model = as_object(first.get("contributor")).get("model_identifier")
    return _make_mutation(next(iter(related), None), first.get("url"), files, model=model)


def _from_s2(document: Document) -> Document:
    params = as_object(document.get("params"))
    path = params.get("path")
    call = {"name": document.get("toolName"), "command": params.get("command"), "paths": [path] if path else None}
    result = document.get("result")
    summary = result if isinstance(result, str) else json.encode(result).decode()
    body: Document = {
        "event": EVENTS_OF_S2.get(str(document.get("eventType")), str(document.get("eventType"))),
        "intent_id": document.get("intentId"),
        "session_id": document.get("taskId"),
        "call": drop_none(call),
    }
    approved = document.get("approved")
    answer = None if not isinstance(approved, bool) else "allow" if approved else "deny"
    optional = {"duration_ms": document.get("duration"), "answer": answer}
    return body | drop_none({**optional, "result": {"summary": summary} if result is not None else None})


def _from_s3(document: Document) -> Document:
    files: list[Document] = []
    for file in as_objects(document.get("files")):
        sides = {"before": _read_hash(file.get("before_hash")), "after": _read_hash(file.get("after_hash"))}
        ranges = [
            drop_none({k: v for k, v in as_object(r).items() if k != "ast_node_type"})
            for r in as_array(file.get("line_ranges"))
        ]
        fields = {"path": str(file.get("relative_path", "")), "operation": file.get("operation"), "ranges": ranges}
        files.append(drop_none({**fields, **sides}))
    conversation, tool = as_object(document.get("conversation")), as_object(document.get("metadata"))
    vcs, declared = as_object(document.get("vcs")), document.get("mutation_class")
    return _make_mutation(
        document.get("intent_id"),
        conversation.get("session_id"),
        files,
        model=conversation.get("model"),
        message_index=conversation.get("message_index"),
        branch=vcs.get("branch"),
        dirty=vcs.get("dirty"),
        mutation_class={"declared": declared.upper()} if isinstance(declared, str) else None,
        call={"name": tool["tool_used"]} if "tool_used" in tool else None,
        duration_ms=tool.get("execution_time_ms"),
        decision={"approved_by": tool["approved_by"]} if "approved_by" in tool else None,
    )


def _from_s4(document: Document) -> Document:
    ranges = [as_object(document.get("ranges"))] if document.get("ranges") else []
    file = {"path": str(document.get("file")), "after": _read_hash(document.get("content_hash")), "ranges": ranges}
    return _make_mutation(
        document.get("intent_id"),
        document.get("req_id"),
        [drop_none(file)],
        model=document.get("model_identifier"),
        mutation_class=drop_none({"declared": document.get("mutation_class")}) or None,
    )


def _make_mutation(intent: object, session: object, files: list[Document], **optional: object) -> Document:
    required: Document = {"event": "mutation", "intent_id": intent, "session_id": session, "files": files}
    return required | drop_none(optional)


def _list_traced_files(body: Document) -> list[Document]:
    model = body.get("model")
    contributor = {"contributor": {"type": "ai", "model_id": model}} if model else {}
    return [
        {"path": f["path"], "conversations": [{"ranges": f.get("ranges", []), **contributor}]}
        for f in body.get("files", [])
    ]


def _read_hash(value: object) -> Document | None:
    return {"sha256": value.removeprefix("sha256:")} if isinstance(value, str) else None


def drop_none(pairs: Mapping[str, object]) -> Document:
    return {key: value for key, value in pairs.items() if value is not None}


def derive_record_id(document: Document, kind: str) -> str:
    """Return the id of a foreign record: its own, or a digest of its contents in any layout."""
    own_id = document.get("id")
    if isinstance(own_id, str) and own_id:
        return own_id
    return f"{kind}-{hashlib.sha256(json.encode(document, order='deterministic')).hexdigest()[:24]}"
