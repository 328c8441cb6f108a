"""Ledgers that older tools wrote: what each of their keys says in a record of ours, and back again.

An older line has no chain, and often no id: it is evidence, never proof.

Records that others made, with names, times and lines as the published schema takes them.

Agent Trace records of other tools, as lines that reading takes: evidence with the hash of what it was made from.

Source: the Agent Trace schema 0.1.0, read 2026-11.
"""

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias, cast

import msgspec
from msgspec import DecodeError, Struct, json

from remit.core.diff.contents import sha256
from remit.core.json_guards import as_array, as_object
from remit.core.record import KEY

PublishedDocument = dict[str, Any]

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def derive_record_id(document: PublishedDocument, kind: str) -> str:
    """The id of a foreign record: its own, else one of what it says, however it is laid out."""
    named = document.get("id")
    if isinstance(named, str) and named:
        return named
    return f"{kind}-{hashlib.sha256(msgspec.json.encode(document, order='deterministic')).hexdigest()[:24]}"


def normalise_timestamp(timestamp: object) -> str:
    """A foreign record's time as ours write theirs, so that texts compare as times do; what is none stays as it is."""
    try:
        found = datetime.fromisoformat(str(timestamp).strip())
        utc = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return "" if timestamp is None else str(timestamp)
    return utc.isoformat(timespec="microseconds").replace("+00:00", "Z")


def publish_record(document: PublishedDocument) -> PublishedDocument:
    """A record of an older tool as the schema takes it: ids there are UUIDs, and a range names its lines.

    What it was called stays as `named`.
    """
    name, body = str(document["id"]), as_object(as_object(document["metadata"]).get(KEY))
    files = [
        {**file, "conversations": list(map(_keep_complete_ranges, map(as_object, as_array(file.get("conversations")))))}
        for file in map(as_object, as_array(document.get("files")))
    ]
    metadata = {**as_object(document["metadata"]), KEY: {**body, "named": name}}
    return {**document, "id": derive_uuid(name), "files": files, "metadata": metadata}


def derive_uuid(name: str) -> str:
    """That name where it is a UUID, else one of version 8 that is made from it. Source: RFC 9562, read 2026-11."""
    if _UUID.fullmatch(name):
        return name
    digits = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-8{digits[17:20]}-{digits[20:32]}"


def _keep_complete_ranges(conversation: PublishedDocument) -> PublishedDocument:
    """The conversation with those of its ranges that say which lines they are."""
    ranges = map(as_object, as_array(conversation.get("ranges")))
    own = [one for one in ranges if isinstance(one.get("start_line"), int) and isinstance(one.get("end_line"), int)]
    return {**conversation, "ranges": own}


Shape: TypeAlias = Literal["s1", "s2", "s3", "s4"]
Format: TypeAlias = Literal["agent-trace", "in-toto", "s1", "s2", "s3", "s4", "csv"]
Document: TypeAlias = dict[str, Any]

FIELD_MAP: dict[Shape, tuple[tuple[str, str], ...]] = {
    "s1": (
        ("id", "id"),
        ("timestamp", "timestamp"),
        ("vcs.revision_id", "vcs.revision"),
        ("files[].relative_path", "files[].path"),
        ("files[].conversations[].url", "session_id"),
        ("files[].conversations[].contributor.model_identifier", "model"),
        ("files[].conversations[].ranges[]", "ranges[]"),
        ("files[].conversations[].related[].value", "intent_id"),
    ),
    "s2": (
        ("timestamp", "timestamp"),
        ("eventType", "event"),
        ("toolName", "call.name"),
        ("params.path", "call.paths[]"),
        ("params.command", "call.command"),
        ("result", "result.summary"),
        ("approved", "answer"),
        ("duration", "duration_ms"),
        ("taskId", "session_id"),
        ("intentId", "intent_id"),
    ),
    "s3": (
        ("id", "id"),
        ("timestamp", "timestamp"),
        ("vcs.revision_id", "vcs.revision"),
        ("vcs.branch", "branch"),
        ("vcs.dirty", "dirty"),
        ("intent_id", "intent_id"),
        ("mutation_class", "mutation_class.declared"),
        ("files[].relative_path", "files[].path"),
        ("files[].operation", "files[].operation"),
        ("files[].before_hash", "files[].before.sha256"),
        ("files[].after_hash", "files[].after.sha256"),
        ("files[].line_ranges[]", "ranges[]"),
        ("conversation.session_id", "session_id"),
        ("conversation.model", "model"),
        ("conversation.message_index", "message_index"),
        ("metadata.tool_used", "call.name"),
        ("metadata.execution_time_ms", "duration_ms"),
        ("metadata.approved_by", "decision.approved_by"),
    ),
    "s4": (
        ("req_id", "session_id"),
        ("intent_id", "intent_id"),
        ("file", "files[].path"),
        ("timestamp", "timestamp"),
        ("mutation_class", "mutation_class.declared"),
        ("content_hash", "files[].after.sha256"),
        ("model_identifier", "model"),
        ("ranges.content_hash", "ranges[]"),
    ),
}
"""What each key of an older line says in ours; keys that are not named here are not read."""

