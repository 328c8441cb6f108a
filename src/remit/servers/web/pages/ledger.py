"""Ledger: the newest records by filter, and one record whole."""

from typing import Any

from msgspec import Struct

from remit.ledger.index.search import NoSearchWords
from remit.servers.web.guard import Refused
from remit.servers.web.pages.page import PageRequest
from remit.servers.web.pages.sessions import TimelineRow, make_row

ROWS_SHOWN = 100


class LedgerPage(Struct, frozen=True):
    """Records, newest first, and what the filters may be."""

    rows: list[TimelineRow]
    total: int
    counts: dict[str, int]
    filters: dict[str, str]


class RecordPage(Struct, frozen=True):
    """A record as stored in the log."""

    row: TimelineRow
    record: dict[str, Any]


def read_ledger(request: PageRequest) -> LedgerPage:
    names = ("event", "agent", "session_id", "intent_id", "path", "since", "until")
    filters = {name: request.query[name] for name in names if request.query.get(name)}
    words = request.query.get("q", "").split()
    with request.repositories.open_index(request.one_repository) as index:
        try:
            documents = index.find(words=words, limit=ROWS_SHOWN, **filters)  # type: ignore[arg-type]
        except NoSearchWords as error:
            raise Refused(400, str(error), "write letters or digits") from None
        counts = index.count_by_event()
        total = index.count_matching(**filters)  # type: ignore[arg-type]
    shown = {**filters, **({"q": " ".join(words)} if words else {})}
    return LedgerPage([make_row(0, document) for document in documents], total, counts, shown)


def read_record(request: PageRequest) -> RecordPage:
    with request.repositories.open_index(request.one_repository) as index:
        found = index.find_by_ids([request.path["record"]])
    for document in found.values():
        return RecordPage(make_row(0, document), document)
    raise Refused(404, "there is no such record", "see the page Ledger")
