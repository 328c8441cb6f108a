"""Records in formats of other tools, read and written: older ledgers (S1 to S4), Agent Trace, in-toto, CSV.

Older lines have no chain, and often no id: they are evidence, never proof.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, cast

from msgspec import DecodeError, Struct, json

from remit.core.diff.contents import sha256
from remit.core.record import KEY, normalise_timestamp
from remit.core.untrusted_input import as_array, as_object, as_objects

Document: TypeAlias = dict[str, Any]
Shape: TypeAlias = Literal["s1", "s2", "s3", "s4"]
Format: TypeAlias = Literal["agent-trace", "in-toto", "s1", "s2", "s3", "s4", "csv"]
BOM = b"\xef\xbb\xbf"
"""Byte order mark at the start of files from some editors."""
EVENTS_OF_S2 = {
    **{name: name for name in ("tool_use", "tool_result", "approval_requested")},
    "approval_received": "approval_answered",
}
"""Events of S2 and their counterparts."""
S2_EVENTS = {ours: theirs for theirs, ours in EVENTS_OF_S2.items()} | dict.fromkeys(
    ("denied", "mutation"), "tool_result"
)
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:remit:predicate:trace/v1"
"""Type of our statements: the predicate is the record. Source: in-toto attestation v1, read 2026-11."""
COLUMNS = (
    *("id", "timestamp", "event", "agent", "session_id", "intent_id", "tool", "effect", "verdict", "paths", "command"),
)
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""Forbidden first characters of a cell: spreadsheets run full-width signs and text after line ends as formulas too."""
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


class ConvertedFile(Struct, frozen=True):
    """Ledger lines made from a foreign file. `traces` counts foreign records; `unread` counts unknown lines."""

    lines: tuple[bytes, ...]
    traces: int = 0
    unread: int = 0


# --- reading ----------------------------------------------------------------------------------------------


def convert_foreign_file(content: bytes) -> ConvertedFile:
    """Convert a file of records: JSON Lines, a JSON document, or an array.

    Lines of Remit and of older tools stay unchanged. Agent Trace records of other tools become records with the hash of
    their source; `chain` keeps their file and order. Source: the Agent Trace schema 0.1.0, read 2026-11.
    """
    name = f"import/{sha256(content)[:16]}"
    content = content.removeprefix(BOM)
    whole = _decode_json(content)
    if isinstance(whole, dict | list):
        listed = cast("list[object]", whole if isinstance(whole, list) else [whole])
        documents = [json.encode(document) for document in listed]
    else:
        documents = [line for line in content.split(b"\n") if line.strip()]
    lines: list[bytes] = []
    traces = unread = 0
    for raw in documents:
        document = as_object(_decode_json(raw))
        if KEY in as_object(document.get("metadata")) or convert_older_record(raw) is not None:
            lines.append(raw)
        elif isinstance(document.get("files"), list):
            lines.append(_convert_trace(document, raw, name, traces))
            traces += 1
        else:
            unread += 1
    return ConvertedFile(tuple(lines), traces, unread)


