"""The shape of a page: HTML, parts and JSON come from the same function."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from remit.servers.web.guard import Refused
from remit.servers.web.repositories import GovernedRepository, Repositories

MAX_WINDOW = 400


class PageRequest(Struct, frozen=True):
    """What a page is asked: the repository (None for pages over all), the rest of the path, and the query."""

    repositories: Repositories
    repository: GovernedRepository | None
    path: Mapping[str, str]
    query: Mapping[str, str]

    @property
    def one_repository(self) -> GovernedRepository:
        if self.repository is None:
            raise Refused(404, "this page is about one repository", "choose one on the page Now")
        return self.repository

    def number(self, name: str, default: int, most: int) -> int:
        """Return a number of the query between 0 and `most`. Raises Refused for an invalid number."""
        text = self.query.get(name, "")
        if not text:
            return default
        if not text.isdecimal() or len(text) > 9:
            raise Refused(400, f"{name} is {text[:40]!r}; expected a number", "take it out of the address")
        return min(int(text), most)


class Page(Struct, frozen=True):
    """A page. `read` returns its data in a worker thread; `template` shows them. `nav` names its entry on the left,
    `query_names` are the names that its query may have.
    """

    url: str
    nav: str
    title: str
    template: str
    read: Callable[[PageRequest], Any]
    query_names: tuple[str, ...] = ()
