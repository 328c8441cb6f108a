"""Records that others made, with names, times and lines as the published schema takes them."""

import hashlib
import re
from datetime import UTC, datetime
from typing import Any

import msgspec

from remit.core.loose import mapping, sequence
from remit.core.record import KEY

Document = dict[str, Any]

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


def name_of(document: Document, kind: str) -> str:
    """The id of a foreign record: its own, else one of what it says, however it is laid out."""
    named = document.get("id")
    if isinstance(named, str) and named:
        return named
    return f"{kind}-{hashlib.sha256(msgspec.json.encode(document, order='deterministic')).hexdigest()[:24]}"


def in_utc(timestamp: object) -> str:
    """A foreign record's time as ours write theirs, so that texts compare as times do; what is none stays as it is."""
    try:
        found = datetime.fromisoformat(str(timestamp).strip())
        utc = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        return "" if timestamp is None else str(timestamp)
    return utc.isoformat(timespec="microseconds").replace("+00:00", "Z")


def published(document: Document) -> Document:
    """A record of an older tool as the schema takes it: ids there are UUIDs, and a range names its lines.

    What it was called stays as `named`.
    """
    name, body = str(document["id"]), mapping(mapping(document["metadata"]).get(KEY))
    files = [
        {**file, "conversations": list(map(_with_lines, map(mapping, sequence(file.get("conversations")))))}
        for file in map(mapping, sequence(document.get("files")))
    ]
    metadata = {**mapping(document["metadata"]), KEY: {**body, "named": name}}
    return {**document, "id": uuid_of(name), "files": files, "metadata": metadata}


def uuid_of(name: str) -> str:
    """That name where it is a UUID, else one of version 8 that is made from it. Source: RFC 9562, read 2026-11."""
    if _UUID.fullmatch(name):
        return name
    digits = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-8{digits[17:20]}-{digits[20:32]}"


def _with_lines(conversation: Document) -> Document:
    """The conversation with those of its ranges that say which lines they are."""
    ranges = map(mapping, sequence(conversation.get("ranges")))
    own = [one for one in ranges if isinstance(one.get("start_line"), int) and isinstance(one.get("end_line"), int)]
    return {**conversation, "ranges": own}
