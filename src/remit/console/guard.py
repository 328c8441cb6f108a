"""Access rules: exact host and origin, a paired browser for reading, a signature by the browser's key for writing, and
the door's word about the processes that hold the client's end of the connection. The daemon looks at the last two.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias, TypeVar
from urllib.parse import urlsplit

from msgspec import DecodeError, Struct, ValidationError, json
from starlette.requests import Request
from starlette.responses import Response

from remit.console.line import Claim, Decides, Ends, PeerClaim, Verdict, WriteClaim
from remit.console.pairing import Login, Logins, PairedBrowser, Pairing, Role
from remit.core.acts import Act
from remit.core.python_runtime import prepare_type

T = TypeVar("T")

RunClaim: TypeAlias = Callable[[Callable[[Claim], Verdict], Claim], Awaitable[Verdict]]

ALLOWED = 200
COOKIE = "remit_read"
MAX_BODY_BYTES = 1 << 20
BODY_TIMEOUT_S = 10.0
MAX_QUERY_BYTES = 8 << 10
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
        "connect-src 'self'; worker-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types remit"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""Headers of every response. No inline script and no inline style may run."""


class Refused(Exception):
    """A request that the console does not answer. `fix` is the next step."""

    def __init__(self, status: int, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.fix = fix


PAIR_FIX = "run `remit serve` in a terminal, and open the link that it prints"


class Guard(Struct, frozen=True):
    """The rules of a console."""

    pairing: Pairing
    port: int
    decider: Decides
    logins: Logins | None = None

    @property
    def origin(self) -> str:
        return f"http://{self.pairing.state.host_name}:{self.port}"

    @property
    def headers(self) -> Mapping[str, str]:
        return HEADERS

    @property
    def has_login(self) -> bool:
        """Whether people log in here; else browsers are paired by a link."""
        return False

    def read_host(self, request: Request) -> str:
        """Return the host that the client asked for."""
        return request.headers.get("host", "")

    def is_entered_from_elsewhere(self, request: Request) -> bool:
        """Return whether a page of another site may lead to this address."""
        return False

    def check_request(self, request: Request) -> None:
        """Check what holds for every request: host, fetch metadata, sizes. Raises Refused."""
        if self.read_host(request) != urlsplit(self.origin).netloc:
            raise Refused(421, "this address is not the console's", f"open {self.origin}")
        site = request.headers.get("sec-fetch-site", "none")
        if site not in ("same-origin", "none") and not self.is_entered_from_elsewhere(request):
            raise Refused(403, "another site asked", f"open {self.origin} itself")
        if len(request.scope.get("query_string", b"")) > MAX_QUERY_BYTES:
            raise Refused(414, "the address is too long", "take something out of the query")

    def find_reader(self, request: Request) -> PairedBrowser:
        """Return the paired browser that asks. Raises Refused."""
        reader = self.pairing.find_reader(request.cookies.get(COOKIE, ""))
        if reader is None:
            raise Refused(401, "this browser is not paired with the console", PAIR_FIX)
        return reader

    def list_logins(self) -> list[Login]:
        return self.logins.list_all() if self.logins else []

    def is_reader(self, request: Request) -> bool:
        """Return whether the request's browser may read, as of now."""
        try:
            self.find_reader(request)
        except Refused:
            return False
        return True

    def check_same_origin(self, request: Request) -> None:
        """Check that a page of the console itself asks. Raises Refused."""
        if request.headers.get("origin") != self.origin:
            raise Refused(403, "the request does not come from a page of the console", f"open {self.origin}")
        if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
            raise Refused(403, "another site asked", f"open {self.origin} itself")

    async def read_body(self, request: Request) -> bytes:
        blocks: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                async for block in request.stream():
                    size += len(block)
                    if size > MAX_BODY_BYTES:
                        raise Refused(413, "the request is too large", f"send at most {MAX_BODY_BYTES} bytes")
                    blocks.append(block)
        except TimeoutError:
            raise Refused(408, "the request came too slowly", "send it again") from None
        return b"".join(blocks)

    async def check_write(
        self, request: Request, run: RunClaim, act: Act | Callable[[bytes], Act], role: Role = "admin"
    ) -> bytes:
        """Return the body of a request that may write what needs the role. Raises Refused. `run` calls a function in a
        worker thread; `act` may be chosen from the body.
        """
        self.check_same_origin(request)
        reader = self.find_reader(request)
        body = await self.read_body(request)
        claim = WriteClaim(
            ends=self.find_ends(request),
            method=request.method,
            target=request.url.path,
            body_sha256=hashlib.sha256(body).hexdigest(),
            proof=request.headers.get("remit-proof", ""),
            reader=reader.id,
            role=role,
            act=(act if isinstance(act, Act) else act(body)).name,
        )
        await self.ask(claim, run)
        return body

    async def check_peer(self, request: Request, run: RunClaim, act: Act, action: str) -> None:
        """Check that a person asks, by the processes that hold the connection. Raises Refused."""
        await self.ask(PeerClaim(self.find_ends(request), act.name, action), run)

    async def ask(self, claim: Claim, run: RunClaim) -> Verdict:
        """Let a claim be decided. Raises Refused."""
        verdict = await run(self.decider.decide, claim)
        if verdict.status != ALLOWED:
            raise Refused(verdict.status, verdict.message, verdict.fix)
        return verdict

    def find_ends(self, request: Request) -> Ends:
        host, port = request.client or ("", 0)
        server: tuple[str, int | None] = request.scope.get("server") or ("", None)
        return Ends(host, port, server[0], server[1] or self.port, self.has_login)


def add_headers(response: Response, headers: Mapping[str, str] = HEADERS) -> Response:
    for name, value in headers.items():
        response.headers.setdefault(name, value)
    response.headers.setdefault("cache-control", "no-store")
    return response


def decode_body(body: bytes, shape: type[T]) -> T:
    try:
        return json.decode(body, type=prepare_type(shape))
    except (DecodeError, ValidationError) as error:
        raise Refused(400, f"the request cannot be read: {error}") from None
