"""Records in foreign formats: Agent Trace, in-toto statements, CSV, and the ledgers of older tools."""

import hashlib
import re
from typing import Any, Literal, TypeAlias

from msgspec import json

from remit.core.formats.foreign_records import EVENTS_OF_S2, Document, drop_none
from remit.core.json_guards import as_array, as_object, as_objects
from remit.core.record import KEY

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
Format: TypeAlias = Literal["agent-trace", "in-toto", "s1", "s2", "s3", "s4", "csv"]
S2_EVENTS = {ours: theirs for theirs, ours in EVENTS_OF_S2.items()} | {
    "denied": "tool_result",
    "mutation": "tool_result",
}
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:remit:predicate:trace/v1"
"""Type of our statements: the predicate is the record. Source: in-toto attestation v1, read 2026-11."""
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
"""Forbidden first characters of a cell: spreadsheets run full-width signs and text after line ends as formulas too."""


def export_record(document: Document, form: Format) -> list[str]:
    """Return a record as lines of a foreign format, without newlines; empty for events unknown to the format.

    S1, S3 and S4 know mutations only; S4 has a line per file.
    """
    body = as_object(as_object(document.get("metadata")).get(KEY))
    match form:
        case "agent-trace":
            return [_encode_line(publish_record(document) if body.get("shape") else document)]
        case "in-toto":
            return [_encode_line(statement)] if (statement := _to_statement(document, body)) else []
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
            return [_encode_line(_to_s4(document, body, as_object(file))) for file in as_array(body.get("files"))]


def _encode_line(document: Document) -> str:
    return json.encode(document).decode()


def publish_record(document: Document) -> Document:
    """Return a record of an older tool in the published schema: UUID ids, and complete line ranges.

    The original id is kept as `named`.
    """
    name, body = str(document["id"]), as_object(as_object(document["metadata"]).get(KEY))
    files = [
        {**file, "conversations": list(map(_keep_complete_ranges, as_objects(file.get("conversations"))))}
        for file in as_objects(document.get("files"))
    ]
    metadata = {**as_object(document["metadata"]), KEY: {**body, "named": name}}
    return {**document, "id": derive_uuid(name), "files": files, "metadata": metadata}


def derive_uuid(name: str) -> str:
    """Return `name` if a UUID, otherwise a UUID version 8 derived from `name`. Source: RFC 9562, read 2026-11."""
    if _UUID.fullmatch(name):
        return name
    digits = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-8{digits[17:20]}-{digits[20:32]}"


def _keep_complete_ranges(conversation: Document) -> Document:
    ranges = as_objects(conversation.get("ranges"))
    complete = [
        line_range
        for line_range in ranges
        if isinstance(line_range.get("start_line"), int) and isinstance(line_range.get("end_line"), int)
    ]
    return {**conversation, "ranges": complete}


def _to_statement(document: Document, body: Document) -> Document | None:
    """Return an in-toto Statement about the contents left by a change, or None if none were left."""
    files = map(as_object, as_array(body.get("files")) if body.get("event") == "mutation" else [])
    subjects = [
        {"name": str(file.get("path")), "digest": digest}
        for file in files
        if (digest := _list_digests(as_object(file.get("after"))))
    ]
    if not subjects:
        return None
    return {"_type": STATEMENT, "subject": subjects, "predicateType": PREDICATE, "predicate": document}


def _list_digests(side: Document) -> Document:
    return drop_none({"sha256": side.get("sha256"), "gitBlob": side.get("git_blob")})


def format_csv_header() -> str:
    return _format_csv(COLUMNS)


def make_csv_row(document: Document) -> tuple[str, ...]:
    """Return a record in the columns of COLUMNS; absent values are empty."""
    body = as_object(as_object(document.get("metadata")).get(KEY))
    call, decision = as_object(body.get("call")), as_object(body.get("decision"))
    values = (
        document.get("id"),
        document.get("timestamp"),
        body.get("event"),
        as_object(document.get("tool")).get("name"),
        body.get("session_id"),
        body.get("intent_id"),
        call.get("name"),
        call.get("effect"),
        decision.get("verdict"),
        " ".join(_list_paths(body)),
        call.get("command"),
    )
    return tuple("" if value is None else str(value) for value in values)


def _format_csv(row: tuple[str, ...]) -> str:
    """Return a row; texts that a spreadsheet would run as formulas get a leading apostrophe."""
    return ",".join(map(_format_cell, row))


