"""Ledger: records by filter in windows, whether the chain is whole, one record, and records as a file."""

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct, convert

from remit.ledger.findings import LedgerFinding
from remit.ledger.index.search import NoSearchWords
from remit.ledger.parse_time import NotATime, parse_time
from remit.servers.web.guard import Refused
from remit.servers.web.pages.page import PageRequest
from remit.servers.web.pages.sessions import RecordPeek, TimelineRow, make_row, read_peek
from remit.servers.web.repositories import GovernedRepository, Repositories

ROWS_SHOWN = 100
MAX_FOUND_WITH_WORDS = 2000
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
    """Records, newest first, from the `skip`th on. `counts` has all events; `total` is None for a search by words."""

    rows: list[TimelineRow]
    total: int | None
    skip: int
    has_older: bool
    counts: dict[str, int]
    agents: list[str]
    intents: list[str]
    filters: dict[str, str]
    chain: ChainState | None


class RecordPage(Struct, frozen=True):
    """A record as stored in the log, with the files that it changed."""

    peek: RecordPeek
    session_id: str
    paths: list[str]


def read_ledger(request: PageRequest) -> LedgerPage:
    filters, words = parse_filters(request.query), request.query.get("q", "").split()
    skip = request.number("skip", 0, 10_000_000)
    with request.repositories.open_index(request.one_repository) as index:
        index.catch_up()
        if words:
            total = None
            try:
                found = index.find(words=words, limit=min(skip + ROWS_SHOWN + 1, MAX_FOUND_WITH_WORDS), **filters)  # type: ignore[arg-type]
            except NoSearchWords as error:
                raise Refused(400, str(error), "write letters or digits") from None
            documents = found[skip : skip + ROWS_SHOWN]
            has_older = len(found) > skip + ROWS_SHOWN
        else:
            total = index.count_matching(**filters)  # type: ignore[arg-type]
            start = max(0, total - skip - ROWS_SHOWN)
            documents = index.find_window(start, max(0, total - skip - start), **filters)[::-1]  # type: ignore[arg-type]
            has_older = start > 0
        counts = index.count_by("event")
        agents = list(index.list_values("agent", MAX_CHOICES))
        intents = list(index.list_values("intent_id", MAX_CHOICES))
    shown = {name: request.query[name] for name in (*FIELDS, "q") if request.query.get(name)}
    chain = verify_chain(request) if request.query.get("verify") else None
    rows = [make_row(0, document) for document in documents]
    return LedgerPage(rows, total, skip, has_older, counts, agents, intents, shown, chain)


def parse_filters(query: Mapping[str, str]) -> dict[str, str]:
    """Return the filters of a query, times as the ledger writes them. Raises Refused."""
    filters = {name: query[name] for name in FIELDS if query.get(name)}
    for name in ("since", "until"):
        if name in filters:
            try:
                filters[name] = parse_time(filters[name], datetime.now(UTC))
            except NotATime as error:
                raise Refused(400, str(error), f"take `{name}` out of the address") from None
    return filters


def verify_chain(request: PageRequest) -> ChainState:
    return convert(request.repositories.run_command(request.one_repository, "ledger", "verify"), ChainState)


def read_record(request: PageRequest) -> RecordPage:
    with request.repositories.open_index(request.one_repository) as index:
        found = index.find_by_ids([request.path["record"]])
    for document in found.values():
        peek = read_peek(request, document, [document])
        body: dict[str, Any] = next(iter(document["metadata"].values()))
        return RecordPage(peek, str(body.get("session_id") or ""), [file.path for file in peek.files])
    raise Refused(404, "there is no such record", "see the page Ledger")


def export_records(
    repositories: Repositories, repository: GovernedRepository, form: str, query: Mapping[str, str]
) -> AsyncIterator[bytes]:
    """Return the matching records, oldest first, as `remit export` writes them. Raises Refused."""
    if form not in EXPORT_FORMS:
        raise Refused(404, f"there is no form {form[:20]!r}", f"ask for {' or '.join(EXPORT_FORMS)}")
    filters = parse_filters(query)
    words = (f"{EXPORT_OPTIONS[name]}={value}" for name, value in filters.items())
    return repositories.stream_command(repository, "export", f"--as={EXPORT_FORMS[form]}", *words)
