"""Sessions: the list of a repository, and a session as a timeline of records."""

from typing import Any

from msgspec import Struct

from remit.core.formats.record_summary import Meaning, name_actor, summarize_record
from remit.core.record import KEY
from remit.core.redaction import redact
from remit.core.untrusted_input import as_object, as_objects
from remit.ledger.index.index import IndexedSession
from remit.servers.web.guard import Refused
from remit.servers.web.pages.page import MAX_WINDOW, PageRequest
from remit.servers.web.render import parse_seconds

SESSION_QUERY = ("from", "count", "kind", "e")
ROWS_SHOWN = 120
STRIP_BUCKETS = 160
MAX_STRIP_RECORDS = 20_000
MAX_PEEKED_FILES, MAX_PEEKED_BYTES = 10, 400_000
MAX_GAP_S = 120.0  # a longer silence is folded in the strip


class Sessions(Struct, frozen=True):
    """The sessions of a repository, the latest used first."""

    sessions: list[IndexedSession]


class TimelineRow(Struct, frozen=True):
    """A record in the timeline. `position` counts from 0 in what the filters leave."""

    position: int
    id: str
    at: str
    event: str
    meaning: Meaning
    actor: str
    verb: str
    about: str
    duration_ms: int | None
    is_quiet: bool


class StripBucket(Struct, frozen=True):
    """A stretch of the session's time: how many records, denials and questions it has."""

    records: int
    denied: int
    asked: int


class FileDiff(Struct, frozen=True):
    """A file changed by a record, as a diff without secrets; empty if the contents were not kept."""

    path: str
    diff: str


class RecordPeek(Struct, frozen=True):
    """A record beside the timeline, with the changes."""

    row: TimelineRow
    intent_id: str | None
    record: dict[str, Any]
    files: list[FileDiff]


class SessionPage(Struct, frozen=True):
    """A window of a session's timeline; `counts` has the number of records of each event, without the filter."""

    session: IndexedSession
    model: str
    total: int
    start: int
    rows: list[TimelineRow]
    counts: dict[str, int]
    event: str
    strip: list[StripBucket]
    peek: RecordPeek | None


def read_sessions(request: PageRequest) -> Sessions:
    with request.repositories.open_index(request.one_repository) as index:
        return Sessions(index.list_sessions(200))


def read_session(request: PageRequest) -> SessionPage:
    session_id, event = request.path["session"], request.query.get("kind", "")
    with request.repositories.open_index(request.one_repository) as index:
        session = next(iter(index.list_sessions(1, session_id)), None)
        if session is None:
            raise Refused(404, f"no record names a session {session_id[:80]!r}", "see the page Sessions")
        total = index.count_matching(session_id=session_id, event=event or None)
        last = max(0, total - ROWS_SHOWN)
        start = min(request.number("from", last, 1_000_000), max(0, total - 1))
        count = min(request.number("count", ROWS_SHOWN, MAX_WINDOW), MAX_WINDOW)
        documents = index.find_window(start, count, session_id=session_id, event=event or None)
        started = index.find(event="session_start", session_id=session_id, limit=1)
        model = str(started[0]["metadata"][KEY].get("model") or "") if started else ""
        counts = index.count_by_event(session_id=session_id)
        times = index.list_times(MAX_STRIP_RECORDS, session_id=session_id)
        wanted = request.query.get("e", "")
        found = index.find_by_ids([wanted]) if wanted else {}
    peek = read_peek(request, found[wanted]) if wanted in found else None
    rows = [make_row(start + n, document) for n, document in enumerate(documents)]
    return SessionPage(session, model, total, start, rows, counts, event, make_strip(times), peek)


def make_row(position: int, document: dict[str, Any]) -> TimelineRow:
    body: dict[str, Any] = document["metadata"][KEY]
    summary = summarize_record(body)
    _, actor = name_actor(document)
    return TimelineRow(
        position,
        str(document["id"]),
        str(document["timestamp"]),
        str(body.get("event")),
        summary.meaning,
        actor,
        summary.verb,
        summary.about,
        body.get("duration_ms"),
        summary.is_quiet,
    )


def read_peek(request: PageRequest, document: dict[str, Any]) -> RecordPeek:
    body: dict[str, Any] = document["metadata"][KEY]
    files: list[FileDiff] = []
    with request.repositories.open_gate(request.one_repository) as gate:
        for file in as_objects(body.get("files"))[:MAX_PEEKED_FILES]:
            sides = (as_object(file.get(side)).get("git_blob") for side in ("before", "after"))
            before, after = (gate.contents.load(str(blob)) if blob else b"" for blob in sides)
            diff = ""
            if before is not None and after is not None and len(before) + len(after) < MAX_PEEKED_BYTES:
                diff = gate.contents.unified_diff(before, after)
            files.append(FileDiff(str(file.get("path")), redact(diff)))
    return RecordPeek(make_row(0, document), body.get("intent_id"), document, files)


def make_strip(times: list[tuple[str, str]]) -> list[StripBucket]:
    """Return the records over time in equal stretches, with long silences folded."""
    if not times:
        return []
    places: list[float] = []
    at = before = parse_seconds(times[0][0])
    for stamp, _ in times:
        now = parse_seconds(stamp)
        at += min(max(now - before, 0.0), MAX_GAP_S)
        places.append(at)
        before = now
    first, span = places[0], max(places[-1] - places[0], 0.001)
    buckets = min(STRIP_BUCKETS, len(times))
    counts = [[0, 0, 0] for _ in range(buckets)]
    for place, (_, event) in zip(places, times, strict=True):
        bucket = counts[min(buckets - 1, int((place - first) / span * buckets))]
        bucket[0] += 1
        bucket[1] += event == "denied"
        bucket[2] += event == "approval_requested"
    return [StripBucket(*each) for each in counts]
