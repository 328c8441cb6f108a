"""Agent Trace records of other tools, as lines that reading takes: evidence with the hash of what it was made from.

Source: the Agent Trace schema 0.1.0, read 2026-11.
"""

from typing import Any, cast

from msgspec import DecodeError, Struct, json

from remit.core.contents import sha256
from remit.core.loose import mapping, sequence
from remit.core.published import in_utc, name_of
from remit.core.record import KEY
from remit.core.shapes import read_older

Document = dict[str, Any]

BOM = b"\xef\xbb\xbf"
"""What some editors begin a file with."""


class Taken(Struct, frozen=True):
    """The lines that a file became. `traces` were records of other tools; `unread` were nothing that is known."""

    lines: tuple[bytes, ...]
    traces: int = 0
    unread: int = 0


def lines_from(content: bytes) -> Taken:
    """What a file of records becomes: JSON Lines, one JSON document, or an array of them.

    Lines of Remit's and of older tools stay as they are. Numbers, names and order of the others are kept in `chain`.
    """
    name = f"import/{sha256(content)[:16]}"
    content = content.removeprefix(BOM)
    lines: list[bytes] = []
    traces = unread = 0
    for raw in _documents(content):
        document = _read(raw)
        if document is None:
            unread += 1
        elif KEY in mapping(document.get("metadata")) or read_older(raw) is not None:
            lines.append(raw)
        elif isinstance(document.get("files"), list):
            lines.append(_as_line(document, raw, name, traces))
            traces += 1
        else:
            unread += 1
    return Taken(tuple(lines), traces, unread)


def _documents(content: bytes) -> list[bytes]:
    """The documents of a file, each on a line."""
    whole = _decoded(content)
    if isinstance(whole, dict):
        return [json.encode(whole)]
    if isinstance(whole, list):
        return [json.encode(each) for each in cast("list[object]", whole)]
    return [line for line in content.split(b"\n") if line.strip()]


def _decoded(raw: bytes) -> object:
    try:
        return json.decode(raw)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _read(raw: bytes) -> Document | None:
    found = _decoded(raw)
    return cast("Document", found) if isinstance(found, dict) else None


def _as_line(document: Document, raw: bytes, log: str, number: int) -> bytes:
    """A record of another tool, with Remit's part beside what it says."""
    files = [mapping(file) for file in document["files"]]
    conversations = [mapping(c) for file in files for c in sequence(file.get("conversations"))]
    body = {
        "event": "mutation",
        "intent_id": _intent(conversations),
        "session_id": next((c["url"] for c in conversations if isinstance(c.get("url"), str)), None),
        "imported": {"sha256": sha256(raw), "shape": "agent-trace"},
        "chain": {"log": log, "seq": number, "prev": ""},
    }
    made: Document = {
        **document,
        "id": name_of(document, "import"),
        "timestamp": in_utc(document.get("timestamp")),
        "metadata": {**mapping(document.get("metadata")), KEY: body},
    }
    return json.encode(made, order="sorted")


def _intent(conversations: list[Document]) -> str | None:
    related = [mapping(r) for c in conversations for r in sequence(c.get("related"))]
    values = [r.get("value") for r in related if r.get("type") == "specification"]
    return next((value for value in values if isinstance(value, str)), None)
