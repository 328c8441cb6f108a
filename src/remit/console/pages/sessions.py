"""Sessions: the list of a repository, and a session as a timeline of records."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from remit.console.guard import Refused
from remit.console.pages.now import SessionActivity, SessionStatus
from remit.console.pages.page import MAX_WINDOW, PageRequest
from remit.console.pages.session_rows import SessionRow, SessionStory, make_session_rows, name_key, read_story
from remit.console.render import parse_seconds
from remit.core.formats.record_summary import Meaning, name_actor, summarize_record
from remit.core.record import KEY
from remit.core.redaction import redact
from remit.core.untrusted_input import as_object, as_objects
from remit.gate.session_lifecycle import propose_intent_name
from remit.ledger.index.index import FacetField, Filters, Index, IndexedSession
from remit.ledger.index.search import NoSearchWords

SESSION_QUERY = ("from", "to", "kind", "tool", "decision", "agent", "path", "form", "q", "e")
FACETS: dict[str, FacetField] = {"kind": "event", "tool": "tool", "decision": "decision", "agent": "agent_id"}
"""Names of facets in the query, with the fields of the index."""

MAX_FACET_VALUES = 12
ROWS_SHOWN = 120
MAX_SESSIONS, MAX_TITLED = 200, 60
STRIP_BUCKETS = 160
MAX_STRIP_RECORDS = 20_000
MAX_PEEKED_FILES, MAX_PEEKED_BYTES = 10, 400_000
NEAR_RECORDS = 40  # the records of a call are not further apart than that
MAX_GAP_S = 120.0  # a longer silence is folded in the strip


SessionForm: TypeAlias = Literal["timeline", "tree", "feed"]
SESSION_FORMS: tuple[SessionForm, ...] = ("timeline", "tree", "feed")


class Sessions(Struct, frozen=True):
    """The sessions of a repository, the latest used first, with the titles and the status of the first ones."""

    sessions: list[IndexedSession]
    titles: dict[str, str]
    statuses: dict[str, SessionStatus]


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
    """A record beside the timeline, with the changes by its call; `together` is the row of the whole call."""

    row: TimelineRow
    together: SessionRow
    intent_id: str | None
    record: dict[str, Any]
    files: list[FileDiff]


class SessionPage(Struct, frozen=True):
    """A window of a session. `filters` are those of the query, by facet; `facets` has for each facet the number of
    records of each value that the other filters leave. `start` and `end` count records; `story` stands in for the rows
    in the forms `tree` and `feed`.
    """

    session: IndexedSession
    title: str
    status: SessionStatus
    model: str
    branch: str
    form: SessionForm
    total: int
    start: int
    end: int
    rows: list[SessionRow]
    story: SessionStory | None
    facets: dict[str, dict[str, int]]
    filters: dict[str, str]
    words: str
    strip: list[StripBucket]
    peek: RecordPeek | None


class SessionTail(Struct, frozen=True):
    """The records of a session from a position on, for a page that shows the ones before."""

    total: int
    start: int
    rows: list[SessionRow]


def read_sessions(request: PageRequest) -> Sessions:
    with request.repositories.open_gate(request.one_repository) as gate, gate.index() as index:
        sessions = index.list_sessions(MAX_SESSIONS)
        first = sessions[:MAX_TITLED]
        ends = index.find(event="session_end", limit=MAX_SESSIONS)
        activity, names = SessionActivity(gate), gate.rules.titles
        titles = {
            each.session_id: propose_intent_name(gate, each.session_id) or names.get(each.intent_id or "", "")
            for each in first
        }
    ended = {str(end["metadata"][KEY].get("session_id")): end for end in reversed(ends)}
    statuses: dict[str, SessionStatus] = {}
    for each in first:
        end = ended.get(each.session_id)
        newest = end if end is not None and str(end["timestamp"]) >= each.last_at else None
        statuses[each.session_id] = activity.name_status(each, newest)
    return Sessions(sessions, titles, statuses)


def read_session(request: PageRequest) -> SessionPage:
    session_id, form, words = request.path["session"], read_form(request), request.query.get("q", "").split()
    filters = {name: request.query[name] for name in (*FACETS, "path") if request.query.get(name)}
    with request.repositories.open_gate(request.one_repository) as gate, gate.index() as index:
        session = next(iter(index.list_sessions(1, session_id)), None)
        if session is None:
            raise Refused(404, f"no record names a session {session_id[:80]!r}", "see the page Sessions")
        title = propose_intent_name(gate, session_id) or gate.rules.titles.get(session.intent_id or "", "")
        newest = next(iter(index.find(session_id=session_id, limit=1)), None)
        status = SessionActivity(gate).name_status(session, newest)
        total, start, documents = read_window(request, index, make_filters(session_id, filters), words)
        started = index.find(event="session_start", session_id=session_id, limit=1)
        model = str(started[0]["metadata"][KEY].get("model") or "") if started else ""
        facets = count_facets(index, session_id, filters)
        times = index.list_times(MAX_STRIP_RECORDS, session_id=session_id)
        wanted = request.query.get("e", "")
        found = index.find_by_ids([wanted]) if wanted else {}
        call = list_records_of_call(index, session_id, found[wanted]) if wanted in found else []
    peek = read_peek(request, found[wanted], call) if call else None
    story = None if form == "timeline" else read_story(request, session_id, session.records)
    rows = [] if story else make_session_rows(documents, start, folded=not filters and not words)
    return SessionPage(
        session,
        title or session.agent or "Session",
        status,
        model,
        str(newest["metadata"][KEY].get("branch") or "") if newest else "",
        form,
        total,
        start,
        start + len(documents),
        rows,
        story,
        facets,
        filters,
        " ".join(words),
        make_strip(times),
        peek,
    )


def read_form(request: PageRequest) -> SessionForm:
    """Return the asked form. Raises Refused."""
    asked = request.query.get("form", "timeline")
    for form in SESSION_FORMS:
        if form == asked:
            return form
    words = ", ".join(SESSION_FORMS)
    raise Refused(400, f"form is {asked[:40]!r}; there are {words}", "take it out of the address")


def make_filters(session_id: str, filters: Mapping[str, str], *, without: str = "") -> Filters:
    found: Filters = {"session_id": session_id}
    for name, field in FACETS.items():
        if name in filters and name != without:
            found[field] = filters[name]
    if "path" in filters and without != "path":
        found["path"] = filters["path"]
    return found


def count_facets(index: Index, session_id: str, filters: Mapping[str, str]) -> dict[str, dict[str, int]]:
    found = {
        name: index.count_by(field, **make_filters(session_id, filters, without=name)) for name, field in FACETS.items()
    }
    found["path"] = index.count_by_path(MAX_FACET_VALUES, **make_filters(session_id, filters, without="path"))
    for name, value in filters.items():
        if value not in found[name]:
            found[name][value] = index.count_matching(**make_filters(session_id, filters))
    return {
        name: dict(sorted(counts.items(), key=lambda item: (item[0] != filters.get(name), -item[1])))
        for name, counts in found.items()
    }


def read_window(
    request: PageRequest, index: Index, filters: Filters, words: list[str]
) -> tuple[int, int, list[dict[str, Any]]]:
    """Return how many records match, the first position shown, and the records: around the record `e`, from `from`,
    or the newest ones; for words those that have them. Raises Refused.
    """
    if words:
        try:
            documents = index.find(words=words, limit=ROWS_SHOWN, **filters)[::-1]
        except NoSearchWords as error:
            raise Refused(400, str(error), "write letters or digits") from None
        return len(documents), 0, documents
    total = index.count_matching(**filters)
    start = max(0, total - ROWS_SHOWN)
    if (wanted := request.query.get("e")) and not request.query.get("from"):
        place = index.count_before(wanted, **filters)
        start = min(start, max(0, place - ROWS_SHOWN // 2))
    start = min(request.number("from", start, 1_000_000), max(0, total - 1))
    until = request.number("to", 0, 1_000_000)
    count = min(max(0, until - start) if until else ROWS_SHOWN, MAX_WINDOW)
    return total, start, index.find_window(start, count, **filters)


def read_tail(request: PageRequest) -> SessionTail:
    """Return the newest records from position `from` on, at most MAX_WINDOW: a page that is far behind gets the end."""
    session_id = request.path["session"]
    with request.repositories.open_index(request.one_repository) as index:
        total = index.count_matching(session_id=session_id)
        start = max(min(request.number("from", total, 1_000_000), total), total - MAX_WINDOW)
        documents = index.find_window(start, MAX_WINDOW, session_id=session_id)
    return SessionTail(total, start, make_session_rows(documents, start))


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


def list_records_of_call(index: Index, session_id: str, document: dict[str, Any]) -> list[dict[str, Any]]:
    place = index.count_before(str(document["id"]), session_id=session_id)
    near = index.find_window(max(0, place - NEAR_RECORDS), 2 * NEAR_RECORDS, session_id=session_id)
    return [each for each in near if name_key(each) == name_key(document)] or [document]


def read_peek(request: PageRequest, document: dict[str, Any], call: list[dict[str, Any]]) -> RecordPeek:
    body: dict[str, Any] = document["metadata"][KEY]
    changed = [file for each in call for file in as_objects(each["metadata"][KEY].get("files"))]
    files: list[FileDiff] = []
    with request.repositories.open_gate(request.one_repository) as gate:
        for file in changed[:MAX_PEEKED_FILES]:
            sides = (as_object(file.get(side)).get("git_blob") for side in ("before", "after"))
            before, after = (gate.contents.load(str(blob)) if blob else b"" for blob in sides)
            diff = ""
            if before is not None and after is not None and len(before) + len(after) < MAX_PEEKED_BYTES:
                diff = gate.contents.unified_diff(before, after)
            files.append(FileDiff(str(file.get("path")), redact(diff)))
    (together,) = make_session_rows(call, 0)
    return RecordPeek(make_row(0, document), together, body.get("intent_id"), document, files)


def make_strip(times: list[tuple[str, str]]) -> list[StripBucket]:
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
    buckets = STRIP_BUCKETS
    counts = [[0, 0, 0] for _ in range(buckets)]
    for place, (_, event) in zip(places, times, strict=True):
        bucket = counts[min(buckets - 1, int((place - first) / span * buckets))]
        bucket[0] += 1
        bucket[1] += event == "denied"
        bucket[2] += event == "approval_requested"
    return [StripBucket(*each) for each in counts]
