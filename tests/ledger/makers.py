"""Records and logs for the tests of this room."""

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

from remit.core.record import (
    Body,
    CallPart,
    Content,
    Conversation,
    DecisionPart,
    EventName,
    MutatedFile,
    Range,
    Record,
    Tool,
    TracedFile,
)
from remit.ledger.index.index import Index
from remit.ledger.log import SEGMENT_BYTES, MachineLog
from remit.ledger.log_files import LOCK_TIMEOUT_S

NAME = "4b1d/0123456789ab"
Document: TypeAlias = dict[str, Any]


def stamp(number: int) -> str:
    return f"2026-02-21T12:{number // 60 % 60:02d}:{number % 60:02d}.000000Z"


def record(number: int = 0, *, id: str | None = None, event: EventName = "tool_use", **body: Any) -> Record:
    """A record with an id of its own, by default one that tells its number."""
    parts: Document = {"intent_id": "INT-001", "session_id": "s1", **body}
    return Record(
        id=id or f"{number:012d}-{uuid4().hex[:12]}",
        timestamp=stamp(number),
        body=Body(event=event, **parts),
    )


def command(number: int, text: str) -> Record:
    call = CallPart(id=f"toolu_{number}", name="Bash", effect="execute", command=text)
    return record(number, call=call, decision=DecisionPart(effect="allow", verdict="allow"))


def mutation(number: int, path: str, before: str | None, after: str | None, **body: Any) -> Record:
    """A change of `path`; contents are told by a word, from which the hashes are made."""

    def side(word: str | None) -> Document:
        return {} if word is None else {"git_blob": f"blob-{word}", "sha256": f"sha-{word}"}

    sides: Document = {}
    if before is not None:
        sides["before"] = Content(**side(before))
    if after is not None:
        sides["after"] = Content(**side(after))
    written = Range(start_line=number + 1, end_line=number + 3, content_hash=f"sha256:range-{after}")
    traced = TracedFile(path=path, conversations=(Conversation(ranges=(written,)),))
    operation = "create" if before is None else "delete" if after is None else "modify"
    made = record(number, event="mutation", files=(MutatedFile(path=path, operation=operation, **sides),), **body)
    return Record(made.id, made.timestamp, made.body, tool=Tool(name="claude-code"), files=(traced,))


def make_recovery(detail: Document) -> Record:
    return Record(
        id=f"recovery-{uuid4().hex}",
        timestamp=stamp(0),
        body=Body(event="recovery", intent_id=None, session_id=None, detail=detail),
    )


def open_log(
    folder: Path, *, segment_bytes: int = SEGMENT_BYTES, name: str = NAME, lock_timeout_s: float = LOCK_TIMEOUT_S
) -> MachineLog:
    return MachineLog(
        folder, name, make_recovery=make_recovery, segment_bytes=segment_bytes, lock_timeout_s=lock_timeout_s
    )


def fill(folder: Path, records: Sequence[Record], *, segment_bytes: int = SEGMENT_BYTES) -> None:
    """Append one by one, as separate processes would."""
    for one in records:
        log = open_log(folder, segment_bytes=segment_bytes)
        log.append([one], sync=False)
        log.close()


def dump_rows(index: Index) -> dict[str, list[tuple[Any, ...]]]:
    """Every row except the words, by table: two indexes of the same log are equal."""
    with closing(sqlite3.connect(index.path)) as database:
        tables = ("records", "files", "ranges", "paths", "position")
        return {table: database.execute(f"select * from {table}").fetchall() for table in tables}


def documents(folder: Path) -> list[Document]:
    """Every line of the log, decoded, read without Remit's reader."""
    found = sorted(folder.glob("*.jsonl"))
    return [json.loads(line) for path in found for line in path.read_bytes().splitlines()]


def own(document: Document) -> Document:
    return document["metadata"]["dev.remit"]


def seqs(folder: Path) -> list[int]:
    return [own(document)["chain"]["seq"] for document in documents(folder)]
