"""Who may hold a connection to the console, and for how long.

The cookie of a request makes its class, before anything else of it is read: a paired browser has places of its own that
no stranger can take. Strangers have few, and the oldest makes room. Each head, body and answer has its time, the second
of a connection as well as the first.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Literal, TypeAlias, cast

import h11
from starlette.requests import cookie_parser
from uvicorn.protocols.http.h11_impl import H11Protocol

from remit.workspace.processes.peer_identity import read_connections
from remit.workspace.processes.process_tracking import Incomplete, list_open, list_own_processes, read_link

MAX_STRANGERS = 64
MAX_OF_GROUP = 16  # strangers of one process namespace, or from one address
MAX_CROWD = 512  # strangers for GRACE_S: what came at once is read before somebody has to go
GRACE_S = 0.05
MAX_PAIRED = 96
MAX_OF_BROWSER = 16
RESERVED_FOR_LAST = 8  # of those of paired browsers, for the one paired last: it is at hand
HEAD_S, BODY_S, ANSWER_S, IDLE_S = 5.0, 12.0, 10.0, 60.0
"""The pages themselves refuse a body after ten seconds, with words; here the connection ends. An answer ends if nothing
of it was taken for so long.
"""

LOOK_INTERVAL_S, GROUPS_INTERVAL_S = 0.5, 2.0
MAX_STRANGERS_HEAD_BYTES, MAX_HEAD_BYTES = 8 << 10, 24 << 10
"""A paired browser names in its head what it has seen of each repository."""

Phase: TypeAlias = Literal["head", "body", "answer", "idle"]
Client: TypeAlias = tuple[str, int]
FindBrowser: TypeAlias = Callable[[Mapping[str, str]], str]
NameGroups: TypeAlias = Callable[[Sequence[Client]], Sequence[str]]
TOO_MANY = (429, "too many connections of paired browsers are open: close some pages")
TOO_LONG = (431, "the head of the request is too long")


class Visit:
    """A connection: what it is about to do since when, and the paired browser whose cookie it brought; "" for none."""

    def __init__(self, client: Client, end: Callable[[], None], now: float, count_unsent: Callable[[], int]) -> None:
        self.client, self.end, self.count_unsent = client, end, count_unsent
        self.browser = ""
        self.phase: Phase = "head"
        self.since = self.taken_at = now
        self.unsent = 0

    def begin(self, phase: Phase, now: float) -> None:
        self.phase, self.since = phase, now

    def is_overdue(self, now: float) -> bool:
        """Return whether its time is over. What is being worked out has none: pages have limits of their own."""
        before, self.unsent = self.unsent, self.count_unsent()
        if not self.unsent or self.unsent < before:
            self.taken_at = now
        idle_s = IDLE_S if self.browser else HEAD_S
        limits: dict[Phase, float] = {"head": HEAD_S, "body": BODY_S, "idle": idle_s}
        return now - self.taken_at > ANSWER_S or now - self.since > limits.get(self.phase, float("inf"))


class Visitors:
    """The connections to one address of the console, in the order in which they came."""

    def __init__(self, find_browser: FindBrowser, find_last_paired: Callable[[], str], name_groups: NameGroups) -> None:
        self.find_browser, self.find_last_paired, self.name_groups = find_browser, find_last_paired, name_groups
        self.present: dict[Visit, None] = {}
        self.groups_named_at = float("-inf")

    @property
    def strangers(self) -> list[Visit]:
        return [visit for visit in self.present if not visit.browser]

    def enter(self, visit: Visit) -> bool:
        """Take a connection in; return whether the strangers must be thinned out in a moment."""
        self.present[visit] = None
        strangers = self.strangers
        if len(strangers) > MAX_CROWD:
            self.dismiss(strangers[0])
        return len(strangers) > MAX_STRANGERS

    def leave(self, visit: Visit) -> None:
        self.present.pop(visit, None)

    def dismiss(self, visit: Visit) -> None:
        self.leave(visit)
        visit.end()

    def thin_out(self) -> None:
        strangers = self.strangers
        for visit in strangers[: max(0, len(strangers) - MAX_STRANGERS)]:
            self.dismiss(visit)

    def admit(self, visit: Visit, cookies: Mapping[str, str]) -> bool:
        """Give a request the class that its cookie makes; return False if its browser has too many."""
        browser = self.find_browser(cookies)
        visit.browser = ""
        if browser and not self.has_room(browser) and not self.end_idle(browser):
            return False
        visit.browser = browser
        return True

    def has_room(self, browser: str) -> bool:
        count = Counter(visit.browser for visit in self.present if visit.browser)
        last, total = self.find_last_paired(), count.total()
        others = total - count[last]
        is_full = total >= MAX_PAIRED or (browser != last and others >= MAX_PAIRED - RESERVED_FOR_LAST)
        return not is_full and count[browser] < MAX_OF_BROWSER

    def end_idle(self, browser: str) -> bool:
        oldest = next((each for each in self.present if each.browser == browser and each.phase == "idle"), None)
        if oldest is not None:
            self.dismiss(oldest)
        return oldest is not None

    def end_overdue(self, now: float) -> None:
        for visit in [visit for visit in self.present if visit.is_overdue(now)]:
            self.dismiss(visit)

    def end_surplus(self, strangers: Sequence[Visit], groups: Sequence[str]) -> None:
        count = Counter(groups)
        for visit, group in zip(strangers, groups, strict=True):
            if count[group] > MAX_OF_GROUP and visit in self.present and not visit.browser:
                count[group] -= 1
                self.dismiss(visit)


class Doorkeeper:
    """Visitors of an address over time, in an event loop."""

    def __init__(self, visitors: Visitors) -> None:
        self.visitors = visitors
        self.loop: asyncio.AbstractEventLoop | None = None
        self.is_looking = self.is_thinning = False
        self.naming: asyncio.Task[None] | None = None

    def take_in(self, visit: Visit) -> None:
        loop = self.loop = asyncio.get_running_loop()
        if self.visitors.enter(visit) and not self.is_thinning:
            self.is_thinning = True
            loop.call_later(GRACE_S, self.thin_out)
        if not self.is_looking:
            self.is_looking = True
            loop.call_later(LOOK_INTERVAL_S, self.look)

    def thin_out(self) -> None:
        self.is_thinning = False
        self.visitors.thin_out()

    def look(self) -> None:
        """End what is overdue, and look again as long as somebody is here."""
        assert self.loop is not None
        now = self.loop.time()
        self.visitors.end_overdue(now)
        is_crowded = len(self.visitors.strangers) > MAX_OF_GROUP
        if is_crowded and now - self.visitors.groups_named_at > GROUPS_INTERVAL_S:
            self.visitors.groups_named_at = now
            self.naming = self.loop.create_task(self.end_surplus())
        self.is_looking = bool(self.visitors.present)
        if self.is_looking:
            self.loop.call_later(LOOK_INTERVAL_S, self.look)

    async def end_surplus(self) -> None:
        assert self.loop is not None
        strangers = self.visitors.strangers
        clients = [visit.client for visit in strangers]
        groups = await self.loop.run_in_executor(None, self.visitors.name_groups, clients)
        self.visitors.end_surplus(strangers, groups)

    @property
    def protocol(self) -> type[asyncio.Protocol]:
        """What makes a protocol for each connection, for uvicorn."""
        return cast("type[asyncio.Protocol]", partial(VisitorProtocol, doorkeeper=self))


class HeadReader(h11.Connection):
    """HTTP of one connection, which tells of a request's head before anything behind it is looked at."""

    def __init__(self, take_head: Callable[[h11.Request], None], take_end: Callable[[], None]) -> None:
        super().__init__(h11.SERVER, MAX_HEAD_BYTES)
        self.take_head, self.take_end = take_head, take_end

    def next_event(self) -> Any:
        event = super().next_event()
        if isinstance(event, h11.Request):
            self.take_head(event)
        elif isinstance(event, h11.EndOfMessage):
            self.take_end()
        return event


