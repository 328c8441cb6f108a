"""Search: pages, intents, sessions, files and records whose names hold the words; the palette shows the same."""

from collections.abc import Iterable
from urllib.parse import quote, urlencode

from msgspec import Struct

from remit.console.pages.intents import list_tracked_files
from remit.console.pages.navigation import NAVIGATION
from remit.console.pages.page import PageRequest
from remit.console.repositories import GovernedRepository
from remit.core.formats.record_summary import summarize_record
from remit.core.record import KEY
from remit.ledger.index.search import NoSearchWords

SEARCH_QUERY = ("q", "repo")
MAX_OF_KIND = 8
MAX_SESSIONS = 500


class SearchHit(Struct, frozen=True):
    """A place that fits the words; `detail` says more about it."""

    kind: str
    name: str
    detail: str
    address: str


class SearchPage(Struct, frozen=True):
    """What fits the words, pages first."""

    words: str
    repository: str
    hits: list[SearchHit]


def read_search(request: PageRequest) -> SearchPage:
    text = request.query.get("q", "")[:200].strip()
    name, known = request.query.get("repo", ""), request.repositories.list_all()
    repository = request.repositories.find(name) if name else (known[0] if known else None)
    words = text.casefold().split()
    hits = list_pages(words, repository)
    hits += [
        SearchHit("repository", each.name, each.root, f"/search?{urlencode({'repo': each.name})}")
        for each in (known if len(known) > 1 else [])
        if is_match(words, each.name)
    ]
    if repository is not None and words:
        hits += list_hits(request, repository, words)
    return SearchPage(text, repository.name if repository else "", hits)


def list_pages(words: list[str], repository: GovernedRepository | None) -> list[SearchHit]:
    base = f"/r/{quote(repository.name)}" if repository else ""
    entries = [entry for group in NAVIGATION for entry in group]
    pages = {
        title: place if place[0] == "/" else f"{base}/{place}"
        for _, title, _, _, place in entries
        if base or place[0] == "/"
    }
    return [SearchHit("page", name, "", address) for name, address in pages.items() if is_match(words, name)]


def list_hits(request: PageRequest, repository: GovernedRepository, words: list[str]) -> list[SearchHit]:
    base = f"/r/{quote(repository.name)}"
    with request.repositories.open_gate(repository) as gate, gate.index() as index:
        intents = [
            SearchHit("intent", intent.id, intent.title, f"{base}/intents/{quote(intent.id)}")
            for intent in gate.rules.intents.intents
            if is_match(words, f"{intent.id} {intent.title}")
        ]
        index.catch_up()
        sessions = [
            SearchHit("session", found.agent or "?", found.session_id, f"{base}/sessions/{quote(found.session_id)}")
            for found in index.list_sessions(MAX_SESSIONS)
            if is_match(words, f"{found.session_id} {found.agent} {found.intent_id}")
        ]
        try:
            documents = index.find(words=words, limit=MAX_OF_KIND)
        except NoSearchWords:
            documents = []
    files = [
        SearchHit("file", path, "", f"{base}/code/{quote(path)}")
        for path in sorted(list_tracked_files(repository.root), key=len)
        if is_match(words, path)
    ]
    records: list[SearchHit] = []
    for document in documents:
        summary = summarize_record(document["metadata"][KEY])
        address = f"{base}/records/{quote(str(document['id']))}"
        records.append(SearchHit("record", summary.verb, summary.about[:200], address))
    return [hit for hits in (intents, files, sessions, records) for hit in hits[:MAX_OF_KIND]]


def is_match(words: Iterable[str], text: str) -> bool:
    """Tell whether each word stands in the text, without regard to case."""
    folded = text.casefold()
    return all(word in folded for word in words)
