"""Ledger: records by filter in windows, whether the chain is whole, one record, and records as a file."""

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct, convert

from remit.console.guard import Refused
from remit.console.pages.page import PageRequest
from remit.console.pages.sessions import RecordPeek, TimelineRow, make_row, read_peek
from remit.console.repositories import GovernedRepository, Repositories
from remit.core.python_runtime import prepare_type
from remit.core.record import KEY
from remit.gate.gate import Gate
from remit.ledger.findings import LedgerFinding
from remit.ledger.index.index import Filters
from remit.ledger.index.search import NoSearchWords
from remit.ledger.parse_time import NotATime, parse_time

ROWS_SHOWN = 100
MAX_CHOICES = 60
FIELDS = ("event", "agent", "session_id", "intent_id", "path", "since", "until")
LEDGER_QUERY = (*FIELDS, "q", "skip", "verify")
EXPORT_OPTIONS = {"event": "--event", "agent": "--agent", "session_id": "--session", "intent_id": "--intent"} | {
    "path": "--path",
    "since": "--since",
    "until": "--until",
}
EXPORT_FORMS = {"jsonl": "agent-trace", "csv": "csv"}


class ChainState(Struct, frozen=True):
    """Answer of `remit ledger verify`: records, how many a signature covers, and what is wrong."""

    records: int
    witnessed: int
    unwitnessed: int
    findings: list[LedgerFinding]


class LedgerPage(Struct, frozen=True):
    """Records, newest first, from the `skip`th on. `counts` has all events."""

    rows: list[TimelineRow]
    total: int
    skip: int
    has_older: bool
    counts: dict[str, int]
    agents: list[str]
    intents: list[str]
    filters: dict[str, str]
    chain: ChainState | None


class RecordPage(Struct, frozen=True):
    """A record as stored in the log, with the files that it changed, and its neighbours in what the filters leave."""

    peek: RecordPeek
    session_id: str
    paths: list[str]
    filters: dict[str, str]
    older: str | None
    newer: str | None


class FoundRecords(Struct, frozen=True):
    """Records that have the words of a search, newest first, and how many of them there are."""

    documents: list[dict[str, Any]]
    total: int


def read_ledger(request: PageRequest) -> LedgerPage:
    filters, words = parse_filters(request.query), request.query.get("q", "").split()
    skip = request.number("skip", 0, 10_000_000)
    found = FoundRecords([], 0)
    if words:
        found = request.repositories.run_job(request.one_repository, search_records, words, filters, skip)
    with request.repositories.open_index(request.one_repository) as index:
        index.catch_up()
        if not words:
            total = index.count_matching(**filters)
            start = max(0, total - skip - ROWS_SHOWN)
            found = FoundRecords(index.find_window(start, max(0, total - skip - start), **filters)[::-1], total)
        counts = index.count_by("event")
        agents = list(index.list_values("agent", MAX_CHOICES))
        intents = list(index.list_values("intent_id", MAX_CHOICES))
    shown = list_shown_filters(request)
    chain = verify_chain(request) if request.query.get("verify") else None
    rows = [make_row(0, document) for document in found.documents]
    return LedgerPage(rows, found.total, skip, found.total > skip + len(rows), counts, agents, intents, shown, chain)


def search_records(gate: Gate, words: list[str], filters: Filters, skip: int) -> FoundRecords:
    """Return a window of the records with all the words, over the whole ledger. The first search of a repository takes
    in the words of all its records, which is why a worker does it. Raises Refused.
    """
    with gate.index() as index:
        index.catch_up()
        try:
            documents = index.find(words=words, limit=ROWS_SHOWN, offset=skip, **filters)
            return FoundRecords(documents, index.count_matching(words=words, **filters))
        except NoSearchWords as error:
            raise Refused(400, str(error), "write letters or digits") from None


def list_shown_filters(request: PageRequest) -> dict[str, str]:
    return {name: request.query[name] for name in (*FIELDS, "q") if request.query.get(name)}


def parse_filters(query: Mapping[str, str]) -> Filters:
    """Return the filters of a query, times as the ledger writes them. Raises Refused."""
    filters = {name: query[name] for name in FIELDS if query.get(name)}
    for name in ("since", "until"):
        if name in filters:
            try:
                filters[name] = parse_time(filters[name], datetime.now(UTC))
            except NotATime as error:
                raise Refused(400, str(error), f"take `{name}` out of the address") from None
    return convert(filters, prepare_type(Filters))


def verify_chain(request: PageRequest) -> ChainState:
    return convert(
        request.repositories.run_command(request.one_repository, "ledger", "verify"), prepare_type(ChainState)
    )


def read_record(request: PageRequest) -> RecordPage:
    filters, words = parse_filters(request.query), request.query.get("q", "").split()
    wanted = request.path["record"]
    with request.repositories.open_index(request.one_repository) as index:
        if not index.find_by_ids([wanted]):
            raise Refused(404, "there is no such record", "see the page Ledger")
        try:
            older, newer = index.find_neighbours(wanted, words=words, **filters)
        except NoSearchWords as error:
            raise Refused(400, str(error), "write letters or digits") from None
    document = request.repositories.run_command(request.one_repository, "show", wanted)
    peek = read_peek(request, document, [document])
    session = str(document["metadata"][KEY].get("session_id") or "")
    return RecordPage(peek, session, [file.path for file in peek.files], list_shown_filters(request), older, newer)


def export_records(
    repositories: Repositories, repository: GovernedRepository, form: str, query: Mapping[str, str]
) -> AsyncIterator[bytes]:
    """Return the matching records, oldest first, as `remit export` writes them. Raises Refused."""
    if form not in EXPORT_FORMS:
        raise Refused(404, f"there is no form {form[:20]!r}", f"ask for {' or '.join(EXPORT_FORMS)}")
    filters = parse_filters(query)
    words = (f"{option}={filters[name]}" for name, option in EXPORT_OPTIONS.items() if name in filters)
    return repositories.stream_command(repository, "export", f"--as={EXPORT_FORMS[form]}", *words)
