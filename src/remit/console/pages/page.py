"""The shapes of a page and of a write. HTML, parts and JSON of a page come from the same function."""

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from remit.console.guard import Refused, decode_body
from remit.console.pairing import PairedBrowser, Role
from remit.console.repositories import GovernedRepository, Repositories
from remit.core.acts import Act

MAX_WINDOW = 400
FACE = "console"  # in the records of what a person does here


class PageRequest(Struct, frozen=True):
    """What a page is asked: the repository (None for pages over all), the rest of the path, the query, and the part of
    the page that is wanted; empty for all of it.
    """

    repositories: Repositories
    repository: GovernedRepository | None
    path: Mapping[str, str]
    query: Mapping[str, str]
    part: str = ""
    wants_all: bool = False
    """Whether what takes long is waited for: JSON has no second part."""
    reader: PairedBrowser | None = None

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


class PageWrite(Struct, frozen=True):
    """A signed write: `act` gets the body as `shape` in a worker thread, and returns the data of the answer. `role` is
    what a person who logged in needs for it, `permits` the person's act that the door rules on. Where some bodies are
    another act, `choose` tells which.
    """

    url: str
    shape: Any
    act: Callable[[PageRequest, Any], Any]
    permits: Act
    role: Role = "admin"
    choose: Callable[[Any], Act] | None = None

    def choose_act(self, body: bytes) -> Act:
        """Return the act of a request; for a body that cannot be read, `permits`."""
        if self.choose is None:
            return self.permits
        try:
            return self.choose(decode_body(body, self.shape))
        except Refused:
            return self.permits