def _format_cell(text: str) -> str:
    safe = "'" + text if text[:1] in FORMULA else text
    quoted = safe.replace('"', '""')
    return f'"{quoted}"' if any(c in safe for c in ',"\n\r') else safe


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
    call = as_object(body.get("call"))
    paths = _list_paths(body)
    params = drop_none({"path": paths[0] if paths else None, "command": call.get("command")})
    line: Document = {
        "timestamp": document["timestamp"],
        "eventType": S2_EVENTS[str(body["event"])],
        "toolName": call.get("name") or str(body["event"]),
        "params": params,
        "taskId": body.get("session_id") or "",
        "intentId": body.get("intent_id"),
    }
    answer = body.get("answer") or as_object(body.get("approval")).get("answer")
    approved = None if answer is None else answer in ("allow", "yes", "approve", True)
    summary = as_object(body.get("result")).get("summary") or as_object(body.get("violation")).get("error")
    return line | drop_none({"approved": approved, "duration": body.get("duration_ms"), "result": summary})


def _to_s3(document: Document, body: Document) -> Document:
    ranges = _group_ranges(document)
    files = [
        drop_none(
            {
                "relative_path": file.get("path"),
                "operation": file.get("operation"),
                "before_hash": _prefix_hash(file.get("before")),
                "after_hash": _prefix_hash(file.get("after")),
                "line_ranges": ranges.get(str(file.get("path")), []),
            }
        )
        for file in as_objects(body.get("files"))
    ]
    classes, model = as_object(body.get("mutation_class")), _find_model(document, body)
    talk = {"session_id": body.get("session_id"), "message_index": body.get("message_index"), "model": model}
    tool = {"tool_used": as_object(body.get("call")).get("name"), "execution_time_ms": body.get("duration_ms")}
    approved = {"approved_by": as_object(body.get("decision")).get("approved_by")}
    vcs = {"revision_id": _find_revision(document), "branch": body.get("branch"), "dirty": body.get("dirty")}
    return {
        "id": document["id"],
        "timestamp": document["timestamp"],
        "vcs": drop_none(vcs),
        "intent_id": body.get("intent_id"),
        "mutation_class": classes.get("declared") or classes.get("computed"),
        "files": files,
        "conversation": drop_none({**talk, "contributor_type": "AI"}),
        "metadata": drop_none({**tool, **approved}),
    }


def _to_s4(document: Document, body: Document, file: Document) -> Document:
    classes = as_object(body.get("mutation_class"))
    ranges = _group_ranges(document).get(str(file.get("path")), [])
    hashed = next((r["content_hash"] for r in ranges if "content_hash" in r), None)
    line: Document = {
        "req_id": body.get("session_id"),
        "intent_id": body.get("intent_id"),
        "file": file.get("path"),
        "timestamp": document["timestamp"],
        "mutation_class": classes.get("declared") or classes.get("computed"),
        "related": [body["session_id"]] if body.get("session_id") else [],
        "ranges": drop_none({"content_hash": hashed}),
    }
    optional = {"content_hash": _prefix_hash(file.get("after")), "model_identifier": _find_model(document, body)}
    return line | drop_none(optional)


def _list_paths(body: Document) -> list[str]:
    files = [str(as_object(f).get("path")) for f in as_array(body.get("files"))]
    return files or [str(path) for path in as_array(as_object(body.get("call")).get("paths"))]


def _find_model(document: Document, body: Document) -> Any:
    for file in as_objects(document.get("files")):
        for conversation in as_objects(file.get("conversations")):
            contributor = as_object(conversation.get("contributor"))
            if model := contributor.get("model_id") or contributor.get("model_identifier"):
                return model
    return body.get("model")


def _group_ranges(document: Document) -> dict[str, list[Document]]:
    keys = ("start_line", "end_line", "content_hash")
    return {
        str(file.get("path")): [
            {key: line_range[key] for key in keys if key in line_range}
            for conversation in as_objects(file.get("conversations"))
            for line_range in as_objects(conversation.get("ranges"))
        ]
        for file in as_objects(document.get("files"))
    }


def _find_revision(document: Document) -> Any:
    return as_object(document.get("vcs")).get("revision")


def _prefix_hash(side: object) -> str | None:
    digest = as_object(side).get("sha256")
    return f"sha256:{digest}" if digest else None