class VisitorProtocol(H11Protocol):
    """HTTP of a client that the doorkeeper knows."""

    visit: Visit

    def __init__(self, *arguments: Any, doorkeeper: Doorkeeper, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.doorkeeper = doorkeeper
        self.refusal = (400, "this is no HTTP request")
        self.conn = HeadReader(self.take_head, self.take_end)

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        client = self.client or ("", 0)
        self.visit = Visit(client, transport.abort, self.loop.time(), transport.get_write_buffer_size)
        self.doorkeeper.take_in(self.visit)

    def connection_lost(self, exc: Exception | None) -> None:
        self.doorkeeper.visitors.leave(self.visit)
        super().connection_lost(exc)

    def begin(self, phase: Phase) -> None:
        self.visit.begin(phase, self.loop.time())

    def data_received(self, data: bytes) -> None:
        if self.visit.phase == "idle":
            self.begin("head")
        super().data_received(data)

    def on_response_complete(self) -> None:
        self.begin("idle")
        super().on_response_complete()
        if self.visit.phase == "idle" and self.conn.trailing_data[0]:  # the next head has begun
            self.begin("head")

    def take_head(self, request: h11.Request) -> None:
        """Let a request in by its cookie. Raises RemoteProtocolError."""
        self.begin("body")
        named = [value.decode("latin-1") for name, value in request.headers if name == b"cookie"]
        is_let_in = self.doorkeeper.visitors.admit(self.visit, cookie_parser("; ".join(named)))
        size = len(request.target) + sum(len(name) + len(value) for name, value in request.headers)
        if not is_let_in:
            self.refuse(TOO_MANY)
        elif size > MAX_STRANGERS_HEAD_BYTES and not self.visit.browser:
            self.refuse(TOO_LONG)

    def take_end(self) -> None:
        self.begin("idle" if self.cycle.response_complete else "answer")

    def refuse(self, refusal: tuple[int, str]) -> None:
        self.refusal = refusal
        raise h11.RemoteProtocolError(refusal[1])

    def send_400_response(self, msg: str) -> None:  # uvicorn calls it for every request that it cannot read
        status, words = self.refusal
        body = f"{words or msg}\n".encode()
        headers = [("content-type", "text/plain; charset=utf-8"), ("content-length", str(len(body)))]
        answer = h11.Response(status_code=status, headers=[*headers, ("connection", "close")])
        try:
            for event in (answer, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:  # in the middle of an answer
            self.transport.abort()
        self.transport.close()


UNKNOWN = "a process that cannot be seen"


def name_worlds(server_port: int, clients: Sequence[tuple[str, int]]) -> list[str]:
    """Return the process namespace of the client of each connection to this port."""
    inodes = list_client_sockets(server_port)
    wanted = {inode: port for (_, port) in clients if (inode := inodes.get(port))}
    worlds: dict[int, str] = {}
    for pid in list_own_processes():
        found = [wanted[target] for _, target in list_open(pid) or () if target in wanted]
        if found:
            world = read_link(f"/proc/{pid}/ns/pid") or UNKNOWN
            worlds |= {port: world for port in found if port not in worlds}
    return [worlds.get(port, UNKNOWN) for _, port in clients]


def list_client_sockets(server_port: int) -> dict[int, str]:
    found: dict[int, str] = {}
    with suppress(Incomplete):  # who cannot be told has the world of those that cannot be seen
        for row in read_connections(server_port):
            if row[2].endswith(f":{server_port:04X}") and row[9] != "0":
                found[int(row[1].rpartition(":")[2], 16)] = f"socket:[{row[9]}]"
    return found