EVENTS_OF_S2 = {
    "tool_use": "tool_use",
    "tool_result": "tool_result",
    "approval_requested": "approval_requested",
    "approval_received": "approval_answered",
}
"""The events of S2, and ours."""

S2_EVENTS = {ours: theirs for theirs, ours in EVENTS_OF_S2.items()} | {
    "denied": "tool_result",
    "mutation": "tool_result",
}


def detect_shape(document: Document) -> Shape | None:
    """Which older shape a line has; None for ours, and for what is none of them."""
    if KEY in _mapping(document.get("metadata")):
        return None
    if "eventType" in document and "toolName" in document:
        return "s2"
    if "file" in document and "req_id" in document:
        return "s4"
    files = [_mapping(f) for f in _list(document.get("files"))]
    if any("line_ranges" in f or "after_hash" in f for f in files) or "mutation_class" in document:
        return "s3"
    return "s1" if any("relative_path" in f for f in files) else None


def convert_older_record(raw: bytes) -> Document | None:
    """An older line as a record of ours, marked with its shape and as `unproved`; None for any other line."""
    try:
        document = msgspec.json.decode(raw, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    shape = detect_shape(document)
    if shape is None:
        return None
    body = {"s1": _from_s1, "s2": _from_s2, "s3": _from_s3, "s4": _from_s4}[shape](document)
    made = {
        "version": "0.1.0",
        "id": derive_record_id(document, shape),
        "timestamp": normalise_timestamp(document.get("timestamp")),
        "files": _list_traced_files(body),
        "metadata": {KEY: {**body, "shape": shape, "unproved": True}},
    }
    revision = _mapping(document.get("vcs")).get("revision_id")
    return made | ({"vcs": {"type": "git", "revision": revision}} if isinstance(revision, str) else {})


def _mapping(value: object) -> Document:
    return cast("Document", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _read_hash(value: object) -> Document | None:
    return {"sha256": value.removeprefix("sha256:")} if isinstance(value, str) else None


def _drop_none(pairs: Mapping[str, object]) -> Document:
    return {key: value for key, value in pairs.items() if value is not None}


def _make_mutation(intent: object, session: object, files: list[Document], **more: object) -> Document:
    fixed: Document = {"event": "mutation", "intent_id": intent, "session_id": session, "files": files}
    return fixed | _drop_none(more)


def _list_traced_files(body: Document) -> list[Document]:
    model = body.get("model")
    contributor = {"contributor": {"type": "ai", "model_id": model}} if model else {}
    return [
        {"path": f["path"], "conversations": [{"ranges": f.get("ranges", []), **contributor}]}
        for f in body.get("files", [])
    ]


def _from_s1(document: Document) -> Document:
    files: list[Document] = []
    first: Document = {}
    for file in map(_mapping, _list(document.get("files"))):
        conversations = [_mapping(c) for c in _list(file.get("conversations"))]
        first = first or (conversations[0] if conversations else {})
        ranges = [r for c in conversations for r in _list(c.get("ranges"))]
        files.append({"path": str(file.get("relative_path", "")), "ranges": ranges})
    related = [_mapping(r).get("value") for r in _list(first.get("related"))]
    model = _mapping(first.get("contributor")).get("model_identifier")
    return _make_mutation(next(iter(related), None), first.get("url"), files, model=model)


def _from_s2(document: Document) -> Document:
    params = _mapping(document.get("params"))
    path = params.get("path")
    call = {"name": document.get("toolName"), "command": params.get("command"), "paths": [path] if path else None}
    result = document.get("result")
    said = result if isinstance(result, str) else msgspec.json.encode(result).decode()
    body: Document = {
        "event": EVENTS_OF_S2.get(str(document.get("eventType")), str(document.get("eventType"))),
        "intent_id": document.get("intentId"),
        "session_id": document.get("taskId"),
        "call": _drop_none(call),
    }
    approved = document.get("approved")
    answer = None if not isinstance(approved, bool) else "allow" if approved else "deny"
    more = {"duration_ms": document.get("duration"), "answer": answer}
    return body | _drop_none({**more, "result": {"summary": said} if result is not None else None})


def _from_s3(document: Document) -> Document:
    files: list[Document] = []
    for file in map(_mapping, _list(document.get("files"))):
        sides = {"before": _read_hash(file.get("before_hash")), "after": _read_hash(file.get("after_hash"))}
        ranges = [
            _drop_none({k: v for k, v in _mapping(r).items() if k != "ast_node_type"})
            for r in _list(file.get("line_ranges"))
        ]
        told = {"path": str(file.get("relative_path", "")), "operation": file.get("operation"), "ranges": ranges}
        files.append(_drop_none({**told, **sides}))
    conversation, tool = _mapping(document.get("conversation")), _mapping(document.get("metadata"))
    vcs, declared = _mapping(document.get("vcs")), document.get("mutation_class")
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
    ranges = [_mapping(document.get("ranges"))] if document.get("ranges") else []
    file = {"path": str(document.get("file")), "after": _read_hash(document.get("content_hash")), "ranges": ranges}
    return _make_mutation(
        document.get("intent_id"),
        document.get("req_id"),
        [_drop_none(file)],
        model=document.get("model_identifier"),
        mutation_class=_drop_none({"declared": document.get("mutation_class")}) or None,
    )


def export_record(document: Document, form: Format) -> list[str]:
    """A record of ours as lines of another form, without their newlines; none where that form has no such event.

    S1, S3 and S4 know mutations only; S4 has a line for each file.
    """
    body = _mapping(_mapping(document.get("metadata")).get(KEY))
    match form:
        case "agent-trace":
            return [_encode_line(publish_record(document) if body.get("shape") else document)]
        case "in-toto":
            return [_encode_line(found)] if (found := _to_statement(document, body)) else []
        case "csv":
            return [_format_csv(make_csv_row(document))]
        case "s2":
            return [_encode_line(_to_s2(document, body))] if body.get("event") in S2_EVENTS else []
        case _ if body.get("event") != "mutation":
            return []
        case "s1":
            return [_encode_line(_to_s1(document, body))]
        case "s3":
            return [_encode_line(_to_s3(document, body))]
        case "s4":
            return [_encode_line(_to_s4(document, body, _mapping(file))) for file in _list(body.get("files"))]


def _encode_line(document: Document) -> str:
    return msgspec.json.encode(document).decode()


STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:remit:predicate:trace/v1"
"""The type of our statements: the predicate is the record. Source: in-toto attestation v1, read 2026-11."""


def _to_statement(document: Document, body: Document) -> Document | None:
    """A change as an in-toto Statement about the contents that it left; None where it left none."""
    files = map(_mapping, _list(body.get("files")) if body.get("event") == "mutation" else [])
    subjects = [
        {"name": str(file.get("path")), "digest": digest}
        for file in files
        if (digest := _list_digests(_mapping(file.get("after"))))
    ]
    if not subjects:
        return None
    return {"_type": STATEMENT, "subject": subjects, "predicateType": PREDICATE, "predicate": document}


def _list_digests(side: Document) -> Document:
    return _drop_none({"sha256": side.get("sha256"), "gitBlob": side.get("git_blob")})


COLUMNS = (
    "id",
    "timestamp",
    "event",
    "agent",
    "session_id",
    "intent_id",
    "tool",
    "effect",
    "verdict",
    "paths",
    "command",
)


FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What a cell may not begin with: spreadsheets read full-width signs, and what follows a line end, as formulas too."""


def format_csv_header() -> str:
    """The first line of the `csv` form."""
    return _format_csv(COLUMNS)


def _format_csv(row: tuple[str, ...]) -> str:
    """One row; a text that a spreadsheet would run as a formula gets an apostrophe before it."""
    return ",".join(map(_format_cell, row))


def _format_cell(text: str) -> str:
    safe = "'" + text if text[:1] in FORMULA else text
    quoted = safe.replace('"', '""')
    return f'"{quoted}"' if any(c in safe for c in ',"\n\r') else safe


def make_csv_row(document: Document) -> tuple[str, ...]:
    """A record in the columns of COLUMNS; what it has not is empty."""
    body = _mapping(_mapping(document.get("metadata")).get(KEY))
    call, decision = _mapping(body.get("call")), _mapping(body.get("decision"))
    named = (
        document.get("id"),
        document.get("timestamp"),
        body.get("event"),
        _mapping(document.get("tool")).get("name"),
        body.get("session_id"),
        body.get("intent_id"),
        call.get("name"),
        call.get("effect"),
        decision.get("verdict"),
        " ".join(_list_paths(body)),
        call.get("command"),
    )
    return tuple("" if value is None else str(value) for value in named)


def _list_paths(body: Document) -> list[str]:
    files = [str(_mapping(f).get("path")) for f in _list(body.get("files"))]
    return files or [str(path) for path in _list(_mapping(body.get("call")).get("paths"))]


def _find_model(document: Document, body: Document) -> Any:
    for file in map(_mapping, _list(document.get("files"))):
        for conversation in map(_mapping, _list(file.get("conversations"))):
            contributor = _mapping(conversation.get("contributor"))
            if found := contributor.get("model_id") or contributor.get("model_identifier"):
                return found
    return body.get("model")


def _group_ranges(document: Document) -> dict[str, list[Document]]:
    """The lines that were written, by path."""
    keys = ("start_line", "end_line", "content_hash")
    return {
        str(file.get("path")): [
            {key: found[key] for key in keys if key in found}
            for conversation in map(_mapping, _list(file.get("conversations")))
            for found in map(_mapping, _list(conversation.get("ranges")))
        ]
        for file in map(_mapping, _list(document.get("files")))
    }


def _find_revision(document: Document) -> Any:
    return _mapping(document.get("vcs")).get("revision")


def _prefix_hash(side: object) -> str | None:
    found = _mapping(side).get("sha256")
    return f"sha256:{found}" if found else None


def _to_s1(document: Document, body: Document) -> Document:
    contributor = {"entity_type": "AI", "model_identifier": _find_model(document, body) or "unknown"}
    related = [{"type": "specification", "value": body["intent_id"]}] if body.get("intent_id") else []
    ranges = _group_ranges(document)
    files = [
        {
            "relative_path": path,
            "conversations": [
                {
                    "url": body.get("session_id"),
                    "contributor": contributor,
                    "ranges": ranges.get(path, []),
                    "related": related,
                }
            ],
        }
        for path in _list_paths(body)
    ]
    vcs = {"revision_id": _find_revision(document)}
    return {"id": document["id"], "timestamp": document["timestamp"], "vcs": vcs, "files": files}


def _to_s2(document: Document, body: Document) -> Document:
    call = _mapping(body.get("call"))
    paths = _list_paths(body)
    params = _drop_none({"path": paths[0] if paths else None, "command": call.get("command")})
    made: Document = {
        "timestamp": document["timestamp"],
        "eventType": S2_EVENTS[str(body["event"])],
        "toolName": call.get("name") or str(body["event"]),
        "params": params,
        "taskId": body.get("session_id") or "",
        "intentId": body.get("intent_id"),
    }
    answer = body.get("answer") or _mapping(body.get("approval")).get("answer")
    approved = None if answer is None else answer in ("allow", "yes", "approve", True)
    summary = _mapping(body.get("result")).get("summary") or _mapping(body.get("violation")).get("error")
    return made | _drop_none({"approved": approved, "duration": body.get("duration_ms"), "result": summary})


def _to_s3(document: Document, body: Document) -> Document:
    ranges = _group_ranges(document)
    files = [
        _drop_none(
            {
                "relative_path": file.get("path"),
                "operation": file.get("operation"),
                "before_hash": _prefix_hash(file.get("before")),
                "after_hash": _prefix_hash(file.get("after")),
                "line_ranges": ranges.get(str(file.get("path")), []),
            }
        )
        for file in map(_mapping, _list(body.get("files")))
    ]
    classes, model = _mapping(body.get("mutation_class")), _find_model(document, body)
    talk = {"session_id": body.get("session_id"), "message_index": body.get("message_index"), "model": model}
    tool = {"tool_used": _mapping(body.get("call")).get("name"), "execution_time_ms": body.get("duration_ms")}
    approved = {"approved_by": _mapping(body.get("decision")).get("approved_by")}
    vcs = {"revision_id": _find_revision(document), "branch": body.get("branch"), "dirty": body.get("dirty")}
    return {
        "id": document["id"],
        "timestamp": document["timestamp"],
        "vcs": _drop_none(vcs),
        "intent_id": body.get("intent_id"),
        "mutation_class": classes.get("declared") or classes.get("computed"),
        "files": files,
        "conversation": _drop_none({**talk, "contributor_type": "AI"}),
        "metadata": _drop_none({**tool, **approved}),
    }


def _to_s4(document: Document, body: Document, file: Document) -> Document:
    classes = _mapping(body.get("mutation_class"))
    ranges = _group_ranges(document).get(str(file.get("path")), [])
    hashed = next((r["content_hash"] for r in ranges if "content_hash" in r), None)
    made: Document = {
        "req_id": body.get("session_id"),
        "intent_id": body.get("intent_id"),
        "file": file.get("path"),
        "timestamp": document["timestamp"],
        "mutation_class": classes.get("declared") or classes.get("computed"),
        "related": [body["session_id"]] if body.get("session_id") else [],
        "ranges": _drop_none({"content_hash": hashed}),
    }
    more = {"content_hash": _prefix_hash(file.get("after")), "model_identifier": _find_model(document, body)}
    return made | _drop_none(more)


ImportedDocument = dict[str, Any]

BOM = b"\xef\xbb\xbf"
"""What some editors begin a file with."""


class ConvertedFile(Struct, frozen=True):
    """The lines that a file became. `traces` were records of other tools; `unread` were nothing that is known."""

    lines: tuple[bytes, ...]
    traces: int = 0
    unread: int = 0


def convert_foreign_file(content: bytes) -> ConvertedFile:
    """What a file of records becomes: JSON Lines, one JSON document, or an array of them.

    Lines of Remit's and of older tools stay as they are. Numbers, names and order of the others are kept in `chain`.
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
    """The documents of a file, each on a line."""
    whole = _decode_json(content)
    if isinstance(whole, dict):
        return [json.encode(whole)]
    if isinstance(whole, list):
        return [json.encode(each) for each in cast("list[object]", whole)]
    return [line for line in content.split(b"\n") if line.strip()]


def _decode_json(raw: bytes) -> object:
    try:
        return json.decode(raw)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _decode_object(raw: bytes) -> ImportedDocument | None:
    found = _decode_json(raw)
    return cast("ImportedDocument", found) if isinstance(found, dict) else None


def _convert_trace(document: ImportedDocument, raw: bytes, log: str, number: int) -> bytes:
    """A record of another tool, with Remit's part beside what it says."""
    files = [as_object(file) for file in document["files"]]
    conversations = [as_object(c) for file in files for c in as_array(file.get("conversations"))]
    body = {
        "event": "mutation",
        "intent_id": _find_intent_id(conversations),
        "session_id": next((c["url"] for c in conversations if isinstance(c.get("url"), str)), None),
        "imported": {"sha256": sha256(raw), "shape": "agent-trace"},
        "chain": {"log": log, "seq": number, "prev": ""},
    }
    made: ImportedDocument = {
        **document,
        "id": derive_record_id(document, "import"),
        "timestamp": normalise_timestamp(document.get("timestamp")),
        "metadata": {**as_object(document.get("metadata")), KEY: body},
    }
    return json.encode(made, order="sorted")


def _find_intent_id(conversations: list[ImportedDocument]) -> str | None:
    related = [as_object(r) for c in conversations for r in as_array(c.get("related"))]
    values = [r.get("value") for r in related if r.get("type") == "specification"]
    return next((value for value in values if isinstance(value, str)), None)