def _decode_json(raw: bytes) -> object:
    try:
        return json.decode(raw)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _convert_trace(document: Document, raw: bytes, log: str, number: int) -> bytes:
    conversations = [c for file in as_objects(document["files"]) for c in as_objects(file.get("conversations"))]
    related = (r for c in conversations for r in as_objects(c.get("related")) if r.get("type") == "specification")
    body = {
        "event": "mutation",
        "intent_id": next((r["value"] for r in related if isinstance(r.get("value"), str)), None),
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


def derive_record_id(document: Document, kind: str) -> str:
    own_id = document.get("id")
    if isinstance(own_id, str) and own_id:
        return own_id
    return f"{kind}-{hashlib.sha256(json.encode(document, order='deterministic')).hexdigest()[:24]}"


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
    document = as_object(_decode_json(raw))
    shape = detect_shape(document)
    if shape is None:
        return None
    body = {"s1": _from_s1, "s2": _from_s2, "s3": _from_s3, "s4": _from_s4}[shape](document)
    contributor = {"contributor": {"type": "ai", "model_id": body["model"]}} if body.get("model") else {}
    record = {
        "version": "0.1.0",
        "id": derive_record_id(document, shape),
        "timestamp": normalise_timestamp(document.get("timestamp")),
        "files": [
            {"path": f["path"], "conversations": [{"ranges": f.get("ranges", []), **contributor}]}
            for f in body.get("files", [])
        ],
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
    related = [r.get("value") for r in as_objects(first.get("related"))]
    model = as_object(first.get("contributor")).get("model_identifier")
    return _make_mutation(next(iter(related), None), first.get("url"), files, model=model)


def _from_s2(document: Document) -> Document:
    params, event = as_object(document.get("params")), str(document.get("eventType"))
    path, result, approved = params.get("path"), document.get("result"), document.get("approved")
    summary = result if isinstance(result, str) else json.encode(result).decode()
    call = {"name": document.get("toolName"), "command": params.get("command"), "paths": [path] if path else None}
    body: Document = {
        "event": EVENTS_OF_S2.get(event, event),
        "intent_id": document.get("intentId"),
        "session_id": document.get("taskId"),
        "call": drop_none(call),
    }
    answer = None if not isinstance(approved, bool) else "allow" if approved else "deny"
    optional = {"duration_ms": document.get("duration"), "answer": answer}
    return body | drop_none({**optional, "result": {"summary": summary} if result is not None else None})


def _from_s3(document: Document) -> Document:
    files: list[Document] = []
    for file in as_objects(document.get("files")):
        ranges = [
            drop_none({key: value for key, value in each.items() if key != "ast_node_type"})
            for each in as_objects(file.get("line_ranges"))
        ]
        fields = {"path": str(file.get("relative_path", "")), "operation": file.get("operation"), "ranges": ranges}
        sides = {"before": _read_hash(file.get("before_hash")), "after": _read_hash(file.get("after_hash"))}
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
    declared = drop_none({"declared": document.get("mutation_class")}) or None
    model = document.get("model_identifier")
    intent_id, session_id = document.get("intent_id"), document.get("req_id")
    return _make_mutation(intent_id, session_id, [drop_none(file)], model=model, mutation_class=declared)


def _make_mutation(intent: object, session: object, files: list[Document], **optional: object) -> Document:
    required: Document = {"event": "mutation", "intent_id": intent, "session_id": session, "files": files}
    return required | drop_none(optional)


def _read_hash(value: object) -> Document | None:
    return {"sha256": value.removeprefix("sha256:")} if isinstance(value, str) else None


def drop_none(pairs: Mapping[str, object]) -> Document:
    return {key: value for key, value in pairs.items() if value is not None}


# --- writing ----------------------------------------------------------------------------------------------


def export_record(document: Document, form: Format) -> list[str]:
    """Return a record as lines of a foreign format, without newlines; empty for events unknown to the format.

    S1, S3 and S4 know mutations only; S4 has a line per file.
    """
    body = as_object(as_object(document.get("metadata")).get(KEY))
    is_mutation, files = body.get("event") == "mutation", as_objects(body.get("files"))
    lines: list[Document] = []
    match form:
        case "csv":
            return [_format_csv(make_csv_row(document))]
        case "agent-trace":
            lines = [publish_record(document) if body.get("shape") else document]
        case "in-toto":  # a statement about the contents left by a change
            sides = ((file.get("path"), as_object(file.get("after"))) for file in files if is_mutation)
            digests = (
                (path, drop_none({"sha256": s.get("sha256"), "gitBlob": s.get("git_blob")})) for path, s in sides
            )
            subjects = [{"name": str(path), "digest": digest} for path, digest in digests if digest]
            statement = {"_type": STATEMENT, "subject": subjects, "predicateType": PREDICATE, "predicate": document}
            lines = [statement] if subjects else []
        case "s2":
            lines = [_to_s2(document, body)] if body.get("event") in S2_EVENTS else []
        case "s1" if is_mutation:
            lines = [_to_s1(document, body)]
        case "s3" if is_mutation:
            lines = [_to_s3(document, body)]
        case "s4" if is_mutation:
            lines = [_to_s4(document, body, file) for file in files]
        case _:
            pass
    return [json.encode(line).decode() for line in lines]


def publish_record(document: Document) -> Document:
    """Return a record of an older tool in the published schema: UUID ids, and complete line ranges.

    The original id is kept as `named`; others become a UUID version 8. Source: RFC 9562, read 2026-11.
    """
    name = own_id = str(document["id"])
    if not _UUID.fullmatch(name):
        digits = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
        own_id = f"{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-8{digits[17:20]}-{digits[20:32]}"
    files: list[Document] = []
    for file in as_objects(document.get("files")):
        conversations: list[Document] = []
        for conversation in as_objects(file.get("conversations")):
            ranges = as_objects(conversation.get("ranges"))
            complete = [r for r in ranges if all(isinstance(r.get(key), int) for key in ("start_line", "end_line"))]
            conversations.append({**conversation, "ranges": complete})
        files.append({**file, "conversations": conversations})
    outer = as_object(document["metadata"])
    metadata = {**outer, KEY: {**as_object(outer.get(KEY)), "named": name}}
    return {**document, "id": own_id, "files": files, "metadata": metadata}


def format_csv_header() -> str:
    return _format_csv(COLUMNS)


def make_csv_row(document: Document) -> tuple[str, ...]:
    body = as_object(as_object(document.get("metadata")).get(KEY))
    call, decision = as_object(body.get("call")), as_object(body.get("decision"))
    agent = as_object(document.get("tool")).get("name")
    values = (
        *(document.get("id"), document.get("timestamp"), body.get("event"), agent, body.get("session_id")),
        *(body.get("intent_id"), call.get("name"), call.get("effect"), decision.get("verdict")),
        *(" ".join(_list_paths(body)), call.get("command")),
    )
    return tuple("" if value is None else str(value) for value in values)


def _format_csv(row: tuple[str, ...]) -> str:
    cells = ("'" + text if text[:1] in FORMULA else text for text in row)
    quoted = ((cell, cell.replace('"', '""')) for cell in cells)
    return ",".join(f'"{text}"' if any(c in cell for c in ',"\n\r') else cell for cell, text in quoted)


def _to_s1(document: Document, body: Document) -> Document:
    ranges, url = _group_ranges(document), body.get("session_id")
    contributor = {"entity_type": "AI", "model_identifier": _find_model(document, body) or "unknown"}
    related = [{"type": "specification", "value": body["intent_id"]}] if body.get("intent_id") else []
    conversations = (
        (path, {"url": url, "contributor": contributor, "ranges": ranges.get(path, []), "related": related})
        for path in _list_paths(body)
    )
    files = [{"relative_path": path, "conversations": [conversation]} for path, conversation in conversations]
    vcs = {"revision_id": as_object(document.get("vcs")).get("revision")}
    return {"id": document["id"], "timestamp": document["timestamp"], "vcs": vcs, "files": files}


def _to_s2(document: Document, body: Document) -> Document:
    call, paths = as_object(body.get("call")), _list_paths(body)
    line: Document = {
        "timestamp": document["timestamp"],
        "eventType": S2_EVENTS[str(body["event"])],
        "toolName": call.get("name") or str(body["event"]),
        "params": drop_none({"path": paths[0] if paths else None, "command": call.get("command")}),
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
    model, session_id = _find_model(document, body), body.get("session_id")
    talk = {"session_id": session_id, "message_index": body.get("message_index"), "model": model}
    tool = {"tool_used": as_object(body.get("call")).get("name"), "execution_time_ms": body.get("duration_ms")}
    approved = {"approved_by": as_object(body.get("decision")).get("approved_by")}
    revision = as_object(document.get("vcs")).get("revision")
    return {
        "id": document["id"],
        "timestamp": document["timestamp"],
        "vcs": drop_none({"revision_id": revision, "branch": body.get("branch"), "dirty": body.get("dirty")}),
        "intent_id": body.get("intent_id"),
        "mutation_class": _find_class(body),
        "files": files,
        "conversation": drop_none({**talk, "contributor_type": "AI"}),
        "metadata": drop_none({**tool, **approved}),
    }


def _to_s4(document: Document, body: Document, file: Document) -> Document:
    ranges = _group_ranges(document).get(str(file.get("path")), [])
    line: Document = {
        "req_id": body.get("session_id"),
        "intent_id": body.get("intent_id"),
        "file": file.get("path"),
        "timestamp": document["timestamp"],
        "mutation_class": _find_class(body),
        "related": [body["session_id"]] if body.get("session_id") else [],
        "ranges": drop_none({"content_hash": next((r["content_hash"] for r in ranges if "content_hash" in r), None)}),
    }
    optional = {"content_hash": _prefix_hash(file.get("after")), "model_identifier": _find_model(document, body)}
    return line | drop_none(optional)


def _list_paths(body: Document) -> list[str]:
    files = [str(file.get("path")) for file in as_objects(body.get("files"))]
    return files or [str(path) for path in as_array(as_object(body.get("call")).get("paths"))]


def _find_class(body: Document) -> Any:
    classes = as_object(body.get("mutation_class"))
    return classes.get("declared") or classes.get("computed")


def _find_model(document: Document, body: Document) -> Any:
    conversations = (c for file in as_objects(document.get("files")) for c in as_objects(file.get("conversations")))
    contributors = (as_object(conversation.get("contributor")) for conversation in conversations)
    models = (contributor.get("model_id") or contributor.get("model_identifier") for contributor in contributors)
    return next(filter(None, models), body.get("model"))


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


def _prefix_hash(side: object) -> str | None:
    digest = as_object(side).get("sha256")
    return f"sha256:{digest}" if digest else None
